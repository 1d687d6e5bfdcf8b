#include "api/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "api/http_internal.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

void http_lock(struct http_server *s)
{
    (void)pthread_mutex_lock(&s->lock);
}

void http_unlock(struct http_server *s)
{
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- life of a request ---- */

void http_request_free(struct http_request *req)
{
    for (int i = 0; i < req->pair_count; i++) {
        free(req->pairs[i].name);
        free(req->pairs[i].value);
    }
    for (int i = 0; i < req->answer.header_count; i++) {
        free(req->answer.headers[i].name);
        free(req->answer.headers[i].value);
    }
    free(req->pairs);
    free(req->answer.headers);
    free(req->answer.content_type);
    free(req->answer.body);
    free(req->answer.file);
    free(req->answer.etag);
    free(req->method);
    free(req->path);
    strbuf_done(&req->body);
    strbuf_done(&req->stream.queue);
    free(req);
}

void http_release(struct http_request *req)
{
    struct http_server *s = req->server;
    if (req->thread_side || req->loop_side || req->note_pending)
        return;
    if (req->state != HTTP_READING) { /* it was submitted */
        if (req->prev != NULL)
            req->prev->next = req->next;
        else
            s->requests = req->next;
        if (req->next != NULL)
            req->next->prev = req->prev;
        s->stats.requests--;
        s->stats.streams -= req->stream.begun;
    }
    http_request_free(req);
}

/* Under the lock: the thread takes over with what is in req->answer. */
static void resume_with(struct http_request *req, enum http_state state)
{
    req->state = state;
    MHD_resume_connection(req->mhd);
}

/* Under the lock: the server's own answer to a request that the loop still owes one. */
static void answer_for_owner(struct http_request *req, int status, const char *text)
{
    struct http_answer *a = &req->answer;
    a->status = status;
    free(a->content_type);
    a->content_type = xstrdup("text/plain");
    a->body = xstrdup(text);
    a->len = strlen(text);
    resume_with(req, HTTP_ANSWERED);
}

/* Under the lock: wakes the thread that waits for the stream's data. */
static void stream_wake(struct http_request *req)
{
    if (!req->stream.suspended)
        return;
    req->stream.suspended = false;
    MHD_resume_connection(req->mhd);
}

/* The loop's side of a stream is over. */
static void stream_unwatch(struct http_request *req)
{
    watch_stop(&req->stream.watch);
    if (req->stream.fd >= 0)
        (void)close(req->stream.fd);
    req->stream.fd = -1;
}

/* ---- the loop's door ---- */

/* A request arrived, or a stream ended without its owner. */
static void on_note(void *item, void *user)
{
    struct http_request *req = item;
    struct http_server *s = user;
    http_lock(s);
    req->note_pending = false;
    bool owed = req->loop_side;
    bool stopping = s->stopping;
    if (!owed)
        http_release(req);
    http_unlock(s);
    if (!owed)
        return;
    if (!req->delivered && !stopping) {
        req->delivered = true;
        s->stats.handled++;
        req->listener->config.handle(req, req->listener->config.user);
        return;
    }
    if (req->stream.begun) {
        stream_unwatch(req);
        if (req->stream.closed != NULL)
            req->stream.closed(req, req->stream.user);
    }
    http_lock(s);
    req->loop_side = false;
    http_release(req);
    http_unlock(s);
}

/* Cuts off who takes too long to send a request, answers for owners who take too long. */
static void on_sweep(void *user)
{
    struct http_server *s = user;
    int64_t now = clock_mono_ms();
    http_lock(s);
    for (struct http_conn *c = s->conns; c != NULL; c = c->next)
        if (c->reading && now - c->reading_for > c->listener->config.read_timeout_ms)
            (void)shutdown(c->fd, SHUT_RDWR);
    for (struct http_request *r = s->requests; r != NULL; r = r->next)
        if (r->state == HTTP_WAITING &&
            now - r->submitted_at >
                (r->patience_ms > 0 ? r->patience_ms : r->listener->config.answer_timeout_ms))
            answer_for_owner(r, MHD_HTTP_GATEWAY_TIMEOUT,
                             "the daemon found no answer in time, see its log\n");
    http_unlock(s);
    timer_set(s->loop, &s->sweep, HTTP_SWEEP_MS, on_sweep, s);
}

/* ---- listeners ---- */

static int unix_address(const char *path, struct sockaddr_un *sun, struct err *err)
{
    *sun = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof sun->sun_path)
        return err_set(err, ERR_INVALID, "%s: a socket path has at most %zu characters", path,
                       sizeof sun->sun_path - 1);
    memcpy(sun->sun_path, path, strlen(path) + 1);
    return 0;
}

/* Removes a socket that nobody listens on any more. */
static int clear_stale(const char *path, const struct sockaddr_un *sun, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : err_sys(err, errno, "%s", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, ERR_EXISTS, "%s exists and is not a socket", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(err, errno, "socket");
    int rc = connect(fd, (const struct sockaddr *)(const void *)sun, sizeof *sun);
    int sys = errno;
    (void)close(fd);
    if (rc == 0 || sys != ECONNREFUSED)
        return err_set(err, ERR_EXISTS, "%s: another process is listening there", path);
    return unlink(path) == 0 ? 0 : err_sys(err, errno, "removing the stale %s", path);
}

static int open_unix(const struct http_listen *c, int *ret_fd, struct err *err)
{
    struct sockaddr_un sun;
    int rc = unix_address(c->unix_path, &sun, err);
    if (rc == 0)
        rc = clear_stale(c->unix_path, &sun, err);
    if (rc < 0)
        return rc;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(err, errno, "socket");
    /* the mode before bind() keeps the file closed from its first moment on */
    if (fchmod(fd, 0660) != 0 ||
        bind(fd, (const struct sockaddr *)(const void *)&sun, sizeof sun) != 0)
        rc = err_sys(err, errno, "%s", c->unix_path);
    else if ((c->unix_group != 0 && lchown(c->unix_path, (uid_t)-1, c->unix_group) != 0) ||
             chmod(c->unix_path, 0660) != 0 || listen(fd, 128) != 0)
        rc = err_sys(err, errno, "%s", c->unix_path);
    if (rc < 0) {
        (void)close(fd);
        return rc;
    }
    *ret_fd = fd;
    return 0;
}

static int tcp_address(const char *address, int port, struct sockaddr_storage *ss, socklen_t *len,
                       struct err *err)
{
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)ss;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)ss;
    memset(ss, 0, sizeof *ss);
    if (port < 0 || port > 65535)
        return err_set(err, ERR_INVALID, "port %d: expected 0 to 65535", port);
    if (address == NULL || address[0] == '\0')
        address = "0.0.0.0";
    if (inet_pton(AF_INET, address, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)port);
        *len = sizeof *in;
        return 0;
    }
    if (inet_pton(AF_INET6, address, &in6->sin6_addr) == 1) {
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)port);
        *len = sizeof *in6;
        return 0;
    }
    return err_set(err, ERR_INVALID, "%s: expected an IPv4 or IPv6 address to listen on", address);
}

static int open_tcp(const struct http_listen *c, int *ret_fd, int *ret_port, struct err *err)
{
    struct sockaddr_storage ss;
    socklen_t len = 0;
    int rc = tcp_address(c->address, c->port, &ss, &len, err);
    if (rc < 0)
        return rc;
    int on = 1;
    int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(err, errno, "socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (ss.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)(const void *)&ss, len) != 0 || listen(fd, 1024) != 0 ||
        getsockname(fd, (struct sockaddr *)(void *)&ss, &len) != 0) {
        rc = err_sys(err, errno, "listening on %s port %d", c->address ? c->address : "0.0.0.0",
                     c->port);
        (void)close(fd);
        return rc;
    }
    if (ret_port != NULL)
        *ret_port =
            ntohs(ss.ss_family == AF_INET ? ((struct sockaddr_in *)(void *)&ss)->sin_port
                                          : ((struct sockaddr_in6 *)(void *)&ss)->sin6_port);
    *ret_fd = fd;
    return 0;
}

__attribute__((format(printf, 2, 0))) static void on_mhd_log(void *cls, const char *fmt, va_list ap)
{
    (void)cls;
    char text[512];
    (void)vsnprintf(text, sizeof text, fmt, ap);
    log_debug("http.library", "%s", text);
}

/* libmicrohttpd's threads must not take the signals that the loop waits for. */
static struct MHD_Daemon *start_threads(struct http_listener *l)
{
    const struct http_listen *c = &l->config;
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    unsigned per_address = l->unix_path == NULL ? (unsigned)c->max_per_address : 0;
    l->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        http_on_access, l, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, NULL, MHD_OPTION_LISTEN_SOCKET,
        l->fd, MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, l, MHD_OPTION_NOTIFY_CONNECTION,
        http_on_connection, l, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)c->max_connections,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, per_address, MHD_OPTION_THREAD_POOL_SIZE,
        (unsigned)c->threads, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)((c->write_timeout_ms + 999) / 1000), MHD_OPTION_END);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return l->daemon;
}

static void apply_defaults(struct http_listen *c)
{
    if (c->max_body == 0)
        c->max_body = 1024 * 1024;
    if (c->threads <= 0)
        c->threads = 2;
    if (c->max_connections <= 0)
        c->max_connections = 1024;
    if (c->max_connections < c->threads)
        c->max_connections = c->threads;
    if (c->max_per_address < 0)
        c->max_per_address = 0;
    if (c->read_timeout_ms <= 0)
        c->read_timeout_ms = 30000;
    if (c->answer_timeout_ms <= 0)
        c->answer_timeout_ms = 300000;
    if (c->write_timeout_ms <= 0)
        c->write_timeout_ms = 60000;
}

static void listener_free(struct http_listener *l)
{
    if (l->fd >= 0)
        (void)close(l->fd);
    if (l->unix_path != NULL)
        (void)unlink(l->unix_path);
    free(l->unix_path);
    free(l);
}

int http_listen(struct http_server *s, const struct http_listen *config, int *ret_port,
                struct err *err)
{
    int fd = -1;
    int rc = config->unix_path != NULL ? open_unix(config, &fd, err)
                                       : open_tcp(config, &fd, ret_port, err);
    if (rc < 0)
        return rc;
    struct http_listener *l = xcalloc(1, sizeof *l);
    l->server = s;
    l->config = *config;
    l->unix_path = xstrdup(config->unix_path);
    l->config.unix_path = l->unix_path;
    l->config.address = NULL;
    l->fd = fd;
    apply_defaults(&l->config);
    if (start_threads(l) == NULL) {
        listener_free(l);
        return err_set(err, ERR_INTERNAL, "libmicrohttpd could not start its threads");
    }
    l->next = s->listeners;
    s->listeners = l;
    return 0;
}

/* ---- the server ---- */

struct http_server *http_server_new(struct loop *loop)
{
    struct http_server *s = xcalloc(1, sizeof *s);
    pthread_condattr_t attr;
    s->loop = loop;
    if (pthread_mutex_init(&s->lock, NULL) != 0 || pthread_condattr_init(&attr) != 0 ||
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0 ||
        pthread_cond_init(&s->idle, &attr) != 0)
        abort();
    (void)pthread_condattr_destroy(&attr);
    s->mailbox = mailbox_new(loop, on_note, s);
    timer_set(loop, &s->sweep, HTTP_SWEEP_MS, on_sweep, s);
    return s;
}

/* Answers what is pending and gives the answers a moment to leave. */
static void drain(struct http_server *s)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += HTTP_DRAIN_MS / 1000;
    http_lock(s);
    s->stopping = true;
    for (struct http_request *r = s->requests; r != NULL; r = r->next) {
        if (r->state == HTTP_WAITING)
            answer_for_owner(r, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is stopping\n");
        else if (r->thread_side && r->stream.begun) {
            r->stream.ended = true;
            stream_wake(r);
        }
    }
    while (s->in_flight > 0 && pthread_cond_timedwait(&s->idle, &s->lock, &until) == 0)
        ;
    for (struct http_request *r = s->requests; r != NULL; r = r->next)
        r->stream.cut = true;
    http_unlock(s);
}

void http_server_free(struct http_server *s)
{
    if (s == NULL)
        return;
    timer_cancel(&s->sweep);
    for (struct http_listener *l = s->listeners; l != NULL; l = l->next)
        (void)MHD_quiesce_daemon(l->daemon);
    drain(s);
    for (struct http_listener *l = s->listeners; l != NULL; l = l->next)
        MHD_stop_daemon(l->daemon);
    mailbox_free(s->mailbox); /* handles the last notes: closed() of streams */
    while (s->requests != NULL) {
        /* answered by drain(), and the owner never came back to it */
        struct http_request *req = s->requests;
        stream_unwatch(req);
        req->loop_side = false;
        http_release(req);
    }
    while (s->listeners != NULL) {
        struct http_listener *l = s->listeners;
        s->listeners = l->next;
        listener_free(l);
    }
    (void)pthread_cond_destroy(&s->idle);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

void http_stats(const struct http_server *s, struct http_stats *ret_stats)
{
    struct http_server *own = (struct http_server *)s; /* the lock is not part of the value */
    http_lock(own);
    *ret_stats = s->stats;
    http_unlock(own);
}

/* ---- reading the request ---- */

const char *http_method(const struct http_request *req)
{
    return req->method;
}

const char *http_path(const struct http_request *req)
{
    return req->path;
}

const char *http_arg(const struct http_request *req, const char *name)
{
    for (int i = 0; i < req->pair_count; i++)
        if (req->pairs[i].kind == MHD_GET_ARGUMENT_KIND && strcmp(req->pairs[i].name, name) == 0)
            return req->pairs[i].value;
    return NULL;
}

const char *http_header(const struct http_request *req, const char *name)
{
    for (int i = 0; i < req->pair_count; i++)
        if (req->pairs[i].kind == MHD_HEADER_KIND && strcasecmp(req->pairs[i].name, name) == 0)
            return req->pairs[i].value;
    return NULL;
}

const char *http_body(const struct http_request *req, size_t *ret_len)
{
    if (ret_len != NULL)
        *ret_len = req->body.len;
    return req->body.data;
}

const struct http_peer *http_peer(const struct http_request *req)
{
    return &req->peer;
}

void http_set_data(struct http_request *req, void *data)
{
    req->data = data;
}

void http_set_patience(struct http_request *req, int64_t ms)
{
    req->patience_ms = ms;
}

void *http_data(const struct http_request *req)
{
    return req->data;
}
