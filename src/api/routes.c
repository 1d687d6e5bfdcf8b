#include "api/routes.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/console.h"
#include "api/events.h"
#include "api/routes_int.h"
#include "base/mem.h"
#include "base/strbuf.h"

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
    free(r);
}

void routes_set_netboot(struct routes *r, struct netboot *nb)
{
    r->netboot = nb;
}

/* Who asks: the user name behind the unix socket, for events and holds. */
static const char *actor_of(struct http_request *req, char *buf, size_t size)
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

/* ---- asking ---- */

static void get_nodes(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    (void)arg;
    answer(req, engine_view_nodes(r->c.engine, http_arg(req, "nodes"), &err), &err);
}

static void get_node(struct routes *r, struct http_request *req, const char *name)
{
    struct err err = {0};
    answer(req, engine_view_node(r->c.engine, name, &err), &err);
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

static void get_status(struct routes *r, struct http_request *req, const char *arg)
{
    (void)arg;
    http_respond_json(req, 200, engine_view_status(r->c.engine));
}

/* ---- telling ---- */

static json_t *body_json(struct http_request *req, struct err *err)
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

static const char *field(const json_t *body, const char *name)
{
    return json_string_value(json_object_get(body, name));
}

static void post_rerun(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    char who[64];
    json_t *out = NULL, *body = body_json(req, &err);
    (void)arg;
    if (body != NULL && (field(body, "nodes") == NULL || field(body, "stage") == NULL))
        (void)err_set(&err, ERR_INVALID, "\"nodes\" and \"stage\" are needed");
    else if (body != NULL)
        out = engine_rerun(r->c.engine, field(body, "nodes"), field(body, "stage"),
                           actor_of(req, who, sizeof who), &err);
    json_decref(body);
    answer(req, out, &err);
}

static void post_hold(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    char who[64];
    json_t *out = NULL, *body = body_json(req, &err);
    (void)arg;
    if (body != NULL && field(body, "nodes") == NULL)
        (void)err_set(&err, ERR_INVALID, "\"nodes\" is needed");
    else if (body != NULL)
        out = engine_hold(r->c.engine, field(body, "nodes"), field(body, "reason"),
                          actor_of(req, who, sizeof who), &err);
    json_decref(body);
    answer(req, out, &err);
}

static void post_release(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    char who[64];
    json_t *out = NULL, *body = body_json(req, &err);
    (void)arg;
    if (body != NULL && field(body, "nodes") == NULL)
        (void)err_set(&err, ERR_INVALID, "\"nodes\" is needed");
    else if (body != NULL)
        out = engine_release(r->c.engine, field(body, "nodes"), actor_of(req, who, sizeof who),
                             &err);
    json_decref(body);
    answer(req, out, &err);
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
    json_t *body = body_json(req, &err);
    (void)arg;
    if (body != NULL && (field(body, "nodes") == NULL || field(body, "action") == NULL))
        (void)err_set(&err, ERR_INVALID, "\"nodes\" and \"action\" are needed");
    else if (body != NULL)
        rc = engine_power(r->c.engine, field(body, "nodes"), field(body, "action"),
                          actor_of(req, who, sizeof who), power_done, req, &err);
    json_decref(body);
    if (rc < 0)
        http_respond_error(req, &err);
}

/* ---- lint, plan, apply ---- */

static json_t *problems_json(const struct diags *d)
{
    json_t *rows = json_array();
    for (int i = 0; i < d->count; i++) {
        const struct diag *x = &d->items[i];
        (void)json_array_append_new(
            rows, json_pack("{s:s,s:i,s:i,s:s,s:s}", "file", x->file, "line", x->line, "column",
                            x->column, "level", x->level == DIAG_ERROR ? "error" : "warning", "text",
                            x->text));
    }
    return rows;
}

static void respond_problems(struct http_request *req, struct diags *d)
{
    char text[100];
    diags_sort(d);
    (void)snprintf(text, sizeof text, "the spec has %d error%s", d->errors,
                   d->errors == 1 ? "" : "s");
    http_respond_json(req, 400,
                      json_pack("{s:{s:s,s:s,s:o}}", "error", "code", "invalid", "text", text,
                                "problems", problems_json(d)));
}

enum spec_verb { VERB_LINT, VERB_PLAN, VERB_APPLY };

struct spec_call {
    struct routes *r;
    struct http_request *req;
    enum spec_verb verb;
    json_t *body;
};

static void applied(struct spec_call *c, struct spec *spec, struct profiles *profiles,
                    struct diags *d)
{
    struct err err = {0};
    char who[64];
    json_t *plan = NULL;
    const char *reinstall = field(c->body, "reinstall");
    const char *wanted = field(c->body, "plan");
    if (wanted != NULL) {
        json_t *now = engine_plan(c->r->c.engine, spec, reinstall, &err);
        const char *hash = json_string_value(json_object_get(now, "hash"));
        bool same = hash != NULL && strcmp(hash, wanted) == 0;
        json_decref(now);
        if (!same) {
            if (err.code == ERR_OK)
                (void)err_set(&err, ERR_CONFLICT,
                              "something changed since plan %.12s was made; look at a new plan",
                              wanted);
            http_respond_error(c->req, &err);
            spec_free(spec);
            profiles_free(profiles);
            return;
        }
    }
    char *files = json_dumps(json_object_get(c->body, "files"), JSON_COMPACT);
    int64_t revision =
        engine_apply(c->r->c.engine, spec, profiles, files, actor_of(c->req, who, sizeof who),
                     reinstall, &plan, &err);
    free(files);
    if (revision < 0) {
        http_respond_error(c->req, &err);
        return;
    }
    (void)json_object_set_new(plan, "revision", json_integer(revision));
    (void)json_object_set_new(plan, "applied", json_true());
    (void)json_object_set_new(plan, "warnings", problems_json(d));
    c->r->c.applied(c->r->c.user);
    routes_commit(c->r, c->req, plan);
}

static void spec_call_go(void *arg)
{
    struct spec_call *c = arg;
    struct bundle b;
    struct diags d;
    struct profiles *profiles = NULL;
    struct err err = {0};
    bundle_init(&b);
    diags_init(&d);
    struct spec *spec = NULL;
    if (bundle_from_json(&b, json_object_get(c->body, "files"), &err) < 0) {
        http_respond_error(c->req, &err);
        goto out;
    }
    spec = c->r->c.parse(&b, &profiles, &d, c->r->c.user);
    if (spec == NULL) {
        respond_problems(c->req, &d);
    } else if (c->verb == VERB_APPLY) {
        applied(c, spec, profiles, &d);
        spec = NULL;
        profiles = NULL;
    } else if (c->verb == VERB_LINT) {
        http_respond_json(c->req, 200, json_pack("{s:o}", "problems", problems_json(&d)));
    } else {
        json_t *plan = engine_plan(c->r->c.engine, spec, field(c->body, "reinstall"), &err);
        if (plan != NULL)
            (void)json_object_set_new(plan, "warnings", problems_json(&d));
        answer(c->req, plan, &err);
    }
out:
    spec_free(spec);
    profiles_free(profiles);
    diags_done(&d);
    bundle_done(&b);
    json_decref(c->body);
    free(c);
}

static void spec_call(struct routes *r, struct http_request *req, enum spec_verb verb)
{
    struct err err = {0};
    json_t *body = body_json(req, &err);
    if (body == NULL) {
        http_respond_error(req, &err);
        return;
    }
    struct spec_call *c = xcalloc(1, sizeof *c);
    *c = (struct spec_call){.r = r, .req = req, .verb = verb, .body = body};
    r->c.refresh(spec_call_go, c, r->c.user);
}

static void post_lint(struct routes *r, struct http_request *req, const char *arg)
{
    (void)arg;
    spec_call(r, req, VERB_LINT);
}
static void post_plan(struct routes *r, struct http_request *req, const char *arg)
{
    (void)arg;
    spec_call(r, req, VERB_PLAN);
}
static void post_apply(struct routes *r, struct http_request *req, const char *arg)
{
    (void)arg;
    spec_call(r, req, VERB_APPLY);
}

/* ---- an answer that is sent once what it says is on disk ---- */

struct commit_answer {
    struct http_request *req;
    json_t *json;
};

static void on_committed(struct op *op, void *user)
{
    struct commit_answer *c = user;
    if (op_ok(op))
        http_respond_json(c->req, 200, c->json);
    else {
        json_decref(c->json);
        http_respond_error(c->req, &op->err);
    }
    op_free(op);
    free(c);
}

void routes_commit(struct routes *r, struct http_request *req, json_t *json)
{
    struct commit_answer *c = xcalloc(1, sizeof *c);
    *c = (struct commit_answer){.req = req, .json = json};
    (void)store_sync(r->c.store, on_committed, c);
}

/* ---- the table ---- */

static const struct route {
    const char *method;
    const char *path; /* a trailing "*" matches one segment, given to the handler */
    void (*handle)(struct routes *r, struct http_request *req, const char *arg);
} routes_table[] = {
    {"GET", "/v1/nodes", get_nodes},      {"GET", "/v1/nodes/*", get_node},
    {"GET", "/v1/vars/*", get_vars},      {"GET", "/v1/stages", get_stages},
    {"GET", "/v1/why", get_why},          {"GET", "/v1/status", get_status},
    {"GET", "/v1/events", events_get},    {"GET", "/v1/logs/*", logs_get},
    {"GET", "/v1/pending", pending_get},  {"GET", "/v1/console/*", console_get},
    {"POST", "/v1/lint", post_lint},      {"POST", "/v1/plan", post_plan},
    {"POST", "/v1/apply", post_apply},    {"POST", "/v1/rerun", post_rerun},
    {"POST", "/v1/hold", post_hold},      {"POST", "/v1/release", post_release},
    {"POST", "/v1/power", post_power},
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
