/*
 * Private to the store: the chain of events as its files share it.
 */
#pragma once

#include <sqlite3.h>
#include <stdatomic.h>

#include "store/audit.h"
#include "store/store_int.h"

#define AUDIT_NO_HASH "0000000000000000000000000000000000000000000000000000000000000000"

/* The columns that are hashed, in the order in which they are; the hash itself follows. */
#define AUDIT_COLUMNS "id, at, node_id, node, kind, stage, attempt_id, text, actor, hash"
enum { AUDIT_HASHED = 9 };

/* Hash of the row that a SELECT of AUDIT_COLUMNS stands at, as event `id` after `previous`. */
void audit_hash_row(sqlite3_stmt *st, int64_t id, const char *previous, char hash[DIGEST_HEX_SIZE]);
/* Hash of an event that is about to be written, as event `id`. */
void audit_hash_event(const struct store_event *r, int64_t id, const char *previous,
                      char hash[DIGEST_HEX_SIZE]);

/* Reads the row of audit_head. ERR_NOT_FOUND when it is gone. */
int audit_read_end(sqlite3 *db, struct audit_end *ret, struct err *err);
/* Walks the chain of `db`. `must` (NULL allowed): an end that has to be in it. A negative code
 * only when the database cannot be read, or `stop` was set. */
int audit_walk(sqlite3 *db, const char *hash, const struct audit_end *must, const atomic_bool *stop,
               struct audit_report *ret, struct err *err);

/* A step of the migration: gives every event its hash. */
int audit_hash_all(struct store *s, struct err *err);
/* After opening: where the chain goes on. */
int audit_load(struct store *s, struct err *err);
/* The id of the next event. Inside a transaction. */
int64_t audit_next_id(struct store *s);
/* The event was written. */
void audit_advance(struct store *s, int64_t id, const char hash[DIGEST_HEX_SIZE]);
/* Before and after the commit. */
int audit_save(struct store *s);
void audit_saved(struct store *s);
