/* A measurement under way: pairs in rounds, each node with one partner at a time. A pair starts
 * when both are free, so that a node that hangs keeps nobody but its own partners. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checks/checks.h"
#include "engine/group_int.h"

enum { WRITTEN_AT_ONCE = 100, LOG_KEPT = 4096 };

const char *group_entry_name(const struct group_run *r, int entry)
{
    const struct enode *n = engine_find_id(r->engine, r->entries[entry].node);
    return n != NULL ? n->name : "a node that left the spec";
}

/* ---- life ---- */

void group_run_link(struct group_run *r)
{
    struct groups *all = groups_of(r->engine);
    r->next = all->running;
    r->link = &all->running;
    if (r->next != NULL)
        r->next->link = &r->next;
    all->running = r;
}

void group_run_lend(struct group_run *r, bool lend)
{
    for (int i = r->members; i < r->count; i++) {
        struct enode *n = engine_find_id(r->engine, r->entries[i].node);
        if (n != NULL && lend) {
            n->group_peer = r->lent_to;
        } else if (n != NULL && n->group_peer == r->lent_to) {
            n->group_peer = 0;
            node_kick(n, 0);
        }
    }
}

void group_run_free(struct group_run *r)
{
    *r->link = r->next;
    if (r->next != NULL)
        r->next->link = r->link;
    timer_cancel(&r->timer);
    op_cancel(r->sync);
    for (int i = 0; i < r->bout_count; i++) {
        transfer_cancel(r->engine, r->bouts[i].transfer);
        free(r->bouts[i].why);
    }
    for (int i = 0; i < r->count; i++)
        free(r->entries[i].fault);
    free(r->entries);
    free(r->bouts);
    free(r->turns);
    free(r->ready);
    free(r->left_out);
    free(r->verdicts);
    free(r->worst_rail);
    group_key_done(&r->key);
    group_way_done(&r->way);
    free(r);
}

/* Of the class's rails those that the spec's fabric has, else one for each HCA. */
static int count_rails(const struct enode *n, const char *scope)
{
    if (strcmp(scope, "rail") != 0)
        return 1;
    int rails = (int)json_integer_value(json_object_get(n->engine->spec->fabric, "rails"));
    int hcas = n->klass->profile->bom.hcas;
    return rails > 0 ? rails : hcas > 0 ? hcas : 1;
}

static int by_spec(const void *a, const void *b)
{
    const struct seat *x = *(struct seat *const *)a, *y = *(struct seat *const *)b;
    return (x->run->node->spec > y->run->node->spec) - (x->run->node->spec < y->run->node->spec);
}

/* Neighbours in the spec are neighbours in the list: the schedule keeps them apart. */
static void take_seats(struct group_run *r, struct group *g)
{
    struct seat **seats = xcalloc((size_t)g->joined + 1, sizeof(struct seat *));
    for (struct seat *s = g->head; s != NULL; s = s->next)
        seats[r->members++] = s;
    qsort(seats, (size_t)r->members, sizeof(struct seat *), by_spec);
    for (int i = 0; i < r->members; i++) {
        struct seat *s = seats[i];
        r->entries[i] = (struct group_entry){
            .node = s->run->node->id, .attempt = s->run->attempt_id, .seat = s};
        s->group = NULL;
        s->next = s->prev = NULL;
        s->measure = r;
        s->entry = i;
    }
    g->head = g->tail = NULL;
    g->joined = 0;
    free(seats);
}

static void on_formed(struct op *op, void *user)
{
    struct group_run *r = user;
    bool ok = op_ok(op);
    r->sync = NULL;
    op_free(op);
    if (!ok)
        return; /* the store failed: nothing is started any more */
    r->formed = true;
    group_run_pump(r);
}

/* Everybody's place is on disk before the first script starts. */
static void write_members(void *user)
{
    struct group_run *r = user;
    for (int i = 0; i < WRITTEN_AT_ONCE && r->written < r->count; i++, r->written++) {
        struct seat *s = r->entries[r->written].seat;
        group_save_member(r, r->written, NULL, NULL);
        if (s == NULL)
            continue;
        attempt_postpone(s->run->node, engine_wall(r->engine) - s->since);
        step_note(s->run, "about to measure in a group of %d", r->count);
    }
    if (r->written < r->count)
        timer_set(r->engine->loop, &r->timer, 1, write_members, r);
    else
        r->sync = store_sync(r->engine->store, on_formed, r);
}

struct group_run *group_run_new(struct group *g, struct enode **helpers, int helper_count,
                                const char *left_out)
{
    struct group_run *r = xcalloc(1, sizeof *r);
    const struct enode *first = g->head->run->node;
    char name[120];
    r->engine = g->engine;
    r->at = engine_wall(g->engine);
    group_key_copy(&r->key, &g->key);
    group_way_copy(&r->way, &g->way);
    r->rails = count_rails(first, g->key.scope);
    r->entries = xcalloc((size_t)(g->joined + helper_count) + 1, sizeof *r->entries);
    r->lent_to = first->id;
    take_seats(r, g);
    r->count = r->members;
    for (int i = 0; i < helper_count; i++)
        r->entries[r->count++] = (struct group_entry){.node = helpers[i]->id};
    int most = tournament_rounds(r->count);
    r->way.rounds = r->way.rounds < most ? r->way.rounds : most;
    r->left_out =
        left_out != NULL && left_out[0] != '\0' ? xasprintf("left out: %s", left_out) : NULL;
    group_run_link(r);
    group_run_lay_out(r);
    group_run_lend(r, true);
    group_run_save(r, "running", r->left_out);
    group_name(&r->key, name, sizeof name);
    struct store_event row = {.at = r->at,
                              .kind = "group.started",
                              .stage = r->key.stage,
                              .actor = "engine",
                              .text = NULL};
    char *text = xasprintf("%s: %d nodes measure in %d rounds%s%s%s", name, r->count,
                           r->way.rounds * r->rails, r->left_out != NULL ? " (" : "",
                           r->left_out != NULL ? r->left_out : "", r->left_out != NULL ? ")" : "");
    row.text = text;
    (void)store_add_event(r->engine->store, &row);
    free(text);
    timer_set(r->engine->loop, &r->timer, 0, write_members, r);
    return r;
}

/* ---- the order of the pairs ---- */

void group_run_lay_out(struct group_run *r)
{
    int most = tournament_rounds(r->count);
    r->turn_count = r->way.rounds * r->rails;
    r->turns = xcalloc((size_t)r->turn_count * (size_t)r->count + 1, sizeof *r->turns);
    r->bouts = xcalloc((size_t)r->turn_count * (size_t)(r->count / 2) + 1, sizeof *r->bouts);
    for (int t = 0; t < r->turn_count; t++) {
        int round = t / r->rails, rail = t % r->rails;
        /* each rail its own partners, as far as there are */
        int at = most > 0 ? (rail * r->way.rounds + round) % most : 0;
        for (int e = 0; e < r->count; e++) {
            int peer = tournament_partner(r->count, at, e);
            if (peer < 0)
                r->turns[t * r->count + e] = -1;
            if (peer <= e)
                continue;
            struct group_bout *b = &r->bouts[r->bout_count];
            *b = (struct group_bout){
                .a = round % 2 == 0 ? e : peer,
                .b = round % 2 == 0 ? peer : e,
                .round = round,
                .rail = r->rails > 1 || strcmp(r->key.scope, "rail") == 0 ? rail : -1,
                .value = (double)NAN,
                .limit = (double)NAN,
                .run = r};
            r->turns[t * r->count + e] = r->turns[t * r->count + peer] = r->bout_count++;
        }
    }
    r->ready = xcalloc((size_t)r->bout_count + 1, sizeof *r->ready);
}

/* Its next bout; -1: it has none any more. */
static int current(struct group_run *r, int entry)
{
    struct group_entry *e = &r->entries[entry];
    while (e->turn < r->turn_count) {
        int at = r->turns[e->turn * r->count + entry];
        if (at >= 0 && r->bouts[at].state != BOUT_OVER)
            return at;
        e->turn++;
    }
    return -1;
}

/* Its next bout is ready when that is the partner's next one, too. */
static void settle(struct group_run *r, int entry)
{
    int at = current(r, entry);
    if (at < 0 || r->bouts[at].state != BOUT_WAITS)
        return;
    struct group_bout *b = &r->bouts[at];
    if (current(r, b->a == entry ? b->b : b->a) != at)
        return;
    b->state = BOUT_READY;
    r->ready[r->ready_count++] = at; /* each comes once */
}

void group_bout_over(struct group_run *r, int bout)
{
    struct group_bout *b = &r->bouts[bout];
    b->state = BOUT_OVER;
    r->over++;
    settle(r, b->a);
    settle(r, b->b);
}

static void call_off(struct group_run *r, int bout, const char *why)
{
    struct group_bout *b = &r->bouts[bout];
    if (b->state == BOUT_RUNS) {
        transfer_cancel(r->engine, b->transfer);
        b->transfer = NULL;
        r->in_flight--;
    }
    b->measured = b->bad = false;
    free(b->why);
    b->why = xstrdup(why);
    group_save_bout(r, bout);
    group_bout_over(r, bout);
}

void group_run_out(struct group_run *r, int entry, const char *fault)
{
    struct group_entry *e = &r->entries[entry];
    if (e->gone)
        return;
    char *why = xasprintf("%s %s", group_entry_name(r, entry),
                          fault != NULL ? "could not be worked with" : "left the measurement");
    e->gone = true;
    e->fault = xstrdup(fault);
    if (fault != NULL)
        group_save_member(r, entry, "fault", fault);
    for (int t = e->turn; t < r->turn_count; t++) {
        int at = r->turns[t * r->count + entry];
        if (at >= 0 && r->bouts[at].state != BOUT_OVER)
            call_off(r, at, why);
    }
    free(why);
    group_run_pump(r);
}

/* ---- one pair ---- */

static void note(struct group_run *r, int entry, const struct group_bout *b)
{
    const struct seat *s = r->entries[entry].seat;
    char rail[32] = "";
    if (s == NULL)
        return;
    if (b->rail >= 0)
        (void)snprintf(rail, sizeof rail, " on rail %d", b->rail);
    step_note(s->run, "measuring with %s%s, round %d of %d in a group of %d",
              group_entry_name(r, b->a == entry ? b->b : b->a), rail, b->round + 1, r->way.rounds,
              r->count);
}

static void tell_figures(struct group_run *r, const struct group_bout *b, int entry,
                         const struct values *values)
{
    const struct seat *s = r->entries[entry].seat;
    const char *peer = group_entry_name(r, b->a == entry ? b->b : b->a);
    for (int i = 0; s != NULL && i < values->count; i++) {
        const struct value *v = &values->items[i];
        double limit = i == 0 ? b->limit : (double)NAN;
        step_measure(s->run, v->name, v->value, v->unit, peer, limit,
                     isnan(limit)       ? "info"
                     : v->value < limit ? "low"
                                        : "ok");
    }
}

/* The first figure counts. */
static void read_figures(struct group_run *r, struct group_bout *b, const char *log)
{
    struct values *values = xcalloc(1, sizeof *values);
    const struct enode *n = engine_find_id(r->engine, r->entries[b->b].node);
    struct err err = {0};
    b->measured = true;
    if (checks_parse(r->way.measure, log, strlen(log), values, &err) < 0) {
        b->bad = true;
        b->why = xstrdup(err.text);
    } else {
        b->value = values->items[0].value;
        (void)snprintf(b->metric, sizeof b->metric, "%s", values->items[0].name);
        (void)snprintf(b->unit, sizeof b->unit, "%s", values->items[0].unit);
        if (n != NULL)
            b->limit = group_floor(n, r->way.floor_var, r->way.floor);
        b->bad = b->value < b->limit;
        tell_figures(r, b, b->a, values);
        tell_figures(r, b, b->b, values);
    }
    free(values);
}

static void keep_log(struct group_run *r, const struct group_bout *b, const char *log)
{
    size_t len = strlen(log);
    const int sides[] = {b->a, b->b};
    const char *end = len > LOG_KEPT ? log + len - LOG_KEPT : log;
    char *text = xasprintf("%s to %s: %s\n%s", group_entry_name(r, b->b), group_entry_name(r, b->a),
                           b->why != NULL ? b->why : "below the floor", end);
    for (size_t i = 0; i < ARRAY_LEN(sides); i++)
        if (r->entries[sides[i]].seat != NULL)
            step_evidence(r->entries[sides[i]].seat->run, "log", text);
    free(text);
}

static void on_line(const char *line, void *user)
{
    const struct group_bout *b = user;
    const struct seat *s = b->run->entries[b->b].seat;
    if (s != NULL)
        step_note(s->run, "measuring with %s: %s", group_entry_name(b->run, b->a), line);
}

static void on_transfer(const struct transfer_end *end, void *user)
{
    struct group_bout *b = user;
    struct group_run *r = b->run;
    int bout = (int)(b - r->bouts), broken = -1;
    b->transfer = NULL;
    r->in_flight--;
    b->state = BOUT_READY; /* nothing is left to cancel */
    if (end->err.code == ERR_OK) {
        read_figures(r, b, end->log);
    } else {
        b->why = xstrdup(end->err.text);
        broken = end->at_fault == 0 ? -1 : end->at_fault == r->entries[b->a].node ? b->a : b->b;
        b->measured = b->bad = broken < 0;
    }
    if (b->bad || broken >= 0)
        keep_log(r, b, end->log);
    group_save_bout(r, bout);
    group_bout_over(r, bout);
    if (broken >= 0)
        group_run_out(r, broken, end->err.text);
    group_run_pump(r);
}

static void start_bout(struct group_run *r, int bout)
{
    struct group_bout *b = &r->bouts[bout];
    struct err err = {0};
    char id[64];
    (void)snprintf(id, sizeof id, "g%lld-%d", (long long)r->id, bout);
    const struct group_entry *server = &r->entries[b->a], *client = &r->entries[b->b];
    struct transfer_spec spec = {.server = server->node,
                                 .client = client->node,
                                 .stage = r->key.stage,
                                 .attempt =
                                     client->attempt != 0 ? client->attempt : server->attempt,
                                 .server_script = r->way.server,
                                 .client_script = r->way.client,
                                 .id = id,
                                 .rail = b->rail,
                                 .timeout_ms = r->way.timeout_ms};
    b->transfer = transfer_start(r->engine, &spec, on_line, on_transfer, b, &err);
    if (b->transfer == NULL) {
        call_off(r, bout, err.text);
        return;
    }
    b->state = BOUT_RUNS;
    r->in_flight++;
    note(r, b->a, b);
    note(r, b->b, b);
}

void group_run_pump(struct group_run *r)
{
    if (!r->formed || r->verdicts != NULL || r->engine->fault[0] != '\0')
        return;
    for (int i = 0; !r->started && i < r->count; i++)
        settle(r, i);
    r->started = true;
    while (r->in_flight < r->way.at_once && r->ready_head < r->ready_count) {
        int bout = r->ready[r->ready_head++];
        if (r->bouts[bout].state == BOUT_READY)
            start_bout(r, bout);
    }
    if (r->over == r->bout_count && r->in_flight == 0 && !timer_armed(&r->timer))
        timer_set(r->engine->loop, &r->timer, 0, group_run_end, r);
}
