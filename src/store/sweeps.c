/* When nodes were last swept, what came of it, and when they are next. */
#include "store/store_int.h"

void store_put_sweep(struct store *s, const struct store_sweep *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT OR REPLACE INTO sweeps(node_id, at, ok_at, next_at, result, text,"
                    " workload, workload_since, misses) VALUES(?,?,?,?,?,?,?,?,?)",
                    &st))
        return;
    put_int(&st, r->node_id);
    put_time(&st, r->at);
    put_time(&st, r->ok_at);
    put_time(&st, r->next_at);
    put_text(&st, r->result);
    put_text(&st, r->text);
    put_text(&st, r->workload);
    put_time(&st, r->workload_since);
    put_int(&st, r->misses);
    (void)store_write(&st);
}

int store_each_sweep(struct store *s, store_sweep_fn fn, void *user, struct err *err)
{
    struct statement st;
    int rc = statement_open(s,
                            "SELECT node_id, at, ok_at, next_at, result, text, workload,"
                            " workload_since, misses FROM sweeps ORDER BY node_id",
                            &st, err);
    if (rc < 0)
        return rc;
    while ((rc = store_next(&st, err)) == 1) {
        struct store_sweep r = {.node_id = get_int(&st)};
        r.at = get_time(&st);
        r.ok_at = get_time(&st);
        r.next_at = get_time(&st);
        r.result = get_text(&st);
        r.text = get_text(&st);
        r.workload = get_text(&st);
        r.workload_since = get_time(&st);
        r.misses = (int)get_int(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}
