/* Plan: what applying a spec would run, node by node, and why. Computed with the fingerprints that
 * the stages will have afterwards; nothing is changed here. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/nodeset.h"
#include "base/strbuf.h"
#include "engine/node.h"
#include "engine/plan_int.h"
#include "model/fingerprint.h"

struct plan {
    struct engine *e;
    const struct spec *spec;
    const struct engine_order *order;
    struct nodeset *reinstall, *limit; /* NULL: none, all */
    json_t *nodes;
    int stages, wipes, reboots, changed_nodes, left_out;
    int64_t longest_ms; /* of all nodes, by this cluster's own history */
    uint8_t *loads;     /* of each node of the spec: PLAN_STARTS, PLAN_BURNS */
    bool changes;
};

static void note(json_t *node, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(json_t *node, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)json_array_append_new(json_object_get(node, "notes"), json_string(text));
}

static void plan_stage(struct plan *p, json_t *node, const struct stage_def *def, const char *why)
{
    int64_t ms = history_typical_ms(p->e, def->name);
    json_t *row = json_pack("{s:s,s:s,s:b,s:b,s:o}", "name", def->name, "why", why, "wipes",
                            def->wipes, "reboots", def->reboots, "seconds",
                            ms > 0 ? json_integer((ms + 500) / 1000) : json_null());
    (void)json_array_append_new(json_object_get(node, "stages"), row);
    p->stages++;
    p->wipes += def->wipes;
    p->reboots += def->reboots;
    p->changes = true;
}

static bool reinstalls(const struct plan *p, const struct spec_node *spec)
{
    return p->reinstall != NULL && nodeset_contains(p->reinstall, spec->name);
}

/* One node's plan while it is made. */
struct outlook {
    struct plan *p;
    const struct spec_node *spec;
    const struct spec_class *klass;
    const struct enode *n; /* NULL: a new one */
    json_t *node;
    proof_text *proofs; /* at what each stage will be proven afterwards */
    bool *asked;        /* a reinstall asks for it: see node_queue() */
    bool *current;      /* later stages may build on it afterwards */
    bool passed_from;   /* the stage of --from was reached */
    int left_out;       /* stages that are not current and stay so */
    int64_t ms;
};

static void explain(const struct enode *n, const struct stage_rt *s, const json_t *now,
                    struct strbuf *why)
{
    json_t *then = stage_proof(n, (int)(s - n->stages));
    inputs_explain(then, now, why);
    json_decref(then);
}

/* Why a known stage would run, into `why`; empty: it would not. `now`: what it rests on then. */
static void judge_stage(const struct enode *n, const struct stage_rt *s, const json_t *now,
                        const char *hex, struct strbuf *why)
{
    bool same = s->fingerprint != NULL && strcmp(hex, s->fingerprint) == 0;
    switch (s->status) {
    case STAGE_PENDING:
        strbuf_adds(why, "never proven");
        break;
    case STAGE_QUEUED:
        strbuf_adds(why, s->reason != NULL ? s->reason : "asked for");
        break;
    case STAGE_RUNNING:
        strbuf_adds(why, "running now");
        break;
    case STAGE_FAILED:
        if (same && !stage_failed_for_good(s))
            strbuf_addf(why, "failed before (%s); tried again", s->reason ? s->reason : "?");
        else if (!same)
            explain(n, s, now, why);
        break;
    case STAGE_SKIPPED:
        if (!(same && s->passed_at > 0))
            strbuf_adds(why, "it applies now");
        break;
    default:
        if (!same && s->fingerprint != NULL)
            explain(n, s, now, why);
        else if (s->status == STAGE_STALE && !(same && s->passed_at > 0))
            strbuf_adds(why, s->reason != NULL ? s->reason : "stale");
        break;
    }
}

/* Whether a reinstall asks for the stage, as node_queue() will: it, and what needs it. */
static bool asked_by_reinstall(const struct outlook *o, const struct stage_def *def,
                               const char **ret_which)
{
    const struct profile *profile = o->klass->profile;
    *ret_which = NULL;
    if (def->wipes)
        return reinstalls(o->p, o->spec);
    for (int i = 0; def->needs != NULL && def->needs[i] != NULL; i++)
        for (int j = 0; j < profile->stage_count; j++)
            if (o->asked[j] && strcmp(profile->stages[j].name, def->needs[i]) == 0) {
                *ret_which = def->needs[i];
                return true;
            }
    return false;
}

static void plan_known(const struct outlook *o, const struct stage_rt *s,
                       const struct stage_def *def, const json_t *now, const char *hex,
                       const char *which, bool asked, struct strbuf *why)
{
    if (s == NULL)
        strbuf_adds(why, "never proven");
    else if (asked && def->wipes && s->status != STAGE_RUNNING)
        strbuf_adds(why, "reinstall asked for");
    else
        judge_stage(o->n, s, now, hex, why);
    if (why->len == 0 && asked)
        strbuf_addf(why, "stage %s is proven again", which != NULL ? which : def->name);
    bool keeps_os = def->wipes && s != NULL && s->passed_at > 0 && !asked &&
                    s->status != STAGE_QUEUED && s->status != STAGE_RUNNING;
    if (why->len > 0 && keeps_os) {
        note(o->node, "%s is not current (%s) but the disk stays as it is; ask with --reinstall %s",
             def->name, why->data, o->spec->name);
        strbuf_reset(why);
    }
}

/* Whether the order lets a stage that is not current run; `why_not` says what keeps it. What was
 * asked for on nodes outside --limit goes on. */
static bool order_admits(struct outlook *o, const struct stage_def *def, const struct stage_rt *s,
                         const char **why_not)
{
    bool asked = s != NULL && (s->status == STAGE_QUEUED || s->status == STAGE_RUNNING);
    const struct engine_order *order = o->p->order;
    const struct profile *profile = o->klass->profile;
    *why_not = "left out by --limit";
    bool inside = o->p->limit == NULL || nodeset_contains(o->p->limit, o->spec->name);
    if (!inside && !asked)
        return false;
    *why_not = order->only != NULL ? "left out by --only" : "left out by --from";
    if (inside && order->only != NULL && strcmp(order->only, def->name) != 0)
        return false;
    if (inside && order->from != NULL && !o->passed_from)
        return false;
    *why_not = "a stage before it is not current and left out";
    char **lists[] = {def->needs, def->after};
    for (int l = 0; l < 2; l++)
        for (int i = 0; lists[l] != NULL && lists[l][i] != NULL; i++) {
            const struct stage_def *before = profile_stage(profile, lists[l][i]);
            if (before != NULL && !o->current[before - profile->stages])
                return false;
        }
    return true;
}

static void plan_one(struct outlook *o, int i)
{
    const struct stage_def *def = &o->klass->profile->stages[i];
    int at = o->n != NULL ? node_stage_index(o->n, def->name) : -1;
    const struct stage_rt *s = at >= 0 ? &o->n->stages[at] : NULL;
    const char *which, *why_not;
    char buf[200], hex[DIGEST_HEX_SIZE];
    o->asked[i] = asked_by_reinstall(o, def, &which);
    o->current[i] = true;
    o->passed_from =
        o->passed_from || (o->p->order->from != NULL && strcmp(o->p->order->from, def->name) == 0);
    if (s != NULL && s->fingerprint != NULL)
        (void)snprintf(o->proofs[i], sizeof o->proofs[i], "%s", s->fingerprint);
    if (stage_skip_reason(o->klass, def, buf, sizeof buf) != NULL) {
        note(o->node, "%s is skipped: %s", def->name, buf);
        return;
    }
    struct strbuf why;
    strbuf_init(&why, 4096);
    json_t *now = stage_inputs_with(o->p->e, o->n, o->spec, o->klass, def, o->proofs);
    inputs_fingerprint(now, hex);
    plan_known(o, s, def, now, hex, which, o->asked[i], &why);
    if (why.len > 0 && order_admits(o, def, s, &why_not)) {
        plan_stage(o->p, o->node, def, why.data);
        memcpy(o->proofs[i], hex, sizeof hex);
        int64_t ms = history_typical_ms(o->p->e, def->name);
        o->ms += ms > 0 ? ms : 0;
        o->p->loads[o->spec - o->p->spec->nodes] |=
            (uint8_t)((def->reboots ? PLAN_STARTS : 0) | (def->burnin ? PLAN_BURNS : 0));
    } else if (why.len > 0) {
        note(o->node, "%s is not current (%s): %s", def->name, why.data, why_not);
        o->current[i] = false;
        o->left_out++;
    } else if (s != NULL && s->status == STAGE_FAILED) {
        o->current[i] = stage_satisfied(s);
    }
    json_decref(now);
    strbuf_done(&why);
}

static const char *action_of(const struct outlook *o, bool any)
{
    if (o->n == NULL)
        return "add";
    return any ? "change" : o->left_out > 0 ? "left out" : "none";
}

static void plan_node(struct plan *p, const struct spec_node *spec)
{
    const struct spec_class *klass = &p->spec->classes[spec->class_index];
    size_t count = (size_t)klass->profile->stage_count + 1;
    struct outlook o = {.p = p,
                        .spec = spec,
                        .klass = klass,
                        .n = engine_find(p->e, spec->name),
                        .node = json_pack("{s:s,s:[],s:[]}", "name", spec->name, "stages", "notes"),
                        .proofs = xcalloc(count, sizeof(proof_text)),
                        .asked = xcalloc(count, sizeof(bool)),
                        .current = xcalloc(count, sizeof(bool))};
    int before = p->stages;
    for (int i = 0; i < klass->profile->stage_count; i++)
        plan_one(&o, i);
    free(o.proofs);
    free(o.asked);
    free(o.current);
    bool any = p->stages > before;
    p->changed_nodes += any;
    p->left_out += o.left_out > 0;
    p->longest_ms = o.ms > p->longest_ms ? o.ms : p->longest_ms;
    (void)json_object_set_new(o.node, "action", json_string(action_of(&o, any)));
    p->changes = p->changes || o.n == NULL;
    (void)json_array_append_new(p->nodes, o.node);
}

static void plan_removals(struct plan *p)
{
    for (int i = 0; i < p->e->node_count; i++) {
        const char *name = p->e->nodes[i]->name;
        if (spec_find_node(p->spec, name) >= 0)
            continue;
        json_t *node =
            json_pack("{s:s,s:s,s:[],s:[]}", "name", name, "action", "remove", "stages", "notes");
        note(node, "no longer in the spec: its record is closed, the machine is left as it is");
        (void)json_array_append_new(p->nodes, node);
        p->changes = true;
        p->changed_nodes++;
    }
}

/* Over what would be done and why; how long it may take is no part of the promise. */
static void plan_hash(const json_t *nodes, char hash[DIGEST_HEX_SIZE])
{
    struct digest *d = digest_new();
    size_t i, j;
    json_t *node, *row;
    json_array_foreach(nodes, i, node)
    {
        const char *name = json_string_value(json_object_get(node, "name"));
        const char *action = json_string_value(json_object_get(node, "action"));
        digest_add(d, name, strlen(name) + 1);
        digest_add(d, action, strlen(action) + 1);
        json_array_foreach(json_object_get(node, "stages"), j, row)
        {
            const char *stage = json_string_value(json_object_get(row, "name"));
            const char *why = json_string_value(json_object_get(row, "why"));
            digest_add(d, stage, strlen(stage) + 1);
            digest_add(d, why, strlen(why) + 1);
        }
        json_array_foreach(json_object_get(node, "notes"), j, row)
        {
            digest_add(d, json_string_value(row), json_string_length(row) + 1);
        }
    }
    digest_finish(d, hash);
}

static int check_nodes(const struct plan *p, const char *option, const char *text,
                       struct nodeset **ret, struct err *err)
{
    if (text == NULL || text[0] == '\0')
        return 0;
    *ret = nodeset_parse(text, err);
    if (*ret == NULL)
        return err_wrap(err, "%s: ", option);
    for (int i = 0; i < nodeset_count(*ret); i++)
        if (spec_find_node(p->spec, nodeset_at(*ret, i)) < 0)
            return err_set(err, ERR_NOT_FOUND, "%s: no node is called '%s' in this spec", option,
                           nodeset_at(*ret, i));
    return 0;
}

static int check_stage(const struct plan *p, const char *option, const char *name, struct err *err)
{
    if (name == NULL)
        return 0;
    for (int i = 0; i < p->spec->class_count; i++)
        if (profile_stage(p->spec->classes[i].profile, name) != NULL)
            return 0;
    return err_set(err, ERR_NOT_FOUND, "%s: no class of this spec has a stage '%s'", option, name);
}

static int check_order(struct plan *p, struct err *err)
{
    const struct engine_order *o = p->order;
    if (o->only != NULL && o->from != NULL)
        return err_set(err, ERR_INVALID, "--only and --from exclude each other");
    if (o->reinstall != NULL && (o->only != NULL || o->from != NULL))
        return err_set(err, ERR_INVALID,
                       "--reinstall asks for everything that stands on the disk: it does not go "
                       "with --only or --from");
    if (check_nodes(p, "--reinstall", o->reinstall, &p->reinstall, err) < 0 ||
        check_nodes(p, "--limit", o->limit, &p->limit, err) < 0 ||
        check_stage(p, "--only", o->only, err) < 0 || check_stage(p, "--from", o->from, err) < 0)
        return -(int)err->code;
    for (int i = 0; p->reinstall != NULL && p->limit != NULL && i < nodeset_count(p->reinstall);
         i++)
        if (!nodeset_contains(p->limit, nodeset_at(p->reinstall, i)))
            return err_set(err, ERR_INVALID, "--reinstall names %s, which --limit leaves out",
                           nodeset_at(p->reinstall, i));
    return 0;
}

static void summarise(const struct plan *p, char *text, size_t size)
{
    char took[CLOCK_TEXT_SIZE], left[80] = "";
    if (p->left_out > 0)
        (void)snprintf(left, sizeof left, "; %d nodes are not current and left out", p->left_out);
    if (!p->changes)
        (void)snprintf(text, size, "nothing to do: %d nodes are as the spec says%s",
                       p->spec->node_count - p->left_out, left);
    else
        (void)snprintf(
            text, size,
            "%d of %d nodes: %d stages to run, %d of them overwrite a disk, %d reboot%s%s%s",
            p->changed_nodes, p->spec->node_count, p->stages, p->wipes, p->reboots,
            p->longest_ms > 0 ? "; a node takes about " : "",
            p->longest_ms > 0 ? clock_format_duration(p->longest_ms, took) : "", left);
}

json_t *engine_plan(struct engine *e, const struct spec *spec, const struct engine_order *order,
                    struct err *err)
{
    static const struct engine_order everything;
    struct plan p = {.e = e,
                     .spec = spec,
                     .order = order != NULL ? order : &everything,
                     .nodes = json_array(),
                     .loads = xcalloc((size_t)spec->node_count + 1, 1)};
    int rc = check_order(&p, err);
    for (int i = 0; i < spec->node_count && rc == 0; i++)
        plan_node(&p, &spec->nodes[i]);
    if (rc == 0)
        plan_removals(&p);
    nodeset_free(p.reinstall);
    nodeset_free(p.limit);
    json_t *feeds = rc == 0 ? plan_feeds(spec, p.loads) : NULL;
    free(p.loads);
    if (rc < 0) {
        json_decref(p.nodes);
        return NULL;
    }
    char summary[300], hash[DIGEST_HEX_SIZE];
    summarise(&p, summary, sizeof summary);
    plan_hash(p.nodes, hash);
    return json_pack("{s:s,s:b,s:I,s:o,s:s,s:I,s:o}", "hash", hash, "changes", p.changes,
                     "revision", (json_int_t)e->revision, "nodes", p.nodes, "summary", summary,
                     "seconds", (json_int_t)(p.longest_ms / 1000), "feeds", feeds);
}
