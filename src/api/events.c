#include "api/events.h"

#include <stdlib.h>
#include <string.h>

#include "api/routes_int.h"
#include "base/mem.h"
#include "base/nodeset.h"
#include "engine/view.h"

enum { EVENTS_DEFAULT = 50, EVENTS_MAX = 10000, FOLLOW_MS = 200, FOLLOW_BATCH = 1000 };

struct follower {
    struct follower *next;
    struct http_request *req;
    struct routes *routes;
    struct nodeset *nodes; /* NULL: all */
};

struct collect {
    json_t *rows;
    const struct nodeset *nodes;
    int64_t last;
};

static json_t *event_json(const struct store_event *r)
{
    return json_pack("{s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "id", (json_int_t)r->id, "at",
                     view_time(r->at), "node", view_text(r->node), "kind", view_text(r->kind),
                     "stage", view_text(r->stage), "attempt",
                     r->attempt_id > 0 ? json_integer(r->attempt_id) : json_null(), "text",
                     view_text(r->text), "actor", view_text(r->actor));
}

static bool wanted(const struct nodeset *nodes, const struct store_event *r)
{
    return nodes == NULL || (r->node != NULL && nodeset_contains(nodes, r->node));
}

static void collect_event(const struct store_event *r, void *user)
{
    struct collect *c = user;
    c->last = r->id;
    if (wanted(c->nodes, r))
        (void)json_array_append_new(c->rows, event_json(r));
}

/* ---- following ---- */

static void drop_follower(struct follower *f)
{
    for (struct follower **at = &f->routes->followers; *at != NULL; at = &(*at)->next)
        if (*at == f) {
            *at = f->next;
            break;
        }
    nodeset_free(f->nodes);
    free(f);
}

static void follower_closed(struct http_request *req, void *user)
{
    (void)req;
    drop_follower(user);
}

static void send_event(const struct store_event *r, void *user)
{
    struct routes *routes = user;
    routes->followed = r->id;
    char *line = NULL;
    for (struct follower *f = routes->followers; f != NULL; f = f->next) {
        if (!wanted(f->nodes, r))
            continue;
        if (line == NULL) {
            json_t *json = event_json(r);
            line = json_dumps(json, JSON_COMPACT);
            json_decref(json);
        }
        http_stream_write(f->req, line, strlen(line));
        http_stream_write(f->req, "\n", 1);
    }
    free(line);
}

static void follow_tick(void *user)
{
    struct routes *r = user;
    if (r->followers == NULL)
        return;
    (void)store_each_event(r->c.store, r->followed, 0, FOLLOW_BATCH, send_event, r, NULL);
    timer_set(r->c.loop, &r->follow_timer, FOLLOW_MS, follow_tick, r);
}

static void follow(struct routes *r, struct http_request *req, const struct collect *c,
                   struct nodeset *nodes)
{
    struct follower *f = xcalloc(1, sizeof *f);
    *f = (struct follower){.req = req, .routes = r, .nodes = nodes};
    http_stream_begin(req, 200, "application/x-ndjson", follower_closed, f);
    size_t i;
    json_t *row;
    json_array_foreach(c->rows, i, row)
    {
        char *line = json_dumps(row, JSON_COMPACT);
        http_stream_write(req, line, strlen(line));
        http_stream_write(req, "\n", 1);
        free(line);
    }
    /* all followers share one cursor: bring the others up to here first */
    if (r->followers != NULL)
        (void)store_each_event(r->c.store, r->followed, 0, FOLLOW_BATCH, send_event, r, NULL);
    r->followed = c->last > r->followed ? c->last : r->followed;
    f->next = r->followers;
    r->followers = f;
    timer_set(r->c.loop, &r->follow_timer, FOLLOW_MS, follow_tick, r);
}

void events_stop(struct routes *r)
{
    timer_cancel(&r->follow_timer);
    while (r->followers != NULL) {
        struct follower *f = r->followers;
        struct http_request *req = f->req;
        drop_follower(f);
        http_stream_end(req);
    }
}

static void last_id(const struct store_event *e, void *user)
{
    *(int64_t *)user = e->id;
}

void events_get(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    (void)arg;
    const char *after = http_arg(req, "after"), *limit = http_arg(req, "limit");
    const char *names = http_arg(req, "nodes"), *follow_arg = http_arg(req, "follow");
    long long from = after != NULL ? strtoll(after, NULL, 10) : -1;
    long max = limit != NULL ? strtol(limit, NULL, 10) : EVENTS_DEFAULT;
    max = max < 1 ? EVENTS_DEFAULT : (max > EVENTS_MAX ? EVENTS_MAX : max);
    struct nodeset *nodes = NULL;
    if (names != NULL && names[0] != '\0' && (nodes = nodeset_parse(names, &err)) == NULL) {
        http_respond_error(req, &err);
        return;
    }
    struct collect c = {.rows = json_array(), .nodes = nodes};
    /* a nodeset is filtered here: read enough for it, within a bound */
    int read = (int)(nodes != NULL ? EVENTS_MAX : max);
    if (store_each_event(r->c.store, from, 0, read, collect_event, &c, &err) < 0) {
        http_respond_error(req, &err);
        nodeset_free(nodes);
    } else {
        while (from < 0 && json_array_size(c.rows) > (size_t)max)
            (void)json_array_remove(c.rows, 0);
        if (c.last == 0)
            (void)store_each_event(r->c.store, -1, 0, 1, last_id, &c.last, NULL);
        if (follow_arg != NULL && strcmp(follow_arg, "1") == 0) {
            follow(r, req, &c, nodes);
        } else {
            http_respond_json(req, 200,
                              json_pack("{s:O,s:I}", "events", c.rows, "last", (json_int_t)c.last));
            nodeset_free(nodes);
        }
    }
    json_decref(c.rows);
}

/* ---- logs ---- */

struct log_pick {
    int64_t id; /* asked for, 0: the newest */
    json_t *attempt;
};

static void pick_attempt(const struct store_attempt *a, void *user)
{
    struct log_pick *p = user;
    if (p->attempt == NULL && (p->id == 0 || p->id == a->id))
        p->attempt = view_attempt(a);
}

static void add_evidence(const struct store_evidence *r, void *user)
{
    (void)json_array_append_new(user, json_pack("{s:o,s:o,s:o,s:o}", "kind", view_text(r->kind),
                                                "stage", view_text(r->stage), "at",
                                                view_time(r->at), "text", view_text(r->text)));
}

void logs_get(struct routes *r, struct http_request *req, const char *node)
{
    struct err err = {0};
    const char *stage = http_arg(req, "stage"), *attempt = http_arg(req, "attempt");
    int64_t id = engine_node_id(r->c.engine, node, &err);
    struct log_pick pick = {.id = attempt != NULL ? strtoll(attempt, NULL, 10) : 0};
    if (id < 0 || store_each_attempt(r->c.store, id, stage, 200, pick_attempt, &pick, &err) < 0) {
        http_respond_error(req, &err);
        return;
    }
    if (pick.attempt == NULL) {
        (void)err_set(&err, ERR_NOT_FOUND, "%s has no such attempt%s%s", node,
                      stage != NULL ? " of stage " : "", stage != NULL ? stage : "");
        http_respond_error(req, &err);
        return;
    }
    json_t *evidence = json_array();
    (void)store_each_evidence(r->c.store, json_integer_value(json_object_get(pick.attempt, "id")),
                              add_evidence, evidence, &err);
    http_respond_json(
        req, 200,
        json_pack("{s:s,s:o,s:o}", "node", node, "attempt", pick.attempt, "evidence", evidence));
}

/* ---- pending ---- */

static void add_pending(const struct store_pending *p, void *user)
{
    (void)json_array_append_new(
        user, json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:I,s:o,s:o}", "mac", view_text(p->mac),
                        "uuid", view_text(p->uuid), "serial", view_text(p->serial), "address",
                        view_text(p->address), "platform", view_text(p->platform), "first_seen",
                        view_time(p->first_seen), "last_seen", view_time(p->last_seen), "times",
                        (json_int_t)p->times, "note", view_text(p->note), "status",
                        view_text(p->status)));
}

void pending_get(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    json_t *rows = json_array();
    (void)arg;
    if (store_each_pending(r->c.store, add_pending, rows, &err) < 0) {
        json_decref(rows);
        http_respond_error(req, &err);
        return;
    }
    http_respond_json(req, 200, json_pack("{s:o}", "pending", rows));
}
