/* The gate of a BMC on virtual time: a driver that is a table of what BMCs do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bmc/driver.h"

enum { ANSWER_MS = 10, SILENCE_MS = 9500, MANY = 100 };

/* What the BMCs do; by the last byte of the address. */
static struct {
    bool dead, refuses, mute; /* mute: answers no look */
    int at_once, most, started, looks;
    int64_t last_start, least_gap;
    char order[64];
} world[MANY + 1];

static int at(const struct bmc *b)
{
    return atoi(strrchr(b->address, '.') + 1);
}

static void answer(void *user)
{
    struct request *r = user;
    struct bmc *b = r->bmc;
    struct err err = {0};
    world[at(b)].at_once--;
    r->step = 0;
    if (world[at(b)].dead)
        (void)err_set(&err, ERR_TIMEOUT, "silence");
    else if (world[at(b)].refuses)
        (void)err_set(&err, ERR_AUTH, "refused the password");
    request_done(r, &err);
}

static void fake_start(struct request *r)
{
    struct bmc *b = r->bmc;
    int i = at(b);
    int64_t now = loop_now(b->hub->c.loop);
    if (world[i].started++ > 0 && now - world[i].last_start < world[i].least_gap)
        world[i].least_gap = now - world[i].last_start;
    world[i].last_start = now;
    world[i].at_once++;
    if (world[i].at_once > world[i].most)
        world[i].most = world[i].at_once;
    size_t n = strlen(world[i].order);
    if (n + 1 < sizeof world[i].order)
        world[i].order[n] = r->kind == REQ_READ ? 'r' : 'p';
    r->step = 1;
    timer_set(b->hub->c.loop, &r->timer, world[i].dead ? SILENCE_MS : ANSWER_MS, answer, r);
}

static void fake_cancel(struct request *r)
{
    if (r->step == 1)
        world[at(r->bmc)].at_once--;
    timer_cancel(&r->timer);
}

static bool fake_knows(const struct request *r)
{
    return r->kind != REQ_CHANGE;
}

static void fake_look(struct bmc *b)
{
    int i = at(b);
    world[i].looks++;
    if (!world[i].dead && !world[i].mute)
        gate_looked(b, true);
}

static const struct bmc_driver fake = {.name = "fake",
                                       .port = 1,
                                       .max = 4,
                                       .knows = fake_knows,
                                       .look_with = fake_look,
                                       .start = fake_start,
                                       .cancel = fake_cancel};
static const struct bmc_driver *const fakes[] = {&fake, NULL};

static struct loop *loop;
static struct bmc_hub *hub;
static struct bmc *bmcs[MANY + 1];
static int locks;
static struct {
    int ok, failed;
    enum err_code code;
    int64_t at;
} got[MANY + 1];

static void on_lock(const char *address, const char *credential, const char *reason, void *user)
{
    (void)address;
    (void)credential;
    (void)user;
    locks += reason != NULL;
}

static void begin(int places, int count)
{
    struct err err;
    memset(world, 0, sizeof world);
    memset(got, 0, sizeof got);
    locks = 0;
    loop = loop_new_virtual(1764547200000);
    struct bmc_hub_config c = {
        .loop = loop, .max_ops = places, .drivers = fakes, .on_lock = on_lock};
    hub = bmc_hub_new(&c, &err);
    for (int i = 1; i <= count; i++) {
        char address[20];
        (void)snprintf(address, sizeof address, "10.0.0.%d", i);
        struct bmc_target t = {.address = address, .driver = "fake", .user = "u", .password = "p"};
        world[i].least_gap = INT64_MAX;
        assert_int_equal(bmc_open(hub, &t, &bmcs[i], &err), 0);
    }
}

static void end(int count)
{
    for (int i = 1; i <= count; i++)
        bmc_close(bmcs[i]);
    bmc_hub_free(hub);
    assert_int_equal(loop_free(loop), 0);
}

static void on_done(struct op *op, void *user)
{
    int i = (int)(intptr_t)user;
    *(op_ok(op) ? &got[i].ok : &got[i].failed) += 1;
    got[i].code = op->err.code;
    got[i].at = loop_now(loop);
    op_free(op);
}

static void power_get(int i)
{
    (void)bmc_power_get(bmcs[i], 20000, on_done, (void *)(intptr_t)i);
}

static void test_one_at_a_time(void **state)
{
    (void)state;
    begin(10, 1);
    for (int i = 0; i < 20; i++)
        power_get(1);
    loop_run_for(loop, 60000);
    assert_int_equal(got[1].ok, 20);
    assert_int_equal(world[1].most, 1);
    bmcs[1]->gate.max = 3;
    for (int i = 0; i < 20; i++)
        power_get(1);
    loop_run_for(loop, 60000);
    assert_int_equal(got[1].ok, 40);
    assert_int_equal(world[1].most, 3);
    bmcs[1]->gate.max = 9; /* more than the driver can */
    for (int i = 0; i < 20; i++)
        power_get(1);
    loop_run_for(loop, 60000);
    assert_int_equal(world[1].most, 4);
    end(1);
}

static void test_gap(void **state)
{
    (void)state;
    begin(10, 2);
    bmc_hub_set_gap(hub, 50);
    bmcs[2]->gate.gap_ms = 200;
    for (int i = 0; i < 10; i++) {
        power_get(1);
        power_get(2);
    }
    loop_run_for(loop, 60000);
    assert_int_equal(got[1].ok, 10);
    assert_int_equal(got[2].ok, 10);
    assert_true(world[1].least_gap >= 50);
    assert_true(world[1].least_gap < 200);
    assert_true(world[2].least_gap >= 200);
    end(2);
}

static void test_reads_let_power_pass(void **state)
{
    (void)state;
    begin(10, 1);
    for (int i = 0; i < 3; i++)
        (void)bmc_read(bmcs[1], BMC_SENSORS, 20000, on_done, (void *)(intptr_t)1);
    power_get(1);
    power_get(1);
    loop_run_for(loop, 60000);
    assert_int_equal(got[1].ok, 5);
    assert_string_equal(world[1].order, "pprrr");
    end(1);
}

static void test_breaker(void **state)
{
    (void)state;
    begin(10, 1);
    world[1].refuses = true;
    for (int i = 0; i < 5; i++)
        power_get(1);
    loop_run_for(loop, 60000);
    assert_int_equal(got[1].failed, 5);
    assert_int_equal(got[1].code, ERR_AUTH);
    assert_int_equal(world[1].started, 1); /* one bad login, not five */
    assert_int_equal(locks, 1);
    assert_non_null(bmc_locked(bmcs[1]));
    assert_false(bmc_answers(bmcs[1]));
    world[1].refuses = false;
    bmc_unlock(bmcs[1]);
    power_get(1);
    loop_run_for(loop, 60000);
    assert_int_equal(got[1].ok, 1);
    end(1);
}

static void test_dead_and_back(void **state)
{
    (void)state;
    begin(10, 1);
    world[1].dead = true;
    power_get(1);
    loop_run_for(loop, 20000);
    assert_int_equal(got[1].failed, 1);
    assert_int_equal(got[1].code, ERR_TIMEOUT);
    assert_int_equal(bmcs[1]->gate.state, GATE_DEAD);
    /* who asks now hears of it soon, and nothing is started */
    int64_t asked = loop_now(loop);
    for (int i = 0; i < 5; i++)
        power_get(1);
    loop_run_for(loop, 20000);
    assert_int_equal(got[1].failed, 6);
    assert_true(got[1].at - asked <= 3000);
    assert_int_equal(world[1].started, 1);
    assert_int_equal(bmcs[1]->gate.queued, 0);
    /* looks become rare: an hour has at most one a minute, and some */
    int looks = world[1].looks;
    loop_run_for(loop, 3600000);
    assert_in_range(world[1].looks - looks, 40, 80);
    assert_int_equal(world[1].started, 1);
    /* it comes back by itself */
    world[1].dead = false;
    loop_run_for(loop, 80000);
    assert_int_equal(bmcs[1]->gate.state, GATE_ALIVE);
    looks = world[1].looks;
    power_get(1);
    loop_run_for(loop, 60000);
    assert_int_equal(got[1].ok, 1);
    assert_int_equal(world[1].looks, looks);
    end(1);
}

static void test_back_while_waited_for(void **state)
{
    (void)state;
    begin(10, 1);
    world[1].dead = true;
    power_get(1);
    loop_run_for(loop, 20000);
    power_get(1);
    loop_run_for(loop, 300);
    world[1].dead = false;
    loop_run_for(loop, 20000);
    assert_int_equal(got[1].failed, 1);
    assert_int_equal(got[1].ok, 1);
    end(1);
}

/* Some answer no look, but everything else. */
static void test_mute(void **state)
{
    (void)state;
    begin(10, 1);
    world[1].mute = true;
    power_get(1);
    loop_run_for(loop, 20000);
    assert_int_equal(got[1].ok, 1);
    assert_int_equal(bmcs[1]->gate.state, GATE_ALIVE);
    end(1);
}

/* Half of the BMCs are dead: the living neither wait for a place nor fail. */
static void test_dead_take_no_place(void **state)
{
    int64_t last[2];
    (void)state;
    for (int half = 0; half < 2; half++) {
        begin(5, MANY);
        for (int i = 1; half && i <= MANY / 2; i++)
            world[i].dead = true;
        int64_t asked = loop_now(loop);
        for (int i = half ? 1 : MANY / 2 + 1; i <= MANY; i++)
            for (int k = 0; k < 10; k++)
                power_get(i);
        loop_run_for(loop, 600000);
        last[half] = 0;
        for (int i = MANY / 2 + 1; i <= MANY; i++) {
            assert_int_equal(got[i].ok, 10);
            if (got[i].at - asked > last[half])
                last[half] = got[i].at - asked;
        }
        for (int i = 1; half && i <= MANY / 2; i++)
            assert_int_equal(got[i].failed, 10);
        end(MANY);
    }
    assert_int_equal(last[0], last[1]);
}

/* The time of a request runs from its turn on. */
static void test_time_from_turn(void **state)
{
    (void)state;
    begin(10, 1);
    bmc_hub_set_gap(hub, 1000);
    for (int i = 0; i < 40; i++)
        (void)bmc_power_get(bmcs[1], 10000, on_done, (void *)(intptr_t)1);
    loop_run_for(loop, 120000);
    assert_int_equal(got[1].ok, 40);
    end(1);
}

static void test_closed_and_cancelled(void **state)
{
    (void)state;
    begin(10, 1);
    struct bmc_op *running = bmc_power_get(bmcs[1], 20000, on_done, (void *)(intptr_t)1);
    struct bmc_op *waiting = bmc_power_get(bmcs[1], 20000, on_done, (void *)(intptr_t)1);
    power_get(1);
    loop_run_for(loop, 5);
    assert_int_equal(world[1].at_once, 1);
    op_cancel(&waiting->op);
    op_cancel(&running->op);
    loop_run_for(loop, 5);
    assert_int_equal(world[1].at_once, 1);
    bmc_close(bmcs[1]);
    loop_run_for(loop, 1000);
    assert_int_equal(got[1].failed, 1);
    assert_int_equal(got[1].code, ERR_CANCELLED);
    end(0);
}

static void test_unsupported_and_view(void **state)
{
    (void)state;
    begin(10, 1);
    struct bmc_change led = {.kind = BMC_SET_LED, .on = true};
    (void)bmc_change(bmcs[1], &led, 20000, on_done, (void *)(intptr_t)1);
    power_get(1);
    loop_run_for(loop, 1000);
    assert_int_equal(got[1].failed, 1);
    assert_int_equal(got[1].ok, 1);
    json_t *v = bmc_view(bmcs[1]);
    assert_string_equal(json_string_value(json_object_get(v, "state")), "alive");
    assert_int_equal(json_integer_value(json_object_get(v, "requests")), 1);
    assert_int_equal(json_integer_value(json_object_get(v, "p50_ms")), ANSWER_MS);
    json_decref(v);
    v = bmc_hub_view(hub);
    assert_int_equal(json_integer_value(json_object_get(v, "alive")), 1);
    json_decref(v);
    end(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_gap),
        cmocka_unit_test(test_reads_let_power_pass),
        cmocka_unit_test(test_breaker),
        cmocka_unit_test(test_dead_and_back),
        cmocka_unit_test(test_back_while_waited_for),
        cmocka_unit_test(test_mute),
        cmocka_unit_test(test_dead_take_no_place),
        cmocka_unit_test(test_time_from_turn),
        cmocka_unit_test(test_closed_and_cancelled),
        cmocka_unit_test(test_unsupported_and_view),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
