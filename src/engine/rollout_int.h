/*
 * What the files of rollouts share: rollout.c (life and counting), rollout_plan.c (who goes when),
 * rollout_verbs.c (operators' verbs, loading), rollout_view.c (what is shown), admit.c (places).
 */
#pragma once

#include "base/strbuf.h"
#include "engine/node.h"
#include "engine/rollout.h"

enum rollout_status {
    ROLLOUT_RUNNING,
    ROLLOUT_PAUSED,    /* by an operator */
    ROLLOUT_STOPPED,   /* by itself: too many failed */
    ROLLOUT_CANCELLED, /* its nodes start nothing until they are asked for again */
    ROLLOUT_FINISHED,
    ROLLOUT_REPLACED, /* another one took all of its nodes over */
};
extern const struct name rollout_status_names[];

enum member_state {
    MEMBER_WAITING,
    MEMBER_STARTED,
    MEMBER_DONE,
    MEMBER_FAILED,
    MEMBER_LEFT, /* to another rollout, or out of the spec */
    MEMBER_STATES
};
extern const struct name member_state_names[];

struct member {
    struct rollout *rollout;
    struct enode *node; /* NULL: left, or is a member of another one by now */
    int64_t node_id;
    int ordinal, wave, rack;
    enum member_state state;
    int failed_round;
    bool asked, held;
    int64_t changed_at;
    struct member *next, *prev; /* the waiting ones of its rack, in order */
};

/* A number of nodes or a share of them. */
struct share {
    double value;
    bool percent;
};

struct wave {
    int end;  /* the members from the end of the wave before to here, by ordinal */
    int open; /* neither done nor failed nor gone */
    int held; /* of those, on hold: nobody waits for them but for canaries */
};

struct rollout_rack {
    struct member *head, *tail;
    int started;
};

struct rollout {
    struct rollout *next; /* of the engine's open ones, newest first */
    struct engine *engine;
    int64_t id, at, revision, wave_at, changed_at, ended_at;
    char *cause, *actor, *reason;
    json_t *settings; /* NULL: none */
    int64_t pause_ms;
    struct share max_failed;
    bool has_max_failed;
    int per_rack; /* 0: no limit */
    enum rollout_status status;
    int wave, wave_count, round;
    struct wave *waves; /* the first: the canaries */
    struct member *members;
    int count, counts[MEMBER_STATES];
    int failures;        /* counted in this round */
    int canary_failures; /* of those, canaries */
    bool taken_from;     /* a newer one takes nodes right now */
    bool canary_gone;    /* one was taken over before it was proven */
    struct rollout_rack *racks;
    int rack_count;
    struct timer timer;
};

/* rollout_plan.c */
void rollout_read_settings(struct rollout *r);
/* Fills members and waves with the nodes, in the order in which they will start. */
void rollout_lay_out(struct rollout *r, struct enode **nodes, int count);
/* Racks and their queues, the waves' counts, from members that are filled in. */
void rollout_index(struct rollout *r);
bool share_exceeded(const struct share *share, int count, int total);
void share_text(const struct share *share, char *buf, size_t size);

/* rollout.c */
bool member_is_open(const struct member *m);
void member_set(struct member *m, enum member_state state);
void member_uncount(struct member *m);
void member_detach(struct member *m);
void rollout_queue(struct member *m);
void rollout_unqueue(struct member *m);
void rollout_save(struct rollout *r);
void rollout_event(struct rollout *r, const char *kind, const char *actor, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void rollout_set_status(struct rollout *r, enum rollout_status status, const char *reason);
/* Starts those of the current wave for whom their racks have room. */
void rollout_fill(struct rollout *r);
/* Starts what may start, begins the next wave, ends it when nobody is left: r may be gone after. */
void rollout_pump(struct rollout *r);
void rollout_free(struct rollout *r);
/* Looks at each member that does nothing. */
void rollout_kick(struct rollout *r);

/* rollout_view.c */
/* "n[1-2]: tuned: did not work; n7: ...": who failed in this round, by cause. */
void rollout_failures(const struct rollout *r, struct strbuf *out);
