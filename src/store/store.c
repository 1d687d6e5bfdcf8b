/* Open, lock, close, and the statements that everything else goes through. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/audit_int.h"
#include "store/task.h"

enum { BUSY_MS = 5000 };

struct cached {
    const char *sql;
    sqlite3_stmt *stmt;
};

int store_error(struct store *s, const char *what, struct err *err)
{
    int code = sqlite3_extended_errcode(s->db);
    return err_set(err, code == SQLITE_FULL ? ERR_LIMIT : ERR_IO, "database: %s: %s", what,
                   sqlite3_errmsg(s->db));
}

int store_exec(struct store *s, const char *sql, struct err *err)
{
    if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return store_error(s, sql, err);
    return 0;
}

/* ---- statements ---- */

int statement_open(struct store *s, const char *sql, struct statement *ret, struct err *err)
{
    *ret = (struct statement){.store = s};
    for (int i = 0; i < s->statement_count; i++)
        if (s->statements[i].sql == sql) {
            if (!sqlite3_stmt_busy(s->statements[i].stmt)) {
                ret->stmt = s->statements[i].stmt;
                return 0;
            }
            ret->uncached = true;
            break;
        }
    if (sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &ret->stmt, NULL) !=
        SQLITE_OK)
        return store_error(s, sql, err);
    if (!ret->uncached) {
        ARRAY_GROW(s->statements, s->statement_count, s->statement_capacity);
        s->statements[s->statement_count++] = (struct cached){sql, ret->stmt};
    }
    return 0;
}

void statement_close(struct statement *st)
{
    if (st->uncached) {
        (void)sqlite3_finalize(st->stmt);
    } else {
        (void)sqlite3_reset(st->stmt);
        (void)sqlite3_clear_bindings(st->stmt);
    }
    st->stmt = NULL;
}

void put_int(struct statement *st, int64_t value)
{
    (void)sqlite3_bind_int64(st->stmt, ++st->next, value);
}

void put_real(struct statement *st, double value)
{
    st->next++;
    if (!isnan(value))
        (void)sqlite3_bind_double(st->stmt, st->next, value);
}

void put_text(struct statement *st, const char *text)
{
    (void)sqlite3_bind_text(st->stmt, ++st->next, text, -1, SQLITE_TRANSIENT);
}

void put_time(struct statement *st, int64_t wall_ms)
{
    char text[CLOCK_TEXT_SIZE];
    put_text(st, wall_ms != 0 ? clock_format(wall_ms, text) : NULL);
}

int64_t get_int(struct statement *st)
{
    return sqlite3_column_int64(st->stmt, st->next++);
}

double get_real(struct statement *st)
{
    int at = st->next++;
    return sqlite3_column_type(st->stmt, at) == SQLITE_NULL ? (double)NAN
                                                            : sqlite3_column_double(st->stmt, at);
}

const char *get_text(struct statement *st)
{
    return (const char *)sqlite3_column_text(st->stmt, st->next++);
}

int64_t get_time(struct statement *st)
{
    const char *text = get_text(st);
    int64_t ms = 0;
    return text != NULL && clock_parse(text, &ms, NULL) == 0 ? ms : 0;
}

int store_next(struct statement *st, struct err *err)
{
    int rc = sqlite3_step(st->stmt);
    st->next = 0;
    if (rc == SQLITE_ROW)
        return 1;
    return rc == SQLITE_DONE ? 0 : store_error(st->store, "reading", err);
}

/* ---- open and close ---- */

/* A lock beside the database, so that admins can read it with the sqlite3 shell meanwhile. */
static int take_lock(struct store *s, const char *path, struct err *err)
{
    char *lock cleanup_free = xasprintf("%s.lock", path);
    s->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock_fd < 0)
        return err_sys(err, errno, "%s", lock);
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EWOULDBLOCK)
            return err_set(err, ERR_BUSY, "%s is in use by another clusterd", path);
        return err_sys(err, errno, "%s", lock);
    }
    return 0;
}

static int configure(struct store *s, struct err *err)
{
    (void)sqlite3_busy_timeout(s->db, BUSY_MS);
    if (store_exec(s, "PRAGMA journal_mode=WAL", err) < 0 ||
        store_exec(s, "PRAGMA synchronous=FULL", err) < 0 ||
        store_exec(s, "PRAGMA foreign_keys=OFF", err) < 0)
        return -(int)err->code;
    int rc = store_migrate(s, err);
    if (rc == 0)
        rc = audit_load(s, err);
    return rc < 0 ? rc : backup_settle(s, err);
}

int store_open(struct loop *loop, const char *path, struct store **ret_store, struct err *err)
{
    struct err local;
    if (err == NULL)
        err = &local;
    struct store *s = xcalloc(1, sizeof *s);
    s->loop = loop;
    s->lock_fd = -1;
    int rc = 0;
    bool memory = strcmp(path, ":memory:") == 0;
    mode_t old = umask(0077);
    s->path = memory ? NULL : xstrdup(path);
    if (!memory)
        rc = take_lock(s, path, err);
    if (rc == 0 && sqlite3_open_v2(path, &s->db,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                                   NULL) != SQLITE_OK)
        rc = err_set(err, ERR_IO, "database %s: %s", path,
                     s->db != NULL ? sqlite3_errmsg(s->db) : "out of memory");
    if (rc == 0)
        rc = configure(s, err);
    (void)umask(old);
    if (rc < 0) {
        store_close(s);
        return rc;
    }
    *ret_store = s;
    return 0;
}

void store_close(struct store *s)
{
    if (s == NULL)
        return;
    tasks_stop(s);
    if (s->open)
        store_commit(s);
    timer_cancel(&s->commit_timer);
    for (int i = 0; i < s->statement_count; i++)
        (void)sqlite3_finalize(s->statements[i].stmt);
    free(s->statements);
    (void)sqlite3_close(s->db);
    if (s->lock_fd >= 0)
        (void)close(s->lock_fd);
    free(s->path);
    free(s);
}
