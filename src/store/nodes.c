/* Nodes, their stages, what their machines are made of, their host keys. */
#include "base/mem.h"
#include "store/store_int.h"

int64_t store_put_node(struct store *s, const struct store_node *n)
{
    struct statement st;
    if (!write_open(
            s,
            "INSERT INTO nodes(id, name, revision, class, profile, rack, unit, bmc, address,"
            " serial, uuid, macs, state, operation, admin, hold_reason, hold_by, hold_at,"
            " power_desired, power_observed, power_at, boot_intent, health, created_at,"
            " removed_at, deferred)"
            " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
            " ON CONFLICT(id) DO UPDATE SET name=excluded.name, revision=excluded.revision,"
            " class=excluded.class, profile=excluded.profile, rack=excluded.rack,"
            " unit=excluded.unit, bmc=excluded.bmc, address=excluded.address,"
            " serial=excluded.serial, uuid=excluded.uuid, macs=excluded.macs,"
            " state=excluded.state, operation=excluded.operation, admin=excluded.admin,"
            " hold_reason=excluded.hold_reason, hold_by=excluded.hold_by,"
            " hold_at=excluded.hold_at, power_desired=excluded.power_desired,"
            " power_observed=excluded.power_observed, power_at=excluded.power_at,"
            " boot_intent=excluded.boot_intent, health=excluded.health,"
            " created_at=excluded.created_at, removed_at=excluded.removed_at,"
            " deferred=excluded.deferred",
            &st))
        return n->id;
    st.next = 1;
    if (n->id != 0) {
        st.next = 0;
        put_int(&st, n->id);
    }
    put_text(&st, n->name);
    put_int(&st, n->revision);
    put_text(&st, n->class_name);
    put_text(&st, n->profile);
    put_text(&st, n->rack);
    put_text(&st, n->unit);
    put_text(&st, n->bmc);
    put_text(&st, n->address);
    put_text(&st, n->serial);
    put_text(&st, n->uuid);
    put_text(&st, n->macs);
    put_text(&st, n->state);
    put_text(&st, n->operation);
    put_text(&st, n->admin);
    put_text(&st, n->hold_reason);
    put_text(&st, n->hold_by);
    put_time(&st, n->hold_at);
    put_text(&st, n->power_desired);
    put_text(&st, n->power_observed);
    put_time(&st, n->power_at);
    put_text(&st, n->boot_intent);
    put_text(&st, n->health);
    put_time(&st, n->created_at);
    put_time(&st, n->removed_at);
    put_text(&st, n->deferred);
    int64_t id = store_write(&st);
    return n->id != 0 ? n->id : id;
}

int store_each_node(struct store *s, store_node_fn fn, void *user, struct err *err)
{
    struct statement st;
    int rc =
        statement_open(s,
                       "SELECT id, name, revision, class, profile, rack, unit, bmc, address,"
                       " serial, uuid, macs, state, operation, admin, hold_reason, hold_by,"
                       " hold_at, power_desired, power_observed, power_at, boot_intent, health,"
                       " created_at, removed_at, deferred FROM nodes ORDER BY id",
                       &st, err);
    if (rc < 0)
        return rc;
    while ((rc = store_next(&st, err)) == 1) {
        struct store_node n = {.id = get_int(&st)};
        n.name = get_text(&st);
        n.revision = get_int(&st);
        n.class_name = get_text(&st);
        n.profile = get_text(&st);
        n.rack = get_text(&st);
        n.unit = get_text(&st);
        n.bmc = get_text(&st);
        n.address = get_text(&st);
        n.serial = get_text(&st);
        n.uuid = get_text(&st);
        n.macs = get_text(&st);
        n.state = get_text(&st);
        n.operation = get_text(&st);
        n.admin = get_text(&st);
        n.hold_reason = get_text(&st);
        n.hold_by = get_text(&st);
        n.hold_at = get_time(&st);
        n.power_desired = get_text(&st);
        n.power_observed = get_text(&st);
        n.power_at = get_time(&st);
        n.boot_intent = get_text(&st);
        n.health = get_text(&st);
        n.created_at = get_time(&st);
        n.removed_at = get_time(&st);
        n.deferred = get_text(&st);
        fn(&n, user);
    }
    statement_close(&st);
    return rc;
}

void store_put_stage(struct store *s, const struct store_stage *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT INTO stages(node_id, name, ordinal, status, fingerprint,"
                    " inputs, reason, attempt_id, passed_at, changed_at, drift)"
                    " VALUES(?,?,?,?,?,?,?,nullif(?, 0),?,?,?)"
                    " ON CONFLICT(node_id, name) DO UPDATE SET ordinal = excluded.ordinal,"
                    " status = excluded.status, fingerprint = excluded.fingerprint,"
                    " inputs = coalesce(excluded.inputs, inputs), reason = excluded.reason,"
                    " attempt_id = excluded.attempt_id, passed_at = excluded.passed_at,"
                    " changed_at = excluded.changed_at, drift = excluded.drift",
                    &st))
        return;
    put_int(&st, r->node_id);
    put_text(&st, r->name);
    put_int(&st, r->ordinal);
    put_text(&st, r->status);
    put_text(&st, r->fingerprint);
    put_text(&st, r->inputs);
    put_text(&st, r->reason);
    put_int(&st, r->attempt_id);
    put_time(&st, r->passed_at);
    put_time(&st, r->changed_at);
    put_text(&st, r->drift);
    (void)store_write(&st);
}

void store_drop_stage(struct store *s, int64_t node_id, const char *name)
{
    struct statement st;
    if (!write_open(s, "DELETE FROM stages WHERE node_id = ? AND name = ?", &st))
        return;
    put_int(&st, node_id);
    put_text(&st, name);
    (void)store_write(&st);
}

int store_each_stage(struct store *s, store_stage_fn fn, void *user, struct err *err)
{
    struct statement st;
    int rc = statement_open(s,
                            "SELECT node_id, name, ordinal, status, fingerprint, reason,"
                            " attempt_id, passed_at, changed_at, drift FROM stages"
                            " ORDER BY node_id, ordinal",
                            &st, err);
    if (rc < 0)
        return rc;
    while ((rc = store_next(&st, err)) == 1) {
        struct store_stage r = {.node_id = get_int(&st)};
        r.name = get_text(&st);
        r.ordinal = (int)get_int(&st);
        r.status = get_text(&st);
        r.fingerprint = get_text(&st);
        r.reason = get_text(&st);
        r.attempt_id = get_int(&st);
        r.passed_at = get_time(&st);
        r.changed_at = get_time(&st);
        r.drift = get_text(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

/* The only column of the only row; NULL: none. */
static char *one_text(struct statement *st)
{
    const char *text = store_next(st, NULL) == 1 ? get_text(st) : NULL;
    char *copy = text != NULL ? xstrdup(text) : NULL;
    statement_close(st);
    return copy;
}

char *store_stage_inputs(struct store *s, int64_t node_id, const char *name)
{
    struct statement st;
    if (statement_open(s, "SELECT inputs FROM stages WHERE node_id = ? AND name = ?", &st, NULL) <
        0)
        return NULL;
    put_int(&st, node_id);
    put_text(&st, name);
    return one_text(&st);
}

/* ---- machines ---- */

static void put_component(struct store *s, int64_t node_id, const struct store_component *c,
                          int64_t at)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT INTO components(node_id, kind, slot, identity, model, firmware, detail,"
                    " first_seen, seen_at, machine) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?8,?9)"
                    " ON CONFLICT(node_id, kind, slot, identity) WHERE removed_at IS NULL DO UPDATE"
                    " SET model=excluded.model, firmware=excluded.firmware, detail=excluded.detail,"
                    " seen_at=excluded.seen_at, machine=excluded.machine",
                    &st))
        return;
    put_int(&st, node_id);
    put_text(&st, c->kind);
    put_text(&st, c->slot != NULL ? c->slot : "");
    put_text(&st, c->identity != NULL ? c->identity : "");
    put_text(&st, c->model);
    put_text(&st, c->firmware);
    put_text(&st, c->detail);
    put_time(&st, at);
    put_text(&st, c->machine);
    (void)store_write(&st);
}

/* Its parts went with it, also those that stand in the new one: history belongs to a machine. */
static void close_other_machine(struct store *s, int64_t node_id, const char *machine, int64_t at)
{
    struct statement st;
    if (!write_open(s,
                    "UPDATE components SET removed_at = ?1 WHERE node_id = ?2"
                    " AND removed_at IS NULL AND machine <> '' AND machine <> ?3",
                    &st))
        return;
    put_time(&st, at);
    put_int(&st, node_id);
    put_text(&st, machine);
    (void)store_write(&st);
}

void store_put_machine(struct store *s, int64_t node_id, const char *probe_json,
                       const struct store_component *rows, int count, int64_t at)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT INTO machines(node_id, probe, at) VALUES(?,?,?)"
                    " ON CONFLICT(node_id) DO UPDATE SET probe = excluded.probe, at = excluded.at",
                    &st))
        return;
    put_int(&st, node_id);
    put_text(&st, probe_json);
    put_time(&st, at);
    (void)store_write(&st);
    if (count > 0 && rows[0].machine != NULL && rows[0].machine[0] != '\0')
        close_other_machine(s, node_id, rows[0].machine, at);
    for (int i = 0; i < count; i++)
        put_component(s, node_id, &rows[i], at);
    if (!write_open(
            s,
            "UPDATE components SET removed_at = ?1 WHERE node_id = ?2 AND removed_at IS NULL"
            " AND seen_at IS NOT ?1",
            &st))
        return;
    put_time(&st, at);
    put_int(&st, node_id);
    (void)store_write(&st);
}

int store_each_machine(struct store *s, store_machine_fn fn, void *user, struct err *err)
{
    struct statement st;
    int rc = statement_open(s, "SELECT node_id, probe, bmc, at FROM machines", &st, err);
    if (rc < 0)
        return rc;
    while ((rc = store_next(&st, err)) == 1) {
        struct store_machine m = {.node_id = get_int(&st)};
        m.probe = get_text(&st);
        m.bmc = get_text(&st);
        m.at = get_time(&st);
        fn(&m, user);
    }
    statement_close(&st);
    return rc;
}

char *store_machine_probe(struct store *s, int64_t node_id)
{
    struct statement st;
    if (statement_open(s, "SELECT probe FROM machines WHERE node_id = ?", &st, NULL) < 0)
        return NULL;
    put_int(&st, node_id);
    return one_text(&st);
}

void store_put_hostkey(struct store *s, const struct store_hostkey *r)
{
    struct statement st;
    if (!write_open(
            s, "INSERT OR REPLACE INTO host_keys(node_id, key, attempt_id, at) VALUES(?,?,?,?)",
            &st))
        return;
    put_int(&st, r->node_id);
    put_text(&st, r->key);
    put_int(&st, r->attempt_id);
    put_time(&st, r->at);
    (void)store_write(&st);
}

int store_each_hostkey(struct store *s, store_hostkey_fn fn, void *user, struct err *err)
{
    struct statement st;
    int rc = statement_open(s, "SELECT node_id, key, attempt_id, at FROM host_keys", &st, err);
    if (rc < 0)
        return rc;
    while ((rc = store_next(&st, err)) == 1) {
        struct store_hostkey r = {.node_id = get_int(&st)};
        r.key = get_text(&st);
        r.attempt_id = get_int(&st);
        r.at = get_time(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}
