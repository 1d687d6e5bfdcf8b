#include "loop/loop.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

enum { SIGNALS_MAX = 8 };

struct signal_handler {
    uv_signal_t handle;
    void (*fn)(int signum, void *user);
    void *user;
};

struct loop {
    bool is_virtual;
    bool stopped;
    int64_t now;
    int64_t wall_offset; /* virtual, or at another speed: wall = now + offset */
    double speed;        /* 1: real time */
    int64_t origin_us;   /* clock_mono_us() when the speed was set */
    struct timer **heap; /* by (due, seq) */
    int count, capacity;
    uint64_t seq;
    int watches;
    int64_t worst_lag;
    struct latency lag; /* of callbacks */
    uv_loop_t uv;
    uv_timer_t uv_timer;
    struct signal_handler *signals[SIGNALS_MAX];
    int signal_count;
};

/* ---- timer heap ---- */

static bool before(const struct timer *a, const struct timer *b)
{
    return a->due != b->due ? a->due < b->due : a->seq < b->seq;
}

static void place(struct loop *l, int i, struct timer *t)
{
    l->heap[i] = t;
    t->index = i;
}

static void sift_up(struct loop *l, int i)
{
    struct timer *t = l->heap[i];
    while (i > 0 && before(t, l->heap[(i - 1) / 2])) {
        place(l, i, l->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    place(l, i, t);
}

static void sift_down(struct loop *l, int i)
{
    struct timer *t = l->heap[i];
    for (;;) {
        int child = 2 * i + 1;
        if (child >= l->count)
            break;
        if (child + 1 < l->count && before(l->heap[child + 1], l->heap[child]))
            child++;
        if (!before(l->heap[child], t))
            break;
        place(l, i, l->heap[child]);
        i = child;
    }
    place(l, i, t);
}

static void heap_remove(struct loop *l, int i)
{
    struct timer *last = l->heap[--l->count];
    if (i < l->count) {
        place(l, i, last);
        sift_up(l, i);
        sift_down(l, last->index);
    }
}

static int64_t now_of(const struct loop *l)
{
    if (l->speed == 1)
        return clock_mono_ms();
    double passed = (double)(clock_mono_us() - l->origin_us) * l->speed;
    return (l->origin_us + (int64_t)passed) / 1000;
}

static void on_uv_timer(uv_timer_t *handle);

static void arm_uv(struct loop *l)
{
    if (l->is_virtual)
        return;
    if (l->count == 0) {
        (void)uv_timer_stop(&l->uv_timer);
        return;
    }
    int64_t delay = l->heap[0]->due - now_of(l);
    if (l->speed != 1 && delay > 0)
        delay = (int64_t)ceil((double)delay / l->speed);
    /* never 0: libuv would call it again at once, and neither I/O nor a stop would get a turn */
    (void)uv_timer_start(&l->uv_timer, on_uv_timer, delay > 0 ? (uint64_t)delay : 1, 0);
}

void timer_set(struct loop *loop, struct timer *t, int64_t delay_ms, timer_fn fn, void *user)
{
    timer_cancel(t);
    t->loop = loop;
    t->fn = fn;
    t->user = user;
    t->due = loop_now(loop) + (delay_ms > 0 ? delay_ms : 0);
    t->seq = ++loop->seq;
    ARRAY_GROW(loop->heap, loop->count, loop->capacity);
    place(loop, loop->count++, t);
    sift_up(loop, t->index);
    if (loop->heap[0] == t)
        arm_uv(loop);
}

int64_t loop_least(const struct loop *loop, int64_t ms, int64_t least_ms)
{
    double least = (double)(least_ms < ms ? least_ms : ms) * loop->speed;
    return loop->speed > 1 && least > (double)ms ? (int64_t)least : ms;
}

void timer_set_least(struct loop *loop, struct timer *t, int64_t delay_ms, int64_t least_ms,
                     timer_fn fn, void *user)
{
    timer_set(loop, t, loop_least(loop, delay_ms, least_ms), fn, user);
}

void timer_cancel(struct timer *t)
{
    if (t->loop == NULL)
        return;
    struct loop *l = t->loop;
    t->loop = NULL;
    heap_remove(l, t->index);
}

static void note_lag(struct loop *l, int64_t started)
{
    if (l->is_virtual)
        return;
    int64_t took = clock_mono_us() - started;
    latency_add(&l->lag, took);
    if (took / 1000 > l->worst_lag)
        l->worst_lag = took / 1000;
}

/* Runs the timers that are due now; those that they arm wait for the next turn. */
static void run_due(struct loop *l)
{
    uint64_t limit = l->seq;
    while (l->count > 0 && !l->stopped) {
        struct timer *t = l->heap[0];
        if (t->due > l->now || t->seq > limit)
            break;
        timer_cancel(t);
        int64_t started = l->is_virtual ? 0 : clock_mono_us();
        t->fn(t->user);
        note_lag(l, started);
    }
}

static void on_uv_timer(uv_timer_t *handle)
{
    struct loop *l = handle->data;
    l->now = now_of(l);
    run_due(l);
    arm_uv(l);
}

/* ---- life ---- */

static struct loop *loop_alloc(bool is_virtual)
{
    struct loop *l = xcalloc(1, sizeof *l);
    l->is_virtual = is_virtual;
    l->speed = 1;
    return l;
}

struct loop *loop_new(void)
{
    struct loop *l = loop_alloc(false);
    /* a peer that goes away must be an error of one write, not the end of the process */
    (void)signal(SIGPIPE, SIG_IGN);
    if (uv_loop_init(&l->uv) != 0 || uv_timer_init(&l->uv, &l->uv_timer) != 0)
        abort();
    l->uv_timer.data = l;
    l->now = clock_mono_ms();
    return l;
}

struct loop *loop_new_virtual(int64_t wall_start_ms)
{
    struct loop *l = loop_alloc(true);
    l->wall_offset = wall_start_ms;
    return l;
}

void loop_set_speed(struct loop *loop, double speed)
{
    if (loop->is_virtual || speed <= 0)
        return;
    loop->speed = speed;
    loop->origin_us = clock_mono_us();
    loop->wall_offset = clock_wall_ms() - loop->origin_us / 1000;
    loop->now = now_of(loop);
}

int loop_free(struct loop *loop)
{
    if (loop == NULL)
        return 0;
    int left = loop->count + loop->watches;
    for (int i = 0; i < loop->count; i++) {
        log_warn("loop.dangling", "a timer is still armed, due in %lld ms",
                 (long long)(loop->heap[i]->due - loop->now));
        loop->heap[i]->loop = NULL;
    }
    if (loop->watches > 0)
        log_warn("loop.dangling", "%d descriptors are still watched", loop->watches);
    if (!loop->is_virtual) {
        uv_close((uv_handle_t *)&loop->uv_timer, NULL);
        for (int i = 0; i < loop->signal_count; i++)
            uv_close((uv_handle_t *)&loop->signals[i]->handle, NULL);
        (void)uv_run(&loop->uv, UV_RUN_NOWAIT);
        (void)uv_run(&loop->uv, UV_RUN_NOWAIT);
        (void)uv_loop_close(&loop->uv);
        for (int i = 0; i < loop->signal_count; i++)
            free(loop->signals[i]);
    }
    free(loop->heap);
    free(loop);
    return left;
}

struct uv_loop_s *loop_uv(struct loop *loop)
{
    return loop->is_virtual ? NULL : &loop->uv;
}

int64_t loop_now(const struct loop *loop)
{
    return loop->is_virtual ? loop->now : now_of(loop);
}

int64_t loop_wall(const struct loop *loop)
{
    return loop->is_virtual || loop->speed != 1 ? loop_now(loop) + loop->wall_offset
                                                : clock_wall_ms();
}

const struct latency *loop_lag(const struct loop *loop)
{
    return &loop->lag;
}

int64_t loop_worst_lag(struct loop *loop)
{
    int64_t lag = loop->worst_lag;
    loop->worst_lag = 0;
    return lag;
}

/* ---- run ---- */

static void run_virtual(struct loop *l, int64_t until)
{
    while (!l->stopped && l->count > 0 && l->heap[0]->due <= until) {
        if (l->heap[0]->due > l->now)
            l->now = l->heap[0]->due;
        run_due(l);
    }
    if (until != INT64_MAX && !l->stopped && l->now < until)
        l->now = until;
}

void loop_run(struct loop *loop)
{
    loop->stopped = false;
    if (loop->is_virtual)
        run_virtual(loop, INT64_MAX);
    else
        while (!loop->stopped && uv_run(&loop->uv, UV_RUN_ONCE) != 0)
            ;
}

void loop_stop(struct loop *loop)
{
    loop->stopped = true;
    if (!loop->is_virtual)
        uv_stop(&loop->uv);
}

static void stop_cb(void *user)
{
    loop_stop(user);
}

void loop_run_for(struct loop *loop, int64_t ms)
{
    if (loop->is_virtual) {
        loop->stopped = false;
        run_virtual(loop, loop->now + ms);
        return;
    }
    struct timer end = {0};
    timer_set(loop, &end, ms, stop_cb, loop);
    loop_run(loop);
    timer_cancel(&end);
}

/* ---- descriptors ---- */

struct poll_handle {
    uv_poll_t poll;
    struct watch *owner; /* NULL once stopped */
    struct loop *loop;
};

static void on_poll_closed(uv_handle_t *handle)
{
    free(container_of((uv_poll_t *)handle, struct poll_handle, poll));
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct poll_handle *p = container_of(handle, struct poll_handle, poll);
    struct watch *w = p->owner;
    if (w == NULL)
        return;
    /* an error shows as readable and writable: the owner's read or write then says which */
    int ready = status < 0 ? WATCH_READ | WATCH_WRITE : 0;
    if (events & (UV_READABLE | UV_DISCONNECT))
        ready |= WATCH_READ;
    if (events & UV_WRITABLE)
        ready |= WATCH_WRITE;
    int64_t started = clock_mono_us();
    struct loop *l = p->loop;
    w->fn(w->fd, ready, w->user);
    note_lag(l, started);
}

int watch_set(struct loop *loop, struct watch *w, int fd, int events, watch_fn fn, void *user,
              struct err *err)
{
    if (loop->is_virtual)
        return err_set(err, ERR_INTERNAL, "descriptors cannot be watched on virtual time");
    if (w->loop != NULL && w->fd != fd)
        watch_stop(w);
    struct poll_handle *p = w->handle;
    if (w->loop == NULL) {
        p = xcalloc(1, sizeof *p);
        int rc = uv_poll_init(&loop->uv, &p->poll, fd);
        if (rc < 0) {
            free(p);
            return err_sys(err, -rc, "watching a descriptor");
        }
        p->owner = w;
        p->loop = loop;
        w->handle = p;
        w->loop = loop;
        w->fd = fd;
        loop->watches++;
    }
    w->fn = fn;
    w->user = user;
    int mask = (events & WATCH_READ ? UV_READABLE : 0) | (events & WATCH_WRITE ? UV_WRITABLE : 0);
    int rc = mask ? uv_poll_start(&p->poll, mask, on_poll) : uv_poll_stop(&p->poll);
    return rc < 0 ? err_sys(err, -rc, "watching a descriptor") : 0;
}

void watch_stop(struct watch *w)
{
    if (w->loop == NULL)
        return;
    struct poll_handle *p = w->handle;
    w->loop->watches--;
    p->owner = NULL;
    (void)uv_poll_stop(&p->poll);
    uv_close((uv_handle_t *)&p->poll, on_poll_closed);
    *w = (struct watch){0};
}

/* ---- signals ---- */

static void on_signal(uv_signal_t *handle, int signum)
{
    struct signal_handler *h = container_of(handle, struct signal_handler, handle);
    h->fn(signum, h->user);
}

int loop_on_signal(struct loop *loop, int signum, void (*fn)(int signum, void *user), void *user,
                   struct err *err)
{
    if (loop->is_virtual || loop->signal_count == SIGNALS_MAX)
        return err_set(err, ERR_INTERNAL, "no room for a signal handler");
    struct signal_handler *h = xcalloc(1, sizeof *h);
    h->fn = fn;
    h->user = user;
    int rc = uv_signal_init(&loop->uv, &h->handle);
    if (rc == 0)
        rc = uv_signal_start(&h->handle, on_signal, signum);
    if (rc < 0) {
        free(h);
        return err_sys(err, -rc, "signal %d", signum);
    }
    loop->signals[loop->signal_count++] = h;
    return 0;
}
