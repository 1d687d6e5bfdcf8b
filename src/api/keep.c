#include "api/keep.h"

#include <stdlib.h>
#include <string.h>

#include "api/routes_int.h"
#include "base/mem.h"
#include "store/audit.h"
#include "store/backup.h"

/* A request that waits for a thread of the store. */
struct keep {
    struct keep *next;
    struct routes *routes;
    struct http_request *req;
    struct op *op;
    char *path, *actor; /* of a backup */
};

static struct keep *keep_new(struct routes *r, struct http_request *req)
{
    struct keep *k = xcalloc(1, sizeof *k);
    *k = (struct keep){.next = r->keeps, .routes = r, .req = req};
    r->keeps = k;
    return k;
}

static void keep_free(struct keep *k)
{
    for (struct keep **at = &k->routes->keeps; *at != NULL; at = &(*at)->next)
        if (*at == k) {
            *at = k->next;
            break;
        }
    free(k->path);
    free(k->actor);
    free(k);
}

/* The requests were answered by the HTTP server when it stopped. */
void keep_stop(struct routes *r)
{
    while (r->keeps != NULL) {
        op_cancel(r->keeps->op);
        keep_free(r->keeps);
    }
}

static json_t *end_json(const struct audit_end *end)
{
    return json_pack("{s:I,s:I,s:s}", "events", (json_int_t)end->count, "id", (json_int_t)end->id,
                     "hash", end->hash);
}

/* ---- audit ---- */

static void on_synced(struct op *op, void *user)
{
    struct keep *k = user;
    struct audit_end end;
    if (op_ok(op)) {
        store_audit_end(k->routes->c.store, &end);
        http_respond_json(k->req, 200, end_json(&end));
    } else {
        http_respond_error(k->req, &op->err);
    }
    op_free(op);
    keep_free(k);
}

void audit_head_get(struct routes *r, struct http_request *req, const char *arg)
{
    (void)arg;
    struct keep *k = keep_new(r, req);
    k->op = store_sync(r->c.store, on_synced, k);
}

static void on_verified(struct op *op, void *user)
{
    struct keep *k = user;
    if (op_ok(op)) {
        const struct audit_report *a = store_audit_report(op);
        http_respond_json(k->req, 200,
                          json_pack("{s:b,s:s,s:o,s:I,s:o}", "intact", a->intact, "text", a->text,
                                    "bad", a->bad != 0 ? json_integer(a->bad) : json_null(),
                                    "events", (json_int_t)a->events, "head", end_json(&a->end)));
    } else {
        http_respond_error(k->req, &op->err);
    }
    op_free(op);
    keep_free(k);
}

void audit_verify_get(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    const char *hash = http_arg(req, "head");
    (void)arg;
    if (hash != NULL && !audit_is_hash(hash)) {
        (void)err_set(&err, ERR_INVALID,
                      "head: 64 lower-case hex digits are needed, as 'clusterctl "
                      "audit head' prints them");
        http_respond_error(req, &err);
        return;
    }
    struct keep *k = keep_new(r, req);
    k->op = store_audit_verify(r->c.store, hash, on_verified, k);
}

/* ---- backup ---- */

static void on_copied(struct op *op, void *user)
{
    struct keep *k = user;
    struct routes *r = k->routes;
    if (op_ok(op)) {
        const struct backup_report *b = store_backup_report(op);
        char *text = xasprintf("%s: %lld bytes", k->path, (long long)b->size);
        struct store_event event = {
            .at = loop_wall(r->c.loop), .kind = "backup.made", .text = text, .actor = k->actor};
        (void)store_add_event(r->c.store, &event);
        free(text);
        routes_commit(r, k->req,
                      json_pack("{s:s,s:I,s:f,s:o}", "path", k->path, "size", (json_int_t)b->size,
                                "seconds", (double)b->ms / 1000, "head", end_json(&b->end)));
    } else {
        http_respond_error(k->req, &op->err);
    }
    op_free(op);
    keep_free(k);
}

void backup_post(struct routes *r, struct http_request *req, const char *arg)
{
    struct err err = {0};
    char who[64];
    json_t *body = routes_body(req, &err);
    const char *path = json_string_value(json_object_get(body, "path"));
    (void)arg;
    if (body != NULL && path == NULL)
        (void)err_set(&err, ERR_INVALID, "\"path\" is needed");
    if (path == NULL) {
        http_respond_error(req, &err);
    } else {
        struct keep *k = keep_new(r, req);
        k->path = xstrdup(path);
        k->actor = xstrdup(routes_actor(req, who, sizeof who));
        k->op = store_backup(r->c.store, path, on_copied, k);
    }
    json_decref(body);
}
