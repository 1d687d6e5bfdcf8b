/* Apply: makes a spec the wanted state, and asks for what the order says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/nodeset.h"
#include "base/strbuf.h"
#include "bmc/bmc.h"
#include "engine/node.h"
#include "engine/rollout.h"
#include "model/fingerprint.h"
#include "remote/remote.h"

bool stage_failed_for_good(const struct stage_rt *s)
{
    return s->fail_code == ERR_AUTH || (s->def->wipes && s->passed_at > 0);
}

/* Whether the running attempt would prove something else than it set out to. */
static bool attempt_outdated(struct enode *n)
{
    struct attempt *a = n->attempt;
    json_t *now = stage_inputs(n->engine, n, n->spec, n->klass, n->stages[a->stage].def);
    struct strbuf why;
    strbuf_init(&why, 2048);
    inputs_explain(a->inputs, now, &why);
    bool changed = why.len > 0;
    strbuf_done(&why);
    json_decref(now);
    return changed;
}

static void settle_attempt(struct enode *n)
{
    if (n->attempt == NULL || !attempt_outdated(n))
        return;
    int stage = n->attempt->stage;
    if (n->stages[stage].def->wipes) {
        n->attempt->superseded = true; /* a disk half written helps nobody: let it finish */
        return;
    }
    attempt_cancel(n, "the spec changed");
    (void)stage_post(n, stage, STAGE_EV_RERUN, "the spec changed");
}

static bool names_stage(const json_t *stages, const char *name)
{
    size_t i;
    json_t *row;
    json_array_foreach(stages, i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "name")), name) == 0)
            return true;
    }
    return false;
}

/* With --limit, --only or --from: nothing starts by itself but what the plan names. */
static void ask_for_plan(struct enode *n, const json_t *stages, bool inside)
{
    size_t i;
    json_t *row;
    for (int j = 0; j < n->stage_count && inside; j++)
        if (n->stages[j].status == STAGE_QUEUED && !names_stage(stages, n->stages[j].def->name))
            (void)stage_post(n, j, STAGE_EV_CANCEL, n->deferred);
    json_array_foreach(stages, i, row)
    {
        const char *why = json_string_value(json_object_get(row, "why"));
        int at = node_stage_index(n, json_string_value(json_object_get(row, "name")));
        struct stage_rt *s = at >= 0 ? &n->stages[at] : NULL;
        if (s == NULL || s->status == STAGE_QUEUED)
            continue;
        if (s->status == STAGE_SKIPPED)
            (void)stage_post(n, at, STAGE_EV_INVALIDATE, why);
        s->tries = 0;
        s->retry_at = 0;
        if (stage_next(s->status, STAGE_EV_RERUN) >= 0)
            (void)stage_post(n, at, STAGE_EV_RERUN, why);
    }
}

static void ask_again(struct enode *n, bool reinstall, const char *actor)
{
    for (int i = 0; i < n->stage_count; i++) {
        struct stage_rt *s = &n->stages[i];
        if (s->def->wipes && reinstall && stage_next(s->status, STAGE_EV_RERUN) >= 0) {
            if (n->attempt != NULL && n->attempt->stage != i)
                attempt_cancel(n, "reinstall asked for");
            /* what was proven of the old system is not proven of the new one */
            node_queue(n, i, "reinstall asked for");
            node_event(n, "node.reinstall", s->def->name, 0, actor, "reinstall asked for");
        } else if (s->status == STAGE_FAILED && !stage_failed_for_good(s)) {
            s->tries = 0;
            (void)stage_post(n, i, STAGE_EV_RERUN, "applied again");
        } else if (s->status == STAGE_STALE && s->drift != NULL && !s->def->wipes) {
            (void)stage_post(n, i, STAGE_EV_RERUN, s->drift);
        } else if (s->status == STAGE_QUEUED) {
            s->tries = 0;
            s->retry_at = 0;
        }
    }
}

static void remove_node(struct enode *n, const char *actor)
{
    attempt_cancel(n, "the node left the spec");
    node_event(n, "node.removed", NULL, 0, actor, "no longer in the spec");
    if (n->engine->netboot != NULL)
        node_unpublish_boot(n);
    node_save_removed(n);
}

/* Rings of the nodes of each class, and of each class in each rack. */
static void link_classes(struct engine *e)
{
    size_t lanes = (size_t)e->spec->rack_count + 1;
    struct enode **last = xcalloc((size_t)e->spec->class_count + 1, sizeof(struct enode *));
    struct enode **in_rack = xcalloc((size_t)e->spec->class_count * lanes + 1, sizeof *in_rack);
    for (int i = 0; i < e->node_count; i++) {
        struct enode *n = e->nodes[i], **l = &last[n->spec->class_index];
        struct enode **r = &in_rack[(size_t)n->spec->class_index * lanes + (size_t)node_lane(n)];
        n->class_next = *l != NULL ? (*l)->class_next : n;
        n->rack_next = *r != NULL ? (*r)->rack_next : n;
        if (*l != NULL)
            (*l)->class_next = n;
        if (*r != NULL)
            (*r)->rack_next = n;
        *l = *r = n;
    }
    free(last);
    free(in_rack);
}

void engine_bind_spec(struct engine *e, struct spec *spec, struct profiles *profiles,
                      int64_t revision)
{
    struct enode **nodes = xcalloc((size_t)spec->node_count + 1, sizeof(struct enode *));
    for (int i = 0; i < spec->node_count; i++) {
        const struct spec_node *sn = &spec->nodes[i];
        struct enode *n = engine_find(e, sn->name);
        if (n == NULL)
            n = node_new(e, sn->name);
        const char *rack = sn->rack_index >= 0 ? spec->racks[sn->rack_index].name : NULL;
        node_bind(n, sn, &spec->classes[sn->class_index], rack);
        nodes[i] = n;
    }
    free(e->nodes);
    e->nodes = nodes;
    e->node_count = spec->node_count;
    spec_free(e->spec);
    profiles_free(e->profiles);
    e->spec = spec;
    e->profiles = profiles;
    e->revision = revision;
    link_classes(e);
    limit_set_max(&e->installs, spec->limits.installs);
    limit_set_lane_max(&e->installs, spec->limits.per_rack_installs);
    if (e->c.remote_hub != NULL)
        remote_hub_set_max(e->c.remote_hub, spec->limits.ssh);
    if (e->c.bmc_hub != NULL) {
        bmc_hub_set_max(e->c.bmc_hub, spec->limits.bmc);
        bmc_hub_set_gap(e->c.bmc_hub, spec->limits.bmc_gap_ms);
    }
    engine_load_key(e);
    engine_bind_racks(e);
    sweeps_bind(e);
    watts_bind(e);
    engine_index(e);
}

static bool is_partial(const struct engine_order *o)
{
    return o->limit != NULL || o->only != NULL || o->from != NULL;
}

static void describe_order(const struct engine_order *o, char *text, size_t size)
{
    (void)snprintf(text, size, "the last apply left it out (%s%s%s%s%s%s)",
                   o->limit != NULL ? "--limit " : "", o->limit != NULL ? o->limit : "",
                   o->only != NULL ? " --only " : "", o->only != NULL ? o->only : "",
                   o->from != NULL ? " --from " : "", o->from != NULL ? o->from : "");
}

/* The plan's rows are in the order of the spec's nodes, and so are the engine's. */
static void ask_all(struct engine *e, const struct engine_order *order, const json_t *plan,
                    const char *author)
{
    const json_t *rows = json_object_get(plan, "nodes");
    struct nodeset *again = order->reinstall != NULL && order->reinstall[0] != '\0'
                                ? nodeset_parse(order->reinstall, NULL)
                                : NULL;
    struct nodeset *limit = order->limit != NULL ? nodeset_parse(order->limit, NULL) : NULL;
    char left_out[200];
    describe_order(order, left_out, sizeof left_out);
    for (int i = 0; i < e->node_count; i++) {
        struct enode *n = e->nodes[i];
        bool is_new = n->id == 0;
        free(n->deferred);
        n->deferred = is_partial(order) ? xstrdup(left_out) : NULL;
        node_save(n);
        for (int j = 0; j < n->stage_count && is_new; j++)
            stage_save(n, j);
        node_refresh_bmc(n);
        settle_attempt(n);
        bool reinstall = again != NULL && nodeset_contains(again, n->name);
        if (!is_partial(order) || reinstall)
            ask_again(n, reinstall, author);
        if (is_partial(order))
            ask_for_plan(n, json_object_get(json_array_get(rows, (size_t)i), "stages"),
                         limit == NULL || nodeset_contains(limit, n->name));
    }
    nodeset_free(again);
    nodeset_free(limit);
}

int64_t engine_apply(struct engine *e, struct spec *spec, struct profiles *profiles,
                     const char *bundle_json, const char *author, const struct engine_order *order,
                     json_t **ret_plan, struct err *err)
{
    static const struct engine_order everything;
    order = order != NULL ? order : &everything;
    json_t *plan = engine_plan(e, spec, order, err);
    if (plan == NULL) {
        spec_free(spec);
        profiles_free(profiles);
        return -(int)err->code;
    }
    char sha[DIGEST_HEX_SIZE];
    digest_hex(bundle_json, strlen(bundle_json), sha);
    struct store_revision row = {.at = engine_wall(e),
                                 .author = author,
                                 .cluster = spec->cluster,
                                 .files = bundle_json,
                                 .sha256 = sha,
                                 .summary = json_string_value(json_object_get(plan, "summary"))};
    int64_t revision =
        strcmp(sha, e->spec_sha) == 0 ? e->revision : store_add_revision(e->store, &row);
    (void)snprintf(e->spec_sha, sizeof e->spec_sha, "%s", sha);
    for (int i = 0; i < e->node_count; i++) {
        struct enode *n = e->nodes[i];
        if (spec_find_node(spec, n->name) < 0) {
            remove_node(n, author);
            (void)map_remove(e->by_name, n->name);
            node_free(n);
            e->nodes[i] = NULL;
        }
    }
    engine_bind_spec(e, spec, profiles, revision);
    ask_all(e, order, plan, author);
    engine_index(e);
    for (int i = 0; i < e->node_count; i++) {
        if (e->netboot != NULL)
            node_publish_boot(e->nodes[i]);
        node_kick(e->nodes[i], i / 2);
    }
    rollout_apply(e, plan, author);
    *ret_plan = plan;
    return revision;
}
