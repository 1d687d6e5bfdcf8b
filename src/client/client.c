/* include/clusterd.h over libcurl. */
#include "clusterd.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"

enum { CONNECT_TIMEOUT_MS = 5000, CALL_TIMEOUT_MS = 330000, ERROR_BODY_MAX = 4 << 20 };

struct clusterd {
    char *socket;
    CURL *curl;
    long timeout_ms;
    const volatile sig_atomic_t *stop;
    json_t *last_error;
};

/* One transfer: where its body goes. */
struct transfer {
    struct clusterd *c;
    long status;        /* known once the body begins */
    struct strbuf body; /* the answer, or the error body of a stream */
    clusterd_line_fn on_line;
    clusterd_data_fn on_data;
    void *user;
    struct strbuf line;
    bool stopped; /* by the callback */
    bool too_large;
};

struct clusterd *clusterd_open(const char *socket)
{
    struct clusterd *c = xcalloc(1, sizeof *c);
    if (socket == NULL || socket[0] == '\0')
        socket = getenv(CLUSTERD_SOCKET_VARIABLE);
    if (socket == NULL || socket[0] == '\0')
        socket = CLUSTERD_SOCKET_DEFAULT;
    c->socket = xstrdup(socket);
    c->timeout_ms = CALL_TIMEOUT_MS;
    c->curl = curl_easy_init();
    return c;
}

void clusterd_close(struct clusterd *c)
{
    if (c == NULL)
        return;
    curl_easy_cleanup(c->curl);
    json_decref(c->last_error);
    free(c->socket);
    free(c);
}

const char *clusterd_socket(const struct clusterd *c)
{
    return c->socket;
}

void clusterd_set_timeout(struct clusterd *c, long ms)
{
    c->timeout_ms = ms;
}

void clusterd_set_stop(struct clusterd *c, const volatile sig_atomic_t *flag)
{
    c->stop = flag;
}

const json_t *clusterd_last_error(const struct clusterd *c)
{
    return c->last_error;
}

char *clusterd_escape(const char *text)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    char *out = xcalloc(3 * strlen(text) + 1, 1), *to = out;
    for (const char *p = text; *p != '\0'; p++) {
        if (strchr(plain, *p) != NULL)
            *to++ = *p;
        else
            to += sprintf(to, "%%%02X", (unsigned)(unsigned char)*p);
    }
    return out;
}

/* ---- errors ---- */

static int fail(struct clusterd_error *error, long status, const struct err *err)
{
    if (error != NULL) {
        *error = (struct clusterd_error){.http_status = (int)status,
                                         .exit_code = err_exit_code(err->code),
                                         .retryable = err_retryable(err->code)};
        (void)snprintf(error->code, sizeof error->code, "%s", err_name(err->code));
        (void)snprintf(error->text, sizeof error->text, "%s", err->text);
    }
    return -1;
}

static enum err_code code_of_status(long status)
{
    switch (status) {
    case 400:
    case 413:
        return ERR_INVALID;
    case 401:
        return ERR_AUTH;
    case 403:
        return ERR_DENIED;
    case 404:
        return ERR_NOT_FOUND;
    case 409:
        return ERR_CONFLICT;
    case 429:
        return ERR_LIMIT;
    case 503:
        return ERR_BUSY;
    case 504:
        return ERR_TIMEOUT;
    default:
        return ERR_PROTOCOL;
    }
}

/* The daemon answered with an error: JSON from its handlers, plain text from its HTTP server. */
static int fail_by_answer(struct transfer *t, struct clusterd_error *error)
{
    struct err err;
    json_t *json = json_loadb(t->body.data, t->body.len, 0, NULL);
    json_t *body = json_object_get(json, "error");
    const char *code = json_string_value(json_object_get(body, "code"));
    const char *text = json_string_value(json_object_get(body, "text"));
    if (code != NULL && text != NULL) {
        (void)err_set(&err, err_from_name(code), "%s", text);
        t->c->last_error = json_incref(json);
    } else {
        size_t len = strcspn(t->body.data, "\r\n");
        (void)err_set(&err, code_of_status(t->status), "clusterd answered %ld: %.*s", t->status,
                      len > 0 && json == NULL ? (int)(len < 300 ? len : 300) : 0, t->body.data);
    }
    json_decref(json);
    return fail(error, t->status, &err);
}

static int fail_to_connect(struct clusterd *c, struct clusterd_error *error)
{
    struct err err;
    long sys = 0;
    (void)curl_easy_getinfo(c->curl, CURLINFO_OS_ERRNO, &sys);
    if (sys == EACCES || sys == EPERM)
        (void)err_set(&err, ERR_DENIED,
                      "no permission for %s: be root or a member of the socket's group", c->socket);
    else if (sys == ENOENT)
        (void)err_set(&err, ERR_UNREACHABLE,
                      "clusterd is not running here: there is no socket %s. Start it (systemctl "
                      "start clusterd), or name its socket with --socket PATH or " //
                      CLUSTERD_SOCKET_VARIABLE,
                      c->socket);
    else if (sys == ECONNREFUSED)
        (void)err_set(&err, ERR_UNREACHABLE,
                      "clusterd is not running: nobody listens on %s. Start it: systemctl start "
                      "clusterd; its log says why it ended: journalctl -u clusterd",
                      c->socket);
    else
        (void)err_set(&err, ERR_UNREACHABLE, "cannot connect to clusterd at %s: %s", c->socket,
                      sys != 0 ? strerror((int)sys) : "no answer");
    return fail(error, 0, &err);
}

static int fail_by_curl(struct transfer *t, CURLcode rc, struct clusterd_error *error)
{
    struct clusterd *c = t->c;
    struct err err;
    switch (rc) {
    case CURLE_COULDNT_CONNECT:
        return fail_to_connect(c, error);
    case CURLE_ABORTED_BY_CALLBACK:
        (void)err_set(&err, ERR_CANCELLED, "interrupted; clusterd goes on with its work");
        break;
    case CURLE_OPERATION_TIMEDOUT:
        (void)err_set(&err, ERR_TIMEOUT,
                      "clusterd gave no answer within %ld s; it may still do what was asked: look "
                      "with clusterctl status",
                      c->timeout_ms / 1000);
        break;
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
        (void)err_set(&err, ERR_UNREACHABLE,
                      "clusterd closed the connection before its answer was complete; did it stop? "
                      "Look with clusterctl status");
        break;
    default:
        if (t->too_large)
            (void)err_set(&err, ERR_LIMIT, "the answer is larger than this program accepts");
        else
            (void)err_set(&err, ERR_PROTOCOL, "talking to clusterd at %s: %s", c->socket,
                          curl_easy_strerror(rc));
        break;
    }
    return fail(error, 0, &err);
}

/* ---- transfers ---- */

static bool feed_lines(struct transfer *t, const char *data, size_t len)
{
    while (len > 0) {
        const char *end = memchr(data, '\n', len);
        size_t n = end != NULL ? (size_t)(end - data) : len;
        strbuf_add(&t->line, data, n);
        if (!strbuf_ok(&t->line)) {
            t->too_large = true;
            return false;
        }
        if (end == NULL)
            return true;
        if (t->on_line(t->line.data, t->line.len, t->user) != 0) {
            t->stopped = true;
            return false;
        }
        strbuf_reset(&t->line);
        data += n + 1;
        len -= n + 1;
    }
    return true;
}

static size_t on_body(char *data, size_t size, size_t count, void *user)
{
    struct transfer *t = user;
    size_t len = size * count;
    bool good = true;
    if (t->status == 0)
        (void)curl_easy_getinfo(t->c->curl, CURLINFO_RESPONSE_CODE, &t->status);
    if (t->status == 200 && t->on_line != NULL) {
        good = feed_lines(t, data, len);
    } else if (t->status == 200 && t->on_data != NULL) {
        t->stopped = t->on_data(data, len, t->user) != 0;
        good = !t->stopped;
    } else {
        strbuf_add(&t->body, data, len);
        t->too_large = !strbuf_ok(&t->body);
        good = !t->too_large;
    }
    return good ? len : CURL_WRITEFUNC_PAUSE + 1; /* neither len nor pause: an error */
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct clusterd *client = user;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return client->stop != NULL && *client->stop != 0;
}

static CURLcode perform(struct transfer *t, const char *method, const char *path, const char *body,
                        bool stream)
{
    struct clusterd *c = t->c;
    CURL *curl = c->curl;
    char *url = xasprintf("http://clusterd%s", path);
    struct curl_slist *headers = curl_slist_append(NULL, "Expect:");
    curl_easy_reset(curl); /* keeps the connection */
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, c->socket);
    (void)curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, stream ? 0L : c->timeout_ms);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFODATA, c);
    if (body != NULL) {
        headers = curl_slist_append(headers, "Content-Type: application/json");
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    }
    if (strcmp(method, "GET") != 0 || body != NULL)
        (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    CURLcode rc = curl_easy_perform(curl);
    if (t->status == 0)
        (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &t->status);
    curl_slist_free_all(headers);
    free(url);
    return rc;
}

static void begin(struct clusterd *c, struct transfer *t, size_t max)
{
    *t = (struct transfer){.c = c};
    strbuf_init(&t->body, max);
    strbuf_init(&t->line, CLUSTERD_LINE_MAX);
    json_decref(c->last_error);
    c->last_error = NULL;
    errno = 0;
}

static void end(struct transfer *t)
{
    strbuf_done(&t->body);
    strbuf_done(&t->line);
}

int clusterd_call(struct clusterd *c, const char *method, const char *path, const json_t *request,
                  json_t **ret_answer, struct clusterd_error *error)
{
    struct transfer t;
    struct err err;
    json_error_t jerr;
    json_t *answer = NULL;
    int result = 0;
    char *body = request != NULL ? json_dumps(request, JSON_COMPACT) : NULL;
    begin(c, &t, CLUSTERD_ANSWER_MAX);
    CURLcode rc = perform(&t, method, path, body, false);
    free(body);
    if (rc != CURLE_OK) {
        result = fail_by_curl(&t, rc, error);
    } else if (t.status < 200 || t.status > 299) {
        result = fail_by_answer(&t, error);
    } else if (t.body.len == 0) {
        answer = json_object();
    } else if ((answer = json_loadb(t.body.data, t.body.len, 0, &jerr)) == NULL) {
        (void)err_set(&err, ERR_PROTOCOL, "clusterd's answer is not JSON: %s (byte %d)", jerr.text,
                      jerr.position);
        result = fail(error, t.status, &err);
    }
    end(&t);
    if (ret_answer != NULL && result == 0)
        *ret_answer = answer;
    else
        json_decref(answer);
    return result;
}

static int follow(const char *path, struct transfer *t, struct clusterd_error *error)
{
    CURLcode rc = perform(t, "GET", path, NULL, true);
    if (t->stopped)
        return 0;
    if (rc != CURLE_OK)
        return fail_by_curl(t, rc, error);
    if (t->status != 200)
        return fail_by_answer(t, error);
    if (t->on_line != NULL && t->line.len > 0)
        (void)t->on_line(t->line.data, t->line.len, t->user);
    return 0;
}

int clusterd_follow(struct clusterd *c, const char *path, clusterd_line_fn on_line, void *user,
                    struct clusterd_error *error)
{
    struct transfer t;
    begin(c, &t, ERROR_BODY_MAX);
    t.on_line = on_line;
    t.user = user;
    int result = follow(path, &t, error);
    end(&t);
    return result;
}

int clusterd_follow_bytes(struct clusterd *c, const char *path, clusterd_data_fn on_data,
                          void *user, struct clusterd_error *error)
{
    struct transfer t;
    begin(c, &t, ERROR_BODY_MAX);
    t.on_data = on_data;
    t.user = user;
    int result = follow(path, &t, error);
    end(&t);
    return result;
}
