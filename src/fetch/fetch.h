/*
 * An HTTP client on the loop: many transfers at once, each an op. Built on libcurl's multi
 * interface.
 *
 * Webhooks post with it and the fleet simulator's boot ROMs load with it. One hub a process, one op
 * a request. What is collected has a maximum; more than that ends the transfer with ERR_LIMIT.
 * HTTP/1.1, no proxy, no redirects, no content decoding: what is asked is what is sent, once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "loop/op.h"

struct fetch_hub;

/* `max_transfers`: requests at once; further ones wait in libcurl's queue, and their deadlines run
 * meanwhile. NULL with *err set. */
struct fetch_hub *fetch_hub_new(struct loop *loop, int max_transfers, struct err *err);
/* All ops must be over or cancelled. */
void fetch_hub_free(struct fetch_hub *hub);

struct fetch_request {
    const char *url;    /* http:// or https:// */
    const char *method; /* NULL: GET, or POST when there is a body. Copied */
    const char *body;   /* copied; NULL: none */
    size_t body_len;
    const char *const *headers; /* "Name: value", NULL-terminated; NULL: none. Copied */
    const char *source;         /* local IPv4 address to connect from; NULL: any */
    const char *ca_file;        /* trust only these certificates for https; NULL: the system's */
    size_t max_body;            /* of the answer; 0: 1 MiB. Not looked at with a sink */
    /* Gets the answer's body instead of the op's; false ends the transfer with ERR_LIMIT. It must
     * not start, cancel or free fetches. NULL: collect. */
    bool (*sink)(const char *data, size_t len, void *user);
    void *user;
    bool keep; /* the connection may be used again by a later request to the same server */
};

struct fetch_op {
    struct op op; /* first. Success: an answer arrived, whatever its status */
    int status;   /* HTTP status; also after an error, when the answer had begun. 0: none */
    struct strbuf body;
    int64_t bytes; /* of the body, also with a sink */
};

/* Errors: ERR_UNREACHABLE (no connection, or it broke), ERR_TIMEOUT, ERR_LIMIT, ERR_INVALID (URL,
 * ca_file), ERR_DENIED (the server's certificate is not one to trust), ERR_PROTOCOL. Texts hold
 * host and port, never the path, headers or bodies. */
struct fetch_op *fetch_start(struct fetch_hub *hub, const struct fetch_request *r,
                             int64_t timeout_ms, op_done_fn done, void *user);
