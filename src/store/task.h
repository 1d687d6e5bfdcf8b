/*
 * Long work on the database beside the daemon's own connection: a thread of its own with a
 * read-only connection, in an op. Private to the store.
 *
 * The thread owns the task and may touch nothing of the store but its path; the op is the owner's.
 * A cancelled op only asks the thread to stop: it is joined when it has ended, at the latest by
 * store_close().
 */
#pragma once

#include <sqlite3.h>
#include <stdatomic.h>

#include "store/audit.h"
#include "store/backup.h"

struct task {
    const char *name;
    char *path; /* of the database */
    char *text; /* what `run` needs: a hash, a path */
    struct audit_end end;
    void (*run)(struct task *t); /* on the thread; the outcome goes into err and the reports */
    atomic_bool stop;            /* `run` looks at it now and then, and gives up */
    struct err err;
    struct audit_report audit;
    struct backup_report backup;
    struct task_private *private;
    struct task *next;
};

/* A task for the store's file; fill in what it needs, then task_start(). */
struct task *task_new(struct store *s, const char *name, void (*run)(struct task *t));
/* Takes the task. */
struct op *task_start(struct store *s, struct task *t, op_done_fn done, void *user);
/* The task of an op that is done. */
const struct task *task_of(const struct op *op);
/* Asks all threads to stop and waits for them. */
void tasks_stop(struct store *s);

/* backup.c, after opening: when the file is a copy that was put in the place of the database, what
 * was under way in it ends, and its nodes are held. */
int backup_settle(struct store *s, struct err *err);

/* Opens a file for reading only, with a snapshot of it: what is read belongs together. `live`: it
 * is written meanwhile; else nothing is made beside it. */
int task_open(const char *path, bool live, sqlite3 **ret_db, struct err *err);
