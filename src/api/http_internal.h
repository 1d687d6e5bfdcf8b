/*
 * Inside the HTTP server: what http.c (listeners, the loop's side), http_thread.c (the callbacks
 * that libmicrohttpd runs on its threads) and http_file.c (files and ranges) share.
 *
 * Everything marked "lock" is guarded by server->lock. Lock order: libmicrohttpd's response lock,
 * then ours, then the mailbox's or libmicrohttpd's connection list.
 */
#pragma once

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "api/http.h"
#include "base/strbuf.h"
#include "loop/mailbox.h"

enum {
    HTTP_STREAM_MAX = 1024 * 1024,
    HTTP_ARGS_MAX = 64,
    HTTP_HEADERS_MAX = 128,
    HTTP_CONNECTION_MEMORY = 64 * 1024, /* of one connection: bounds the header */
    HTTP_DISCARD_FACTOR = 8,    /* so many times the maximum body is read and dropped before 413 */
    HTTP_DISCARD_MIN = 1 << 20, /* and at least so many bytes */
    HTTP_SWEEP_MS = 500,
    HTTP_DRAIN_MS = 1000,
};

struct http_pair {
    enum MHD_ValueKind kind;
    char *name, *value;
};

struct http_listener {
    struct http_server *server;
    struct http_listen config; /* strings owned */
    char *unix_path;
    struct MHD_Daemon *daemon;
    int fd;
    struct http_listener *next;
};

/* One open connection, from accept to close. */
struct http_conn {
    struct http_listener *listener;
    struct http_conn *next, *prev; /* lock */
    int fd;
    bool reading;        /* lock: a request is being read or waited for */
    int64_t reading_for; /* lock: since when */
    struct http_peer peer;
};

enum http_state {
    HTTP_READING,   /* the thread's */
    HTTP_WAITING,   /* the loop's; the connection is suspended */
    HTTP_ANSWERED,  /* the thread sends what the loop left */
    HTTP_STREAMING, /* both, under the lock */
};

struct http_answer {
    int status;
    char *content_type;
    char *body;
    size_t len;
    char *file; /* a path: answer with the file */
    char *etag;
    struct http_pair *headers;
    int header_count, header_capacity;
};

struct http_stream {
    bool begun;
    bool ended;     /* by the owner or by the server's stop */
    bool cut;       /* too slow or gone: end with an error */
    bool suspended; /* the thread waits for data */
    struct strbuf queue;
    void (*closed)(struct http_request *req, void *user);
    void *user;
    int fd; /* a duplicate of the connection's, for noticing that the client left; -1: none */
    struct watch watch;
};

struct http_request {
    struct http_server *server;
    struct http_listener *listener;
    struct http_conn *conn; /* valid while thread_side */
    struct MHD_Connection *mhd;
    struct http_request *next, *prev; /* lock: of server->requests, once submitted */

    /* written before it is submitted, then constant */
    char *method, *path;
    struct http_pair *pairs;
    int pair_count, pair_capacity;
    struct strbuf body;
    uint64_t received; /* bytes of body, those beyond the maximum included */
    struct http_peer peer;
    bool refused; /* an answer was queued while reading: ignore the rest */

    enum http_state state; /* lock */
    int64_t submitted_at;
    int64_t patience_ms; /* the loop's; 0: the listener's */
    bool thread_side;    /* lock: libmicrohttpd knows it */
    bool loop_side;      /* lock: the loop owes an answer or an end */
    bool note_pending;   /* lock: it is in the mailbox */
    bool delivered;      /* the loop's */
    void *data;          /* the loop's */
    struct http_answer answer;
    struct http_stream stream; /* lock */
};

struct http_server {
    struct loop *loop;
    struct mailbox *mailbox;
    pthread_mutex_t lock;
    pthread_cond_t idle;
    bool stopping; /* lock */
    struct http_listener *listeners;
    struct http_request *requests; /* lock: submitted and not yet freed */
    struct http_conn *conns;       /* lock */
    int in_flight;                 /* lock: submitted and still thread_side */
    struct http_stats stats;       /* lock */
    struct timer sweep;
};

/* http.c */
void http_lock(struct http_server *s);
void http_unlock(struct http_server *s);
/* Under the lock: frees the request when no side holds it any more. */
void http_release(struct http_request *req);
void http_request_free(struct http_request *req);

/* http_thread.c: the callbacks for MHD_start_daemon() */
enum MHD_Result http_on_access(void *cls, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *upload_data,
                               size_t *upload_data_size, void **con_cls);
void http_on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                       enum MHD_RequestTerminationCode toe);
void http_on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                        enum MHD_ConnectionNotificationCode toe);

/* http_file.c */
enum http_range { HTTP_RANGE_ALL, HTTP_RANGE_PART, HTTP_RANGE_BAD };
/* What a Range header asks of a file of `size` bytes. Not understood or several parts: all of it.
 */
enum http_range http_range_parse(const char *text, uint64_t size, uint64_t *ret_first,
                                 uint64_t *ret_len);
/* Whether an If-None-Match or If-Range list names the tag; weak tags match only when allowed. */
bool http_etag_listed(const char *list, const char *etag, bool weak_too);
/* The response for req->answer.file; *ret_status is set. */
struct MHD_Response *http_file_response(struct http_request *req, int *ret_status);
