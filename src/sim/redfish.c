/*
 * The Redfish service of every simulated BMC: one listener for all of 127.0.0.0/8; the address that
 * a client connected to says which BMC it means. libmicrohttpd runs without threads: its epoll
 * descriptor and its time-out hang on the loop.
 *
 * Here are sockets, TLS and the faults of time (dead, slow, frozen); what is said is in the other
 * redfish_*.c.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "sim/redfish_int.h"

enum {
    BODY_MAX = 64 << 10,
    BACKLOG = 4096,
    CONNECTIONS_MAX = 20000,
    FILES_KEPT = 256, /* descriptors for the rest of the program */
    IDLE_S = 60,      /* a connection without a request */
    MEMORY_PER_CONNECTION = 16 << 10,
    CERT_DAYS = 3650,
};

struct redfish {
    struct sim *sim;
    struct MHD_Daemon *daemon;
    struct watch watch;
    struct timer timer;
    char *key, *cert;
    struct rf_bmc **bmcs; /* by node index; NULL until the first client */
    struct rf_request *held;
};

struct rf_request {
    struct redfish *redfish;
    struct rf_bmc *bmc;
    struct MHD_Connection *mhd;
    struct strbuf body;
    struct MHD_Response *response; /* ready, perhaps held back */
    unsigned status;
    bool dropped;       /* no answer: the connection is closed */
    struct timer timer; /* armed while held back */
    struct rf_request *next, **link;
};

/* ---- certificate ---- */

static char *bio_text(BIO *bio)
{
    char *data = NULL;
    long len = BIO_get_mem_data(bio, &data);
    return xstrndup(data, (size_t)len);
}

static bool fill_certificate(X509 *x, EVP_PKEY *key)
{
    static const unsigned char name[] = "clusterd-sim";
    X509_NAME *subject = X509_get_subject_name(x);
    X509_EXTENSION *san =
        X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:clusterd-sim,DNS:localhost");
    bool ok = san != NULL && X509_set_version(x, 2) == 1 &&
              ASN1_INTEGER_set(X509_get_serialNumber(x), 1) == 1 &&
              X509_gmtime_adj(X509_getm_notBefore(x), -86400L) != NULL &&
              X509_gmtime_adj(X509_getm_notAfter(x), CERT_DAYS * 86400L) != NULL &&
              X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, name, -1, -1, 0) == 1 &&
              X509_set_issuer_name(x, subject) == 1 && X509_set_pubkey(x, key) == 1 &&
              X509_add_ext(x, san, -1) == 1 && X509_sign(x, key, EVP_sha256()) != 0;
    X509_EXTENSION_free(san);
    return ok;
}

/* A self-signed certificate (RFC 5280) with a P-256 key: what a BMC comes with, and cheap to shake
 * hands with thousands of times. */
static int make_certificate(struct redfish *r, struct err *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    BIO *key_bio = BIO_new(BIO_s_mem()), *cert_bio = BIO_new(BIO_s_mem());
    bool ok = key != NULL && x != NULL && key_bio != NULL && cert_bio != NULL &&
              fill_certificate(x, key) && PEM_write_bio_X509(cert_bio, x) == 1 &&
              PEM_write_bio_PrivateKey(key_bio, key, NULL, NULL, 0, NULL, NULL) == 1;
    if (ok) {
        r->key = bio_text(key_bio);
        r->cert = bio_text(cert_bio);
    }
    BIO_free(key_bio);
    BIO_free(cert_bio);
    X509_free(x);
    EVP_PKEY_free(key);
    return ok ? 0 : err_set(err, ERR_INTERNAL, "libcrypto makes no certificate for Redfish");
}

/* ---- libmicrohttpd on the loop ---- */

static void kick(struct redfish *r, int64_t delay_ms);

static void run(struct redfish *r)
{
    MHD_UNSIGNED_LONG_LONG ms;
    (void)MHD_run(r->daemon);
    if (MHD_get_timeout(r->daemon, &ms) == MHD_YES)
        kick(r, ms > 60000 ? 60000 : (int64_t)ms);
    else
        timer_cancel(&r->timer);
}

static void on_timer(void *user)
{
    run(user);
}

static void on_ready(int fd, int events, void *user)
{
    (void)fd;
    (void)events;
    run(user);
}

static void kick(struct redfish *r, int64_t delay_ms)
{
    timer_set(r->sim->loop, &r->timer, delay_ms, on_timer, r);
}

static void on_log(void *user, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static void on_log(void *user, const char *fmt, va_list ap)
{
    char text[256];
    (void)user;
    (void)vsnprintf(text, sizeof text, fmt, ap);
    text[strcspn(text, "\n")] = '\0';
    log_debug("sim.redfish", "%s", text);
}

/* ---- holding back ---- */

static void release(struct rf_request *req)
{
    *req->link = req->next;
    if (req->next != NULL)
        req->next->link = req->link;
    req->next = NULL;
    req->link = NULL;
    timer_cancel(&req->timer);
    MHD_resume_connection(req->mhd);
}

static void on_held_enough(void *user)
{
    struct rf_request *req = user;
    release(req);
    kick(req->redfish, 0);
}

static enum MHD_Result hold(struct rf_request *req, int64_t ms)
{
    struct redfish *r = req->redfish;
    MHD_suspend_connection(req->mhd);
    req->link = &r->held;
    req->next = r->held;
    if (req->next != NULL)
        req->next->link = &req->next;
    r->held = req;
    timer_set(r->sim->loop, &req->timer, ms, on_held_enough, req);
    return MHD_YES;
}

/* ---- one request ---- */

static const char *header(struct rf_request *req, const char *name)
{
    return MHD_lookup_connection_value(req->mhd, MHD_HEADER_KIND, name);
}

static enum MHD_Result on_query(void *user, enum MHD_ValueKind kind, const char *key,
                                const char *value)
{
    bool *asked = user;
    (void)kind;
    (void)value;
    *asked = *asked || key[0] == '$'; /* others are ignored: DSP0266, 7.3 */
    return MHD_YES;
}

static void set_path(struct rf_call *c, const char *url)
{
    size_t len = strlen(url);
    while (len > 1 && url[len - 1] == '/')
        len--;
    (void)snprintf(c->path, sizeof c->path, "%.*s", (int)len, len < sizeof c->path ? url : "");
    for (char *p = c->path; *p != '\0'; p++) /* no route has such; JSON takes no broken UTF-8 */
        if ((unsigned char)*p >= 0x80)
            *p = '?';
}

static void set_origin(struct rf_call *c, struct rf_request *req)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(req->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)info->client_addr;
    (void)sim_dotted(ntohl(in->sin_addr.s_addr), c->origin);
}

static void add_header(struct rf_request *req, const char *name, const char *value)
{
    if (value[0] != '\0')
        (void)MHD_add_response_header(req->response, name, value);
}

static void make_response(struct rf_request *req, struct rf_call *c)
{
    char *text = NULL;
    if (c->answer != NULL)
        text = json_dumps(c->answer, JSON_COMPACT);
    else if (c->xml != NULL)
        text = xstrdup(c->xml);
    json_decref(c->answer);
    req->status = (unsigned)c->status;
    req->response = MHD_create_response_from_buffer(
        text != NULL ? strlen(text) : 0, text != NULL ? text : (void *)"",
        text != NULL ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    add_header(req, "Content-Type",
               text == NULL     ? ""
               : c->xml != NULL ? "application/xml"
                                : "application/json; charset=utf-8");
    add_header(req, "OData-Version", "4.0"); /* DSP0266, 6.5: on every answer */
    add_header(req, "Cache-Control", "no-cache");
    add_header(req, "Allow", c->allow);
    add_header(req, "ETag", c->etag);
    add_header(req, "Location", c->location);
    add_header(req, "X-Auth-Token", c->new_token);
    if (c->status == MHD_HTTP_UNAUTHORIZED)
        add_header(req, "WWW-Authenticate", "Basic realm=\"clusterd-sim\"");
}

static void carry_out(struct rf_request *req, const char *url, const char *method)
{
    char *password = NULL;
    char *user = MHD_basic_auth_get_username_password(req->mhd, &password);
    struct rf_call c = {.sim = req->redfish->sim,
                        .node = req->bmc->node,
                        .bmc = req->bmc,
                        .method = method,
                        .body = req->body.data,
                        .body_len = req->body.len,
                        .token = header(req, "X-Auth-Token"),
                        .user = user,
                        .password = password,
                        .if_match = header(req, "If-Match"),
                        .if_none_match = header(req, "If-None-Match")};
    bool query = false;
    set_path(&c, url);
    set_origin(&c, req);
    (void)MHD_get_connection_values(req->mhd, MHD_GET_ARGUMENT_KIND, on_query, &query);
    if (!strbuf_ok(&req->body))
        rf_refuse(&c, MHD_HTTP_CONTENT_TOO_LARGE, RF_PAYLOAD_TOO_LARGE, NULL, NULL, NULL);
    else if (query)
        rf_refuse(&c, MHD_HTTP_NOT_IMPLEMENTED, RF_QUERY_NOT_SUPPORTED, NULL, NULL, NULL);
    else
        rf_handle(&c);
    make_response(req, &c);
    MHD_free(user);
    MHD_free(password);
}

/* How long the BMC is silent now: it froze, or this request was one too many. 0: it is not. */
static int64_t frozen_for(struct rf_request *req)
{
    struct rf_bmc *b = req->bmc;
    const struct sim_node *n = b->node;
    const struct sim *s = req->redfish->sim;
    int64_t now = loop_now(s->loop);
    if (!sim_has(n, FAULT_BMC_FREEZES))
        return 0;
    if (now / 1000 != b->second) {
        b->second = now / 1000;
        b->in_second = 0;
    }
    if (++b->in_second > (n->fault_rate > 0 ? n->fault_rate : 20) && now >= b->frozen_until)
        b->frozen_until = now + sim_ms(s, RF_FREEZE_MS);
    return b->frozen_until - now > 0 ? b->frozen_until - now : 0;
}

static bool is_away(const struct rf_bmc *b)
{
    return sim_has(b->node, FAULT_BMC_DEAD) || loop_now(b->node->sim->loop) < b->absent_until;
}

static enum MHD_Result begin(struct rf_request *req, const char *url, const char *method)
{
    struct sim_node *n = req->bmc->node;
    if (is_away(req->bmc))
        return MHD_NO;
    n->count.bmc_requests++;
    int64_t frozen = frozen_for(req);
    if (frozen > 0) {
        req->dropped = true;
        return hold(req, frozen);
    }
    carry_out(req, url, method);
    if (sim_has(n, FAULT_BMC_SLOW)) /* it acts at once, and answers late */
        return hold(req, n->fault_ms > 0 ? n->fault_ms : 1500);
    return MHD_queue_response(req->mhd, req->status, req->response);
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *mhd, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *len, void **slot)
{
    struct rf_request *req = *slot;
    (void)version;
    if (req == NULL) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        if (info->socket_context == NULL)
            return MHD_NO;
        req = xcalloc(1, sizeof *req);
        req->redfish = user;
        req->bmc = info->socket_context;
        req->mhd = mhd;
        strbuf_init(&req->body, BODY_MAX);
        *slot = req;
        return MHD_YES;
    }
    if (*len > 0) {
        strbuf_add(&req->body, data, *len);
        *len = 0;
        return MHD_YES;
    }
    if (req->dropped)
        return MHD_NO;
    if (req->response != NULL)
        return MHD_queue_response(mhd, req->status, req->response);
    return begin(req, url, method);
}

static void on_completed(void *user, struct MHD_Connection *mhd, void **slot,
                         enum MHD_RequestTerminationCode code)
{
    struct rf_request *req = *slot;
    (void)user;
    (void)mhd;
    (void)code;
    if (req == NULL)
        return;
    *slot = NULL;
    timer_cancel(&req->timer);
    if (req->response != NULL)
        MHD_destroy_response(req->response);
    strbuf_done(&req->body);
    free(req);
}

/* ---- connections ---- */

static struct rf_bmc *bmc_of(struct redfish *r, int fd)
{
    struct sockaddr_in in;
    socklen_t len = sizeof in;
    if (getsockname(fd, (struct sockaddr *)(void *)&in, &len) != 0 || in.sin_family != AF_INET)
        return NULL;
    struct sim_node *n = sim_by_bmc(r->sim, ntohl(in.sin_addr.s_addr));
    if (n == NULL)
        return NULL;
    if (r->bmcs[n->index] == NULL) {
        r->bmcs[n->index] = xcalloc(1, sizeof *r->bmcs[n->index]);
        r->bmcs[n->index]->node = n;
    }
    return r->bmcs[n->index];
}

/* Before TLS: who does not exist or is dead shakes no hands. */
static void on_connection(void *user, struct MHD_Connection *mhd, void **slot,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code != MHD_CONNECTION_NOTIFY_STARTED)
        return;
    int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    struct rf_bmc *bmc = bmc_of(user, fd);
    if (bmc == NULL || is_away(bmc))
        (void)shutdown(fd, SHUT_RDWR);
    else
        *slot = bmc;
}

/* ---- start and stop ---- */

static int listen_on(int *port, struct err *err)
{
    int one = 1;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(err, errno, "socket");
    sim_loopback_only(fd);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, (const struct sockaddr *)(const void *)&in, sizeof in) != 0 ||
        listen(fd, BACKLOG) != 0 || getsockname(fd, (struct sockaddr *)(void *)&in, &len) != 0) {
        int rc = err_sys(err, errno, "the Redfish service cannot listen on TCP port %d", *port);
        (void)close(fd);
        return rc;
    }
    *port = ntohs(in.sin_port); /* port 0: any that is free */
    return fd;
}

static unsigned connection_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > CONNECTIONS_MAX + FILES_KEPT)
        return CONNECTIONS_MAX;
    return limit.rlim_cur > 2 * FILES_KEPT ? (unsigned)limit.rlim_cur - FILES_KEPT : FILES_KEPT;
}

static int start_daemon(struct redfish *r, struct err *err)
{
    int fd = listen_on(&r->sim->redfish_port, err);
    if (fd < 0)
        return fd;
    r->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_TLS | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        on_request, r, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_HTTPS_MEM_KEY, r->key, MHD_OPTION_HTTPS_MEM_CERT, r->cert,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, r, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_CONNECTION_LIMIT, connection_limit(), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)MEMORY_PER_CONNECTION, MHD_OPTION_END);
    if (r->daemon == NULL) {
        (void)close(fd);
        return err_set(err, ERR_INTERNAL, "libmicrohttpd does not start for Redfish");
    }
    int epoll = MHD_get_daemon_info(r->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    int rc = watch_set(r->sim->loop, &r->watch, epoll, WATCH_READ, on_ready, r, err);
    if (rc == 0)
        kick(r, 0);
    return rc;
}

int redfish_start(struct sim *s, struct err *err)
{
    if (s->redfish_port < 0 || s->redfish_port > 65535)
        return err_set(err, ERR_INVALID, "Redfish port %d: expected 0 to 65535", s->redfish_port);
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return err_set(err, ERR_UNSUPPORTED,
                       "Redfish needs a libmicrohttpd that was built with TLS; Debian's is, or "
                       "start with --no-redfish");
    struct redfish *r = xcalloc(1, sizeof *r);
    r->sim = s;
    r->bmcs = xcalloc((size_t)s->node_count + 1, sizeof(struct rf_bmc *));
    s->redfish = r;
    int rc = make_certificate(r, err);
    if (rc == 0)
        rc = start_daemon(r, err);
    if (rc < 0) {
        redfish_stop(s);
        return rc;
    }
    log_info("sim.redfish", "Redfish on TCP port %d of %d BMCs", s->redfish_port, s->node_count);
    return 0;
}

void redfish_stop(struct sim *s)
{
    struct redfish *r = s->redfish;
    if (r == NULL)
        return;
    watch_stop(&r->watch);
    while (r->held != NULL)
        release(r->held);
    if (r->daemon != NULL)
        MHD_stop_daemon(r->daemon);
    timer_cancel(&r->timer);
    for (int i = 0; i < s->node_count; i++)
        free(r->bmcs[i]);
    free(r->bmcs);
    free(r->key);
    free(r->cert);
    free(r);
    s->redfish = NULL;
}
