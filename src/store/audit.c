/*
 * The chain of events: how a row becomes a hash, and where the chain goes on.
 *
 * hash = SHA-256 over
 *
 *     "clusterd event 1\n", the previous hash (64 hex digits, zeros for the first), "\n",
 *     then each column of AUDIT_COLUMNS without the hash, in that order:
 *         NULL      "n,"
 *         integer   "i" length ":" decimal digits ","
 *         text      "t" length ":" bytes ","
 *
 * The lengths make it unambiguous: no two rows are written down alike.
 */
#include "store/audit_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

static struct digest *begin_row(const char *previous)
{
    static const char first[] = "clusterd event 1\n";
    struct digest *d = digest_new();
    digest_add(d, first, sizeof first - 1);
    digest_add(d, previous, strlen(previous));
    digest_add(d, "\n", 1);
    return d;
}

static void add_bytes(struct digest *d, char type, const void *data, size_t len)
{
    char head[32];
    int n = snprintf(head, sizeof head, "%c%zu:", type, len);
    digest_add(d, head, (size_t)n);
    if (len > 0)
        digest_add(d, data, len);
    digest_add(d, ",", 1);
}

static void add_text(struct digest *d, const char *text)
{
    if (text == NULL)
        digest_add(d, "n,", 2);
    else
        add_bytes(d, 't', text, strlen(text));
}

static void add_int(struct digest *d, int64_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRId64, value);
    add_bytes(d, 'i', digits, (size_t)n);
}

static void add_id_or_null(struct digest *d, int64_t value)
{
    if (value == 0)
        digest_add(d, "n,", 2);
    else
        add_int(d, value);
}

void audit_hash_event(const struct store_event *r, int64_t id, const char *previous,
                      char hash[DIGEST_HEX_SIZE])
{
    char at[CLOCK_TEXT_SIZE];
    struct digest *d = begin_row(previous);
    add_int(d, id);
    add_text(d, r->at != 0 ? clock_format(r->at, at) : NULL);
    add_id_or_null(d, r->node_id);
    add_text(d, r->node);
    add_text(d, r->kind);
    add_text(d, r->stage);
    add_id_or_null(d, r->attempt_id);
    add_text(d, r->text);
    add_text(d, r->actor);
    digest_finish(d, hash);
}

void audit_hash_row(sqlite3_stmt *st, int64_t id, const char *previous, char hash[DIGEST_HEX_SIZE])
{
    struct digest *d = begin_row(previous);
    add_int(d, id);
    for (int i = 1; i < AUDIT_HASHED; i++) {
        switch (sqlite3_column_type(st, i)) {
        case SQLITE_NULL:
            digest_add(d, "n,", 2);
            break;
        case SQLITE_INTEGER:
            add_int(d, sqlite3_column_int64(st, i));
            break;
        case SQLITE_TEXT: {
            const void *text = sqlite3_column_text(st, i);
            add_bytes(d, 't', text, (size_t)sqlite3_column_bytes(st, i));
            break;
        }
        default: { /* the daemon writes none: with a letter of its own it equals nothing else */
            const void *data = sqlite3_column_blob(st, i);
            add_bytes(d, 'b', data, (size_t)sqlite3_column_bytes(st, i));
            break;
        }
        }
    }
    digest_finish(d, hash);
}

bool audit_is_hash(const char *text)
{
    return text != NULL && strlen(text) == DIGEST_HEX_SIZE - 1 &&
           strspn(text, "0123456789abcdef") == DIGEST_HEX_SIZE - 1;
}

/* ---- migration ---- */

static int hash_next(struct store *s, struct audit_end *end, struct err *err)
{
    struct statement st, put;
    int rc = statement_open(
        s, "SELECT " AUDIT_COLUMNS " FROM events WHERE id > ? ORDER BY id LIMIT 1", &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, end->id);
    rc = store_next(&st, err);
    if (rc == 1) {
        char hash[DIGEST_HEX_SIZE];
        end->id = sqlite3_column_int64(st.stmt, 0);
        end->count++;
        audit_hash_row(st.stmt, end->id, end->hash, hash);
        memcpy(end->hash, hash, sizeof hash);
    }
    statement_close(&st);
    if (rc != 1)
        return rc;
    if (statement_open(s, "UPDATE events SET hash = ? WHERE id = ?", &put, err) < 0)
        return -(int)err->code;
    put_text(&put, end->hash);
    put_int(&put, end->id);
    int done = store_next(&put, err);
    statement_close(&put);
    return done < 0 ? done : 1;
}

/* Columns of audit_head, bound in this order. */
static const char put_end[] =
    "INSERT INTO audit_head(one, count, event_id, hash) VALUES(1, ?, ?, ?) ON CONFLICT(one) DO"
    " UPDATE SET count=excluded.count, event_id=excluded.event_id, hash=excluded.hash";

static int write_end(struct store *s, const struct audit_end *end, struct err *err)
{
    struct statement st;
    if (statement_open(s, put_end, &st, err) < 0)
        return -(int)err->code;
    put_int(&st, end->count);
    put_int(&st, end->id);
    put_text(&st, end->hash);
    int rc = store_next(&st, err);
    statement_close(&st);
    return rc < 0 ? rc : 0;
}

int audit_hash_all(struct store *s, struct err *err)
{
    struct audit_end end = {.hash = AUDIT_NO_HASH};
    int rc;
    while ((rc = hash_next(s, &end, err)) == 1)
        ;
    if (rc == 0 && end.count > 0)
        log_info("audit.chained", "the %" PRId64 " events so far are a chain now", end.count);
    return rc < 0 ? rc : write_end(s, &end, err);
}

/* ---- going on ---- */

int audit_read_end(sqlite3 *db, struct audit_end *ret, struct err *err)
{
    sqlite3_stmt *st;
    *ret = (struct audit_end){.hash = AUDIT_NO_HASH};
    if (sqlite3_prepare_v2(db, "SELECT count, event_id, hash FROM audit_head WHERE one = 1", -1,
                           &st, NULL) != SQLITE_OK)
        return err_set(err, ERR_IO, "database: reading audit_head: %s", sqlite3_errmsg(db));
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) {
        const char *hash = (const char *)sqlite3_column_text(st, 2);
        ret->count = sqlite3_column_int64(st, 0);
        ret->id = sqlite3_column_int64(st, 1);
        (void)snprintf(ret->hash, sizeof ret->hash, "%s", hash != NULL ? hash : "");
    }
    (void)sqlite3_finalize(st);
    if (rc == SQLITE_DONE)
        return err_set(err, ERR_NOT_FOUND, "the row of audit_head is gone");
    return rc == SQLITE_ROW ? 0 : err_set(err, ERR_IO, "database: %s", sqlite3_errmsg(db));
}

static int read_number(struct store *s, const char *sql, int64_t *ret, struct err *err)
{
    struct statement st;
    if (statement_open(s, sql, &st, err) < 0)
        return -(int)err->code;
    int rc = store_next(&st, err);
    *ret = rc == 1 ? get_int(&st) : 0;
    statement_close(&st);
    return rc < 0 ? rc : 0;
}

static const char last_given[] = "SELECT seq FROM sqlite_sequence WHERE name = 'events'";

int audit_load(struct store *s, struct err *err)
{
    int64_t last = 0, given = 0;
    int rc = audit_read_end(s->db, &s->audit, err);
    if (rc < 0 && rc != -ERR_NOT_FOUND)
        return rc;
    if (read_number(s, "SELECT coalesce(max(id), 0) FROM events", &last, err) < 0 ||
        read_number(s, last_given, &given, err) < 0)
        return -(int)err->code;
    /* The chain goes on from where it should have ended, so that a break stays visible. */
    if (rc < 0 || last != s->audit.id || given > last)
        log_warn("audit.broken", "the events were changed by hand; see clusterctl audit verify");
    err_clear(err);
    s->audit_on_disk = s->audit;
    return 0;
}

int64_t audit_next_id(struct store *s)
{
    int64_t given = s->audit.id;
    /* once in each transaction: somebody may have written meanwhile */
    if (!s->audit_looked && read_number(s, last_given, &given, NULL) < 0)
        given = s->audit.id; /* the insert will fail, too, and tell */
    s->audit_looked = true;
    return (given > s->audit.id ? given : s->audit.id) + 1;
}

void audit_advance(struct store *s, int64_t id, const char hash[DIGEST_HEX_SIZE])
{
    s->audit.id = id;
    s->audit.count++;
    memcpy(s->audit.hash, hash, sizeof s->audit.hash);
    s->audit_moved = true;
}

int audit_save(struct store *s)
{
    return s->audit_moved ? write_end(s, &s->audit, NULL) : 0;
}

void audit_saved(struct store *s)
{
    s->audit_moved = false;
    s->audit_looked = false;
    s->audit_on_disk = s->audit;
}

void store_audit_end(const struct store *s, struct audit_end *ret)
{
    *ret = s->audit_on_disk;
}
