/* Until a login works and the boot id can be read. */
#include <string.h>

#include "remote/internal.h"
#include "remote/status.h"

enum { PAUSE_MS = 2000, ANSWER_MS = 15000, ANSWER_MAX = 8192 };

#define BOOT_PROGRAM "echo; echo clusterd-boot $(cat /proc/sys/kernel/random/boot_id)"

static void try_again(struct job *job, const struct err *err);

static void on_sink(bool is_stderr, const char *data, size_t len, void *user)
{
    struct job *job = user;
    if (!is_stderr)
        strbuf_add(&job->pub.out, data, len);
}

static void on_ended(int exit_code, const char *signal, void *user)
{
    struct job *job = user;
    struct err err = {0};
    (void)signal;
    if (exit_code == 0 &&
        boot_id_parse(job->pub.out.data, job->pub.out.len, job->pub.boot_id) == 0) {
        job->pub.exit_code = 0;
        job_end(job, NULL);
        return;
    }
    (void)err_set(
        &err, ERR_PROTOCOL,
        "ssh to %s: the login works, but the node's boot id cannot be read (exit code %d)",
        job->target.address, exit_code);
    try_again(job, &err);
}

static void on_ready(struct job *job)
{
    struct strbuf sb;
    job_note(job, "reading the boot id");
    strbuf_reset(&job->pub.out);
    strbuf_init(&sb, COMMAND_TEXT_MAX);
    command_format(&sb, BOOT_PROGRAM, NULL, 0);
    job->command.quiet_ms = ANSWER_MS;
    job_command(job, sb.data, (struct command_io){.sink = on_sink, .ended = on_ended});
    strbuf_done(&sb);
}

static void connect_again(struct job *job)
{
    job_connect(job, on_ready, try_again);
}

static void try_again(struct job *job, const struct err *err)
{
    if (job_can_retry(err))
        job_retry(job, err, PAUSE_MS, connect_again);
    else
        job_end(job, err);
}

struct remote_op *remote_wait(struct remote_hub *hub, const struct remote_target *target,
                              int64_t timeout_ms, op_done_fn done, void *user)
{
    struct job *job = job_new(sizeof *job, "wait", hub, target, timeout_ms, done, user);
    job->pub.out.max = ANSWER_MAX;
    if (job_alive(job)) {
        job_note(job, "waiting for ssh on %s", job->target.address);
        connect_again(job);
    }
    return &job->pub;
}
