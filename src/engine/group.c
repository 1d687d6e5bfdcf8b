#include "engine/group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/group_int.h"
#include "engine/rollout.h"
#include "model/profile_steps.h"

enum {
    LOOK_MS = 500,
    IDS_PER_MS = 10,    /* a look at 10,000 nodes may be taken each second */
    HELPERS_MAX = 64,   /* a group that is too small borrows no more */
    CANDIDATES = 256,   /* nodes that are asked for it */
    TOLD_AT_ONCE = 50,  /* steps that end in one turn of the loop */
    LEFT_OUT_SHOWN = 8, /* by name */
    STAGES_SEEN = 128,
    ROUNDS = 3,
    AT_ONCE = 64,
    PAIR_MS = 5 * 60000,
    GATHER_MS = 10 * 60000
};

/* ---- keys and ways ---- */

struct groups *groups_of(struct engine *e)
{
    if (e->groups == NULL)
        e->groups = xcalloc(1, sizeof *e->groups);
    return e->groups;
}

void group_key_copy(struct group_key *to, const struct group_key *from)
{
    *to = (struct group_key){.stage = xstrdup(from->stage),
                             .class_name = xstrdup(from->class_name),
                             .scope = xstrdup(from->scope),
                             .step = from->step,
                             .rack = xstrdup(from->rack)};
}

void group_key_done(struct group_key *key)
{
    free(key->stage);
    free(key->class_name);
    free(key->scope);
    free(key->rack);
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool group_key_same(const struct group_key *a, const struct group_key *b)
{
    return a->step == b->step && strcmp(a->stage, b->stage) == 0 &&
           strcmp(a->class_name, b->class_name) == 0 && strcmp(a->scope, b->scope) == 0 &&
           same_text(a->rack, b->rack);
}

static const char *param(const struct step_def *def, const char *name)
{
    return json_string_value(json_object_get(def->params, name));
}

static int number_param(const struct step_def *def, const char *name, int fallback)
{
    const char *text = param(def, name);
    return text != NULL ? atoi(text) : fallback;
}

static int64_t time_param(const struct step_def *def, const char *name, int64_t fallback)
{
    const char *text = param(def, name);
    int64_t ms;
    return text != NULL && clock_parse_duration(text, &ms, NULL) == 0 ? ms : fallback;
}

void group_way_read(struct group_way *way, const struct step_def *def)
{
    const char *quorum = param(def, "quorum");
    *way = (struct group_way){.server = xstrdup(param(def, "server")),
                              .client = xstrdup(param(def, "client")),
                              .measure = xstrdup(param(def, "measure")),
                              .floor_var = xstrdup(param(def, "floor")),
                              .floor = xstrdup(param(def, "floor_gbs")),
                              .timeout_ms = time_param(def, "timeout", PAIR_MS),
                              .gather_ms = time_param(def, "gather", GATHER_MS),
                              .rounds = number_param(def, "rounds", ROUNDS),
                              .at_once = number_param(def, "at_once", AT_ONCE),
                              .quorum_percent = quorum != NULL ? share_percent(quorum) : 0};
}

void group_way_copy(struct group_way *to, const struct group_way *from)
{
    *to = *from;
    to->server = xstrdup(from->server);
    to->client = xstrdup(from->client);
    to->measure = xstrdup(from->measure);
    to->floor_var = xstrdup(from->floor_var);
    to->floor = xstrdup(from->floor);
}

void group_way_done(struct group_way *way)
{
    free(way->server);
    free(way->client);
    free(way->measure);
    free(way->floor_var);
    free(way->floor);
}

double group_floor(const struct enode *n, const char *variable, const char *number)
{
    char *text = variable != NULL ? var_text(json_object_get(n->spec->vars, variable))
                                  : xstrdup(number != NULL ? number : "");
    char *end;
    double value = strtod(text, &end);
    bool ok = text[0] != '\0' && *end == '\0';
    free(text);
    return ok ? value : (double)NAN;
}

void group_name(const struct group_key *key, char *ret, size_t size)
{
    if (key->rack != NULL && key->rack[0] != '\0')
        (void)snprintf(ret, size, "rack %s", key->rack);
    else if (key->rack != NULL)
        (void)snprintf(ret, size, "those of class %s without a rack", key->class_name);
    else
        (void)snprintf(ret, size, "class %s", key->class_name);
}

/* ---- who is waited for ---- */

enum standing {
    STANDS_JOINED,
    STANDS_PROVEN, /* it has the stage, and may lend itself */
    STANDS_BUSY,   /* in a measurement that goes on */
    STANDS_PAST,   /* it did, and is at a later step of the stage */
    STANDS_COMING, /* it gets there by itself */
    STANDS_OUT,    /* it cannot come: it failed */
    STANDS_APART,  /* nobody wants it to come now: held, not asked, not its turn */
};

static const struct seat *seat_of(const struct enode *n)
{
    const struct attempt *a = n->attempt;
    bool here = a != NULL && a->step_running && a->run.type == &step_group && a->run.priv != NULL;
    return here && !((const struct group_part *)a->run.priv)->pair ? a->run.priv : NULL;
}

static void mark(const struct enode *n, char **names, bool *needed)
{
    for (int i = 0; names != NULL && names[i] != NULL; i++) {
        int at = node_stage_index(n, names[i]);
        if (at >= 0 && at < STAGES_SEEN)
            needed[at] = true;
    }
}

/* A stage that this one builds on, directly or not, and that failed for good; NULL: none. */
static const struct stage_rt *failed_before(const struct enode *n, int stage)
{
    bool needed[STAGES_SEEN] = {false};
    needed[stage] = true;
    for (int i = stage; i >= 0; i--) {
        const struct stage_rt *s = &n->stages[i];
        if (!needed[i])
            continue;
        if (s->status == STAGE_FAILED && (i == stage || !stage_satisfied(s)))
            return s;
        if (i != stage && stage_satisfied(s))
            continue;
        mark(n, s->def->after, needed);
        mark(n, s->def->needs, needed);
    }
    return NULL;
}

static enum standing standing_of(const struct group *g, const struct enode *n, char *why,
                                 size_t size)
{
    int stage = node_stage_index(n, g->key.stage);
    const struct seat *seat = seat_of(n);
    why[0] = '\0';
    if (stage < 0 || stage >= STAGES_SEEN || n->stages[stage].status == STAGE_SKIPPED)
        return STANDS_APART;
    const struct stage_rt *s = &n->stages[stage];
    if (seat != NULL && seat->group == g)
        return STANDS_JOINED;
    if (n->attempt != NULL && n->attempt->stage == stage && n->attempt->step > g->key.step)
        return STANDS_PAST;
    if (seat != NULL && seat->measure != NULL && n->attempt->stage == stage)
        return STANDS_BUSY;
    if (stage_states[s->status].satisfied)
        return STANDS_PROVEN;
    if (n->attempt != NULL && n->attempt->stage == stage)
        return STANDS_COMING;
    if (n->swap != NULL) {
        (void)snprintf(why, size, "%s may be another machine", n->name);
        return STANDS_APART;
    }
    if (n->admin != NODE_ACTIVE) {
        (void)snprintf(why, size, "%s is %s%s%.80s", n->name,
                       n->admin == NODE_HELD ? "held" : "in maintenance",
                       n->hold_reason ? ": " : "", n->hold_reason != NULL ? n->hold_reason : "");
        return STANDS_APART;
    }
    const struct stage_rt *failed = failed_before(n, stage);
    if (failed != NULL) {
        (void)snprintf(why, size, "%s failed at %s", n->name, failed->def->name);
        return STANDS_OUT;
    }
    if (n->deferred != NULL && s->status != STAGE_QUEUED) {
        (void)snprintf(why, size, "%s was left out of the last apply", n->name);
        return STANDS_APART;
    }
    if (n->attempt == NULL && !rollout_admits(n)) {
        (void)snprintf(why, size, "%s waits for its turn in the rollout", n->name);
        return STANDS_APART;
    }
    (void)snprintf(why, size, "%s has come as far as %s", n->name, node_word(n));
    return STANDS_COMING;
}

/* Nobody reserved watts for it: a stage that loads its nodes fully borrows none. */
static bool may_help(const struct group *g, const struct enode *n)
{
    int stage = node_stage_index(n, g->key.stage);
    return n->attempt == NULL && n->group_peer == 0 && !node_is_stopped(n) && n->host_key != NULL &&
           !n->sweep.busy && stage >= 0 && n->stages[stage].status == STAGE_PASSED &&
           !n->stages[stage].def->burnin;
}

static void add_helper(const struct group *g, struct enode *c, struct enode **helpers, int *count)
{
    for (int i = 0; i < *count; i++)
        if (helpers[i] == c)
            return;
    if (may_help(g, c))
        helpers[(*count)++] = c;
}

/* Nodes that have the stage already lend themselves to a group that is too small for its rounds, or
 * odd; those of the rack before others. */
static int find_helpers(const struct group *g, struct enode **helpers)
{
    struct enode *first = g->head->run->node;
    int count = 0, want = g->way.rounds + 1 - g->joined;
    if (want < 0)
        want = 0;
    want += (g->joined + want) % 2;
    if (want > HELPERS_MAX)
        want = HELPERS_MAX;
    if (g->key.rack != NULL)
        for (struct enode *c = first->rack_next; c != first && count < want; c = c->rack_next)
            add_helper(g, c, helpers, &count);
    struct enode *c = first->class_next;
    for (int i = 0; i < CANDIDATES && c != first && count < want; i++, c = c->class_next)
        add_helper(g, c, helpers, &count);
    return count;
}

struct stock {
    int counted, present, coming, left_out;
    int first_coming;
    struct strbuf names;
};

static void take_stock(const struct group *g, struct stock *st)
{
    char why[160];
    *st = (struct stock){.first_coming = g->id_count};
    strbuf_init(&st->names, 1024);
    for (int i = 0; i < g->id_count; i++) {
        const struct enode *n = engine_find_id(g->engine, g->ids[i]);
        enum standing s = n != NULL ? standing_of(g, n, why, sizeof why) : STANDS_APART;
        st->counted += s != STANDS_APART;
        st->present +=
            s == STANDS_JOINED || s == STANDS_PROVEN || s == STANDS_BUSY || s == STANDS_PAST;
        if (s == STANDS_COMING || s == STANDS_BUSY) {
            st->coming++;
            st->first_coming = i < st->first_coming ? i : st->first_coming;
        }
        if (n == NULL || why[0] == '\0')
            continue;
        if (st->left_out++ < LEFT_OUT_SHOWN)
            strbuf_addf(&st->names, "%s%s", st->names.len > 0 ? "; " : "", why);
    }
    if (st->left_out > LEFT_OUT_SHOWN)
        strbuf_addf(&st->names, "; and %d more", st->left_out - LEFT_OUT_SHOWN);
}

/* ---- gathering ---- */

static void look(void *group);

static void look_again(struct group *g)
{
    int64_t ms = g->id_count / IDS_PER_MS;
    timer_set(g->engine->loop, &g->timer, ms > LOOK_MS ? ms : LOOK_MS, look, g);
}

static void list_nodes(struct group *g)
{
    struct enode *first = g->head->run->node, *n = first;
    bool rack = g->key.rack != NULL;
    int capacity = 0;
    free(g->ids);
    g->ids = NULL;
    g->id_count = g->cursor = 0;
    do {
        ARRAY_GROW(g->ids, g->id_count, capacity);
        g->ids[g->id_count++] = n->id;
        n = rack ? n->rack_next : n->class_next;
    } while (n != first);
    g->revision = g->engine->revision;
}

static void free_group(struct group *g)
{
    *g->link = g->next;
    if (g->next != NULL)
        g->next->link = g->link;
    timer_cancel(&g->timer);
    group_key_done(&g->key);
    group_way_done(&g->way);
    free(g->ids);
    free(g);
}

static void tell_failed(struct group *g)
{
    for (int i = 0; i < TOLD_AT_ONCE && g->head != NULL; i++)
        step_done(g->head->run, &g->failed, NULL); /* leaves */
    timer_set(g->engine->loop, &g->timer, 1, look, g);
}

static void fail(struct group *g, const struct stock *st)
{
    char name[120];
    group_name(&g->key, name, sizeof name);
    if (g->way.quorum_percent == 0)
        (void)err_set(&g->failed, ERR_BUSY, "there is nobody to measure with in %s%s%.300s", name,
                      st->names.len > 0 ? ": " : "", st->names.data);
    else
        (void)err_set(&g->failed, ERR_BUSY,
                      "%d of %d nodes of %s are ready, and %d%% are asked for: %.300s", st->present,
                      st->counted, name, g->way.quorum_percent,
                      st->names.len > 0 ? st->names.data : "the others are at work");
    tell_failed(g);
}

static struct group *find_group(struct engine *e, const struct group_key *key)
{
    struct group *g = groups_of(e)->gathering;
    while (g != NULL && (g->failed.code != ERR_OK || !group_key_same(&g->key, key)))
        g = g->next;
    return g;
}

static struct group *new_group(struct engine *e, const struct group_key *key,
                               const struct group_way *way)
{
    struct groups *all = groups_of(e);
    struct group *g = xcalloc(1, sizeof *g);
    g->engine = e;
    group_key_copy(&g->key, key);
    group_way_copy(&g->way, way);
    g->began_at = engine_wall(e);
    g->revision = -1;
    g->next = all->gathering;
    g->link = &all->gathering;
    if (g->next != NULL)
        g->next->link = &g->next;
    all->gathering = g;
    return g;
}

static void sit_down(struct group *g, struct seat *seat)
{
    seat->group = g;
    seat->next = NULL;
    seat->prev = g->tail;
    *(g->tail != NULL ? &g->tail->next : &g->head) = seat;
    g->tail = seat;
    g->joined++;
    g->joined_at = engine_wall(g->engine);
    step_note(seat->run, "waiting for its group%s%s", g->awaited[0] ? ": " : "", g->awaited);
    if (!timer_armed(&g->timer))
        timer_set(g->engine->loop, &g->timer, LOOK_MS, look, g);
}

static void stand_up(struct seat *seat)
{
    struct group *g = seat->group;
    *(seat->prev != NULL ? &seat->prev->next : &g->head) = seat->next;
    *(seat->next != NULL ? &seat->next->prev : &g->tail) = seat->prev;
    seat->group = NULL;
    seat->next = seat->prev = NULL;
    g->joined--;
}

/* Who is alone in its rack meets the lone ones of other racks: rollouts begin with such. */
static void to_loners(struct group *g)
{
    struct group_key key = g->key;
    key.rack = NULL;
    struct group *all = find_group(g->engine, &key);
    if (all == NULL)
        all = new_group(g->engine, &key, &g->way);
    while (g->head != NULL) {
        struct seat *seat = g->head;
        stand_up(seat);
        sit_down(all, seat);
    }
}

static bool are_loners(const struct group *g)
{
    return g->key.rack == NULL && strcmp(g->key.scope, "rack") == 0;
}

/* The lone ones, where somebody of this node's rack waits among them. */
static struct group *loners_with(const struct enode *n, struct group_key key)
{
    key.rack = NULL;
    struct group *g = find_group(n->engine, &key);
    for (const struct seat *s = g != NULL ? g->head : NULL; s != NULL; s = s->next)
        if (s->run->node->rack_next != s->run->node && same_text(s->run->node->rack, n->rack))
            return g;
    return NULL;
}

static void set_awaited(struct group *g, const char *text)
{
    if (strcmp(g->awaited, text) == 0)
        return;
    (void)snprintf(g->awaited, sizeof g->awaited, "%s", text);
    for (struct seat *s = g->head; s != NULL; s = s->next)
        step_note(s->run, "waiting for its group%s%s", text[0] ? ": " : "", text);
}

/* Whether somebody is on the way who is worth waiting for. Looks at nobody twice. */
static bool awaits(struct group *g)
{
    char why[160];
    for (; g->cursor < g->id_count; g->cursor++) {
        const struct enode *n = engine_find_id(g->engine, g->ids[g->cursor]);
        enum standing s = n != NULL ? standing_of(g, n, why, sizeof why) : STANDS_APART;
        if (s != STANDS_COMING && s != STANDS_BUSY)
            continue;
        set_awaited(g, s == STANDS_BUSY ? "the one before it measures" : why);
        return true;
    }
    return false;
}

/* Everybody is there who will come, or nobody waits longer. */
static void decide(struct group *g, bool late)
{
    struct enode *helpers[HELPERS_MAX + 1];
    struct stock st;
    take_stock(g, &st);
    bool early = !late && (are_loners(g) ? engine_wall(g->engine) - g->joined_at < 2 * LOOK_MS
                                         : st.coming > 0);
    int helper_count = early ? 0 : find_helpers(g, helpers);
    if (early) {
        g->cursor = st.first_coming;
    } else if (!are_loners(g) && st.present * 100 < g->way.quorum_percent * st.counted) {
        g->cursor = 0;
        set_awaited(g, st.names.len > 0 ? st.names.data : "too few are ready");
        if (late)
            fail(g, &st);
    } else if (g->joined + helper_count >= 2) {
        (void)group_run_new(g, helpers, helper_count, st.names.data);
    } else if (g->key.rack != NULL) {
        to_loners(g);
    } else if (late && st.coming == 0) {
        fail(g, &st);
    }
    strbuf_done(&st.names);
}

static void look(void *group)
{
    struct group *g = group;
    if (g->joined == 0) {
        free_group(g);
        return;
    }
    if (g->failed.code != ERR_OK) {
        tell_failed(g);
        return;
    }
    if (g->revision != g->engine->revision)
        list_nodes(g);
    bool late = engine_wall(g->engine) - g->began_at >= g->way.gather_ms;
    if (late || are_loners(g) || !awaits(g))
        decide(g, late);
    if (g->joined == 0)
        timer_set(g->engine->loop, &g->timer, 0, look, g);
    else if (g->failed.code == ERR_OK)
        look_again(g);
}

int group_join(struct step_run *run, struct err *err)
{
    struct enode *n = run->node;
    if (n->class_next == n)
        return err_set(err, ERR_INVALID, "a group needs a second node of class %s", n->klass->name);
    if (transfer_possible(n, err) < 0)
        return -(int)err->code;
    struct seat *seat = xcalloc(1, sizeof *seat);
    seat->run = run;
    seat->since = engine_wall(run->engine);
    run->priv = seat;
    if (run->resumed && group_run_rejoin(seat))
        return 0;
    bool by_rack = strcmp(run->def->what, "rack") == 0;
    char empty[] = "";
    struct group_key key = {.stage = run->stage->name,
                            .class_name = n->klass->name,
                            .scope = run->def->what,
                            .step = run->index};
    char *rack = xstrdup(n->rack);
    if (by_rack)
        key.rack = rack != NULL ? rack : empty;
    struct group *g = find_group(run->engine, &key);
    if (g == NULL && by_rack)
        g = loners_with(n, key);
    if (g == NULL) {
        struct group_way way;
        group_way_read(&way, run->def);
        g = new_group(run->engine, &key, &way);
        group_way_done(&way);
    }
    free(rack);
    sit_down(g, seat);
    return 0;
}

void group_leave(struct step_run *run)
{
    struct seat *seat = run->priv;
    if (seat == NULL)
        return;
    run->priv = NULL;
    if (seat->group != NULL) {
        struct group *g = seat->group;
        stand_up(seat);
        if (g->joined == 0)
            timer_set(run->engine->loop, &g->timer, 0, look, g);
    } else if (seat->measure != NULL) {
        seat->measure->entries[seat->entry].seat = NULL;
        if (!run->engine->stopping && !seat->measure->entries[seat->entry].ended)
            group_run_out(seat->measure, seat->entry, NULL);
    }
    free(seat);
}

int64_t group_extend(struct step_run *run)
{
    const struct seat *seat = run->priv;
    return seat->measure != NULL ? seat->measure->way.timeout_ms : 0;
}

void groups_free(struct engine *e)
{
    struct groups *all = e->groups;
    if (all == NULL)
        return;
    timer_cancel(&all->timer);
    while (all->gathering != NULL)
        free_group(all->gathering);
    while (all->running != NULL)
        group_run_free(all->running);
    group_comebacks_free(e);
    free(all);
    e->groups = NULL;
}
