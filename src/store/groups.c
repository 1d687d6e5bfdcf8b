/* Measurements of groups: runs, their members, what each pair reached. */
#include "store/store_int.h"

int64_t store_put_group_run(struct store *s, const struct store_group_run *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT INTO group_runs(id, at, stage, step, scope, class, rack, rounds, rails,"
                    " status, text, ended_at) VALUES(nullif(?, 0),?,?,?,?,?,?,?,?,?,?,?)"
                    " ON CONFLICT(id) DO UPDATE SET status=excluded.status, text=excluded.text,"
                    " ended_at=excluded.ended_at",
                    &st))
        return r->id;
    put_int(&st, r->id);
    put_time(&st, r->at);
    put_text(&st, r->stage);
    put_int(&st, r->step);
    put_text(&st, r->scope);
    put_text(&st, r->class_name);
    put_text(&st, r->rack);
    put_int(&st, r->rounds);
    put_int(&st, r->rails);
    put_text(&st, r->status);
    put_text(&st, r->text);
    put_time(&st, r->ended_at);
    int64_t id = store_write(&st);
    return r->id != 0 ? r->id : id;
}

#define RUN_COLUMNS                                                                                \
    "r.id, r.at, r.stage, r.step, r.scope, r.class, r.rack, r.rounds, r.rails, r.status, r.text,"  \
    " r.ended_at"

static void read_run(struct statement *st, struct store_group_run *r)
{
    *r = (struct store_group_run){.id = get_int(st)};
    r->at = get_time(st);
    r->stage = get_text(st);
    r->step = (int)get_int(st);
    r->scope = get_text(st);
    r->class_name = get_text(st);
    r->rack = get_text(st);
    r->rounds = (int)get_int(st);
    r->rails = (int)get_int(st);
    r->status = get_text(st);
    r->text = get_text(st);
    r->ended_at = get_time(st);
}

int store_each_open_group_run(struct store *s, store_group_run_fn fn, void *user, struct err *err)
{
    struct statement st;
    /* "+id": sorted aside, so that fn may write to the table */
    int rc = statement_open(s,
                            "SELECT " RUN_COLUMNS " FROM group_runs r WHERE ended_at IS NULL"
                            " ORDER BY +id",
                            &st, err);
    if (rc < 0)
        return rc;
    while ((rc = store_next(&st, err)) == 1) {
        struct store_group_run r;
        read_run(&st, &r);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

/* ---- members ---- */

void store_put_group_member(struct store *s, const struct store_group_member *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT OR REPLACE INTO group_members(run_id, node_id, ordinal, stage,"
                    " attempt_id, verdict, why, value, bound, unit, at)"
                    " VALUES(?,?,?,?,nullif(?, 0),?,?,?,?,?,?)",
                    &st))
        return;
    put_int(&st, r->run_id);
    put_int(&st, r->node_id);
    put_int(&st, r->ordinal);
    put_text(&st, r->stage);
    put_int(&st, r->attempt_id);
    put_text(&st, r->verdict);
    put_text(&st, r->why);
    put_real(&st, r->value);
    put_real(&st, r->limit);
    put_text(&st, r->unit);
    put_time(&st, r->at);
    (void)store_write(&st);
}

#define MEMBER_COLUMNS                                                                             \
    "m.run_id, m.node_id, m.ordinal, m.stage, m.attempt_id, m.verdict, m.why, m.value, m.bound,"   \
    " m.unit, m.at"

static void read_member(struct statement *st, struct store_group_member *r)
{
    *r = (struct store_group_member){.run_id = get_int(st)};
    r->node_id = get_int(st);
    r->ordinal = (int)get_int(st);
    r->stage = get_text(st);
    r->attempt_id = get_int(st);
    r->verdict = get_text(st);
    r->why = get_text(st);
    r->value = get_real(st);
    r->limit = get_real(st);
    r->unit = get_text(st);
    r->at = get_time(st);
}

int store_each_group_member(struct store *s, int64_t run_id, store_group_member_fn fn, void *user,
                            struct err *err)
{
    struct statement st;
    int rc = statement_open(
        s, "SELECT " MEMBER_COLUMNS " FROM group_members m WHERE run_id = ? ORDER BY ordinal", &st,
        err);
    if (rc < 0)
        return rc;
    put_int(&st, run_id);
    while ((rc = store_next(&st, err)) == 1) {
        struct store_group_member r;
        read_member(&st, &r);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

/* ---- results ---- */

void store_put_group_result(struct store *s, const struct store_group_result *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT OR REPLACE INTO group_results(run_id, bout, metric, round, rail,"
                    " node_id, peer_id, stage, value, unit, bound, verdict, why, at)"
                    " VALUES(?,?,?,?,nullif(?, -1),?,?,?,?,?,?,?,?,?)",
                    &st))
        return;
    put_int(&st, r->run_id);
    put_int(&st, r->bout);
    put_text(&st, r->metric);
    put_int(&st, r->round);
    put_int(&st, r->rail);
    put_int(&st, r->node_id);
    put_int(&st, r->peer_id);
    put_text(&st, r->stage);
    put_real(&st, r->value);
    put_text(&st, r->unit);
    put_real(&st, r->limit);
    put_text(&st, r->verdict);
    put_text(&st, r->why);
    put_time(&st, r->at);
    (void)store_write(&st);
}

#define RESULT_COLUMNS                                                                             \
    "x.run_id, x.bout, x.metric, x.round, coalesce(x.rail, -1), x.node_id, x.peer_id, x.stage,"    \
    " x.value, x.unit, x.bound, x.verdict, x.why, x.at"

static void read_result(struct statement *st, struct store_group_result *r)
{
    *r = (struct store_group_result){.run_id = get_int(st)};
    r->bout = (int)get_int(st);
    r->metric = get_text(st);
    r->round = (int)get_int(st);
    r->rail = (int)get_int(st);
    r->node_id = get_int(st);
    r->peer_id = get_int(st);
    r->stage = get_text(st);
    r->value = get_real(st);
    r->unit = get_text(st);
    r->limit = get_real(st);
    r->verdict = get_text(st);
    r->why = get_text(st);
    r->at = get_time(st);
}

int store_each_group_result(struct store *s, int64_t run_id, store_group_result_fn fn, void *user,
                            struct err *err)
{
    struct statement st;
    int rc = statement_open(
        s, "SELECT " RESULT_COLUMNS " FROM group_results x WHERE run_id = ? ORDER BY bout, metric",
        &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, run_id);
    while ((rc = store_next(&st, err)) == 1) {
        struct store_group_result r;
        read_result(&st, &r);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

/* ---- the last ones of a node ---- */

int store_each_last_group(struct store *s, int64_t node_id, const char *stage,
                          void (*fn)(const struct store_last_group *r, void *user), void *user,
                          struct err *err)
{
    struct statement st;
    int rc =
        statement_open(s,
                       "SELECT " RUN_COLUMNS ", " MEMBER_COLUMNS ","
                       " (SELECT p.value FROM group_members p JOIN group_runs q ON q.id = p.run_id"
                       "  WHERE p.node_id = m.node_id AND p.stage = m.stage AND p.run_id < m.run_id"
                       "  AND p.value IS NOT NULL AND q.step = r.step AND q.scope = r.scope"
                       "  ORDER BY p.run_id DESC LIMIT 1)"
                       " FROM (SELECT max(a.run_id) AS last FROM group_members a JOIN group_runs b"
                       "  ON b.id = a.run_id WHERE a.node_id = ?1 AND a.verdict IS NOT NULL"
                       "  AND (?2 IS NULL OR a.stage = ?2) GROUP BY a.stage, b.step) l"
                       " JOIN group_members m ON m.node_id = ?1 AND m.run_id = l.last"
                       " JOIN group_runs r ON r.id = m.run_id ORDER BY r.id",
                       &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, node_id);
    put_text(&st, stage);
    while ((rc = store_next(&st, err)) == 1) {
        struct store_last_group r;
        read_run(&st, &r.run);
        read_member(&st, &r.member);
        r.previous = get_real(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

#define EARLIER                                                                                    \
    " FROM group_results p WHERE p.node_id IN (x.node_id, x.peer_id)"                              \
    " AND p.peer_id IN (x.node_id, x.peer_id) AND p.run_id < x.run_id AND p.metric = x.metric"     \
    " AND p.stage = x.stage AND p.rail IS x.rail AND p.value IS NOT NULL"                          \
    " ORDER BY p.run_id DESC LIMIT 1)"

int store_each_last_result(struct store *s, int64_t node_id, int64_t run_id,
                           void (*fn)(const struct store_last_result *r, void *user), void *user,
                           struct err *err)
{
    struct statement st;
    int rc =
        statement_open(s,
                       "SELECT " RESULT_COLUMNS ", (SELECT p.value" EARLIER ", (SELECT p.at" EARLIER
                       " FROM group_results x WHERE x.run_id = ?2 AND (x.node_id = ?1 OR"
                       " x.peer_id = ?1) ORDER BY x.bout, x.metric",
                       &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, node_id);
    put_int(&st, run_id);
    while ((rc = store_next(&st, err)) == 1) {
        struct store_last_result r;
        read_result(&st, &r.result);
        r.previous = get_real(&st);
        r.previous_at = get_time(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}
