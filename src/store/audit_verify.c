/*
 * Walks the chain of events and says, in words, where and how it breaks. A break is found for
 * certain, by the hashes; which of the possible acts caused it is told from what is around it.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/audit_int.h"
#include "store/task.h"

enum { NEIGHBOURS = 4096 };

struct walk {
    sqlite3 *db;
    sqlite3_stmt *rows; /* AUDIT_COLUMNS, by id */
    const char *wanted;
    const struct audit_end *must;
    bool found_wanted, found_must;
    struct audit_end head; /* what audit_head says */
    bool has_head;
    int64_t id;         /* of the row in hand */
    const char *stored; /* its hash; NULL: none that could be one */
    struct audit_report *report;
};

static int bad(struct walk *w, int64_t id, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int bad(struct walk *w, int64_t id, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(w->report->text, sizeof w->report->text, fmt, ap);
    va_end(ap);
    w->report->bad = id;
    return 0;
}

static int read_failed(struct walk *w, struct err *err)
{
    return err_set(err, ERR_IO, "database: reading the events: %s", sqlite3_errmsg(w->db));
}

static const char *hash_of(sqlite3_stmt *st)
{
    if (sqlite3_column_type(st, AUDIT_HASHED) != SQLITE_TEXT)
        return NULL;
    const char *hash = (const char *)sqlite3_column_text(st, AUDIT_HASHED);
    return audit_is_hash(hash) ? hash : NULL;
}

/* ---- what may have happened ---- */

enum clue { CLUE_NONE, CLUE_NEXT_FOLLOWS, CLUE_MOVED };

/* Looks behind the row in hand: does the next one follow its stored hash (so that the hash is the
 * daemon's and the content is not), or was one of the next ones in this place? */
static enum clue look_behind(struct walk *w, int64_t *ret_moved)
{
    sqlite3_stmt *st;
    enum clue clue = CLUE_NONE;
    char hash[DIGEST_HEX_SIZE];
    const char *previous = w->report->end.hash;
    if (sqlite3_prepare_v2(w->db,
                           "SELECT " AUDIT_COLUMNS " FROM events WHERE id > ? ORDER BY id LIMIT ?",
                           -1, &st, NULL) != SQLITE_OK)
        return CLUE_NONE;
    (void)sqlite3_bind_int64(st, 1, w->id);
    (void)sqlite3_bind_int(st, 2, NEIGHBOURS);
    for (int i = 0; sqlite3_step(st) == SQLITE_ROW && clue == CLUE_NONE; i++) {
        const char *stored = hash_of(st);
        if (stored == NULL)
            continue;
        audit_hash_row(st, w->id, previous, hash);
        if (strcmp(hash, stored) == 0) {
            *ret_moved = sqlite3_column_int64(st, 0);
            clue = CLUE_MOVED;
        } else if (i == 0 && w->stored != NULL) {
            audit_hash_row(st, sqlite3_column_int64(st, 0), w->stored, hash);
            if (strcmp(hash, stored) == 0)
                clue = CLUE_NEXT_FOLLOWS;
        }
    }
    (void)sqlite3_finalize(st);
    if (clue == CLUE_NONE && w->has_head && w->id == w->head.id && w->stored != NULL &&
        strcmp(w->stored, w->head.hash) == 0)
        clue = CLUE_NEXT_FOLLOWS;
    return clue;
}

static int explain_gap(struct walk *w)
{
    int64_t from = w->report->end.id + 1, to = w->id - 1;
    const char *where = from == 1 ? ", the beginning of the chain" : "";
    if (from == to)
        return bad(w, from, "event %" PRId64 " was removed%s", from, where);
    return bad(w, from, "events %" PRId64 " to %" PRId64 " were removed%s", from, to, where);
}

static int explain(struct walk *w)
{
    int64_t moved = 0;
    if (w->id <= 0)
        return bad(w, w->id, "event %" PRId64 " was put in by hand: ids begin at 1", w->id);
    if (w->has_head && w->id > w->head.id)
        return bad(w, w->id,
                   "event %" PRId64 " was put in by hand: the chain ends at event %" PRId64, w->id,
                   w->head.id);
    enum clue clue = look_behind(w, &moved);
    if (clue == CLUE_MOVED)
        return bad(w, w->id,
                   "events were reordered: event %" PRId64 " belongs in the place of %" PRId64,
                   moved, w->id);
    if (w->stored == NULL)
        return bad(w, w->id,
                   "event %" PRId64
                   " has no hash: it was put in by hand, or its hash was taken away",
                   w->id);
    if (w->id > w->report->end.id + 1)
        return explain_gap(w);
    if (clue == CLUE_NEXT_FOLLOWS)
        return bad(w, w->id, "event %" PRId64 " was edited: its hash is that of another content",
                   w->id);
    if (w->id == 1)
        return bad(w, 1,
                   "event 1 was edited or put in by hand: its hash is not that of its content");
    return bad(w, w->id,
               "event %" PRId64 " does not follow event %" PRId64
               ": one of them was edited or put in by hand",
               w->id, w->id - 1);
}

/* ---- the end ---- */

static int check_end(struct walk *w)
{
    const struct audit_end *end = &w->report->end;
    if (!w->has_head)
        return bad(w, 0,
                   "the row of audit_head is gone: nobody can tell where the chain should end");
    if (w->head.id > end->id)
        return bad(w, end->id + 1,
                   "the end of the chain was cut off: %" PRId64 " to %" PRId64 " are missing",
                   end->id + 1, w->head.id);
    if (w->head.id < end->id)
        return bad(w, w->head.id + 1,
                   "event %" PRId64 " was put in by hand: the chain ends at event %" PRId64,
                   w->head.id + 1, w->head.id);
    if (strcmp(w->head.hash, end->hash) != 0)
        return bad(w, end->id,
                   "event %" PRId64 " or audit_head was edited: the chain ends in another hash",
                   end->id);
    if (w->head.count != end->count)
        return bad(w, 0, "audit_head was edited: it counts %" PRId64 " events, there are %" PRId64,
                   w->head.count, end->count);
    return 0;
}

/* A number, 0 where there is no row. */
static int ask(struct walk *w, const char *sql, int64_t *ret, struct err *err)
{
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(w->db, sql, -1, &st, NULL) != SQLITE_OK)
        return read_failed(w, err);
    int rc = sqlite3_step(st);
    *ret = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    (void)sqlite3_finalize(st);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : read_failed(w, err);
}

static int check_rest(struct walk *w, struct err *err)
{
    int64_t given = 0, triggers = 0;
    const struct audit_end *end = &w->report->end;
    if (ask(w, "SELECT seq FROM sqlite_sequence WHERE name = 'events'", &given, err) < 0 ||
        ask(w,
            "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'events'"
            " AND name IN ('events_no_update', 'events_no_delete')",
            &triggers, err) < 0)
        return -(int)err->code;
    if (given > end->id)
        return bad(w, end->id + 1,
                   "the end of the chain was cut off: %" PRId64 " to %" PRId64 " are missing",
                   end->id + 1, given);
    if (w->must != NULL && !w->found_must)
        return bad(w, w->must->id,
                   "the chain was rewritten: clusterd wrote event %" PRId64
                   " with hash %.16s..., which is not in it",
                   w->must->id, w->must->hash);
    if (triggers != 2)
        return bad(
            w, 0, "every event is in its place, but the triggers that refuse changes were removed");
    if (w->wanted != NULL && !w->found_wanted)
        return bad(
            w, 0,
            "the chain is whole but does not hold %.16s...: it was rewritten, or that hash is of "
            "another database or of a time after this copy",
            w->wanted);
    w->report->intact = true;
    (void)snprintf(w->report->text, sizeof w->report->text,
                   "intact: %" PRId64 " events, each in its place", end->count);
    return 0;
}

/* ---- walking ---- */

static bool follows(struct walk *w)
{
    struct audit_end *end = &w->report->end;
    char hash[DIGEST_HEX_SIZE];
    w->id = sqlite3_column_int64(w->rows, 0);
    w->stored = hash_of(w->rows);
    audit_hash_row(w->rows, w->id, end->hash, hash);
    if (w->stored == NULL || strcmp(hash, w->stored) != 0 || w->id <= 0)
        return false;
    end->id = w->id;
    end->count++;
    memcpy(end->hash, hash, sizeof hash);
    w->found_wanted = w->found_wanted || (w->wanted != NULL && strcmp(hash, w->wanted) == 0);
    w->found_must = w->found_must || (w->must != NULL && strcmp(hash, w->must->hash) == 0);
    return true;
}

static int walk_rows(struct walk *w, const atomic_bool *stop, struct err *err)
{
    int rc;
    while ((rc = sqlite3_step(w->rows)) == SQLITE_ROW) {
        if (stop != NULL && atomic_load(stop))
            return err_set(err, ERR_CANCELLED, "stopped");
        if (!follows(w))
            return explain(w);
    }
    if (rc != SQLITE_DONE)
        return read_failed(w, err);
    (void)check_end(w);
    return w->report->text[0] != '\0' ? 0 : check_rest(w, err);
}

static int check_schema(struct walk *w, struct err *err)
{
    int64_t ours = 0, chained = 0;
    if (ask(w, "SELECT count(*) FROM sqlite_schema WHERE name = 'schema_version'", &ours, err) <
            0 ||
        ask(w, "SELECT count(*) FROM pragma_table_info('events') WHERE name = 'hash'", &chained,
            err) < 0)
        return -(int)err->code;
    if (ours == 0)
        return err_set(err, ERR_INVALID, "this is no database of clusterd");
    if (chained == 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "its events are no chain yet: it was written by an older clusterd; the next "
                       "start of this one makes them a chain");
    return 0;
}

int audit_walk(sqlite3 *db, const char *hash, const struct audit_end *must, const atomic_bool *stop,
               struct audit_report *ret, struct err *err)
{
    struct walk w = {.db = db, .wanted = hash, .report = ret};
    *ret = (struct audit_report){.end = {.hash = AUDIT_NO_HASH}};
    if (must != NULL && must->count > 0)
        w.must = must;
    if (check_schema(&w, err) < 0)
        return -(int)err->code;
    int rc = audit_read_end(db, &w.head, err);
    if (rc < 0 && rc != -ERR_NOT_FOUND)
        return rc;
    w.has_head = rc == 0;
    err_clear(err);
    if (sqlite3_prepare_v2(db, "SELECT " AUDIT_COLUMNS " FROM events ORDER BY id", -1, &w.rows,
                           NULL) != SQLITE_OK)
        return read_failed(&w, err);
    rc = walk_rows(&w, stop, err);
    (void)sqlite3_finalize(w.rows);
    ret->events = ret->end.count;
    return rc;
}

/* ---- on a thread, and on a file ---- */

int store_audit_file(const char *path, const char *hash, struct audit_report *ret, struct err *err)
{
    struct err local;
    sqlite3 *db;
    if (err == NULL)
        err = &local;
    if (task_open(path, false, &db, err) < 0)
        return -(int)err->code;
    int rc = audit_walk(db, hash, NULL, NULL, ret, err);
    (void)sqlite3_close(db);
    return rc < 0 ? err_wrap(err, "%s: ", path) : 0;
}

static void verify_run(struct task *t)
{
    sqlite3 *db;
    if (task_open(t->path, true, &db, &t->err) < 0)
        return;
    (void)audit_walk(db, t->text, &t->end, &t->stop, &t->audit, &t->err);
    (void)sqlite3_close(db);
}

struct op *store_audit_verify(struct store *s, const char *hash, op_done_fn done, void *user)
{
    struct task *t = task_new(s, "audit", verify_run);
    t->text = xstrdup(hash);
    t->end = s->audit_on_disk;
    return task_start(s, t, done, user);
}

const struct audit_report *store_audit_report(const struct op *op)
{
    return &task_of(op)->audit;
}
