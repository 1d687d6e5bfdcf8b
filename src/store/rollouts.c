/* Rollouts and their nodes. */
#include "store/store_int.h"

int64_t store_put_rollout(struct store *s, const struct store_rollout *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT INTO rollouts(id, at, cause, actor, revision, status, reason, settings,"
                    " wave, wave_at, round, changed_at, ended_at)"
                    " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)"
                    " ON CONFLICT(id) DO UPDATE SET status=excluded.status, reason=excluded.reason,"
                    " wave=excluded.wave, wave_at=excluded.wave_at, round=excluded.round,"
                    " changed_at=excluded.changed_at, ended_at=excluded.ended_at",
                    &st))
        return r->id;
    st.next = 1;
    if (r->id != 0) {
        st.next = 0;
        put_int(&st, r->id);
    }
    put_time(&st, r->at);
    put_text(&st, r->cause);
    put_text(&st, r->actor);
    put_int(&st, r->revision);
    put_text(&st, r->status);
    put_text(&st, r->reason);
    put_text(&st, r->settings);
    put_int(&st, r->wave);
    put_time(&st, r->wave_at);
    put_int(&st, r->round);
    put_time(&st, r->changed_at);
    put_time(&st, r->ended_at);
    int64_t id = store_write(&st);
    return r->id != 0 ? r->id : id;
}

int store_each_rollout(struct store *s, bool open_only, int limit, store_rollout_fn fn, void *user,
                       struct err *err)
{
    struct statement st;
    int rc = statement_open(s,
                            "SELECT id, at, cause, actor, revision, status, reason, settings, wave,"
                            " wave_at, round, changed_at, ended_at FROM rollouts"
                            " WHERE ended_at IS NULL OR NOT ?1 ORDER BY id DESC LIMIT ?2",
                            &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, open_only);
    put_int(&st, limit);
    while ((rc = store_next(&st, err)) == 1) {
        struct store_rollout r = {.id = get_int(&st)};
        r.at = get_time(&st);
        r.cause = get_text(&st);
        r.actor = get_text(&st);
        r.revision = get_int(&st);
        r.status = get_text(&st);
        r.reason = get_text(&st);
        r.settings = get_text(&st);
        r.wave = (int)get_int(&st);
        r.wave_at = get_time(&st);
        r.round = (int)get_int(&st);
        r.changed_at = get_time(&st);
        r.ended_at = get_time(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

void store_put_rollout_node(struct store *s, const struct store_rollout_node *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT OR REPLACE INTO rollout_nodes(rollout_id, node_id, ordinal, wave,"
                    " status, failed_round, asked, changed_at) VALUES(?,?,?,?,?,?,?,?)",
                    &st))
        return;
    put_int(&st, r->rollout_id);
    put_int(&st, r->node_id);
    put_int(&st, r->ordinal);
    put_int(&st, r->wave);
    put_text(&st, r->status);
    put_int(&st, r->failed_round);
    put_int(&st, r->asked);
    put_time(&st, r->changed_at);
    (void)store_write(&st);
}

int store_each_rollout_node(struct store *s, int64_t rollout_id, store_rollout_node_fn fn,
                            void *user, struct err *err)
{
    struct statement st;
    int rc = statement_open(s,
                            "SELECT node_id, ordinal, wave, status, failed_round, asked, changed_at"
                            " FROM rollout_nodes WHERE rollout_id = ? ORDER BY ordinal",
                            &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, rollout_id);
    while ((rc = store_next(&st, err)) == 1) {
        struct store_rollout_node r = {.rollout_id = rollout_id, .node_id = get_int(&st)};
        r.ordinal = (int)get_int(&st);
        r.wave = (int)get_int(&st);
        r.status = get_text(&st);
        r.failed_round = (int)get_int(&st);
        r.asked = get_int(&st) != 0;
        r.changed_at = get_time(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

int store_count_rollout_nodes(struct store *s, int64_t rollout_id,
                              void (*fn)(const char *status, int count, void *user), void *user,
                              struct err *err)
{
    struct statement st;
    int rc = statement_open(
        s, "SELECT status, count(*) FROM rollout_nodes WHERE rollout_id = ? GROUP BY status", &st,
        err);
    if (rc < 0)
        return rc;
    put_int(&st, rollout_id);
    while ((rc = store_next(&st, err)) == 1) {
        const char *status = get_text(&st);
        fn(status, (int)get_int(&st), user);
    }
    statement_close(&st);
    return rc;
}

void store_drop_rollout_nodes(struct store *s, int64_t before_id)
{
    struct statement st;
    if (!write_open(s,
                    "DELETE FROM rollout_nodes WHERE rollout_id IN (SELECT id FROM rollouts"
                    " WHERE id < ? AND ended_at IS NOT NULL)",
                    &st))
        return;
    put_int(&st, before_id);
    (void)store_write(&st);
}
