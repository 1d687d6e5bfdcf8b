/* Runs on libmicrohttpd's threads. A request is read here, handed to the loop while its connection
 * is suspended, and its answer is turned into bytes here again. */
#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "api/http_internal.h"
#include "base/clock.h"
#include "base/mem.h"

/* ---- connections ---- */

static void read_peer(struct http_conn *c, struct MHD_Connection *mhd)
{
    struct http_peer *peer = &c->peer;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *addr = info != NULL ? info->client_addr : NULL;
    peer->uid = (uid_t)-1;
    peer->gid = (gid_t)-1;
    if (c->listener->unix_path != NULL) {
        struct ucred cred;
        socklen_t len = sizeof cred;
        if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
            peer->local = true;
            peer->uid = cred.uid;
            peer->gid = cred.gid;
            peer->pid = cred.pid;
        }
    } else if (addr != NULL && addr->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)addr;
        (void)inet_ntop(AF_INET, &in->sin_addr, peer->address, sizeof peer->address);
        peer->port = ntohs(in->sin_port);
    } else if (addr != NULL && addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)addr;
        (void)inet_ntop(AF_INET6, &in6->sin6_addr, peer->address, sizeof peer->address);
        peer->port = ntohs(in6->sin6_port);
    }
}

void http_on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                        enum MHD_ConnectionNotificationCode toe)
{
    struct http_listener *l = cls;
    struct http_server *s = l->server;
    struct http_conn *c;
    if (toe == MHD_CONNECTION_NOTIFY_STARTED) {
        c = xcalloc(1, sizeof *c);
        c->listener = l;
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        c->fd = info != NULL ? info->connect_fd : -1;
        int on = 1;
        if (l->unix_path == NULL)
            (void)setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        read_peer(c, mhd);
        c->reading = true;
        c->reading_for = clock_mono_ms();
        http_lock(s);
        c->next = s->conns;
        if (c->next != NULL)
            c->next->prev = c;
        s->conns = c;
        s->stats.connections++;
        http_unlock(s);
        *socket_context = c;
        return;
    }
    c = *socket_context;
    if (c == NULL)
        return;
    http_lock(s);
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        s->conns = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
    s->stats.connections--;
    http_unlock(s);
    free(c);
    *socket_context = NULL;
}

/* ---- reading ---- */

static enum MHD_Result add_pair(void *cls, enum MHD_ValueKind kind, const char *name,
                                const char *value)
{
    struct http_request *req = cls;
    if (req->pair_count == HTTP_ARGS_MAX + HTTP_HEADERS_MAX)
        return MHD_NO;
    ARRAY_GROW(req->pairs, req->pair_count, req->pair_capacity);
    req->pairs[req->pair_count++] = (struct http_pair){
        .kind = kind, .name = xstrdup(name), .value = xstrdup(value ? value : "")};
    return MHD_YES;
}

static struct http_request *request_new(struct http_listener *l, struct MHD_Connection *mhd,
                                        const char *url, const char *method)
{
    struct http_request *req = xcalloc(1, sizeof *req);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    req->server = l->server;
    req->listener = l;
    req->mhd = mhd;
    req->conn = info != NULL ? info->socket_context : NULL;
    if (req->conn != NULL)
        req->peer = req->conn->peer;
    req->method = xstrdup(method);
    req->path = xstrdup(url);
    req->stream.fd = -1;
    strbuf_init(&req->body, l->config.max_body);
    strbuf_init(&req->stream.queue, HTTP_STREAM_MAX);
    req->thread_side = true;
    return req;
}

static enum MHD_Result refuse(struct http_request *req, int status, const char *text)
{
    req->refused = true;
    http_lock(req->server);
    req->server->stats.rejected++;
    http_unlock(req->server);
    struct MHD_Response *r =
        MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
    if (r == NULL)
        return MHD_NO;
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain");
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result rc = MHD_queue_response(req->mhd, (unsigned)status, r);
    MHD_destroy_response(r);
    return rc;
}

static bool path_ok(const char *path)
{
    if (path[0] != '/')
        return false;
    for (const char *p = path; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return false;
    return true;
}

/* Closing while the peer still sends resets the connection, and the reset can overtake the answer.
 * So what is somewhat too large is read to its end before it is refused. */
static bool beyond_discard(const struct http_request *req, unsigned long long len)
{
    return len > HTTP_DISCARD_MIN && len / HTTP_DISCARD_FACTOR > req->listener->config.max_body;
}

/* The header is there: decide whether the body is wanted at all. */
static enum MHD_Result begin(struct http_request *req)
{
    const char *text =
        MHD_lookup_connection_value(req->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (!path_ok(req->path))
        return refuse(req, MHD_HTTP_BAD_REQUEST, "the path is malformed\n");
    if (text != NULL && beyond_discard(req, strtoull(text, NULL, 10)))
        return refuse(req, MHD_HTTP_CONTENT_TOO_LARGE, "the body is larger than allowed here\n");
    if (MHD_get_connection_values(req->mhd, MHD_GET_ARGUMENT_KIND, NULL, NULL) > HTTP_ARGS_MAX ||
        MHD_get_connection_values(req->mhd, MHD_HEADER_KIND, NULL, NULL) > HTTP_HEADERS_MAX)
        return refuse(req, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE,
                      "too many headers or parameters\n");
    return MHD_YES;
}

/* Gives the request to the loop; the connection sleeps until the loop resumes it. */
static enum MHD_Result submit(struct http_request *req)
{
    struct http_server *s = req->server;
    (void)MHD_get_connection_values(req->mhd, MHD_GET_ARGUMENT_KIND, add_pair, req);
    (void)MHD_get_connection_values(req->mhd, MHD_HEADER_KIND, add_pair, req);
    req->submitted_at = clock_mono_ms();
    http_lock(s);
    if (s->stopping) {
        http_unlock(s);
        return refuse(req, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is stopping\n");
    }
    req->state = HTTP_WAITING;
    req->loop_side = true;
    req->note_pending = true;
    if (req->conn != NULL)
        req->conn->reading = false;
    req->next = s->requests;
    if (req->next != NULL)
        req->next->prev = req;
    s->requests = req;
    s->in_flight++;
    s->stats.requests++;
    /* under the lock, so that nobody can resume what is not yet suspended */
    MHD_suspend_connection(req->mhd);
    mailbox_post(s->mailbox, req);
    http_unlock(s);
    return MHD_YES;
}

/* ---- answering ---- */

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct http_request *req = cls;
    struct http_stream *st = &req->stream;
    ssize_t result = 0;
    (void)pos;
    http_lock(req->server);
    if (st->cut) {
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (st->queue.len > 0) {
        size_t n = st->queue.len < max ? st->queue.len : max;
        memcpy(buf, st->queue.data, n);
        strbuf_consume(&st->queue, n);
        result = (ssize_t)n;
    } else if (st->ended) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        st->suspended = true;
        MHD_suspend_connection(req->mhd);
    }
    http_unlock(req->server);
    return result;
}

static enum MHD_Result send_answer(struct http_request *req, bool streaming)
{
    struct http_answer *a = &req->answer;
    struct MHD_Response *r;
    int status = a->status;
    if (streaming) {
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 * 1024, read_stream, req, NULL);
    } else if (a->file != NULL) {
        r = http_file_response(req, &status);
    } else {
        r = MHD_create_response_from_buffer(a->len, a->body, MHD_RESPMEM_MUST_FREE);
        a->body = NULL;
    }
    if (r == NULL)
        return MHD_NO;
    if (a->content_type != NULL && MHD_get_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE) == NULL)
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, a->content_type);
    for (int i = 0; i < a->header_count; i++)
        (void)MHD_add_response_header(r, a->headers[i].name, a->headers[i].value);
    enum MHD_Result rc = MHD_queue_response(req->mhd, (unsigned)status, r);
    MHD_destroy_response(r);
    return rc;
}

enum MHD_Result http_on_access(void *cls, struct MHD_Connection *mhd, const char *url,
                               const char *method, const char *version, const char *upload_data,
                               size_t *upload_data_size, void **con_cls)
{
    struct http_listener *l = cls;
    struct http_request *req = *con_cls;
    (void)version;
    if (req == NULL) {
        req = request_new(l, mhd, url, method);
        *con_cls = req;
        return begin(req);
    }
    if (*upload_data_size > 0) {
        strbuf_add(&req->body, upload_data, *upload_data_size);
        req->received += *upload_data_size;
        *upload_data_size = 0;
        return beyond_discard(req, req->received) ? MHD_NO : MHD_YES;
    }
    if (req->refused)
        return MHD_YES;
    http_lock(l->server);
    enum http_state state = req->state;
    http_unlock(l->server);
    switch (state) {
    case HTTP_READING:
        if (!strbuf_ok(&req->body))
            return refuse(req, MHD_HTTP_CONTENT_TOO_LARGE,
                          "the body is larger than allowed here\n");
        return submit(req);
    case HTTP_ANSWERED:
        return send_answer(req, false);
    case HTTP_STREAMING:
        return send_answer(req, true);
    default:
        return MHD_NO;
    }
}

void http_on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                       enum MHD_RequestTerminationCode toe)
{
    struct http_listener *l = cls;
    struct http_server *s = l->server;
    struct http_request *req = *con_cls;
    (void)mhd;
    (void)toe;
    if (req == NULL)
        return;
    *con_cls = NULL;
    http_lock(s);
    if (req->conn != NULL) {
        req->conn->reading = true;
        req->conn->reading_for = clock_mono_ms();
    }
    req->thread_side = false;
    if (req->state != HTTP_READING) {
        s->in_flight--;
        if (s->in_flight == 0)
            (void)pthread_cond_signal(&s->idle);
    }
    /* the owner of a stream that ended without it must hear so */
    if (req->stream.begun && req->loop_side && !req->note_pending) {
        req->note_pending = true;
        mailbox_post(s->mailbox, req);
    }
    http_release(req);
    http_unlock(s);
}
