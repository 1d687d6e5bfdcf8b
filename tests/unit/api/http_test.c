/* The HTTP server against real clients (libcurl and raw sockets) on loopback and a unix socket. */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <curl/curl.h>

#include "api/http.h"
#include "api/http_internal.h"
#include "base/mem.h"
#include "base/strbuf.h"

/* ---- a server with one handler of many paths ---- */

struct fixture {
    struct loop *loop;
    struct http_server *server;
    char dir[64];
    char sock[96], file[96];
    int port;
    struct http_request *late; /* answered by a timer */
    struct timer timer;
    struct http_request *follower;
    int closed;
    int ticks;
    struct http_peer peer;
    size_t body_len;
};

static void answer_late(void *user)
{
    struct fixture *f = user;
    struct http_request *req = f->late;
    f->late = NULL;
    http_respond(req, 200, "text/plain", "late", 4);
}

static void on_closed(struct http_request *req, void *user)
{
    struct fixture *f = user;
    assert_ptr_equal(req, f->follower);
    f->follower = NULL;
    f->closed++;
    timer_cancel(&f->timer);
}

static void tick(void *user)
{
    struct fixture *f = user;
    char line[32];
    int n = snprintf(line, sizeof line, "line %d\n", ++f->ticks);
    http_stream_write(f->follower, line, (size_t)n);
    if (f->ticks == 5) {
        http_stream_end(f->follower);
        f->follower = NULL;
        return;
    }
    timer_set(f->loop, &f->timer, 5, tick, f);
}

static void flood(void *user)
{
    struct fixture *f = user;
    static char block[64 * 1024];
    if (f->follower == NULL)
        return;
    http_stream_write(f->follower, block, sizeof block);
    timer_set(f->loop, &f->timer, 1, flood, f);
}

static void handle(struct http_request *req, void *user)
{
    struct fixture *f = user;
    const char *path = http_path(req);
    f->peer = *http_peer(req);
    if (strcmp(path, "/echo") == 0) {
        const char *data = http_body(req, &f->body_len);
        http_respond(req, 200, "application/octet-stream", data, f->body_len);
    } else if (strcmp(path, "/what") == 0) {
        struct strbuf sb;
        strbuf_init(&sb, 4096);
        const char *nodes = http_arg(req, "nodes"), *flag = http_arg(req, "flag");
        const char *token = http_header(req, "x-clusterd-token");
        strbuf_addf(&sb, "%s|%s|%s|%s", http_method(req), nodes ? nodes : "-", flag ? flag : "-",
                    token ? token : "-");
        http_add_header(req, "X-Extra", "yes");
        http_respond(req, 201, "text/plain", sb.data, sb.len);
        strbuf_done(&sb);
    } else if (strcmp(path, "/late") == 0) {
        f->late = req;
        timer_set(f->loop, &f->timer, 30, answer_late, f);
    } else if (strcmp(path, "/never") == 0) {
        f->late = req;
    } else if (strcmp(path, "/error") == 0) {
        struct err err;
        (void)err_set(&err, ERR_CONFLICT, "node \"a\" is held");
        http_respond_error(req, &err);
    } else if (strcmp(path, "/file") == 0) {
        http_respond_file(req, f->file, "application/x-image", "abc123");
    } else if (strcmp(path, "/nofile") == 0) {
        http_respond_file(req, "/nonexistent/file", "application/x-image", NULL);
    } else if (strcmp(path, "/follow") == 0 || strcmp(path, "/flood") == 0 ||
               strcmp(path, "/quiet") == 0) {
        f->follower = req;
        f->ticks = 0;
        http_stream_begin(req, 200, "application/x-ndjson", on_closed, f);
        if (strcmp(path, "/quiet") != 0)
            timer_set(f->loop, &f->timer, 1, strcmp(path, "/flood") == 0 ? flood : tick, f);
    } else {
        http_respond(req, 404, NULL, NULL, 0);
    }
}

enum { FILE_SIZE = 300000 };

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/http_test.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->sock, sizeof f->sock, "%s/s", f->dir);
    (void)snprintf(f->file, sizeof f->file, "%s/file", f->dir);
    FILE *out = fopen(f->file, "w");
    for (int i = 0; i < FILE_SIZE; i++)
        (void)fputc('a' + i % 26, out);
    assert_int_equal(fclose(out), 0);
    f->loop = loop_new();
    f->server = http_server_new(f->loop);
    struct err err = {0};
    struct http_listen unix_side = {
        .unix_path = f->sock, .handle = handle, .user = f, .max_body = 8 << 20};
    struct http_listen tcp = {.address = "127.0.0.1",
                              .handle = handle,
                              .user = f,
                              .max_body = 1000,
                              .read_timeout_ms = 600,
                              .answer_timeout_ms = 600,
                              .write_timeout_ms = 1000};
    assert_int_equal(http_listen(f->server, &unix_side, NULL, &err), 0);
    assert_int_equal(http_listen(f->server, &tcp, &f->port, &err), 0);
    assert_true(f->port > 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    timer_cancel(&f->timer);
    http_server_free(f->server);
    assert_int_equal(loop_free(f->loop), 0);
    assert_int_equal(access(f->sock, F_OK), -1);
    (void)unlink(f->file);
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

/* ---- clients, each in its own thread while the loop runs here ---- */

struct call {
    struct fixture *f;
    const char *path, *method, *range, *header, *body;
    size_t body_len;
    bool over_unix;
    void (*run)(struct call *c);
    /* results */
    long status;
    struct strbuf text, headers;
    CURLcode rc;
    long connects;
    atomic_bool done;
};

static size_t collect(char *data, size_t size, size_t n, void *user)
{
    strbuf_add(user, data, size * n);
    return size * n;
}

static void call_once(struct call *c, CURL *curl)
{
    struct curl_slist *headers = NULL;
    char url[256];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d%s", c->f->port, c->path);
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 20L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &c->text);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, collect);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &c->headers);
    if (c->over_unix)
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, c->f->sock);
    if (c->range != NULL)
        curl_easy_setopt(curl, CURLOPT_RANGE, c->range);
    if (c->header != NULL)
        headers = curl_slist_append(headers, c->header);
    headers = curl_slist_append(headers, "Expect:");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    if (c->method != NULL && strcmp(c->method, "HEAD") == 0)
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    if (c->body != NULL) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)c->body_len);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, c->body);
    }
    c->rc = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &c->status);
    long connects = 0;
    curl_easy_getinfo(curl, CURLINFO_NUM_CONNECTS, &connects);
    c->connects += connects;
    curl_slist_free_all(headers);
}

static void run_curl(struct call *c)
{
    CURL *curl = curl_easy_init();
    call_once(c, curl);
    curl_easy_cleanup(curl);
}

static void *thread_main(void *arg)
{
    struct call *c = arg;
    c->run(c);
    atomic_store(&c->done, true);
    return NULL;
}

static void perform(struct fixture *f, struct call *c)
{
    pthread_t thread;
    c->f = f;
    if (c->run == NULL)
        c->run = run_curl;
    strbuf_init(&c->text, 32 << 20);
    strbuf_init(&c->headers, 65536);
    assert_int_equal(pthread_create(&thread, NULL, thread_main, c), 0);
    while (!atomic_load(&c->done))
        loop_run_for(f->loop, 5);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void call_done(struct call *c)
{
    strbuf_done(&c->text);
    strbuf_done(&c->headers);
}

static int raw_connect(struct fixture *f)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)f->port)};
    (void)inet_pton(AF_INET, "127.0.0.1", &in.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof in), 0);
    return fd;
}

static void wait_for(struct fixture *f, const int *value, int wanted, int ms)
{
    for (int i = 0; i < ms / 5 && *value != wanted; i++)
        loop_run_for(f->loop, 5);
}

/* ---- tests ---- */

static void passes_method_arguments_headers_and_body(void **state)
{
    struct fixture *f = *state;
    struct call c = {.path = "/what?nodes=n%5B1-3%5D%2Cx&flag", .header = "X-Clusterd-Token: t0"};
    perform(f, &c);
    assert_int_equal(c.status, 201);
    assert_string_equal(c.text.data, "GET|n[1-3],x||t0");
    assert_non_null(strstr(c.headers.data, "X-Extra: yes"));
    call_done(&c);
    static char body[900];
    memset(body, 0, sizeof body);
    body[899] = 'x';
    struct call echo = {.path = "/echo", .body = body, .body_len = sizeof body};
    perform(f, &echo);
    assert_int_equal(echo.status, 200);
    assert_int_equal(echo.text.len, 900);
    assert_int_equal(echo.text.data[899], 'x');
    assert_string_equal(f->peer.address, "127.0.0.1");
    assert_false(f->peer.local);
    call_done(&echo);
}

static void answers_later_without_holding_a_thread(void **state)
{
    struct fixture *f = *state;
    struct call c = {.path = "/late"};
    perform(f, &c);
    assert_int_equal(c.status, 200);
    assert_string_equal(c.text.data, "late");
    call_done(&c);
}

static void unix_socket_tells_the_peer_and_takes_large_bodies(void **state)
{
    struct fixture *f = *state;
    size_t len = 8 << 20;
    char *body = xcalloc(1, len);
    memset(body, 'q', len);
    struct call c = {.path = "/echo", .over_unix = true, .body = body, .body_len = len};
    perform(f, &c);
    assert_int_equal(c.status, 200);
    assert_int_equal(c.text.len, len);
    assert_true(f->peer.local);
    assert_int_equal(f->peer.uid, getuid());
    assert_int_equal(f->peer.pid, getpid());
    struct stat st;
    assert_int_equal(stat(f->sock, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    free(body);
    call_done(&c);
}

static void refuses_bodies_over_the_limit(void **state)
{
    static const size_t sizes[] = {1001, 5000, 200000, HTTP_DISCARD_MIN, 4 * HTTP_DISCARD_MIN};
    struct fixture *f = *state;
    char *body = xcalloc(4, HTTP_DISCARD_MIN);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct call c = {.path = "/echo", .body = body, .body_len = sizes[i]};
        f->body_len = 77;
        perform(f, &c);
        /* whoever sends far more than allowed is cut off, and may not get to read why */
        if (sizes[i] <= HTTP_DISCARD_MIN || c.status != 0)
            assert_int_equal(c.status, 413);
        assert_int_equal(f->body_len, 77); /* the handler never saw it */
        call_done(&c);
    }
    free(body);
}

static void errors_are_json(void **state)
{
    struct call c = {.path = "/error"};
    perform(*state, &c);
    assert_int_equal(c.status, 409);
    assert_string_equal(
        c.text.data, "{\"error\":{\"code\":\"conflict\",\"text\":\"node \\\"a\\\" is held\"}}\n");
    call_done(&c);
}

static void files_with_ranges(void **state)
{
    static const struct {
        const char *method, *range, *header;
        int status;
        size_t len;
        char first;
        const char *expect;
    } rows[] = {
        {"GET", NULL, NULL, 200, FILE_SIZE, 'a', "Accept-Ranges: bytes"},
        {"GET", "0-0", NULL, 206, 1, 'a', "Content-Range: bytes 0-0/300000"},
        {"GET", "26-51", NULL, 206, 26, 'a', "Content-Range: bytes 26-51/300000"},
        {"GET", "27-", NULL, 206, FILE_SIZE - 27, 'b', "ETag: \"abc123\""},
        {"GET", "-10", NULL, 206, 10, 'a' + (FILE_SIZE - 10) % 26, "bytes 299990-299999/300000"},
        {"GET", "299999-400000", NULL, 206, 1, 'a' + (FILE_SIZE - 1) % 26, "Content-Length: 1"},
        {"GET", "300000-", NULL, 416, 0, 0, "Content-Range: bytes */300000"},
        {"GET", "5-3", NULL, 200, FILE_SIZE, 'a', ""},
        {"GET", "0-1,5-6", NULL, 200, FILE_SIZE, 'a', ""},
        {"GET", NULL, "If-None-Match: W/\"abc123\"", 304, 0, 0, "ETag: \"abc123\""},
        {"GET", NULL, "If-None-Match: \"other\"", 200, FILE_SIZE, 'a', ""},
        {"GET", "1-1", "If-Range: \"abc123\"", 206, 1, 'b', ""},
        {"GET", "1-1", "If-Range: \"older\"", 200, FILE_SIZE, 'a', ""},
        {"HEAD", NULL, NULL, 200, 0, 0, "Content-Length: 300000"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct call c = {.path = "/file",
                         .method = rows[i].method,
                         .range = rows[i].range,
                         .header = rows[i].header};
        perform(*state, &c);
        assert_int_equal(c.rc, CURLE_OK);
        assert_int_equal(c.status, rows[i].status);
        if (rows[i].status != 416)
            assert_int_equal(c.text.len, rows[i].len);
        if (rows[i].first != 0)
            assert_int_equal(c.text.data[0], rows[i].first);
        assert_non_null(strstr(c.headers.data, rows[i].expect));
        call_done(&c);
    }
    struct call c = {.path = "/nofile"};
    perform(*state, &c);
    assert_int_equal(c.status, 404);
    call_done(&c);
}

static void run_keepalive(struct call *c)
{
    CURL *curl = curl_easy_init();
    for (int i = 0; i < 50; i++)
        call_once(c, curl);
    curl_easy_cleanup(curl);
}

static void keeps_connections_alive(void **state)
{
    struct fixture *f = *state;
    struct call c = {.path = "/what", .run = run_keepalive};
    perform(f, &c);
    assert_int_equal(c.connects, 1);
    assert_int_equal(c.text.len, 50 * strlen("GET|-|-|-"));
    call_done(&c);
    struct http_stats st;
    http_stats(f->server, &st);
    assert_int_equal(st.handled, 50);
}

static void many_clients_at_once(void **state)
{
    enum { CLIENTS = 16 };
    struct fixture *f = *state;
    struct call calls[CLIENTS] = {0};
    pthread_t threads[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        calls[i].f = f;
        calls[i].path = i % 2 ? "/what" : "/file";
        calls[i].over_unix = i % 3 == 0;
        calls[i].run = run_keepalive;
        strbuf_init(&calls[i].text, 32 << 20);
        strbuf_init(&calls[i].headers, 65536);
        assert_int_equal(pthread_create(&threads[i], NULL, thread_main, &calls[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        while (!atomic_load(&calls[i].done))
            loop_run_for(f->loop, 5);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(calls[i].text.len, i % 2 ? 50 * strlen("GET|-|-|-") : 50 * FILE_SIZE);
        call_done(&calls[i]);
    }
}

static void streams_grow_and_end(void **state)
{
    struct fixture *f = *state;
    struct call c = {.path = "/follow"};
    perform(f, &c);
    assert_int_equal(c.rc, CURLE_OK);
    assert_string_equal(c.text.data, "line 1\nline 2\nline 3\nline 4\nline 5\n");
    assert_int_equal(f->closed, 0);
    call_done(&c);
    loop_run_for(f->loop, 20);
    struct http_stats st;
    http_stats(f->server, &st);
    assert_int_equal(st.requests, 0);
    assert_int_equal(st.streams, 0);
}

static void run_quiet(struct call *c)
{
    static const char request[] = "GET /quiet HTTP/1.1\r\nHost: x\r\n\r\n";
    int fd = raw_connect(c->f);
    assert_int_equal(write(fd, request, sizeof request - 1), sizeof request - 1);
    char buf[512];
    c->status = read(fd, buf, sizeof buf); /* the header */
    (void)close(fd);
}

static void a_client_that_leaves_a_silent_stream_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct call c = {.run = run_quiet};
    perform(f, &c);
    assert_true(c.status > 0);
    wait_for(f, &f->closed, 1, 2000);
    assert_int_equal(f->closed, 1);
    call_done(&c);
}

static void run_lazy_reader(struct call *c)
{
    static const char request[] = "GET /flood HTTP/1.1\r\nHost: x\r\n\r\n";
    int fd = raw_connect(c->f);
    assert_int_equal(write(fd, request, sizeof request - 1), sizeof request - 1);
    for (int i = 0; i < 1000 && c->f->closed == 0; i++)
        (void)usleep(5000);
    (void)close(fd);
}

static void a_reader_that_is_too_slow_is_cut_off(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    struct call c = {.f = f, .run = run_lazy_reader};
    /* c.f->closed is read by the other thread: only as a hint to stop early, so keep it apart */
    struct fixture view = {.port = f->port};
    c.f = &view;
    assert_int_equal(pthread_create(&thread, NULL, thread_main, &c), 0);
    wait_for(f, &f->closed, 1, 4000);
    assert_int_equal(f->closed, 1);
    while (!atomic_load(&c.done))
        loop_run_for(f->loop, 50);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void run_slow_header(struct call *c)
{
    int fd = raw_connect(c->f);
    static const char drip[] = "GET /what HTTP/1.1\r\nX: ";
    c->status = 0;
    for (int i = 0; i < 60; i++) { /* a byte each 50 ms resets an idle timer, but not ours */
        char ch = i < (int)sizeof drip - 1 ? drip[i] : 'x';
        if (send(fd, &ch, 1, MSG_NOSIGNAL) != 1)
            break;
        c->status = i;
        (void)usleep(50000);
    }
    (void)close(fd);
}

static void slow_requests_are_cut_off(void **state)
{
    struct call c = {.run = run_slow_header};
    perform(*state, &c);
    assert_in_range(c.status, 5, 40);
    call_done(&c);
}

static void a_forgotten_request_gets_504(void **state)
{
    struct fixture *f = *state;
    struct call c = {.path = "/never"};
    perform(f, &c);
    assert_int_equal(c.status, 504);
    assert_non_null(f->late);
    answer_late(f); /* dropped in silence */
    call_done(&c);
}

static void run_garbage(struct call *c)
{
    static const char *const rows[] = {
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET /%00%0aab HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /what?a=%zz&&&=&%00 HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
        "\x16\x03\x01\x02",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int fd = raw_connect(c->f);
        (void)send(fd, rows[i], strlen(rows[i]), MSG_NOSIGNAL);
        (void)shutdown(fd, SHUT_WR);
        char buf[512];
        while (read(fd, buf, sizeof buf) > 0)
            ;
        (void)close(fd);
    }
    char *huge = xcalloc(1, 200001);
    memset(huge, 'h', 200000);
    memcpy(huge, "GET /what HTTP/1.1\r\nX: ", 23);
    int fd = raw_connect(c->f);
    (void)send(fd, huge, 200000, MSG_NOSIGNAL);
    (void)close(fd);
    free(huge);
}

static void garbage_does_no_harm(void **state)
{
    struct fixture *f = *state;
    struct call c = {.run = run_garbage};
    perform(f, &c);
    call_done(&c);
    struct call after = {.path = "/what"};
    perform(f, &after);
    assert_int_equal(after.status, 201);
    call_done(&after);
}

static void stopping_answers_what_is_pending(void **state)
{
    struct fixture *f = *state;
    struct call never = {.f = f, .path = "/never", .run = run_curl, .over_unix = true};
    struct call quiet = {.f = f, .path = "/quiet", .run = run_curl, .over_unix = true};
    pthread_t a, b;
    strbuf_init(&never.text, 1000);
    strbuf_init(&never.headers, 1000);
    strbuf_init(&quiet.text, 1000);
    strbuf_init(&quiet.headers, 1000);
    assert_int_equal(pthread_create(&a, NULL, thread_main, &never), 0);
    assert_int_equal(pthread_create(&b, NULL, thread_main, &quiet), 0);
    for (int i = 0; i < 400 && (f->late == NULL || f->follower == NULL); i++)
        loop_run_for(f->loop, 5);
    assert_non_null(f->late);
    assert_non_null(f->follower);
    http_server_free(f->server);
    f->server = NULL;
    assert_int_equal(pthread_join(a, NULL), 0);
    assert_int_equal(pthread_join(b, NULL), 0);
    assert_int_equal(never.status, 503);
    assert_int_equal(quiet.rc, CURLE_OK);
    assert_int_equal(f->closed, 1);
    call_done(&never);
    call_done(&quiet);
}

static void the_socket_file_is_guarded(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    struct http_listen again = {.unix_path = f->sock, .handle = handle, .user = f};
    assert_int_equal(http_listen(f->server, &again, NULL, &err), -ERR_EXISTS);
    /* a stale one, left by a killed process, is replaced */
    char stale[80];
    (void)snprintf(stale, sizeof stale, "%s/stale", f->dir);
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    (void)snprintf(sun.sun_path, sizeof sun.sun_path, "%s", stale);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof sun), 0);
    (void)close(fd);
    again.unix_path = stale;
    assert_int_equal(http_listen(f->server, &again, NULL, &err), 0);
    /* a file that is no socket is left alone */
    again.unix_path = f->file;
    assert_int_equal(http_listen(f->server, &again, NULL, &err), -ERR_EXISTS);
    struct http_listen taken = {.address = "127.0.0.1", .port = f->port, .handle = handle};
    assert_int_equal(http_listen(f->server, &taken, NULL, &err), -ERR_BUSY);
    struct http_listen name = {.address = "localhost", .handle = handle};
    assert_int_equal(http_listen(f->server, &name, NULL, &err), -ERR_INVALID);
}

static void ranges_are_parsed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t size;
        enum http_range kind;
        uint64_t first, len;
    } rows[] = {
        {NULL, 10, HTTP_RANGE_ALL, 0, 0},
        {"bytes=0-4", 10, HTTP_RANGE_PART, 0, 5},
        {"BYTES=9-", 10, HTTP_RANGE_PART, 9, 1},
        {"bytes=10-", 10, HTTP_RANGE_BAD, 0, 0},
        {"bytes=-0", 10, HTTP_RANGE_BAD, 0, 0},
        {"bytes=-99", 10, HTTP_RANGE_PART, 0, 10},
        {"bytes=0-", 0, HTTP_RANGE_BAD, 0, 0},
        {"bytes=-", 10, HTTP_RANGE_ALL, 0, 0},
        {"bytes=3", 10, HTTP_RANGE_ALL, 0, 0},
        {"lines=0-4", 10, HTTP_RANGE_ALL, 0, 0},
        {"bytes=0-99999999999999999999999999", 10, HTTP_RANGE_PART, 0, 10},
        {"bytes=99999999999999999999999999-", 10, HTTP_RANGE_BAD, 0, 0},
        {"bytes=1-2x", 10, HTTP_RANGE_ALL, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t first = 0, len = 0;
        assert_int_equal(http_range_parse(rows[i].text, rows[i].size, &first, &len), rows[i].kind);
        if (rows[i].kind == HTTP_RANGE_PART) {
            assert_int_equal(first, rows[i].first);
            assert_int_equal(len, rows[i].len);
        }
    }
    assert_true(http_etag_listed("\"a\", W/\"b\"", "b", true));
    assert_false(http_etag_listed("\"a\", W/\"b\"", "b", false));
    assert_true(http_etag_listed("*", "b", true));
    assert_false(http_etag_listed("b", "b", true));
    assert_false(http_etag_listed("\"b", "b", true));
    assert_false(http_etag_listed(NULL, "b", true));
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_parsed),
        T(passes_method_arguments_headers_and_body),
        T(answers_later_without_holding_a_thread),
        T(unix_socket_tells_the_peer_and_takes_large_bodies),
        T(refuses_bodies_over_the_limit),
        T(errors_are_json),
        T(files_with_ranges),
        T(keeps_connections_alive),
        T(many_clients_at_once),
        T(streams_grow_and_end),
        T(a_client_that_leaves_a_silent_stream_is_noticed),
        T(a_reader_that_is_too_slow_is_cut_off),
        T(slow_requests_are_cut_off),
        T(a_forgotten_request_gets_504),
        T(garbage_does_no_harm),
        T(stopping_answers_what_is_pending),
        T(the_socket_file_is_guarded),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    curl_global_cleanup();
    return rc;
}
