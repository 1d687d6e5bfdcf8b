/* Attempts, steps, evidence, measurements, events. */
#include <string.h>

#include "store/audit_int.h"

enum { EVIDENCE_MAX = 256 * 1024 };

int64_t store_put_attempt(struct store *s, const struct store_attempt *r)
{
    struct statement st;
    if (!write_open(
            s,
            "INSERT INTO attempts(id, node_id, stage, number, status, fingerprint, why, step,"
            " started_at, deadline_at, ended_at, error_code, error, retry_at)"
            " VALUES(nullif(?, 0),?,?,?,?,?,?,?,?,?,?,?,?,?)"
            " ON CONFLICT(id) DO UPDATE SET number=excluded.number, status=excluded.status,"
            " fingerprint=excluded.fingerprint, why=excluded.why, step=excluded.step,"
            " deadline_at=excluded.deadline_at, ended_at=excluded.ended_at,"
            " error_code=excluded.error_code, error=excluded.error,"
            " retry_at=excluded.retry_at",
            &st))
        return r->id;
    put_int(&st, r->id);
    put_int(&st, r->node_id);
    put_text(&st, r->stage);
    put_int(&st, r->number);
    put_text(&st, r->status);
    put_text(&st, r->fingerprint);
    put_text(&st, r->why);
    put_int(&st, r->step);
    put_time(&st, r->started_at);
    put_time(&st, r->deadline_at);
    put_time(&st, r->ended_at);
    put_text(&st, r->error_code);
    put_text(&st, r->error);
    put_time(&st, r->retry_at);
    int64_t id = store_write(&st);
    return r->id != 0 ? r->id : id;
}

static int each_attempt(struct statement *st, store_attempt_fn fn, void *user, struct err *err)
{
    int rc;
    while ((rc = store_next(st, err)) == 1) {
        struct store_attempt r = {.id = get_int(st)};
        r.node_id = get_int(st);
        r.stage = get_text(st);
        r.number = (int)get_int(st);
        r.status = get_text(st);
        r.fingerprint = get_text(st);
        r.why = get_text(st);
        r.step = (int)get_int(st);
        r.started_at = get_time(st);
        r.deadline_at = get_time(st);
        r.ended_at = get_time(st);
        r.error_code = get_text(st);
        r.error = get_text(st);
        r.retry_at = get_time(st);
        fn(&r, user);
    }
    statement_close(st);
    return rc;
}

#define ATTEMPT_COLUMNS                                                                            \
    "id, node_id, stage, number, status, fingerprint, why, step, started_at, deadline_at,"         \
    " ended_at, error_code, error, retry_at"

int store_each_running_attempt(struct store *s, store_attempt_fn fn, void *user, struct err *err)
{
    struct statement st;
    /* "+id": sorted aside, so that fn may write to the table */
    int rc = statement_open(s,
                            "SELECT " ATTEMPT_COLUMNS " FROM attempts WHERE status = 'running'"
                            " ORDER BY +id",
                            &st, err);
    return rc < 0 ? rc : each_attempt(&st, fn, user, err);
}

int store_each_passed_attempt(struct store *s, int limit, store_attempt_fn fn, void *user,
                              struct err *err)
{
    struct statement st;
    int rc = statement_open(s,
                            "SELECT " ATTEMPT_COLUMNS " FROM attempts WHERE status = 'passed'"
                            " ORDER BY id DESC LIMIT ?",
                            &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, limit);
    return each_attempt(&st, fn, user, err);
}

int store_each_attempt(struct store *s, int64_t node_id, const char *stage, int limit,
                       store_attempt_fn fn, void *user, struct err *err)
{
    struct statement st;
    int rc = node_id != 0
                 ? statement_open(s,
                                  "SELECT " ATTEMPT_COLUMNS " FROM attempts WHERE node_id = ?1 AND"
                                  " (?2 IS NULL OR stage = ?2) ORDER BY id DESC LIMIT ?3",
                                  &st, err)
                 : statement_open(s,
                                  "SELECT " ATTEMPT_COLUMNS " FROM attempts WHERE ?1 = 0 AND"
                                  " (?2 IS NULL OR stage = ?2) ORDER BY id DESC LIMIT ?3",
                                  &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, node_id);
    put_text(&st, stage);
    put_int(&st, limit);
    return each_attempt(&st, fn, user, err);
}

void store_put_step(struct store *s, const struct store_step *r)
{
    struct statement st;
    if (!write_open(
            s,
            "INSERT OR REPLACE INTO steps(attempt_id, step, type, what, status, data, result,"
            " started_at, ended_at) VALUES(?,?,?,?,?,?,?,?,?)",
            &st))
        return;
    put_int(&st, r->attempt_id);
    put_int(&st, r->index);
    put_text(&st, r->type);
    put_text(&st, r->what);
    put_text(&st, r->status);
    put_text(&st, r->data);
    put_text(&st, r->result);
    put_time(&st, r->started_at);
    put_time(&st, r->ended_at);
    (void)store_write(&st);
}

int store_each_step(struct store *s, int64_t attempt_id, store_step_fn fn, void *user,
                    struct err *err)
{
    struct statement st;
    int rc = statement_open(s,
                            "SELECT attempt_id, step, type, what, status, data, result, started_at,"
                            " ended_at FROM steps WHERE attempt_id = ? ORDER BY step",
                            &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, attempt_id);
    while ((rc = store_next(&st, err)) == 1) {
        struct store_step r = {.attempt_id = get_int(&st)};
        r.index = (int)get_int(&st);
        r.type = get_text(&st);
        r.what = get_text(&st);
        r.status = get_text(&st);
        r.data = get_text(&st);
        r.result = get_text(&st);
        r.started_at = get_time(&st);
        r.ended_at = get_time(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

int64_t store_add_evidence(struct store *s, const struct store_evidence *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT INTO evidence(attempt_id, node_id, stage, kind, at, text)"
                    " VALUES(?,?,?,?,?,?)",
                    &st))
        return 0;
    const char *text = r->text;
    size_t len = text != NULL ? strlen(text) : 0;
    if (len > EVIDENCE_MAX) {
        text += len - EVIDENCE_MAX;
        while ((*text & 0xC0) == 0x80) /* not in the middle of a UTF-8 character */
            text++;
    }
    put_int(&st, r->attempt_id);
    put_int(&st, r->node_id);
    put_text(&st, r->stage);
    put_text(&st, r->kind);
    put_time(&st, r->at);
    put_text(&st, text);
    return store_write(&st);
}

int store_each_evidence(struct store *s, int64_t attempt_id, store_evidence_fn fn, void *user,
                        struct err *err)
{
    struct statement st;
    int rc = statement_open(s,
                            "SELECT id, attempt_id, node_id, stage, kind, at, text FROM evidence"
                            " WHERE attempt_id = ? ORDER BY id",
                            &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, attempt_id);
    while ((rc = store_next(&st, err)) == 1) {
        struct store_evidence r = {.id = get_int(&st)};
        r.attempt_id = get_int(&st);
        r.node_id = get_int(&st);
        r.stage = get_text(&st);
        r.kind = get_text(&st);
        r.at = get_time(&st);
        r.text = get_text(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

void store_add_measurement(struct store *s, const struct store_measurement *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT INTO measurements(attempt_id, node_id, stage, name, value, unit, peer,"
                    " bound, verdict, at) VALUES(?,?,?,?,?,?,?,?,?,?)",
                    &st))
        return;
    put_int(&st, r->attempt_id);
    put_int(&st, r->node_id);
    put_text(&st, r->stage);
    put_text(&st, r->name);
    put_real(&st, r->value);
    put_text(&st, r->unit);
    put_text(&st, r->peer);
    put_real(&st, r->limit);
    put_text(&st, r->verdict);
    put_time(&st, r->at);
    (void)store_write(&st);
}

int store_each_measurement(struct store *s, int64_t node_id, int limit, store_measurement_fn fn,
                           void *user, struct err *err)
{
    struct statement st;
    int rc = statement_open(s,
                            "SELECT attempt_id, node_id, stage, name, value, unit, peer, bound,"
                            " verdict, at FROM measurements WHERE node_id = ? ORDER BY id DESC"
                            " LIMIT ?",
                            &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, node_id);
    put_int(&st, limit);
    while ((rc = store_next(&st, err)) == 1) {
        struct store_measurement r = {.attempt_id = get_int(&st)};
        r.node_id = get_int(&st);
        r.stage = get_text(&st);
        r.name = get_text(&st);
        r.value = get_real(&st);
        r.unit = get_text(&st);
        r.peer = get_text(&st);
        r.limit = get_real(&st);
        r.verdict = get_text(&st);
        r.at = get_time(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

int64_t store_add_event(struct store *s, const struct store_event *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT INTO events(id, at, node_id, node, kind, stage, attempt_id, text,"
                    " actor, hash) VALUES(?,?,nullif(?, 0),?,?,?,nullif(?, 0),?,?,?)",
                    &st))
        return 0;
    char hash[DIGEST_HEX_SIZE];
    int64_t id = audit_next_id(s);
    audit_hash_event(r, id, s->audit.hash, hash);
    put_int(&st, id);
    put_time(&st, r->at);
    put_int(&st, r->node_id);
    put_text(&st, r->node);
    put_text(&st, r->kind);
    put_text(&st, r->stage);
    put_int(&st, r->attempt_id);
    put_text(&st, r->text);
    put_text(&st, r->actor);
    put_text(&st, hash);
    (void)store_write(&st);
    audit_advance(s, id, hash);
    return id;
}

#define EVENT_COLUMNS "id, at, node_id, node, kind, stage, attempt_id, text, actor"

int store_each_event(struct store *s, int64_t after, int64_t node_id, int limit, store_event_fn fn,
                     void *user, struct err *err)
{
    struct statement st;
    int rc = after >= 0 ? statement_open(s,
                                         "SELECT " EVENT_COLUMNS " FROM events WHERE id > ?1"
                                         " AND (?2 = 0 OR node_id = ?2) ORDER BY id LIMIT ?3",
                                         &st, err)
                        : statement_open(s,
                                         "SELECT * FROM (SELECT " EVENT_COLUMNS " FROM events"
                                         " WHERE ?1 < 0 AND (?2 = 0 OR node_id = ?2)"
                                         " ORDER BY id DESC LIMIT ?3) ORDER BY id",
                                         &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, after);
    put_int(&st, node_id);
    put_int(&st, limit);
    while ((rc = store_next(&st, err)) == 1) {
        struct store_event r = {.id = get_int(&st)};
        r.at = get_time(&st);
        r.node_id = get_int(&st);
        r.node = get_text(&st);
        r.kind = get_text(&st);
        r.stage = get_text(&st);
        r.attempt_id = get_int(&st);
        r.text = get_text(&st);
        r.actor = get_text(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}
