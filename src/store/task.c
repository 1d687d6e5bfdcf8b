#include "store/task.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "loop/mailbox.h"
#include "store/store_int.h"

enum { TASKS_MAX = 4, TASK_BUSY_MS = 5000 };

/* What the owner holds. */
struct task_op {
    struct op op; /* first */
    struct task *task;
    struct store *store; /* while it runs */
    int64_t started;
};

struct task_private {
    pthread_t thread;
    struct mailbox *mailbox;
    struct task_op *op; /* the loop's; NULL: nobody waits any more */
    bool joined;
};

struct task *task_new(struct store *s, const char *name, void (*run)(struct task *t))
{
    struct task *t = xcalloc(1, sizeof *t);
    t->name = name;
    t->path = xstrdup(s->path);
    t->run = run;
    t->private = xcalloc(1, sizeof *t->private);
    return t;
}

static void task_free(struct task *t)
{
    if (t == NULL)
        return;
    free(t->path);
    free(t->text);
    free(t->private);
    free(t);
}

/* ---- the op ---- */

static void task_op_stop(struct op *op)
{
    struct task_op *o = (struct task_op *)(void *)op;
    if (o->store == NULL)
        return;
    o->task->private->op = NULL; /* the thread's end is not reported any more */
    atomic_store(&o->task->stop, true);
    o->task = NULL;
    o->store = NULL;
}

static void task_op_free(struct op *op)
{
    struct task_op *o = (struct task_op *)(void *)op;
    task_free(o->task);
    free(o);
}

static const struct op_type task_type = {
    .name = "database task", .stop = task_op_stop, .free = task_op_free};

const struct task *task_of(const struct op *op)
{
    return ((const struct task_op *)(const void *)op)->task;
}

/* ---- the thread ---- */

static void *task_thread(void *arg)
{
    struct task *t = arg;
    t->run(t);
    mailbox_post(t->private->mailbox, t);
    return NULL;
}

static void unlink_task(struct store *s, const struct task *t)
{
    for (struct task **at = &s->tasks; *at != NULL; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            return;
        }
}

/* On the loop: the thread is at its end. */
static void task_ended(void *item, void *user)
{
    struct store *s = user;
    struct task *t = item;
    struct task_op *o = t->private->op;
    if (!t->private->joined)
        (void)pthread_join(t->private->thread, NULL);
    unlink_task(s, t);
    if (o == NULL) {
        task_free(t);
        return;
    }
    o->store = NULL; /* the op keeps the task, for its reports */
    t->backup.ms = loop_now(s->loop) - o->started;
    op_finish(&o->op, &t->err);
}

static int may_start(struct store *s, const struct task *t, struct err *err)
{
    int count = 0;
    for (const struct task *x = s->tasks; x != NULL; x = x->next)
        count++;
    if (s->path == NULL)
        return err_set(err, ERR_UNSUPPORTED, "%s: this database is in memory only", t->name);
    if (count >= TASKS_MAX)
        return err_set(err, ERR_BUSY, "%s: %d long tasks run on the database already; try later",
                       t->name, count);
    return 0;
}

struct op *task_start(struct store *s, struct task *t, op_done_fn done, void *user)
{
    struct err err = {0};
    struct task_op *o = xcalloc(1, sizeof *o);
    op_init(&o->op, &task_type, s->loop, 0, done, user);
    o->task = t;
    o->started = loop_now(s->loop);
    if (t->err.code != ERR_OK || may_start(s, t, &err) < 0) {
        op_finish(&o->op, t->err.code != ERR_OK ? &t->err : &err);
        return &o->op;
    }
    if (s->task_mailbox == NULL)
        s->task_mailbox = mailbox_new(s->loop, task_ended, s);
    t->private->mailbox = s->task_mailbox;
    int rc = pthread_create(&t->private->thread, NULL, task_thread, t);
    if (rc != 0) {
        (void)err_sys(&err, rc, "%s: starting a thread", t->name);
        op_finish(&o->op, &err);
        return &o->op;
    }
    t->private->op = o;
    o->store = s;
    t->next = s->tasks;
    s->tasks = t;
    return &o->op;
}

void tasks_stop(struct store *s)
{
    for (struct task *t = s->tasks; t != NULL; t = t->next) {
        struct task_op *o = t->private->op;
        if (o != NULL)
            task_op_stop(&o->op); /* its owner hears nothing any more */
        atomic_store(&t->stop, true);
    }
    for (struct task *t = s->tasks; t != NULL; t = t->next) {
        (void)pthread_join(t->private->thread, NULL);
        t->private->joined = true;
    }
    mailbox_free(s->task_mailbox); /* every thread left a note: they are freed here */
    s->task_mailbox = NULL;
}

/* ---- the connection ---- */

/* "file:" + path, with what URIs reserve in hex: https://www.sqlite.org/uri.html */
static char *uri_of(const char *path, const char *query)
{
    struct strbuf sb;
    strbuf_init(&sb, 16384);
    strbuf_adds(&sb, "file:");
    for (const char *p = path; *p != '\0'; p++) {
        if (strchr("%?#", *p) != NULL)
            strbuf_addf(&sb, "%%%02X", (unsigned)(unsigned char)*p);
        else
            strbuf_addc(&sb, *p);
    }
    strbuf_adds(&sb, query);
    char *uri = strbuf_take(&sb);
    strbuf_done(&sb);
    return uri;
}

int task_open(const char *path, bool live, sqlite3 **ret_db, struct err *err)
{
    char *wal cleanup_free = xasprintf("%s-wal", path);
    /* without a log nobody has it open: it can be read without making one */
    bool still = !live && access(wal, F_OK) < 0;
    char *uri cleanup_free = uri_of(path, still ? "?immutable=1" : "");
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI;
    *ret_db = NULL;
    if (access(path, R_OK) < 0)
        return err_sys(err, errno, "%s", path);
    if (sqlite3_open_v2(uri, ret_db, flags, NULL) == SQLITE_OK) {
        (void)sqlite3_busy_timeout(*ret_db, TASK_BUSY_MS);
        /* the first read fixes the moment that all further ones see */
        if (sqlite3_exec(*ret_db, "BEGIN; SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL) ==
            SQLITE_OK)
            return 0;
    }
    (void)err_set(err, ERR_IO, "database %s: %s", path,
                  *ret_db != NULL ? sqlite3_errmsg(*ret_db) : "out of memory");
    (void)sqlite3_close(*ret_db);
    *ret_db = NULL;
    return -ERR_IO;
}
