/* The loop room: timers on real and virtual time, the op contract, limits, children, mailbox, work.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "loop/child.h"
#include "loop/limit.h"
#include "loop/loop.h"
#include "loop/mailbox.h"
#include "loop/op.h"
#include "loop/work.h"

struct trace {
    struct loop *loop;
    char text[256];
    int64_t at[8];
    int count;
};

static void note(struct trace *t, const char *what)
{
    strncat(t->text, what, sizeof t->text - strlen(t->text) - 1);
    if (t->count < 8)
        t->at[t->count] = loop_now(t->loop);
    t->count++;
}

static void note_a(void *user)
{
    note(user, "a");
}
static void note_b(void *user)
{
    note(user, "b");
}
static void note_c(void *user)
{
    note(user, "c");
}

static void virtual_timers_run_in_order(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(1000000);
    struct trace t = {.loop = l};
    struct timer a = {0}, b = {0}, c = {0}, d = {0};
    timer_set(l, &a, 7200000, note_a, &t);
    timer_set(l, &b, 10, note_b, &t);
    timer_set(l, &c, 10, note_c, &t);
    timer_set(l, &d, 5, note_a, &t);
    timer_cancel(&d);
    int64_t started = clock_mono_ms();
    loop_run(l);
    assert_string_equal(t.text, "bca");
    assert_int_equal(t.at[0], 10);
    assert_int_equal(t.at[2], 7200000);
    assert_int_equal(loop_wall(l), 1000000 + 7200000);
    assert_true(clock_mono_ms() - started < 5000);
    assert_int_equal(loop_free(l), 0);
}

static void many_timers_keep_order(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(0);
    enum { N = 2000 };
    static struct timer timers[N];
    struct trace t = {.loop = l};
    unsigned seed = 7;
    for (int i = 0; i < N; i++)
        timer_set(l, &timers[i], (int64_t)(rand_r(&seed) % 5000), note_a, &t);
    for (int i = 0; i < N; i += 3)
        timer_cancel(&timers[i]);
    for (int i = 0; i < N; i += 6)
        timer_set(l, &timers[i], (int64_t)(rand_r(&seed) % 9000), note_a, &t);
    loop_run(l);
    assert_int_equal(t.count, N - (N + 2) / 3 + (N + 5) / 6);
    assert_int_equal(loop_free(l), 0);
}

static void dangling_timer_is_reported(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(0);
    struct timer a = {0};
    struct trace t = {.loop = l};
    timer_set(l, &a, 5, note_a, &t);
    assert_int_equal(loop_free(l), 1);
    assert_false(timer_armed(&a));
}

static void real_timer_is_not_early(void **state)
{
    (void)state;
    struct loop *l = loop_new();
    struct trace t = {.loop = l};
    struct timer a = {0}, b = {0};
    int64_t started = clock_mono_ms();
    timer_set(l, &a, 30, note_a, &t);
    timer_set(l, &b, 10, note_b, &t);
    loop_run_for(l, 60);
    assert_string_equal(t.text, "ba");
    assert_true(t.at[0] - started >= 10);
    assert_true(t.at[1] - started >= 30);
    assert_int_equal(loop_free(l), 0);
}

/* ---- the op contract ---- */

struct test_op {
    struct op op;
    int *stops, *frees;
};

static void test_op_stop(struct op *op)
{
    ++*((struct test_op *)op)->stops;
}
static void test_op_free(struct op *op)
{
    ++*((struct test_op *)op)->frees;
    free(op);
}
static const struct op_type test_type = {"test", test_op_stop, test_op_free};

struct done_log {
    int calls;
    enum err_code code;
};
static void on_done(struct op *op, void *user)
{
    struct done_log *log = user;
    log->calls++;
    log->code = op->err.code;
    op_free(op);
}

static struct test_op *test_op_new(struct loop *l, int64_t timeout, struct done_log *log,
                                   int *stops, int *frees)
{
    struct test_op *o = xcalloc(1, sizeof *o);
    op_init(&o->op, &test_type, l, timeout, on_done, log);
    o->stops = stops;
    o->frees = frees;
    return o;
}

static void op_completes_once_and_later(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(0);
    struct done_log log = {0};
    int stops = 0, frees = 0;
    struct test_op *o = test_op_new(l, 100, &log, &stops, &frees);
    op_finish(&o->op, NULL);
    op_finish(&o->op, NULL);
    assert_int_equal(log.calls, 0);
    loop_run(l);
    assert_int_equal(log.calls, 1);
    assert_int_equal(log.code, ERR_OK);
    assert_int_equal(stops, 1);
    assert_int_equal(frees, 1);
    assert_int_equal(loop_free(l), 0);
}

static void op_deadline_ends_it(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(0);
    struct done_log log = {0};
    int stops = 0, frees = 0;
    (void)test_op_new(l, 100, &log, &stops, &frees);
    loop_run(l);
    assert_int_equal(log.code, ERR_TIMEOUT);
    assert_int_equal(stops, 1);
    assert_int_equal(frees, 1);
    assert_int_equal(loop_free(l), 0);
}

static void op_cancel_is_silent(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(0);
    struct done_log log = {0};
    int stops = 0, frees = 0;
    struct test_op *o = test_op_new(l, 100, &log, &stops, &frees);
    op_cancel(&o->op);
    o = test_op_new(l, 100, &log, &stops, &frees);
    op_finish(&o->op, NULL);
    op_cancel(&o->op);
    op_cancel(NULL);
    loop_run(l);
    assert_int_equal(log.calls, 0);
    assert_int_equal(stops, 2);
    assert_int_equal(frees, 2);
    assert_int_equal(loop_free(l), 0);
}

/* ---- limits ---- */

/* Tickets of three lanes; the order in which they were granted is kept. */
struct lane_ticket {
    struct limit_ticket ticket;
    char name;
    char *order;
};

static void note_lane(void *user)
{
    struct lane_ticket *t = user;
    size_t n = strlen(t->order);
    t->order[n] = t->name;
    t->order[n + 1] = '\0';
}

static void limit_lanes_take_turns(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(0);
    struct limit lim;
    char order[40] = "";
    struct lane_ticket t[9];
    limit_init(&lim, l, "test", 1);
    for (int i = 0; i < 9; i++) {
        t[i] = (struct lane_ticket){.name = "aaaaabbcc"[i], .order = order};
        limit_take_lane(&lim, t[i].name - 'a', &t[i].ticket, note_lane, &t[i]);
    }
    for (int i = 0; i < 9; i++) {
        loop_run(l);
        assert_int_equal(lim.in_use, 1);
        for (int j = 0; j < 9; j++)
            if (t[j].ticket.holding)
                limit_release(&t[j].ticket);
    }
    assert_string_equal(order, "abcabcaaa");
    assert_int_equal(lim.waiting, 0);
    limit_done(&lim);
    assert_int_equal(loop_free(l), 0);
}

static void limit_of_a_lane(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(0);
    struct limit lim;
    char order[40] = "";
    struct lane_ticket t[8];
    limit_init(&lim, l, "test", 4);
    limit_set_lane_max(&lim, 2);
    for (int i = 0; i < 8; i++) {
        t[i] = (struct lane_ticket){.name = (char)('0' + i), .order = order};
        if (i < 6)
            limit_take_lane(&lim, i < 5 ? 0 : 1, &t[i].ticket, note_lane, &t[i]);
    }
    loop_run(l);
    assert_string_equal(order, "051"); /* one place is free, but lane 0 has its two */
    limit_release(&t[0].ticket);
    loop_run(l);
    assert_string_equal(order, "0512");
    limit_set_lane_max(&lim, 0);
    loop_run(l);
    assert_string_equal(order, "05123");
    limit_force(&lim, 7, &t[7].ticket); /* what runs is counted, also beyond the limit */
    assert_int_equal(lim.in_use, 5);
    limit_release(&t[5].ticket);
    loop_run(l);
    assert_string_equal(order, "05123");
    limit_release(&t[7].ticket);
    loop_run(l);
    assert_string_equal(order, "051234");
    for (int i = 0; i < 8; i++)
        limit_release(&t[i].ticket);
    assert_int_equal(lim.in_use, 0);
    limit_done(&lim);
    assert_int_equal(loop_free(l), 0);
}

static void limit_grants_in_order(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(0);
    struct trace t = {.loop = l};
    struct limit lim;
    limit_init(&lim, l, "test", 1);
    struct limit_ticket a = {0}, b = {0}, c = {0};
    limit_take(&lim, &a, note_a, &t);
    limit_take(&lim, &b, note_b, &t);
    limit_take(&lim, &c, note_c, &t);
    assert_string_equal(t.text, "");
    loop_run(l);
    assert_string_equal(t.text, "a");
    limit_release(&b); /* leaves the queue */
    limit_release(&a);
    loop_run(l);
    assert_string_equal(t.text, "ac");
    limit_release(&c);
    limit_release(&c);
    assert_int_equal(lim.in_use, 0);
    limit_done(&lim);
    assert_int_equal(loop_free(l), 0);
}

/* ---- children ---- */

struct child_log {
    struct loop *loop;
    enum err_code code;
    int exit_code, signum, calls;
    char out[128], err_out[128], lines[128];
};
static void on_child(struct op *op, void *user)
{
    struct child_log *log = user;
    struct child *c = container_of(op, struct child, op);
    log->calls++;
    log->code = op->err.code;
    log->exit_code = c->exit_code;
    log->signum = c->term_signal;
    (void)snprintf(log->out, sizeof log->out, "%s", c->out.data);
    (void)snprintf(log->err_out, sizeof log->err_out, "%s", c->err_out.data);
    op_free(op);
    loop_stop(log->loop);
}
static void on_line(const char *line, void *user)
{
    struct child_log *log = user;
    strcat(log->lines, line);
    strcat(log->lines, "|");
}

static void run_child(struct child_log *log, const char *script, const char *secret, bool lines,
                      int64_t timeout)
{
    struct loop *l = loop_new();
    *log = (struct child_log){.loop = l};
    const char *argv[] = {"sh", "-c", script, NULL};
    struct child_spec spec = {.argv = argv,
                              .secret = secret,
                              .secret_len = secret ? strlen(secret) : 0,
                              .on_line = lines ? on_line : NULL,
                              .line_user = log};
    struct err err = {0};
    assert_non_null(child_start(l, &spec, timeout, on_child, log, &err));
    loop_run_for(l, 10000);
    assert_int_equal(log->calls, 1);
    loop_run_for(l, 20);
    assert_int_equal(loop_free(l), 0);
}

static void children(void **state)
{
    (void)state;
    struct child_log log;
    run_child(&log, "echo hello; echo bad >&2; exit 3", NULL, false, 5000);
    assert_int_equal(log.code, ERR_FAILED);
    assert_int_equal(log.exit_code, 3);
    assert_string_equal(log.out, "hello\n");
    assert_string_equal(log.err_out, "bad\n");

    run_child(&log, "cat /dev/fd/3; env | grep -c tops3cret", "tops3cret", false, 5000);
    assert_string_equal(log.out, "tops3cret0\n");

    run_child(&log, "echo one; printf two", NULL, true, 5000);
    assert_int_equal(log.code, ERR_OK);
    assert_string_equal(log.lines, "one|two|");

    int64_t started = clock_mono_ms();
    run_child(&log, "sleep 30 & wait", NULL, false, 100);
    assert_int_equal(log.code, ERR_TIMEOUT);
    assert_true(clock_mono_ms() - started < 5000);
}

static void child_that_does_not_exist(void **state)
{
    (void)state;
    struct loop *l = loop_new();
    struct child_log log = {.loop = l};
    const char *argv[] = {"/nonexistent/program", NULL};
    struct child_spec spec = {.argv = argv};
    struct err err = {0};
    assert_null(child_start(l, &spec, 100, on_child, &log, &err));
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "/nonexistent/program"));
    assert_int_equal(loop_free(l), 0);
}

/* ---- threads ---- */

struct box {
    struct loop *loop;
    struct mailbox *box;
    intptr_t sum;
    int ran, done;
    pthread_t loop_thread;
};
static void on_item(void *item, void *user)
{
    struct box *b = user;
    assert_true(pthread_equal(pthread_self(), b->loop_thread));
    b->sum += (intptr_t)item;
    if (b->sum == 500500)
        loop_stop(b->loop);
}
static void *poster(void *arg)
{
    struct box *b = arg;
    for (intptr_t i = 1; i <= 1000; i++)
        mailbox_post(b->box, (void *)i);
    return NULL;
}
static void work_run(void *user)
{
    struct box *b = user;
    b->ran = !pthread_equal(pthread_self(), b->loop_thread);
}
static void work_done(void *user)
{
    struct box *b = user;
    b->done = pthread_equal(pthread_self(), b->loop_thread);
    loop_stop(b->loop);
}

static void threads_reach_the_loop(void **state)
{
    (void)state;
    struct box b = {.loop = loop_new(), .loop_thread = pthread_self()};
    b.box = mailbox_new(b.loop, on_item, &b);
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, poster, &b), 0);
    loop_run_for(b.loop, 5000);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(b.sum, 500500);
    assert_int_equal(work_submit(b.loop, work_run, work_done, &b, NULL), 0);
    loop_run_for(b.loop, 5000);
    assert_true(b.ran);
    assert_true(b.done);
    mailbox_free(b.box);
    loop_run_for(b.loop, 5);
    assert_int_equal(loop_free(b.loop), 0);
}

/* ---- speed ---- */

struct fast {
    struct loop *loop;
    int64_t real_us, passed;
};

static void on_fast(void *user)
{
    struct fast *f = user;
    f->real_us = clock_mono_us() - f->real_us;
    f->passed = loop_now(f->loop) - f->passed;
    loop_stop(f->loop);
}

static void time_passes_faster(void **state)
{
    (void)state;
    struct timer t = {0};
    struct fast f = {.loop = loop_new()};
    loop_set_speed(f.loop, 1000);
    int64_t wall = loop_wall(f.loop);
    f.real_us = clock_mono_us();
    f.passed = loop_now(f.loop);
    timer_set(f.loop, &t, 60000, on_fast, &f);
    loop_run(f.loop);
    assert_true(f.passed >= 60000);
    assert_true(f.real_us >= 59000);
    assert_true(loop_wall(f.loop) - wall >= 60000);
    assert_int_equal(loop_free(f.loop), 0);
}

static void peers_get_real_time(void **state)
{
    (void)state;
    struct timer t = {0};
    struct fast f = {.loop = loop_new()};
    loop_set_speed(f.loop, 1000);
    f.real_us = clock_mono_us();
    f.passed = loop_now(f.loop);
    timer_set_least(f.loop, &t, 5000, 40, on_fast, &f);
    loop_run(f.loop);
    assert_true(f.real_us >= 39000);
    assert_int_equal(loop_free(f.loop), 0);
    /* at life's own pace it is a timer as any other */
    struct loop *v = loop_new_virtual(0);
    f = (struct fast){.loop = v};
    timer_set_least(v, &t, 5000, 8000, on_fast, &f);
    loop_run(v);
    assert_int_equal(f.passed, 5000);
    assert_int_equal(loop_free(v), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(virtual_timers_run_in_order),
        cmocka_unit_test(many_timers_keep_order),
        cmocka_unit_test(dangling_timer_is_reported),
        cmocka_unit_test(real_timer_is_not_early),
        cmocka_unit_test(op_completes_once_and_later),
        cmocka_unit_test(op_deadline_ends_it),
        cmocka_unit_test(op_cancel_is_silent),
        cmocka_unit_test(limit_grants_in_order),
        cmocka_unit_test(limit_lanes_take_turns),
        cmocka_unit_test(limit_of_a_lane),
        cmocka_unit_test(children),
        cmocka_unit_test(child_that_does_not_exist),
        cmocka_unit_test(threads_reach_the_loop),
        cmocka_unit_test(time_passes_faster),
        cmocka_unit_test(peers_get_real_time),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
