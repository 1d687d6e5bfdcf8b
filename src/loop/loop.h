/*
 * The event loop: one thread, one loop, all state. Timers, descriptors, signals, deferred calls.
 *
 * Two kinds behind one interface: loop_new() runs on libuv and real time, loop_new_virtual() has
 * only timers and deferred calls and jumps from one due time to the next, so that two hours of an
 * engine test take milliseconds. Everything here must be called on the loop's thread, except
 * mailbox_post() (mailbox.h).
 *
 * Sources are embedded in their owner (struct timer, struct watch) and start zeroed. At exit
 * loop_free() reports every source that is still registered; tests fail on one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/latency.h"

struct loop;

struct loop *loop_new(void);
struct loop *loop_new_virtual(int64_t wall_start_ms);
/* Returns how many timers and watches were still registered (each is logged). */
int loop_free(struct loop *loop);

/* Runs until loop_stop(). On virtual time: until stopped or nothing is left to do. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);
/* Runs for at most `ms` (real or virtual), then returns; for tests. */
void loop_run_for(struct loop *loop, int64_t ms);

/*
 * Rehearsals: from now on time passes `speed` times as fast, for everything that this loop times
 * and for loop_now() and loop_wall(). Before any timer is set; not on virtual time.
 */
void loop_set_speed(struct loop *loop, double speed);

/* Monotonic now and UTC now in ms, constant within one callback. */
int64_t loop_now(const struct loop *loop);
int64_t loop_wall(const struct loop *loop);
/* The longest callback since the last call, in ms: the lag metric. */
int64_t loop_worst_lag(struct loop *loop);
/* How long each callback took, of all so far: what other callbacks may have waited. */
const struct latency *loop_lag(const struct loop *loop);

typedef void (*timer_fn)(void *user);

struct timer {
    struct loop *loop; /* set while armed */
    timer_fn fn;
    void *user;
    int64_t due;
    uint64_t seq;
    int index;
};

/* (Re-)arms: fn(user) runs once, not earlier than in delay_ms. O(log timers). */
void timer_set(struct loop *loop, struct timer *t, int64_t delay_ms, timer_fn fn, void *user);
/* A time for what waits for a peer, which is no faster when time is: however fast it passes, at
 * least the smaller of `ms` and `least_ms` of real time. timer_set_least() arms with it. */
int64_t loop_least(const struct loop *loop, int64_t ms, int64_t least_ms);
void timer_set_least(struct loop *loop, struct timer *t, int64_t delay_ms, int64_t least_ms,
                     timer_fn fn, void *user);
void timer_cancel(struct timer *t); /* not armed: no effect */
static inline bool timer_armed(const struct timer *t)
{
    return t->loop != NULL;
}

enum { WATCH_READ = 1, WATCH_WRITE = 2 };
typedef void (*watch_fn)(int fd, int events, void *user);

struct watch {
    struct loop *loop; /* set while watching */
    void *handle;
    int fd;
    watch_fn fn;
    void *user;
};

/* Level-triggered readiness of fd; calling again changes the events. The fd stays the caller's,
 * who must stop watching before closing it. Not on virtual time. */
int watch_set(struct loop *loop, struct watch *w, int fd, int events, watch_fn fn, void *user,
              struct err *err);
void watch_stop(struct watch *w);

/* Calls fn(user) for each signal received while the loop runs. One handler a signal. */
int loop_on_signal(struct loop *loop, int signum, void (*fn)(int signum, void *user), void *user,
                   struct err *err);

/* The libuv loop behind it, for the other files of this room only. NULL on virtual time. */
struct uv_loop_s *loop_uv(struct loop *loop);
