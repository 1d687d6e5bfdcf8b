/* The frame of every remote_op: deadline, target, session, tries. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "remote/internal.h"

enum {
    OUT_MAX = 1 << 20,
    ERR_OUT_MAX = 1 << 16,
    PEER_MS = 30000, /* real times, see timer_set_least() */
    PAUSE_LEAST_MS = 200
};

static void job_stop(struct op *op)
{
    struct job *job = job_of(op);
    timer_cancel(&job->deadline);
    timer_cancel(&job->retry);
    command_done(&job->command);
    session_close(&job->session);
}

static void job_free(struct op *op)
{
    struct job *job = job_of(op);
    if (job->release != NULL)
        job->release(job);
    strbuf_done(&job->pub.out);
    strbuf_done(&job->pub.err_out);
    free(job->target.address);
    free(job->target.user);
    free(job->target.host_key);
    free(job);
}

static const struct op_type job_type = {"ssh", job_stop, job_free};

bool job_alive(const struct job *job)
{
    return job->pub.op.state == OP_RUNNING;
}

void job_note(struct job *job, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(job->pub.note, sizeof job->pub.note, fmt, ap);
    va_end(ap);
}

void job_end(struct job *job, const struct err *err)
{
    op_finish(&job->pub.op, err);
}

static const char *what_it_does(const struct job *job)
{
    if (job->session.phase != SESSION_CLOSED && job->session.phase != SESSION_READY)
        return session_phase_name(job->session.phase);
    return job->pub.note[0] != '\0' ? job->pub.note : "working";
}

static void on_deadline(void *user)
{
    struct job *job = user;
    struct err err = {0};
    char span[CLOCK_TEXT_SIZE];
    clock_format_duration(job->timeout_ms, span);
    if (job->last.text[0] != '\0')
        (void)err_set(&err, ERR_TIMEOUT, "not done within %s; the last try: %.400s", span,
                      job->last.text);
    else
        (void)err_set(&err, ERR_TIMEOUT, "ssh to %s: not done within %s (%s)", job->target.address,
                      span, what_it_does(job));
    job_end(job, &err);
}

static int check_target(const struct remote_target *t, struct err *err)
{
    unsigned char blob[KEY_PUBLIC_BLOB];
    if (t->address == NULL || *t->address == '\0' || t->user == NULL || *t->user == '\0')
        return err_set(err, ERR_INVALID, "ssh: address and user are needed");
    if (t->port < 0 || t->port > 65535)
        return err_set(err, ERR_INVALID, "ssh to %s: no port %d", t->address, t->port);
    if (t->key == NULL)
        return err_set(err, ERR_INVALID, "ssh to %s: no private key is configured", t->address);
    if (t->host_key == NULL || *t->host_key == '\0')
        return err_set(err, ERR_INVALID, "ssh to %s: its host key is not known yet", t->address);
    return host_key_parse(t->host_key, blob, err);
}

void *job_new(size_t size, const char *name, struct remote_hub *hub,
              const struct remote_target *target, int64_t timeout_ms, op_done_fn done, void *user)
{
    struct err err = {0};
    struct job *job = xcalloc(1, size);
    op_init(&job->pub.op, &job_type, hub->loop, 0, done, user);
    job->hub = hub;
    job->session.fd = -1;
    job->pub.exit_code = -1;
    strbuf_init(&job->pub.out, OUT_MAX);
    strbuf_init(&job->pub.err_out, ERR_OUT_MAX);
    job->timeout_ms = timeout_ms;
    job_note(job, "%s", name);
    if (check_target(target, &err) < 0) {
        job_end(job, &err);
        return job;
    }
    job->target = (struct session_target){.address = xstrdup(target->address),
                                          .port = target->port ? target->port : 22,
                                          .user = xstrdup(target->user),
                                          .host_key = xstrdup(target->host_key),
                                          .key = target->key,
                                          .lane = target->lane};
    if (timeout_ms > 0)
        timer_set_least(hub->loop, &job->deadline, timeout_ms, PEER_MS, on_deadline, job);
    return job;
}

/* ---- session and command ---- */

static void on_session_ready(void *user)
{
    struct job *job = user;
    job->ready(job);
}

static void on_session_failed(const struct err *err, void *user)
{
    struct job *job = user;
    command_done(&job->command);
    job->failed(job, err);
}

static void on_session_io(void *user)
{
    command_io_ready(&job_of(user)->command);
}

static void on_command_failed(const struct err *err, void *user)
{
    struct job *job = user;
    job->failed(job, err);
}

void job_connect(struct job *job, job_fn ready,
                 void (*failed)(struct job *job, const struct err *err))
{
    job->ready = ready;
    job->failed = failed;
    struct session_owner owner = {on_session_ready, on_session_failed, on_session_io, job};
    session_open(&job->session, job->hub, &job->target, &owner);
}

void job_command(struct job *job, const char *text, struct command_io io)
{
    io.failed = on_command_failed;
    io.user = job;
    command_start(&job->command, &job->session, text, &io);
}

/* ---- again ---- */

static void on_retry(void *user)
{
    struct job *job = user;
    job->retry_fn(job);
}

void job_retry(struct job *job, const struct err *why, int64_t delay_ms, job_fn fn)
{
    command_done(&job->command);
    session_close(&job->session);
    if (why != NULL) {
        job->last = *why;
        job->tries++;
        job_note(job, "%s", why->text);
    }
    job->retry_fn = fn;
    timer_set_least(job->hub->loop, &job->retry, delay_ms, PAUSE_LEAST_MS, on_retry, job);
}

bool job_can_retry(const struct err *err)
{
    return err->code != ERR_DENIED && err->code != ERR_AUTH && err->code != ERR_INVALID;
}

int64_t job_backoff(const struct job *job)
{
    int shift = job->tries < 4 ? job->tries : 4;
    return (int64_t)500 << shift;
}

void last_line(const struct strbuf *text, char *buf, size_t size)
{
    size_t end = text->len;
    while (end > 0 && (unsigned char)text->data[end - 1] <= ' ')
        end--;
    size_t from = end;
    while (from > 0 && text->data[from - 1] != '\n' && end - from < size - 1)
        from--;
    size_t n = 0;
    for (size_t i = from; i < end && n < size - 1; i++)
        buf[n++] = (unsigned char)text->data[i] < ' ' ? ' ' : text->data[i];
    buf[n] = '\0';
}
