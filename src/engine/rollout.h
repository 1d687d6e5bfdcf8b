/*
 * Rollouts: what one apply, or a rerun of several nodes, sets in motion spreads over the nodes as
 * `rollout` of the spec says: canaries, then waves, so many of a rack at once; and it stops by
 * itself when too many nodes fail. The stage machine asks before each attempt and tells how nodes
 * fare; the counting costs O(1) for each of them, however many there are.
 *
 * A node is a member of one rollout at most: a newer one takes it over. Who is asked for alone by
 * name waits for nothing. All of it is rows of the store, written before anything is started by it.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct engine;
struct enode;

/* ---- what sets one in motion ---- */

/* The nodes with stages in `plan` (as engine_plan() gives it), after the apply asked for them. The
 * same spec applied again goes on with the rollout that is under way. */
void rollout_apply(struct engine *e, const json_t *plan, const char *actor);
/* Scripts or secrets were read again: what went stale by it is a rollout of its own. Only with a
 * `rollout` in the spec. */
void rollout_refresh(struct engine *e);
void rollout_rerun(struct engine *e, struct enode **nodes, int count, const char *stage,
                   const char *actor);
/* Somebody named this node alone: it waits for nobody. */
void rollout_asked(struct enode *n);

/* ---- the stage machine asks and tells ---- */

/* Whether an attempt may start on the node now. It is looked at again once that changes. */
bool rollout_admits(const struct enode *n);
/* The same for a stage (-1: none is to start), with a place among the installs where the stage is
 * one. A place that was given is kept until the attempt ends. */
bool node_admits(struct enode *n, int stage);
/* After a restart: what was installing holds a place. */
void node_keep_place(struct enode *n, int stage);
/* A stage failed for good. */
void rollout_failed(struct enode *n);
/* There is nothing to start on it any more. */
void rollout_settled(struct enode *n);
void rollout_held(struct enode *n, bool held);
/* The node goes. */
void rollout_forget(struct enode *n);

int rollouts_load(struct engine *e, struct err *err);
/* After the nodes were looked at for the first time: goes on where the last run ended. */
void rollouts_go_on(struct engine *e);
void rollouts_free(struct engine *e);

/* ---- for views ---- */

/* {id, status, waits} of the rollout under way that it belongs to, else null. */
json_t *rollout_of_node(const struct enode *n);

struct wait_words {
    char doing[300], because[600], next[200];
    int64_t next_at;
    json_t *can; /* of the caller; texts are added */
};
/* What keeps a node with a runnable stage from starting it; false: nothing of this file does. */
bool node_waits(const struct enode *n, struct wait_words *ret);
