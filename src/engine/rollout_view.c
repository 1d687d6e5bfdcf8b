/* What is shown of rollouts: the API's rows, why a node waits, who failed by cause. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/nodeset.h"
#include "engine/rollout_int.h"
#include "engine/view.h"

enum { NAMES_MAX = 8 << 20, CAUSE_MAX = 300, ENDED_SHOWN = 10 };

/* ---- names ---- */

static void add_name(struct strbuf *names, const char *name)
{
    strbuf_addf(names, "%s%s", names->len ? "," : "", name);
}

static void fold_names(const struct strbuf *names, struct strbuf *out)
{
    struct nodeset *set = names->len > 0 ? nodeset_parse(names->data, NULL) : NULL;
    if (set != NULL)
        nodeset_fold(set, out);
    nodeset_free(set);
}

static const char *engine_name(const struct member *m)
{
    return m->node != NULL ? m->node->name : NULL;
}

/* ---- who failed, by cause ---- */

static void cause_of(const struct enode *n, char *buf, size_t size)
{
    (void)snprintf(buf, size, "no stage is failed any more");
    for (int i = 0; i < n->stage_count; i++) {
        const struct stage_rt *s = &n->stages[i];
        if (s->status != STAGE_FAILED)
            continue;
        (void)snprintf(buf, size, "%s: %s", s->def->name, s->reason != NULL ? s->reason : "failed");
        return;
    }
}

static struct map *failed_by_cause(const struct rollout *r)
{
    struct map *groups = map_new();
    char cause[CAUSE_MAX];
    for (int i = 0; i < r->count; i++) {
        const struct member *m = &r->members[i];
        if (m->node == NULL || m->state != MEMBER_FAILED)
            continue;
        cause_of(m->node, cause, sizeof cause);
        struct strbuf *names = map_get(groups, cause);
        if (names == NULL) {
            names = xcalloc(1, sizeof *names);
            strbuf_init(names, NAMES_MAX);
            (void)map_set(groups, cause, names);
        }
        add_name(names, m->node->name);
    }
    r->engine->rollout_work += r->count;
    return groups;
}

static void add_group_text(const char *cause, void *value, void *user)
{
    struct strbuf *names = value, *out = user;
    if (out->len > 0)
        strbuf_adds(out, "; ");
    fold_names(names, out);
    strbuf_addf(out, ": %s", cause);
    strbuf_done(names);
    free(names);
}

void rollout_failures(const struct rollout *r, struct strbuf *out)
{
    struct map *groups = failed_by_cause(r);
    map_each(groups, add_group_text, out);
    map_free(groups);
}

static void add_group_row(const char *cause, void *value, void *user)
{
    struct strbuf *names = value, folded;
    strbuf_init(&folded, NAMES_MAX);
    fold_names(names, &folded);
    (void)json_array_append_new(user,
                                json_pack("{s:s,s:s}", "nodes", folded.data, "because", cause));
    strbuf_done(&folded);
    strbuf_done(names);
    free(names);
}

/* ---- rows of the API ---- */

static void set(json_t *o, const char *key, json_t *value)
{
    (void)json_object_set_new(o, key, value != NULL ? value : json_null());
}

/* {waiting: "n[3-9]", ...}: where the nodes of an open rollout are. */
static json_t *names_by_state(const struct rollout *r)
{
    json_t *o = json_object();
    for (int state = 0; state < MEMBER_LEFT; state++) {
        struct strbuf names, folded;
        strbuf_init(&names, NAMES_MAX);
        strbuf_init(&folded, NAMES_MAX);
        for (int i = 0; i < r->count; i++)
            if ((int)r->members[i].state == state && engine_name(&r->members[i]) != NULL)
                add_name(&names, engine_name(&r->members[i]));
        fold_names(&names, &folded);
        set(o, name_of(member_state_names, state, "?"), view_text(folded.data));
        strbuf_done(&names);
        strbuf_done(&folded);
    }
    return o;
}

static json_t *wave_rows(const struct rollout *r)
{
    json_t *rows = json_array();
    for (int w = 0; w < r->wave_count; w++) {
        int begin = w > 0 ? r->waves[w - 1].end : 0;
        if (w > 0 || r->waves[0].end > 0)
            (void)json_array_append_new(rows, json_pack("{s:i,s:i,s:i}", "wave", w, "nodes",
                                                        r->waves[w].end - begin, "open",
                                                        r->waves[w].open));
    }
    return rows;
}

static json_t *open_row(const struct rollout *r)
{
    char allowed[32];
    json_t *counts = json_object(), *causes = json_array();
    for (int i = 0; i < MEMBER_STATES; i++)
        set(counts, name_of(member_state_names, i, "?"), json_integer(r->counts[i]));
    struct map *groups = failed_by_cause(r);
    map_each(groups, add_group_row, causes);
    map_free(groups);
    share_text(&r->max_failed, allowed, sizeof allowed);
    json_t *o = json_object();
    set(o, "id", json_integer(r->id));
    set(o, "at", view_time(r->at));
    set(o, "ended_at", NULL);
    set(o, "cause", view_text(r->cause));
    set(o, "actor", view_text(r->actor));
    set(o, "revision", json_integer(r->revision));
    set(o, "status", json_string(name_of(rollout_status_names, (int)r->status, "?")));
    set(o, "reason", view_text(r->reason));
    set(o, "wave", json_integer(r->wave));
    set(o, "waves", wave_rows(r));
    set(o, "wave_at", view_time(r->wave_at));
    set(o, "counts", counts);
    set(o, "failures", json_integer(r->failures));
    set(o, "max_failed", r->has_max_failed ? json_string(allowed) : NULL);
    set(o, "nodes", names_by_state(r));
    set(o, "failed", causes);
    return o;
}

static void add_count(const char *status, int count, void *user)
{
    set(user, status, json_integer(count));
}

struct listing {
    struct engine *e;
    json_t *rows;
    struct err err;
};

static void add_ended(const struct store_rollout *row, void *user)
{
    struct listing *l = user;
    if (row->ended_at == 0)
        return;
    json_t *o = json_object();
    set(o, "id", json_integer(row->id));
    set(o, "at", view_time(row->at));
    set(o, "ended_at", view_time(row->ended_at));
    set(o, "cause", view_text(row->cause));
    set(o, "actor", view_text(row->actor));
    set(o, "revision", json_integer(row->revision));
    set(o, "status", view_text(row->status));
    set(o, "reason", view_text(row->reason));
    json_t *counts = json_object();
    for (int i = 0; i < MEMBER_STATES; i++)
        set(counts, name_of(member_state_names, i, "?"), json_integer(0));
    (void)store_count_rollout_nodes(l->e->store, row->id, add_count, counts, &l->err);
    set(o, "counts", counts);
    (void)json_array_append_new(l->rows, o);
}

json_t *engine_view_rollouts(struct engine *e, struct err *err)
{
    struct listing l = {.e = e, .rows = json_array()};
    for (const struct rollout *r = e->rollouts; r != NULL; r = r->next)
        (void)json_array_append_new(l.rows, open_row(r));
    if (store_each_rollout(e->store, false, ENDED_SHOWN, add_ended, &l, err) < 0) {
        json_decref(l.rows);
        return NULL;
    }
    return json_pack("{s:o}", "rollouts", l.rows);
}

json_t *rollout_of_node(const struct enode *n)
{
    const struct member *m = n->member;
    if (m == NULL)
        return json_null();
    return json_pack("{s:I,s:s,s:b}", "id", (json_int_t)m->rollout->id, "status",
                     name_of(rollout_status_names, (int)m->rollout->status, "?"), "waits",
                     member_is_open(m) && !rollout_admits(n));
}

/* ---- why a node waits ---- */

static void say(char *to, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(char *to, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(to, size, fmt, ap);
    va_end(ap);
}
#define SAY(field, ...) say((field), sizeof(field), __VA_ARGS__)

static void can(struct wait_words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void can(struct wait_words *w, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)json_array_append_new(w->can, json_string(text));
}

static void explain_halt(const struct rollout *r, struct wait_words *w)
{
    long long id = (long long)r->id;
    SAY(w->because, "%s", r->reason != NULL ? r->reason : "");
    if (r->status == ROLLOUT_CANCELLED) {
        SAY(w->doing, "waits: rollout %lld was cancelled", id);
        SAY(w->next, "nothing until the next apply or rerun");
        can(w, "clusterctl apply SPEC");
        return;
    }
    SAY(w->next, "nothing until the rollout is resumed");
    if (r->status == ROLLOUT_STOPPED) {
        SAY(w->doing, "waits: rollout %lld stopped by itself", id);
        can(w, "clusterctl rollout status %lld (who failed, and why)", id);
    } else {
        SAY(w->doing, "waits: rollout %lld is paused", id);
    }
    can(w, "clusterctl rollout resume %lld", id);
    can(w, "clusterctl rollout cancel %lld", id);
}

static void explain_canary(const struct rollout *r, struct wait_words *w)
{
    int i = 0;
    while (i + 1 < r->waves[0].end && !member_is_open(&r->members[i]))
        i++;
    const struct member *m = &r->members[i];
    const struct enode *c = m->node;
    char took[CLOCK_TEXT_SIZE], more[40] = "";
    if (r->waves[0].open > 1)
        (void)snprintf(more, sizeof more, " and %d more", r->waves[0].open - 1);
    if (c == NULL) {
        SAY(w->doing, "waits for the canaries");
        return;
    }
    const char *stage = c->attempt != NULL
                            ? c->stages[c->attempt->stage].def->name
                            : (node_is_stopped(c) ? node_admin_word(c) : node_word(c));
    SAY(w->doing, "waits for canary %s%s (%s, %s)", c->name, more, stage,
        clock_format_duration(engine_wall(r->engine) - m->changed_at, took));
    SAY(w->next, "it starts once every canary is proven");
    can(w, "clusterctl why %s", c->name);
}

static void explain_wave(const struct rollout *r, const struct member *m, struct wait_words *w)
{
    int through = r->count - r->counts[MEMBER_WAITING] - r->counts[MEMBER_STARTED];
    int before = m->wave > 0 ? r->waves[m->wave - 1].end : 0;
    if (m->wave <= r->wave) {
        SAY(w->doing, "waits for a place in rack %s", m->node->rack != NULL ? m->node->rack : "?");
        SAY(w->next, "it starts when one of %d nodes of its rack is through",
            r->racks[m->rack].started);
    } else if (m->wave == r->wave + 1 && r->wave_at > 0) {
        SAY(w->doing, "wave %d of %d begins after a pause", m->wave, r->wave_count - 1);
        SAY(w->next, "the wave begins");
        w->next_at = r->wave_at;
    } else {
        SAY(w->doing, "wave %d of %d begins when %d nodes (%d%%) are through; %d are", m->wave,
            r->wave_count - 1, before, (int)(100.0 * before / r->count + 0.5), through);
        SAY(w->next, "the waves before it go on");
    }
}

static void explain_place(const struct enode *n, struct wait_words *w)
{
    const struct limit *l = &n->engine->installs;
    SAY(w->doing, "waits for one of %d places to install", l->max);
    SAY(w->because, "%d nodes install, %d wait; racks take turns", l->in_use, l->waiting);
    SAY(w->next, "it starts when it is its turn");
}

bool node_waits(const struct enode *n, struct wait_words *w)
{
    const struct member *m = n->member;
    const struct rollout *r = m != NULL ? m->rollout : NULL;
    if (!rollout_admits(n)) {
        if (r->status != ROLLOUT_RUNNING)
            explain_halt(r, w);
        else if (r->wave == 0 && r->waves[0].open > 0 && m->wave > 0)
            explain_canary(r, w);
        else
            explain_wave(r, m, w);
        if (w->because[0] == '\0')
            SAY(w->because, "rollout %lld: %s", (long long)r->id, r->cause);
        if (r->status == ROLLOUT_RUNNING)
            can(w, "clusterctl rollout status %lld", (long long)r->id);
        return true;
    }
    if (n->place.limit == NULL || n->place.holding)
        return false;
    explain_place(n, w);
    return true;
}
