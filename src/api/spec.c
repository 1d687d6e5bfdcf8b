/* Specs: lint, plan, apply, and the revisions that were applied before. */
#include "api/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/routes_int.h"
#include "base/digest.h"
#include "base/mem.h"
#include "base/nodeset.h"
#include "base/strbuf.h"
#include "engine/view.h"

static json_t *problems_json(const struct diags *d)
{
    json_t *rows = json_array();
    for (int i = 0; i < d->count; i++) {
        const struct diag *x = &d->items[i];
        (void)json_array_append_new(rows, json_pack("{s:s,s:i,s:i,s:s,s:s}", "file", x->file,
                                                    "line", x->line, "column", x->column, "level",
                                                    x->level == DIAG_ERROR ? "error" : "warning",
                                                    "text", x->text));
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
    int64_t from_revision; /* its files are applied again; 0: the files of the body */
};

static void read_order(const json_t *body, struct engine_order *ret)
{
    *ret = (struct engine_order){.reinstall = routes_field(body, "reinstall"),
                                 .limit = routes_field(body, "limit"),
                                 .only = routes_field(body, "only"),
                                 .from = routes_field(body, "from")};
}

/* Going back must not cost a disk that nobody spoke of: a node that comes back with the older
 * revision is new to the engine, which would install it. 0, or ERR_CONFLICT. */
static int check_rollback(const struct spec_call *c, const json_t *plan, const char *reinstall,
                          struct err *err)
{
    struct strbuf names;
    struct nodeset *named = reinstall != NULL ? nodeset_parse(reinstall, NULL) : NULL;
    size_t i, k;
    const json_t *node, *stage;
    int rc = 0;
    if (c->from_revision == 0) {
        nodeset_free(named);
        return 0;
    }
    strbuf_init(&names, 4 << 20);
    json_array_foreach(json_object_get(plan, "nodes"), i, node)
    {
        const char *name = routes_field(node, "name"), *action = routes_field(node, "action");
        bool wipes = false;
        json_array_foreach(json_object_get(node, "stages"), k, stage)
        {
            wipes = wipes || json_is_true(json_object_get(stage, "wipes"));
        }
        if (wipes && action != NULL && strcmp(action, "add") == 0 &&
            (named == NULL || !nodeset_contains(named, name)))
            strbuf_addf(&names, "%s%s", names.len > 0 ? "," : "", name);
    }
    if (names.len > 0)
        rc =
            err_set(err, ERR_CONFLICT,
                    "going back to revision %lld adds %.300s anew and would overwrite their disks; "
                    "say so with --reinstall, or leave them out with --limit",
                    (long long)c->from_revision, names.data);
    strbuf_done(&names);
    nodeset_free(named);
    return rc;
}

/* Whether the plan is the one that was agreed to, and allowed. */
static int check_plan(struct spec_call *c, const struct spec *spec,
                      const struct engine_order *order, struct err *err)
{
    const char *wanted = routes_field(c->body, "plan");
    if (wanted == NULL && c->from_revision == 0)
        return 0;
    json_t *now = engine_plan(c->r->c.engine, spec, order, err);
    const char *hash = routes_field(now, "hash");
    int rc = now == NULL ? -(int)err->code : 0;
    if (rc == 0 && wanted != NULL && (hash == NULL || strcmp(hash, wanted) != 0))
        rc = err_set(err, ERR_CONFLICT,
                     "something changed since plan %.12s was made; look at a new plan", wanted);
    if (rc == 0)
        rc = check_rollback(c, now, order->reinstall, err);
    json_decref(now);
    return rc;
}

/* Who applied what belongs to the events: with the digest of the files, so that the chain of
 * events vouches for the revision, too. */
static void note_applied(const struct spec_call *c, const json_t *plan, int64_t revision,
                         const char *files, const char *actor)
{
    char sha[DIGEST_HEX_SIZE], from[60] = "";
    bool again = json_integer_value(json_object_get(plan, "revision")) == revision;
    const char *summary = routes_field(plan, "summary");
    digest_hex(files, strlen(files), sha);
    if (c->from_revision != 0)
        (void)snprintf(from, sizeof from, " (the files of revision %lld)",
                       (long long)c->from_revision);
    char *text = xasprintf("revision %lld%s%s, sha256 %s: %s", (long long)revision, from,
                           again ? " again" : "", sha, summary != NULL ? summary : "");
    struct store_event event = {.at = loop_wall(c->r->c.loop),
                                .kind = c->from_revision != 0 ? "spec.rolledback" : "spec.applied",
                                .text = text,
                                .actor = actor};
    (void)store_add_event(c->r->c.store, &event);
    free(text);
}

static void applied(struct spec_call *c, struct spec *spec, struct profiles *profiles,
                    struct diags *d)
{
    struct err err = {0};
    char who[64];
    json_t *plan = NULL;
    struct engine_order order;
    read_order(c->body, &order);
    if (check_plan(c, spec, &order, &err) < 0) {
        http_respond_error(c->req, &err);
        spec_free(spec);
        profiles_free(profiles);
        return;
    }
    char *files = json_dumps(json_object_get(c->body, "files"), JSON_COMPACT);
    const char *actor = routes_actor(c->req, who, sizeof who);
    int64_t revision =
        engine_apply(c->r->c.engine, spec, profiles, files, actor, &order, &plan, &err);
    if (revision >= 0)
        note_applied(c, plan, revision, files, actor);
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
        struct engine_order order;
        read_order(c->body, &order);
        json_t *plan = engine_plan(c->r->c.engine, spec, &order, &err);
        if (plan == NULL) {
            http_respond_error(c->req, &err);
            goto out;
        }
        (void)json_object_set_new(plan, "warnings", problems_json(&d));
        if (check_rollback(c, plan, order.reinstall, &err) < 0)
            (void)json_object_set_new(plan, "refused", json_string(err.text));
        http_respond_json(c->req, 200, plan);
    }
out:
    spec_free(spec);
    profiles_free(profiles);
    diags_done(&d);
    bundle_done(&b);
    json_decref(c->body);
    free(c);
}

static void take_files(const struct store_revision *row, void *user)
{
    struct spec_call *c = user;
    c->from_revision = row->id;
    (void)json_object_set_new(c->body, "files",
                              row->files != NULL ? json_loads(row->files, 0, NULL) : json_null());
}

/* {"revision": N} stands for the files of that revision. */
static int read_revision(struct spec_call *c, struct err *err)
{
    const json_t *revision = json_object_get(c->body, "revision");
    if (revision == NULL)
        return 0;
    if (!json_is_integer(revision) || json_object_get(c->body, "files") != NULL)
        return err_set(err, ERR_INVALID, "either \"files\" or \"revision\", a number, is needed");
    return store_get_revision(c->r->c.store, json_integer_value(revision), take_files, c, err);
}

static void spec_call(struct routes *r, struct http_request *req, enum spec_verb verb)
{
    struct err err = {0};
    json_t *body = routes_body(req, &err);
    if (body == NULL) {
        http_respond_error(req, &err);
        return;
    }
    struct spec_call *c = xcalloc(1, sizeof *c);
    *c = (struct spec_call){.r = r, .req = req, .verb = verb, .body = body};
    if (read_revision(c, &err) < 0) {
        http_respond_error(req, &err);
        json_decref(body);
        free(c);
        return;
    }
    r->c.refresh(spec_call_go, c, r->c.user);
}

void lint_post(struct routes *r, struct http_request *req, const char *arg)
{
    (void)arg;
    spec_call(r, req, VERB_LINT);
}
void plan_post(struct routes *r, struct http_request *req, const char *arg)
{
    (void)arg;
    spec_call(r, req, VERB_PLAN);
}
void apply_post(struct routes *r, struct http_request *req, const char *arg)
{
    (void)arg;
    spec_call(r, req, VERB_APPLY);
}

/* ---- revisions ---- */

enum { REVISIONS_DEFAULT = 50, REVISIONS_MAX = 500 };

static json_t *revision_json(const struct store_revision *r)
{
    return json_pack("{s:I,s:o,s:o,s:o,s:o,s:o}", "id", (json_int_t)r->id, "at", view_time(r->at),
                     "author", view_text(r->author), "cluster", view_text(r->cluster), "sha256",
                     view_text(r->sha256), "summary", view_text(r->summary));
}

static void add_revision(const struct store_revision *r, void *user)
{
    (void)json_array_append_new(user, revision_json(r));
}

void revisions_get(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    const char *limit = http_arg(req, "limit");
    long max = limit != NULL ? strtol(limit, NULL, 10) : REVISIONS_DEFAULT;
    max = max < 1 ? REVISIONS_DEFAULT : (max > REVISIONS_MAX ? REVISIONS_MAX : max);
    json_t *rows = json_array();
    (void)arg;
    if (store_each_revision(r->c.store, (int)max, add_revision, rows, &err) < 0) {
        json_decref(rows);
        http_respond_error(req, &err);
        return;
    }
    http_respond_json(req, 200, json_pack("{s:o}", "revisions", rows));
}

static void whole_revision(const struct store_revision *r, void *user)
{
    json_t *json = revision_json(r);
    json_t *files = r->files != NULL ? json_loads(r->files, 0, NULL) : NULL;
    (void)json_object_set_new(json, "files", files != NULL ? files : json_array());
    *(json_t **)user = json;
}

void revision_get(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    json_t *json = NULL;
    char *end;
    long long id = strtoll(arg, &end, 10);
    if (*end != '\0' || id < 1)
        (void)err_set(&err, ERR_INVALID, "a revision is a number; see clusterctl history");
    else
        (void)store_get_revision(r->c.store, id, whole_revision, &json, &err);
    if (json != NULL)
        http_respond_json(req, 200, json);
    else
        http_respond_error(req, &err);
}
