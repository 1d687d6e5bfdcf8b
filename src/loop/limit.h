/*
 * Limits: how many operations of one kind may run at once, with a fair first-come queue.
 *
 * A limit is a counter with a queue of waiting tickets; a ticket is embedded in its owner. O(1).
 */
#pragma once

#include <stdbool.h>

#include "loop/loop.h"

struct limit_ticket {
    struct limit *limit; /* set while waiting or holding */
    struct limit_ticket *next, *prev;
    bool holding;
    void (*granted)(void *user);
    void *user;
};

struct limit {
    struct loop *loop;
    const char *name;
    int max;
    int in_use;
    int waiting;
    struct limit_ticket *head, *tail;
    struct timer wake;
};

void limit_init(struct limit *l, struct loop *loop, const char *name, int max);
void limit_set_max(struct limit *l, int max);
/* Waiting tickets are dropped without being granted. */
void limit_done(struct limit *l);
/* granted(user) runs from the loop (never inside this call) once a place is free. */
void limit_take(struct limit *l, struct limit_ticket *t, void (*granted)(void *user), void *user);
/* Gives the place back, or leaves the queue. No effect on an unused ticket. */
void limit_release(struct limit_ticket *t);
