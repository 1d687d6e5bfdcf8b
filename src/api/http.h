/*
 * HTTP server: libmicrohttpd threads in front, every request handled on the loop.
 *
 * The daemon opens listeners (a unix socket for clusterctl, TCP for booting nodes); routes.c is
 * called on the loop's thread with a request that was read whole, and answers it at once or later.
 * Threads do the slow parts: reading and writing sockets, sending files. They share nothing with
 * the loop but values, so a slow client costs a descriptor and neither a thread nor the loop.
 *
 *   handle(req)  ->  http_respond*(req)                       one answer, now or later
 *                ->  http_stream_begin(req), _write..., _end   an answer that grows (events,
 * console)
 *
 * Exactly one of them must be called for each request, from the loop; a request that nobody
 * answers in `answer_timeout_ms` gets 504 by itself (its late answer is then dropped in silence).
 * All functions are for the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/err.h"
#include "loop/loop.h"

struct http_server;
struct http_request;

typedef void (*http_handle_fn)(struct http_request *req, void *user);

struct http_listen {
    const char *unix_path; /* a unix socket of mode 0660; or NULL and: */
    const char *address;   /* an IPv4 or IPv6 literal, "" or NULL for all IPv4 addresses */
    int port;              /* 0: any free one, see http_listen() */
    gid_t unix_group;      /* owner group of the socket file; 0: leave */

    http_handle_fn handle;
    void *user;

    size_t max_body;           /* larger ones get 413; 0: 1 MiB */
    int max_connections;       /* 0: 1024; the system's queue holds the rest back */
    int max_per_address;       /* connections of one TCP peer; 0: no limit */
    int threads;               /* 0: 2 */
    int64_t read_timeout_ms;   /* for a request to arrive whole; 0: 30 s (idle keep-alive too) */
    int64_t answer_timeout_ms; /* 0: 300 s */
    int64_t write_timeout_ms;  /* a client that takes no byte for so long is cut off; 0: 60 s */
};

struct http_server *http_server_new(struct loop *loop);
/*
 * Opens a listener and starts its threads. On a unix socket a stale file is replaced; when another
 * process is listening there, ERR_EXISTS. *ret_port (NULL allowed) gets the TCP port.
 */
int http_listen(struct http_server *s, const struct http_listen *config, int *ret_port,
                struct err *err);
/*
 * Stops accepting, answers what is pending with 503, ends streams (their closed() runs), waits up
 * to a second for answers to leave, joins the threads and frees. NULL allowed.
 */
void http_server_free(struct http_server *s);

struct http_stats {
    int connections; /* open now */
    int requests;    /* on the loop or being answered now, streams included */
    int streams;
    int64_t handled;  /* given to handlers so far */
    int64_t rejected; /* too large, malformed, too slow or while stopping */
};
void http_stats(const struct http_server *s, struct http_stats *ret_stats);

/* ---- the request; what is returned is borrowed until it is answered ---- */

const char *http_method(const struct http_request *req); /* "GET", "HEAD", "POST", ... */
/* Decoded, without the query, begins with '/', free of control bytes. */
const char *http_path(const struct http_request *req);
/* The first query parameter of that name, decoded ("" without value), or NULL. */
const char *http_arg(const struct http_request *req, const char *name);
const char *http_header(const struct http_request *req, const char *name); /* any case, or NULL */
/* NUL-terminated for convenience; may hold further NULs. Never NULL. */
const char *http_body(const struct http_request *req, size_t *ret_len);

struct http_peer {
    bool local; /* came over the unix socket; the kernel vouches for the following three */
    uid_t uid;
    gid_t gid;
    pid_t pid;
    char address[46]; /* TCP: numeric; "" on the unix socket */
    int port;
};
const struct http_peer *http_peer(const struct http_request *req);

/* For the owner of `req` while it waits: one pointer, NULL at first. */
void http_set_data(struct http_request *req, void *data);
void *http_data(const struct http_request *req);
/* This answer may take longer than the listener's answer_timeout_ms. On the loop. */
void http_set_patience(struct http_request *req, int64_t ms);

/* ---- answers ---- */

/* A further header for the answer; before http_respond*() or http_stream_begin(). */
void http_add_header(struct http_request *req, const char *name, const char *value);

/* Copies the body. content_type NULL: none. `req` is gone afterwards. */
void http_respond(struct http_request *req, int status, const char *content_type, const void *body,
                  size_t len);
/* Takes the reference to `json` (NULL allowed: an empty object). */
void http_respond_json(struct http_request *req, int status, json_t *json);
/* {"error": {"code": ..., "text": ...}} with the code's HTTP status. */
void http_respond_error(struct http_request *req, const struct err *err);
/*
 * A regular file, opened and sent by a thread: 200, 206 or 416 for Range, 304 for If-None-Match,
 * HEAD; 404 when it cannot be opened. etag without quotes, NULL: none (then no If-Range either).
 * A range of several parts is answered with the whole file.
 */
void http_respond_file(struct http_request *req, const char *path, const char *content_type,
                       const char *etag);

/*
 * Begins an answer of unknown length. Then either the owner ends it with http_stream_end(), or the
 * client goes away (or is too slow, or the server stops) and closed(req, user) runs from the loop,
 * never inside a call made here. After either, `req` is gone.
 */
void http_stream_begin(struct http_request *req, int status, const char *content_type,
                       void (*closed)(struct http_request *req, void *user), void *user);
/*
 * Queues a copy for the client. A client that leaves more than 1 MiB unread is cut off (closed()
 * follows), so nothing here waits or grows without end. Ignored once the client is gone.
 */
void http_stream_write(struct http_request *req, const void *data, size_t len);
/* What is queued still gets delivered. */
void http_stream_end(struct http_request *req);
