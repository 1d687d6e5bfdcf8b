/* The HTTP side of network boot: hands requests of booting machines to netboot, and sends its
 * answer - where something changed, only after the change is on disk. */
#include <stdlib.h>

#include "api/routes_int.h"
#include "base/mem.h"
#include "netboot/netboot.h"

static const char *arg_of(const char *name, void *ctx)
{
    return http_arg(ctx, name);
}

static const char *header_of(const char *name, void *ctx)
{
    return http_header(ctx, name);
}

static void send_answer(struct http_request *req, struct boot_answer *a)
{
    http_add_header(req, "Cache-Control",
                    a->immutable ? "max-age=31536000, immutable" : "no-store");
    if (a->allow != NULL)
        http_add_header(req, "Allow", a->allow);
    if (a->file != NULL)
        http_respond_file(req, a->file, a->content_type, a->etag[0] != '\0' ? a->etag : NULL);
    else
        http_respond(req, a->status, a->text != NULL ? a->content_type : NULL,
                     a->text != NULL ? a->text : "", a->text != NULL ? a->len : 0);
    boot_answer_done(a);
}

static void send_unavailable(struct http_request *req, const char *text)
{
    struct err err = {0};
    (void)err_set(&err, ERR_BUSY, "%s", text);
    http_respond_error(req, &err);
}

struct boot_commit {
    struct http_request *req;
    struct boot_answer answer;
};

static void on_committed(struct op *op, void *user)
{
    struct boot_commit *c = user;
    if (op_ok(op)) {
        send_answer(c->req, &c->answer);
    } else {
        /* the machine must not act on what a restart would not know: it asks again */
        boot_answer_done(&c->answer);
        send_unavailable(c->req, "the answer could not be stored");
    }
    op_free(op);
    free(c);
}

void routes_boot(struct http_request *req, void *routes)
{
    struct routes *r = routes;
    struct boot_request request = {
        .method = http_method(req),
        .path = http_path(req),
        .arg = arg_of,
        .header = header_of,
        .ctx = req,
        .peer = http_peer(req)->address,
    };
    if (r->netboot == NULL) {
        send_unavailable(req, "network boot is off");
        return;
    }
    request.body = http_body(req, &request.body_len);
    struct boot_answer answer;
    netboot_request(r->netboot, &request, &answer);
    if (!answer.commit_first) {
        send_answer(req, &answer);
        return;
    }
    struct boot_commit *c = xcalloc(1, sizeof *c);
    *c = (struct boot_commit){.req = req, .answer = answer};
    (void)store_sync(r->c.store, on_committed, c);
}
