/*
 * The chain of events: every way of tampering with it is found and named, at its start, in the
 * middle and at its end; what the daemon does itself never looks like tampering. And copies of the
 * database that are made while it is written.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "store/audit.h"
#include "store/backup.h"
#include "store/store.h"

#define T0 INT64_C(1796107831123)
enum { EVENTS = 9 };

static char dir[64], path[96], copy[96];

static int new_dir(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/audit-test.XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    (void)snprintf(path, sizeof path, "%s/a.db", dir);
    (void)snprintf(copy, sizeof copy, "%s/b.db", dir);
    return 0;
}

static int drop_dir(void **state)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal", ".lock"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        char *name = xasprintf("%s%s", path, ends[i]), *other = xasprintf("%s%s", copy, ends[i]);
        (void)unlink(name);
        (void)unlink(other);
        free(name);
        free(other);
    }
    return rmdir(dir); /* fails when something else was left behind */
}

static struct store *must_open(struct loop *l, const char *file)
{
    struct err err = {0};
    struct store *s = NULL;
    if (store_open(l, file, &s, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

static void add_event(struct store *s, int i)
{
    char text[40];
    (void)snprintf(text, sizeof text, "event number %d", i);
    struct store_event e = {.at = T0 + i, .kind = "test", .text = text, .actor = "engine"};
    e.node_id = i % 3; /* NULL now and then */
    e.node = i % 3 != 0 ? "gpu001" : NULL;
    e.attempt_id = i % 2;
    assert_int_equal(store_add_event(s, &e), i);
}

/* A database with some events, closed. */
static void make(const char *file)
{
    struct loop *l = loop_new_virtual(T0);
    struct store *s = must_open(l, file);
    for (int i = 1; i <= EVENTS; i++)
        add_event(s, i);
    store_close(s);
    assert_int_equal(loop_free(l), 0);
}

static sqlite3 *shell(const char *file)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(file, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    return db;
}

static void run_sql(const char *file, const char *sql)
{
    sqlite3 *db = shell(file);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    (void)sqlite3_close(db);
}

static char *ask_sql(const char *file, const char *sql)
{
    sqlite3 *db = shell(file);
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    char *text =
        sqlite3_step(st) == SQLITE_ROW ? xstrdup((const char *)sqlite3_column_text(st, 0)) : NULL;
    (void)sqlite3_finalize(st);
    (void)sqlite3_close(db);
    return text;
}

static void must_verify(const char *file, const char *hash, struct audit_report *r)
{
    struct err err = {0};
    if (store_audit_file(file, hash, r, &err) < 0)
        fail_msg("%s", err.text);
}

static void is_intact(const char *file, int64_t events)
{
    struct audit_report r;
    must_verify(file, NULL, &r);
    if (!r.intact || r.events != events || r.bad != 0)
        fail_msg("%s (%d events)", r.text, (int)r.events);
}

/* ---- tampering ---- */

#define NO_TRIGGERS "DROP TRIGGER events_no_update; DROP TRIGGER events_no_delete;"
#define TRIGGERS                                                                                   \
    "CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'x'); END;" \
    "CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'x'); END;"

static const struct tampering {
    const char *sql;
    int bad;
    const char *text;
} tamperings[] = {
    /* edited: each column, start, middle, end */
    {"UPDATE events SET text = 'nothing' WHERE id = 1", 1, "event 1 was edited"},
    {"UPDATE events SET text = 'nothing' WHERE id = 5", 5, "event 5 was edited"},
    {"UPDATE events SET text = 'nothing' WHERE id = 9", 9, "event 9 was edited"},
    {"UPDATE events SET at = '2026-12-01 06:50:31.999' WHERE id = 5", 5, "event 5 was edited"},
    {"UPDATE events SET actor = 'root' WHERE id = 2", 2, "event 2 was edited"},
    {"UPDATE events SET actor = NULL WHERE id = 2", 2, "event 2 was edited"},
    {"UPDATE events SET actor = '' WHERE stage IS NULL AND id = 2", 2, "event 2 was edited"},
    {"UPDATE events SET stage = '' WHERE id = 2", 2, "event 2 was edited"},
    {"UPDATE events SET node = 'gpu002' WHERE id = 4", 4, "event 4 was edited"},
    {"UPDATE events SET node_id = 0 WHERE id = 3", 3, "event 3 was edited"},
    {"UPDATE events SET node_id = 7 WHERE id = 4", 4, "event 4 was edited"},
    {"UPDATE events SET attempt_id = 2 WHERE id = 4", 4, "event 4 was edited"},
    {"UPDATE events SET kind = 'tes', stage = 't' WHERE id = 4", 4, "event 4 was edited"},
    {"UPDATE events SET text = CAST(text AS BLOB) WHERE id = 4", 4, "event 4 was edited"},
    {"UPDATE events SET text = text || char(0) || 'x' WHERE id = 4", 4, "event 4 was edited"},
    {"UPDATE events SET hash = replace(hash, substr(hash, 1, 1), 'f') WHERE id = 4"
     " AND hash NOT LIKE 'f%'",
     4, "event 4"},
    {"UPDATE events SET hash = NULL WHERE id = 4", 4, "event 4 has no hash"},
    {"UPDATE events SET hash = upper(hash) || 'x' WHERE id = 9", 9, "event 9 has no hash"},
    /* removed */
    {"DELETE FROM events WHERE id = 1", 1, "event 1 was removed, the beginning of the chain"},
    {"DELETE FROM events WHERE id <= 3", 1, "events 1 to 3 were removed, the beginning"},
    {"DELETE FROM events WHERE id = 5", 5, "event 5 was removed"},
    {"DELETE FROM events WHERE id IN (5, 6)", 5, "events 5 to 6 were removed"},
    {"DELETE FROM events WHERE id = 9", 9, "the end of the chain was cut off: 9 to 9"},
    {"DELETE FROM events WHERE id >= 7", 7, "the end of the chain was cut off: 7 to 9"},
    {"DELETE FROM events", 1, "the end of the chain was cut off: 1 to 9"},
    {"DELETE FROM events WHERE id = 9; UPDATE audit_head SET count = 8, event_id = 8,"
     " hash = (SELECT hash FROM events WHERE id = 8)",
     9, "the end of the chain was cut off: 9 to 9"},
    /* removed and closed up again */
    {"DELETE FROM events WHERE id = 5; UPDATE events SET id = id - 1 WHERE id > 5", 5, "event 5"},
    /* reordered: two changed places, hashes moved along or stayed */
    {"UPDATE events SET id = 100 WHERE id = 4; UPDATE events SET id = 4 WHERE id = 5;"
     "UPDATE events SET id = 5 WHERE id = 100",
     4, "events were reordered: event 5 belongs in the place of 4"},
    {"UPDATE events SET id = 100 WHERE id = 1; UPDATE events SET id = 1 WHERE id = 2;"
     "UPDATE events SET id = 2 WHERE id = 100",
     1, "events were reordered: event 2 belongs in the place of 1"},
    {"UPDATE events SET id = 100 WHERE id = 8; UPDATE events SET id = 8 WHERE id = 9;"
     "UPDATE events SET id = 9 WHERE id = 100",
     8, "events were reordered: event 9 belongs in the place of 8"},
    {"UPDATE events SET id = 100 WHERE id = 2; UPDATE events SET id = 2 WHERE id = 8;"
     "UPDATE events SET id = 8 WHERE id = 100",
     2, "events were reordered: event 8 belongs in the place of 2"},
    {"UPDATE events SET text = (SELECT text FROM events e WHERE e.id = 13 - events.id)"
     " WHERE id IN (6, 7)",
     6, "event 6 was edited"},
    /* put in by hand */
    {"INSERT INTO events(at, kind, text) VALUES('2026-12-02', 'test', 'mine')", 10,
     "event 10 was put in by hand: the chain ends at event 9"},
    {"INSERT INTO events(at, kind, text, hash) VALUES('2026-12-02', 'test', 'mine',"
     " (SELECT hash FROM audit_head))",
     10, "event 10 was put in by hand"},
    {"INSERT INTO events(id, kind, text) VALUES(0, 'test', 'mine')", 0,
     "event 0 was put in by hand"},
    {"INSERT INTO events(id, kind, text) VALUES(-4, 'test', 'mine')", -4,
     "event -4 was put in by hand"},
    {"UPDATE events SET id = id + 100 WHERE id > 5; UPDATE events SET id = id - 99 WHERE id > 100;"
     "INSERT INTO events(id, kind, text) VALUES(6, 'test', 'mine')",
     6, "event"},
    /* the end */
    {"DELETE FROM audit_head", 0, "audit_head is gone"},
    {"UPDATE audit_head SET count = 10", 0, "audit_head was edited"},
    {"UPDATE audit_head SET event_id = 8", 9, "event 9 was put in by hand"},
    {"UPDATE audit_head SET event_id = 12", 10, "the end of the chain was cut off: 10 to 12"},
    {"UPDATE audit_head SET hash = '00'", 9, "event 9 or audit_head was edited"},
};

static void tampering_is_found(void **state)
{
    (void)state;
    make(path);
    is_intact(path, EVENTS);
    for (size_t i = 0; i < ARRAY_LEN(tamperings); i++) {
        const struct tampering *t = &tamperings[i];
        struct audit_report r;
        char *text, *sql = xasprintf(NO_TRIGGERS "%s;" TRIGGERS, t->sql);
        size_t len;
        assert_int_equal(fs_read(path, 1 << 24, &text, &len, NULL), 0);
        assert_int_equal(fs_write_atomic(copy, text, len, 0600, NULL), 0);
        run_sql(copy, sql);
        must_verify(copy, NULL, &r);
        if (r.intact || r.bad != t->bad || strstr(r.text, t->text) == NULL)
            fail_msg("%s: %s event %d: '%s'", t->sql, r.intact ? "intact" : "broken", (int)r.bad,
                     r.text);
        free(sql);
        free(text);
    }
    is_intact(path, EVENTS);
}

static void triggers_refuse(void **state)
{
    static const char *const sqls[] = {"UPDATE events SET text = 'x'", "DELETE FROM events",
                                       "UPDATE events SET id = 100 WHERE id = 1"};
    struct audit_report r;
    (void)state;
    make(path);
    sqlite3 *db = shell(path);
    for (size_t i = 0; i < ARRAY_LEN(sqls); i++) {
        assert_int_equal(sqlite3_exec(db, sqls[i], NULL, NULL, NULL), SQLITE_CONSTRAINT);
        assert_non_null(strstr(sqlite3_errmsg(db), "events are never"));
    }
    /* replacing goes past the triggers; the chain notices */
    assert_int_equal(
        sqlite3_exec(db, "REPLACE INTO events(id, text) VALUES(3, 'x')", NULL, NULL, NULL),
        SQLITE_OK);
    (void)sqlite3_close(db);
    must_verify(path, NULL, &r);
    assert_false(r.intact);
    assert_int_equal(r.bad, 3);
}

static void missing_trigger_is_told(void **state)
{
    struct audit_report r;
    (void)state;
    make(path);
    run_sql(path, "DROP TRIGGER events_no_update");
    must_verify(path, NULL, &r);
    assert_false(r.intact);
    assert_int_equal(r.bad, 0);
    assert_non_null(strstr(r.text, "triggers"));
}

/* Somebody who rewrites everything consistently: only a hash noted before tells. */
static void noted_hash_tells(void **state)
{
    struct audit_report r;
    (void)state;
    make(path);
    make(copy);
    char *noted = ask_sql(path, "SELECT hash FROM events WHERE id = 6");
    char *first = ask_sql(path, "SELECT hash FROM events WHERE id = 1");
    must_verify(path, noted, &r);
    assert_true(r.intact);
    must_verify(path, first, &r);
    assert_true(r.intact);
    must_verify(copy, noted, &r); /* the same events give the same chain */
    assert_true(r.intact);
    struct loop *l = loop_new_virtual(T0);
    (void)unlink(copy);
    struct store *s = must_open(l, copy);
    struct store_event e = {.at = T0, .kind = "test", .text = "another life"};
    for (int i = 0; i < EVENTS; i++)
        (void)store_add_event(s, &e);
    store_close(s);
    assert_int_equal(loop_free(l), 0);
    must_verify(copy, NULL, &r);
    assert_true(r.intact);
    must_verify(copy, noted, &r);
    assert_false(r.intact);
    assert_non_null(strstr(r.text, "does not hold"));
    free(noted);
    free(first);
}

/* ---- what the daemon does itself ---- */

static void goes_on_after_reopening(void **state)
{
    struct audit_end end;
    (void)state;
    make(path);
    struct loop *l = loop_new_virtual(T0);
    struct store *s = must_open(l, path);
    store_audit_end(s, &end);
    assert_int_equal(end.id, EVENTS);
    assert_int_equal(end.count, EVENTS);
    add_event(s, EVENTS + 1);
    struct audit_end before = end;
    store_audit_end(s, &end);
    assert_memory_equal(&end, &before, sizeof end); /* not on disk yet */
    loop_run_for(l, 100);
    store_audit_end(s, &end);
    assert_int_equal(end.id, EVENTS + 1);
    assert_string_not_equal(end.hash, before.hash);
    store_close(s);
    assert_int_equal(loop_free(l), 0);
    is_intact(path, EVENTS + 1);
    char *hash = ask_sql(path, "SELECT hash FROM events ORDER BY id DESC LIMIT 1");
    assert_string_equal(hash, end.hash);
    free(hash);
}

static void empty_is_intact(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(T0);
    store_close(must_open(l, path));
    assert_int_equal(loop_free(l), 0);
    is_intact(path, 0);
}

static void old_events_are_chained(void **state)
{
    char *sql;
    struct err err = {0};
    struct audit_report r;
    sqlite3 *db;
    (void)state;
    assert_int_equal(fs_read("tests/unit/store/schema_1.sql", 1 << 20, &sql, NULL, &err), 0);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
                                  " LIMIT 700) INSERT INTO events(at, kind, text) SELECT"
                                  " '2026-11-02 08:00:00.000', 'test', i FROM n",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    (void)sqlite3_close(db);
    free(sql);
    assert_int_equal(store_audit_file(path, NULL, &r, &err), -ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no chain yet"));
    struct loop *l = loop_new_virtual(T0);
    struct store *s = must_open(l, path);
    add_event(s, 702);
    store_close(s);
    assert_int_equal(loop_free(l), 0);
    is_intact(path, 702);
}

static void break_stays_visible(void **state)
{
    static const char *const sqls[] = {"DELETE FROM events WHERE id = 9",
                                       "DELETE FROM events WHERE id >= 8; DELETE FROM audit_head",
                                       "INSERT INTO events(kind, text) VALUES('test', 'mine')",
                                       "UPDATE events SET text = 'x' WHERE id = 2"};
    static const int64_t bad[] = {9, 8, 10, 2};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sqls); i++) {
        struct audit_report r;
        char *sql = xasprintf(NO_TRIGGERS "%s;" TRIGGERS, sqls[i]);
        make(path);
        run_sql(path, sql);
        free(sql);
        struct loop *l = loop_new_virtual(T0);
        struct store *s = must_open(l, path);
        struct store_event e = {.at = T0, .kind = "test", .text = "later"};
        assert_true(store_add_event(s, &e) >= 10);
        (void)store_add_event(s, &e);
        store_close(s);
        assert_int_equal(loop_free(l), 0);
        must_verify(path, NULL, &r);
        if (r.intact || r.bad != bad[i])
            fail_msg("%s: event %d: %s", sqls[i], (int)r.bad, r.text);
        (void)unlink(path);
    }
}

/* A row that somebody adds while the daemon runs must not stop the daemon. */
static void hand_written_row_meanwhile(void **state)
{
    struct audit_report r;
    (void)state;
    make(path);
    struct loop *l = loop_new_virtual(T0);
    struct store *s = must_open(l, path);
    add_event(s, 10);
    loop_run_for(l, 100);
    run_sql(path, "INSERT INTO events(at, kind, text) VALUES('2026-12-02', 'test', 'mine')");
    add_event(s, 12);
    add_event(s, 13);
    loop_run_for(l, 100);
    store_close(s);
    assert_int_equal(loop_free(l), 0);
    must_verify(path, NULL, &r);
    assert_false(r.intact);
    assert_int_equal(r.bad, 11);
    assert_non_null(strstr(r.text, "event 11 has no hash"));
}

static void unusable_files(void **state)
{
    struct err err = {0};
    struct audit_report r;
    (void)state;
    assert_int_equal(store_audit_file(path, NULL, &r, &err), -ERR_NOT_FOUND);
    assert_int_equal(fs_write_atomic(path, "hello", 5, 0600, NULL), 0);
    assert_true(store_audit_file(path, NULL, &r, &err) < 0);
    assert_non_null(strstr(err.text, path));
    (void)unlink(path);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE t(x)", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
    assert_int_equal(store_audit_file(path, NULL, &r, &err), -ERR_INVALID);
    assert_non_null(strstr(err.text, "no database of clusterd"));
}

static void hashes_are_told_from_words(void **state)
{
    char hash[DIGEST_HEX_SIZE];
    (void)state;
    digest_hex("x", 1, hash);
    assert_true(audit_is_hash(hash));
    hash[0] = 'g';
    assert_false(audit_is_hash(hash));
    hash[0] = 'A';
    assert_false(audit_is_hash(hash));
    assert_false(audit_is_hash("abc"));
    assert_false(audit_is_hash(NULL));
}

/* ---- while the daemon works ---- */

struct work {
    struct loop *loop;
    struct store *store;
    struct timer timer;
    int written, done, busy;
    struct err err;
    struct audit_report audit;
    struct backup_report backup;
};

static void write_on(void *user)
{
    struct work *w = user;
    for (int i = 0; i < 20; i++)
        add_event(w->store, ++w->written);
    timer_set(w->loop, &w->timer, 1, write_on, w);
}

static void verified(struct op *op, void *user)
{
    struct work *w = user;
    w->err = op->err;
    w->audit = *store_audit_report(op);
    w->done++;
    w->busy += op->err.code == ERR_BUSY;
    op_free(op);
    loop_stop(w->loop);
}

static void copied(struct op *op, void *user)
{
    struct work *w = user;
    w->err = op->err;
    w->backup = *store_backup_report(op);
    w->done++;
    op_free(op);
    loop_stop(w->loop);
}

static void begin_work(struct work *w)
{
    *w = (struct work){.loop = loop_new()};
    w->store = must_open(w->loop, path);
    write_on(w);
    loop_run_for(w->loop, 300);
}

static void end_work(struct work *w)
{
    timer_cancel(&w->timer);
    store_close(w->store);
    assert_int_equal(loop_free(w->loop), 0);
}

static void verified_while_written(void **state)
{
    struct work w;
    struct audit_end end;
    (void)state;
    begin_work(&w);
    store_audit_end(w.store, &end);
    (void)store_audit_verify(w.store, end.hash, verified, &w);
    loop_run(w.loop);
    assert_int_equal(w.err.code, ERR_OK);
    assert_true(w.audit.intact);
    assert_true(w.audit.events >= end.count);
    /* the daemon remembers what it wrote: a rewritten end does not pass while it runs */
    timer_cancel(&w.timer);
    loop_run_for(w.loop, 100);
    store_audit_end(w.store, &end);
    run_sql(path, NO_TRIGGERS
            "DELETE FROM events WHERE id = (SELECT max(id) FROM events);"
            "UPDATE sqlite_sequence SET seq = seq - 1 WHERE name = 'events';"
            "UPDATE audit_head SET (count, event_id, hash) = (SELECT count(*), max(id), hash"
            " FROM events);" TRIGGERS);
    is_intact(path, end.count - 1);
    (void)store_audit_verify(w.store, NULL, verified, &w);
    loop_run(w.loop);
    assert_false(w.audit.intact);
    assert_int_equal(w.audit.bad, end.id);
    assert_non_null(strstr(w.audit.text, "the chain was rewritten"));
    end_work(&w);
}

static void copied_while_written(void **state)
{
    struct work w;
    struct stat st;
    (void)state;
    begin_work(&w);
    (void)store_backup(w.store, copy, copied, &w);
    loop_run(w.loop);
    assert_int_equal(w.err.code, ERR_OK);
    assert_int_equal(stat(copy, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, w.backup.size);
    assert_true(w.backup.end.count > 0 && w.backup.end.count <= w.written);
    is_intact(copy, w.backup.end.count);
    char *ok = ask_sql(copy, "PRAGMA integrity_check");
    assert_string_equal(ok, "ok");
    free(ok);
    int held = (int)w.backup.end.count;
    /* never over something */
    (void)store_backup(w.store, copy, copied, &w);
    loop_run(w.loop);
    assert_int_equal(w.err.code, ERR_EXISTS);
    end_work(&w);
    is_intact(path, w.written);
    /* a daemon goes on with the copy */
    w.written = held;
    w.loop = loop_new_virtual(T0);
    w.store = must_open(w.loop, copy);
    w.written++; /* what it says about being a copy */
    add_event(w.store, ++w.written);
    store_close(w.store);
    assert_int_equal(loop_free(w.loop), 0);
    is_intact(copy, w.written);
}

static int64_t number(const char *file, const char *sql)
{
    char *text = ask_sql(file, sql);
    int64_t value = text != NULL ? strtoll(text, NULL, 10) : -1;
    free(text);
    return value;
}

/* A copy that takes the place of the database starts nothing. */
static void copies_are_put_to_work(void **state)
{
    struct work w;
    (void)state;
    begin_work(&w);
    struct store_node n = {.name = "n1", .admin = "active"};
    int64_t id = store_put_node(w.store, &n);
    n = (struct store_node){.name = "n2", .admin = "held", .hold_reason = "a new fan"};
    (void)store_put_node(w.store, &n);
    struct store_attempt a = {.node_id = id, .stage = "installed", .status = "running"};
    a.id = store_put_attempt(w.store, &a);
    struct store_step step = {.attempt_id = a.id, .type = "install", .status = "running"};
    store_put_step(w.store, &step);
    struct store_token t = {.hash = "aa", .node_id = id, .purpose = "install", .state = "armed"};
    store_put_token(w.store, &t);
    loop_run_for(w.loop, 100);
    (void)store_backup(w.store, copy, copied, &w);
    loop_run(w.loop);
    assert_int_equal(w.err.code, ERR_OK);
    end_work(&w);
    assert_int_equal(number(copy, "PRAGMA user_version"), 1);
    assert_int_equal(number(copy, "SELECT count(*) FROM nodes WHERE admin = 'active'"), 1);

    for (int i = 0; i < 2; i++) { /* the second opening finds a database like any other */
        w.loop = loop_new_virtual(T0);
        store_close(must_open(w.loop, copy));
        assert_int_equal(loop_free(w.loop), 0);
    }
    assert_int_equal(number(copy, "PRAGMA user_version"), 0);
    assert_int_equal(number(copy, "SELECT count(*) FROM nodes WHERE admin = 'held'"), 2);
    assert_int_equal(number(copy, "SELECT count(*) FROM nodes WHERE hold_reason = 'a new fan'"), 1);
    assert_int_equal(number(copy, "SELECT count(*) FROM attempts WHERE status = 'cancelled'"), 1);
    assert_int_equal(number(copy, "SELECT count(*) FROM steps WHERE status = 'cancelled'"), 1);
    assert_int_equal(number(copy, "SELECT count(*) FROM tokens WHERE state = 'dead'"), 1);
    assert_int_equal(number(copy, "SELECT count(*) FROM events WHERE kind = 'database.restored'"),
                     1);
    is_intact(copy, w.backup.end.count + 1);
    /* the database itself is not touched */
    assert_int_equal(number(path, "PRAGMA user_version"), 0);
    assert_int_equal(number(path, "SELECT count(*) FROM attempts WHERE status = 'running'"), 1);
}

static void bad_places_for_copies(void **state)
{
    static const struct {
        const char *place;
        enum err_code code;
    } rows[] = {{"relative.db", ERR_INVALID},
                {"/tmp/a\n.db", ERR_INVALID},
                {"/tmp/audit-test-crontab", ERR_INVALID},
                {"/tmp/.db", ERR_INVALID},
                {".db", ERR_INVALID},
                {"", ERR_INVALID},
                {"/nowhere/at/all.db", ERR_NOT_FOUND},
                {"/proc/a.db", ERR_NOT_FOUND}};
    struct work w;
    (void)state;
    begin_work(&w);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        (void)store_backup(w.store, rows[i].place, copied, &w);
        loop_run(w.loop);
        if (w.err.code != rows[i].code)
            fail_msg("'%s': %s (%s)", rows[i].place, err_name(w.err.code), w.err.text);
    }
    end_work(&w);
}

/* Cancelled ops never complete, and nothing is left behind; nor after the store was closed. */
static void cancelled_and_abandoned(void **state)
{
    struct work w;
    (void)state;
    begin_work(&w);
    struct op *a = store_audit_verify(w.store, NULL, verified, &w);
    struct op *b = store_backup(w.store, copy, copied, &w);
    op_cancel(a);
    op_cancel(b);
    loop_run_for(w.loop, 100);
    assert_int_equal(w.done, 0);
    (void)unlink(copy); /* the thread may have been at its end already */
    struct op *c = store_audit_verify(w.store, NULL, verified, &w);
    struct op *d = store_backup(w.store, copy, copied, &w);
    end_work(&w);
    op_cancel(c);
    op_cancel(d);
    assert_int_equal(w.done, 0);
}

static void too_many_at_once(void **state)
{
    struct work w;
    (void)state;
    begin_work(&w);
    for (int i = 0; i < 5; i++)
        (void)store_audit_verify(w.store, NULL, verified, &w);
    while (w.done < 5)
        loop_run(w.loop);
    assert_int_equal(w.busy, 1);
    assert_true(w.audit.intact);
    end_work(&w);
}

static void in_memory_is_unsupported(void **state)
{
    struct work w = {.loop = loop_new()};
    (void)state;
    w.store = must_open(w.loop, ":memory:");
    (void)store_audit_verify(w.store, NULL, verified, &w);
    loop_run(w.loop);
    assert_int_equal(w.err.code, ERR_UNSUPPORTED);
    store_close(w.store);
    assert_int_equal(loop_free(w.loop), 0);
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, new_dir, drop_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIR(tampering_is_found),
        IN_DIR(triggers_refuse),
        IN_DIR(missing_trigger_is_told),
        IN_DIR(noted_hash_tells),
        IN_DIR(goes_on_after_reopening),
        IN_DIR(empty_is_intact),
        IN_DIR(old_events_are_chained),
        IN_DIR(break_stays_visible),
        IN_DIR(hand_written_row_meanwhile),
        IN_DIR(unusable_files),
        cmocka_unit_test(hashes_are_told_from_words),
        IN_DIR(verified_while_written),
        IN_DIR(copied_while_written),
        IN_DIR(copies_are_put_to_work),
        IN_DIR(bad_places_for_copies),
        IN_DIR(cancelled_and_abandoned),
        IN_DIR(too_many_at_once),
        cmocka_unit_test(in_memory_is_unsupported),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
