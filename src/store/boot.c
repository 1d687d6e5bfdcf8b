/* Tokens, unknown machines, revisions, BMC locks, artefacts. */
#include "store/store_int.h"

/* The states after the ramdisk took the token: the row notes when it first came to one of them. */
#define CLAIMED "'claimed', 'written', 'proven'"

void store_put_token(struct store *s, const struct store_token *r)
{
    struct statement st;
    if (!write_open(
            s,
            "INSERT INTO tokens(hash, node_id, attempt_id, purpose, state, image_sha256,"
            " ramdisk_boot_id, proof_boot_id, armed_at, expires_at, changed_at, why_dead,"
            " claimed_at) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,"
            " CASE WHEN ?5 IN (" CLAIMED ") THEN ?11 END)"
            " ON CONFLICT(hash) DO UPDATE SET node_id=excluded.node_id,"
            " attempt_id=excluded.attempt_id, purpose=excluded.purpose, state=excluded.state,"
            " image_sha256=excluded.image_sha256, ramdisk_boot_id=excluded.ramdisk_boot_id,"
            " proof_boot_id=excluded.proof_boot_id, armed_at=excluded.armed_at,"
            " expires_at=excluded.expires_at, changed_at=excluded.changed_at,"
            " why_dead=excluded.why_dead, claimed_at=coalesce(claimed_at, excluded.claimed_at)",
            &st))
        return;
    put_text(&st, r->hash);
    put_int(&st, r->node_id);
    put_int(&st, r->attempt_id);
    put_text(&st, r->purpose);
    put_text(&st, r->state);
    put_text(&st, r->image_sha256);
    put_text(&st, r->ramdisk_boot_id);
    put_text(&st, r->proof_boot_id);
    put_time(&st, r->armed_at);
    put_time(&st, r->expires_at);
    put_time(&st, r->changed_at);
    put_text(&st, r->why_dead);
    (void)store_write(&st);
}

int store_each_live_token(struct store *s, store_token_fn fn, void *user, struct err *err)
{
    struct statement st;
    /* what is proven is kept a while, too: an attempt may have been cut off before it knew */
    int rc = statement_open(s,
                            "SELECT hash, node_id, attempt_id, purpose, state, image_sha256,"
                            " ramdisk_boot_id, proof_boot_id, armed_at, expires_at, changed_at,"
                            " why_dead FROM tokens WHERE state IN ('armed', 'claimed', 'written')"
                            " OR attempt_id IN (SELECT id FROM attempts WHERE status = 'running')"
                            " ORDER BY +hash",
                            &st, err);
    if (rc < 0)
        return rc;
    while ((rc = store_next(&st, err)) == 1) {
        struct store_token r = {.hash = get_text(&st)};
        r.node_id = get_int(&st);
        r.attempt_id = get_int(&st);
        r.purpose = get_text(&st);
        r.state = get_text(&st);
        r.image_sha256 = get_text(&st);
        r.ramdisk_boot_id = get_text(&st);
        r.proof_boot_id = get_text(&st);
        r.armed_at = get_time(&st);
        r.expires_at = get_time(&st);
        r.changed_at = get_time(&st);
        r.why_dead = get_text(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

int store_count_installs(struct store *s, int64_t node_id, int64_t since, int *ret_count,
                         struct err *err)
{
    struct statement st;
    int rc = statement_open(s,
                            "SELECT count(*) FROM tokens WHERE node_id = ? AND purpose = 'install'"
                            " AND claimed_at >= ?",
                            &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, node_id);
    put_time(&st, since > 0 ? since : 1);
    rc = store_next(&st, err);
    if (rc == 1)
        *ret_count = (int)get_int(&st);
    statement_close(&st);
    return rc < 0 ? rc : 0;
}

void store_put_pending(struct store *s, const struct store_pending *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT OR REPLACE INTO pending(mac, uuid, serial, address, platform, note,"
                    " first_seen, last_seen, times, status) VALUES(?,?,?,?,?,?,?,?,?,?)",
                    &st))
        return;
    put_text(&st, r->mac);
    put_text(&st, r->uuid);
    put_text(&st, r->serial);
    put_text(&st, r->address);
    put_text(&st, r->platform);
    put_text(&st, r->note);
    put_time(&st, r->first_seen);
    put_time(&st, r->last_seen);
    put_int(&st, r->times);
    put_text(&st, r->status);
    (void)store_write(&st);
}

int store_each_pending(struct store *s, store_pending_fn fn, void *user, struct err *err)
{
    struct statement st;
    int rc = statement_open(s,
                            "SELECT mac, uuid, serial, address, platform, note, first_seen,"
                            " last_seen, times, status FROM pending ORDER BY last_seen DESC",
                            &st, err);
    if (rc < 0)
        return rc;
    while ((rc = store_next(&st, err)) == 1) {
        struct store_pending r = {.mac = get_text(&st)};
        r.uuid = get_text(&st);
        r.serial = get_text(&st);
        r.address = get_text(&st);
        r.platform = get_text(&st);
        r.note = get_text(&st);
        r.first_seen = get_time(&st);
        r.last_seen = get_time(&st);
        r.times = get_int(&st);
        r.status = get_text(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

/* ---- revisions ---- */

int64_t store_add_revision(struct store *s, const struct store_revision *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT INTO revisions(at, author, cluster, files, sha256, summary)"
                    " VALUES(?,?,?,?,?,?)",
                    &st))
        return 0;
    put_time(&st, r->at);
    put_text(&st, r->author);
    put_text(&st, r->cluster);
    put_text(&st, r->files);
    put_text(&st, r->sha256);
    put_text(&st, r->summary);
    return store_write(&st);
}

static void read_revision(struct statement *st, struct store_revision *ret)
{
    *ret = (struct store_revision){.id = get_int(st)};
    ret->at = get_time(st);
    ret->author = get_text(st);
    ret->cluster = get_text(st);
    ret->sha256 = get_text(st);
    ret->summary = get_text(st);
}

int store_each_revision(struct store *s, int limit, store_revision_fn fn, void *user,
                        struct err *err)
{
    struct statement st;
    struct store_revision r;
    int rc = statement_open(s,
                            "SELECT id, at, author, cluster, sha256, summary FROM revisions"
                            " ORDER BY id DESC LIMIT ?",
                            &st, err);
    if (rc < 0)
        return rc;
    put_int(&st, limit);
    while ((rc = store_next(&st, err)) == 1) {
        read_revision(&st, &r);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

/* The one row that the bound statement gives: with its files. */
static int one_revision(struct statement *st, store_revision_fn fn, void *user, struct err *err)
{
    struct store_revision r;
    int rc = store_next(st, err);
    if (rc == 1) {
        read_revision(st, &r);
        r.files = get_text(st);
        fn(&r, user);
    }
    statement_close(st);
    return rc;
}

#define WHOLE_REVISION "SELECT id, at, author, cluster, sha256, summary, files FROM revisions"

int store_get_revision(struct store *s, int64_t id, store_revision_fn fn, void *user,
                       struct err *err)
{
    struct statement st;
    if (statement_open(s, WHOLE_REVISION " WHERE id = ?", &st, err) < 0)
        return -(int)err->code;
    put_int(&st, id);
    int rc = one_revision(&st, fn, user, err);
    if (rc == 0)
        return err_set(err, ERR_NOT_FOUND, "there is no revision %lld; see clusterctl history",
                       (long long)id);
    return rc < 0 ? rc : 0;
}

int store_last_revision(struct store *s, store_revision_fn fn, void *user, struct err *err)
{
    struct statement st;
    int rc = statement_open(s, WHOLE_REVISION " ORDER BY id DESC LIMIT 1", &st, err);
    if (rc < 0)
        return rc;
    rc = one_revision(&st, fn, user, err);
    if (rc == 0)
        return err_set(err, ERR_NOT_FOUND, "no spec was ever applied");
    return rc < 0 ? rc : 0;
}

/* ---- BMC locks, artefacts ---- */

void store_put_bmc_lock(struct store *s, const struct store_bmc_lock *r)
{
    struct statement st;
    if (!write_open(s,
                    "INSERT OR REPLACE INTO bmc_locks(address, credential_hmac, reason, at)"
                    " VALUES(?,?,?,?)",
                    &st))
        return;
    put_text(&st, r->address);
    put_text(&st, r->credential_hmac);
    put_text(&st, r->reason);
    put_time(&st, r->at);
    (void)store_write(&st);
}

void store_drop_bmc_lock(struct store *s, const char *address)
{
    struct statement st;
    if (!write_open(s, "DELETE FROM bmc_locks WHERE address = ?", &st))
        return;
    put_text(&st, address);
    (void)store_write(&st);
}

int store_each_bmc_lock(struct store *s, store_bmc_lock_fn fn, void *user, struct err *err)
{
    struct statement st;
    int rc =
        statement_open(s, "SELECT address, credential_hmac, reason, at FROM bmc_locks", &st, err);
    if (rc < 0)
        return rc;
    while ((rc = store_next(&st, err)) == 1) {
        struct store_bmc_lock r = {.address = get_text(&st)};
        r.credential_hmac = get_text(&st);
        r.reason = get_text(&st);
        r.at = get_time(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}

void store_put_artefact(struct store *s, const struct store_artefact *r)
{
    struct statement st;
    if (!write_open(
            s, "INSERT OR REPLACE INTO artefacts(path, size, mtime_ns, sha256) VALUES(?,?,?,?)",
            &st))
        return;
    put_text(&st, r->path);
    put_int(&st, r->size);
    put_int(&st, r->mtime_ns);
    put_text(&st, r->sha256);
    (void)store_write(&st);
}

int store_each_artefact(struct store *s, store_artefact_fn fn, void *user, struct err *err)
{
    struct statement st;
    int rc = statement_open(s, "SELECT path, size, mtime_ns, sha256 FROM artefacts", &st, err);
    if (rc < 0)
        return rc;
    while ((rc = store_next(&st, err)) == 1) {
        struct store_artefact r = {.path = get_text(&st)};
        r.size = get_int(&st);
        r.mtime_ns = get_int(&st);
        r.sha256 = get_text(&st);
        fn(&r, user);
    }
    statement_close(&st);
    return rc;
}
