/*
 * The store: what clusterd knows, in one SQLite file (WAL, group commit). Only this room speaks SQL.
 *
 * Writers call store_put_*() / store_add_*(), which go into the open transaction at once, and
 * store_sync(), whose op completes when everything written so far is on disk. Commits are grouped:
 * every 20 ms or 500 rows. An effect on the world is started only from a completed sync.
 * Times are UTC milliseconds here and readable text ("2026-12-01 06:50:31.123") in the tables.
 * Strings in rows are borrowed for the call; NULL is SQL NULL. In callbacks of the readers they
 * are borrowed for the callback. A writer's failure (disk full) is sticky: it is reported by every
 * sync from then on, and the daemon stops acting.
 *
 * The tables are documented in docs/store.md, for people with a sqlite3 shell.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "loop/op.h"

struct store;

/* Opens or creates, migrates, and checks that no other daemon has it. ":memory:" for tests. */
int store_open(struct loop *loop, const char *path, struct store **ret_store, struct err *err);
/* Commits and closes. NULL allowed. */
void store_close(struct store *s);
struct op *store_sync(struct store *s, op_done_fn done, void *user);

/* ---- rows ---- */

struct store_node {
    int64_t id; /* 0 for a new one; names are unique among nodes that are not removed */
    const char *name;
    int64_t revision;
    const char *class_name, *profile, *rack, *unit;
    const char *bmc, *address, *serial, *uuid;
    const char *macs;      /* comma separated */
    const char *state;     /* the word shown: furthest proven stage */
    const char *operation; /* idle, running, waiting, backoff */
    const char *admin;     /* active, held, maintenance, retired */
    const char *hold_reason, *hold_by;
    int64_t hold_at;
    const char *power_desired, *power_observed; /* on, off, unknown */
    int64_t power_at;
    const char *boot_intent; /* disk, netboot */
    const char *health;      /* ok, failed, unknown */
    int64_t created_at, removed_at; /* 0: never */
};
/* Inserts (id 0) or updates; returns the id. */
int64_t store_put_node(struct store *s, const struct store_node *n);
typedef void (*store_node_fn)(const struct store_node *n, void *user);
int store_each_node(struct store *s, store_node_fn fn, void *user, struct err *err);

struct store_stage {
    int64_t node_id;
    const char *name;
    int ordinal;
    const char *status;      /* pending, blocked, queued, running, passed, failed, stale, skipped, waived */
    const char *fingerprint; /* of the last pass */
    const char *inputs;      /* JSON array of the inputs behind it */
    const char *reason;      /* why stale, skipped, blocked, failed */
    int64_t attempt_id;      /* the last one, 0: none */
    int64_t passed_at, changed_at;
};
void store_put_stage(struct store *s, const struct store_stage *r); /* key: node_id, name */
void store_drop_stage(struct store *s, int64_t node_id, const char *name);
typedef void (*store_stage_fn)(const struct store_stage *r, void *user);
int store_each_stage(struct store *s, store_stage_fn fn, void *user, struct err *err);

struct store_attempt {
    int64_t id; /* 0 for a new one */
    int64_t node_id;
    const char *stage;
    int number; /* 1, 2, ... since the stage last passed or was asked for */
    const char *status; /* running, passed, failed, cancelled */
    const char *fingerprint;
    const char *why;    /* why it was started */
    int step;           /* index of the step in work */
    int64_t started_at, deadline_at, ended_at;
    const char *error_code, *error;
    int64_t retry_at; /* when the next attempt is due, 0: none */
};
int64_t store_put_attempt(struct store *s, const struct store_attempt *r);
typedef void (*store_attempt_fn)(const struct store_attempt *r, void *user);
/* running_only for the start; else the newest `limit` of a node (node_id 0: of all), newest first. */
int store_each_running_attempt(struct store *s, store_attempt_fn fn, void *user, struct err *err);
int store_each_attempt(struct store *s, int64_t node_id, const char *stage, int limit,
                       store_attempt_fn fn, void *user, struct err *err);

struct store_step {
    int64_t attempt_id;
    int index;
    const char *type, *what;
    const char *status; /* running, passed, failed, cancelled */
    const char *data;   /* JSON that the step needs to go on after a restart (run id, token hash, ...) */
    const char *result; /* one line of what was observed */
    int64_t started_at, ended_at;
};
void store_put_step(struct store *s, const struct store_step *r); /* key: attempt_id, index */
typedef void (*store_step_fn)(const struct store_step *r, void *user);
int store_each_step(struct store *s, int64_t attempt_id, store_step_fn fn, void *user,
                    struct err *err);

struct store_evidence {
    int64_t id, attempt_id, node_id;
    const char *stage;
    const char *kind; /* "log", "probe", "identity", "console", "value", ... */
    int64_t at;
    const char *text; /* at most 256 KiB are kept: the end of it */
};
int64_t store_add_evidence(struct store *s, const struct store_evidence *r);
typedef void (*store_evidence_fn)(const struct store_evidence *r, void *user);
int store_each_evidence(struct store *s, int64_t attempt_id, store_evidence_fn fn, void *user,
                        struct err *err);

struct store_measurement {
    int64_t attempt_id, node_id;
    const char *stage, *name; /* "ib_write_bw", "memory_copy", ... */
    double value;
    const char *unit; /* "Gb/s", "MB/s", "s", "ops/s" */
    const char *peer; /* the other node of a pair, or NULL */
    double limit;     /* the floor or ceiling that applied; NaN: none */
    const char *verdict; /* ok, low, high, info */
    int64_t at;
};
void store_add_measurement(struct store *s, const struct store_measurement *r);
typedef void (*store_measurement_fn)(const struct store_measurement *r, void *user);
int store_each_measurement(struct store *s, int64_t node_id, int limit, store_measurement_fn fn,
                           void *user, struct err *err);

struct store_event {
    int64_t id; /* growing; cursors of event readers */
    int64_t at;
    int64_t node_id; /* 0: about the cluster */
    const char *node;
    const char *kind; /* "stage.passed", "attempt.started", "power.on", "node.held", ... */
    const char *stage;
    int64_t attempt_id;
    const char *text;
    const char *actor; /* "engine", or the user who asked */
};
int64_t store_add_event(struct store *s, const struct store_event *r);
typedef void (*store_event_fn)(const struct store_event *r, void *user);
/* Events with id > after, oldest first, at most `limit`; node_id 0: all. after < 0: the newest `limit`. */
int store_each_event(struct store *s, int64_t after, int64_t node_id, int limit, store_event_fn fn,
                     void *user, struct err *err);

struct store_token {
    const char *hash; /* SHA-256 of the token, hex: the token itself is never stored */
    int64_t node_id, attempt_id;
    const char *purpose; /* discover, install */
    const char *state;   /* armed, claimed, written, proven, dead */
    const char *image_sha256;
    const char *ramdisk_boot_id, *proof_boot_id;
    int64_t armed_at, expires_at, changed_at;
    const char *why_dead;
};
void store_put_token(struct store *s, const struct store_token *r); /* key: hash */
typedef void (*store_token_fn)(const struct store_token *r, void *user);
int store_each_live_token(struct store *s, store_token_fn fn, void *user, struct err *err);
/* Installs begun (token of purpose install claimed) for the node since `since`. */
int store_count_installs(struct store *s, int64_t node_id, int64_t since, int *ret_count,
                         struct err *err);

struct store_pending {
    const char *mac, *uuid, *serial, *address, *platform, *note;
    int64_t first_seen, last_seen;
    int64_t times;
    const char *status; /* pending, ignored, adopted */
};
void store_put_pending(struct store *s, const struct store_pending *r); /* key: mac */
typedef void (*store_pending_fn)(const struct store_pending *r, void *user);
int store_each_pending(struct store *s, store_pending_fn fn, void *user, struct err *err);

struct store_component {
    int64_t node_id;
    const char *kind; /* system, board, bmc, cpu, memory, disk, nic, gpu, hca */
    const char *slot; /* "eth0", "0000:17:00.0", "cpu0", "vda" */
    const char *identity; /* serial, MAC, GUID: what changes with a swap */
    const char *model, *firmware, *detail;
    int64_t seen_at;
};
/* Replaces the node's whole tree: rows that are gone are kept with removed_at. */
void store_put_machine(struct store *s, int64_t node_id, const char *probe_json,
                       const struct store_component *rows, int count, int64_t at);
/* The last probe JSON of each node. */
typedef void (*store_machine_fn)(int64_t node_id, const char *probe_json, int64_t at, void *user);
int store_each_machine(struct store *s, store_machine_fn fn, void *user, struct err *err);

struct store_hostkey {
    int64_t node_id;
    const char *key; /* "ssh-ed25519 AAAA..." as reported by the install */
    int64_t attempt_id, at;
};
void store_put_hostkey(struct store *s, const struct store_hostkey *r); /* one per node */
typedef void (*store_hostkey_fn)(const struct store_hostkey *r, void *user);
int store_each_hostkey(struct store *s, store_hostkey_fn fn, void *user, struct err *err);

struct store_revision {
    int64_t id; /* 1, 2, ... */
    int64_t at;
    const char *author, *cluster, *files /* JSON [{path, text}] */, *sha256, *summary;
};
int64_t store_add_revision(struct store *s, const struct store_revision *r);
/* The newest revision; ERR_NOT_FOUND when there is none. Calls fn once. */
typedef void (*store_revision_fn)(const struct store_revision *r, void *user);
int store_last_revision(struct store *s, store_revision_fn fn, void *user, struct err *err);
int store_each_revision(struct store *s, int limit, store_revision_fn fn, void *user,
                        struct err *err);

/* The lock-out breaker's memory: this BMC refused this credential (keyed hash, not the secret). */
struct store_bmc_lock {
    const char *address, *credential_hmac, *reason;
    int64_t at;
};
void store_put_bmc_lock(struct store *s, const struct store_bmc_lock *r); /* key: address */
void store_drop_bmc_lock(struct store *s, const char *address);
typedef void (*store_bmc_lock_fn)(const struct store_bmc_lock *r, void *user);
int store_each_bmc_lock(struct store *s, store_bmc_lock_fn fn, void *user, struct err *err);

/* SHA-256 of artefact files that were hashed before, by path, size and mtime. */
struct store_artefact {
    const char *path;
    int64_t size, mtime_ns;
    const char *sha256;
};
void store_put_artefact(struct store *s, const struct store_artefact *r); /* key: path */
typedef void (*store_artefact_fn)(const struct store_artefact *r, void *user);
int store_each_artefact(struct store *s, store_artefact_fn fn, void *user, struct err *err);
