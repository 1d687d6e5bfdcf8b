#include "fetch/fetch.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

enum { DEFAULT_MAX = 1 << 20 };

struct fetch_hub {
    struct loop *loop;
    CURLM *multi;
    struct timer timer;
};

struct transfer {
    struct fetch_op pub; /* first */
    struct fetch_hub *hub;
    CURL *easy;
    struct curl_slist *headers;
    char *body;
    bool (*sink)(const char *data, size_t len, void *user);
    void *user;
    size_t max_body;
    const char *refused; /* why the answer's body was not taken */
    char problem[CURL_ERROR_SIZE];
};

struct socket_watch {
    struct watch watch;
    struct fetch_hub *hub;
};

static enum err_code code_of(const struct transfer *t, CURLcode rc)
{
    long port = 0;
    switch (rc) {
    case CURLE_OPERATION_TIMEDOUT:
        return ERR_TIMEOUT;
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_INTERFACE_FAILED:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
        return ERR_UNREACHABLE;
    case CURLE_UNSUPPORTED_PROTOCOL:
        /* of the URL; or, once there is a connection, an answer that is no HTTP/1 */
        (void)curl_easy_getinfo(t->easy, CURLINFO_PRIMARY_PORT, &port);
        return port > 0 ? ERR_PROTOCOL : ERR_INVALID;
    case CURLE_URL_MALFORMAT:
    case CURLE_SSL_CACERT_BADFILE:
        return ERR_INVALID;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
        return ERR_DENIED;
    case CURLE_WRITE_ERROR:
        return ERR_LIMIT;
    case CURLE_OUT_OF_MEMORY:
    case CURLE_ABORTED_BY_CALLBACK:
        return ERR_INTERNAL;
    default:
        return ERR_PROTOCOL;
    }
}

static const char *text_of(const struct transfer *t, CURLcode rc)
{
    if (rc == CURLE_WRITE_ERROR && t->refused != NULL)
        return t->refused;
    return t->problem[0] ? t->problem : curl_easy_strerror(rc);
}

static void collect_ended(struct fetch_hub *hub)
{
    CURLMsg *m;
    int left;
    while ((m = curl_multi_info_read(hub->multi, &left)) != NULL) {
        struct transfer *t = NULL;
        struct err err = {0};
        long status = 0;
        if (m->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
        (void)curl_easy_getinfo(m->easy_handle, CURLINFO_RESPONSE_CODE, &status);
        t->pub.status = (int)status;
        if (m->data.result != CURLE_OK)
            (void)err_set(&err, code_of(t, m->data.result), "%s", text_of(t, m->data.result));
        op_finish(&t->pub.op, &err);
    }
}

static void on_ready(int fd, int events, void *user)
{
    struct socket_watch *w = user;
    struct fetch_hub *hub = w->hub;
    int running, mask = 0;
    mask |= events & WATCH_READ ? CURL_CSELECT_IN : 0;
    mask |= events & WATCH_WRITE ? CURL_CSELECT_OUT : 0;
    (void)curl_multi_socket_action(hub->multi, fd, mask, &running);
    collect_ended(hub);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *socket_user)
{
    struct fetch_hub *hub = user;
    struct socket_watch *w = socket_user;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (w != NULL) {
            watch_stop(&w->watch);
            free(w);
            (void)curl_multi_assign(hub->multi, fd, NULL);
        }
        return 0;
    }
    if (w == NULL) {
        w = xcalloc(1, sizeof *w);
        w->hub = hub;
        (void)curl_multi_assign(hub->multi, fd, w);
    }
    int events = (what & CURL_POLL_IN ? WATCH_READ : 0) | (what & CURL_POLL_OUT ? WATCH_WRITE : 0);
    /* -1 would end every transfer of the hub, now and later: this one alone meets its deadline */
    (void)watch_set(hub->loop, &w->watch, fd, events, on_ready, w, NULL);
    return 0;
}

/* Children of the daemon inherit no connections. */
static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *a)
{
    (void)user;
    (void)purpose;
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static void on_timer(void *user)
{
    struct fetch_hub *hub = user;
    int running;
    (void)curl_multi_socket_action(hub->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    collect_ended(hub);
}

static int on_timeout_wish(CURLM *multi, long ms, void *user)
{
    struct fetch_hub *hub = user;
    (void)multi;
    if (ms < 0)
        timer_cancel(&hub->timer);
    else
        timer_set(hub->loop, &hub->timer, ms, on_timer, hub);
    return 0;
}

struct fetch_hub *fetch_hub_new(struct loop *loop, int max_transfers, struct err *err)
{
    struct fetch_hub *hub = xcalloc(1, sizeof *hub);
    hub->loop = loop;
    hub->multi = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_multi_init() : NULL;
    if (hub->multi == NULL) {
        free(hub);
        (void)err_set(err, ERR_INTERNAL, "libcurl could not be started");
        return NULL;
    }
    (void)curl_multi_setopt(hub->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    (void)curl_multi_setopt(hub->multi, CURLMOPT_SOCKETDATA, hub);
    (void)curl_multi_setopt(hub->multi, CURLMOPT_TIMERFUNCTION, on_timeout_wish);
    (void)curl_multi_setopt(hub->multi, CURLMOPT_TIMERDATA, hub);
    (void)curl_multi_setopt(hub->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)max_transfers);
    return hub;
}

void fetch_hub_free(struct fetch_hub *hub)
{
    if (hub == NULL)
        return;
    (void)curl_multi_cleanup(hub->multi);
    timer_cancel(&hub->timer);
    free(hub);
    curl_global_cleanup();
}

/* ---- one transfer ---- */

static void stop(struct op *op)
{
    struct transfer *t = (struct transfer *)(void *)op;
    if (t->easy == NULL)
        return;
    (void)curl_multi_remove_handle(t->hub->multi, t->easy);
    curl_easy_cleanup(t->easy);
    t->easy = NULL;
}

static void release(struct op *op)
{
    struct transfer *t = (struct transfer *)(void *)op;
    curl_slist_free_all(t->headers);
    strbuf_done(&t->pub.body);
    free(t->body);
    free(t);
}

static const struct op_type type = {.name = "fetch", .stop = stop, .free = release};

static size_t on_data(char *data, size_t size, size_t count, void *user)
{
    struct transfer *t = user;
    size_t len = size * count;
    t->pub.bytes += (int64_t)len;
    if (t->sink != NULL) {
        if (t->sink(data, len, t->user))
            return len;
        t->refused = "the rest of the answer was not wanted";
        return 0;
    }
    if (len > t->max_body - t->pub.body.len) {
        t->refused = "the answer is larger than allowed";
        return 0;
    }
    strbuf_add(&t->pub.body, data, len);
    return len;
}

static void set_request(struct transfer *t, const struct fetch_request *r)
{
    CURL *c = t->easy;
    for (int i = 0; r->headers != NULL && r->headers[i] != NULL; i++)
        t->headers = curl_slist_append(t->headers, r->headers[i]);
    t->headers = curl_slist_append(t->headers, "Expect:"); /* no waiting for a "100 Continue" */
    (void)curl_easy_setopt(c, CURLOPT_HTTPHEADER, t->headers);
    if (r->body != NULL) {
        t->body = xcalloc(1, r->body_len + 1);
        memcpy(t->body, r->body, r->body_len);
        (void)curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_len);
        (void)curl_easy_setopt(c, CURLOPT_POSTFIELDS, t->body);
    }
    if (r->method != NULL && strcmp(r->method, "HEAD") == 0)
        (void)curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    else if (r->method != NULL)
        (void)curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, r->method);
}

static void set_options(struct transfer *t, const struct fetch_request *r)
{
    CURL *c = t->easy;
    (void)curl_easy_setopt(c, CURLOPT_URL, r->url);
    (void)curl_easy_setopt(c, CURLOPT_PRIVATE, t);
    (void)curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->problem);
    (void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    /* a transfer that is stopped while its host is looked up must not wait for the resolver */
    (void)curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L);
    (void)curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    (void)curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
    (void)curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    if (r->source != NULL) {
        char host[80];
        (void)snprintf(host, sizeof host, "host!%s", r->source);
        (void)curl_easy_setopt(c, CURLOPT_INTERFACE, host);
    }
    if (r->ca_file != NULL) {
        (void)curl_easy_setopt(c, CURLOPT_CAINFO, r->ca_file);
        (void)curl_easy_setopt(c, CURLOPT_CAPATH, NULL); /* the system's folder is not added */
    }
    if (!r->keep)
        (void)curl_easy_setopt(c, CURLOPT_FORBID_REUSE, 1L);
    set_request(t, r);
}

struct fetch_op *fetch_start(struct fetch_hub *hub, const struct fetch_request *r,
                             int64_t timeout_ms, op_done_fn done, void *user)
{
    struct transfer *t = xcalloc(1, sizeof *t);
    struct err err = {0};
    t->hub = hub;
    t->sink = r->sink;
    t->user = r->user;
    t->max_body = r->max_body > 0 ? r->max_body : DEFAULT_MAX;
    strbuf_init(&t->pub.body, t->max_body);
    op_init(&t->pub.op, &type, hub->loop, timeout_ms, done, user);
    t->easy = curl_easy_init();
    if (t->easy == NULL) {
        (void)err_set(&err, ERR_INTERNAL, "libcurl has no memory left");
        op_finish(&t->pub.op, &err);
        return &t->pub;
    }
    set_options(t, r);
    if (curl_easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK ||
        curl_multi_add_handle(hub->multi, t->easy) != CURLM_OK) {
        (void)err_set(&err, ERR_INTERNAL, "libcurl did not take the transfer");
        op_finish(&t->pub.op, &err);
    }
    return &t->pub;
}
