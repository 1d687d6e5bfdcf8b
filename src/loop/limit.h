/*
 * Limits: how many operations of one kind may run at once, with fair queues.
 *
 * A limit is a counter with queues of waiting tickets; a ticket is embedded in its owner. Tickets
 * wait in lanes (one a rack): lanes take turns, and within a lane the first come is the first
 * served, so that a rack with many machines does not keep the others waiting. A lane may have a
 * limit of its own. Everything is O(1), whatever waits; limit_set_lane_max() is O(lanes).
 */
#pragma once

#include <stdbool.h>

#include "loop/loop.h"

struct limit_ticket {
    struct limit *limit; /* set while waiting or holding */
    struct limit_ticket *next, *prev;
    int lane;
    bool holding;
    void (*granted)(void *user);
    void *user;
};

struct limit_lane {
    struct limit_ticket *head, *tail;
    int in_use;
    int next, prev; /* in the ring; -1: nobody waits, or the lane is full */
};

struct limit {
    struct loop *loop;
    const char *name;
    int max;
    int lane_max; /* 0: none */
    int in_use;
    int waiting;
    struct limit_lane *lanes;
    int lane_count;
    int turn; /* the lane that is next; -1: nobody can be served */
    struct timer wake;
};

void limit_init(struct limit *l, struct loop *loop, const char *name, int max);
void limit_set_max(struct limit *l, int max);
/* At most so many of one lane at once; 0: as many as the limit allows. */
void limit_set_lane_max(struct limit *l, int lane_max);
/* Waiting tickets are dropped without being granted. */
void limit_done(struct limit *l);
/* granted(user) runs from the loop (never inside this call) once a place is free. */
void limit_take(struct limit *l, struct limit_ticket *t, void (*granted)(void *user), void *user);
/* The same in a lane of its own: 0, 1, 2, ... (limit_take() uses 0). */
void limit_take_lane(struct limit *l, int lane, struct limit_ticket *t, void (*granted)(void *user),
                     void *user);
/* Holds a place at once, also beyond the limit: for what was running before a restart. */
void limit_force(struct limit *l, int lane, struct limit_ticket *t);
/* Gives the place back, or leaves the queue. No effect on an unused ticket. */
void limit_release(struct limit_ticket *t);
