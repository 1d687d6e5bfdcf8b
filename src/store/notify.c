/* How far the webhooks came with the events. */
#include "store/store_int.h"

void store_put_notify_cursor(struct store *s, const struct store_notify_cursor *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT OR REPLACE INTO notify_cursors(hook, event_id, skipped, delivered_id,"
                    " delivered_at) VALUES(?,?,?,nullif(?, 0),?)",
                    &st))
        return;
    put_text(&st, r->hook);
    put_int(&st, r->event_id);
    put_int(&st, r->skipped);
    put_int(&st, r->delivered_id);
    put_time(&st, r->delivered_at);
    (void)store_write(&st);
}

void store_drop_notify_cursor(struct store *s, const char *hook)
{
    struct statement st;
    if (!write_open(s, "DELETE FROM notify_cursors WHERE hook = ?", &st))
        return;
    put_text(&st, hook);
    (void)store_write(&st);
}

int store_each_notify_cursor(struct store *s, store_notify_cursor_fn fn, void *user,
                             struct err *err)
{
    struct statement st;
    /* "+hook": sorted aside, so that fn may write to the table */
    int rc = statement_open(s,
                            "SELECT hook, event_id, skipped, delivered_id, delivered_at"
                            " FROM notify_cursors ORDER BY +hook",
                            &st, err);
    if (rc < 0)
        return rc;
    while ((rc = store_next(&st, err)) == 1) {
        struct store_notify_cursor r = {.hook = get_text(&st)};
        r.event_id = get_int(&st);
        r.skipped = get_int(&st);
        r.delivered_id = get_int(&st);
        r.delivered_at = get_time(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}
