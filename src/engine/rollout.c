/* A rollout's life: it begins, starts its nodes wave by wave, counts, stops itself, ends. */
#include "engine/rollout.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "engine/rollout_int.h"

enum {
    JITTER_MAX_MS = 1000, /* nodes of a wave start within this beyond their turn */
    TURNS_PER_MS = 2,     /* a look at a node costs about half a millisecond */
    ROLLOUTS_KEPT = 20,   /* whose nodes stay in the store */
    EVENT_TEXT_MAX = 16384,
};

const struct name rollout_status_names[] = {
    {ROLLOUT_RUNNING, "running"},
    {ROLLOUT_PAUSED, "paused"},
    {ROLLOUT_STOPPED, "stopped"},
    {ROLLOUT_CANCELLED, "cancelled"},
    {ROLLOUT_FINISHED, "finished"},
    {ROLLOUT_REPLACED, "replaced"},
    {0, NULL},
};

const struct name member_state_names[] = {
    {MEMBER_WAITING, "waiting"}, {MEMBER_STARTED, "started"}, {MEMBER_DONE, "done"},
    {MEMBER_FAILED, "failed"},   {MEMBER_LEFT, "left"},       {0, NULL},
};

/* ---- records ---- */

void rollout_save(struct rollout *r)
{
    char *settings = r->settings != NULL ? json_dumps(r->settings, JSON_COMPACT) : NULL;
    struct store_rollout row = {.id = r->id,
                                .at = r->at,
                                .cause = r->cause,
                                .actor = r->actor,
                                .revision = r->revision,
                                .status = name_of(rollout_status_names, (int)r->status, "?"),
                                .reason = r->reason,
                                .settings = settings,
                                .wave = r->wave,
                                .wave_at = r->wave_at,
                                .round = r->round,
                                .changed_at = r->changed_at,
                                .ended_at = r->ended_at};
    r->id = store_put_rollout(r->engine->store, &row);
    free(settings);
}

static void member_save(const struct member *m)
{
    struct store_rollout_node row = {.rollout_id = m->rollout->id,
                                     .node_id = m->node_id,
                                     .ordinal = m->ordinal,
                                     .wave = m->wave,
                                     .status = name_of(member_state_names, (int)m->state, "?"),
                                     .failed_round = m->failed_round,
                                     .asked = m->asked,
                                     .changed_at = m->changed_at};
    store_put_rollout_node(m->rollout->engine->store, &row);
}

void rollout_event(struct rollout *r, const char *kind, const char *actor, const char *fmt, ...)
{
    struct strbuf text;
    char *words = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&words, fmt, ap) < 0)
        abort();
    va_end(ap);
    strbuf_init(&text, EVENT_TEXT_MAX);
    strbuf_addf(&text, "rollout %lld: %.*s", (long long)r->id, EVENT_TEXT_MAX - 100, words);
    free(words);
    struct store_event row = {
        .at = engine_wall(r->engine), .kind = kind, .text = text.data, .actor = actor};
    (void)store_add_event(r->engine->store, &row);
    log_info(kind, "%s", text.data);
    strbuf_done(&text);
}

void rollout_set_status(struct rollout *r, enum rollout_status status, const char *reason)
{
    char *copy = xstrdup(reason);
    free(r->reason);
    r->reason = copy;
    r->status = status;
    r->changed_at = engine_wall(r->engine);
    if (status != ROLLOUT_RUNNING)
        timer_cancel(&r->timer);
    rollout_save(r);
}

void rollout_free(struct rollout *r)
{
    for (int i = 0; i < r->count; i++)
        member_detach(&r->members[i]);
    timer_cancel(&r->timer);
    json_decref(r->settings);
    free(r->waves);
    free(r->members);
    free(r->racks);
    free(r->cause);
    free(r->actor);
    free(r->reason);
    free(r);
}

void rollouts_free(struct engine *e)
{
    while (e->rollouts != NULL) {
        struct rollout *r = e->rollouts;
        e->rollouts = r->next;
        rollout_free(r);
    }
}

/* ---- members ---- */

bool member_is_open(const struct member *m)
{
    return m->state == MEMBER_WAITING || m->state == MEMBER_STARTED;
}

static int open_count(const struct rollout *r)
{
    return r->counts[MEMBER_WAITING] + r->counts[MEMBER_STARTED];
}

void member_detach(struct member *m)
{
    if (m->node != NULL)
        m->node->member = NULL;
    m->node = NULL;
}

void rollout_queue(struct member *m)
{
    struct rollout_rack *rack = &m->rollout->racks[m->rack];
    m->next = NULL;
    m->prev = rack->tail;
    *(rack->tail != NULL ? &rack->tail->next : &rack->head) = m;
    rack->tail = m;
}

void rollout_unqueue(struct member *m)
{
    struct rollout_rack *rack = &m->rollout->racks[m->rack];
    *(m->prev != NULL ? &m->prev->next : &rack->head) = m->next;
    *(m->next != NULL ? &m->next->prev : &rack->tail) = m->prev;
    m->next = m->prev = NULL;
}

static void count_open(struct member *m, int by)
{
    struct wave *w = &m->rollout->waves[m->wave];
    w->open += by;
    w->held += m->held ? by : 0;
}

/* All counting is here: O(1). Nobody comes back to waiting. */
void member_set(struct member *m, enum member_state state)
{
    struct rollout *r = m->rollout;
    bool was_open = member_is_open(m);
    r->engine->rollout_work++;
    if (m->state == MEMBER_WAITING && state != MEMBER_WAITING)
        rollout_unqueue(m);
    r->racks[m->rack].started += (state == MEMBER_STARTED) - (m->state == MEMBER_STARTED);
    r->counts[m->state]--;
    r->counts[state]++;
    m->state = state;
    if (was_open != member_is_open(m))
        count_open(m, was_open ? -1 : 1);
    m->changed_at = engine_wall(r->engine);
    member_save(m);
}

static void count_failure(struct member *m)
{
    struct rollout *r = m->rollout;
    if (m->failed_round == r->round)
        return;
    m->failed_round = r->round;
    r->failures++;
    r->canary_failures += m->wave == 0;
}

/* It is given another chance: its failure is none as long as it does not come again. */
void member_uncount(struct member *m)
{
    struct rollout *r = m->rollout;
    if (m->state == MEMBER_FAILED && m->failed_round == r->round) {
        r->failures--;
        r->canary_failures -= m->wave == 0;
    }
    m->failed_round = 0;
}

/* ---- starting ---- */

static void start_member(struct member *m, int64_t delay_ms)
{
    member_set(m, MEMBER_STARTED);
    if (m->node != NULL)
        node_kick(m->node, delay_ms);
}

static bool rack_has_room(const struct rollout *r, int rack)
{
    return r->per_rack == 0 || r->racks[rack].started < r->per_rack;
}

/* A place in the rack became free. */
static void fill_rack(struct rollout *r, int rack)
{
    struct rollout_rack *k = &r->racks[rack];
    while (k->head != NULL && k->head->wave <= r->wave && rack_has_room(r, rack))
        start_member(k->head, 0);
}

void rollout_fill(struct rollout *r)
{
    for (int i = 0; i < r->rack_count && r->status == ROLLOUT_RUNNING; i++)
        fill_rack(r, i);
}

/* The members are in an order in which racks take turns. */
static void start_wave(struct rollout *r)
{
    int begin = r->wave > 0 ? r->waves[r->wave - 1].end : 0, end = r->waves[r->wave].end;
    unsigned spread = (unsigned)(end - begin < JITTER_MAX_MS ? end - begin : JITTER_MAX_MS);
    r->engine->rollout_work += end - begin;
    for (int i = begin; i < end; i++) {
        struct member *m = &r->members[i];
        if (m->state == MEMBER_WAITING && rack_has_room(r, m->rack))
            start_member(m, (i - begin) / TURNS_PER_MS + engine_random(r->engine, spread));
    }
}

static void begin_wave(struct rollout *r, int wave)
{
    int begin = wave > 0 ? r->waves[wave - 1].end : 0;
    r->wave = wave;
    r->wave_at = 0;
    r->changed_at = engine_wall(r->engine);
    rollout_save(r);
    if (r->wave_count > 2 || r->waves[0].end > 0)
        rollout_event(r, "rollout.wave", "engine", "wave %d of %d begins: %d nodes", wave,
                      r->wave_count - 1, r->waves[wave].end - begin);
    start_wave(r);
}

/* Canaries must all be proven. Of a later wave nobody waits for the failed and the held ones. */
static bool wave_is_through(const struct rollout *r)
{
    const struct wave *w = &r->waves[r->wave];
    if (r->wave == 0)
        return w->open == 0 && r->canary_failures == 0;
    return w->open - w->held <= 0;
}

static void on_timer(void *user)
{
    rollout_pump(user);
}

/* Whether the pause between two waves is over; sets the alarm otherwise. */
static bool pause_is_over(struct rollout *r)
{
    int64_t now = engine_wall(r->engine);
    bool first = r->wave == 0 && r->waves[0].end == 0;
    if (r->pause_ms == 0 || first)
        return true;
    if (r->wave_at == 0) {
        r->wave_at = now + r->pause_ms;
        rollout_save(r);
    }
    if (r->wave_at > now)
        timer_set(r->engine->loop, &r->timer, r->wave_at - now, on_timer, r);
    return r->wave_at <= now;
}

static void rollout_end(struct rollout *r)
{
    struct engine *e = r->engine;
    bool replaced = r->taken_from || r->counts[MEMBER_LEFT] == r->count;
    if (r->status != ROLLOUT_CANCELLED)
        r->status = replaced ? ROLLOUT_REPLACED : ROLLOUT_FINISHED;
    r->ended_at = r->changed_at = engine_wall(e);
    rollout_save(r);
    if (r->status == ROLLOUT_FINISHED)
        rollout_event(r, "rollout.finished", "engine", "%d done, %d failed, %d left it",
                      r->counts[MEMBER_DONE], r->counts[MEMBER_FAILED], r->counts[MEMBER_LEFT]);
    struct rollout **at = &e->rollouts;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    rollout_free(r);
}

void rollout_pump(struct rollout *r)
{
    if (open_count(r) == 0) {
        rollout_end(r);
        return;
    }
    while (r->status == ROLLOUT_RUNNING && r->wave + 1 < r->wave_count && wave_is_through(r) &&
           pause_is_over(r))
        begin_wave(r, r->wave + 1);
}

void rollout_kick(struct rollout *r)
{
    int k = 0;
    r->engine->rollout_work += r->count;
    for (int i = 0; i < r->count; i++)
        if (r->members[i].node != NULL)
            node_kick(r->members[i].node, k++ / TURNS_PER_MS);
}

/* ---- stopping by itself ---- */

static void stop_itself(struct rollout *r, const char *why)
{
    struct strbuf groups;
    strbuf_init(&groups, EVENT_TEXT_MAX / 2);
    rollout_failures(r, &groups);
    rollout_set_status(r, ROLLOUT_STOPPED, why);
    rollout_event(r, "rollout.stopped", "engine",
                  "%s; nothing new is started on the %d nodes that are not through%s%s", why,
                  open_count(r), groups.len > 0 ? ". Failed: " : "", groups.data);
    strbuf_done(&groups);
}

/* After a failure. */
static void judge(struct rollout *r, const struct member *m)
{
    char why[300], allowed[32];
    if (open_count(r) == 0 || (r->status != ROLLOUT_RUNNING && r->status != ROLLOUT_PAUSED))
        return;
    if (r->wave == 0 && r->canary_failures > 0) {
        (void)snprintf(why, sizeof why, "canary %s failed",
                       m->node != NULL ? m->node->name : "(gone)");
        stop_itself(r, why);
    } else if (r->has_max_failed && share_exceeded(&r->max_failed, r->failures, r->count)) {
        share_text(&r->max_failed, allowed, sizeof allowed);
        (void)snprintf(why, sizeof why, "%d of %d nodes failed, and max_failed is %s", r->failures,
                       r->count, allowed);
        stop_itself(r, why);
    }
}

static void member_failed(struct member *m, bool counts)
{
    struct rollout *r = m->rollout;
    int rack = m->rack;
    if (counts)
        count_failure(m);
    member_set(m, MEMBER_FAILED);
    judge(r, m);
    if (r->status == ROLLOUT_RUNNING)
        fill_rack(r, rack);
    rollout_pump(r);
}

void rollout_failed(struct enode *n)
{
    if (n->member != NULL)
        member_failed(n->member, true);
}

static bool is_stuck(const struct enode *n)
{
    for (int i = 0; i < n->stage_count; i++)
        if (n->stages[i].status == STAGE_FAILED)
            return true;
    return false;
}

static bool is_proven(const struct enode *n)
{
    for (int i = 0; i < n->stage_count; i++)
        if (!stage_satisfied(&n->stages[i]))
            return false;
    return true;
}

/* A later apply left it out: it is not waited for, and proves nothing. */
static void member_left_out(struct member *m)
{
    struct rollout *r = m->rollout;
    char why[200];
    (void)snprintf(why, sizeof why, "canary %s was left out before it was proven", m->node->name);
    member_detach(m);
    member_set(m, MEMBER_LEFT);
    if (m->wave == 0 && r->wave == 0 && open_count(r) > 0 && r->status == ROLLOUT_RUNNING)
        stop_itself(r, why);
}

void rollout_settled(struct enode *n)
{
    struct member *m = n->member;
    if (m == NULL || m->state == MEMBER_DONE)
        return;
    struct rollout *r = m->rollout;
    if (is_stuck(n)) {
        /* what failed before it began is not its failure, but no proof of a canary either */
        if (m->state != MEMBER_FAILED)
            member_failed(m, m->wave == 0);
        return;
    }
    member_uncount(m);
    if (is_proven(n))
        member_set(m, MEMBER_DONE);
    else
        member_left_out(m);
    if (r->status == ROLLOUT_RUNNING)
        fill_rack(r, m->rack);
    rollout_pump(r);
}

/* ---- what else happens to its nodes ---- */

bool rollout_admits(const struct enode *n)
{
    const struct member *m = n->member;
    if (m == NULL || m->asked)
        return true;
    return m->rollout->status == ROLLOUT_RUNNING && m->state != MEMBER_WAITING;
}

void rollout_held(struct enode *n, bool held)
{
    struct member *m = n->member;
    if (m == NULL || m->held == held)
        return;
    if (member_is_open(m))
        m->rollout->waves[m->wave].held += held ? 1 : -1;
    m->held = held;
    rollout_pump(m->rollout);
}

void rollout_forget(struct enode *n)
{
    struct member *m = n->member;
    if (m == NULL)
        return;
    struct rollout *r = m->rollout;
    member_detach(m);
    if (r->engine->stopping)
        return;
    member_uncount(m);
    member_set(m, MEMBER_LEFT);
    if (r->status == ROLLOUT_RUNNING)
        fill_rack(r, m->rack);
    rollout_pump(r);
}

/* ---- beginning ---- */

/* Newer wishes go before older ones. What is settled there stays counted there. */
static void take_over(struct enode *n)
{
    struct member *m = n->member;
    if (m == NULL)
        return;
    member_detach(m);
    if (!member_is_open(m))
        return;
    m->rollout->taken_from = true;
    m->rollout->canary_gone = m->rollout->canary_gone || m->wave == 0;
    member_set(m, MEMBER_LEFT);
}

/* What became of those that nodes were taken from. */
static void settle_others(struct engine *e, const struct rollout *newest)
{
    struct rollout *next;
    char why[120];
    for (struct rollout *r = e->rollouts; r != NULL; r = next) {
        next = r->next;
        if (r == newest)
            continue;
        if (r->canary_gone && open_count(r) > 0 && r->wave == 0 &&
            (r->status == ROLLOUT_RUNNING || r->status == ROLLOUT_PAUSED)) {
            (void)snprintf(why, sizeof why, "rollout %lld took a canary over before it was proven",
                           (long long)newest->id);
            stop_itself(r, why);
        }
        rollout_fill(r);
        if (open_count(r) > 0)
            r->taken_from = r->canary_gone = false;
        rollout_pump(r);
    }
}

static void announce(struct rollout *r, const char *actor)
{
    char parts[120] = "";
    if (r->waves[0].end > 0 || r->wave_count > 2)
        (void)snprintf(parts, sizeof parts, "; %d canaries, then %d waves", r->waves[0].end,
                       r->wave_count - 1);
    rollout_event(r, "rollout.began", actor, "%s, %d nodes%s", r->cause, r->count, parts);
}

/* `cause` is taken. */
static void begin(struct engine *e, struct enode **nodes, int count, char *cause, const char *actor)
{
    struct rollout *r = xcalloc(1, sizeof *r);
    r->engine = e;
    r->at = r->changed_at = engine_wall(e);
    r->revision = e->revision;
    r->cause = cause;
    r->actor = xstrdup(actor);
    r->settings = json_incref(e->spec->rollout);
    r->round = 1;
    for (int i = 0; i < count; i++)
        take_over(nodes[i]);
    rollout_read_settings(r);
    rollout_lay_out(r, nodes, count);
    rollout_index(r);
    rollout_save(r);
    store_drop_rollout_nodes(e->store, r->id - ROLLOUTS_KEPT);
    for (int i = 0; i < r->count; i++) {
        struct member *m = &r->members[i];
        m->node->member = m;
        m->changed_at = r->at;
        member_save(m);
    }
    r->next = e->rollouts;
    e->rollouts = r;
    announce(r, actor);
    settle_others(e, r);
    start_wave(r);
    rollout_pump(r);
}

void rollout_rerun(struct engine *e, struct enode **nodes, int count, const char *stage,
                   const char *actor)
{
    if (count > 0)
        begin(e, nodes, count, xasprintf("rerun of %s", stage), actor);
}

void rollout_asked(struct enode *n)
{
    struct member *m = n->member;
    if (m == NULL)
        return;
    struct rollout *r = m->rollout;
    if (r->status == ROLLOUT_CANCELLED) {
        rollout_forget(n);
        return;
    }
    m->asked = true;
    member_uncount(m);
    member_set(m, MEMBER_STARTED);
}

/* The nodes with something to do. The caller frees. */
static struct enode **nodes_of_plan(struct engine *e, const json_t *plan, int *ret_count)
{
    const json_t *rows = json_object_get(plan, "nodes"), *row;
    struct enode **nodes = xcalloc(json_array_size(rows) + 1, sizeof(struct enode *));
    size_t i;
    *ret_count = 0;
    json_array_foreach(rows, i, row)
    {
        struct enode *n = engine_find(e, json_string_value(json_object_get(row, "name")));
        if (n != NULL && json_array_size(json_object_get(row, "stages")) > 0)
            nodes[(*ret_count)++] = n;
    }
    return nodes;
}

/* The same wish again while it is being fulfilled: the failed ones are tried again, a pause stays a
 * pause. */
static bool goes_on(struct engine *e, struct enode **nodes, int count)
{
    struct rollout *r = count > 0 && nodes[0]->member != NULL ? nodes[0]->member->rollout : NULL;
    if (r == NULL || r->revision != e->revision ||
        (r->status != ROLLOUT_RUNNING && r->status != ROLLOUT_PAUSED))
        return false;
    for (int i = 0; i < count; i++)
        if (nodes[i]->member == NULL || nodes[i]->member->rollout != r ||
            nodes[i]->member->state == MEMBER_DONE)
            return false;
    for (int i = 0; i < count; i++) {
        struct member *m = nodes[i]->member;
        if (m->state == MEMBER_FAILED) {
            member_uncount(m);
            member_set(m, MEMBER_STARTED);
        }
    }
    return true;
}

void rollout_apply(struct engine *e, const json_t *plan, const char *actor)
{
    int count;
    struct enode **nodes = nodes_of_plan(e, plan, &count);
    if (count > 0 && !goes_on(e, nodes, count))
        begin(e, nodes, count, xasprintf("apply of revision %lld", (long long)e->revision), actor);
    free(nodes);
}

void rollout_refresh(struct engine *e)
{
    if (e->spec == NULL || e->spec->rollout == NULL)
        return;
    int count, fresh = 0;
    json_t *plan = engine_plan(e, e->spec, NULL, NULL);
    struct enode **nodes = nodes_of_plan(e, plan, &count);
    for (int i = 0; i < count; i++)
        if (nodes[i]->member == NULL || !member_is_open(nodes[i]->member))
            nodes[fresh++] = nodes[i];
    if (fresh > 0)
        begin(e, nodes, fresh, xstrdup("scripts or secrets changed"), "engine");
    free(nodes);
    json_decref(plan);
}
