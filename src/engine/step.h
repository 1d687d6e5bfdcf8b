/*
 * Steps: the actions that stages are made of. One row in a step_type per word of the profiles.
 *
 * A step starts, works through ops and events, and ends exactly once by step_done(). What it needs
 * to go on after a restart it keeps in run->data and commits with step_commit() before the act
 * that depends on it: a step that is started with `resumed` set finds that data and observes what
 * became of the act before it does anything again.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "loop/limit.h"
#include "loop/op.h"
#include "model/profile.h"

struct engine;
struct enode;
struct step_run;

struct step_type {
    const char *name; /* as in profiles: "run", "bmc", ... */
    /* Begins; a failure here ends the step with *err. */
    int (*start)(struct step_run *run, struct err *err);
    /* Releases priv; run->op, run->timer and run->ticket are released by the engine. NULL: none. */
    void (*stop)(struct step_run *run);
    /* Something that netboot reported about the attempt: "asked", "local", "claimed", "facts",
     * "progress", "installed", "proof", "failed". NULL: not interested. */
    void (*event)(struct step_run *run, const char *event, const char *text);
    /* The attempt's deadline came: for how many ms more it waits for what is no fault of its own;
     * 0: it ends. NULL: it ends. */
    int64_t (*extend)(struct step_run *run);
};

struct step_run {
    const struct step_type *type;
    const struct step_def *def;
    const struct stage_def *stage;
    struct engine *engine;
    struct enode *node; /* valid while the step runs: the engine stops it before the node goes */
    int64_t attempt_id;
    int index;
    bool resumed; /* the daemon was restarted while this step ran */
    json_t *data; /* object; kept across restarts once committed */
    void *priv;
    struct op *op; /* the op in flight, cancelled when the step is stopped */
    struct op *commit_op;
    void (*committed)(struct step_run *run);
    struct timer timer;
    struct limit_ticket ticket;
    void (*powered)(struct step_run *run); /* step_power's continuation */
    int64_t started_at;
};

/* The step is over: err NULL or OK is success, `result` is one line of what was observed. */
void step_done(struct step_run *run, const struct err *err, const char *result);
/* Writes run->data and calls next(run) once it is on disk. */
void step_commit(struct step_run *run, void (*next)(struct step_run *run));
/* What the step is doing or waiting for, for `why` and progress. */
void step_note(struct step_run *run, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void step_evidence(struct step_run *run, const char *kind, const char *text);
void step_measure(struct step_run *run, const char *name, double value, const char *unit,
                  const char *peer, double limit, const char *verdict);
/* A string parameter of the step, or `fallback`. Borrowed. */
const char *step_param(const struct step_run *run, const char *name, const char *fallback);
/* A duration parameter ("5m") in ms. */
int64_t step_duration(const struct step_run *run, const char *name, int64_t fallback);

extern const struct step_type step_bmc, step_netboot, step_wait, step_run_script, step_copy,
    step_probe, step_check, step_measure_type, step_group;
