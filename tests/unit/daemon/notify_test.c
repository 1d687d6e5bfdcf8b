/* The pure parts of the webhooks, and their rows in the settings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/config.c"         /* NOLINT(bugprone-suspicious-include): a program room */
#include "daemon/config_hooks.c"   /* NOLINT(bugprone-suspicious-include) */
#include "daemon/notify_message.c" /* NOLINT(bugprone-suspicious-include) */

#define T0 INT64_C(1796107831123) /* 2026-12-01 06:50:31.123 */

static bool wants(const char *glob, const char *kind)
{
    char *globs[] = {xstrdup(glob)};
    bool yes = notify_wants(globs, 1, kind);
    free(globs[0]);
    return yes;
}

static void globs_match_kinds(void **state)
{
    (void)state;
    assert_true(wants("stage.failed", "stage.failed"));
    assert_false(wants("stage.failed", "stage.failed2"));
    assert_false(wants("stage.failed", "stage.faile"));
    assert_true(wants("node.*", "node.held"));
    assert_true(wants("node.*", "node."));
    assert_false(wants("node.*", "node"));
    assert_false(wants("node.*", "xnode.held"));
    assert_true(wants("*", "anything.at.all"));
    assert_true(wants("*", ""));
    assert_true(wants("**", "x"));
    assert_true(wants("*.failed", "stage.failed"));
    assert_true(wants("*.failed", "a.failed.failed"));
    assert_false(wants("*.failed", "stage.failed.x"));
    assert_true(wants("s*e.f*d", "stage.failed"));
    assert_true(wants("?tage.*", "stage.passed"));
    assert_false(wants("stage.?", "stage."));
    assert_false(wants("", "x"));
    assert_true(wants("*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaab"));
    assert_false(wants("*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaac"));
    char one[] = "stage.failed", other[] = "node.*", *two[] = {one, other};
    assert_true(notify_wants(two, 2, "node.held"));
    assert_false(notify_wants(two, 2, "stage.passed"));
    assert_false(notify_wants(two, 0, "stage.failed"));
}

/* printf '%s' 'TIMESTAMP.BODY' | openssl dgst -sha256 -hmac KEY */
static void signatures_are_those_of_openssl(void **state)
{
    (void)state;
    char hex[DIGEST_HEX_SIZE];
    notify_sign("key-of-the-hook", 1796107831, "{\"cluster\":\"alone\",\"id\":7}", hex);
    assert_string_equal(hex, "3293a3a49b2e306e0d17a211c6dba63e4abc769cd21d53e6be04bc728fd83f4c");
    notify_sign("x", 0, "", hex);
    assert_string_equal(hex, "045c61d8e9ff9274e9d6b8afb5207891632db48432629340fe21266c085c9fd1");
}

static void bodies_are_json(void **state)
{
    (void)state;
    struct store_event e = {.id = 7,
                            .at = T0,
                            .node_id = 3,
                            .node = "gpu017",
                            .kind = "stage.failed",
                            .stage = "fabric",
                            .attempt_id = 12,
                            .text = "191 Gb/s is \"below\" 380\n",
                            .actor = "engine"};
    char *body = notify_body("atlas", &e);
    assert_string_equal(body, "{\"cluster\":\"atlas\",\"id\":7,\"at\":\"2026-12-01 06:50:31.123\","
                              "\"node\":\"gpu017\",\"kind\":\"stage.failed\",\"stage\":\"fabric\","
                              "\"attempt\":12,\"text\":\"191 Gb/s is \\\"below\\\" 380\\n\","
                              "\"actor\":\"engine\"}");
    free(body);
    struct store_event bare = {.id = 8, .kind = "x", .text = "\xff\xfe"};
    body = notify_body(NULL, &bare);
    assert_string_equal(body, "{\"cluster\":null,\"id\":8,\"at\":null,\"node\":null,\"kind\":\"x\","
                              "\"stage\":null,\"attempt\":null,"
                              "\"text\":\"(text that is not UTF-8)\",\"actor\":null}");
    free(body);
    body = notify_skipped_body("atlas", 20007, 12001, T0);
    assert_non_null(strstr(body, "\"id\":20007,"));
    assert_non_null(strstr(body, "\"kind\":\"notify.skipped\""));
    assert_non_null(strstr(body, "\"skipped\":12001}"));
    free(body);
}

static void pauses_double_up_to_ten_minutes(void **state)
{
    (void)state;
    static const int64_t most[] = {1000,  2000,   4000,   8000,   16000,  32000,
                                   64000, 128000, 256000, 512000, 600000, 600000};
    for (int i = 0; i < (int)ARRAY_LEN(most); i++) {
        assert_int_equal(notify_pause(i + 1, 0), most[i]);
        for (uint32_t r = 1; r != 0; r *= 3, r = r > 4000000000U ? 0 : r) {
            int64_t pause = notify_pause(i + 1, r);
            assert_true(pause >= most[i] / 2 && pause <= most[i]);
        }
    }
    assert_int_equal(notify_pause(1000000, 0), 600000);
}

/* ---- settings ---- */

static bool load(const char *text, struct config *c, char problems[1000])
{
    char path[] = "/tmp/notify_test.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    struct diags d;
    diags_init(&d);
    bool ok = config_load(path, c, &d);
    problems[0] = '\0';
    for (int i = 0; i < d.count; i++)
        (void)snprintf(problems + strlen(problems), 1000 - strlen(problems), "%d:%d %s\n",
                       d.items[i].line, d.items[i].column, d.items[i].text);
    assert_true(ok == (d.errors == 0));
    diags_done(&d);
    (void)unlink(path);
    return ok;
}

static void rows_are_read(void **state)
{
    (void)state;
    struct config c = {0};
    char problems[1000];
    if (!load("notify:\n"
              "  - name: chat\n"
              "    url: https://chat.example/hook?x=1@2\n"
              "    events: [stage.failed, \"node.*\"]\n"
              "    secret: {file: chat.key}\n"
              "    ca: /etc/ssl/own.pem\n"
              "  - {name: all, url: \"http://[::1]:8000\"}\n"
              "  - {name: one, url: http://x, events: stage.failed, secret: {env: KEY}}\n",
              &c, problems))
        fail_msg("%s", problems);
    assert_int_equal(c.hook_count, 3);
    assert_string_equal(c.hooks[0].name, "chat");
    assert_string_equal(c.hooks[0].url, "https://chat.example/hook?x=1@2");
    assert_int_equal(c.hooks[0].event_count, 2);
    assert_string_equal(c.hooks[0].events[1], "node.*");
    assert_int_equal(c.hooks[0].secret.kind, SECRET_FILE);
    assert_string_equal(c.hooks[0].secret.name, "chat.key");
    assert_string_equal(c.hooks[0].ca, "/etc/ssl/own.pem");
    assert_int_equal(c.hooks[1].event_count, 1);
    assert_string_equal(c.hooks[1].events[0], "*");
    assert_int_equal(c.hooks[1].secret.kind, SECRET_NONE);
    assert_null(c.hooks[1].ca);
    assert_string_equal(c.hooks[2].events[0], "stage.failed");
    assert_int_equal(c.hooks[2].secret.kind, SECRET_ENV);
    config_done(&c);
    assert_true(load("notify: []\n", &c, problems));
    assert_int_equal(c.hook_count, 0);
    config_done(&c);
}

static void wrong_rows_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *row, *says;
    } cases[] = {
        {"{name: a}", "url"},
        {"{url: http://x}", "name"},
        {"{name: a, url: http://x, evants: [x]}", "did you mean 'events'"},
        {"{name: a b, url: http://x}", "letters, digits"},
        {"{name: \"a\\r\\nX: y\", url: http://x}", "letters, digits"},
        {"{name: a, url: ftp://x}", "http:// or https://"},
        {"{name: a, url: \"http://\"}", "names a host"},
        {"{name: a, url: \"http:///x\"}", "names a host"},
        {"{name: a, url: \"http://x/\\r\\nX: y\"}", "http:// or https://"},
        {"{name: a, url: \"https://me:pw@x/\"}", "without user and password"},
        {"{name: a, url: http://x, events: []}", "kinds of events"},
        {"{name: a, url: http://x, events: [[x]]}", "list of texts"},
        {"{name: a, url: http://x, secret: hunter2}", "{file: NAME}"},
        {"{name: a, url: http://x, ca: own.pem}", "a full path"},
        {"{name: a, url: http://x}\n  - {name: a, url: http://y}", "second hook"},
        {"http://x", "mapping"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct config c = {0};
        char text[300], problems[1000];
        (void)snprintf(text, sizeof text, "notify:\n  - %s\n", cases[i].row);
        assert_false(load(text, &c, problems));
        if (strstr(problems, cases[i].says) == NULL)
            fail_msg("case %zu: no '%s' in: %s", i, cases[i].says, problems);
        assert_null(strstr(problems, "pw@"));
        assert_null(strstr(problems, "hunter2"));
        assert_null(c.hooks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(globs_match_kinds), cmocka_unit_test(signatures_are_those_of_openssl),
        cmocka_unit_test(bodies_are_json),   cmocka_unit_test(pauses_double_up_to_ten_minutes),
        cmocka_unit_test(rows_are_read),     cmocka_unit_test(wrong_rows_are_refused),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
