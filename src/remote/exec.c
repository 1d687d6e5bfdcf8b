/* One command, once: what was started and lost its connection is not started again. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "remote/internal.h"

/* Output above the buffers' maximum is read and dropped, but not without end. */
enum { DROPPED_MAX = 64 << 20 };

struct exec {
    struct job job; /* first */
    char *command;
    char *input;
    size_t input_len, input_done;
    size_t received;
};

static ssize_t on_source(char *buf, size_t max, void *user)
{
    struct exec *x = user;
    size_t n = x->input_len - x->input_done;
    if (n == 0)
        return -1;
    if (n > max)
        n = max;
    memcpy(buf, x->input + x->input_done, n);
    x->input_done += n;
    return (ssize_t)n;
}

static void on_sink(bool is_stderr, const char *data, size_t len, void *user)
{
    struct exec *x = user;
    strbuf_add(is_stderr ? &x->job.pub.err_out : &x->job.pub.out, data, len);
    x->received += len;
    if (x->received > DROPPED_MAX) {
        struct err err = {0};
        (void)err_set(&err, ERR_LIMIT, "%s: the command wrote more than %d MiB and was ended",
                      x->job.target.address, DROPPED_MAX >> 20);
        job_end(&x->job, &err);
    }
}

static void on_ended(int exit_code, const char *signal, void *user)
{
    struct exec *x = user;
    struct err err = {0};
    char line[200];
    x->job.pub.exit_code = exit_code;
    last_line(&x->job.pub.err_out, line, sizeof line);
    const char *colon = line[0] != '\0' ? ": " : "";
    if (signal != NULL)
        (void)err_set(&err, ERR_FAILED, "%s: the command was ended by signal %s%s%s",
                      x->job.target.address, signal, colon, line);
    else if (exit_code != 0)
        (void)err_set(&err, ERR_FAILED, "%s: the command exited with %d%s%s", x->job.target.address,
                      exit_code, colon, line);
    job_end(&x->job, &err);
}

static void on_ready(struct job *job)
{
    struct exec *x = (struct exec *)job;
    job_note(job, "running a command");
    job_command(job, x->command,
                (struct command_io){.source = x->input_len > 0 ? on_source : NULL,
                                    .sink = on_sink,
                                    .ended = on_ended});
}

static void release(struct job *job)
{
    struct exec *x = (struct exec *)job;
    free(x->command);
    mem_wipe_free(x->input, x->input_len);
}

struct remote_op *remote_exec(struct remote_hub *hub, const struct remote_target *target,
                              const char *command, const void *input, size_t input_len,
                              int64_t timeout_ms, op_done_fn done, void *user)
{
    struct err err = {0};
    struct exec *x = job_new(sizeof *x, "exec", hub, target, timeout_ms, done, user);
    x->job.release = release;
    x->command = xstrdup(command);
    if (input != NULL && input_len > 0) {
        x->input = xmemdup(input, input_len);
        x->input_len = input_len;
    }
    if (strlen(command) > COMMAND_TEXT_MAX) {
        (void)err_set(&err, ERR_LIMIT, "a command of %zu bytes is too long (the most is %d)",
                      strlen(command), COMMAND_TEXT_MAX);
        job_end(&x->job, &err);
    }
    if (job_alive(&x->job))
        job_connect(&x->job, on_ready, job_end);
    return &x->job.pub;
}
