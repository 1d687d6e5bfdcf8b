/* The schema, as numbered migrations. Never change one that was released: add another. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/audit_int.h"

static const char migration_1[] =
    "CREATE TABLE nodes(id INTEGER PRIMARY KEY, name TEXT NOT NULL, revision INTEGER, class TEXT,"
    " profile TEXT, rack TEXT, unit TEXT, bmc TEXT, address TEXT, serial TEXT, uuid TEXT, macs "
    "TEXT,"
    " state TEXT, operation TEXT, admin TEXT, hold_reason TEXT, hold_by TEXT, hold_at TEXT,"
    " power_desired TEXT, power_observed TEXT, power_at TEXT, boot_intent TEXT, health TEXT,"
    " created_at TEXT, removed_at TEXT);"
    "CREATE UNIQUE INDEX nodes_name ON nodes(name) WHERE removed_at IS NULL;"
    "CREATE TABLE stages(node_id INTEGER NOT NULL, name TEXT NOT NULL, ordinal INTEGER,"
    " status TEXT NOT NULL, fingerprint TEXT, inputs TEXT, reason TEXT, attempt_id INTEGER,"
    " passed_at TEXT, changed_at TEXT, PRIMARY KEY(node_id, name)) WITHOUT ROWID;"
    "CREATE TABLE attempts(id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, stage TEXT NOT NULL,"
    " number INTEGER, status TEXT NOT NULL, fingerprint TEXT, why TEXT, step INTEGER,"
    " started_at TEXT, deadline_at TEXT, ended_at TEXT, error_code TEXT, error TEXT, retry_at "
    "TEXT);"
    "CREATE INDEX attempts_node ON attempts(node_id, id);"
    "CREATE INDEX attempts_running ON attempts(status) WHERE status = 'running';"
    "CREATE TABLE steps(attempt_id INTEGER NOT NULL, step INTEGER NOT NULL, type TEXT, what TEXT,"
    " status TEXT, data TEXT, result TEXT, started_at TEXT, ended_at TEXT,"
    " PRIMARY KEY(attempt_id, step)) WITHOUT ROWID;"
    "CREATE TABLE evidence(id INTEGER PRIMARY KEY, attempt_id INTEGER, node_id INTEGER, stage TEXT,"
    " kind TEXT, at TEXT, text TEXT);"
    "CREATE INDEX evidence_attempt ON evidence(attempt_id);"
    "CREATE TABLE measurements(id INTEGER PRIMARY KEY, attempt_id INTEGER, node_id INTEGER,"
    " stage TEXT, name TEXT, value REAL, unit TEXT, peer TEXT, bound REAL, verdict TEXT, at TEXT);"
    "CREATE INDEX measurements_node ON measurements(node_id, id);"
    "CREATE TABLE events(id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT, node_id INTEGER, node TEXT,"
    " kind TEXT, stage TEXT, attempt_id INTEGER, text TEXT, actor TEXT);"
    "CREATE INDEX events_node ON events(node_id, id);"
    "CREATE TABLE tokens(hash TEXT PRIMARY KEY, node_id INTEGER, attempt_id INTEGER, purpose TEXT,"
    " state TEXT, image_sha256 TEXT, ramdisk_boot_id TEXT, proof_boot_id TEXT, armed_at TEXT,"
    " expires_at TEXT, changed_at TEXT, why_dead TEXT) WITHOUT ROWID;"
    "CREATE INDEX tokens_node ON tokens(node_id);"
    "CREATE TABLE pending(mac TEXT PRIMARY KEY, uuid TEXT, serial TEXT, address TEXT, platform "
    "TEXT,"
    " note TEXT, first_seen TEXT, last_seen TEXT, times INTEGER, status TEXT) WITHOUT ROWID;"
    "CREATE TABLE components(id INTEGER PRIMARY KEY, node_id INTEGER NOT NULL, kind TEXT NOT NULL,"
    " slot TEXT NOT NULL, identity TEXT NOT NULL, model TEXT, firmware TEXT, detail TEXT,"
    " first_seen TEXT, seen_at TEXT, removed_at TEXT);"
    "CREATE UNIQUE INDEX components_part ON components(node_id, kind, slot, identity)"
    " WHERE removed_at IS NULL;"
    "CREATE TABLE machines(node_id INTEGER PRIMARY KEY, probe TEXT, at TEXT);"
    "CREATE TABLE host_keys(node_id INTEGER PRIMARY KEY, key TEXT, attempt_id INTEGER, at TEXT);"
    "CREATE TABLE revisions(id INTEGER PRIMARY KEY, at TEXT, author TEXT, cluster TEXT, files TEXT,"
    " sha256 TEXT, summary TEXT);"
    "CREATE TABLE bmc_locks(address TEXT PRIMARY KEY, credential_hmac TEXT, reason TEXT, at TEXT)"
    " WITHOUT ROWID;"
    "CREATE TABLE artefacts(path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, sha256 TEXT)"
    " WITHOUT ROWID;"
    "CREATE VIEW where_are_nodes AS SELECT n.name AS node, n.state, n.operation, n.admin, n.health,"
    " n.rack, n.power_observed AS power,"
    " (SELECT max(s.changed_at) FROM stages s WHERE s.node_id = n.id) AS since,"
    " coalesce(n.hold_reason, (SELECT s.name || ': ' || s.reason FROM stages s"
    " WHERE s.node_id = n.id AND s.status IN ('failed', 'running', 'queued', 'stale')"
    " ORDER BY s.ordinal LIMIT 1)) AS reason"
    " FROM nodes n WHERE n.removed_at IS NULL;"
    "CREATE VIEW history AS SELECT at, node, kind, stage, text, actor, attempt_id FROM events;";

/* When a token was claimed, for what changes later must not move an install into another day; and
 * what the questions "what happened to this node" and "what did it print" need to be quick. */
static const char migration_2[] =
    "ALTER TABLE tokens ADD COLUMN claimed_at TEXT;"
    "UPDATE tokens SET claimed_at = changed_at"
    " WHERE state IN ('claimed', 'written', 'proven') OR ramdisk_boot_id IS NOT NULL;"
    "CREATE INDEX events_name ON events(node, at);"
    "CREATE INDEX evidence_node ON evidence(node_id, id);";

/* Nodes on which only what is queued may start: an apply left the rest out. */
static const char migration_3[] = "ALTER TABLE nodes ADD COLUMN deferred TEXT;";

/* What an apply or a rerun of many nodes set in motion, and how far each of its nodes came. */
static const char migration_4[] =
    "CREATE TABLE rollouts(id INTEGER PRIMARY KEY, at TEXT, cause TEXT, actor TEXT,"
    " revision INTEGER, status TEXT NOT NULL, reason TEXT, settings TEXT, wave INTEGER,"
    " wave_at TEXT, round INTEGER, changed_at TEXT, ended_at TEXT);"
    "CREATE INDEX rollouts_open ON rollouts(id) WHERE ended_at IS NULL;"
    "CREATE TABLE rollout_nodes(rollout_id INTEGER NOT NULL, node_id INTEGER NOT NULL,"
    " ordinal INTEGER, wave INTEGER, status TEXT NOT NULL, failed_round INTEGER, asked INTEGER,"
    " changed_at TEXT, PRIMARY KEY(rollout_id, node_id)) WITHOUT ROWID;";

/* The watts that each node counts on its feed. */
static const char migration_5[] =
    "CREATE TABLE power_reservations(node_id INTEGER PRIMARY KEY, feed TEXT NOT NULL,"
    " watts INTEGER NOT NULL, state TEXT NOT NULL, until TEXT);"
    "CREATE INDEX power_reservations_feed ON power_reservations(feed);";

/* The events become a chain of hashes: see audit.h. */
static const char migration_6[] =
    "ALTER TABLE events ADD COLUMN hash TEXT;"
    "CREATE TABLE audit_head(one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL,"
    " event_id INTEGER NOT NULL, hash TEXT NOT NULL);";
static const char migration_6_triggers[] =
    "CREATE TRIGGER events_no_update BEFORE UPDATE ON events"
    " BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;"
    "CREATE TRIGGER events_no_delete BEFORE DELETE ON events"
    " BEGIN SELECT RAISE(ABORT, 'events are never removed'); END;";

/* How far each webhook came with the events. */
static const char migration_7[] =
    "CREATE TABLE notify_cursors(hook TEXT PRIMARY KEY, event_id INTEGER NOT NULL,"
    " skipped INTEGER NOT NULL, delivered_id INTEGER, delivered_at TEXT) WITHOUT ROWID;";

/* What sweeps found, and when they come again. */
static const char migration_8[] =
    "ALTER TABLE stages ADD COLUMN drift TEXT;"
    "CREATE TABLE sweeps(node_id INTEGER PRIMARY KEY, at TEXT, ok_at TEXT, next_at TEXT,"
    " result TEXT, text TEXT, workload TEXT, workload_since TEXT, misses INTEGER NOT NULL);";

/* Measurements of groups of nodes. */
static const char migration_9[] =
    "CREATE TABLE group_runs(id INTEGER PRIMARY KEY, at TEXT, stage TEXT, step INTEGER,"
    " scope TEXT, class TEXT, rack TEXT, rounds INTEGER, rails INTEGER, status TEXT NOT NULL,"
    " text TEXT, ended_at TEXT);"
    "CREATE INDEX group_runs_open ON group_runs(id) WHERE ended_at IS NULL;"
    "CREATE TABLE group_members(run_id INTEGER NOT NULL, node_id INTEGER NOT NULL,"
    " ordinal INTEGER, stage TEXT, attempt_id INTEGER, verdict TEXT, why TEXT, value REAL,"
    " bound REAL, unit TEXT, at TEXT, PRIMARY KEY(run_id, node_id)) WITHOUT ROWID;"
    "CREATE INDEX group_members_node ON group_members(node_id, stage, run_id);"
    "CREATE TABLE group_results(run_id INTEGER NOT NULL, bout INTEGER NOT NULL, metric TEXT,"
    " round INTEGER, rail INTEGER, node_id INTEGER NOT NULL, peer_id INTEGER NOT NULL,"
    " stage TEXT, value REAL, unit TEXT, bound REAL, verdict TEXT, why TEXT, at TEXT,"
    " PRIMARY KEY(run_id, bout, metric)) WITHOUT ROWID;"
    "CREATE INDEX group_results_node ON group_results(node_id, run_id);"
    "CREATE INDEX group_results_peer ON group_results(peer_id, run_id);";

/* Machines: what their BMC says, the one that waits for an operator, and in which machine a part
 * was, so that history belongs to serials and not to slots. */
static const char migration_10[] =
    "CREATE TABLE swaps(node_id INTEGER PRIMARY KEY, at TEXT, reason TEXT, probe TEXT);"
    "ALTER TABLE machines ADD COLUMN bmc TEXT;"
    "ALTER TABLE components ADD COLUMN machine TEXT;"
    "UPDATE components SET machine = (SELECT s.identity FROM components s"
    " WHERE s.node_id = components.node_id AND s.kind = 'system' AND s.removed_at IS NULL"
    " AND s.identity <> '') WHERE removed_at IS NULL;"
    "CREATE INDEX components_identity ON components(identity) WHERE identity <> '';"
    "DROP VIEW where_are_nodes;"
    "CREATE VIEW where_are_nodes AS SELECT n.name AS node, n.state, n.operation,"
    " CASE WHEN EXISTS (SELECT 1 FROM swaps w WHERE w.node_id = n.id) THEN 'swap-suspected'"
    " ELSE n.admin END AS admin, n.health, n.rack, n.power_observed AS power,"
    " (SELECT max(s.changed_at) FROM stages s WHERE s.node_id = n.id) AS since,"
    " coalesce((SELECT w.reason FROM swaps w WHERE w.node_id = n.id), n.hold_reason,"
    " (SELECT s.name || ': ' || s.reason FROM stages s"
    " WHERE s.node_id = n.id AND s.status IN ('failed', 'running', 'queued', 'stale')"
    " ORDER BY s.ordinal LIMIT 1)) AS reason"
    " FROM nodes n WHERE n.removed_at IS NULL;";

static const struct migration {
    const char *sql;
    int (*step)(struct store *s, struct err *err); /* what SQL cannot do; NULL: nothing */
    const char *last;                              /* more SQL after the step; NULL: none */
} migrations[] = {
    {migration_1, NULL, NULL}, {migration_2, NULL, NULL},
    {migration_3, NULL, NULL}, {migration_4, NULL, NULL},
    {migration_5, NULL, NULL}, {migration_6, audit_hash_all, migration_6_triggers},
    {migration_7, NULL, NULL}, {migration_8, NULL, NULL},
    {migration_9, NULL, NULL}, {migration_10, NULL, NULL},
};

static int read_version(struct store *s, int *ret_version, struct err *err)
{
    struct statement st;
    if (store_exec(
            s, "CREATE TABLE IF NOT EXISTS schema_version(version INTEGER PRIMARY KEY, at TEXT)",
            err) < 0 ||
        statement_open(s, "SELECT coalesce(max(version), 0) FROM schema_version", &st, err) < 0)
        return -(int)err->code;
    int rc = store_next(&st, err);
    *ret_version = rc == 1 ? (int)get_int(&st) : 0;
    statement_close(&st);
    return rc < 0 ? rc : 0;
}

static int run_migration(struct store *s, const struct migration *m, struct err *err)
{
    if (store_exec(s, m->sql, err) < 0 || (m->step != NULL && m->step(s, err) < 0) ||
        (m->last != NULL && store_exec(s, m->last, err) < 0))
        return -(int)err->code;
    return 0;
}

static int migrate_to(struct store *s, int version, struct err *err)
{
    char now[CLOCK_TEXT_SIZE];
    char *mark cleanup_free = xasprintf("INSERT INTO schema_version(version, at) VALUES(%d, '%s')",
                                        version, clock_format(loop_wall(s->loop), now));
    if (store_exec(s, "BEGIN IMMEDIATE", err) < 0)
        return -(int)err->code;
    if (run_migration(s, &migrations[version - 1], err) < 0 || store_exec(s, mark, err) < 0 ||
        store_exec(s, "COMMIT", err) < 0) {
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
        return err_wrap(err, "schema version %d: ", version);
    }
    return 0;
}

int store_migrate(struct store *s, struct err *err)
{
    int have = 0, known = (int)ARRAY_LEN(migrations);
    if (read_version(s, &have, err) < 0)
        return -(int)err->code;
    if (have > known)
        return err_set(err, ERR_UNSUPPORTED,
                       "the database has schema version %d and this clusterd knows %d: it was used "
                       "by a newer version; install that one again or restore a copy",
                       have, known);
    for (int v = have + 1; v <= known; v++)
        if (migrate_to(s, v, err) < 0)
            return -(int)err->code;
    return 0;
}
