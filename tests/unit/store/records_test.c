/* Rows of evidence, events, tokens, machines, revisions and the rest come back as written. */
#include "rows.h"

static void is_evidence(const struct store_evidence *r, void *user)
{
    const struct store_evidence *x = NEXT(store_evidence);
    NUMBER(id);
    NUMBER(attempt_id);
    NUMBER(node_id);
    TEXT(stage);
    TEXT(kind);
    NUMBER(at);
    TEXT(text);
}

static void evidence(void **state)
{
    (void)state;
    struct store_evidence rows[] = {{.attempt_id = 4, .node_id = 1, .text = ""},
                                    {.attempt_id = 4,
                                     .node_id = 1,
                                     .stage = "installed",
                                     .kind = "log",
                                     .at = T0,
                                     .text = "line 1\nline 2\n"},
                                    {.attempt_id = 4}};
    struct store_evidence other = {.attempt_id = 5, .text = "of another attempt"};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        rows[i].id = store_add_evidence(store, &rows[i]);
        (void)store_add_evidence(store, &other);
    }
    struct expected e = EXPECT(rows);
    assert_int_equal(store_each_evidence(store, 4, is_evidence, &e, NULL), 0);
    SEEN_ALL(e);
}

/* Of a long log the end is kept, and it begins with a whole character. */
static void long_evidence(void **state)
{
    (void)state;
    enum { KEPT = 256 * 1024, PAIRS = KEPT / 2 };
    for (int odd = 0; odd < 2; odd++) {
        char *text = xcalloc(1, 2 * PAIRS + 40), *p = text + 20;
        memset(text, 'x', 20);
        for (int i = 0; i < PAIRS; i++, p += 2)
            memcpy(p, "\xc3\xa9", 2);
        *p = odd != 0 ? '!' : '\0';
        struct store_evidence in = {.attempt_id = 1 + odd, .text = text};
        (void)store_add_evidence(store, &in);
        struct store_evidence out = {.id = 1 + odd, .attempt_id = 1 + odd};
        out.text = odd != 0 ? text + 20 + 2 : text + 20;
        struct expected e = {.rows = &out, .count = 1};
        assert_int_equal(store_each_evidence(store, 1 + odd, is_evidence, &e, NULL), 0);
        SEEN_ALL(e);
        free(text);
    }
}

static void is_measurement(const struct store_measurement *r, void *user)
{
    const struct store_measurement *x = NEXT(store_measurement);
    NUMBER(attempt_id);
    NUMBER(node_id);
    TEXT(stage);
    TEXT(name);
    REAL(value);
    TEXT(unit);
    TEXT(peer);
    REAL(limit);
    TEXT(verdict);
    NUMBER(at);
}

static void measurements(void **state)
{
    (void)state;
    struct store_measurement rows[] = {{.node_id = 1, .value = 0, .limit = NAN},
                                       {.attempt_id = 9,
                                        .node_id = 1,
                                        .stage = "fabric",
                                        .name = "ib_write_bw",
                                        .value = 391.25,
                                        .unit = "Gb/s",
                                        .peer = "gpu002",
                                        .limit = 380.5,
                                        .verdict = "ok",
                                        .at = T0},
                                       {.node_id = 1, .value = 1e-9, .limit = 0}};
    for (int i = (int)ARRAY_LEN(rows); i-- > 0;) {
        struct store_measurement other = {.node_id = 2, .value = 5, .limit = NAN};
        store_add_measurement(store, &rows[i]);
        store_add_measurement(store, &other);
    }
    struct expected e = EXPECT(rows); /* the newest first */
    assert_int_equal(store_each_measurement(store, 1, 10, is_measurement, &e, NULL), 0);
    SEEN_ALL(e);
    e = (struct expected){.rows = rows, .count = 2};
    assert_int_equal(store_each_measurement(store, 1, 2, is_measurement, &e, NULL), 0);
    SEEN_ALL(e);
}

static void is_event(const struct store_event *r, void *user)
{
    const struct store_event *x = NEXT(store_event);
    NUMBER(id);
    NUMBER(at);
    NUMBER(node_id);
    TEXT(node);
    TEXT(kind);
    TEXT(stage);
    NUMBER(attempt_id);
    TEXT(text);
    TEXT(actor);
}

static void events(void **state)
{
    (void)state;
    struct store_event rows[] = {
        {.kind = "spec.applied", .text = "revision 1", .actor = "root"},
        {.at = T0,
         .node_id = 7,
         .node = "gpu007",
         .kind = "stage.passed",
         .stage = "installed",
         .attempt_id = 3,
         .text = "passed",
         .actor = "engine"},
        {.node_id = 8, .node = "gpu008"},
        {.node_id = 7, .node = "gpu007", .kind = "power.on"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        rows[i].id = store_add_event(store, &rows[i]);
    static const struct {
        int64_t after, node_id;
        int limit, first, count;
    } asks[] = {{0, 0, 10, 0, 4}, {2, 0, 10, 2, 2}, {4, 0, 10, 4, 0},
                {1, 0, 2, 1, 2},  {-1, 0, 2, 2, 2}, {-1, 0, 10, 0, 4}};
    for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
        struct expected e = {.rows = &rows[asks[i].first], .count = asks[i].count};
        assert_int_equal(
            store_each_event(store, asks[i].after, 0, asks[i].limit, is_event, &e, NULL), 0);
        SEEN_ALL(e);
    }
    struct store_event of7[] = {rows[1], rows[3]};
    struct expected e = EXPECT(of7);
    assert_int_equal(store_each_event(store, 0, 7, 10, is_event, &e, NULL), 0);
    SEEN_ALL(e);
    e = (struct expected){.rows = &of7[1], .count = 1};
    assert_int_equal(store_each_event(store, -1, 7, 1, is_event, &e, NULL), 0);
    SEEN_ALL(e);
}

static void is_token(const struct store_token *r, void *user)
{
    const struct store_token *x = NEXT(store_token);
    TEXT(hash);
    NUMBER(node_id);
    NUMBER(attempt_id);
    TEXT(purpose);
    TEXT(state);
    TEXT(image_sha256);
    TEXT(ramdisk_boot_id);
    TEXT(proof_boot_id);
    NUMBER(armed_at);
    NUMBER(expires_at);
    NUMBER(changed_at);
    TEXT(why_dead);
}

static void tokens(void **state)
{
    (void)state;
    struct store_attempt running = {.node_id = 1, .stage = "installed", .status = "running"};
    int64_t attempt = store_put_attempt(store, &running);
    struct store_token rows[] = {
        {.hash = "01", .purpose = "discover", .state = "armed"},
        {.hash = "02",
         .node_id = 1,
         .attempt_id = 40,
         .purpose = "install",
         .state = "written",
         .image_sha256 = "abc",
         .ramdisk_boot_id = "r",
         .proof_boot_id = "p",
         .armed_at = T0,
         .expires_at = T0 + 1,
         .changed_at = T0 + 2},
        {.hash = "03", .state = "claimed", .changed_at = T0},
        /* not live, but its attempt runs on and wants to know */
        {.hash = "04", .state = "dead", .attempt_id = attempt, .why_dead = "expired"},
        {.hash = "05", .state = "proven", .attempt_id = 40},
        {.hash = "06", .state = "dead", .attempt_id = 40},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        store_put_token(store, &rows[i]);
    rows[0].expires_at = T0 + 7; /* the same key: replaced */
    store_put_token(store, &rows[0]);
    struct expected e = {.rows = rows, .count = 4};
    assert_int_equal(store_each_live_token(store, is_token, &e, NULL), 0);
    SEEN_ALL(e);
}

static void put_token(const char *hash, const char *purpose, const char *token_state, int64_t at)
{
    struct store_token t = {.hash = hash, .node_id = 1, .purpose = purpose};
    t.state = token_state;
    t.armed_at = T0;
    t.changed_at = at;
    store_put_token(store, &t);
}

/* An install counts at the time of its claim, whatever becomes of it later. */
static void installs(void **state)
{
    (void)state;
    put_token("01", "install", "armed", T0);
    put_token("01", "install", "claimed", T0 + 10);
    put_token("01", "install", "written", T0 + 20);
    put_token("01", "install", "dead", T0 + 5000);
    put_token("02", "install", "claimed", T0 + 1000);
    put_token("02", "install", "proven", T0 + 2000);
    put_token("03", "install", "armed", T0 + 1500);
    put_token("03", "install", "dead", T0 + 3000); /* never claimed */
    put_token("04", "discover", "claimed", T0 + 1500);
    static const struct {
        int64_t node_id, since;
        int count;
    } asks[] = {{1, 0, 2},         {1, T0 + 10, 2},   {1, T0 + 11, 1},
                {1, T0 + 1000, 1}, {1, T0 + 1001, 0}, {2, 0, 0}};
    for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
        int count = -1;
        assert_int_equal(store_count_installs(store, asks[i].node_id, asks[i].since, &count, NULL),
                         0);
        assert_int_equal(count, asks[i].count);
    }
}

static void is_pending(const struct store_pending *r, void *user)
{
    const struct store_pending *x = NEXT(store_pending);
    TEXT(mac);
    TEXT(uuid);
    TEXT(serial);
    TEXT(address);
    TEXT(platform);
    TEXT(note);
    NUMBER(first_seen);
    NUMBER(last_seen);
    NUMBER(times);
    TEXT(status);
}

static void pending(void **state)
{
    (void)state;
    struct store_pending rows[] = {{.mac = "52:54:00:00:00:02",
                                    .uuid = "u",
                                    .serial = "s",
                                    .address = "10.0.0.9",
                                    .platform = "efi",
                                    .note = "n",
                                    .first_seen = T0,
                                    .last_seen = T0 + 60000,
                                    .times = INT64_C(5000000000),
                                    .status = "pending"},
                                   {.mac = "52:54:00:00:00:01"}};
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
            store_put_pending(store, &rows[i]);
    struct expected e = EXPECT(rows);
    assert_int_equal(store_each_pending(store, is_pending, &e, NULL), 0);
    SEEN_ALL(e);
}

static void is_hostkey(const struct store_hostkey *r, void *user)
{
    const struct store_hostkey *x = NEXT(store_hostkey);
    NUMBER(node_id);
    TEXT(key);
    NUMBER(attempt_id);
    NUMBER(at);
}

static void hostkeys(void **state)
{
    (void)state;
    struct store_hostkey rows[] = {
        {.node_id = 1, .key = "ssh-ed25519 AAAAold", .attempt_id = 2, .at = T0}, {.node_id = 2}};
    store_put_hostkey(store, &rows[1]);
    store_put_hostkey(store, &rows[0]);
    rows[0].key = "ssh-ed25519 AAAAnew";
    store_put_hostkey(store, &rows[0]);
    struct expected e = EXPECT(rows);
    assert_int_equal(store_each_hostkey(store, is_hostkey, &e, NULL), 0);
    SEEN_ALL(e);
}

static void is_revision(const struct store_revision *r, void *user)
{
    const struct store_revision *x = NEXT(store_revision);
    NUMBER(id);
    NUMBER(at);
    TEXT(author);
    TEXT(cluster);
    TEXT(files);
    TEXT(sha256);
    TEXT(summary);
}

static void revisions(void **state)
{
    (void)state;
    struct err err = {0};
    struct store_revision rows[] = {{.at = T0,
                                     .author = "root",
                                     .cluster = "atlas",
                                     .files = "[{\"path\":\"a.yaml\"}]",
                                     .sha256 = "00",
                                     .summary = "2 nodes"},
                                    {.cluster = "atlas"}};
    struct expected e = EXPECT(rows);
    assert_int_equal(store_last_revision(store, is_revision, &e, &err), -ERR_NOT_FOUND);
    assert_int_equal(e.seen, 0);
    for (int i = (int)ARRAY_LEN(rows); i-- > 0;)
        rows[i].id = store_add_revision(store, &rows[i]);
    assert_int_equal(rows[0].id, 2);
    const char *files = rows[0].files;
    rows[0].files = NULL; /* a list is without them */
    assert_int_equal(store_each_revision(store, 10, is_revision, &e, &err), 0);
    SEEN_ALL(e);
    rows[0].files = files;
    e = (struct expected){.rows = &rows[1], .count = 1};
    assert_int_equal(store_get_revision(store, 1, is_revision, &e, &err), 0);
    SEEN_ALL(e);
    assert_int_equal(store_get_revision(store, 3, is_revision, &e, &err), -ERR_NOT_FOUND);
    e = (struct expected){.rows = rows, .count = 1};
    assert_int_equal(store_last_revision(store, is_revision, &e, &err), 0);
    SEEN_ALL(e);
}

static void is_bmc_lock(const struct store_bmc_lock *r, void *user)
{
    const struct store_bmc_lock *x = NEXT(store_bmc_lock);
    TEXT(address);
    TEXT(credential_hmac);
    TEXT(reason);
    NUMBER(at);
}

static void bmc_locks(void **state)
{
    (void)state;
    struct store_bmc_lock rows[] = {
        {.address = "10.0.0.1", .credential_hmac = "h2", .reason = "refused", .at = T0},
        {.address = "10.0.0.2", .credential_hmac = "h1"}};
    store_put_bmc_lock(store, &rows[1]);
    store_put_bmc_lock(store, &rows[0]);
    store_put_bmc_lock(store, &rows[0]);
    struct expected e = EXPECT(rows);
    assert_int_equal(store_each_bmc_lock(store, is_bmc_lock, &e, NULL), 0);
    SEEN_ALL(e);
    store_drop_bmc_lock(store, "10.0.0.2");
    e = (struct expected){.rows = rows, .count = 1};
    assert_int_equal(store_each_bmc_lock(store, is_bmc_lock, &e, NULL), 0);
    SEEN_ALL(e);
}

static void is_artefact(const struct store_artefact *r, void *user)
{
    const struct store_artefact *x = NEXT(store_artefact);
    TEXT(path);
    NUMBER(size);
    NUMBER(mtime_ns);
    TEXT(sha256);
}

static void artefacts(void **state)
{
    (void)state;
    struct store_artefact rows[] = {{.path = "/a b", .size = 1, .mtime_ns = 2, .sha256 = "aa"},
                                    {.path = "/big",
                                     .size = INT64_C(1) << 40,
                                     .mtime_ns = INT64_C(1796107831123456789),
                                     .sha256 = "bb"}};
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
            store_put_artefact(store, &rows[i]);
    struct expected e = EXPECT(rows);
    assert_int_equal(store_each_artefact(store, is_artefact, &e, NULL), 0);
    SEEN_ALL(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(evidence, setup, teardown),
        cmocka_unit_test_setup_teardown(long_evidence, setup, teardown),
        cmocka_unit_test_setup_teardown(measurements, setup, teardown),
        cmocka_unit_test_setup_teardown(events, setup, teardown),
        cmocka_unit_test_setup_teardown(tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(installs, setup, teardown),
        cmocka_unit_test_setup_teardown(pending, setup, teardown),
        cmocka_unit_test_setup_teardown(hostkeys, setup, teardown),
        cmocka_unit_test_setup_teardown(revisions, setup, teardown),
        cmocka_unit_test_setup_teardown(bmc_locks, setup, teardown),
        cmocka_unit_test_setup_teardown(artefacts, setup, teardown),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
