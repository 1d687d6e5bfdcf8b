/*
 * Detached runs, seen from here; programs.c has the other half and says why nothing is started
 * twice. This side may therefore repeat everything: it connects, starts or attaches, then asks for
 * the status and the new part of the log every half second, and when the connection breaks it does
 * the same again after a pause, until the exit code is there or the time is over.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "remote/internal.h"
#include "remote/programs.h"
#include "remote/status.h"

enum {
    POLL_MS = 500,
    POLL_LEAST_MS = 200,  /* of real time; timer_set_least() */
    POLL_QUIET_MS = 2000, /* after a minute without anything new */
    QUIET_AFTER_MS = 60000,
    ANSWER_MS = 30000,       /* the longest that one of the programs may be silent */
    YIELD_LEAST_MS = 4000,   /* of real time: a login is work for both sides */
    YIELD_AFTER_MS = 10000,  /* then others who wait for a session get it */
    CHUNK_MAX = 256 << 10,   /* of the log, for each question */
    BEHIND_MAX = 4 << 20,    /* more unread than this is skipped, all but the end */
    TAIL_MAX = 64 << 10,     /* what is kept for the owner */
    PREAMBLE_MAX = 16 << 10, /* what a login shell may print before our answer */
    SCRIPT_MAX = 4 << 20,
    ENV_MAX = 128 << 10
};

struct run {
    struct job job;  /* first */
    job_fn on_ready; /* what the login is for: start or poll, or kill */
    char *id;
    char *input; /* env, then script; a secret */
    size_t input_room, input_len, env_len, input_done;
    bool may_send;
    bool started; /* seen at least once: never ask for a start again */
    int64_t offset;
    int64_t last_news;
    struct strbuf answer;
    void (*on_log)(const char *data, size_t len, void *user);
    void *log_user;
};

static void connect_job(struct job *job);
static void poll_now(struct job *job);

static void on_failed(struct job *job, const struct err *err)
{
    if (job_can_retry(err))
        job_retry(job, err, job_backoff(job), connect_job);
    else
        job_end(job, err);
}

static void end_with(struct run *r, const char *what)
{
    struct err err = {0};
    (void)err_set(&err, ERR_FAILED, "%s: run %s: %s", r->job.target.address, r->id, what);
    job_end(&r->job, &err);
}

/* ---- the log ---- */

static void keep_tail(struct strbuf *out, const char *data, size_t len)
{
    if (len >= out->max) {
        data += len - out->max;
        len = out->max;
    }
    if (out->len + len > out->max)
        strbuf_consume(out, out->len + len - out->max);
    strbuf_add(out, data, len);
}

/* The last act of a callback: the owner may cancel the op from on_log. */
static void hand_out(struct run *r, char *data, size_t len)
{
    if (len > 0 && r->on_log != NULL)
        r->on_log(data, len, r->log_user);
    free(data);
}

/* Takes the log's bytes out of an answer; behind a flood it jumps. The caller hands *ret_data out.
 */
static size_t take_log(struct run *r, size_t from, int64_t size, char **ret_data)
{
    struct strbuf text;
    strbuf_init(&text, CHUNK_MAX + 100);
    size_t len = r->answer.len - from;
    if (len > 0) {
        strbuf_add(&text, r->answer.data + from, len);
        r->offset += (int64_t)len;
    }
    if (size - r->offset > BEHIND_MAX) {
        int64_t skipped = size - r->offset - TAIL_MAX;
        strbuf_addf(&text, "\n[... %lld bytes of the log skipped ...]\n", (long long)skipped);
        r->offset += skipped;
    }
    if (text.len > 0) {
        keep_tail(&r->job.pub.out, text.data, text.len);
        r->last_news = loop_now(r->job.hub->loop);
    }
    len = text.len;
    *ret_data = strbuf_take(&text);
    return len;
}

/* ---- answers ---- */

static void on_poll_timer(void *user)
{
    poll_now(user);
}

static void ask_again(struct run *r, int64_t delay_ms)
{
    timer_set_least(r->job.hub->loop, &r->job.retry, delay_ms, POLL_LEAST_MS, on_poll_timer, r);
}

static void end_exited(struct run *r, int code)
{
    char text[160], line[100];
    r->job.pub.exit_code = code;
    if (code == 0) {
        job_end(&r->job, NULL);
        return;
    }
    last_line(&r->job.pub.out, line, sizeof line);
    (void)snprintf(text, sizeof text, "the script exited with %d%s%s", code,
                   line[0] != '\0' ? ": " : "", line);
    end_with(r, text);
}

/* `moved`: there may be more of the log than was seen so far. */
static void judge(struct run *r, const struct run_status *st, bool moved)
{
    bool more = moved && st->log_size > r->offset;
    int64_t quiet = loop_now(r->job.hub->loop) - r->last_news;
    switch (st->state) {
    case RUN_RUNNING:
        ask_again(r, more ? 0 : quiet > QUIET_AFTER_MS ? POLL_QUIET_MS : POLL_MS);
        return;
    case RUN_EXITED:
    case RUN_GONE:
    case RUN_RESTARTED:
        if (more)
            ask_again(r, 0); /* all of the log before the end */
        else if (st->state == RUN_EXITED)
            end_exited(r, st->exit_code);
        else if (st->state == RUN_GONE)
            end_with(r, "it ended without an exit code; something killed it (out of memory?)");
        else
            end_with(r, "the node was restarted while it went on");
        return;
    case RUN_ABSENT:
    case RUN_SEND:
        break;
    }
    end_with(r, "its files on the node have disappeared");
}

static void on_sink(bool is_stderr, const char *data, size_t len, void *user)
{
    struct run *r = user;
    struct run_status st;
    size_t next;
    if (is_stderr) {
        strbuf_add(&r->job.pub.err_out, data, len);
        return;
    }
    strbuf_add(&r->answer, data, len);
    if (r->started || r->may_send ||
        run_status_parse(r->answer.data, r->answer.len, &st, &next) < 0 || st.state != RUN_SEND)
        return;
    r->may_send = true;
    strbuf_reset(&r->answer);
    command_wake(&r->job.command);
}

/* Returns 0 and the status, or -1 when the job goes on in another way. `final`: what the node says
 * about its disk or its programs will not change by asking again. */
static int check_answer(struct run *r, int exit_code, bool final, struct run_status *ret_st,
                        size_t *ret_next)
{
    struct err err = {0};
    char line[160];
    if (exit_code == 0 && run_status_parse(r->answer.data, r->answer.len, ret_st, ret_next) == 0) {
        r->job.tries = 0;
        err_clear(&r->job.last);
        return 0;
    }
    last_line(&r->job.pub.err_out, line, sizeof line);
    (void)err_set(&err, exit_code > 0 ? ERR_FAILED : ERR_PROTOCOL,
                  "%s: run %s: the node's answer is no good (exit code %d)%s%s",
                  r->job.target.address, r->id, exit_code, line[0] != '\0' ? ": " : "", line);
    if (exit_code > 0 && final)
        job_end(&r->job, &err);
    else
        on_failed(&r->job, &err);
    return -1;
}

static void on_start_ended(int exit_code, const char *signal, void *user)
{
    struct run *r = user;
    struct run_status st;
    size_t next;
    struct err err = {0};
    (void)signal;
    if (check_answer(r, exit_code, true, &st, &next) < 0)
        return;
    if (st.state == RUN_ABSENT || st.state == RUN_SEND) {
        (void)err_set(&err, ERR_BUSY, "%s: run %s does not begin yet", r->job.target.address,
                      r->id);
        on_failed(&r->job, &err);
        return;
    }
    r->started = r->job.pub.began = true;
    r->last_news = loop_now(r->job.hub->loop);
    job_note(&r->job, "run %s goes on, pid %lld on the node", r->id, (long long)st.pid);
    judge(r, &st, true);
}

static void on_poll_ended(int exit_code, const char *signal, void *user)
{
    struct run *r = user;
    struct run_status st;
    size_t next;
    char *data = NULL;
    (void)signal;
    if (check_answer(r, exit_code, false, &st, &next) < 0)
        return;
    size_t len = take_log(r, next, st.log_size, &data);
    job_note(&r->job, "run %s goes on, pid %lld on the node, %lld bytes of log", r->id,
             (long long)st.pid, (long long)st.log_size);
    judge(r, &st, len > 0);
    hand_out(r, data, len);
}

/* ---- questions ---- */

static void ask(struct run *r, const char *program, const char *const *args, int count,
                struct command_io io)
{
    struct strbuf text;
    strbuf_reset(&r->answer);
    strbuf_reset(&r->job.pub.err_out);
    strbuf_init(&text, COMMAND_TEXT_MAX);
    command_format(&text, program, args, count);
    r->job.command.quiet_ms = ANSWER_MS;
    io.sink = on_sink;
    job_command(&r->job, text.data, io);
    strbuf_done(&text);
}

static ssize_t on_source(char *buf, size_t max, void *user)
{
    struct run *r = user;
    size_t n = r->input_len - r->input_done;
    if (!r->may_send)
        return 0;
    if (n == 0)
        return -1;
    if (n > max)
        n = max;
    memcpy(buf, r->input + r->input_done, n);
    r->input_done += n;
    return (ssize_t)n;
}

static void ask_start(struct run *r)
{
    char env_len[24], input_len[24];
    (void)snprintf(env_len, sizeof env_len, "%zu", r->env_len);
    (void)snprintf(input_len, sizeof input_len, "%zu", r->input_len);
    r->may_send = false;
    r->input_done = 0;
    ask(r, run_start_program, (const char *const[]){r->id, env_len, input_len}, 3,
        (struct command_io){.source = on_source, .ended = on_start_ended});
}

static void poll_now(struct job *job)
{
    struct run *r = (struct run *)job;
    char offset[24], max[24];
    /* a run can take hours: it does not keep others from their minutes */
    if (job->hub->sessions.waiting > 0 &&
        loop_now(job->hub->loop) - job->session.ready_since >
            loop_least(job->hub->loop, YIELD_AFTER_MS, YIELD_LEAST_MS)) {
        job_retry(job, NULL, 0, connect_job);
        return;
    }
    (void)snprintf(offset, sizeof offset, "%lld", (long long)r->offset);
    (void)snprintf(max, sizeof max, "%d", CHUNK_MAX);
    ask(r, run_poll_program, (const char *const[]){r->id, offset, max}, 3,
        (struct command_io){.ended = on_poll_ended});
}

static void on_ready(struct job *job)
{
    struct run *r = (struct run *)job;
    if (r->started) {
        poll_now(job);
        return;
    }
    job_note(job, "starting run %s", r->id);
    ask_start(r);
}

static void connect_job(struct job *job)
{
    job_connect(job, ((struct run *)job)->on_ready, on_failed);
}

/* ---- making one ---- */

static void release(struct job *job)
{
    struct run *r = (struct run *)job;
    mem_wipe_free(r->input, r->input_room);
    strbuf_done(&r->answer);
    free(r->id);
}

static bool is_name(const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_')
        return false;
    while (isalnum((unsigned char)*name) || *name == '_')
        name++;
    return *name == '\0';
}

static int check_id(const char *id, struct err *err)
{
    size_t len = strlen(id);
    if (len < 1 || len > 64 || id[0] == '.' ||
        id[strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")] != '\0')
        return err_set(err, ERR_INVALID,
                       "a run's id has 1 to 64 of A-Z a-z 0-9 . _ - and no '.' in front");
    return 0;
}

static char *put(char *p, const char *text)
{
    size_t len = strlen(text);
    memcpy(p, text, len);
    return p + len;
}

/* "export NAME='value'"; p has room for four bytes for each of the value. */
static char *put_variable(char *p, const char *name, const char *value)
{
    p = put(put(put(p, "export "), name), "='");
    for (; *value != '\0'; value++)
        if (*value == '\'')
            p = put(p, "'\\''");
        else
            *p++ = *value;
    return put(p, "'\n");
}

/* One buffer of the largest size that may be needed: the values can be secrets, and a buffer that
 * grows leaves copies behind. */
static int make_input(struct run *r, const struct remote_run_spec *spec, struct err *err)
{
    size_t room = 0;
    for (int i = 0; i < spec->var_count; i++) {
        if (!is_name(spec->names[i]))
            return err_set(err, ERR_INVALID, "'%.60s' is no name for a variable", spec->names[i]);
        room += strlen("export =''\n") + strlen(spec->names[i]) + 4 * strlen(spec->values[i]);
    }
    if (room > ENV_MAX || spec->script_len > SCRIPT_MAX)
        return err_set(err, ERR_LIMIT, "run %s: script or variables are too large", r->id);
    r->input_room = room + spec->script_len + 1;
    r->input = xcalloc(1, r->input_room);
    char *p = r->input;
    for (int i = 0; i < spec->var_count; i++)
        p = put_variable(p, spec->names[i], spec->values[i]);
    r->env_len = (size_t)(p - r->input);
    r->input_len = r->env_len + spec->script_len;
    if (spec->script_len > 0)
        memcpy(p, spec->script, spec->script_len);
    return 0;
}

static struct run *run_new(struct remote_hub *hub, const struct remote_target *target, job_fn ready,
                           const char *id, int64_t timeout_ms, op_done_fn done, void *user)
{
    struct err err = {0};
    struct run *r = job_new(sizeof *r, "run", hub, target, timeout_ms, done, user);
    r->job.release = release;
    r->on_ready = ready;
    r->job.pub.out.max = TAIL_MAX;
    r->id = xstrdup(id);
    strbuf_init(&r->answer, PREAMBLE_MAX + CHUNK_MAX);
    if (check_id(id, &err) < 0)
        job_end(&r->job, &err);
    return r;
}

struct remote_op *remote_run(struct remote_hub *hub, const struct remote_target *target,
                             const struct remote_run_spec *spec, int64_t timeout_ms,
                             op_done_fn done, void *user)
{
    struct err err = {0};
    struct run *r = run_new(hub, target, on_ready, spec->id, timeout_ms, done, user);
    r->on_log = spec->on_log;
    r->log_user = spec->log_user;
    if (make_input(r, spec, &err) < 0)
        job_end(&r->job, &err);
    if (job_alive(&r->job))
        connect_job(&r->job);
    return &r->job.pub;
}

/* ---- kill ---- */

static void on_kill_ended(int exit_code, const char *signal, void *user)
{
    struct run *r = user;
    struct run_status st;
    size_t next;
    (void)signal;
    if (check_answer(r, exit_code, true, &st, &next) < 0)
        return;
    r->job.pub.exit_code = st.exit_code;
    if (st.state == RUN_RUNNING)
        end_with(r, "still there after SIGKILL (a process waits for a disk or a device)");
    else
        job_end(&r->job, NULL);
}

static void on_kill_ready(struct job *job)
{
    struct run *r = (struct run *)job;
    r->started = true; /* no input to send */
    job_note(job, "ending run %s", r->id);
    ask(r, run_kill_program, (const char *const[]){r->id}, 1,
        (struct command_io){.ended = on_kill_ended});
}

struct remote_op *remote_run_kill(struct remote_hub *hub, const struct remote_target *target,
                                  const char *id, int64_t timeout_ms, op_done_fn done, void *user)
{
    struct run *r = run_new(hub, target, on_kill_ready, id, timeout_ms, done, user);
    if (job_alive(&r->job))
        connect_job(&r->job);
    return &r->job.pub;
}
