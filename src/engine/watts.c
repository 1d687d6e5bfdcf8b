/* The engine's side of the power budget: reservations, their rows, and when they end. */
#include "engine/watts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/node.h"

enum {
    NOT_SAVED = -2,
    LOST_MS = 60000,      /* for a command of which nobody knows whether it arrived */
    PATIENCE_MS = 30000,  /* between moves of a deadline */
    PATIENT_MS = 86400000 /* a step waits for its watts no longer than this */
};

static struct enode *node_of(const struct budget_load *l)
{
    return l->user;
}

/* What a node counts that nobody switches on or loads. */
static enum load_state floor_of(const struct enode *n)
{
    if (strcmp(n->power_desired, "on") == 0 || strcmp(n->power_observed, "on") == 0)
        return LOAD_IDLE;
    return strcmp(n->power_observed, "off") == 0 ? LOAD_OFF : LOAD_UNKNOWN;
}

/* Whether the attempt in work sees the machine boot, and says when it is up. */
static bool watches_boot(const struct enode *n)
{
    if (n->attempt == NULL)
        return false;
    const struct stage_def *def = n->stages[n->attempt->stage].def;
    bool netboot = false;
    for (int i = 0; i < def->step_count; i++)
        netboot = netboot || strcmp(def->steps[i].type, "netboot") == 0;
    return netboot || def->reboots;
}

/* ---- rows ---- */

static void save(struct enode *n)
{
    struct engine *e = n->engine;
    struct watts *w = &n->watts;
    const struct budget_load *l = &w->load;
    int feed = l->feed >= 0 && l->watts > 0 ? l->feed : -1;
    bool same = w->saved_feed == feed && w->saved_w == l->watts && w->saved_state == l->state &&
                w->saved_until == l->until;
    if (n->id == 0 || e->stopping || same || (feed < 0 && w->saved_feed == -1))
        return;
    struct store_reservation row = {
        .node_id = n->id,
        .feed = feed >= 0 ? e->spec->feeds[feed].name : NULL,
        .watts = l->watts,
        .state = load_state_name(l->state),
        .until = l->until > 0 ? engine_wall(e) + l->until - loop_now(e->loop) : 0};
    if (feed >= 0)
        store_put_reservation(e->store, &row);
    else
        store_drop_reservation(e->store, n->id);
    w->saved_feed = feed;
    w->saved_w = l->watts;
    w->saved_state = l->state;
    w->saved_until = l->until;
}

/* ---- running ---- */

static void on_synced(struct op *op, void *user)
{
    struct enode *n = user;
    struct watts *w = &n->watts;
    struct err err = op->err;
    void (*ready)(void *user, const struct err *err) = w->ready;
    op_free(op);
    w->sync = NULL;
    w->ready = NULL;
    ready(w->user, &err);
}

/* Granted: nothing is switched on before that is on disk. */
static void reserved(struct enode *n)
{
    timer_cancel(&n->watts.patience);
    save(n);
    n->watts.sync = store_sync(n->engine->store, on_synced, n);
}

static void on_change(struct budget_load *l, bool granted, void *user)
{
    struct enode *n = node_of(l);
    (void)user;
    if (granted) {
        reserved(n);
        return;
    }
    if (l->state == LOAD_IDLE)
        budget_set(l, floor_of(n), 0);
    save(n);
}

static void run(void *user)
{
    struct engine *e = user;
    for (int i = 0; e->watts_unsaved && i < e->node_count; i++)
        save(e->nodes[i]);
    e->watts_unsaved = false;
    budget_run(e->budget, loop_now(e->loop), on_change, e);
    int64_t next = budget_next(e->budget);
    if (next < INT64_MAX)
        timer_set(e->loop, &e->watts_timer, next - loop_now(e->loop), run, e);
}

static void poke(struct engine *e)
{
    if (e->budget != NULL && !e->stopping)
        timer_set(e->loop, &e->watts_timer, 0, run, e);
}

static void enter(struct enode *n, enum load_state s, int64_t until)
{
    if (n->engine->stopping)
        return; /* what is reserved is looked at again after the start */
    budget_set(&n->watts.load, s, until);
    save(n);
    poke(n->engine);
}

static void be_patient(void *user)
{
    struct enode *n = user;
    attempt_postpone(n, PATIENCE_MS);
    if (loop_now(n->engine->loop) < n->watts.patient_until)
        timer_set(n->engine->loop, &n->watts.patience, PATIENCE_MS, be_patient, n);
}

/* ---- asking ---- */

static int never_fits(const struct enode *n, enum load_state want, int feed, struct err *err)
{
    struct budget_usage u = budget_usage(n->engine->budget, feed);
    return err_set(err, ERR_INVALID,
                   "%s takes %lld W (%s), and feed '%s' carries %lld W at most: correct 'power' of "
                   "class %s or the feed in the spec",
                   n->name, (long long)budget_watts(&n->watts.load.envelope, want),
                   load_state_name(want), u.name, (long long)u.usable_w, n->klass->name);
}

int watts_take(struct enode *n, enum load_state want, bool patient,
               void (*ready)(void *user, const struct err *err), void *user, struct err *err)
{
    struct watts *w = &n->watts;
    struct engine *e = n->engine;
    int feed = -1;
    /* a burn-in asks again when the node is looked at the next time */
    if (w->ready != NULL && w->want != LOAD_BURNIN)
        return err_set(err, ERR_BUSY, "another power action on %s waits for its watts", n->name);
    watts_cancel(n);
    int rc = budget_ask(&w->load, want, &feed);
    if (rc < 0)
        return never_fits(n, want, feed, err);
    w->ready = ready;
    w->user = user;
    w->want = want;
    w->commanded = false;
    if (rc > 0) {
        reserved(n);
        return 0;
    }
    if (patient) {
        w->patient_until = loop_now(e->loop) + PATIENT_MS;
        timer_set(e->loop, &w->patience, PATIENCE_MS, be_patient, n);
    }
    poke(e);
    return 0;
}

void watts_cancel(struct enode *n)
{
    struct watts *w = &n->watts;
    timer_cancel(&w->patience);
    op_cancel(w->sync);
    w->sync = NULL;
    w->ready = NULL;
    if (w->load.waiting) {
        budget_unask(&w->load);
        poke(n->engine);
    }
}

static bool is_open(const struct budget_load *l)
{
    return (l->state == LOAD_INRUSH || l->state == LOAD_BOOT) && l->until == 0;
}

void watts_release(struct enode *n)
{
    const struct budget_load *l = &n->watts.load;
    if (is_open(l) || l->state == LOAD_BURNIN)
        enter(n, floor_of(n), 0);
}

/* ---- telling ---- */

static void start_windows(struct enode *n, bool watched, bool seen_on)
{
    struct watts *w = &n->watts;
    struct budget_load *l = &w->load;
    const struct spec *s = n->engine->spec;
    int64_t now = loop_now(n->engine->loop);
    w->commanded = true;
    w->lost_until = seen_on ? 0 : now + LOST_MS;
    l->stays = watched;
    if (!is_open(l) || s == NULL)
        return;
    if (l->state == LOAD_INRUSH)
        enter(n, LOAD_INRUSH, now + s->inrush_ms + (seen_on ? 0 : LOST_MS));
    else if (!watched)
        enter(n, LOAD_BOOT, now + s->boot_ms);
}

void watts_started(struct enode *n, bool seen_on)
{
    start_windows(n, watches_boot(n), seen_on);
}

void watts_settled(struct enode *n)
{
    const struct budget_load *l = &n->watts.load;
    if (l->state == LOAD_BOOT || (l->state == LOAD_INRUSH && l->until > 0))
        enter(n, floor_of(n) == LOAD_OFF ? LOAD_OFF : LOAD_IDLE, 0);
}

void watts_account(struct enode *n)
{
    const struct budget_load *l = &n->watts.load;
    enum load_state to = floor_of(n);
    bool booting = l->state == LOAD_BOOT || (l->state == LOAD_INRUSH && l->until > 0);
    if (loop_now(n->engine->loop) < n->watts.lost_until)
        booting = false;
    if (l->state > LOAD_IDLE && !(booting && to == LOAD_OFF))
        return;
    if (to != l->state)
        enter(n, to, 0);
}

/* ---- stages ---- */

static void on_admitted(void *user, const struct err *err)
{
    (void)err; /* a store that fails shows when the attempt is written */
    node_kick(user, 0);
}

bool watts_admit(struct enode *n, int stage)
{
    struct watts *w = &n->watts;
    struct err err = {0};
    if (!n->stages[stage].def->burnin || w->load.feed < 0) {
        watts_unadmit(n);
        return true;
    }
    bool asked = w->ready != NULL || n->power_op != NULL;
    if (w->load.state == LOAD_BURNIN && !asked)
        return true;
    if (!asked && watts_take(n, LOAD_BURNIN, false, on_admitted, n, &err) < 0)
        node_event(n, "power.impossible", n->stages[stage].def->name, 0, "engine", "%s", err.text);
    return false;
}

void watts_unadmit(struct enode *n)
{
    struct watts *w = &n->watts;
    if (w->ready != NULL && w->want == LOAD_BURNIN)
        watts_cancel(n);
    if (w->load.state == LOAD_BURNIN && n->attempt == NULL)
        watts_release(n);
}

void watts_stage_over(struct enode *n)
{
    struct watts *w = &n->watts;
    if (n->engine->stopping)
        return;
    w->load.stays = false;
    if (n->power_op == NULL) {
        watts_cancel(n);
        if (is_open(&w->load) && w->commanded)
            start_windows(n, false, false);
        else
            watts_release(n);
    } else if (w->load.state == LOAD_BURNIN) {
        watts_release(n);
    }
}

/* ---- life ---- */

static int by_asking(const void *a, const void *b)
{
    const struct enode *const *x = a, *const *y = b;
    uint64_t first = (*x)->watts.load.asked, second = (*y)->watts.load.asked;
    return first < second ? -1 : first > second;
}

static struct budget *make_budget(const struct engine *e)
{
    const struct spec *s = e->spec;
    const struct budget_times times = {s->inrush_ms, s->boot_ms};
    int *rack_feeds = xcalloc((size_t)s->rack_count + 1, sizeof *rack_feeds);
    for (int i = 0; i < s->rack_count; i++)
        rack_feeds[i] = s->racks[i].feed_index;
    struct budget *b =
        budget_new(s->feeds, s->feed_count, rack_feeds, s->rack_count, &times, loop_now(e->loop));
    free(rack_feeds);
    return b;
}

void watts_bind(struct engine *e)
{
    struct budget *old = e->budget;
    struct enode **waiting = xcalloc((size_t)e->node_count + 1, sizeof(struct enode *));
    int count = 0, feed;
    e->budget = make_budget(e);
    for (int i = 0; i < e->node_count; i++) {
        struct enode *n = e->nodes[i];
        struct budget_load *l = &n->watts.load;
        l->user = n;
        if (l->budget == NULL)
            l->state = floor_of(n);
        if (l->waiting)
            waiting[count++] = n;
        budget_join(e->budget, l, n->spec->rack_index, &n->klass->power);
        n->watts.saved_feed = NOT_SAVED;
    }
    if (old != NULL)
        budget_inherit(e->budget, old);
    budget_free(old);
    qsort(waiting, (size_t)count, sizeof(struct enode *), by_asking);
    /* that a waiting node could never fit now, the spec's own check has ruled out */
    for (int i = 0; i < count; i++)
        if (budget_ask(&waiting[i]->watts.load, waiting[i]->watts.want, &feed) > 0)
            reserved(waiting[i]);
    free(waiting);
    e->watts_unsaved = true;
    poke(e);
}

static void load_row(const struct store_reservation *row, void *user)
{
    struct engine *e = user;
    struct enode *n = engine_find_id(e, row->node_id);
    int state = load_state_from_name(row->state);
    if (n == NULL || state <= LOAD_IDLE)
        return;
    int64_t now = loop_now(e->loop), until = 0;
    if (row->until > 0)
        until = now + row->until - engine_wall(e);
    budget_set(&n->watts.load, (enum load_state)state, until > 0 || row->until == 0 ? until : 1);
}

/* What is open in the rows is closed where nothing goes on that would do it. */
static void settle_loaded(struct enode *n)
{
    struct budget_load *l = &n->watts.load;
    const struct attempt *a = n->attempt;
    int64_t now = loop_now(n->engine->loop);
    n->watts.commanded = true; /* nobody knows: it may have been */
    n->watts.lost_until = l->state == LOAD_INRUSH ? now + LOST_MS : 0;
    l->stays = watches_boot(n);
    if (l->state == LOAD_BURNIN && (a == NULL || !n->stages[a->stage].def->burnin))
        budget_set(l, floor_of(n), 0);
    else if (l->state == LOAD_INRUSH && l->until == 0)
        budget_set(l, LOAD_INRUSH, now + LOST_MS + n->engine->spec->inrush_ms);
    else if (l->state == LOAD_BOOT && l->until == 0 && !l->stays)
        budget_set(l, LOAD_BOOT, now + n->engine->spec->boot_ms);
    else if (l->state <= LOAD_IDLE)
        budget_set(l, floor_of(n), 0);
}

int watts_load(struct engine *e, struct err *err)
{
    if (store_each_reservation(e->store, load_row, e, err) < 0)
        return -(int)err->code;
    for (int i = 0; i < e->node_count; i++)
        settle_loaded(e->nodes[i]);
    e->watts_unsaved = true;
    poke(e);
    return 0;
}

void watts_node_done(struct enode *n)
{
    timer_cancel(&n->watts.patience);
    op_cancel(n->watts.sync);
    n->watts.sync = NULL;
    n->watts.ready = NULL;
    budget_leave(&n->watts.load);
    if (n->id != 0 && !n->engine->stopping)
        store_drop_reservation(n->engine->store, n->id);
    poke(n->engine);
}

void watts_done(struct engine *e)
{
    timer_cancel(&e->watts_timer);
    budget_free(e->budget);
    e->budget = NULL;
}

/* ---- showing ---- */

bool watts_waits(const struct enode *n, bool place, char *text, size_t size)
{
    const struct budget_load *l = &n->watts.load;
    char before[40] = "", pace[80] = "", unknown[120] = "";
    bool ramp;
    if (!l->waiting)
        return false;
    int feed = budget_kept_by(l, &ramp);
    struct budget_usage u = budget_usage(n->engine->budget, feed);
    if (place)
        (void)snprintf(before, sizeof before, ", %d before it", budget_before(l));
    if (ramp)
        (void)snprintf(pace, sizeof pace, ", its load may grow by %.4g kW a minute",
                       (double)n->engine->spec->feeds[feed].ramp_w_per_min / 1000);
    if (u.unknown > 0)
        (void)snprintf(unknown, sizeof unknown,
                       "; %d of its nodes count as idle because nobody knows whether they are on",
                       u.unknown);
    if (u.rated_w > 0)
        (void)snprintf(text, size, "waits for %lld W on feed %s: %.4g of %.4g kW reserved%s%s%s",
                       (long long)budget_need(l), u.name, (double)u.reserved_w / 1000,
                       (double)u.usable_w / 1000, before, pace, unknown);
    else
        (void)snprintf(text, size, "waits for %lld W on feed %s: %.4g kW reserved%s%s%s",
                       (long long)budget_need(l), u.name, (double)u.reserved_w / 1000, before, pace,
                       unknown);
    return true;
}

json_t *watts_view(const struct engine *e)
{
    json_t *rows = json_array();
    for (int i = 0; e->budget != NULL && i < budget_feeds(e->budget); i++) {
        struct budget_usage u = budget_usage(e->budget, i);
        bool limited = u.rated_w > 0;
        (void)json_array_append_new(
            rows, json_pack("{s:s,s:o,s:o,s:I,s:I,s:i,s:i}", "name", u.name, "rated_w",
                            limited ? json_integer(u.rated_w) : json_null(), "usable_w",
                            limited ? json_integer(u.usable_w) : json_null(), "reserved_w",
                            (json_int_t)u.reserved_w, "peak_reserved_w", (json_int_t)u.peak_w,
                            "waiting", u.waiting, "unknown", u.unknown));
    }
    return rows;
}
