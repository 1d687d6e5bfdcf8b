/* The engine's life, look-up of nodes, and the operators' verbs. */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/nodeset.h"
#include "bmc/bmc.h"
#include "engine/group.h"
#include "engine/machines.h"
#include "engine/node.h"
#include "engine/power.h"
#include "engine/rollout.h"
#include "engine/ssh.h"
#include "engine/swap.h"
#include "netboot/netboot.h"

struct engine *engine_new(const struct engine_config *config)
{
    struct engine *e = xcalloc(1, sizeof *e);
    e->c = *config;
    e->loop = config->loop;
    e->store = config->store;
    e->seed = config->seed ? config->seed : (unsigned)loop_wall(config->loop);
    e->by_name = map_new();
    e->by_id = map_new();
    limit_init(&e->installs, e->loop, "installs", 64);
    limit_init(&e->sweeps, e->loop, "sweeps", 8);
    return e;
}

void engine_free(struct engine *e)
{
    if (e == NULL)
        return;
    e->stopping = true;
    power_lanes_abandon(e);
    strays_abandon(e);
    rollouts_free(e);
    sweeps_done(e);
    for (int i = 0; i < e->node_count; i++)
        node_free(e->nodes[i]);
    groups_free(e);
    free(e->nodes);
    map_free(e->by_name);
    map_free(e->by_id);
    machines_free(e);
    history_free(e);
    limit_done(&e->installs);
    limit_done(&e->sweeps);
    for (int i = 0; i < e->rack_count; i++)
        limit_done(&e->rack_power[i]);
    free(e->rack_power);
    watts_done(e);
    for (int i = 0; i < e->ssh_key_count; i++)
        remote_key_free(e->ssh_keys[i]);
    free(e->ssh_keys);
    spec_free(e->spec);
    profiles_free(e->profiles);
    free(e);
}

void engine_set_netboot(struct engine *e, struct netboot *nb)
{
    e->netboot = nb;
    for (int i = 0; nb != NULL && i < e->node_count; i++)
        node_publish_boot(e->nodes[i]);
}

int64_t engine_wall(const struct engine *e)
{
    return loop_wall(e->loop);
}

unsigned engine_random(struct engine *e, unsigned below)
{
    return below == 0 ? 0 : (unsigned)rand_r(&e->seed) % below;
}

struct enode *engine_find(struct engine *e, const char *name)
{
    return map_get(e->by_name, name);
}

struct enode *engine_find_id(struct engine *e, int64_t id)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%lld", (long long)id);
    return map_get(e->by_id, key);
}

void engine_index(struct engine *e)
{
    map_free(e->by_name);
    map_free(e->by_id);
    e->by_name = map_new();
    e->by_id = map_new();
    for (int i = 0; i < e->node_count; i++) {
        char key[24];
        (void)snprintf(key, sizeof key, "%lld", (long long)e->nodes[i]->id);
        (void)map_set(e->by_name, e->nodes[i]->name, e->nodes[i]);
        (void)map_set(e->by_id, key, e->nodes[i]);
    }
}

static int select_named(struct engine *e, const char *nodeset, struct enode **nodes, int *count,
                        struct err *err)
{
    struct nodeset *set = nodeset_parse(nodeset, err);
    if (set == NULL)
        return -(int)err->code;
    int rc = 0;
    for (int i = 0; i < e->node_count; i++)
        if (nodeset_contains(set, e->nodes[i]->name))
            nodes[(*count)++] = e->nodes[i];
    if (*count != nodeset_count(set)) {
        for (int i = 0; i < nodeset_count(set) && rc == 0; i++)
            if (engine_find(e, nodeset_at(set, i)) == NULL)
                rc = err_set(err, ERR_NOT_FOUND, "no node is called '%s'", nodeset_at(set, i));
    }
    nodeset_free(set);
    return rc;
}

int engine_select(struct engine *e, const char *nodeset, struct enode ***ret_nodes, int *ret_count,
                  struct err *err)
{
    struct enode **nodes = xcalloc((size_t)e->node_count + 1, sizeof(struct enode *));
    int count = 0;
    if (nodeset == NULL || nodeset[0] == '\0') {
        for (int i = 0; i < e->node_count; i++)
            nodes[count++] = e->nodes[i];
    } else if (select_named(e, nodeset, nodes, &count, err) < 0) {
        free(nodes);
        return -(int)err->code;
    }
    *ret_nodes = nodes;
    *ret_count = count;
    return 0;
}

void engine_refresh(struct engine *e)
{
    engine_load_key(e);
    for (int i = 0; i < e->node_count; i++) {
        node_refresh_bmc(e->nodes[i]);
        /* spread: a look costs about half a millisecond */
        node_kick(e->nodes[i], i / 2);
    }
    rollout_refresh(e);
}

/* ---- verbs ---- */

static json_t *names_json(struct enode **nodes, int count, const char *text)
{
    json_t *names = json_array();
    for (int i = 0; i < count; i++)
        (void)json_array_append_new(names, json_string(nodes[i]->name));
    return json_pack("{s:o,s:s}", "nodes", names, "text", text);
}

void node_queue(struct enode *n, int stage, const char *why)
{
    bool *again = xcalloc((size_t)n->stage_count, sizeof *again);
    char reason[200];
    for (int i = stage; i < n->stage_count; i++) {
        struct stage_rt *s = &n->stages[i];
        again[i] = i == stage;
        for (int j = 0; s->def->needs != NULL && s->def->needs[j] != NULL; j++) {
            int at = node_stage_index(n, s->def->needs[j]);
            again[i] = again[i] || (at >= 0 && again[at]);
        }
        if (!again[i] || (i != stage && s->def->wipes && s->passed_at > 0))
            continue;
        if (i != stage && s->status == STAGE_WAIVED)
            continue; /* the word holds while its inputs do */
        (void)snprintf(reason, sizeof reason, "%s%s", i == stage ? why : n->stages[stage].def->name,
                       i == stage ? "" : " is proven again");
        s->tries = 0;
        s->retry_at = 0;
        if (stage_next(s->status, STAGE_EV_RERUN) >= 0)
            (void)stage_post(n, i, STAGE_EV_RERUN, reason);
    }
    free(again);
}

static void rerun_node(struct enode *n, int stage, const char *actor)
{
    char why[120];
    (void)snprintf(why, sizeof why, "%.100s asked for it", actor);
    node_queue(n, stage, why);
    node_event(n, "stage.rerun", n->stages[stage].def->name, 0, actor, "%s", why);
    if (n->bmc != NULL)
        bmc_unlock(n->bmc); /* a person takes responsibility for one more try */
    node_refresh_bmc(n);
    node_save(n);
    node_kick(n, 0);
}

json_t *engine_rerun(struct engine *e, const char *nodeset, const char *stage, const char *actor,
                     struct err *err)
{
    struct enode **nodes;
    int count;
    if (engine_select(e, nodeset, &nodes, &count, err) < 0)
        return NULL;
    for (int i = 0; i < count; i++) {
        int at = node_stage_index(nodes[i], stage);
        const struct stage_rt *s = at >= 0 ? &nodes[i]->stages[at] : NULL;
        int rc = 0;
        if (s == NULL)
            rc = err_set(err, ERR_NOT_FOUND, "%s has no stage '%s'", nodes[i]->name, stage);
        else if (s->def->wipes && s->passed_at > 0)
            rc = err_set(err, ERR_CONFLICT,
                         "%s overwrites the disk of %s; ask for that with 'clusterctl apply SPEC "
                         "--reinstall %s'",
                         stage, nodes[i]->name, nodes[i]->name);
        else if (s->status == STAGE_RUNNING)
            rc = err_set(err, ERR_BUSY, "%s is running on %s already", stage, nodes[i]->name);
        else if (s->status == STAGE_SKIPPED)
            rc = err_set(err, ERR_CONFLICT, "%s is skipped on %s: %s", stage, nodes[i]->name,
                         s->reason != NULL ? s->reason : "it does not apply");
        if (rc < 0) {
            free(nodes);
            return NULL;
        }
    }
    if (count == 1)
        rollout_asked(nodes[0]);
    for (int i = 0; i < count; i++)
        rerun_node(nodes[i], node_stage_index(nodes[i], stage), actor);
    if (count > 1)
        rollout_rerun(e, nodes, count, stage, actor);
    json_t *out = names_json(nodes, count, "asked for; it runs as soon as it can");
    free(nodes);
    return out;
}

json_t *engine_hold(struct engine *e, const char *nodeset, const char *reason, const char *actor,
                    struct err *err)
{
    struct enode **nodes;
    int count;
    if (reason == NULL || reason[0] == '\0') {
        (void)err_set(err, ERR_INVALID, "a hold needs a reason: --reason TEXT");
        return NULL;
    }
    if (engine_select(e, nodeset, &nodes, &count, err) < 0)
        return NULL;
    for (int i = 0; i < count; i++)
        if (nodes[i]->admin == NODE_MAINTENANCE) {
            (void)err_set(err, ERR_CONFLICT, "%s is in maintenance (%s): release it first",
                          nodes[i]->name, nodes[i]->hold_reason);
            free(nodes);
            return NULL;
        }
    for (int i = 0; i < count; i++) {
        struct enode *n = nodes[i];
        n->admin = NODE_HELD;
        sweep_stop(n, "it is held");
        free(n->hold_reason);
        free(n->hold_by);
        n->hold_reason = xstrndup(reason, 400);
        n->hold_by = xstrdup(actor);
        n->hold_at = engine_wall(e);
        node_event(n, "node.held", NULL, 0, actor, "%s", n->hold_reason);
        node_save(n);
        rollout_held(n, true);
    }
    json_t *out = names_json(nodes, count, "held; what is running goes to its end");
    free(nodes);
    return out;
}

json_t *engine_release(struct engine *e, const char *nodeset, const char *actor, struct err *err)
{
    struct enode **nodes;
    int count;
    if (engine_select(e, nodeset, &nodes, &count, err) < 0)
        return NULL;
    for (int i = 0; i < count; i++) {
        struct enode *n = nodes[i];
        if (n->swap != NULL)
            swap_dismiss(n, actor);
        if (n->admin == NODE_ACTIVE)
            continue;
        bool maintained = n->admin == NODE_MAINTENANCE;
        n->admin = NODE_ACTIVE;
        free(n->hold_reason);
        free(n->hold_by);
        n->hold_reason = n->hold_by = NULL;
        n->hold_at = 0;
        node_event(n, "node.released", NULL, 0, actor, "%s",
                   maintained ? "its maintenance is over" : "released");
        if (maintained && sweep_obstacle(n) == NULL)
            sweep_now(n); /* parts may have changed */
        node_save(n);
        rollout_held(n, false);
        node_kick(n, 0);
    }
    json_t *out = names_json(nodes, count, "released");
    free(nodes);
    return out;
}

/* ---- netboot's reports ---- */

static struct enode *reporter(struct engine *e, int64_t node, int64_t attempt)
{
    struct enode *n = engine_find_id(e, node);
    (void)attempt;
    return n;
}

void engine_on_boot_asked(struct engine *e, int64_t node, bool local, const char *text)
{
    struct enode *n = engine_find_id(e, node);
    if (n != NULL && n->attempt != NULL)
        attempt_step_event(n, n->attempt->id, local ? "local" : "asked", text);
}

void engine_on_claimed(struct engine *e, int64_t node, int64_t attempt, const char *purpose)
{
    struct enode *n = reporter(e, node, attempt);
    if (n == NULL)
        return;
    struct attempt *a = n->attempt;
    if (strcmp(purpose, "install") == 0 && a != NULL && a->id == attempt) {
        /* the disk is about to change: what was proven about it is void from here on */
        n->stages[a->stage].passed_at = 0;
        stage_save(n, a->stage);
    }
    attempt_step_event(n, attempt, "claimed", purpose);
}

void engine_on_facts(struct engine *e, int64_t node, int64_t attempt, const char *json)
{
    struct enode *n = reporter(e, node, attempt);
    struct err err = {0};
    if (n == NULL)
        return;
    struct hardware *hw = NULL;
    if (hardware_parse(json, strlen(json), &hw, &err) < 0) {
        node_event(n, "facts.refused", NULL, attempt, "engine", "%s", err.text);
        attempt_step_event(n, attempt, "failed", err.text);
        return;
    }
    node_adopt_hardware(n, hw, engine_wall(e));
    attempt_step_event(n, attempt, "facts", NULL);
}

void engine_on_progress(struct engine *e, int64_t node, int64_t attempt, int percent,
                        const char *text)
{
    struct enode *n = reporter(e, node, attempt);
    char line[240];
    (void)snprintf(line, sizeof line, "%d%% %s", percent, text);
    if (n != NULL)
        attempt_step_event(n, attempt, "progress", line);
}

void engine_on_installed(struct engine *e, int64_t node, int64_t attempt, const char *host_key,
                         const char *text)
{
    struct enode *n = reporter(e, node, attempt);
    if (n == NULL)
        return;
    free(n->host_key);
    n->host_key = xstrdup(host_key);
    struct store_hostkey row = {
        .node_id = n->id, .key = host_key, .attempt_id = attempt, .at = engine_wall(e)};
    store_put_hostkey(e->store, &row);
    attempt_step_event(n, attempt, "installed", text);
}

void engine_on_proof(struct engine *e, int64_t node, int64_t attempt, const char *boot_id,
                     const char *text)
{
    struct enode *n = reporter(e, node, attempt);
    (void)boot_id;
    if (n != NULL)
        attempt_step_event(n, attempt, "proof", text);
}

void engine_on_install_failed(struct engine *e, int64_t node, int64_t attempt, const char *text)
{
    struct enode *n = reporter(e, node, attempt);
    if (n != NULL)
        attempt_step_event(n, attempt, "failed", text);
}

int64_t engine_node_id(struct engine *e, const char *name, struct err *err)
{
    struct enode *n = engine_find(e, name);
    if (n == NULL)
        return err_set(err, ERR_NOT_FOUND, "no node is called '%s'", name);
    return n->id;
}

const char *engine_node_name(struct engine *e, int64_t id)
{
    struct enode *n = id != 0 ? engine_find_id(e, id) : NULL;
    return n != NULL ? n->name : NULL;
}

const struct spec *engine_spec(const struct engine *e)
{
    return e->spec;
}
