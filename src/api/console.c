#include "api/console.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bmc/bmc.h"

struct console {
    struct http_request *req;
    struct op *op;
};

static void on_data(const void *data, size_t len, void *user)
{
    struct console *c = user;
    http_stream_write(c->req, data, len);
}

static void on_closed(struct http_request *req, void *user)
{
    struct console *c = user;
    (void)req;
    op_cancel(c->op);
    free(c);
}

static void on_end(struct op *op, void *user)
{
    struct console *c = user;
    if (!op_ok(op)) {
        char *line = xasprintf("\r\n[console closed: %s]\r\n", op->err.text);
        http_stream_write(c->req, line, strlen(line));
        free(line);
    }
    op_free(op);
    http_stream_end(c->req);
    free(c);
}

void console_get(struct routes *r, struct http_request *req, const char *node)
{
    struct err err = {0};
    struct bmc *bmc = engine_bmc(r->c.engine, node, &err);
    if (bmc == NULL) {
        http_respond_error(req, &err);
        return;
    }
    struct console *c = xcalloc(1, sizeof *c);
    c->req = req;
    c->op = bmc_console(bmc, on_data, on_end, c);
    http_stream_begin(req, 200, "application/octet-stream", on_closed, c);
}
