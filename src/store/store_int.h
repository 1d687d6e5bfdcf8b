/*
 * What the files of the store share: the connection, cached statements, binding and reading.
 */
#pragma once

#include <sqlite3.h>

#include "store/audit.h"
#include "store/store.h"

struct sync;
struct cached;
struct task;

struct store {
    struct loop *loop;
    sqlite3 *db;
    int lock_fd; /* -1: in memory */
    bool open;   /* a transaction is open */
    int rows;    /* written in it */
    struct timer commit_timer;
    struct sync *waiting;   /* syncs that wait for the commit */
    struct err fault;       /* the first failure of a writer; sticky */
    struct latency commits; /* from COMMIT to durable */
    struct cached *statements;
    int statement_count, statement_capacity;
    char *path;                            /* NULL: in memory */
    struct audit_end audit, audit_on_disk; /* the chain of events: with and without the open
                                              transaction */
    bool audit_moved, audit_looked;        /* in the open transaction: see audit.c */
    struct mailbox *task_mailbox;          /* of the threads below, opened on demand */
    struct task *tasks;
};

/* A prepared statement for a constant SQL text (the pointer is the key), reset and unbound. NULL
 * after setting the fault (writers) - readers pass an err of their own. */
struct statement {
    struct store *store;
    sqlite3_stmt *stmt;
    int next;      /* the next parameter to bind or column to read */
    bool uncached; /* the cached one was in use: an outer call is reading from it */
};
int statement_open(struct store *s, const char *sql, struct statement *ret, struct err *err);
void statement_close(struct statement *st);

/* Bind in the order of the parameters. */
void put_int(struct statement *st, int64_t value);
void put_real(struct statement *st, double value); /* NaN: NULL */
void put_text(struct statement *st, const char *text);
void put_time(struct statement *st, int64_t wall_ms); /* 0: NULL */

/* Read in the order of the columns. Text is borrowed until the next step. */
int64_t get_int(struct statement *st);
double get_real(struct statement *st); /* NULL: NaN */
const char *get_text(struct statement *st);
int64_t get_time(struct statement *st); /* NULL: 0 */

/* A writer: begins a transaction when none is open, runs the bound statement, notes a failure in
 * the fault, closes the statement. Returns the last row id. */
int64_t store_write(struct statement *st);
/* A reader's next row: 1 a row, 0 the end, negative an error. Columns start anew. */
int store_next(struct statement *st, struct err *err);

/* Opens for a writer: on failure the fault is set and false returned. */
bool write_open(struct store *s, const char *sql, struct statement *ret);

/* Ends the open transaction and the waiting of the syncs; a timer_fn, the user is the store. */
void store_commit(void *store);

int store_exec(struct store *s, const char *sql, struct err *err);
int store_migrate(struct store *s, struct err *err);
int store_error(struct store *s, const char *what, struct err *err);
