/* An operator vouches for a stage: later ones build on it as if it were proven, and it is shown as
 * what it is. What it rests on is kept: the word holds until one of these inputs changes. */
#include <stdio.h>
#include <stdlib.h>

#include "base/digest.h"
#include "base/mem.h"
#include "engine/node.h"
#include "engine/rollout.h"
#include "model/fingerprint.h"

static int check(const struct enode *n, const char *stage, struct err *err)
{
    int at = node_stage_index(n, stage);
    const struct stage_rt *s = at >= 0 ? &n->stages[at] : NULL;
    if (s == NULL)
        return err_set(err, ERR_NOT_FOUND, "%s has no stage '%s'", n->name, stage);
    if (s->def->wipes)
        return err_set(err, ERR_CONFLICT,
                       "%s cannot be waived: what comes later needs the system that it installs",
                       stage);
    if (s->def->step_count == 0)
        return err_set(err, ERR_CONFLICT, "%s has no steps of its own: waive what keeps %s from it",
                       stage, n->name);
    if (s->status == STAGE_RUNNING)
        return err_set(err, ERR_BUSY, "%s is running on %s: wait for its end", stage, n->name);
    if (stage_next(s->status, STAGE_EV_WAIVE) < 0)
        return err_set(err, ERR_CONFLICT, "%s is %s on %s: there is nothing to waive", stage,
                       stage_status_name(s->status), n->name);
    return 0;
}

static void waive(struct enode *n, int stage, const char *reason, const char *actor)
{
    struct stage_rt *s = &n->stages[stage];
    char text[480];
    (void)snprintf(text, sizeof text, "waived by %.60s: %.400s", actor, reason);
    free(s->fingerprint);
    json_decref(s->inputs);
    s->inputs = stage_inputs(n->engine, n, n->spec, n->klass, s->def);
    s->fingerprint = xcalloc(1, DIGEST_HEX_SIZE);
    inputs_fingerprint(s->inputs, s->fingerprint);
    s->passed_at = 0; /* it was not proven, and a change that is taken back does not prove it */
    s->tries = 0;
    s->retry_at = 0;
    s->fail_code = ERR_OK;
    (void)stage_post(n, stage, STAGE_EV_WAIVE, text);
    node_event(n, "stage.waived", s->def->name, 0, actor, "%s", text);
    node_save(n);
    node_kick(n, 0);
}

json_t *engine_waive(struct engine *e, const char *nodeset, const char *stage, const char *reason,
                     const char *actor, struct err *err)
{
    struct enode **nodes;
    int count, rc = 0;
    if (reason == NULL || reason[0] == '\0') {
        (void)err_set(err, ERR_INVALID, "a waiver needs a reason: --reason TEXT");
        return NULL;
    }
    if (engine_select(e, nodeset, &nodes, &count, err) < 0)
        return NULL;
    for (int i = 0; i < count && rc == 0; i++)
        rc = check(nodes[i], stage, err);
    json_t *names = json_array();
    if (rc == 0 && count == 1)
        rollout_asked(nodes[0]);
    for (int i = 0; i < count && rc == 0; i++) {
        waive(nodes[i], node_stage_index(nodes[i], stage), reason, actor);
        (void)json_array_append_new(names, json_string(nodes[i]->name));
    }
    free(nodes);
    if (rc == 0)
        return json_pack("{s:o,s:s}", "nodes", names, "text",
                         "waived: later stages build on it until it is asked for or its inputs "
                         "change");
    json_decref(names);
    return NULL;
}

json_t *waived_view(const struct enode *n)
{
    json_t *names = json_array();
    for (int i = 0; i < n->stage_count; i++)
        if (n->stages[i].status == STAGE_WAIVED)
            (void)json_array_append_new(names, json_string(n->stages[i].def->name));
    return names;
}
