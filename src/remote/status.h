/*
 * What this room's programs answer from the node. A login shell may print things of its own first
 * (an rc file, a banner), so every answer is a line that starts with a marker; the node is not
 * trusted to write it well. Pure functions; fuzzed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum run_state {
    RUN_SEND,   /* send the input now */
    RUN_ABSENT, /* nothing was started under this id */
    RUN_RUNNING,
    RUN_EXITED,   /* with exit_code */
    RUN_GONE,     /* no process, no exit code */
    RUN_RESTARTED /* it was started before the node's last boot and has no exit code */
};

struct run_status {
    enum run_state state;
    int exit_code; /* -1 unless exited */
    int64_t log_size;
    int64_t pid;
};

/* Finds the first complete line "MARKER rest"; the rest is *ret_text of *ret_len bytes, and
 * *ret_next the offset behind the line. Returns 0, or -1: none yet. */
int answer_find(const char *data, size_t len, const char *marker, const char **ret_text,
                size_t *ret_len, size_t *ret_next);
/* "clusterd-run 1 STATE CODE LOGSIZE PID"; *ret_next: where the log's bytes begin. 0 or -1. */
int run_status_parse(const char *data, size_t len, struct run_status *ret_status, size_t *ret_next);
/* "clusterd-boot UUID". 0 or -1. */
int boot_id_parse(const char *data, size_t len, char ret_boot_id[40]);
