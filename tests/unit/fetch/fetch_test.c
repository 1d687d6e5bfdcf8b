/* The HTTP client against our HTTP server on the same loop, raw sockets, and openssl s_server. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/http.h"
#include "base/mem.h"
#include "fetch/fetch.h"

enum { PATIENCE_MS = 20000, HELD_MAX = 200 };

struct fixture {
    struct loop *loop;
    struct http_server *server;
    struct fetch_hub *hub;
    int port;
    struct http_request *held[HELD_MAX]; /* of /hold, until they are answered */
    int held_count, hold_until;
    int handled;
    int wanted, ended; /* fetches of a test */
    struct http_peer peer;
    int peer_ports[4];
};

static void answer_held(struct fixture *f)
{
    for (int i = 0; i < f->held_count; i++)
        http_respond(f->held[i], 200, "text/plain", "held", 4);
    f->held_count = 0;
}

static void handle(struct http_request *req, void *user)
{
    struct fixture *f = user;
    const char *path = http_path(req), *header = http_header(req, "X-Test");
    f->peer = *http_peer(req);
    f->peer_ports[f->handled++ % 4] = f->peer.port;
    if (strcmp(path, "/echo") == 0) {
        size_t len;
        const char *body = http_body(req, &len);
        http_add_header(req, "X-Method", http_method(req));
        http_respond(req, 200, "text/plain", body, len);
    } else if (strcmp(path, "/what") == 0) {
        char text[300];
        const char *expect = http_header(req, "Expect"), *type = http_header(req, "Content-Type");
        int n = snprintf(text, sizeof text, "%s|%s|%s|%s", http_method(req), header ? header : "-",
                         expect ? expect : "-", type ? type : "-");
        http_respond(req, 200, "text/plain", text, (size_t)n);
    } else if (strcmp(path, "/moved") == 0) {
        http_add_header(req, "Location", "/echo");
        http_respond(req, 302, NULL, NULL, 0);
    } else if (strcmp(path, "/status") == 0) {
        http_respond(req, atoi(http_arg(req, "code")), "text/plain", "no", 2);
    } else if (strcmp(path, "/large") == 0) {
        static const char large[100000];
        http_respond(req, 200, "text/plain", large, sizeof large);
    } else { /* /hold */
        assert_true(f->held_count < HELD_MAX);
        f->held[f->held_count++] = req;
        if (f->held_count == f->hold_until)
            answer_held(f);
    }
}

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    struct err err = {0};
    f->loop = loop_new();
    f->server = http_server_new(f->loop);
    struct http_listen tcp = {.handle = handle, .user = f, .max_body = 8 << 20};
    if (http_listen(f->server, &tcp, &f->port, &err) < 0)
        fail_msg("%s", err.text);
    f->hub = fetch_hub_new(f->loop, 64, &err);
    assert_non_null(f->hub);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    fetch_hub_free(f->hub);
    answer_held(f);
    http_server_free(f->server);
    assert_int_equal(loop_free(f->loop), 0);
    free(f);
    return 0;
}

/* ---- starting and waiting ---- */

static void done(struct op *op, void *user)
{
    struct fixture *f = user;
    (void)op;
    if (++f->ended == f->wanted)
        loop_stop(f->loop);
}

/* Runs the loop until the fetches started so far have ended; the caller frees them. */
static void finish(struct fixture *f, int wanted)
{
    f->wanted = wanted;
    if (f->ended < wanted)
        loop_run_for(f->loop, PATIENCE_MS);
    assert_int_equal(f->ended, wanted);
    f->ended = 0;
}

static struct fetch_op *start(struct fixture *f, const char *path, struct fetch_request *r,
                              int64_t timeout_ms)
{
    char url[200];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d%s", f->port, path);
    if (r->url == NULL)
        r->url = url;
    struct fetch_op *op = fetch_start(f->hub, r, timeout_ms, done, f);
    assert_int_equal(f->ended, 0); /* never inside start */
    return op;
}

static struct fetch_op *fetch(struct fixture *f, const char *path, struct fetch_request *r)
{
    struct fetch_op *op = start(f, path, r, PATIENCE_MS);
    finish(f, 1);
    return op;
}

/* ---- tests ---- */

static void sends_and_gets(void **state)
{
    struct fixture *f = *state;
    const char *headers[] = {"X-Test: yes", "Content-Type: application/json", NULL};
    struct fetch_request get = {.headers = headers};
    struct fetch_op *op = fetch(f, "/what", &get);
    assert_int_equal(op->op.err.code, ERR_OK);
    assert_int_equal(op->status, 200);
    assert_string_equal(op->body.data, "GET|yes|-|application/json");
    op_free(&op->op);

    static char block[2 << 20]; /* so large that curl would ask with "Expect: 100-continue" */
    memset(block, 'x', sizeof block);
    struct fetch_request post = {
        .body = block, .body_len = sizeof block, .headers = headers, .max_body = sizeof block};
    op = start(f, "/echo", &post, PATIENCE_MS);
    memset(block, 'y', sizeof block); /* the body was copied */
    finish(f, 1);
    assert_int_equal(op->op.err.code, ERR_OK);
    assert_int_equal(op->body.len, sizeof block);
    assert_int_equal(op->body.data[sizeof block - 1], 'x');
    assert_int_equal(op->bytes, sizeof block);
    op_free(&op->op);

    struct fetch_request put = {.method = "PUT", .body = "", .headers = headers};
    op = fetch(f, "/what", &put);
    assert_string_equal(op->body.data, "PUT|yes|-|application/json");
    op_free(&op->op);
    struct fetch_request head = {.method = "HEAD"};
    op = fetch(f, "/what", &head);
    assert_int_equal(op->op.err.code, ERR_OK);
    assert_int_equal(op->body.len, 0);
    op_free(&op->op);
}

static void a_status_is_no_error(void **state)
{
    struct fixture *f = *state;
    static const int codes[] = {204, 404, 410, 500, 503};
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        char path[40];
        struct fetch_request r = {0};
        (void)snprintf(path, sizeof path, "/status?code=%d", codes[i]);
        struct fetch_op *op = fetch(f, path, &r);
        assert_int_equal(op->op.err.code, ERR_OK);
        assert_int_equal(op->status, codes[i]);
        op_free(&op->op);
    }
    struct fetch_request r = {0};
    struct fetch_op *op = fetch(f, "/moved", &r); /* and is not followed */
    assert_int_equal(op->status, 302);
    op_free(&op->op);
}

static bool count(const char *data, size_t len, void *user)
{
    (void)data;
    *(size_t *)user += len;
    return true;
}
static bool refuse(const char *data, size_t len, void *user)
{
    (void)data;
    (void)len;
    (void)user;
    return false;
}

static void bodies_have_a_maximum(void **state)
{
    struct fixture *f = *state;
    struct fetch_request small = {.max_body = 99999};
    struct fetch_op *op = fetch(f, "/large", &small);
    assert_int_equal(op->op.err.code, ERR_LIMIT);
    assert_string_equal(op->op.err.text, "the answer is larger than allowed");
    assert_int_equal(op->status, 200);
    assert_true(op->body.len <= 99999);
    op_free(&op->op);
    struct fetch_request exact = {.max_body = 100000};
    op = fetch(f, "/large", &exact);
    assert_int_equal(op->op.err.code, ERR_OK);
    assert_int_equal(op->body.len, 100000);
    op_free(&op->op);

    size_t got = 0;
    struct fetch_request sink = {.max_body = 10, .sink = count, .user = &got};
    op = fetch(f, "/large", &sink);
    assert_int_equal(op->op.err.code, ERR_OK);
    assert_int_equal(got, 100000);
    assert_int_equal(op->bytes, 100000);
    assert_int_equal(op->body.len, 0);
    op_free(&op->op);
    sink.sink = refuse;
    op = fetch(f, "/large", &sink);
    assert_int_equal(op->op.err.code, ERR_LIMIT);
    op_free(&op->op);
}

/* A port on which nothing listens any more, or which listens and never accepts. */
static int raw_listener(int *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static void failures_have_codes(void **state)
{
    struct fixture *f = *state;
    int port;
    char url[80];
    int fd = raw_listener(&port);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/secret-path", port);
    struct fetch_request r = {.url = url};
    struct fetch_op *op = start(f, NULL, &r, 50); /* nobody accepts or answers */
    finish(f, 1);
    assert_int_equal(op->op.err.code, ERR_TIMEOUT);
    assert_int_equal(op->status, 0);
    op_free(&op->op);
    assert_int_equal(close(fd), 0);
    op = fetch(f, NULL, &r);
    assert_int_equal(op->op.err.code, ERR_UNREACHABLE);
    assert_non_null(strstr(op->op.err.text, "127.0.0.1"));
    assert_null(strstr(op->op.err.text, "secret-path"));
    op_free(&op->op);

    static const char *const bad[] = {"file:///etc/passwd", "gopher://127.0.0.1/", "http://",
                                      "http://127.0.0.1:99999/", "nonsense://x"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct fetch_request b = {.url = bad[i]};
        op = fetch(f, NULL, &b);
        assert_int_equal(op->op.err.code, ERR_INVALID);
        op_free(&op->op);
    }
    struct fetch_request nowhere = {.source = "203.0.113.77"}; /* no address of this machine */
    op = fetch(f, "/echo", &nowhere);
    assert_int_equal(op->op.err.code, ERR_UNREACHABLE);
    op_free(&op->op);
}

/* Answers one connection with `text` (NULL: nothing) and closes it; in a process of its own. */
static pid_t answer_raw(int fd, const char *text)
{
    pid_t pid = fork();
    if (pid == 0) {
        char buf[2000];
        int c = accept(fd, NULL, NULL);
        (void)!read(c, buf, sizeof buf);
        if (text != NULL)
            (void)!write(c, text, strlen(text));
        (void)shutdown(c, SHUT_RDWR);
        _exit(0);
    }
    return pid;
}

static void broken_answers(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        enum err_code code;
        int status;
    } cases[] = {{NULL, ERR_UNREACHABLE, 0},
                 {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", ERR_UNREACHABLE, 200},
                 {"hello, this is no HTTP\r\n", ERR_PROTOCOL, 0}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int port;
        char url[80];
        int fd = raw_listener(&port);
        pid_t pid = answer_raw(fd, cases[i].text);
        (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/", port);
        struct fetch_request r = {.url = url};
        struct fetch_op *op = fetch(f, NULL, &r);
        if (op->op.err.code != cases[i].code)
            fail_msg("case %zu: %s: %s", i, err_name(op->op.err.code), op->op.err.text);
        assert_int_equal(op->status, cases[i].status);
        op_free(&op->op);
        assert_int_equal(close(fd), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
}

static void cancelled_in_flight(void **state)
{
    struct fixture *f = *state;
    struct fetch_request r = {.body = "x", .body_len = 1};
    struct fetch_op *at_once = start(f, "/hold", &r, PATIENCE_MS);
    op_cancel(&at_once->op);
    struct fetch_op *kept = start(f, "/hold", &r, PATIENCE_MS);
    struct fetch_op *later = start(f, "/hold", &r, PATIENCE_MS);
    while (f->held_count < 2)
        loop_run_for(f->loop, 10);
    op_cancel(&later->op);
    answer_held(f);
    finish(f, 1); /* of the cancelled ones nothing is heard */
    assert_int_equal(kept->op.err.code, ERR_OK);
    assert_string_equal(kept->body.data, "held");
    loop_run_for(f->loop, 20);
    assert_int_equal(f->ended, 0);
    op_free(&kept->op);
}

static void comes_from_the_source_address(void **state)
{
    struct fixture *f = *state;
    struct fetch_request r = {.source = "127.0.0.5", .keep = true};
    struct fetch_op *op = fetch(f, "/echo", &r);
    assert_int_equal(op->op.err.code, ERR_OK);
    assert_string_equal(f->peer.address, "127.0.0.5");
    op_free(&op->op);
    struct fetch_request other = {.source = "127.0.0.6", .keep = true};
    op = fetch(f, "/echo", &other); /* not over the connection that was kept */
    assert_string_equal(f->peer.address, "127.0.0.6");
    op_free(&op->op);
}

static void connections_are_kept_when_asked(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 4; i++) {
        struct fetch_request r = {.keep = i < 2};
        struct fetch_op *op = fetch(f, "/echo", &r);
        assert_int_equal(op->op.err.code, ERR_OK);
        op_free(&op->op);
    }
    assert_int_equal(f->handled, 4);
    assert_int_equal(f->peer_ports[0], f->peer_ports[1]);
    assert_int_not_equal(f->peer_ports[2], f->peer_ports[3]);
}

static void a_hundred_at_once(void **state)
{
    struct fixture *f = *state;
    struct fetch_op *ops[100];
    f->hold_until = 64; /* the hub's maximum: so many arrive before the first is answered */
    for (int i = 0; i < 100; i++) {
        struct fetch_request r = {0};
        ops[i] = start(f, "/hold", &r, PATIENCE_MS);
    }
    while (f->handled < 64)
        loop_run_for(f->loop, 10);
    f->hold_until = 1;
    answer_held(f); /* those that came after the first 64 */
    finish(f, 100);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(ops[i]->op.err.code, ERR_OK);
        assert_string_equal(ops[i]->body.data, "held");
        op_free(&ops[i]->op);
    }
    assert_int_equal(f->handled, 100);
}

static void waiting_ones_meet_their_deadline(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    struct fetch_hub *many = f->hub;
    f->hub = fetch_hub_new(f->loop, 1, &err);
    struct fetch_request r = {0};
    struct fetch_op *first = start(f, "/hold", &r, PATIENCE_MS);
    while (f->held_count < 1)
        loop_run_for(f->loop, 10);
    struct fetch_op *second = start(f, "/hold", &r, 50);
    finish(f, 1);
    assert_int_equal(second->op.err.code, ERR_TIMEOUT);
    op_free(&second->op);
    answer_held(f);
    finish(f, 1);
    assert_int_equal(first->op.err.code, ERR_OK);
    op_free(&first->op);
    assert_int_equal(f->handled, 1);
    fetch_hub_free(f->hub);
    f->hub = many;
}

/* ---- https ---- */

static int tls_server(const char *dir, pid_t *ret_pid)
{
    char command[1000];
    int out[2], port = 0;
    (void)snprintf(command, sizeof command,
                   "cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1"
                   " -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=127.0.0.1"
                   " -addext subjectAltName=IP:127.0.0.1 >/dev/null 2>&1 &&"
                   " exec openssl s_server -accept 127.0.0.1:0 -cert cert.pem -key key.pem -www"
                   " 2>/dev/null",
                   dir);
    assert_int_equal(pipe(out), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(out[1], 1);
        (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    (void)close(out[1]);
    FILE *in = fdopen(out[0], "r");
    char line[200];
    while (port == 0 && fgets(line, sizeof line, in) != NULL) {
        const char *colon = strrchr(line, ':');
        if (strncmp(line, "ACCEPT ", 7) == 0 && colon != NULL)
            port = atoi(colon + 1);
    }
    (void)fclose(in);
    *ret_pid = pid;
    return port;
}

static void certificates_are_checked(void **state)
{
    struct fixture *f = *state;
    char dir[] = "/tmp/fetch_test.XXXXXX", url[80], ca[80], missing[80];
    pid_t pid;
    assert_non_null(mkdtemp(dir));
    int port = tls_server(dir, &pid);
    assert_true(port > 0);
    (void)snprintf(url, sizeof url, "https://127.0.0.1:%d/", port);
    (void)snprintf(ca, sizeof ca, "%s/cert.pem", dir);
    (void)snprintf(missing, sizeof missing, "%s/nothing.pem", dir);

    struct fetch_request unknown = {.url = url};
    struct fetch_op *refused = fetch(f, NULL, &unknown);
    struct fetch_request known = {.url = url, .ca_file = ca};
    struct fetch_op *taken = fetch(f, NULL, &known);
    struct fetch_request absent = {.url = url, .ca_file = missing};
    struct fetch_op *no_file = fetch(f, NULL, &absent);
    (void)snprintf(url, sizeof url, "https://127.0.0.2:%d/", f->port);
    struct fetch_request plain = {.url = url, .ca_file = ca}; /* no TLS there */
    struct fetch_op *no_tls = fetch(f, NULL, &plain);

    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    (void)unlink(ca);
    (void)snprintf(ca, sizeof ca, "%s/key.pem", dir);
    (void)unlink(ca);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(refused->op.err.code, ERR_DENIED);
    assert_int_equal(refused->status, 0);
    assert_int_equal(taken->op.err.code, ERR_OK);
    assert_int_equal(taken->status, 200);
    assert_int_equal(no_file->op.err.code, ERR_INVALID);
    assert_false(op_ok(&no_tls->op));
    op_free(&refused->op);
    op_free(&taken->op);
    op_free(&no_file->op);
    op_free(&no_tls->op);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(sends_and_gets),
        T(a_status_is_no_error),
        T(bodies_have_a_maximum),
        T(failures_have_codes),
        T(broken_answers),
        T(cancelled_in_flight),
        T(comes_from_the_source_address),
        T(connections_are_kept_when_asked),
        T(a_hundred_at_once),
        T(waiting_ones_meet_their_deadline),
        T(certificates_are_checked),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
