/* Operators' verbs on rollouts, and what the store knows of them at the start. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "engine/rollout_int.h"

/* ---- verbs ---- */

static const char no_rollout[] = "no rollout is under way";

static struct rollout *find_open(struct engine *e, int64_t id, struct err *err)
{
    struct rollout *found = NULL;
    int count = 0;
    for (struct rollout *r = e->rollouts; r != NULL; r = r->next) {
        if (r->id == id)
            return r;
        if (r->status != ROLLOUT_CANCELLED) {
            found = r;
            count++;
        }
    }
    if (id > 0)
        (void)err_set(err, ERR_NOT_FOUND, "rollout %lld is not under way", (long long)id);
    else if (count == 0)
        (void)err_set(err, ERR_NOT_FOUND, "%s", no_rollout);
    else if (count > 1)
        (void)err_set(err, ERR_CONFLICT, "%d rollouts are under way: say which, by its number",
                      count);
    return id == 0 && count == 1 ? found : NULL;
}

static int refuse(const struct rollout *r, const char *verb, struct err *err)
{
    return err_set(err, ERR_CONFLICT, "rollout %lld cannot be %s: it is %s", (long long)r->id, verb,
                   name_of(rollout_status_names, (int)r->status, "?"));
}

static int pause_it(struct rollout *r, const char *actor, struct err *err)
{
    if (r->status != ROLLOUT_RUNNING)
        return refuse(r, "paused", err);
    char *why = xasprintf("paused by %s", actor);
    rollout_set_status(r, ROLLOUT_PAUSED, why);
    free(why);
    rollout_event(r, "rollout.paused", actor, "what is running goes to its end");
    return 0;
}

static int resume_it(struct rollout *r, const char *actor, struct err *err)
{
    bool stopped = r->status == ROLLOUT_STOPPED;
    if (!stopped && r->status != ROLLOUT_PAUSED)
        return refuse(r, "resumed", err);
    if (stopped) {
        r->round++;
        r->failures = r->canary_failures = 0;
    }
    rollout_set_status(r, ROLLOUT_RUNNING, NULL);
    rollout_event(r, "rollout.resumed", actor, "%d nodes are not through%s",
                  r->counts[MEMBER_WAITING] + r->counts[MEMBER_STARTED],
                  stopped ? "; failures so far are not counted any more" : "");
    rollout_kick(r);
    rollout_fill(r);
    rollout_pump(r);
    return 0;
}

/* Whether the stage's last proof, if any, is of the system that is on the disk now: it counts again
 * when nobody asks for a new one. Not while that system is being replaced, or since it was. */
static bool proof_stands(const struct enode *n, const struct stage_rt *s)
{
    for (int i = 0; i < n->stage_count; i++) {
        const struct stage_rt *os = &n->stages[i];
        if (os->def->wipes && s >= os && s->passed_at > 0)
            return os->status != STAGE_RUNNING && os->passed_at > 0 &&
                   s->passed_at >= os->passed_at;
    }
    return true;
}

/* What was asked for is not any more: a later rerun must not bring it back, least of all a
 * reinstall. */
static void forget_wishes(struct enode *n, const char *why)
{
    for (int i = 0; i < n->stage_count; i++) {
        struct stage_rt *s = &n->stages[i];
        if (s->status != STAGE_QUEUED || !proof_stands(n, s))
            continue;
        s->tries = 0;
        s->retry_at = 0;
        (void)stage_post(n, i, STAGE_EV_CANCEL, why);
    }
}

static int cancel_it(struct rollout *r, const char *actor, struct err *err)
{
    if (r->status == ROLLOUT_CANCELLED)
        return refuse(r, "cancelled", err);
    char *why = xasprintf("cancelled by %s", actor);
    char *reason = xasprintf("rollout %lld was cancelled by %s", (long long)r->id, actor);
    rollout_set_status(r, ROLLOUT_CANCELLED, why);
    rollout_event(r, "rollout.cancelled", actor,
                  "%d nodes are not through: they start nothing until the next apply or rerun",
                  r->counts[MEMBER_WAITING] + r->counts[MEMBER_STARTED]);
    for (int i = 0; i < r->count; i++)
        if (r->members[i].node != NULL && member_is_open(&r->members[i]) && !r->members[i].asked)
            forget_wishes(r->members[i].node, reason);
    rollout_kick(r);
    free(reason);
    free(why);
    rollout_pump(r);
    return 0;
}

json_t *engine_rollout(struct engine *e, int64_t id, const char *verb, const char *actor,
                       struct err *err)
{
    static const struct {
        const char *verb, *text;
        int (*run)(struct rollout *r, const char *actor, struct err *err);
    } verbs[] = {
        {"pause", "paused; what is running goes to its end", pause_it},
        {"resume", "goes on", resume_it},
        {"cancel", "cancelled; nothing starts on its nodes until the next apply or rerun",
         cancel_it},
    };
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (strcmp(verbs[i].verb, verb) != 0)
            continue;
        struct rollout *r = find_open(e, id, err);
        if (r == NULL)
            return NULL;
        id = r->id;
        if (verbs[i].run(r, actor, err) < 0)
            return NULL;
        return json_pack("{s:I,s:s}", "id", (json_int_t)id, "text", verbs[i].text);
    }
    (void)err_set(err, ERR_INVALID, "unknown verb '%s': use pause, resume or cancel", verb);
    return NULL;
}

/* ---- at the start ---- */

static void load_rollout(const struct store_rollout *row, void *user)
{
    struct engine *e = user;
    int status = name_id(rollout_status_names, row->status);
    if (status < 0)
        return;
    struct rollout *r = xcalloc(1, sizeof *r);
    *r = (struct rollout){.engine = e,
                          .id = row->id,
                          .at = row->at,
                          .revision = row->revision,
                          .wave_at = row->wave_at,
                          .changed_at = row->changed_at,
                          .cause = xstrdup(row->cause),
                          .actor = xstrdup(row->actor),
                          .reason = xstrdup(row->reason),
                          .settings =
                              row->settings != NULL ? json_loads(row->settings, 0, NULL) : NULL,
                          .status = (enum rollout_status)status,
                          .wave = row->wave,
                          .round = row->round};
    rollout_read_settings(r);
    /* rows come newest first; the list is kept so */
    struct rollout **at = &e->rollouts;
    while (*at != NULL)
        at = &(*at)->next;
    *at = r;
}

struct loading {
    struct rollout *r;
    int capacity;
};

static void load_member(const struct store_rollout_node *row, void *user)
{
    struct loading *l = user;
    struct rollout *r = l->r;
    int state = name_id(member_state_names, row->status);
    if (state < 0 || row->wave < 0)
        return;
    ARRAY_GROW(r->members, r->count, l->capacity);
    struct member *m = &r->members[r->count];
    *m = (struct member){.rollout = r,
                         .node = engine_find_id(r->engine, row->node_id),
                         .node_id = row->node_id,
                         .ordinal = r->count,
                         .wave = row->wave,
                         .state = (enum member_state)state,
                         .failed_round = row->failed_round,
                         .asked = row->asked,
                         .changed_at = row->changed_at};
    r->count++;
    if (m->state == MEMBER_LEFT)
        m->node = NULL;
    if (m->node == NULL && member_is_open(m))
        m->state = MEMBER_LEFT; /* it left the spec while the daemon was away */
    if (m->node != NULL)
        m->rack = node_lane(m->node);
}

static void restore_waves(struct rollout *r)
{
    for (int i = 0; i < r->count; i++)
        if (r->members[i].wave >= r->wave_count)
            r->wave_count = r->members[i].wave + 1;
    if (r->wave >= r->wave_count)
        r->wave_count = r->wave + 1;
    r->waves = xcalloc((size_t)r->wave_count, sizeof *r->waves);
    for (int i = 0; i < r->count; i++)
        r->waves[r->members[i].wave].end = i + 1;
    for (int w = 1; w < r->wave_count; w++)
        if (r->waves[w].end < r->waves[w - 1].end)
            r->waves[w].end = r->waves[w - 1].end;
}

/* Of two rollouts the newer one has the node: what it was in the older one is settled. */
static void attach(struct rollout *r)
{
    for (int i = 0; i < r->count; i++) {
        struct member *m = &r->members[i];
        if (m->node == NULL)
            continue;
        if (m->node->member != NULL)
            m->node = NULL;
        else
            m->node->member = m;
    }
}

int rollouts_load(struct engine *e, struct err *err)
{
    enum { OPEN_MAX = 10000 };
    if (store_each_rollout(e->store, true, OPEN_MAX, load_rollout, e, err) < 0)
        return -(int)err->code;
    for (struct rollout *r = e->rollouts; r != NULL; r = r->next) {
        struct loading l = {.r = r};
        if (store_each_rollout_node(e->store, r->id, load_member, &l, err) < 0)
            return -(int)err->code;
        restore_waves(r);
        rollout_index(r);
        attach(r);
    }
    return 0;
}

void rollouts_go_on(struct engine *e)
{
    struct rollout *next;
    for (struct rollout *r = e->rollouts; r != NULL; r = next) {
        next = r->next;
        rollout_fill(r);
        rollout_pump(r);
    }
}
