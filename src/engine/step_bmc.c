/* `bmc:` what a node's BMC says of itself, and power by hand of a profile. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bmc/bmc.h"
#include "engine/node.h"
#include "engine/power.h"
#include "engine/swap.h"

enum { VERIFY_MS = 30000, IDENTITY_MS = 60000 };

static struct bmc_op *result_of(struct op *op)
{
    return (struct bmc_op *)(void *)op;
}

static void on_verified(struct op *op, void *user)
{
    struct step_run *run = user;
    step_evidence(run, "bmc", op_ok(op) ? result_of(op)->text : op->err.text);
    step_done(run, &op->err, op_ok(op) ? result_of(op)->text : NULL);
}

static void on_identity(struct op *op, void *user)
{
    struct step_run *run = user;
    struct enode *n = run->node;
    if (!op_ok(op)) {
        step_done(run, &op->err, NULL);
        return;
    }
    swap_adopt_bmc(n, result_of(op)->result);
    char *text = json_dumps(n->bmc_identity, JSON_COMPACT);
    step_evidence(run, "bmc-identity", text);
    step_done(run, NULL, text);
    free(text);
}

static void powered(struct step_run *run)
{
    step_done(run, NULL, run->node->power_observed);
}

static void device_set(struct step_run *run)
{
    step_done(run, NULL, run->def->what);
}

static int start(struct step_run *run, struct err *err)
{
    const char *what = run->def->what;
    struct bmc *bmc = run->node->bmc;
    if (bmc == NULL)
        return err_set(err, ERR_UNSUPPORTED, "%s has no BMC in the spec", run->node->name);
    if (strcmp(what, "verify") == 0) {
        step_note(run, "asking the BMC at %s", run->node->spec->bmc);
        run->op = &bmc_verify(bmc, step_duration(run, "timeout", VERIFY_MS), on_verified, run)->op;
    } else if (strcmp(what, "identity") == 0) {
        step_note(run, "reading what the BMC at %s knows of the machine", run->node->spec->bmc);
        run->op =
            &bmc_identity(bmc, step_duration(run, "timeout", IDENTITY_MS), on_identity, run)->op;
    } else if (strncmp(what, "power-", 6) == 0) {
        step_power(run, what + 6, powered);
    } else {
        step_power(run, what, device_set);
    }
    return 0;
}

const struct step_type step_bmc = {.name = "bmc", .start = start};
