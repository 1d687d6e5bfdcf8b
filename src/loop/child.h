/*
 * Child processes as ops: own process group, closed descriptors, bounded output, a kill timer.
 *
 * Secrets go to a child through a pipe that it reads as /dev/fd/3 (child_spec.secret), never by
 * argv or environment. stdin is /dev/null.
 */
#pragma once

#include <stddef.h>

#include "base/strbuf.h"
#include "loop/op.h"

struct child_spec {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH */
    const char *const *envp; /* NULL: a minimal environment (PATH, LANG=C) */
    const void *secret;      /* readable by the child on descriptor 3; NULL: none */
    size_t secret_len;
    size_t max_output; /* of stdout and of stderr; 0: 1 MiB */
    /* Called for each line of stderr/stdout when set, instead of collecting (long-lived children).
     */
    void (*on_line)(const char *line, void *user);
    void *line_user;
};

struct child {
    struct op op;
    int pid;
    int exit_code; /* valid in done when exited by itself */
    int term_signal;
    struct strbuf out;
    struct strbuf err_out;
    void *priv;
};

/*
 * Starts a child; done() gets ERR_OK when it exited 0, ERR_FAILED for another exit code or signal
 * (see exit_code, out, err_out), ERR_TIMEOUT after timeout_ms (0: no limit), when the whole group
 * is killed. Cancel kills the group. Returns NULL with *err set when it could not be started.
 */
struct child *child_start(struct loop *loop, const struct child_spec *spec, int64_t timeout_ms,
                          op_done_fn done, void *user, struct err *err);
/* Sends a signal to the child itself. */
void child_signal(struct child *child, int signum);
