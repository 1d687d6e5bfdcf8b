/*
 * The power budget: how many watts the feeds of the tree (PDU, breaker, room) have promised to
 * nodes, who waits for more, and who is next.
 *
 * Pure arithmetic over integers: no I/O, and the clock is passed in (ms; any origin, never going
 * back). Used by watts.c, which writes down what is granted here before anything is switched on.
 *
 * A load is a node's account on the feed of its rack and on every feed above. What is granted by
 * asking never lifts the sum of a feed above its usable watts, and rises by no more than its ramp
 * allows; what is merely found out (budget_set: a machine that somebody switched on by hand) is
 * counted as it is, and while that exceeds a feed nothing is granted on it.
 *
 * Ramp: a token bucket a feed, empty at first, that fills by ramp_w_per_min and holds the largest
 * single step that a load on the feed may ask for. So the grants within T minutes sum up to at most
 * that step + T * ramp.
 *
 * Fairness: racks take turns, loads of a rack in the order in which they asked. A rack whose next
 * load does not fit waits at the lowest feed that has no room for it, and none with a later turn
 * may pass that feed before it; racks on other feeds go on. Since feeds are a tree, what frees the
 * feed cannot be taken away by later ones, so everybody is served once others let go.
 *
 * A grant costs O(depth of the tree + log racks); an end of a window O(depth + log loads).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/spec.h"

enum load_state {
    LOAD_OFF,
    LOAD_UNKNOWN, /* nobody knows whether it is on: counts as idle */
    LOAD_IDLE,
    LOAD_BOOT,
    LOAD_INRUSH, /* about to be switched on, or just switched on */
    LOAD_BURNIN,
    LOAD_STATES
};
const char *load_state_name(enum load_state s);
int load_state_from_name(const char *name); /* -1: no such state */

/* A place in a heap; part of its owner. */
struct budget_place {
    int64_t key;
    int at; /* from 1; 0: in no heap */
    void *owner;
};

/* Embedded in its owner; starts zeroed. Members are for reading, but for user and stays. */
struct budget_load {
    struct budget *budget; /* set while joined */
    int rack, feed;        /* feed -1: on none, everything is granted */
    struct spec_envelope envelope;
    enum load_state state;
    int64_t watts;        /* counted on its feeds now */
    int64_t until;        /* INRUSH, BOOT: when the state ends by itself; 0: not by itself */
    bool stays;           /* the boot after an inrush window does not end by itself */
    bool waiting;         /* asked, not granted */
    enum load_state want; /* while waiting */
    uint64_t asked;       /* the order of asking */
    void *user;
    struct budget_load *next, *prev; /* of its rack's queue */
    struct budget_place due;
};

struct budget;

struct budget_times {
    int64_t inrush_ms, boot_ms;
};

/* rack_feeds[i]: the feed of rack i, -1: none. Copies what it needs. */
struct budget *budget_new(const struct spec_feed *feeds, int feed_count, const int *rack_feeds,
                          int rack_count, const struct budget_times *times, int64_t now);
/* Its loads must have left. NULL allowed. */
void budget_free(struct budget *b);
/* Tokens and peaks of feeds that have the same name: for a new spec. */
void budget_inherit(struct budget *b, const struct budget *from);

/* What a state takes: never less than idle, and no state more than the one that it follows. */
int64_t budget_watts(const struct spec_envelope *e, enum load_state s);

/* Counts `l` with the state that it has on the feed of rack `rack` (-1: on none). */
void budget_join(struct budget *b, struct budget_load *l, int rack, const struct spec_envelope *e);
void budget_leave(struct budget_load *l);
/* A fact: the state is this, whatever the feeds can carry. */
void budget_set(struct budget_load *l, enum load_state s, int64_t until);
/*
 * Asks for the watts of state `want`. 1: it has them (they are no more than it holds); 0: it waits,
 * also where there is room: budget_run() grants; -1: it would never fit on feed *ret_feed.
 */
int budget_ask(struct budget_load *l, enum load_state want, int *ret_feed);
void budget_unask(struct budget_load *l);
/* Ends windows that are over and grants what fits; changed() for each load, which may call
 * budget_set() for it, and nothing else. */
void budget_run(struct budget *b, int64_t now,
                void (*changed)(struct budget_load *l, bool granted, void *user), void *user);
/* When to run again although nothing else happens; INT64_MAX: never. */
int64_t budget_next(const struct budget *b);

struct budget_usage {
    const char *name;
    int64_t rated_w; /* 0: without limit */
    int64_t usable_w, reserved_w, peak_w;
    int waiting;
    int unknown; /* loads that nobody knows to be on or off */
};
int budget_feeds(const struct budget *b);
struct budget_usage budget_usage(const struct budget *b, int feed);
/* Of a waiting load: the feed that keeps it, the watts that it lacks, and whom it waits for. Reads
 * the queues: not for every grant. */
int budget_kept_by(const struct budget_load *l, bool *ret_ramp);
int64_t budget_need(const struct budget_load *l);
int budget_before(const struct budget_load *l);

/*
 * The most that the budget would reserve on a feed for these nodes, while at most `at_once` of them
 * are more than idle (limits.installs; INT_MAX: no limit). usable_w 0: without limit. For plans.
 */
struct budget_group {
    struct spec_envelope envelope;
    int count;
    bool burnin; /* a stage of theirs asks for it */
};
int64_t budget_peak(const struct budget_group *groups, int count, int at_once, int64_t usable_w);
