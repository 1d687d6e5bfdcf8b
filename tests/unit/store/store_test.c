/*
 * The store as a whole: what a sync promises on real and virtual time, what a crash, a second
 * daemon, a full disk and another schema version do.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/fsutil.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/store.h"

#define T0 INT64_C(1796107831123)
enum { KNOWN_VERSION = 10 };

static char dir[64], path[96];

static int new_dir(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/store-test.XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    (void)snprintf(path, sizeof path, "%s/clusterd.db", dir);
    return 0;
}

static int drop_dir(void **state)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal", ".lock"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        char *name = xasprintf("%s%s", path, ends[i]);
        (void)unlink(name);
        free(name);
    }
    return rmdir(dir);
}

static struct store *must_open(struct loop *loop)
{
    struct err err = {0};
    struct store *s = NULL;
    if (store_open(loop, path, &s, &err) < 0)
        fail_msg("%s", err.text);
    return s;
}

static sqlite3 *shell(void)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL),
                     SQLITE_OK);
    return db;
}

static void shell_run(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

/* The first column of the first row, as another process would see it; the caller frees. */
static char *ask(const char *sql)
{
    sqlite3 *db = shell();
    sqlite3_stmt *st;
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    char *text = sqlite3_step(st) == SQLITE_ROW ? xstrdup((const char *)sqlite3_column_text(st, 0))
                                                : xstrdup("no row");
    (void)sqlite3_finalize(st);
    (void)sqlite3_close(db);
    return text;
}

static void answers(const char *sql, const char *expected)
{
    char *text = ask(sql);
    if (text == NULL || strcmp(text, expected) != 0)
        fail_msg("%s: '%s' instead of '%s'", sql, text != NULL ? text : "NULL", expected);
    free(text);
}

static void add_event(struct store *s, const char *text)
{
    struct store_event e = {.at = T0, .kind = "test", .text = text};
    (void)store_add_event(s, &e);
}

struct waited {
    struct loop *loop;
    struct err err;
    int64_t at;
    int count;
    bool stop;
};

static void waited_done(struct op *op, void *user)
{
    struct waited *w = user;
    w->count++;
    w->err = op->err;
    w->at = loop_now(w->loop);
    op_free(op);
    if (w->stop)
        loop_stop(w->loop);
}

/* ---- sync ---- */

static void sync_on_virtual_time(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(T0);
    struct store *s = must_open(l);
    struct waited first = {.loop = l}, second = first, empty = first;
    int64_t start = loop_now(l);

    (void)store_sync(s, waited_done, &empty); /* nothing was written: at once, not inside */
    assert_int_equal(empty.count, 0);
    loop_run_for(l, 0);
    assert_int_equal(empty.count, 1);

    add_event(s, "one");
    (void)store_sync(s, waited_done, &first);
    add_event(s, "two");
    (void)store_sync(s, waited_done, &second);
    assert_int_equal(first.count + second.count, 0);
    answers("SELECT count(*) FROM events", "0"); /* others see only what is committed */
    loop_run_for(l, 19);
    assert_int_equal(first.count, 0);
    loop_run_for(l, 1000);
    assert_int_equal(first.count, 1);
    assert_int_equal(second.count, 1);
    assert_int_equal(first.err.code, ERR_OK);
    assert_int_equal(first.at - start, 20);
    assert_int_equal(second.at, first.at); /* one commit for both */
    answers("SELECT count(*) FROM events", "2");
    store_close(s);
    assert_int_equal(loop_free(l), 0);
}

static void many_rows_commit_early(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(T0);
    struct store *s = must_open(l);
    struct waited w = {.loop = l};
    int64_t start = loop_now(l);
    for (int i = 0; i < 499; i++)
        add_event(s, "row");
    (void)store_sync(s, waited_done, &w);
    loop_run_for(l, 5);
    assert_int_equal(w.count, 0);
    add_event(s, "the 500th");
    assert_int_equal(w.count, 0);
    loop_run_for(l, 5);
    assert_int_equal(w.count, 1);
    assert_true(w.at - start < 20);
    answers("SELECT count(*) FROM events", "500");
    store_close(s);
    assert_int_equal(loop_free(l), 0);
}

static void sync_on_real_time(void **state)
{
    (void)state;
    struct loop *l = loop_new();
    struct store *s = must_open(l);
    struct waited w = {.loop = l, .stop = true};
    add_event(s, "one");
    (void)store_sync(s, waited_done, &w);
    assert_int_equal(w.count, 0);
    loop_run(l);
    assert_int_equal(w.count, 1);
    assert_int_equal(w.err.code, ERR_OK);
    answers("SELECT text FROM events", "one");
    store_close(s);
    assert_int_equal(loop_free(l), 0);
}

static void cancelled_sync_is_silent(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(T0);
    struct store *s = must_open(l);
    struct waited w = {.loop = l}, kept = w;
    add_event(s, "one");
    struct op *early = store_sync(s, waited_done, &w);
    (void)store_sync(s, waited_done, &kept);
    struct op *late = store_sync(s, waited_done, &w);
    op_cancel(early);
    op_cancel(late);
    loop_run_for(l, 100);
    assert_int_equal(w.count, 0);
    assert_int_equal(kept.count, 1);
    add_event(s, "two");
    (void)store_sync(s, waited_done, &kept);
    store_close(s); /* commits; who waits still hears of it from the loop */
    loop_run_for(l, 100);
    assert_int_equal(kept.count, 2);
    assert_int_equal(kept.err.code, ERR_OK);
    answers("SELECT count(*) FROM events", "2");
    assert_int_equal(loop_free(l), 0);
}

/* ---- files ---- */

static void count_node(const struct store_node *n, void *user)
{
    assert_string_equal(n->name, "gpu001");
    assert_int_equal(n->created_at, T0);
    ++*(int *)user;
}

static void rows_survive_reopening(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(T0);
    struct store *s = must_open(l);
    struct store_node n = {.name = "gpu001", .created_at = T0};
    (void)store_put_node(s, &n);
    store_close(s);
    answers("SELECT created_at FROM nodes", "2026-12-01 06:50:31.123"); /* readable */
    answers("SELECT coalesce(removed_at, 'null') FROM nodes", "null");
    s = must_open(l);
    int seen = 0;
    assert_int_equal(store_each_node(s, count_node, &seen, NULL), 0);
    assert_int_equal(seen, 1);
    store_close(s);
    assert_int_equal(loop_free(l), 0);
}

static void second_opener_is_refused(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(T0);
    struct err err = {0};
    struct store *s = must_open(l), *other = NULL;
    assert_int_equal(store_open(l, path, &other, &err), -ERR_BUSY);
    assert_non_null(strstr(err.text, path));
    assert_null(other);
    answers("PRAGMA journal_mode", "wal"); /* but readers are welcome */
    store_close(s);
    s = must_open(l);
    store_close(s);
    assert_int_equal(loop_free(l), 0);
}

static void unusable_files_are_refused(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(T0);
    struct err err = {0};
    struct store *s = NULL;
    assert_int_equal(store_open(l, "/nonexistent/x.db", &s, &err), -ERR_NOT_FOUND);
    char junk[8192];
    memset(junk, 'j', sizeof junk);
    assert_int_equal(fs_write_atomic(path, junk, sizeof junk, 0600, &err), 0);
    assert_int_equal(store_open(l, path, &s, &err), -ERR_IO);
    assert_non_null(strstr(err.text, "not a database"));
    assert_int_equal(loop_free(l), 0);
}

/* ---- kill -9 ---- */

static void tell(struct op *op, void *user)
{
    char verdict = op_ok(op) ? 'y' : 'n';
    op_free(op);
    if (write(*(int *)user, &verdict, 1) != 1)
        _exit(3);
}

/* The child: 10 rows synced, then told; then 10 rows in an open transaction, then told; then it
 * waits for its end without returning to the loop. */
static void write_until_killed(int fd)
{
    struct loop *l = loop_new();
    struct store *s = must_open(l);
    for (int i = 0; i < 10; i++)
        add_event(s, "synced");
    (void)store_sync(s, tell, &fd);
    loop_run_for(l, 200);
    for (int i = 0; i < 10; i++)
        add_event(s, "open");
    if (write(fd, "o", 1) != 1)
        _exit(3);
    for (;;)
        (void)pause();
}

static void kill_keeps_what_was_synced(void **state)
{
    (void)state;
    int fds[2];
    char told[2] = "";
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(fds[0]);
        write_until_killed(fds[1]);
    }
    (void)close(fds[1]);
    for (size_t n = 0; n < sizeof told; n++)
        assert_int_equal(read(fds[0], &told[n], 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(fds[0]);
    assert_memory_equal(told, "yo", 2);

    struct loop *l = loop_new_virtual(T0);
    struct store *s = must_open(l); /* the lock went with the process */
    store_close(s);
    assert_int_equal(loop_free(l), 0);
    answers("PRAGMA integrity_check", "ok");
    answers("SELECT group_concat(DISTINCT text) || count(*) FROM events", "synced10");
}

/* Killed at a random moment of a stream of commits: whole transactions only. */
static void kill_leaves_whole_transactions(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct loop *l = loop_new();
            struct store *s = must_open(l);
            for (;;) {
                for (int i = 0; i < 7; i++)
                    add_event(s, "of seven");
                loop_run_for(l, 21);
            }
        }
        (void)usleep((useconds_t)(60000 + round * 37000));
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        struct loop *l = loop_new_virtual(T0);
        store_close(must_open(l));
        assert_int_equal(loop_free(l), 0);
        answers("PRAGMA integrity_check", "ok");
        answers("SELECT count(*) % 7 FROM events", "0");
    }
    answers("SELECT count(*) > 0 FROM events", "1");
}

/* ---- a full disk ---- */

static void big_event(struct store *s)
{
    static char text[100000];
    memset(text, 'x', sizeof text - 1);
    add_event(s, text);
}

/* Writes until a sync fails, then frees the space: it must stay failed. */
static void fails_for_good(struct loop *l, struct store *s, void (*free_space)(void))
{
    struct waited w = {.loop = l};
    add_event(s, "before");
    (void)store_sync(s, waited_done, &w);
    loop_run_for(l, 100);
    assert_int_equal(w.err.code, ERR_OK);
    for (int i = 0; i < 100 && w.err.code == ERR_OK; i++) {
        big_event(s);
        (void)store_sync(s, waited_done, &w);
        loop_run_for(l, 100);
    }
    assert_int_not_equal(w.err.code, ERR_OK);
    assert_non_null(strstr(w.err.text, "database"));
    enum err_code code = w.err.code;
    free_space();
    for (int i = 0; i < 3; i++) {
        w.err.code = ERR_OK;
        w.count = 0;
        add_event(s, "after");
        (void)store_sync(s, waited_done, &w);
        assert_int_equal(w.count, 0);
        loop_run_for(l, 100);
        assert_int_equal(w.count, 1);
        assert_int_equal(w.err.code, code);
    }
}

static void is_intact(void)
{
    answers("PRAGMA integrity_check", "ok");
    answers("SELECT text FROM events ORDER BY id LIMIT 1", "before");
    answers("SELECT count(*) FROM events WHERE text = 'after'", "0");
}

static struct rlimit old_limit;

static void lift_limit(void)
{
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
}

static void full_disk_is_final(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(T0);
    struct store *s = must_open(l);
    log_set_level(LOG_LEVEL_ERROR);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    struct rlimit small = {.rlim_cur = 1 << 20, .rlim_max = old_limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fails_for_good(l, s, lift_limit);
    store_close(s);
    assert_int_equal(loop_free(l), 0);
    is_intact();
}

/* A write that fails in the middle of a transaction: none of its rows is kept, and the syncs that
 * waited already fail as well. */
static void failed_write_fails_its_group(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(T0);
    struct store *s = must_open(l);
    struct waited w = {.loop = l};
    struct store_node n = {.name = "gpu001"}, nameless = {0};
    (void)store_put_node(s, &n);
    (void)store_sync(s, waited_done, &w);
    (void)store_put_node(s, &nameless); /* the table wants a name */
    loop_run_for(l, 100);
    assert_int_equal(w.count, 1);
    assert_int_equal(w.err.code, ERR_IO);
    store_close(s);
    assert_int_equal(loop_free(l), 0);
    answers("SELECT count(*) FROM nodes", "0");
}

/* ---- machines ---- */

static void is_probe(const struct store_machine *m, void *user)
{
    assert_int_equal(m->node_id, 1);
    assert_string_equal(m->probe, "{\"n\":2}");
    assert_string_equal(m->bmc, "{\"b\":1}");
    assert_int_equal(m->at, T0 + 5000);
    ++*(int *)user;
}

static void parts_come_and_go(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(T0);
    struct store *s = must_open(l);
    struct store_component before[] = {
        {.kind = "gpu", .slot = "0000:17:00.0", .identity = "GPU-a", .firmware = "1"},
        {.kind = "gpu", .slot = "0000:65:00.0", .identity = "GPU-b"},
        {.kind = "cpu", .slot = "cpu0"}};
    struct store_component after[] = {
        {.kind = "gpu", .slot = "0000:17:00.0", .identity = "GPU-a", .firmware = "2"},
        {.kind = "gpu", .slot = "0000:65:00.0", .identity = "GPU-c"},
        {.kind = "cpu", .slot = "cpu0"}};
    store_put_machine(s, 1, "{\"n\":1}", before, 3, T0);
    store_put_bmc_identity(s, 1, "{\"b\":1}");
    store_put_machine(s, 1, "{\"n\":2}", after, 3, T0 + 5000);
    int seen = 0;
    assert_int_equal(store_each_machine(s, is_probe, &seen, NULL), 0);
    assert_int_equal(seen, 1);
    char *probe = store_machine_probe(s, 1);
    assert_string_equal(probe, "{\"n\":2}");
    free(probe);
    assert_null(store_machine_probe(s, 2));
    store_close(s);
    assert_int_equal(loop_free(l), 0);
    answers("SELECT group_concat(identity) FROM components WHERE removed_at IS NOT NULL", "GPU-b");
    answers("SELECT removed_at FROM components WHERE identity = 'GPU-b'",
            "2026-12-01 06:50:36.123");
    answers("SELECT count(*) FROM components WHERE removed_at IS NULL", "3");
    answers("SELECT firmware || first_seen || seen_at FROM components WHERE identity = 'GPU-a'",
            "22026-12-01 06:50:31.1232026-12-01 06:50:36.123");
}

/* ---- schema versions ---- */

static void newer_schema_is_refused(void **state)
{
    (void)state;
    struct loop *l = loop_new_virtual(T0);
    struct err err = {0};
    struct store *s = must_open(l);
    store_close(s);
    sqlite3 *db = shell();
    shell_run(db, "INSERT INTO schema_version(version) VALUES(99)");
    (void)sqlite3_close(db);
    s = NULL;
    assert_int_equal(store_open(l, path, &s, &err), -ERR_UNSUPPORTED);
    assert_null(s);
    assert_non_null(strstr(err.text, "99"));
    assert_non_null(strstr(err.text, "newer"));
    assert_int_equal(loop_free(l), 0);
}

static void older_schema_is_migrated(void **state)
{
    (void)state;
    struct err err = {0};
    char *sql;
    if (fs_read("tests/unit/store/schema_1.sql", 1 << 20, &sql, NULL, &err) < 0)
        fail_msg("%s", err.text);
    sqlite3 *db = shell();
    shell_run(db, sql);
    (void)sqlite3_close(db);
    free(sql);
    answers("SELECT max(version) FROM schema_version", "1");

    struct loop *l = loop_new_virtual(T0);
    struct store *s = must_open(l);
    int count = -1;
    assert_int_equal(store_count_installs(s, 1, 0, &count, NULL), 0);
    assert_int_equal(count, 2); /* those that a ramdisk took, the dead one too */
    store_close(s);
    store_close(must_open(l)); /* once more: nothing left to do */
    assert_int_equal(loop_free(l), 0);
    char known[12];
    (void)snprintf(known, sizeof known, "%d", KNOWN_VERSION);
    answers("SELECT max(version) FROM schema_version", known);
    answers("SELECT count(*) FROM schema_version", known);
    answers("SELECT group_concat(name || state || admin) FROM nodes",
            "gpu001validatedactive,gpu002rackedheld");
    answers("SELECT text FROM evidence", "it's there");
    answers("SELECT text FROM history WHERE node = 'gpu001'", "racked");
    answers("SELECT group_concat(hash || ':' || coalesce(claimed_at, '-')) FROM tokens",
            "aa:2026-11-01 08:10:00.000,bb:2026-11-01 09:10:00.000,cc:-,dd:-");
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, new_dir, drop_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIR(sync_on_virtual_time),
        IN_DIR(many_rows_commit_early),
        IN_DIR(sync_on_real_time),
        IN_DIR(cancelled_sync_is_silent),
        IN_DIR(rows_survive_reopening),
        IN_DIR(second_opener_is_refused),
        IN_DIR(unusable_files_are_refused),
        IN_DIR(kill_keeps_what_was_synced),
        IN_DIR(kill_leaves_whole_transactions),
        IN_DIR(full_disk_is_final),
        IN_DIR(failed_write_fails_its_group),
        IN_DIR(parts_come_and_go),
        IN_DIR(newer_schema_is_refused),
        IN_DIR(older_schema_is_migrated),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
