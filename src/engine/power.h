/*
 * Power and boot device of a node's machine, for steps and operators: through the BMC's gate, read
 * back, recorded, within the power budget (watts.h), and within the rack's limit of machines that
 * are being switched on at once. Watts come first, then the place.
 */
#pragma once

#include "engine/step.h"

/*
 * An op for one action: "on", "off", "cycle", "reset", "soft", "status", "boot" (on, or off and on
 * again where it is on already), "boot-pxe", "boot-disk". It completes when the BMC shows what was
 * asked for. One at a time for each node: ERR_BUSY otherwise.
 */
struct power_op {
    struct op op;
    char observed[8];
    void *priv;
};
struct power_op *power_start(struct enode *n, const char *action, op_done_fn done, void *user,
                             struct err *err);
/* What keeps the node from being switched on: watts (watts_waits()) or a place in its rack. */
bool power_waits(const struct enode *n, bool place, char *text, size_t size);
bool power_action_ok(const char *action);

/* The same within a step: next(run) follows on success, a failure ends the step. */
void step_power(struct step_run *run, const char *action, void (*next)(struct step_run *run));

/* At shutdown: operators' actions in work are dropped without an answer. */
void power_lanes_abandon(struct engine *e);
