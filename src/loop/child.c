#include "loop/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uv.h>

#include "base/mem.h"

enum { OUTPUT_DEFAULT = 1 << 20, LINE_MAX_BYTES = 8192, READ_CHUNK = 4096 };

/* The process and its pipes live on their own until libuv has closed all of them; the op can be
 * freed before (cancel), then owner is NULL. */
struct process {
    struct child *owner;
    struct loop *loop;
    uv_process_t proc;
    struct watch out_watch, err_watch;
    int out_fd, err_fd;
    struct strbuf line[2];
    void (*on_line)(const char *line, void *user);
    void *line_user;
    bool exited;
    int64_t exit_status;
    int term_signal;
};

static void process_free(uv_handle_t *handle)
{
    struct process *p = container_of((uv_process_t *)handle, struct process, proc);
    strbuf_done(&p->line[0]);
    strbuf_done(&p->line[1]);
    free(p);
}

static void close_output(struct process *p, int which)
{
    struct watch *w = which ? &p->err_watch : &p->out_watch;
    int *fd = which ? &p->err_fd : &p->out_fd;
    watch_stop(w);
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void emit_lines(struct process *p, int which, bool at_end)
{
    struct strbuf *sb = &p->line[which];
    char *nl;
    while (p->owner != NULL && (nl = memchr(sb->data, '\n', sb->len)) != NULL) {
        *nl = '\0';
        size_t used = (size_t)(nl - sb->data) + 1;
        p->on_line(sb->data, p->line_user);
        strbuf_consume(sb, used);
    }
    if (p->owner != NULL && sb->len > 0 && (at_end || sb->overflow)) {
        p->on_line(sb->data, p->line_user);
        strbuf_reset(sb);
    }
}

/* Reads what is there. False at the end of the stream. */
static bool read_output(struct process *p, int which)
{
    char buf[READ_CHUNK];
    for (;;) {
        int fd = which ? p->err_fd : p->out_fd;
        if (fd < 0)
            return false;
        ssize_t n = read(fd, buf, sizeof buf);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n <= 0) {
            if (p->on_line != NULL)
                emit_lines(p, which, true);
            return false;
        }
        if (p->on_line != NULL) {
            strbuf_add(&p->line[which], buf, (size_t)n);
            emit_lines(p, which, false);
        } else if (p->owner != NULL) {
            strbuf_add(which ? &p->owner->err_out : &p->owner->out, buf, (size_t)n);
        }
    }
}

static void finish_when_done(struct process *p)
{
    struct child *c = p->owner;
    if (c == NULL || !p->exited)
        return;
    /* descendants may keep the pipes open: what is there at the exit is what we take */
    (void)read_output(p, 0);
    (void)read_output(p, 1);
    if (p->owner == NULL)
        return;
    c->exit_code = (int)p->exit_status;
    c->term_signal = p->term_signal;
    struct err err = {0};
    if (p->term_signal != 0)
        (void)err_set(&err, ERR_FAILED, "child %d ended by signal %d", c->pid, p->term_signal);
    else if (p->exit_status != 0)
        (void)err_set(&err, ERR_FAILED, "child %d exited with %d", c->pid, c->exit_code);
    op_finish(&c->op, &err);
}

static void on_output(int fd, int events, void *user)
{
    struct process *p = user;
    (void)events;
    int which = fd == p->err_fd ? 1 : 0;
    if (!read_output(p, which))
        close_output(p, which);
}

static void on_exit_cb(uv_process_t *proc, int64_t status, int term_signal)
{
    struct process *p = container_of(proc, struct process, proc);
    p->exited = true;
    p->exit_status = status;
    p->term_signal = term_signal;
    if (p->owner != NULL)
        finish_when_done(p);
    else
        uv_close((uv_handle_t *)&p->proc, process_free);
}

static void child_op_stop(struct op *op)
{
    struct child *c = container_of(op, struct child, op);
    struct process *p = c->priv;
    if (p == NULL)
        return;
    close_output(p, 0);
    close_output(p, 1);
    p->owner = NULL;
    c->priv = NULL;
    if (p->exited)
        uv_close((uv_handle_t *)&p->proc, process_free);
    else
        (void)kill(-c->pid, SIGKILL); /* the whole group; reaped by on_exit_cb */
}

static void child_op_free(struct op *op)
{
    struct child *c = container_of(op, struct child, op);
    strbuf_done(&c->out);
    strbuf_done(&c->err_out);
    free(c);
}

static const struct op_type child_type = {"child", child_op_stop, child_op_free};

static int make_secret_fd(const struct child_spec *spec, struct err *err)
{
    int fd = memfd_create("secret", MFD_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "memfd_create");
    if (write(fd, spec->secret, spec->secret_len) != (ssize_t)spec->secret_len ||
        lseek(fd, 0, SEEK_SET) < 0) {
        int sys = errno;
        (void)close(fd);
        return err_sys(err, sys, "writing a child's secret");
    }
    return fd;
}

static int spawn(struct process *p, const struct child_spec *spec, int secret_fd, int out_w,
                 int err_w)
{
    static const char *const minimal_env[] = {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C", NULL};
    uv_stdio_container_t stdio[4] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = out_w},
        {.flags = UV_INHERIT_FD, .data.fd = err_w},
        {.flags = UV_INHERIT_FD, .data.fd = secret_fd},
    };
    uv_process_options_t options = {
        .exit_cb = on_exit_cb,
        .file = spec->argv[0],
        .args = (char **)(uintptr_t)spec->argv,
        .env = (char **)(uintptr_t)(spec->envp != NULL ? spec->envp : minimal_env),
        .flags = UV_PROCESS_DETACHED, /* setsid: own group, so that the group can be killed */
        .stdio_count = secret_fd >= 0 ? 4 : 3,
        .stdio = stdio,
    };
    return uv_spawn(loop_uv(p->loop), &p->proc, &options);
}

static void watch_outputs(struct process *p)
{
    if (watch_set(p->loop, &p->out_watch, p->out_fd, WATCH_READ, on_output, p, NULL) < 0 ||
        watch_set(p->loop, &p->err_watch, p->err_fd, WATCH_READ, on_output, p, NULL) < 0)
        abort();
}

struct child *child_start(struct loop *loop, const struct child_spec *spec, int64_t timeout_ms,
                          op_done_fn done, void *user, struct err *err)
{
    int out[2] = {-1, -1}, errp[2] = {-1, -1}, secret_fd = -1;
    if (spec->secret != NULL && (secret_fd = make_secret_fd(spec, err)) < 0)
        return NULL;
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(errp, O_CLOEXEC) < 0) {
        (void)err_sys(err, errno, "pipe");
        goto fail;
    }
    (void)fcntl(out[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(errp[0], F_SETFL, O_NONBLOCK);
    struct process *p = xcalloc(1, sizeof *p);
    p->loop = loop;
    p->out_fd = out[0];
    p->err_fd = errp[0];
    p->on_line = spec->on_line;
    p->line_user = spec->line_user;
    strbuf_init(&p->line[0], LINE_MAX_BYTES);
    strbuf_init(&p->line[1], LINE_MAX_BYTES);
    int rc = spawn(p, spec, secret_fd, out[1], errp[1]);
    if (rc < 0) {
        (void)err_sys(err, -rc, "%s", spec->argv[0]);
        uv_close((uv_handle_t *)&p->proc, process_free);
        goto fail;
    }
    (void)close(out[1]);
    (void)close(errp[1]);
    if (secret_fd >= 0)
        (void)close(secret_fd);
    struct child *c = xcalloc(1, sizeof *c);
    size_t max = spec->max_output ? spec->max_output : OUTPUT_DEFAULT;
    strbuf_init(&c->out, max);
    strbuf_init(&c->err_out, max);
    c->pid = uv_process_get_pid(&p->proc);
    c->priv = p;
    p->owner = c;
    op_init(&c->op, &child_type, loop, timeout_ms, done, user);
    watch_outputs(p);
    return c;
fail:
    for (int i = 0; i < 2; i++) {
        if (out[i] >= 0)
            (void)close(out[i]);
        if (errp[i] >= 0)
            (void)close(errp[i]);
    }
    if (secret_fd >= 0)
        (void)close(secret_fd);
    return NULL;
}

void child_signal(struct child *child, int signum)
{
    if (child->priv != NULL)
        (void)kill(child->pid, signum);
}
