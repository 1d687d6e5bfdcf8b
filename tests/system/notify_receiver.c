/*
 * A receiver of webhooks, for notify.t: notify_receiver DIR
 *
 * Writes its port to DIR/port. DIR/answer says what it answers: a status, and optionally to how
 * many requests until it is 200 again ("500 2"); 0: no answer at all. Each request goes to
 * DIR/N.body, and a line "N STATUS PATH EVENT DELIVERY TIMESTAMP SIGNATURE" to DIR/requests ("-":
 * absent).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/http.h"
#include "base/fsutil.h"
#include "base/mem.h"

struct receiver {
    const char *dir;
    int count;
};

static int next_status(struct receiver *r)
{
    char *path cleanup_free = xasprintf("%s/answer", r->dir), *text = NULL;
    int status = 200, times = -1;
    if (fs_read(path, 100, &text, NULL, NULL) < 0)
        return 200;
    if (sscanf(text, "%d %d", &status, &times) == 2) {
        char *left cleanup_free = xasprintf("%d %d\n", status, times - 1);
        if (times <= 0)
            status = 200;
        else
            (void)fs_write_atomic(path, left, strlen(left), 0600, NULL);
    }
    free(text);
    return status;
}

static const char *header(struct http_request *req, const char *name)
{
    const char *value = http_header(req, name);
    return value != NULL ? value : "-";
}

static void handle(struct http_request *req, void *user)
{
    struct receiver *r = user;
    size_t len;
    const char *body = http_body(req, &len);
    int status = next_status(r);
    char *file cleanup_free = xasprintf("%s/%d.body", r->dir, ++r->count);
    char *list cleanup_free = xasprintf("%s/requests", r->dir);
    (void)fs_write_atomic(file, body, len, 0600, NULL);
    FILE *out = fopen(list, "a");
    if (out != NULL) {
        fprintf(out, "%d %d %s %s %s %s %s\n", r->count, status, http_path(req),
                header(req, "X-Clusterd-Event"), header(req, "X-Clusterd-Delivery"),
                header(req, "X-Clusterd-Timestamp"), header(req, "X-Clusterd-Signature"));
        (void)fclose(out);
    }
    if (status != 0)
        http_respond(req, status, "text/plain", "thanks\n", 7);
}

static void on_signal(int signum, void *user)
{
    (void)signum;
    loop_stop(user);
}

int main(int argc, char **argv)
{
    struct receiver r = {.dir = argc > 1 ? argv[1] : "."};
    struct err err = {0};
    char text[20];
    int port;
    char *file cleanup_free = xasprintf("%s/port", r.dir);
    struct loop *loop = loop_new();
    struct http_server *server = http_server_new(loop);
    struct http_listen listen = {.address = "127.0.0.1", .handle = handle, .user = &r};
    if (loop_on_signal(loop, SIGTERM, on_signal, loop, &err) < 0 ||
        http_listen(server, &listen, &port, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    (void)snprintf(text, sizeof text, "%d\n", port);
    (void)fs_write_atomic(file, text, strlen(text), 0600, NULL);
    loop_run(loop);
    http_server_free(server);
    return loop_free(loop);
}
