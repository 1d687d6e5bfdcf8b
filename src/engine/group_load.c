/* Group measurements and the store: their rows, and after a restart the other way round. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "checks/checks.h"
#include "engine/group_int.h"

enum { COMEBACK_MS = 1000 };

/* ---- rows ---- */

void group_run_save(struct group_run *r, const char *status, const char *text)
{
    bool over = strcmp(status, "running") != 0;
    struct store_group_run row = {.id = r->id,
                                  .at = r->at,
                                  .stage = r->key.stage,
                                  .step = r->key.step,
                                  .scope = r->key.scope,
                                  .class_name = r->key.class_name,
                                  .rack = r->key.rack,
                                  .rounds = r->way.rounds,
                                  .rails = r->rails,
                                  .status = status,
                                  .text = text,
                                  .ended_at = over ? engine_wall(r->engine) : 0};
    r->id = store_put_group_run(r->engine->store, &row);
}

void group_save_member(struct group_run *r, int entry, const char *verdict, const char *why)
{
    const struct group_entry *e = &r->entries[entry];
    struct store_group_member row = {.run_id = r->id,
                                     .node_id = e->node,
                                     .ordinal = entry,
                                     .stage = r->key.stage,
                                     .attempt_id = e->attempt,
                                     .verdict = verdict,
                                     .why = why,
                                     .value = (double)NAN,
                                     .limit = (double)NAN,
                                     .at = engine_wall(r->engine)};
    for (int t = 0; verdict != NULL && t < r->turn_count; t++) {
        int at = r->turns[t * r->count + entry];
        if (at < 0 || isnan(r->bouts[at].value))
            continue;
        row.unit = r->bouts[at].unit;
        row.limit = r->bouts[at].limit;
        row.value = r->verdicts != NULL ? r->verdicts[entry].median : r->bouts[at].value;
    }
    store_put_group_member(r->engine->store, &row);
}

static const char *bout_verdict(const struct group_bout *b)
{
    return !b->measured       ? "none"
           : isnan(b->value)  ? "failed"
           : b->bad           ? "low"
           : !isnan(b->limit) ? "ok"
                              : "info";
}

void group_save_bout(struct group_run *r, int bout)
{
    const struct group_bout *b = &r->bouts[bout];
    struct store_group_result row = {.run_id = r->id,
                                     .bout = bout,
                                     .round = b->round,
                                     .rail = b->rail,
                                     .node_id = r->entries[b->b].node,
                                     .peer_id = r->entries[b->a].node,
                                     .stage = r->key.stage,
                                     .metric = b->metric[0] != '\0' ? b->metric : "transfer",
                                     .value = b->value,
                                     .limit = b->limit,
                                     .unit = b->unit[0] != '\0' ? b->unit : NULL,
                                     .verdict = bout_verdict(b),
                                     .why = b->why,
                                     .at = engine_wall(r->engine)};
    store_put_group_result(r->engine->store, &row);
}

/* ---- a pair that measured by itself ---- */

static void record_member(struct engine *e, int64_t run_id, const struct step_run *run,
                          const struct enode *n, const struct store_group_result *result,
                          const struct err *err)
{
    bool first = n == run->node;
    struct store_group_member row = {.run_id = run_id,
                                     .node_id = n->id,
                                     .ordinal = first ? 0 : 1,
                                     .stage = run->stage->name,
                                     .attempt_id = first ? run->attempt_id : 0,
                                     .verdict = err->code == ERR_OK ? "ok" : "unclear",
                                     .why = err->code == ERR_OK ? NULL : err->text,
                                     .value = result->value,
                                     .limit = result->limit,
                                     .unit = result->unit,
                                     .at = result->at};
    store_put_group_member(e->store, &row);
}

void group_record_pair(struct step_run *run, const struct enode *partner, const char *log,
                       const struct err *err)
{
    struct engine *e = run->engine;
    struct values *values = xcalloc(1, sizeof *values);
    const struct value *v = &values->items[0];
    bool figure = log != NULL &&
                  checks_parse(step_param(run, "measure", ""), log, strlen(log), values, NULL) == 0;
    double limit =
        group_floor(run->node, step_param(run, "floor", NULL), step_param(run, "floor_gbs", NULL));
    struct store_group_run row = {.at = run->started_at,
                                  .stage = run->stage->name,
                                  .step = run->index,
                                  .scope = "pair",
                                  .class_name = run->node->klass->name,
                                  .rounds = 1,
                                  .rails = 1,
                                  .status = "finished",
                                  .ended_at = engine_wall(e)};
    struct store_group_result result = {.run_id = store_put_group_run(e->store, &row),
                                        .rail = -1,
                                        .node_id = run->node->id,
                                        .peer_id = partner->id,
                                        .stage = run->stage->name,
                                        .metric = figure ? v->name : "transfer",
                                        .value = figure ? v->value : (double)NAN,
                                        .limit = figure ? limit : (double)NAN,
                                        .unit = figure ? v->unit : NULL,
                                        .verdict = !figure            ? "failed"
                                                   : isnan(limit)     ? "info"
                                                   : v->value < limit ? "low"
                                                                      : "ok",
                                        .why = err->code != ERR_OK ? err->text : NULL,
                                        .at = engine_wall(e)};
    store_put_group_result(e->store, &result);
    record_member(e, result.run_id, run, run->node, &result, err);
    record_member(e, result.run_id, run, partner, &result, err);
    free(values);
}

/* ---- after a restart ---- */

static void add_entry(const struct store_group_member *row, void *user)
{
    struct group_run *r = user;
    ARRAY_GROW(r->entries, r->count, r->capacity);
    struct group_entry *e = &r->entries[r->count++];
    *e = (struct group_entry){
        .node = row->node_id, .attempt = row->attempt_id, .ended = row->verdict != NULL};
    r->members += row->attempt_id != 0;
    if (row->verdict != NULL && strcmp(row->verdict, "fault") == 0) {
        e->fault = xstrdup(row->why != NULL ? row->why : "");
        e->gone = true;
    }
}

static void add_result(const struct store_group_result *row, void *user)
{
    struct group_run *r = user;
    if (row->bout < 0 || row->bout >= r->bout_count)
        return;
    struct group_bout *b = &r->bouts[row->bout];
    b->state = BOUT_OVER;
    r->over++;
    b->value = row->value;
    b->limit = row->limit;
    b->measured = strcmp(row->verdict, "none") != 0;
    b->bad = strcmp(row->verdict, "low") == 0 || strcmp(row->verdict, "failed") == 0;
    b->why = xstrdup(row->why);
    if (!isnan(row->value)) {
        (void)snprintf(b->metric, sizeof b->metric, "%s", row->metric);
        (void)snprintf(b->unit, sizeof b->unit, "%s", row->unit != NULL ? row->unit : "");
    }
}

/* The step as the profile has it now; NULL: it has it no more. */
static const struct step_def *find_step(const struct group_run *r)
{
    for (int i = 0; i < r->count; i++) {
        const struct enode *n = engine_find_id(r->engine, r->entries[i].node);
        int stage = n != NULL ? node_stage_index(n, r->key.stage) : -1;
        if (stage < 0 || r->key.step >= n->stages[stage].def->step_count)
            continue;
        const struct step_def *def = &n->stages[stage].def->steps[r->key.step];
        return strcmp(def->type, "group") == 0 && strcmp(def->what, r->key.scope) == 0 ? def : NULL;
    }
    return NULL;
}

static void expect_members(struct group_run *r)
{
    struct groups *all = r->engine->groups;
    for (int i = 0; i < r->members; i++) {
        char key[24];
        struct comeback *c = xcalloc(1, sizeof *c);
        *c = (struct comeback){.run = r, .entry = i};
        (void)snprintf(key, sizeof key, "%lld", (long long)r->entries[i].node);
        free(map_set(all->comebacks, key, c));
    }
}

struct loading {
    struct engine *e;
    struct err err;
};

static void load_run(const struct store_group_run *row, void *user)
{
    struct loading *l = user;
    struct engine *e = l->e;
    struct group_run *r = xcalloc(1, sizeof *r);
    struct group_key key = {.stage = (char *)row->stage,
                            .class_name = (char *)row->class_name,
                            .scope = (char *)row->scope,
                            .step = row->step,
                            .rack = (char *)row->rack};
    r->engine = e;
    r->id = row->id;
    r->at = row->at;
    r->rails = row->rails;
    r->left_out = xstrdup(row->text);
    group_key_copy(&r->key, &key);
    group_run_link(r);
    if (store_each_group_member(e->store, r->id, add_entry, r, &l->err) < 0)
        return;
    const struct step_def *def = find_step(r);
    if (def == NULL || r->count < 2 || r->members == 0) {
        group_run_save(r, "cancelled", "the daemon was restarted, and its step is gone");
        group_run_free(r);
        return;
    }
    group_way_read(&r->way, def);
    int most = tournament_rounds(r->count);
    r->way.rounds = row->rounds < most ? row->rounds : most;
    r->lent_to = r->entries[0].node;
    r->written = r->count;
    group_run_lay_out(r);
    group_run_lend(r, true);
    (void)store_each_group_result(e->store, r->id, add_result, r, &l->err);
    expect_members(r);
}

bool group_run_rejoin(struct seat *seat)
{
    const struct step_run *run = seat->run;
    struct groups *all = run->engine->groups;
    char key[24];
    (void)snprintf(key, sizeof key, "%lld", (long long)run->node->id);
    struct comeback *c =
        all != NULL && all->comebacks != NULL ? map_get(all->comebacks, key) : NULL;
    if (c == NULL || c->run->entries[c->entry].attempt != run->attempt_id ||
        c->run->key.step != run->index || c->run->entries[c->entry].seat != NULL)
        return false;
    seat->measure = c->run;
    seat->entry = c->entry;
    c->run->entries[c->entry].seat = seat;
    c->run->entries[c->entry].ended = false; /* it was told, and did not live to hear it */
    step_note(seat->run, "measuring in a group of %d, as before the restart", c->run->count);
    return true;
}

/* Who did not come back by now has left. */
static void go_on(void *user)
{
    struct engine *e = user;
    group_comebacks_free(e);
    for (struct group_run *r = e->groups->running, *next; r != NULL; r = next) {
        next = r->next;
        if (r->formed || r->sync != NULL || r->written < r->count)
            continue;
        for (int i = 0; i < r->members; i++)
            if (r->entries[i].seat == NULL && !r->entries[i].ended)
                group_run_out(r, i, NULL);
        r->formed = true;
        group_run_pump(r);
    }
}

static void free_comeback(const char *key, void *value, void *user)
{
    (void)key;
    (void)user;
    free(value);
}

void group_comebacks_free(struct engine *e)
{
    if (e->groups->comebacks == NULL)
        return;
    map_each(e->groups->comebacks, free_comeback, NULL);
    map_free(e->groups->comebacks);
    e->groups->comebacks = NULL;
}

int groups_load(struct engine *e, struct err *err)
{
    struct loading l = {.e = e};
    struct groups *all = groups_of(e);
    all->comebacks = map_new();
    if (store_each_open_group_run(e->store, load_run, &l, &l.err) < 0 || l.err.code != ERR_OK) {
        if (err != NULL)
            *err = l.err;
        return -(int)l.err.code;
    }
    if (all->running == NULL)
        group_comebacks_free(e);
    else
        timer_set(e->loop, &all->timer, COMEBACK_MS, go_on, e);
    return 0;
}
