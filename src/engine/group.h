/*
 * Group steps: nodes of a class that measure with each other, pair by pair, in rounds.
 *
 *   group.c         gathers: who takes part, who is not waited for, and why
 *   group_run.c     a measurement under way: which pair is next, what it gave
 *   group_end.c     the judgement, and how each member's step ends
 *   group_load.c    its rows in the store, and after a restart the other way round
 *   group_view.c    the last results
 *   step_group.c    the step type, and `group: pair`
 *
 * A node joins with its step and leaves when the step is stopped. Everything costs O(1) for a node
 * and a pair, however many there are.
 */
#pragma once

#include "engine/step.h"

/* The first member of what run->priv of a group step points to: an apply may have replaced the
 * step's definition meanwhile. */
struct group_part {
    bool pair;
};

int group_join(struct step_run *run, struct err *err);
void group_leave(struct step_run *run);
/* A measurement ends by itself, for each pair has its own time. */
int64_t group_extend(struct step_run *run);
/* The floor of a group step for a node: a number or a variable; NaN: none. */
double group_floor(const struct enode *n, const char *variable, const char *number);
/* A pair that measured by itself, for `results`: the values are in `log`. */
void group_record_pair(struct step_run *run, const struct enode *partner, const char *log,
                       const struct err *err);

int groups_load(struct engine *e, struct err *err);
/* At shutdown, after the nodes: nothing is written, it goes on after the next start. */
void groups_free(struct engine *e);
