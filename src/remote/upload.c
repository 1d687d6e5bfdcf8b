/*
 * A file to a node: hashed on a worker thread, then one command (programs.c) that asks for the
 * bytes only when the node has something else there, and puts them in place only when their digest
 * is right.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/mem.h"
#include "loop/work.h"
#include "remote/internal.h"
#include "remote/programs.h"
#include "remote/status.h"

enum { ANSWER_MS = 60000 /* the node hashes the whole file in silence */, ANSWER_MAX = 16 << 10 };

struct hash;

struct upload {
    struct job job; /* first */
    char *local, *path;
    int mode;
    int fd;
    int64_t size, sent;
    struct hash *hash; /* under way */
    char digest[DIGEST_HEX_SIZE];
    struct strbuf answer;
    bool may_send;
};

/* Belongs to the worker until it is done; the upload may be gone by then. */
struct hash {
    struct upload *owner;
    char *path;
    char digest[DIGEST_HEX_SIZE];
    struct err err;
};

static void fail_sys(struct upload *u, int sys)
{
    struct err err = {0};
    (void)err_sys(&err, sys, "%s", u->local);
    job_end(&u->job, &err);
}

static ssize_t on_source(char *buf, size_t max, void *user)
{
    struct upload *u = user;
    if (!u->may_send)
        return 0;
    if ((int64_t)max > u->size - u->sent)
        max = (size_t)(u->size - u->sent);
    if (max == 0)
        return -1;
    ssize_t n = pread(u->fd, buf, max, (off_t)u->sent);
    if (n <= 0) {
        fail_sys(u, n < 0 ? errno : EIO); /* 0: it became shorter */
        return 0;
    }
    u->sent += n;
    return n;
}

static bool answered(const struct upload *u, const char *word)
{
    const char *text;
    size_t len, next;
    return answer_find(u->answer.data, u->answer.len, "clusterd-upload", &text, &len, &next) == 0 &&
           len == strlen(word) && memcmp(text, word, len) == 0;
}

static void on_sink(bool is_stderr, const char *data, size_t len, void *user)
{
    struct upload *u = user;
    strbuf_add(is_stderr ? &u->job.pub.err_out : &u->answer, data, len);
    if (u->may_send || !answered(u, "send"))
        return;
    u->may_send = true;
    job_note(&u->job, "sending %s", u->path);
    strbuf_reset(&u->answer);
    command_wake(&u->job.command);
}

static void on_ended(int exit_code, const char *signal, void *user)
{
    struct upload *u = user;
    struct err err = {0};
    char line[200];
    (void)signal;
    u->job.pub.exit_code = exit_code;
    if (exit_code == 0 && answered(u, u->may_send ? "done" : "same")) {
        job_end(&u->job, NULL);
        return;
    }
    last_line(&u->job.pub.err_out, line, sizeof line);
    (void)err_set(&err, ERR_FAILED, "%s: %s could not be written (exit code %d)%s%s",
                  u->job.target.address, u->path, exit_code, line[0] != '\0' ? ": " : "", line);
    job_end(&u->job, &err);
}

static void on_ready(struct job *job)
{
    struct upload *u = (struct upload *)job;
    char mode[8], size[24];
    struct strbuf text;
    (void)snprintf(mode, sizeof mode, "%04o", (unsigned int)u->mode);
    (void)snprintf(size, sizeof size, "%lld", (long long)u->size);
    strbuf_init(&text, COMMAND_TEXT_MAX);
    command_format(&text, upload_program, (const char *const[]){u->path, u->digest, mode, size}, 4);
    job_note(job, "comparing %s", u->path);
    job->command.quiet_ms = ANSWER_MS;
    job_command(job, text.data,
                (struct command_io){.source = on_source, .sink = on_sink, .ended = on_ended});
    strbuf_done(&text);
}

static void connect_job(struct upload *u)
{
    struct stat st;
    u->fd = open(u->local, O_RDONLY | O_CLOEXEC);
    if (u->fd < 0 || fstat(u->fd, &st) < 0) {
        fail_sys(u, errno);
        return;
    }
    u->size = st.st_size;
    job_connect(&u->job, on_ready, job_end);
}

/* ---- hashing ---- */

static void hash_run(void *user)
{
    struct hash *h = user;
    (void)digest_file(h->path, h->digest, &h->err);
}

static void hash_done(void *user)
{
    struct hash *h = user;
    struct upload *u = h->owner;
    if (u != NULL) {
        u->hash = NULL;
        memcpy(u->digest, h->digest, sizeof u->digest);
        if (!job_alive(&u->job))
            ;
        else if (h->err.code != ERR_OK)
            job_end(&u->job, &h->err);
        else
            connect_job(u);
    }
    free(h->path);
    free(h);
}

static void start_hash(struct upload *u)
{
    struct err err = {0};
    struct hash *h = xcalloc(1, sizeof *h);
    h->owner = u;
    h->path = xstrdup(u->local);
    if (work_submit(u->job.hub->loop, hash_run, hash_done, h, &err) < 0) {
        free(h->path);
        free(h);
        job_end(&u->job, &err);
        return;
    }
    u->hash = h;
    job_note(&u->job, "hashing %s", u->local);
}

/* ---- making one ---- */

static void release(struct job *job)
{
    struct upload *u = (struct upload *)job;
    if (u->hash != NULL)
        u->hash->owner = NULL;
    if (u->fd >= 0)
        (void)close(u->fd);
    strbuf_done(&u->answer);
    free(u->local);
    free(u->path);
}

static int check(const char *path, int mode, struct err *err)
{
    size_t len = strlen(path);
    if (path[0] != '/' || len < 2 || path[len - 1] == '/' || len > 1024)
        return err_set(err, ERR_INVALID, "'%.100s' is no absolute path of a file", path);
    for (const char *p = path; *p != '\0'; p++)
        if ((unsigned char)*p < ' ')
            return err_set(err, ERR_INVALID, "a path with control characters is refused");
    if (mode < 0 || mode > 07777)
        return err_set(err, ERR_INVALID, "%s: no file mode %d", path, mode);
    return 0;
}

struct remote_op *remote_upload(struct remote_hub *hub, const struct remote_target *target,
                                const char *local_path, const char *path, int mode,
                                int64_t timeout_ms, op_done_fn done, void *user)
{
    struct err err = {0};
    struct upload *u = job_new(sizeof *u, "upload", hub, target, timeout_ms, done, user);
    u->job.release = release;
    u->fd = -1;
    u->local = xstrdup(local_path);
    u->path = xstrdup(path);
    u->mode = mode;
    strbuf_init(&u->answer, ANSWER_MAX);
    if (check(path, mode, &err) < 0)
        job_end(&u->job, &err);
    if (job_alive(&u->job))
        start_hash(u);
    return &u->job.pub;
}
