/*
 * clusterd's client, for programs that want to talk to the daemon: `clusterctl` is one of them and
 * has no other door. The wire is HTTP and JSON on a unix socket; docs/api.md lists paths and
 * shapes.
 *
 *   struct clusterd_error error;
 *   struct clusterd *c = clusterd_open(NULL);
 *   json_t *answer;
 *   if (clusterd_call(c, "GET", "/v1/status", NULL, &answer, &error) < 0)
 *       fprintf(stderr, "%s\n", error.text);
 *
 * Calls block. A handle is for one thread at a time; use one per thread. Link with libclusterd.a,
 * libcurl and libjansson.
 */
#ifndef CLUSTERD_H
#define CLUSTERD_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the daemon listens unless told otherwise, and the variable that tells otherwise. */
#define CLUSTERD_SOCKET_DEFAULT "/run/clusterd/api.sock"
#define CLUSTERD_SOCKET_VARIABLE "CLUSTERD_SOCKET"

/* A node that passed every stage shows this word as its "state". */
#define CLUSTERD_STATE_VALIDATED "validated"

#define CLUSTERD_ANSWER_MAX (256u << 20) /* bytes of one answer */
#define CLUSTERD_LINE_MAX (1u << 20)     /* bytes of one line of a stream */

/*
 * What went wrong. `code` is one of a closed list that says what a caller can do about it: invalid,
 * not-found, exists, conflict, denied, busy, limit, timeout, unreachable, auth, protocol,
 * unsupported, cancelled, io, failed, internal.
 */
struct clusterd_error {
    char code[16];
    int http_status; /* 0: no answer came */
    int exit_code;   /* what a program should exit with, as clusterctl does */
    bool retryable;  /* trying the same again later can help */
    char text[480];  /* one line for people, with the remedy where there is one */
};

struct clusterd;

/*
 * A handle for the daemon at a unix socket; nothing is connected yet. socket NULL or "": the path
 * in CLUSTERD_SOCKET, else the default. Never fails.
 */
struct clusterd *clusterd_open(const char *socket);
void clusterd_close(struct clusterd *c); /* NULL allowed */
const char *clusterd_socket(const struct clusterd *c);

/* How long clusterd_call() waits for a whole answer; 0: for ever. Default 330 s. */
void clusterd_set_timeout(struct clusterd *c, long ms);
/* Calls and streams end with the code "cancelled" within a second once *flag is set (by a signal
 * handler); NULL: never. */
void clusterd_set_stop(struct clusterd *c, const volatile sig_atomic_t *flag);

/*
 * One request. `path` with its query, already escaped (clusterd_escape). `request` (borrowed, NULL:
 * none) is sent as JSON. On success *ret_answer (NULL allowed) is the caller's, never NULL.
 * Returns 0, or -1 with *error (NULL allowed) filled.
 */
int clusterd_call(struct clusterd *c, const char *method, const char *path, const json_t *request,
                  json_t **ret_answer, struct clusterd_error *error);
/* The whole {"error": {...}} object of the last failed call where the daemon sent one (it can list
 * "problems" of a spec), else NULL. Borrowed until the next call. */
const json_t *clusterd_last_error(const struct clusterd *c);

/*
 * Follows an answer that grows. on_line gets each line without its end; it returns 0 to go on or
 * anything else to stop, which is a success. Ends with 0 when the daemon ends the stream.
 */
typedef int (*clusterd_line_fn)(const char *line, size_t len, void *user);
int clusterd_follow(struct clusterd *c, const char *path, clusterd_line_fn on_line, void *user,
                    struct clusterd_error *error);
/* The same in whatever pieces the bytes arrive. */
typedef int (*clusterd_data_fn)(const char *data, size_t len, void *user);
int clusterd_follow_bytes(struct clusterd *c, const char *path, clusterd_data_fn on_data,
                          void *user, struct clusterd_error *error);

/* `text` as it may stand in a path or query: "n[1-3]" becomes "n%5B1-3%5D". The caller frees. */
char *clusterd_escape(const char *text);

#ifdef __cplusplus
}
#endif

#endif
