/*
 * The store: what clusterd knows, in one SQLite file (WAL, group commit). Only this room speaks
 * SQL.
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
#include "base/latency.h"
#include "loop/op.h"

struct store;

/* Opens or creates, migrates, and checks that no other daemon has it. ":memory:" for tests. */
int store_open(struct loop *loop, const char *path, struct store **ret_store, struct err *err);
/* Commits and closes. NULL allowed. */
void store_close(struct store *s);
struct op *store_sync(struct store *s, op_done_fn done, void *user);
/* How long the commits so far took, until they were on disk. */
const struct latency *store_commits(const struct store *s);

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
    const char *deferred; /* why only what is queued may start; NULL: all may */
    const char *power_desired, *power_observed; /* on, off, unknown */
    int64_t power_at;
    const char *boot_intent;        /* disk, netboot */
    const char *health;             /* ok, failed, unknown */
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
    const char
        *status; /* pending, blocked, queued, running, passed, failed, stale, skipped, waived */
    const char *fingerprint; /* of the last pass */
    const char *inputs;      /* JSON array of the inputs behind it; NULL when written: as they were,
                                and always when read */
    const char *reason;      /* why stale, skipped, blocked, failed */
    int64_t attempt_id;      /* the last one, 0: none */
    int64_t passed_at, changed_at;
    const char *drift; /* what a sweep found, until it is proven or asked for again */
};
void store_put_stage(struct store *s, const struct store_stage *r); /* key: node_id, name */
void store_drop_stage(struct store *s, int64_t node_id, const char *name);
typedef void (*store_stage_fn)(const struct store_stage *r, void *user);
int store_each_stage(struct store *s, store_stage_fn fn, void *user, struct err *err);
/* The inputs that were last written; NULL: none. The caller frees. */
char *store_stage_inputs(struct store *s, int64_t node_id, const char *name);

struct store_attempt {
    int64_t id; /* 0 for a new one */
    int64_t node_id;
    const char *stage;
    int number;         /* 1, 2, ... since the stage last passed or was asked for */
    const char *status; /* running, passed, failed, cancelled */
    const char *fingerprint;
    const char *why; /* why it was started */
    int step;        /* index of the step in work */
    int64_t started_at, deadline_at, ended_at;
    const char *error_code, *error;
    int64_t retry_at; /* when the next attempt is due, 0: none */
};
int64_t store_put_attempt(struct store *s, const struct store_attempt *r);
typedef void (*store_attempt_fn)(const struct store_attempt *r, void *user);
/* running_only for the start; else the newest `limit` of a node (node_id 0: of all), newest first.
 */
int store_each_running_attempt(struct store *s, store_attempt_fn fn, void *user, struct err *err);
int store_each_attempt(struct store *s, int64_t node_id, const char *stage, int limit,
                       store_attempt_fn fn, void *user, struct err *err);

/* The newest `limit` that passed, newest first. */
int store_each_passed_attempt(struct store *s, int limit, store_attempt_fn fn, void *user,
                              struct err *err);

struct store_step {
    int64_t attempt_id;
    int index;
    const char *type, *what;
    const char *status; /* running, passed, failed, cancelled */
    const char
        *data; /* JSON that the step needs to go on after a restart (run id, token hash, ...) */
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
    const char *unit;    /* "Gb/s", "MB/s", "s", "ops/s" */
    const char *peer;    /* the other node of a pair, or NULL */
    double limit;        /* the floor or ceiling that applied; NaN: none */
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
/* Events with id > after, oldest first, at most `limit`; node_id 0: all. after < 0: the newest
 * `limit`. */
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
    const char *kind;     /* system, board, bmc, cpu, memory, disk, nic, gpu, hca */
    const char *slot;     /* "eth0", "0000:17:00.0", "cpu0", "vda" */
    const char *identity; /* serial, MAC, GUID: what changes with a swap */
    const char *model, *firmware, *detail;
    const char *machine; /* the machine's serial or UUID: the same in all rows of a call */
    int64_t seen_at;
};
/* Replaces the node's whole tree: rows that are gone are kept with removed_at, all of them where
 * it is another machine. */
void store_put_machine(struct store *s, int64_t node_id, const char *probe_json,
                       const struct store_component *rows, int count, int64_t at);
/* The last probe JSON of each node, and what its BMC said; NULL: nothing yet. */
struct store_machine {
    int64_t node_id;
    const char *probe, *bmc;
    int64_t at;
};
typedef void (*store_machine_fn)(const struct store_machine *m, void *user);
int store_each_machine(struct store *s, store_machine_fn fn, void *user, struct err *err);
/* The last probe JSON of one node; NULL: none. The caller frees. */
char *store_machine_probe(struct store *s, int64_t node_id);

/* What the node's BMC last said of itself and the machine, as JSON. */
void store_put_bmc_identity(struct store *s, int64_t node_id, const char *json);

/* Another machine than the recorded one was seen in a node's slot, and somebody must say so. */
struct store_swap {
    int64_t node_id;
    int64_t at;
    const char *reason; /* what differs */
    const char *probe;  /* nodeprobe's JSON of the other machine */
};
void store_put_swap(struct store *s, const struct store_swap *r); /* one per node */
void store_drop_swap(struct store *s, int64_t node_id);
typedef void (*store_swap_fn)(const struct store_swap *r, void *user);
int store_each_swap(struct store *s, store_swap_fn fn, void *user, struct err *err);

/* Where a part that is in a node now was before: the newest first for each part. */
struct store_place {
    const char *kind, *slot, *identity; /* of the part now */
    const char *node, *node_slot;       /* where it was */
    const char *machine;                /* in which machine, NULL: not recorded */
    int64_t first_seen, removed_at;     /* removed_at 0: it is recorded there, too */
};
typedef void (*store_place_fn)(const struct store_place *r, void *user);
int store_each_earlier_place(struct store *s, int64_t node_id, store_place_fn fn, void *user,
                             struct err *err);

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
int store_get_revision(struct store *s, int64_t id, store_revision_fn fn, void *user,
                       struct err *err);
/* The newest `limit`, newest first, without their files (NULL). */
int store_each_revision(struct store *s, int limit, store_revision_fn fn, void *user,
                        struct err *err);

/* What one apply, or a rerun of many nodes, set in motion. */
struct store_rollout {
    int64_t id; /* 0 for a new one */
    int64_t at;
    const char *cause, *actor;
    int64_t revision;
    const char *status;   /* running, paused, stopped, cancelled, finished, replaced */
    const char *reason;   /* why stopped, paused, cancelled, replaced */
    const char *settings; /* JSON: `rollout` of the spec when it began */
    int wave;             /* whose nodes may start; 0: the canaries */
    int64_t wave_at;      /* when the next one begins, 0: not waiting for a time */
    int round;            /* failures of earlier rounds are forgiven: 1, 2, ... by each resume */
    int64_t changed_at, ended_at;
};
int64_t store_put_rollout(struct store *s, const struct store_rollout *r);
typedef void (*store_rollout_fn)(const struct store_rollout *r, void *user);
/* The newest `limit`, newest first. */
int store_each_rollout(struct store *s, bool open_only, int limit, store_rollout_fn fn, void *user,
                       struct err *err);

struct store_rollout_node {
    int64_t rollout_id, node_id;
    int ordinal, wave;
    const char *status; /* waiting, started, done, failed, left */
    int failed_round;   /* in which it failed and was counted, 0: not */
    bool asked;         /* an operator named this node: it waits for nothing */
    int64_t changed_at;
};
void store_put_rollout_node(struct store *s, const struct store_rollout_node *r);
typedef void (*store_rollout_node_fn)(const struct store_rollout_node *r, void *user);
int store_each_rollout_node(struct store *s, int64_t rollout_id, store_rollout_node_fn fn,
                            void *user, struct err *err);
int store_count_rollout_nodes(struct store *s, int64_t rollout_id,
                              void (*fn)(const char *status, int count, void *user), void *user,
                              struct err *err);
/* Forgets the nodes of ended rollouts before this one. */
void store_drop_rollout_nodes(struct store *s, int64_t before_id);

/* One measurement of a group of nodes: its members, and what each pair of them reached. */
struct store_group_run {
    int64_t id; /* 0 for a new one */
    int64_t at;
    const char *stage;
    int step;                      /* index of the step in the stage */
    const char *scope;             /* pair, rail, rack, cluster */
    const char *class_name, *rack; /* rack: of scope rack, else NULL */
    int rounds, rails;
    const char *status; /* running, finished, cancelled */
    const char *text;   /* how it ended; while it runs: who was left out and why */
    int64_t ended_at;
};
int64_t store_put_group_run(struct store *s, const struct store_group_run *r);
typedef void (*store_group_run_fn)(const struct store_group_run *r, void *user);
/* Those that did not end, oldest first. */
int store_each_open_group_run(struct store *s, store_group_run_fn fn, void *user, struct err *err);

struct store_group_member {
    int64_t run_id, node_id;
    int ordinal;
    const char *stage;
    int64_t attempt_id;  /* 0: it lent itself */
    const char *verdict; /* ok, fault, unclear, none, gone; NULL: not known yet */
    const char *why;
    double value, limit; /* the median of its pairs; NaN: none */
    const char *unit;
    int64_t at;
};
void store_put_group_member(struct store *s, const struct store_group_member *r); /* run, node */
typedef void (*store_group_member_fn)(const struct store_group_member *r, void *user);
int store_each_group_member(struct store *s, int64_t run_id, store_group_member_fn fn, void *user,
                            struct err *err);

struct store_group_result {
    int64_t run_id;
    int bout, round, rail; /* rail -1: none */
    int64_t node_id, peer_id;
    const char *stage, *metric; /* metric "transfer": none took place */
    double value, limit;        /* NaN: none */
    const char *unit;
    const char *verdict; /* ok, low, info, failed, none */
    const char *why;
    int64_t at;
};
void store_put_group_result(struct store *s,
                            const struct store_group_result *r); /* run, bout, metric */
typedef void (*store_group_result_fn)(const struct store_group_result *r, void *user);
int store_each_group_result(struct store *s, int64_t run_id, store_group_result_fn fn, void *user,
                            struct err *err);

/* A node's part in the last run of each of its stages that ended, with the run, its pairs in it,
 * and what they reached the time before. */
struct store_last_group {
    struct store_group_run run;
    struct store_group_member member;
    double previous; /* the member's value in the run before, NaN: none */
};
struct store_last_result {
    struct store_group_result result;
    double previous; /* of the same two, or NaN */
    int64_t previous_at;
};
/* stage NULL: all. fn may call store_each_last_result(). */
int store_each_last_group(struct store *s, int64_t node_id, const char *stage,
                          void (*fn)(const struct store_last_group *r, void *user), void *user,
                          struct err *err);
int store_each_last_result(struct store *s, int64_t node_id, int64_t run_id,
                           void (*fn)(const struct store_last_result *r, void *user), void *user,
                           struct err *err);

/* The watts that a node counts on the feed of its rack, and on those above. */
/* The last sweep of a node, and when the next one is due. */
struct store_sweep {
    int64_t node_id;
    int64_t at, ok_at; /* the last one, and the last that saw the whole machine; 0: never */
    int64_t next_at;
    const char *result; /* clean, drift, workload, unreachable, denied, unknown */
    const char *text;
    const char *workload; /* what runs; NULL: nothing was seen running */
    int64_t workload_since;
    int misses; /* in a row that did not reach it */
};
void store_put_sweep(struct store *s, const struct store_sweep *r); /* key: node_id */
typedef void (*store_sweep_fn)(const struct store_sweep *r, void *user);
int store_each_sweep(struct store *s, store_sweep_fn fn, void *user, struct err *err);

struct store_reservation {
    int64_t node_id;
    const char *feed;
    int64_t watts;
    const char *state; /* unknown, idle, boot, inrush, burnin */
    int64_t until;     /* when the state ends by itself, 0: not by itself */
};
void store_put_reservation(struct store *s, const struct store_reservation *r); /* key: node_id */
void store_drop_reservation(struct store *s, int64_t node_id);
typedef void (*store_reservation_fn)(const struct store_reservation *r, void *user);
int store_each_reservation(struct store *s, store_reservation_fn fn, void *user, struct err *err);

/* The lock-out breaker's memory: this BMC refused this credential (keyed hash, not the secret). */
struct store_bmc_lock {
    const char *address, *credential_hmac, *reason;
    int64_t at;
};
void store_put_bmc_lock(struct store *s, const struct store_bmc_lock *r); /* key: address */
void store_drop_bmc_lock(struct store *s, const char *address);
typedef void (*store_bmc_lock_fn)(const struct store_bmc_lock *r, void *user);
int store_each_bmc_lock(struct store *s, store_bmc_lock_fn fn, void *user, struct err *err);

/* How far a webhook came with the events. */
struct store_notify_cursor {
    const char *hook;
    int64_t event_id;     /* up to here everything was delivered, skipped or not asked for */
    int64_t skipped;      /* events that were skipped and the receiver was not told of yet */
    int64_t delivered_id; /* the last event that was delivered, 0: none */
    int64_t delivered_at;
};
void store_put_notify_cursor(struct store *s, const struct store_notify_cursor *r); /* key: hook */
void store_drop_notify_cursor(struct store *s, const char *hook);
typedef void (*store_notify_cursor_fn)(const struct store_notify_cursor *r, void *user);
int store_each_notify_cursor(struct store *s, store_notify_cursor_fn fn, void *user,
                             struct err *err);

/* SHA-256 of artefact files that were hashed before, by path, size and mtime. */
struct store_artefact {
    const char *path;
    int64_t size, mtime_ns;
    const char *sha256;
};
void store_put_artefact(struct store *s, const struct store_artefact *r); /* key: path */
typedef void (*store_artefact_fn)(const struct store_artefact *r, void *user);
int store_each_artefact(struct store *s, store_artefact_fn fn, void *user, struct err *err);
