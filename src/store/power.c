/* What the power budget has promised to nodes. */
#include "store/store_int.h"

void store_put_reservation(struct store *s, const struct store_reservation *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT OR REPLACE INTO power_reservations(node_id, feed, watts, state, until)"
                    " VALUES(?,?,?,?,?)",
                    &st))
        return;
    put_int(&st, r->node_id);
    put_text(&st, r->feed);
    put_int(&st, r->watts);
    put_text(&st, r->state);
    put_time(&st, r->until);
    (void)store_write(&st);
}

void store_drop_reservation(struct store *s, int64_t node_id)
{
    struct statement st;
    if (!write_open(s, "DELETE FROM power_reservations WHERE node_id = ?", &st))
        return;
    put_int(&st, node_id);
    (void)store_write(&st);
}

int store_each_reservation(struct store *s, store_reservation_fn fn, void *user, struct err *err)
{
    struct statement st;
    int rc = statement_open(
        s, "SELECT node_id, feed, watts, state, until FROM power_reservations ORDER BY node_id",
        &st, err);
    if (rc < 0)
        return rc;
    while ((rc = store_next(&st, err)) == 1) {
        struct store_reservation r = {.node_id = get_int(&st)};
        r.feed = get_text(&st);
        r.watts = get_int(&st);
        r.state = get_text(&st);
        r.until = get_time(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}
