/*
 * Group commit against the floor, one transaction a row, in the same run and on the same disk (the
 * directory is argv[1], else TMPDIR or /var/tmp, for /tmp may be memory). The floor is bare SQLite
 * with the same journal mode, table and columns. Also: how long a sync takes while 64 writers wait
 * in each group.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/store.h"

enum { GROUP_ROWS = 50000, FLOOR_ROWS = 500, WRITERS = 64, ROUNDS = 50 };

static const char text[] = "installed: passed after 3m20s; the proof came from the new system";

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct store_event event_row(int i)
{
    return (struct store_event){.at = INT64_C(1796107831123) + i,
                                .node_id = i % 1000 + 1,
                                .node = "gpu017",
                                .kind = "stage.passed",
                                .stage = "installed",
                                .attempt_id = i + 1,
                                .text = text,
                                .actor = "engine"};
}

static void must(int rc, sqlite3 *db, const char *what)
{
    if (rc == SQLITE_OK || rc == SQLITE_DONE)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(db));
    exit(1);
}

/* ---- through the store ---- */

struct writer {
    struct loop *loop;
    struct store *store;
    int written, waiting, left; /* rows; syncs of this round; rounds */
    double started, worst, total;
    int syncs;
};

static void check(struct op *op)
{
    if (!op_ok(op)) {
        (void)fprintf(stderr, "sync: %s\n", op->err.text);
        exit(1);
    }
    op_free(op);
}

static void all_written(struct op *op, void *user)
{
    check(op);
    loop_stop(((struct writer *)user)->loop);
}

/* Hands the loop back every 500 rows, as callbacks of many nodes do. */
static void write_some(void *user)
{
    static struct timer again;
    struct writer *w = user;
    for (int i = 0; i < 500 && w->written < GROUP_ROWS; i++) {
        struct store_event e = event_row(w->written++);
        (void)store_add_event(w->store, &e);
    }
    if (w->written < GROUP_ROWS)
        timer_set(w->loop, &again, 0, write_some, w);
    else
        (void)store_sync(w->store, all_written, w);
}

static double group_rate(struct loop *l, struct store *s)
{
    struct writer w = {.loop = l, .store = s};
    double start = now_s();
    write_some(&w);
    loop_run(l);
    return GROUP_ROWS / (now_s() - start);
}

static void next_round(struct writer *w);

static void one_synced(struct op *op, void *user)
{
    struct writer *w = user;
    double took = now_s() - w->started;
    check(op);
    w->worst = took > w->worst ? took : w->worst;
    w->total += took;
    w->syncs++;
    if (--w->waiting > 0)
        return;
    if (--w->left > 0)
        next_round(w);
    else
        loop_stop(w->loop);
}

static void next_round(struct writer *w)
{
    w->started = now_s();
    w->waiting = WRITERS;
    for (int i = 0; i < WRITERS; i++) {
        struct store_event e = event_row(i);
        (void)store_add_event(w->store, &e);
        (void)store_sync(w->store, one_synced, w);
    }
}

static struct writer sync_times(struct loop *l, struct store *s)
{
    struct writer w = {.loop = l, .store = s, .left = ROUNDS};
    next_round(&w);
    loop_run(l);
    return w;
}

/* ---- the floor ---- */

static double floor_rate(const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    must(sqlite3_open(path, &db), db, path);
    must(sqlite3_exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL", NULL, NULL, NULL), db,
         "pragma");
    must(sqlite3_prepare_v2(db,
                            "INSERT INTO events(at, node_id, node, kind, stage, attempt_id, text,"
                            " actor) VALUES('2026-12-01 06:50:31.123', ?, 'gpu017', 'stage.passed',"
                            " 'installed', ?, ?, 'engine')",
                            -1, &st, NULL),
         db, "prepare");
    double start = now_s();
    for (int i = 0; i < FLOOR_ROWS; i++) {
        (void)sqlite3_bind_int(st, 1, i % 1000 + 1);
        (void)sqlite3_bind_int(st, 2, i + 1);
        (void)sqlite3_bind_text(st, 3, text, -1, SQLITE_STATIC);
        must(sqlite3_step(st), db, "insert"); /* outside of a transaction: one of its own */
        (void)sqlite3_reset(st);
    }
    double rate = FLOOR_ROWS / (now_s() - start);
    (void)sqlite3_finalize(st);
    (void)sqlite3_close(db);
    return rate;
}

static void remove_all(const char *dir, const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm", ".lock"};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        char *name cleanup_free = xasprintf("%s%s", path, ends[i]);
        (void)unlink(name);
    }
    (void)rmdir(dir);
}

int main(int argc, char **argv)
{
    const char *base = argc > 1 ? argv[1] : getenv("TMPDIR");
    char *dir cleanup_free = xasprintf("%s/store-bench.XXXXXX", base != NULL ? base : "/var/tmp");
    if (mkdtemp(dir) == NULL) {
        perror(dir);
        return 1;
    }
    char *path cleanup_free = xasprintf("%s/clusterd.db", dir);
    struct err err = {0};
    struct loop *l = loop_new();
    struct store *s;
    if (store_open(l, path, &s, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        remove_all(dir, path);
        return 1;
    }
    double group = group_rate(l, s);
    struct writer w = sync_times(l, s);
    store_close(s);
    double bare = floor_rate(path);
    remove_all(dir, path);
    printf("group commit        %9.0f rows/s (%d rows)\n", group, GROUP_ROWS);
    printf("transaction per row %9.0f rows/s (%d rows)\n", bare, FLOOR_ROWS);
    printf("ratio               %9.1f\n", group / bare);
    printf("sync, %d waiting    %9.1f ms mean, %.1f ms worst (20 ms of it are the group's)\n",
           WRITERS, w.total / w.syncs * 1e3, w.worst * 1e3);
    return loop_free(l);
}
