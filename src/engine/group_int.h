/*
 * What the files of groups share.
 */
#pragma once

#include "base/strbuf.h"
#include "checks/tournament.h"
#include "engine/group.h"
#include "engine/node.h"
#include "engine/transfer.h"

/* Which nodes belong together, and how they measure: copied from the step, whose definition may be
 * replaced by an apply. */
struct group_key {
    char *stage, *class_name, *scope;
    int step;
    char *rack; /* of scope rack: its name, "" without one; NULL: whatever rack */
};

struct group_way {
    char *server, *client, *measure, *floor_var, *floor;
    int64_t timeout_ms, gather_ms;
    int rounds, quorum_percent, at_once;
};

/* A member's place: run->priv of its step. */
struct seat {
    struct group_part part; /* first */
    struct step_run *run;
    int64_t since;
    struct group *group;       /* where it waits; NULL: */
    struct group_run *measure; /* where it measures */
    int entry;                 /* its place there */
    struct seat *next, *prev;  /* in the group, in the order of joining */
};

/* Members that wait for the others. */
struct group {
    struct engine *engine;
    struct group *next, **link;
    struct group_key key;
    struct group_way way;
    struct seat *head, *tail;
    int joined;
    struct err failed; /* it cannot be: the members are told, a few at a time */
    int64_t joined_at; /* the last one */
    int64_t *ids;      /* of the nodes that belong to it, in the order of the spec */
    int id_count, cursor;
    int64_t revision; /* that `ids` is of */
    int64_t began_at;
    struct timer timer;
    char awaited[160];
};

enum bout_state { BOUT_WAITS, BOUT_READY, BOUT_RUNS, BOUT_OVER };

struct group_bout {
    int a, b; /* entries; a serves, b calls */
    int round, rail;
    enum bout_state state;
    bool bad, measured;  /* measured: it tells something of the two */
    double value, limit; /* NaN: none */
    char metric[48], unit[16];
    char *why; /* no figure: what happened */
    struct group_run *run;
    struct transfer *transfer;
};

struct group_entry {
    int64_t node;
    int64_t attempt;   /* 0: it lent itself */
    struct seat *seat; /* NULL: it lent itself, or is gone */
    bool gone;         /* it left, or could not be worked with */
    char *fault;       /* why it could not; else NULL */
    int turn;          /* its next bout */
    bool ended;        /* its step was told */
};

struct group_run {
    struct engine *engine;
    struct group_run *next, **link;
    int64_t id, at;
    struct group_key key;
    struct group_way way;
    int rails;
    struct group_entry *entries;
    int capacity, count, members; /* members: those with an attempt, first */
    struct group_bout *bouts;
    int bout_count, over;
    int *turns; /* entry e's bout of turn t: turns[t * count + e], -1: it sits out */
    int turn_count;
    int *ready, ready_head, ready_count; /* bouts whose both sides are free */
    int in_flight;
    int64_t lent_to; /* the node id by which helpers are marked */
    char *left_out;
    int written, told; /* how far forming and ending came */
    bool formed;       /* it is in the store: scripts may start */
    bool started;
    struct timer timer;
    struct op *sync;
    struct judgement *verdicts; /* per entry, of the rail that is worst */
    int *worst_rail;
};

/* A member of a run that goes on after a restart. */
struct comeback {
    struct group_run *run;
    int entry;
};

struct groups {
    struct group *gathering;
    struct group_run *running;
    struct map *comebacks; /* node id -> struct comeback, until members had time to come */
    struct timer timer;
};

struct groups *groups_of(struct engine *e);

/* group.c */
void group_key_copy(struct group_key *to, const struct group_key *from);
void group_key_done(struct group_key *key);
bool group_key_same(const struct group_key *a, const struct group_key *b);
void group_way_read(struct group_way *way, const struct step_def *def);
void group_way_copy(struct group_way *to, const struct group_way *from);
void group_way_done(struct group_way *way);
/* "rack r1", "class hgx" */
void group_name(const struct group_key *key, char *ret, size_t size);

/* group_run.c */
/* Takes the seats out of the group; helpers are nodes that lend themselves. */
struct group_run *group_run_new(struct group *g, struct enode **helpers, int helper_count,
                                const char *left_out);
/* Lays the bouts out once the entries are there. */
void group_run_lay_out(struct group_run *r);
void group_run_pump(struct group_run *r);
/* The entry takes no further part. */
void group_run_out(struct group_run *r, int entry, const char *fault);
void group_run_free(struct group_run *r);
void group_run_link(struct group_run *r);
/* Marks the nodes that lend themselves, or gives them back. */
void group_run_lend(struct group_run *r, bool lend);
/* The bout has its figure, or none; what waited for it goes on. */
void group_bout_over(struct group_run *r, int bout);
const char *group_entry_name(const struct group_run *r, int entry);

/* group_end.c */
void group_run_judge(struct group_run *r);
/* Tells the members, a few at a time, and frees it. */
void group_run_end(void *group_run);

/* group_load.c */
void group_run_save(struct group_run *r, const char *status, const char *text);
void group_save_member(struct group_run *r, int entry, const char *verdict, const char *why);
void group_save_bout(struct group_run *r, int bout);
/* After a restart: the seat's place in a run that goes on; false: there is none. */
bool group_run_rejoin(struct seat *seat);
void group_comebacks_free(struct engine *e);
