/*
 * What the steps that reach into nodes over SSH share: the target, the variables of scripts, and
 * clean-up that nobody waits for.
 */
#pragma once

#include "engine/step.h"
#include "remote/remote.h"

#define NODEPROBE_ON_NODE "/usr/local/sbin/nodeprobe"

/* Borrowed from the node. ERR_UNSUPPORTED where there is no key or no host key to pin. */
int ssh_target(const struct enode *n, struct remote_target *ret_target, struct err *err);

enum { SCRIPT_VARS_MAX = 128 };
struct script_vars {
    char *names[SCRIPT_VARS_MAX], *values[SCRIPT_VARS_MAX];
    int count;
};
struct script {
    const struct stage_def *stage;
    int64_t attempt;
    const struct enode *on, *peer; /* peer NULL: none */
    const char *path, *id;         /* below templates/; of the run */
    int rail;                      /* -1: none */
    int64_t timeout_ms;
};
/* The stage's variables, and CLUSTERD_NODE, _ADDRESS, _STAGE, _ATTEMPT; with a peer also _PEER and
 * _PEER_ADDRESS, with a rail _RAIL. */
void script_vars_fill(struct script_vars *v, const struct script *s);
void script_vars_done(struct script_vars *v);

/*
 * Starts a script of templates/ on a node under a run id, or attaches to it. What it prints goes to
 * on_log. NULL with *err set when it could not be begun.
 */
struct remote_op *node_script_start(struct engine *e, const struct script *s,
                                    void (*on_log)(const char *, size_t, void *), op_done_fn done,
                                    void *user, struct err *err);
/* Ends a run on a node; nobody waits for the outcome. */
void script_kill(const struct enode *on, const char *id);
/* "3 s ago it said: ..." material: the last whole line of a log piece, shortened. */
void script_last_line(const char *text, size_t len, char *ret, size_t size);
/* At shutdown. */
void strays_abandon(struct engine *e);

/* Judges what `log` holds by a parser and limits, and records it. Returns one line with the
 * figures, which the caller frees; *err says what is not as it should be. */
char *measure_judge(struct step_run *run, const char *parser, const char *log, const json_t *limits,
                    const char *peer, struct err *err);
/* The same, and ends the step. */
void measure_finish(struct step_run *run, const char *parser, const char *log, const json_t *limits,
                    const char *peer);
