/* One command on a session: a channel, its stdin, its output, its exit code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "remote/internal.h"

enum {
    PEER_MS = 10000, /* of real time; timer_set_least() */
    OUT_CHUNK = 32768,
    IN_CHUNK = 16384,
    STEPS_PER_TURN = 16 /* chunks in or out before the rest of the loop has its turn */
};

static void step(struct command *c);

static void on_again(void *user)
{
    step(user);
}

static void on_quiet(void *user)
{
    struct command *c = user;
    struct command_io io = c->io;
    struct err err = {0};
    (void)err_set(&err, ERR_UNREACHABLE, "ssh to %s: no answer for %lld s",
                  c->session->target->address, (long long)c->quiet_ms / 1000);
    command_done(c);
    session_close(c->session);
    io.failed(&err, io.user);
}

void command_done(struct command *c)
{
    timer_cancel(&c->again);
    timer_cancel(&c->quiet);
    free(c->text);
    mem_wipe_free(c->out, OUT_CHUNK); /* input can be secret */
    c->text = NULL;
    c->out = NULL;
    c->channel = NULL; /* freed with the session when it was still there */
    c->phase = COMMAND_IDLE;
}

static void fail(struct command *c, const char *what)
{
    struct command_io io = c->io;
    struct err err = {0};
    (void)session_error(c->session, what, &err);
    command_done(c);
    session_close(c->session);
    io.failed(&err, io.user);
}

static void wait_for_more(struct command *c)
{
    session_watch(c->session, c->phase == COMMAND_DATA && c->sending == COMMAND_FREE_TO_SEND);
}

static bool send_is_blocked(const struct command *c)
{
    return (libssh2_session_block_directions(c->session->ssh) & LIBSSH2_SESSION_BLOCK_OUTBOUND) !=
           0;
}

/* ---- data ---- */

/* Fills `out` when it is empty. Returns false when there is nothing to send now. */
static bool fill(struct command *c)
{
    if (c->out_done < c->out_len)
        return true;
    if (c->in_ended)
        return false;
    ssize_t n = c->io.source == NULL ? -1 : c->io.source(c->out, OUT_CHUNK, c->io.user);
    if (n == 0 || c->phase != COMMAND_DATA)
        return false;
    if (n > 0) {
        c->out_len = (size_t)n;
        c->out_done = 0;
        return true;
    }
    c->out_len = c->out_done = 0; /* the end: an empty buffer stands for it */
    return true;
}

/* Returns 1: something was sent, 0: nothing to send or not now, -1: failed (reported). */
static int send_some(struct command *c)
{
    if (c->sending == COMMAND_SENDS_WINDOW || c->in_ended || !fill(c))
        return 0;
    bool at_end = c->out_len == 0;
    ssize_t n =
        at_end ? libssh2_channel_send_eof(c->channel)
               : libssh2_channel_write(c->channel, c->out + c->out_done, c->out_len - c->out_done);
    c->sending = COMMAND_FREE_TO_SEND;
    if (n == LIBSSH2_ERROR_EAGAIN) {
        if (send_is_blocked(c))
            c->sending = COMMAND_SENDS_DATA;
        return 0;
    }
    if (n == LIBSSH2_ERROR_CHANNEL_CLOSED || n == LIBSSH2_ERROR_CHANNEL_EOF_SENT || at_end) {
        c->in_ended = true;
        c->out_len = c->out_done = 0;
        return n < 0 ? 0 : 1;
    }
    if (n < 0) {
        fail(c, "sending input");
        return -1;
    }
    c->out_done += (size_t)n;
    return n > 0 ? 1 : 0;
}

static int receive_some(struct command *c, int stream)
{
    char buf[IN_CHUNK];
    if (c->sending == COMMAND_SENDS_DATA)
        return 0;
    ssize_t n = libssh2_channel_read_ex(c->channel, stream, buf, sizeof buf);
    c->sending = COMMAND_FREE_TO_SEND;
    if (n == LIBSSH2_ERROR_EAGAIN) {
        if (send_is_blocked(c))
            c->sending = COMMAND_SENDS_WINDOW;
        return 0;
    }
    if (n < 0) {
        fail(c, "reading output");
        return -1;
    }
    if (n > 0 && c->io.sink != NULL)
        c->io.sink(stream != 0, buf, (size_t)n, c->io.user);
    return n > 0 ? 1 : 0;
}

/*
 * Each call into libssh2 takes whatever the socket holds, for whom ever it is: looking for errors
 * can bring output and the end, and a wider window that the sending before it lacked. The socket
 * says nothing of that any more, so waiting for it would be waiting for ever.
 */
static bool more_came(const struct command *c)
{
    if (c->sending != COMMAND_FREE_TO_SEND)
        return false;
    return libssh2_poll_channel_read(c->channel, 0) > 0 ||
           libssh2_poll_channel_read(c->channel, 1) > 0 ||
           (c->out_done < c->out_len && libssh2_channel_window_write(c->channel) > 0);
}

static void step_data(struct command *c)
{
    for (int i = 0; i < STEPS_PER_TURN; i++) {
        int moved = 0;
        for (int what = 0; what < 3; what++) {
            int n = what == 0 ? send_some(c) : receive_some(c, what - 1);
            if (n < 0 || c->phase != COMMAND_DATA)
                return;
            moved += n;
        }
        if (c->sending == COMMAND_FREE_TO_SEND && libssh2_channel_eof(c->channel) == 1) {
            c->phase = COMMAND_CLOSE;
            return;
        }
        if (moved == 0 && !more_came(c)) {
            wait_for_more(c);
            return;
        }
    }
    session_idle(c->session);
    timer_set(c->session->hub->loop, &c->again, 1, on_again, c);
}

/* ---- the steps around it ---- */

static void step_open(struct command *c)
{
    LIBSSH2_SESSION *ssh = c->session->ssh;
    c->channel = libssh2_channel_open_session(ssh);
    if (c->channel != NULL)
        c->phase = COMMAND_EXEC;
    else if (libssh2_session_last_errno(ssh) == LIBSSH2_ERROR_EAGAIN)
        wait_for_more(c);
    else
        fail(c, "opening a channel");
}

static void step_exec(struct command *c)
{
    int rc = libssh2_channel_process_startup(c->channel, "exec", 4, c->text,
                                             (unsigned int)strlen(c->text));
    if (rc == LIBSSH2_ERROR_EAGAIN)
        wait_for_more(c);
    else if (rc != 0)
        fail(c, "starting a command");
    else
        c->phase = COMMAND_DATA;
}

static void read_outcome(struct command *c)
{
    char *name = NULL;
    size_t len = 0;
    c->exit_code = libssh2_channel_get_exit_status(c->channel);
    (void)libssh2_channel_get_exit_signal(c->channel, &name, &len, NULL, NULL, NULL, NULL);
    if (name != NULL) {
        (void)snprintf(c->signal, sizeof c->signal, "%.*s", len < 20 ? (int)len : 20, name);
        c->exit_code = -1;
        libssh2_free(c->session->ssh, name);
    }
}

/* libssh2 has 0 for an exit code that never came: only the server's own close proves that it was
 * said, so a connection that breaks before is a failure and not a success. */
static void step_close(struct command *c)
{
    int rc = 0;
    if (!c->closed)
        rc = libssh2_channel_wait_closed(c->channel);
    if (rc == 0 && !c->closed) {
        c->closed = true;
        read_outcome(c);
    }
    if (rc == 0)
        rc = libssh2_channel_close(c->channel);
    if (rc == LIBSSH2_ERROR_EAGAIN)
        wait_for_more(c);
    else if (rc != 0 && !c->closed)
        fail(c, "waiting for the exit code");
    else
        c->phase = COMMAND_FREE;
}

static void step_free(struct command *c)
{
    if (libssh2_channel_free(c->channel) == LIBSSH2_ERROR_EAGAIN) {
        wait_for_more(c);
        return;
    }
    struct command_io io = c->io;
    int code = c->exit_code;
    char name[sizeof c->signal];
    memcpy(name, c->signal, sizeof name);
    command_done(c);
    session_idle(c->session);
    io.ended(code, name[0] != '\0' ? name : NULL, io.user);
}

static void step(struct command *c)
{
    enum command_phase before;
    if (c->quiet_ms > 0)
        timer_set_least(c->session->hub->loop, &c->quiet, c->quiet_ms, PEER_MS, on_quiet, c);
    do {
        before = c->phase;
        switch (c->phase) {
        case COMMAND_IDLE:
            break;
        case COMMAND_OPEN:
            step_open(c);
            break;
        case COMMAND_EXEC:
            step_exec(c);
            break;
        case COMMAND_DATA:
            step_data(c);
            break;
        case COMMAND_CLOSE:
            step_close(c);
            break;
        case COMMAND_FREE:
            /* the owner may free everything in there */
            step_free(c);
            return;
        }
    } while (c->phase != before && c->phase != COMMAND_IDLE);
}

void command_io_ready(struct command *c)
{
    if (c->phase != COMMAND_IDLE)
        step(c);
    else
        session_idle(c->session);
}

void command_wake(struct command *c)
{
    if (c->phase == COMMAND_DATA)
        timer_set(c->session->hub->loop, &c->again, 0, on_again, c);
}

void command_start(struct command *c, struct session *s, const char *text,
                   const struct command_io *io)
{
    int64_t quiet_ms = c->quiet_ms;
    *c = (struct command){.session = s, .io = *io, .quiet_ms = quiet_ms};
    c->text = xstrdup(text);
    if (io->source != NULL)
        c->out = xcalloc(1, OUT_CHUNK);
    c->phase = COMMAND_OPEN;
    timer_set(s->hub->loop, &c->again, 0, on_again, c);
}

/* ---- command lines ---- */

void shell_quote(struct strbuf *out, const char *text)
{
    strbuf_addc(out, '\'');
    for (const char *p = text; *p != '\0'; p++)
        if (*p == '\'')
            strbuf_adds(out, "'\\''");
        else
            strbuf_addc(out, *p);
    strbuf_addc(out, '\'');
}

void command_format(struct strbuf *out, const char *program, const char *const *args, int count)
{
    strbuf_adds(out, "exec /bin/sh -c ");
    shell_quote(out, program);
    strbuf_adds(out, " clusterd");
    for (int i = 0; i < count; i++) {
        strbuf_addc(out, ' ');
        shell_quote(out, args[i]);
    }
}
