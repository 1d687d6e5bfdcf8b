/*
 * Group commit: writers share one open transaction, which is committed COMMIT_MS after its first
 * row or as soon as it has COMMIT_ROWS rows, and then everybody who waits in a sync is told. One
 * fsync serves all of them. The first failure of a writer ends it: see `fault`.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/audit_int.h"

enum { COMMIT_MS = 20, COMMIT_ROWS = 500 };

struct sync {
    struct op op; /* first */
    struct store *store;
    struct sync *next;
};

static void finish_waiting(struct store *s, const struct err *err)
{
    while (s->waiting != NULL) {
        struct sync *w = s->waiting;
        s->waiting = w->next;
        w->store = NULL;
        op_finish(&w->op, err);
    }
}

static void set_fault(struct store *s, const char *what)
{
    if (s->fault.code != ERR_OK)
        return;
    (void)store_error(s, what, &s->fault);
    log_error("store.fault",
              "%s: nothing new is started until this is mended and the daemon restarted",
              s->fault.text);
}

void store_commit(void *user)
{
    struct store *s = user;
    int64_t began = clock_mono_us();
    timer_cancel(&s->commit_timer);
    if (s->open && s->fault.code == ERR_OK && audit_save(s) < 0)
        set_fault(s, "end of the events");
    if (s->open && s->fault.code == ERR_OK &&
        sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        set_fault(s, "commit");
    if (s->open && s->fault.code == ERR_OK)
        audit_saved(s);
    if (s->open && s->fault.code != ERR_OK)
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    if (s->open)
        latency_add(&s->commits, clock_mono_us() - began);
    s->open = false;
    s->rows = 0;
    finish_waiting(s, s->fault.code != ERR_OK ? &s->fault : NULL);
}

static bool begin(struct store *s)
{
    if (s->open)
        return true;
    if (sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK) {
        set_fault(s, "begin");
        return false;
    }
    s->open = true;
    timer_set(s->loop, &s->commit_timer, COMMIT_MS, store_commit, s);
    return true;
}

bool write_open(struct store *s, const char *sql, struct statement *ret)
{
    if (s->fault.code != ERR_OK)
        return false;
    if (begin(s) && statement_open(s, sql, ret, NULL) == 0)
        return true;
    set_fault(s, "prepare");
    return false;
}

int64_t store_write(struct statement *st)
{
    struct store *s = st->store;
    int rc = sqlite3_step(st->stmt);
    if (rc == SQLITE_ROW)
        rc = SQLITE_DONE;
    if (rc != SQLITE_DONE)
        set_fault(s, "writing");
    int64_t id = sqlite3_last_insert_rowid(s->db);
    statement_close(st);
    if (++s->rows >= COMMIT_ROWS && s->fault.code == ERR_OK)
        timer_set(s->loop, &s->commit_timer, 0, store_commit, s);
    return id;
}

/* ---- sync ---- */

static void sync_stop(struct op *op)
{
    struct sync *me = (struct sync *)(void *)op;
    if (me->store == NULL)
        return;
    for (struct sync **at = &me->store->waiting; *at != NULL; at = &(*at)->next)
        if (*at == me) {
            *at = me->next;
            break;
        }
    me->store = NULL;
}

static void sync_free(struct op *op)
{
    free((struct sync *)(void *)op);
}

static const struct op_type sync_type = {.name = "sync", .stop = sync_stop, .free = sync_free};

const struct latency *store_commits(const struct store *s)
{
    return &s->commits;
}

struct op *store_sync(struct store *s, op_done_fn done, void *user)
{
    struct sync *w = xcalloc(1, sizeof *w);
    op_init(&w->op, &sync_type, s->loop, 0, done, user);
    if (s->fault.code != ERR_OK) {
        op_finish(&w->op, &s->fault);
    } else if (!s->open) {
        op_finish(&w->op, NULL);
    } else {
        w->store = s;
        w->next = s->waiting;
        s->waiting = w;
    }
    return &w->op;
}
