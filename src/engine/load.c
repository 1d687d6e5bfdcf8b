/* Start: the nodes as the store knows them, and a second look at everything that was running. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "engine/group.h"
#include "engine/node.h"
#include "engine/rollout.h"
#include "engine/swap.h"

static void load_node(const struct store_node *row, void *user)
{
    struct engine *e = user;
    struct enode *n = engine_find(e, row->name);
    if (n == NULL || row->removed_at != 0)
        return;
    n->id = row->id;
    n->created_at = row->created_at;
    n->admin = node_admin_from_name(row->admin);
    n->hold_reason = xstrdup(row->hold_reason);
    n->hold_by = xstrdup(row->hold_by);
    n->hold_at = row->hold_at;
    n->deferred = xstrdup(row->deferred);
    if (row->power_desired != NULL)
        strncpy(n->power_desired, row->power_desired, sizeof n->power_desired - 1);
    if (row->power_observed != NULL)
        strncpy(n->power_observed, row->power_observed, sizeof n->power_observed - 1);
    n->power_at = row->power_at;
    if (row->boot_intent != NULL)
        strncpy(n->boot_intent, row->boot_intent, sizeof n->boot_intent - 1);
}

static void load_revision(const struct store_revision *row, void *user)
{
    struct engine *e = user;
    (void)snprintf(e->spec_sha, sizeof e->spec_sha, "%s", row->sha256 != NULL ? row->sha256 : "");
}

static void load_stage(const struct store_stage *row, void *user)
{
    struct enode *n = engine_find_id(user, row->node_id);
    int at = n != NULL ? node_stage_index(n, row->name) : -1;
    int status = stage_status_from_name(row->status);
    if (at < 0 || status < 0)
        return;
    struct stage_rt *s = &n->stages[at];
    s->status = (enum stage_status)status;
    free(s->fingerprint);
    free(s->reason);
    s->fingerprint = xstrdup(row->fingerprint);
    s->reason = xstrdup(row->reason);
    free(s->drift);
    s->drift = xstrdup(row->drift);
    s->attempt_id = row->attempt_id;
    s->passed_at = row->passed_at;
    s->changed_at = row->changed_at;
}

static void load_machine(const struct store_machine *m, void *user)
{
    struct enode *n = engine_find_id(user, m->node_id);
    struct hardware *hw = NULL;
    if (n == NULL)
        return;
    n->bmc_identity = m->bmc != NULL ? json_loads(m->bmc, 0, NULL) : NULL;
    n->probed_at = m->at;
    if (m->probe == NULL || hardware_parse(m->probe, strlen(m->probe), &hw, NULL) < 0)
        return;
    hardware_set_bmc(hw, n->bmc_identity);
    node_keep_parts(n, hw);
}

static void load_hostkey(const struct store_hostkey *row, void *user)
{
    struct enode *n = engine_find_id(user, row->node_id);
    if (n != NULL) {
        free(n->host_key);
        n->host_key = xstrdup(row->key);
    }
}

/* What the last attempt of a queued or failed stage says: how often it was tried, when next, why.
 */
static void load_last_attempt(const struct store_attempt *row, void *user)
{
    struct stage_rt *s = user;
    if (s->attempt_id != row->id)
        return;
    if (s->status == STAGE_QUEUED && row->retry_at > 0) {
        s->tries = row->number;
        s->retry_at = row->retry_at;
    }
    if (row->error_code != NULL)
        s->fail_code = err_from_name(row->error_code);
}

static int load_tries(struct engine *e, struct err *err)
{
    for (int i = 0; i < e->node_count; i++) {
        struct enode *n = e->nodes[i];
        for (int j = 0; j < n->stage_count; j++) {
            struct stage_rt *s = &n->stages[j];
            if ((s->status == STAGE_QUEUED || s->status == STAGE_FAILED) && s->attempt_id > 0 &&
                store_each_attempt(e->store, n->id, s->def->name, 1, load_last_attempt, s, err) < 0)
                return -(int)err->code;
        }
    }
    return 0;
}

struct resume {
    struct engine *e;
    struct err err;
};

static void resume_attempt(const struct store_attempt *row, void *user)
{
    struct resume *r = user;
    struct enode *n = engine_find_id(r->e, row->node_id);
    struct err err = {0};
    if (n != NULL && n->attempt == NULL && attempt_resume(n, row, &err) < 0) {
        log_warn("attempt.lost", "%s %s: %s", n->name, row->stage, err.text);
        if (n->attempt != NULL)
            attempt_cancel(n, err.text);
        n = NULL;
    }
    /* the daemon ended between the look at another machine and the end of the attempt */
    if (n != NULL && n->swap != NULL)
        attempt_cancel(n, "another machine answers in this slot");
    if (n == NULL) {
        /* its node or stage is gone: the record ends here */
        struct store_attempt end = *row;
        end.status = "cancelled";
        end.error = "the node or stage is no longer in the spec";
        end.ended_at = engine_wall(r->e);
        (void)store_put_attempt(r->e->store, &end);
    }
}

/* A stage that says running without an attempt cannot be: both are written in one transaction. */
static void mend_running(struct engine *e)
{
    for (int i = 0; i < e->node_count; i++) {
        struct enode *n = e->nodes[i];
        for (int j = 0; j < n->stage_count; j++)
            if (n->stages[j].status == STAGE_RUNNING &&
                (n->attempt == NULL || n->attempt->stage != j))
                (void)stage_post(n, j, STAGE_EV_CANCEL, "its attempt was lost");
    }
}

int engine_load(struct engine *e, struct spec *spec, struct profiles *profiles, int64_t revision,
                struct err *err)
{
    if (spec == NULL) {
        profiles_free(profiles);
        return 0;
    }
    engine_bind_spec(e, spec, profiles, revision);
    if (store_last_revision(e->store, load_revision, e, err) < 0)
        return -(int)err->code;
    if (store_each_node(e->store, load_node, e, err) < 0)
        return -(int)err->code;
    engine_index(e);
    if (store_each_stage(e->store, load_stage, e, err) < 0 ||
        store_each_machine(e->store, load_machine, e, err) < 0 || swap_load(e, err) < 0 ||
        store_each_hostkey(e->store, load_hostkey, e, err) < 0 || load_tries(e, err) < 0 ||
        sweeps_load(e, err) < 0 || swap_load(e, err) < 0 || history_load(e, err) < 0)
        return -(int)err->code;
    for (int i = 0; i < e->node_count; i++) {
        struct enode *n = e->nodes[i];
        if (n->id == 0)
            n->created_at = engine_wall(e);
        node_save(n);
        node_refresh_bmc(n);
    }
    engine_index(e);
    struct resume r = {.e = e};
    if (rollouts_load(e, err) < 0 || groups_load(e, err) < 0 ||
        store_each_running_attempt(e->store, resume_attempt, &r, err) < 0)
        return -(int)err->code;
    mend_running(e);
    if (watts_load(e, err) < 0)
        return -(int)err->code;
    for (int i = 0; i < e->node_count; i++)
        node_kick(e->nodes[i], i / 2);
    rollouts_go_on(e);
    return 0;
}
