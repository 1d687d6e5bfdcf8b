/* Machines that were replaced: candidates that wait for an operator, what a BMC said, and where
 * parts were before. */
#include "store/store_int.h"

void store_put_swap(struct store *s, const struct store_swap *r)
{
    struct statement st;
    if (!write_open(s, "INSERT OR REPLACE INTO swaps(node_id, at, reason, probe) VALUES(?,?,?,?)",
                    &st))
        return;
    put_int(&st, r->node_id);
    put_time(&st, r->at);
    put_text(&st, r->reason);
    put_text(&st, r->probe);
    (void)store_write(&st);
}

void store_drop_swap(struct store *s, int64_t node_id)
{
    struct statement st;
    if (!write_open(s, "DELETE FROM swaps WHERE node_id = ?", &st))
        return;
    put_int(&st, node_id);
    (void)store_write(&st);
}

int store_each_swap(struct store *s, store_swap_fn fn, void *user, struct err *err)
{
    struct statement st;
    int rc = statement_open(s, "SELECT node_id, at, reason, probe FROM swaps ORDER BY node_id", &st,
                            err);
    if (rc < 0)
        return rc;
    while ((rc = store_next(&st, err)) == 1) {
        struct store_swap r = {.node_id = get_int(&st)};
        r.at = get_time(&st);
        r.reason = get_text(&st);
        r.probe = get_text(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

void store_put_bmc_identity(struct store *s, int64_t node_id, const char *json)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT INTO machines(node_id, bmc) VALUES(?,?)"
                    " ON CONFLICT(node_id) DO UPDATE SET bmc = excluded.bmc",
                    &st))
        return;
    put_int(&st, node_id);
    put_text(&st, json);
    (void)store_write(&st);
}

int store_each_earlier_place(struct store *s, int64_t node_id, store_place_fn fn, void *user,
                             struct err *err)
{
    struct statement st;
    int rc = statement_open(
        s,
        "SELECT c.kind, c.slot, p.identity, n.name, p.slot, p.machine, p.first_seen, p.removed_at"
        " FROM components c JOIN components p ON p.identity = c.identity AND p.kind = c.kind"
        " AND p.id <> c.id JOIN nodes n ON n.id = p.node_id"
        " WHERE c.node_id = ? AND c.removed_at IS NULL AND c.identity <> ''"
        " AND (p.node_id <> c.node_id OR p.slot <> c.slot OR p.machine IS NOT c.machine)"
        " ORDER BY c.id, p.id DESC",
        &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, node_id);
    while ((rc = store_next(&st, err)) == 1) {
        struct store_place r = {.kind = get_text(&st)};
        r.slot = get_text(&st);
        r.identity = get_text(&st);
        r.node = get_text(&st);
        r.node_slot = get_text(&st);
        r.machine = get_text(&st);
        r.first_seen = get_time(&st);
        r.removed_at = get_time(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}
