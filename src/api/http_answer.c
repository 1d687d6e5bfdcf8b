/* The answers that the loop gives. The request is the loop's until it is resumed, so what is put
 * into req->answer before that needs no lock - unless the server answered for a slow owner. */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/http_internal.h"
#include "base/mem.h"

void http_add_header(struct http_request *req, const char *name, const char *value)
{
    http_lock(req->server);
    if (req->state == HTTP_WAITING) {
        struct http_answer *a = &req->answer;
        ARRAY_GROW(a->headers, a->header_count, a->header_capacity);
        a->headers[a->header_count++] =
            (struct http_pair){.name = xstrdup(name), .value = xstrdup(value)};
    }
    http_unlock(req->server);
}

/* Takes the strings of `a` (its headers stay those of the request) and wakes the thread. */
static void answer(struct http_request *req, struct http_answer *a)
{
    struct http_server *s = req->server;
    http_lock(s);
    if (req->state == HTTP_WAITING) {
        a->headers = req->answer.headers;
        a->header_count = req->answer.header_count;
        a->header_capacity = req->answer.header_capacity;
        req->answer = *a;
        req->state = HTTP_ANSWERED;
        MHD_resume_connection(req->mhd);
    } else { /* too late */
        free(a->content_type);
        free(a->body);
        free(a->file);
        free(a->etag);
    }
    req->loop_side = false;
    http_release(req);
    http_unlock(s);
}

void http_respond(struct http_request *req, int status, const char *content_type, const void *body,
                  size_t len)
{
    struct http_answer a = {.status = status, .content_type = xstrdup(content_type), .len = len};
    if (len > 0)
        a.body = xmemdup(body, len);
    answer(req, &a);
}

void http_respond_json(struct http_request *req, int status, json_t *json)
{
    struct http_answer a = {.status = status, .content_type = xstrdup("application/json")};
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    a.body = text != NULL ? xasprintf("%s\n", text) : xstrdup("{}\n");
    a.len = strlen(a.body);
    free(text);
    json_decref(json);
    answer(req, &a);
}

void http_respond_error(struct http_request *req, const struct err *err)
{
    json_t *text = json_string(err->text); /* NULL when a peer's bytes are not UTF-8 */
    json_t *json = json_pack("{s:{s:s,s:o}}", "error", "code", err_name(err->code), "text",
                             text != NULL ? text : json_string("(unprintable)"));
    http_respond_json(req, err_http_status(err->code), json);
}

void http_respond_file(struct http_request *req, const char *path, const char *content_type,
                       const char *etag)
{
    struct http_answer a = {.status = MHD_HTTP_OK,
                            .content_type = xstrdup(content_type),
                            .file = xstrdup(path),
                            .etag = xstrdup(etag)};
    answer(req, &a);
}

/* ---- streams ---- */

/* Cuts the connection, so that the thread notices even while it waits to write. */
static void cut(struct http_request *req)
{
    http_lock(req->server);
    req->stream.cut = true;
    if (req->stream.fd >= 0)
        (void)shutdown(req->stream.fd, SHUT_RDWR);
    if (req->stream.suspended) {
        req->stream.suspended = false;
        MHD_resume_connection(req->mhd);
    }
    http_unlock(req->server);
}

/* A suspended connection is not polled by libmicrohttpd, so the loop looks for the client's end. */
static void on_client_readable(int fd, int events, void *user)
{
    struct http_request *req = user;
    char byte;
    (void)events;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    watch_stop(&req->stream.watch); /* a pipelined request would be readable for ever */
    if (n <= 0)
        cut(req);
}

void http_stream_begin(struct http_request *req, int status, const char *content_type,
                       void (*closed)(struct http_request *req, void *user), void *user)
{
    struct http_server *s = req->server;
    struct http_stream *st = &req->stream;
    http_lock(s);
    st->begun = true;
    s->stats.streams++;
    st->closed = closed;
    st->user = user;
    bool late = req->state != HTTP_WAITING;
    if (!late) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (info != NULL)
            st->fd = fcntl(info->connect_fd, F_DUPFD_CLOEXEC, 0);
        req->answer.status = status;
        req->answer.content_type = xstrdup(content_type);
        req->state = HTTP_STREAMING;
        MHD_resume_connection(req->mhd);
    } else if (!req->note_pending) { /* the server gave up waiting: tell the owner */
        st->cut = true;
        req->note_pending = true;
        mailbox_post(s->mailbox, req);
    }
    http_unlock(s);
    if (st->fd >= 0)
        (void)watch_set(s->loop, &st->watch, st->fd, WATCH_READ, on_client_readable, req, NULL);
}

void http_stream_write(struct http_request *req, const void *data, size_t len)
{
    struct http_stream *st = &req->stream;
    bool overflow = false;
    http_lock(req->server);
    if (!st->cut && !st->ended && req->thread_side) {
        strbuf_add(&st->queue, data, len);
        overflow = !strbuf_ok(&st->queue);
        if (!overflow && st->suspended && len > 0) {
            st->suspended = false;
            MHD_resume_connection(req->mhd);
        }
    }
    http_unlock(req->server);
    if (overflow)
        cut(req);
}

void http_stream_end(struct http_request *req)
{
    struct http_server *s = req->server;
    watch_stop(&req->stream.watch);
    http_lock(s);
    if (req->stream.fd >= 0)
        (void)close(req->stream.fd);
    req->stream.fd = -1;
    req->stream.ended = true;
    if (req->stream.suspended) {
        req->stream.suspended = false;
        MHD_resume_connection(req->mhd);
    }
    req->loop_side = false;
    http_release(req);
    http_unlock(s);
}
