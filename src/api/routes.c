#include "api/routes.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/console.h"
#include "api/events.h"
#include "api/keep.h"
#include "api/routes_int.h"
#include "api/spec.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "engine/states.h"

enum { SWEEP_PATIENCE_MS = 2 * 3600 * 1000 }; /* of many nodes, a few at once */

struct routes *routes_new(const struct routes_config *config)
{
    struct routes *r = xcalloc(1, sizeof *r);
    r->c = *config;
    return r;
}

void routes_free(struct routes *r)
{
    if (r == NULL)
        return;
    events_stop(r);
    keep_stop(r);
    free(r);
}

void routes_set_netboot(struct routes *r, struct netboot *nb)
{
    r->netboot = nb;
}

const char *routes_actor(struct http_request *req, char *buf, size_t size)
{
    const struct http_peer *peer = http_peer(req);
    struct passwd pw, *found = NULL;
    char space[1024];
    if (!peer->local)
        return peer->address;
    if (getpwuid_r(peer->uid, &pw, space, sizeof space, &found) == 0 && found != NULL)
        (void)snprintf(buf, size, "%s", found->pw_name);
    else
        (void)snprintf(buf, size, "uid %u", (unsigned)peer->uid);
    return buf;
}

static void answer(struct http_request *req, json_t *json, const struct err *err)
{
    if (json != NULL)
        http_respond_json(req, 200, json);
    else
        http_respond_error(req, err);
}

/* ---- an answer that is sent once what it says is on disk ---- */

struct commit_answer {
    struct http_request *req;
    json_t *json;
    bool anyway; /* also when the store has failed */
};

static void on_committed(struct op *op, void *user)
{
    struct commit_answer *c = user;
    if (op_ok(op) || c->anyway) {
        http_respond_json(c->req, 200, c->json);
    } else {
        json_decref(c->json);
        http_respond_error(c->req, &op->err);
    }
    op_free(op);
    free(c);
}

static void answer_synced(struct routes *r, struct http_request *req, json_t *json, bool anyway)
{
    struct commit_answer *c = xcalloc(1, sizeof *c);
    *c = (struct commit_answer){.req = req, .json = json, .anyway = anyway};
    (void)store_sync(r->c.store, on_committed, c);
}

void routes_commit(struct routes *r, struct http_request *req, json_t *json)
{
    answer_synced(r, req, json, false);
}

/* What was asked for is on disk before anybody hears that it was accepted. Takes json; NULL: the
 * answer is err, at once. */
static void answer_committed(struct routes *r, struct http_request *req, json_t *json,
                             const struct err *err)
{
    if (json != NULL)
        answer_synced(r, req, json, false);
    else
        http_respond_error(req, err);
}

/* How nodes stand is told once it is on disk: who hears "validated" and looks into the database, or
 * kills the daemon, finds it so. Also when the store has failed: then, too, they are asked for. */
static void answer_on_disk(struct routes *r, struct http_request *req, json_t *json,
                           const struct err *err)
{
    if (json != NULL)
        answer_synced(r, req, json, true);
    else
        http_respond_error(req, err);
}

/* ---- asking ---- */

static void get_nodes(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    (void)arg;
    answer_on_disk(r, req, engine_view_nodes(r->c.engine, http_arg(req, "nodes"), &err), &err);
}

static void get_node(struct routes *r, struct http_request *req, const char *name)
{
    struct err err = {0};
    answer_on_disk(r, req, engine_view_node(r->c.engine, name, &err), &err);
}

static void get_vars(struct routes *r, struct http_request *req, const char *name)
{
    struct err err = {0};
    answer(req, engine_view_vars(r->c.engine, name, &err), &err);
}

static void get_stages(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    (void)arg;
    answer(req, engine_view_stages(r->c.engine, http_arg(req, "nodes"), &err), &err);
}

static void get_why(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    (void)arg;
    answer(req, engine_view_why(r->c.engine, http_arg(req, "nodes"), &err), &err);
}

static void get_results(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    (void)arg;
    answer(req,
           engine_view_results(r->c.engine, http_arg(req, "nodes"), http_arg(req, "stage"), &err),
           &err);
}

static json_t *netboot_json(struct routes *r)
{
    struct netboot_status s;
    if (r->netboot == NULL)
        return json_null();
    netboot_status(r->netboot, &s);
    return json_pack("{s:s,s:s,s:i,s:i,s:i,s:i,s:i}", "dhcp", s.dhcp, "text", s.dhcp_text,
                     "restarts", s.dhcp_restarts, "hosts", s.hosts, "tokens", s.tokens, "artefacts",
                     s.artefacts, "artefacts_hashing", s.artefacts_hashing);
}

static void get_status(struct routes *r, struct http_request *req, const char *arg)
{
    json_t *status = engine_view_status(r->c.engine);
    (void)arg;
    (void)json_object_set_new(status, "netboot", netboot_json(r));
    (void)json_object_set_new(status, "hooks", r->c.hooks(r->c.user));
    http_respond_json(req, 200, status);
}

/* The two tables of the stage machine. */
static void get_graph(struct routes *r, struct http_request *req, const char *arg)
{
    json_t *states = json_array(), *transitions = json_array();
    (void)r;
    (void)arg;
    for (int i = 0; i < STAGE_STATUS_COUNT; i++)
        (void)json_array_append_new(
            states, json_pack("{s:s,s:b,s:b,s:s}", "name", stage_states[i].name, "satisfied",
                              stage_states[i].satisfied, "runnable", stage_states[i].runnable,
                              "meaning", stage_states[i].meaning));
    for (int i = 0; i < stage_transition_count; i++) {
        const struct stage_transition *t = &stage_transitions[i];
        (void)json_array_append_new(
            transitions, json_pack("{s:s,s:s,s:s}", "from", stage_status_name(t->from), "event",
                                   name_of(stage_event_names, (int)t->event, "?"), "to",
                                   stage_status_name(t->to)));
    }
    http_respond_json(req, 200,
                      json_pack("{s:o,s:o}", "states", states, "transitions", transitions));
}

/* ---- telling ---- */

json_t *routes_body(struct http_request *req, struct err *err)
{
    size_t len;
    const char *body = http_body(req, &len);
    json_error_t jerr;
    json_t *json = json_loadb(body, len, JSON_REJECT_DUPLICATES, &jerr);
    if (!json_is_object(json)) {
        (void)err_set(err, ERR_INVALID, "the request body is not a JSON object: %s (line %d)",
                      json == NULL ? jerr.text : "wrong type", json == NULL ? jerr.line : 1);
        json_decref(json);
        return NULL;
    }
    return json;
}

const char *routes_field(const json_t *body, const char *name)
{
    return json_string_value(json_object_get(body, name));
}

/* The body, with these texts in it; `second` NULL: only the first. The caller json_decref()s. */
static json_t *body_with(struct http_request *req, const char *first, const char *second,
                         struct err *err)
{
    json_t *body = routes_body(req, err);
    if (body == NULL)
        return NULL;
    if (second == NULL && routes_field(body, first) == NULL)
        (void)err_set(err, ERR_INVALID, "\"%s\" is needed", first);
    else if (second != NULL &&
             (routes_field(body, first) == NULL || routes_field(body, second) == NULL))
        (void)err_set(err, ERR_INVALID, "\"%s\" and \"%s\" are needed", first, second);
    else
        return body;
    json_decref(body);
    return NULL;
}

static void post_rerun(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    char who[64];
    json_t *out = NULL, *body = body_with(req, "nodes", "stage", &err);
    (void)arg;
    if (body != NULL)
        out = engine_rerun(r->c.engine, routes_field(body, "nodes"), routes_field(body, "stage"),
                           routes_actor(req, who, sizeof who), &err);
    json_decref(body);
    answer_committed(r, req, out, &err);
}

static void post_hold(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    char who[64];
    json_t *out = NULL, *body = body_with(req, "nodes", NULL, &err);
    (void)arg;
    if (body != NULL)
        out = engine_hold(r->c.engine, routes_field(body, "nodes"), routes_field(body, "reason"),
                          routes_actor(req, who, sizeof who), &err);
    json_decref(body);
    answer_committed(r, req, out, &err);
}

static void post_maintenance(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    char who[64];
    json_t *out = NULL, *body = body_with(req, "nodes", NULL, &err);
    (void)arg;
    if (body != NULL)
        out = engine_maintenance(r->c.engine, routes_field(body, "nodes"),
                                 routes_field(body, "reason"), routes_actor(req, who, sizeof who),
                                 &err);
    json_decref(body);
    answer_committed(r, req, out, &err);
}

static void post_waive(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    char who[64];
    json_t *out = NULL, *body = body_with(req, "nodes", "stage", &err);
    (void)arg;
    if (body != NULL)
        out = engine_waive(r->c.engine, routes_field(body, "nodes"), routes_field(body, "stage"),
                           routes_field(body, "reason"), routes_actor(req, who, sizeof who), &err);
    json_decref(body);
    answer_committed(r, req, out, &err);
}

static void sweep_done(json_t *result, void *user)
{
    http_respond_json(user, 200, result);
}

static void post_sweep(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    char who[64];
    json_t *out = NULL, *body = body_with(req, "nodes", NULL, &err);
    bool wait = json_is_true(json_object_get(body, "wait"));
    (void)arg;
    if (wait)
        http_set_patience(req, SWEEP_PATIENCE_MS);
    if (body != NULL)
        out = engine_sweep(r->c.engine, routes_field(body, "nodes"),
                           routes_actor(req, who, sizeof who), wait ? sweep_done : NULL, req, &err);
    json_decref(body);
    if (out == NULL || !wait)
        answer_committed(r, req, out, &err);
    else
        json_decref(out); /* sweep_done answers */
}

static void post_release(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    char who[64];
    json_t *out = NULL, *body = body_with(req, "nodes", NULL, &err);
    (void)arg;
    if (body != NULL)
        out = engine_release(r->c.engine, routes_field(body, "nodes"),
                             routes_actor(req, who, sizeof who), &err);
    json_decref(body);
    answer_committed(r, req, out, &err);
}

static void get_rollouts(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    (void)arg;
    answer(req, engine_view_rollouts(r->c.engine, &err), &err);
}

static void post_rollout(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    char who[64];
    json_t *out = NULL, *body = routes_body(req, &err);
    const json_t *id = json_object_get(body, "id");
    (void)arg;
    if (body != NULL &&
        (routes_field(body, "verb") == NULL || (id != NULL && !json_is_integer(id))))
        (void)err_set(&err, ERR_INVALID, "\"verb\" is needed, and \"id\" is a number");
    else if (body != NULL)
        out = engine_rollout(r->c.engine, json_integer_value(id), routes_field(body, "verb"),
                             routes_actor(req, who, sizeof who), &err);
    json_decref(body);
    answer_committed(r, req, out, &err);
}

static void post_replace(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    char who[64];
    json_t *out = NULL, *body = routes_body(req, &err);
    (void)arg;
    if (body != NULL &&
        (routes_field(body, "nodes") == NULL || routes_field(body, "nodes")[0] == '\0'))
        (void)err_set(&err, ERR_INVALID, "\"nodes\" is needed");
    else if (body != NULL)
        out = engine_replace(r->c.engine, routes_field(body, "nodes"),
                             routes_actor(req, who, sizeof who), &err);
    json_decref(body);
    answer_committed(r, req, out, &err);
}

static void power_done(json_t *result, void *user)
{
    http_respond_json(user, 200, result);
}

static void post_power(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    char who[64];
    int rc = -1;
    json_t *body = body_with(req, "nodes", "action", &err);
    (void)arg;
    http_set_patience(req, ENGINE_POWER_MAX_MS + 60000);
    if (body != NULL)
        rc = engine_power(r->c.engine, routes_field(body, "nodes"), routes_field(body, "action"),
                          routes_actor(req, who, sizeof who), power_done, req, &err);
    json_decref(body);
    if (rc < 0)
        http_respond_error(req, &err);
}

/* ---- the table ---- */

static const struct route {
    const char *method;
    const char *path; /* a trailing "*" matches one segment, given to the handler */
    void (*handle)(struct routes *r, struct http_request *req, const char *arg);
} routes_table[] = {
    {"GET", "/v1/nodes", get_nodes},           {"GET", "/v1/nodes/*", get_node},
    {"GET", "/v1/vars/*", get_vars},           {"GET", "/v1/stages", get_stages},
    {"GET", "/v1/graph", get_graph},           {"GET", "/v1/why", get_why},
    {"GET", "/v1/status", get_status},         {"GET", "/v1/events", events_get},
    {"GET", "/v1/logs/*", logs_get},           {"GET", "/v1/pending", pending_get},
    {"GET", "/v1/console/*", console_get},     {"POST", "/v1/lint", lint_post},
    {"POST", "/v1/plan", plan_post},           {"POST", "/v1/apply", apply_post},
    {"POST", "/v1/rerun", post_rerun},         {"POST", "/v1/hold", post_hold},
    {"POST", "/v1/release", post_release},     {"POST", "/v1/power", post_power},
    {"POST", "/v1/sweep", post_sweep},         {"POST", "/v1/maintenance", post_maintenance},
    {"GET", "/v1/rollouts", get_rollouts},     {"POST", "/v1/rollout", post_rollout},
    {"GET", "/v1/audit/head", audit_head_get}, {"GET", "/v1/audit/verify", audit_verify_get},
    {"POST", "/v1/backup", backup_post},       {"GET", "/v1/revisions", revisions_get},
    {"GET", "/v1/revisions/*", revision_get},  {"GET", "/v1/results", get_results},
    {"POST", "/v1/waive", post_waive},         {"POST", "/v1/replace", post_replace},
};

static bool path_matches(const char *pattern, const char *path, const char **ret_arg)
{
    size_t n = strlen(pattern);
    *ret_arg = NULL;
    if (pattern[n - 1] != '*')
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, n - 1) != 0 || path[n - 1] == '\0' || strchr(path + n - 1, '/'))
        return false;
    *ret_arg = path + n - 1;
    return true;
}

void routes_handle(struct http_request *req, void *routes)
{
    struct routes *r = routes;
    const char *arg;
    struct err err = {0};
    bool known = false;
    for (size_t i = 0; i < ARRAY_LEN(routes_table); i++) {
        if (!path_matches(routes_table[i].path, http_path(req), &arg))
            continue;
        known = true;
        if (strcmp(routes_table[i].method, http_method(req)) == 0) {
            routes_table[i].handle(r, req, arg);
            return;
        }
    }
    if (known)
        (void)err_set(&err, ERR_UNSUPPORTED, "%s is not possible on %s", http_method(req),
                      http_path(req));
    else
        (void)err_set(&err, ERR_NOT_FOUND, "there is no %s", http_path(req));
    http_respond_error(req, &err);
}
