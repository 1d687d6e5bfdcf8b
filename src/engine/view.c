/* What the API shows of nodes, as JSON (docs/api.md). Reads only. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "bmc/bmc.h"
#include "engine/rollout.h"
#include "engine/swap.h"
#include "engine/view.h"

enum { ATTEMPTS_SHOWN = 20, MEASUREMENTS_SHOWN = 100 };

json_t *view_time(int64_t wall_ms)
{
    char buf[CLOCK_TEXT_SIZE];
    return wall_ms > 0 ? json_string(clock_format(wall_ms, buf)) : json_null();
}

json_t *view_text(const char *text)
{
    return text != NULL && text[0] != '\0' ? json_string(text) : json_null();
}

static void set(json_t *o, const char *key, json_t *value)
{
    (void)json_object_set_new(o, key, value != NULL ? value : json_null());
}

/* The stage in work, else the first that is not satisfied, else the last. */
static int current_stage(const struct enode *n)
{
    if (n->attempt != NULL)
        return n->attempt->stage;
    for (int i = 0; i < n->stage_count; i++)
        if (!stage_satisfied(&n->stages[i]))
            return i;
    return n->stage_count - 1;
}

/* As stored, but a stage whose predecessors are not there yet says so. */
static const char *shown_status(const struct enode *n, int i)
{
    const struct stage_rt *s = &n->stages[i];
    if (stage_states[s->status].runnable && !node_stages_ready(n, i))
        return "blocked";
    return stage_status_name(s->status);
}

static json_t *node_row(const struct enode *n)
{
    int at = current_stage(n);
    const struct stage_rt *s = at >= 0 ? &n->stages[at] : NULL;
    json_t *o = json_object();
    set(o, "name", json_string(n->name));
    set(o, "class", json_string(n->klass->name));
    set(o, "rack", view_text(n->rack));
    set(o, "state", json_string(node_word(n)));
    set(o, "stage", s != NULL ? json_string(s->def->name) : NULL);
    set(o, "stage_status", s != NULL ? json_string(shown_status(n, at)) : NULL);
    set(o, "operation", json_string(node_operation(n)));
    set(o, "step", view_text(n->attempt != NULL ? n->doing : NULL));
    set(o, "admin", json_string(node_admin_word(n)));
    set(o, "power",
        json_pack("{s:o,s:o,s:o}", "desired", view_text(n->power_desired), "observed",
                  view_text(n->power_observed), "at", view_time(n->power_at)));
    set(o, "boot_intent", view_text(n->boot_intent));
    set(o, "rollout", rollout_of_node(n));
    set(o, "health", json_string(node_health(n)));
    const char *reason = n->swap != NULL           ? n->swap->reason
                         : n->admin != NODE_ACTIVE ? n->hold_reason
                         : s != NULL               ? s->reason
                                                   : NULL;
    set(o, "reason", view_text(reason));
    set(o, "since",
        view_time(n->attempt != NULL ? n->attempt->started_at : (s != NULL ? s->changed_at : 0)));
    set(o, "waived", waived_view(n));
    set(o, "attempt", n->attempt != NULL ? json_integer(n->attempt->id) : NULL);
    set(o, "address", view_text(n->spec->address));
    set(o, "bmc", view_text(n->spec->bmc));
    return o;
}

json_t *engine_view_nodes(struct engine *e, const char *nodeset, struct err *err)
{
    struct enode **nodes;
    int count;
    if (engine_select(e, nodeset, &nodes, &count, err) < 0)
        return NULL;
    json_t *rows = json_array();
    for (int i = 0; i < count; i++)
        (void)json_array_append_new(rows, node_row(nodes[i]));
    free(nodes);
    return json_pack("{s:o,s:o,s:I}", "nodes", rows, "cluster",
                     view_text(e->spec != NULL ? e->spec->cluster : NULL), "revision",
                     (json_int_t)e->revision);
}

static json_t *stage_rows(const struct enode *n)
{
    json_t *rows = json_array();
    for (int i = 0; i < n->stage_count; i++) {
        const struct stage_rt *s = &n->stages[i];
        json_t *o = json_object();
        set(o, "name", json_string(s->def->name));
        set(o, "proves", view_text(s->def->proves));
        set(o, "status", json_string(shown_status(n, i)));
        set(o, "reason", view_text(s->reason));
        set(o, "passed_at", view_time(s->passed_at));
        set(o, "attempt", s->attempt_id > 0 ? json_integer(s->attempt_id) : NULL);
        set(o, "fingerprint", view_text(s->fingerprint));
        set(o, "retry_at", view_time(s->retry_at));
        set(o, "drift", view_text(s->drift));
        (void)json_array_append_new(rows, o);
    }
    return rows;
}

json_t *engine_view_stages(struct engine *e, const char *nodeset, struct err *err)
{
    struct enode **nodes;
    int count;
    if (engine_select(e, nodeset, &nodes, &count, err) < 0)
        return NULL;
    json_t *rows = json_array();
    for (int i = 0; i < count; i++)
        (void)json_array_append_new(
            rows, json_pack("{s:s,s:o}", "name", nodes[i]->name, "stages", stage_rows(nodes[i])));
    free(nodes);
    return json_pack("{s:o}", "nodes", rows);
}

/* ---- one node, with its history from the store ---- */

static void add_step_row(const struct store_step *r, void *user)
{
    json_t *o = json_object();
    set(o, "index", json_integer(r->index));
    set(o, "type", view_text(r->type));
    set(o, "what", view_text(r->what));
    set(o, "status", view_text(r->status));
    set(o, "result", view_text(r->result));
    set(o, "started_at", view_time(r->started_at));
    set(o, "ended_at", view_time(r->ended_at));
    (void)json_array_append_new(user, o);
}

json_t *view_attempt(const struct store_attempt *r)
{
    json_t *o = json_object();
    set(o, "id", json_integer(r->id));
    set(o, "stage", view_text(r->stage));
    set(o, "number", json_integer(r->number));
    set(o, "status", view_text(r->status));
    set(o, "why", view_text(r->why));
    set(o, "started_at", view_time(r->started_at));
    set(o, "ended_at", view_time(r->ended_at));
    set(o, "error", view_text(r->error));
    set(o, "error_code", view_text(r->error_code));
    return o;
}

static void add_attempt_row(const struct store_attempt *r, void *user)
{
    (void)json_array_append_new(user, view_attempt(r));
}

static json_t *attempt_rows(struct engine *e, const struct enode *n)
{
    json_t *rows = json_array();
    (void)store_each_attempt(e->store, n->id, NULL, ATTEMPTS_SHOWN, add_attempt_row, rows, NULL);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        json_t *steps = json_array();
        (void)store_each_step(e->store, json_integer_value(json_object_get(row, "id")),
                              add_step_row, steps, NULL);
        set(row, "steps", steps);
    }
    return rows;
}

static void add_measurement_row(const struct store_measurement *r, void *user)
{
    json_t *o = json_object();
    set(o, "stage", view_text(r->stage));
    set(o, "name", view_text(r->name));
    set(o, "value", json_real(r->value));
    set(o, "unit", view_text(r->unit));
    set(o, "peer", view_text(r->peer));
    set(o, "limit", isnan(r->limit) ? NULL : json_real(r->limit));
    set(o, "verdict", view_text(r->verdict));
    set(o, "at", view_time(r->at));
    (void)json_array_append_new(user, o);
}

static json_t *component_rows(const struct enode *n)
{
    json_t *rows = json_array();
    for (int i = 0; n->hardware != NULL && i < hardware_count(n->hardware); i++) {
        const struct component *c = hardware_at(n->hardware, i);
        json_t *o = json_object();
        set(o, "kind", view_text(c->kind));
        set(o, "slot", view_text(c->slot));
        set(o, "identity", view_text(c->identity));
        set(o, "model", view_text(c->model));
        set(o, "firmware", view_text(c->firmware));
        set(o, "detail", view_text(c->detail));
        (void)json_array_append_new(rows, o);
    }
    return rows;
}

static json_t *mac_rows(const struct enode *n)
{
    json_t *rows = json_array();
    for (int i = 0; n->spec->macs != NULL && n->spec->macs[i] != NULL; i++)
        (void)json_array_append_new(rows, json_string(n->spec->macs[i]));
    return rows;
}

json_t *engine_view_node(struct engine *e, const char *name, struct err *err)
{
    struct enode *n = engine_find(e, name);
    if (n == NULL) {
        (void)err_set(err, ERR_NOT_FOUND, "no node is called '%s'", name);
        return NULL;
    }
    json_t *o = node_row(n);
    set(o, "macs", mac_rows(n));
    set(o, "serial", view_text(n->spec->serial));
    set(o, "uuid", view_text(n->spec->uuid));
    set(o, "profile", json_string(n->klass->profile->name));
    set(o, "vars", json_incref(n->spec->vars));
    set(o, "stages", stage_rows(n));
    set(o, "attempts", attempt_rows(e, n));
    json_t *components = component_rows(n);
    swap_add_history(n, components);
    set(o, "components", components);
    set(o, "machine", swap_machine_view(n));
    set(o, "swap", swap_view(n));
    json_t *measurements = json_array();
    (void)store_each_measurement(e->store, n->id, MEASUREMENTS_SHOWN, add_measurement_row,
                                 measurements, NULL);
    set(o, "measurements", measurements);
    set(o, "bmc_gate", n->bmc != NULL ? bmc_view(n->bmc) : NULL);
    set(o, "bmc_identity", n->bmc_identity != NULL ? json_incref(n->bmc_identity) : NULL);
    set(o, "probed_at", view_time(n->probed_at));
    set(o, "sweep", sweep_view(n));
    set(o, "host_key", view_text(n->host_key));
    return o;
}

json_t *engine_view_vars(struct engine *e, const char *name, struct err *err)
{
    struct enode *n = engine_find(e, name);
    if (n == NULL) {
        (void)err_set(err, ERR_NOT_FOUND, "no node is called '%s'", name);
        return NULL;
    }
    json_t *o = json_deep_copy(n->spec->vars);
    if (o == NULL)
        o = json_object();
    set(o, "node",
        json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:o}", "name", n->name, "class", n->klass->name, "rack",
                  view_text(n->rack), "address", view_text(n->spec->address), "serial",
                  view_text(n->spec->serial), "uuid", view_text(n->spec->uuid), "macs",
                  mac_rows(n)));
    set(o, "cluster", json_pack("{s:s}", "name", e->spec->cluster));
    return o;
}

static json_t *latency_view(const struct latency *l)
{
    return json_pack("{s:I,s:f,s:f,s:f}", "count", (json_int_t)l->count, "p50_ms",
                     (double)latency_percentile(l, 50) / 1000, "p99_ms",
                     (double)latency_percentile(l, 99) / 1000, "max_ms", (double)l->max_us / 1000);
}

json_t *engine_view_status(struct engine *e)
{
    json_t *by_state = json_object();
    int running = 0, failed = 0, held = 0, maintenance = 0, suspected = 0;
    for (int i = 0; i < e->node_count; i++) {
        struct enode *n = e->nodes[i];
        const char *word = node_word(n);
        json_int_t count = json_integer_value(json_object_get(by_state, word));
        set(by_state, word, json_integer(count + 1));
        running += n->attempt != NULL;
        held += n->admin == NODE_HELD;
        maintenance += n->admin == NODE_MAINTENANCE;
        suspected += n->swap != NULL;
        for (int j = 0; j < n->stage_count; j++)
            if (n->stages[j].status == STAGE_FAILED) {
                failed++;
                break;
            }
    }
    json_t *limits = json_array();
    const struct limit *shown[] = {&e->installs, &e->sweeps};
    for (size_t i = 0; i < ARRAY_LEN(shown); i++)
        (void)json_array_append_new(
            limits, json_pack("{s:s,s:i,s:i,s:i}", "name", shown[i]->name, "max", shown[i]->max,
                              "in_use", shown[i]->in_use, "waiting", shown[i]->waiting));
    const struct latency *lag = loop_lag(e->loop), *commits = store_commits(e->store);
    json_t *loop = latency_view(lag), *store = latency_view(commits);
    json_t *bmcs = e->c.bmc_hub != NULL ? bmc_hub_view(e->c.bmc_hub) : json_null();
    return json_pack(
        "{s:s,s:o,s:I,s:{s:i,s:i,s:i,s:i,s:i,s:i,s:o},s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "version",
        CLUSTERD_VERSION, "cluster", view_text(e->spec != NULL ? e->spec->cluster : NULL),
        "revision", (json_int_t)e->revision, "nodes", "total", e->node_count, "running", running,
        "failed", failed, "held", held, "maintenance", maintenance, "swap_suspected", suspected,
        "by_state", by_state, "loop_lag_ms", (json_int_t)loop_worst_lag(e->loop), "limits", limits,
        "feeds", watts_view(e), "fault", view_text(e->fault), "loop", loop, "commits", store,
        "sweeps", sweeps_view(e), "bmcs", bmcs);
}
