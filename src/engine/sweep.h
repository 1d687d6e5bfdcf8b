/*
 * Sweeps: proven nodes are looked at again from time to time, over one short SSH connection, and
 * what is not as it was proven loses its proof - exactly the stages that say so, nothing else.
 *
 * sweep.c keeps the time and asks the node, sweep_find.c compares and demotes, sweep_ask.c is the
 * operators' verb and what views show. A stage that a sweep demoted carries `drift`, in words. It
 * is proven again by itself only when that cannot change the node, or `sweep: {repair: auto}`; and
 * never without having seen a moment before that no workload runs there.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "loop/limit.h"
#include "loop/op.h"

struct engine;
struct enode;
struct hardware;
struct stage_def;
struct stage_rt;
struct remote_sweep;
struct remote_sweep_answer;
struct script_vars;
struct strbuf;
struct sweep_waiter;

/* A script of a stage in the sweep that is in work. */
struct sweep_script {
    char *stage, *what;
    int exit_code;
    char line[200];
};

/* What a node keeps of its sweeps. */
struct sweep {
    int64_t at, ok_at, next_at; /* the last one, the last that saw the machine, the next; 0: none */
    char result[16];            /* one of those of docs/sweeps.md */
    char text[400];
    bool busy;          /* a workload was seen running ... */
    char workload[200]; /* ... which says this of itself */
    int64_t workload_since;
    int misses;         /* in a row that did not reach it */
    int64_t free_until; /* until then the last look counts: no workload runs */
    bool asked;         /* by an operator, or before a stage that drifted runs again */
    bool brought;       /* nodeprobe was copied in this one */
    struct op *op;
    struct timer timer;
    struct limit_ticket place;
    struct sweep_waiter *waiters;
    struct sweep_script *scripts; /* of the one in work */
    int script_count;
};

/* ---- the stage machine asks and tells ---- */

/* Nothing is to be started on the node: its next sweep is planned. */
void sweep_settled(struct enode *n);
/* Something else has the node now, or nobody: what is in work ends without a result. */
void sweep_stop(struct enode *n, const char *why);
void sweep_forget(struct enode *n);
/* Whether a stage that is not current may run without an operator, as far as drift goes. */
bool drift_runs_by_itself(const struct enode *n, const struct stage_rt *s);
/* The same for now: the last look could not tell that no workload runs; the next one decides. */
bool drift_is_barred(struct enode *n, const struct stage_rt *s);
/* With all else that the stage needs at hand: false until a look at the node showed that no
 * workload runs; the node is kicked then. */
bool drift_admits(struct enode *n, const struct stage_rt *s);
/* An attempt on a stage that had drifted ended: what goes stale by that has drifted, too. */
void drift_spread(struct enode *n, const char *stage);
/* It needs an operator: a stage drifted and may not run by itself. */
bool drift_waits(const struct enode *n);
/* Any stage of the node is not what it was proven to be. */
bool node_drifted(const struct enode *n);
/* All it does is look: it can be proven at any time without changing the node. */
bool stage_only_looks(const struct stage_def *def);

void sweeps_bind(struct engine *e);
int sweeps_load(struct engine *e, struct err *err);
void sweeps_done(struct engine *e);

/* ---- between the files ---- */

/* NULL: the node can be swept, else why not. Borrowed or static. */
const char *sweep_obstacle(const struct enode *n);
/* At once, or when the next one is due, also where the spec wants none: as far as limits allow. */
void sweep_now(struct enode *n);
void sweep_later(struct enode *n);
/* Compares what the node showed with what was proven; takes hw. Says what came of it in
 * n->sweep.result and .text. */
void sweep_compare(struct enode *n, struct hardware *hw);
/* The node answered, and refuses us or is not the one that we know. */
void sweep_refused(struct enode *n, const struct err *err);
/* One came to its end: those who asked are told. */
void sweep_told(struct enode *n, const char *result, const char *text);

/* sweep_scripts.c: the scripts for one sweep; what is returned goes to sweep_scripts_done() once
 * they are on their way. */
struct script_vars *sweep_scripts_fill(struct enode *n, struct remote_sweep *what);
void sweep_scripts_done(struct enode *n, struct script_vars *vars);
int sweep_scripts_take(struct enode *n, const struct remote_sweep_answer *a, struct err *err);
void sweep_scripts_drop(struct sweep *s);
/* What those of one stage said; `text`: of those that failed. */
enum { SCRIPTS_WRONG, SCRIPTS_FINE, SCRIPTS_NONE = -1, SCRIPTS_UNKNOWN = -2 };
int sweep_scripts_judge(const struct enode *n, const struct stage_def *def, struct strbuf *text);
/* "", or that some told nothing. */
void sweep_scripts_problem(const struct enode *n, char *text, size_t size);

/* ---- for views ---- */

json_t *sweep_view(const struct enode *n);
json_t *sweeps_view(const struct engine *e);
/* "", or what the sweeps say of a node that has nothing to do, for why; `shared` without times. */
void sweep_words(const struct enode *n, char *text, size_t size, char *shared, size_t shared_size);
