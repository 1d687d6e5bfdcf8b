/*
 * What the files of the budget share: budget.c (feeds, loads, windows) and budget_queue.c (who
 * waits, who is next).
 */
#pragma once

#include "engine/budget.h"

enum { MS_PER_MIN = 60000 };

struct heap {
    struct budget_place **items;
    int count, capacity;
};
void heap_put(struct heap *h, struct budget_place *p, int64_t key, void *owner); /* or moves it */
void heap_drop(struct heap *h, struct budget_place *p); /* in none: no effect */
void *heap_first(const struct heap *h);                 /* owner of the least key, or NULL */

struct feed {
    char *name;
    int64_t rated_w, usable_w, ramp;
    int parent;
    int64_t reserved_w, peak_w;
    int waiting, unknown;
    int64_t tokens, burst; /* in W * MS_PER_MIN, so that a ms brings `ramp` of them */
    int64_t filled_at;
    struct heap parked;      /* racks that wait for this feed, by turn */
    struct budget_place due; /* when the ramp lets the first of them go */
    bool dirty;
    int next_dirty;
};

struct rack {
    int feed;
    struct budget_load *head, *tail;
    int count;
    int64_t turn;
    int parked_at; /* feed, -1: not parked */
    int from;      /* the feed it was woken from */
    struct budget_place park;
};

struct budget {
    struct feed *feeds;
    int feed_count;
    struct rack *racks;
    int rack_count;
    struct budget_times times;
    struct heap loads_due, feeds_due;
    struct heap ready; /* racks to be tried, by turn */
    int dirty;         /* first of the feeds that may have room for a rack parked there, -1 */
    int64_t turns, now;
    uint64_t asked;
};

/* budget_queue.c */
void feed_dirty(struct budget *b, int feed);
void queue_leave(struct budget_load *l);
void queue_enter(struct budget_load *l);
void queue_serve(struct budget *b, void (*changed)(struct budget_load *l, bool granted, void *user),
                 void *user);
/* budget.c: the sums of the load's feeds follow its state. */
void load_enter(struct budget_load *l, enum load_state s, int64_t until);
