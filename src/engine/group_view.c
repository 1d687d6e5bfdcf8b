/* The last results of group steps, as the API shows them (docs/api.md). */
#include <math.h>
#include <stdlib.h>

#include "engine/group.h"
#include "engine/node.h"
#include "engine/view.h"

struct shown {
    struct engine *e;
    const struct enode *n;
    json_t *rows;
};

static void set(json_t *o, const char *key, json_t *value)
{
    (void)json_object_set_new(o, key, value != NULL ? value : json_null());
}

static json_t *number(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static void add_pair(const struct store_last_result *r, void *user)
{
    struct shown *s = user;
    const struct store_group_result *x = &r->result;
    int64_t peer = x->node_id == s->n->id ? x->peer_id : x->node_id;
    json_t *o = json_object();
    set(o, "peer", view_text(engine_node_name(s->e, peer)));
    set(o, "round", json_integer(x->round + 1));
    set(o, "rail", x->rail >= 0 ? json_integer(x->rail) : NULL);
    set(o, "metric", view_text(x->metric));
    set(o, "value", number(x->value));
    set(o, "unit", view_text(x->unit));
    set(o, "floor", number(x->limit));
    set(o, "verdict", view_text(x->verdict));
    set(o, "why", view_text(x->why));
    set(o, "at", view_time(x->at));
    set(o, "previous", number(r->previous));
    set(o, "previous_at", view_time(r->previous_at));
    (void)json_array_append_new(s->rows, o);
}

static void add_run(const struct store_last_group *r, void *user)
{
    struct shown *s = user;
    const struct store_group_member *m = &r->member;
    struct shown pairs = {.e = s->e, .n = s->n, .rows = json_array()};
    json_t *o = json_object();
    set(o, "stage", view_text(m->stage));
    set(o, "step", json_integer(r->run.step + 1));
    set(o, "scope", view_text(r->run.scope));
    set(o, "rack", r->run.rack != NULL && r->run.rack[0] != '\0' ? view_text(r->run.rack) : NULL);
    set(o, "run", json_integer(r->run.id));
    set(o, "status", view_text(r->run.status));
    set(o, "text", view_text(r->run.text));
    set(o, "attempt", m->attempt_id != 0 ? json_integer(m->attempt_id) : NULL);
    set(o, "verdict", view_text(m->verdict));
    set(o, "why", view_text(m->why));
    set(o, "value", number(m->value));
    set(o, "unit", view_text(m->unit));
    set(o, "floor", number(m->limit));
    set(o, "previous", number(r->previous));
    set(o, "at", view_time(m->at));
    (void)store_each_last_result(s->e->store, s->n->id, r->run.id, add_pair, &pairs, NULL);
    set(o, "pairs", pairs.rows);
    (void)json_array_append_new(s->rows, o);
}

json_t *engine_view_results(struct engine *e, const char *nodeset, const char *stage,
                            struct err *err)
{
    struct enode **nodes;
    int count;
    if (engine_select(e, nodeset, &nodes, &count, err) < 0)
        return NULL;
    json_t *rows = json_array();
    int rc = 0;
    for (int i = 0; i < count && rc == 0; i++) {
        struct shown s = {.e = e, .n = nodes[i], .rows = json_array()};
        rc = store_each_last_group(e->store, nodes[i]->id, stage, add_run, &s, err);
        (void)json_array_append_new(
            rows, json_pack("{s:s,s:o}", "node", nodes[i]->name, "results", s.rows));
    }
    free(nodes);
    if (rc < 0) {
        json_decref(rows);
        return NULL;
    }
    return json_pack("{s:o}", "nodes", rows);
}
