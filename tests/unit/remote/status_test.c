/* The lines that nodes answer with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "remote/internal.h"
#include "remote/status.h"

static void good_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct run_status st;
        const char *rest;
    } cases[] = {
        {"\nclusterd-run 1 running -1 12 345\nlog", {RUN_RUNNING, -1, 12, 345}, "log"},
        {"motd\nclusterd-run\nclusterd-run 1 exited 0 0 2\n", {RUN_EXITED, 0, 0, 2}, ""},
        {"clusterd-run 1 exited 255 999999999999 1\n\n", {RUN_EXITED, 255, 999999999999, 1}, "\n"},
        {"clusterd-run 1 send -1 0 0\n", {RUN_SEND, -1, 0, 0}, ""},
        {"clusterd-run 1 absent -1 0 0\n", {RUN_ABSENT, -1, 0, 0}, ""},
        {"clusterd-run 1 gone -1 5 7\nclusterd-run 1 exited 0 5 7\n",
         {RUN_GONE, -1, 5, 7},
         "clusterd-run 1 exited 0 5 7\n"},
        {"clusterd-run 1 restarted -1 5 7\n", {RUN_RESTARTED, -1, 5, 7}, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct run_status st;
        size_t next = 0;
        assert_int_equal(run_status_parse(cases[i].text, strlen(cases[i].text), &st, &next), 0);
        assert_int_equal(st.state, cases[i].st.state);
        assert_int_equal(st.exit_code, cases[i].st.exit_code);
        assert_int_equal(st.log_size, cases[i].st.log_size);
        assert_int_equal(st.pid, cases[i].st.pid);
        assert_string_equal(cases[i].text + next, cases[i].rest);
    }
}

static void bad_lines(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "clusterd-run 1 running -1 12 345",    /* not complete yet */
        " clusterd-run 1 running -1 12 345\n", /* not at the beginning of a line */
        "clusterd-run 2 running -1 12 345\n",  /* another version */
        "clusterd-run 1 dancing -1 12 345\n",  /* no such state */
        "clusterd-run 1 running 0 12 345\n",   /* a code without an exit */
        "clusterd-run 1 exited -1 12 345\n",   /* an exit without a code */
        "clusterd-run 1 exited 256 12 345\n",
        "clusterd-run 1 exited 0 -1 345\n",
        "clusterd-run 1 exited 0 12 99999999999\n",
        "clusterd-run 1 exited 0 12\n",
        "clusterd-run 1 exited 0 12 3 4\n",
        "clusterd-run 1 exited  0 12 3\n",
        "clusterd-run 1 exited 0x1 12 3\n",
        "clusterd-run 1 exited 0 9999999999999999999 3\n",
        "clusterd-run 1 exited - 12 3\n",
        "clusterd-run 1 exited 0 12 3 \n",
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct run_status st;
        size_t next;
        if (run_status_parse(cases[i], strlen(cases[i]), &st, &next) == 0)
            fail_msg("'%s' was accepted", cases[i]);
    }
}

static void boot_ids(void **state)
{
    (void)state;
    char id[40] = "untouched";
    static const char good[] = "x\nclusterd-boot e26eb128-1eab-40da-afea-9f3d0f1b9d0f\n";
    static const char *const bad[] = {"clusterd-boot \n", "clusterd-boot\n",
                                      "clusterd-boot e26eb128-1eab-40da-afea-9f3d0f1b9d0\n",
                                      "clusterd-boot e26eb128x1eab-40da-afea-9f3d0f1b9d0f\n",
                                      "clusterd-boot E26eb128-1eab-40da-afea-9f3d0f1b9d0f\n"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(boot_id_parse(bad[i], strlen(bad[i]), id), -1);
    assert_string_equal(id, "untouched");
    assert_int_equal(boot_id_parse(good, strlen(good), id), 0);
    assert_string_equal(id, "e26eb128-1eab-40da-afea-9f3d0f1b9d0f");
}

static void quoting(void **state)
{
    (void)state;
    struct strbuf sb;
    strbuf_init(&sb, 200);
    command_format(&sb, "echo 'x'", (const char *const[]){"it's", "$A"}, 2);
    assert_string_equal(sb.data, "exec /bin/sh -c 'echo '\\''x'\\''' clusterd 'it'\\''s' '$A'");
    strbuf_done(&sb);
}

static void last_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line;
    } cases[] = {{"", ""},
                 {"one", "one"},
                 {"one\ntwo\n\n", "two"},
                 {"a\tb\x1b[0m\r\n", "a b [0m"},
                 {"0123456789abcdefghij\n", "56789abcdefghij"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct strbuf sb;
        char line[16];
        strbuf_init(&sb, 100);
        strbuf_adds(&sb, cases[i].text);
        last_line(&sb, line, sizeof line);
        assert_string_equal(line, cases[i].line);
        strbuf_done(&sb);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_lines), cmocka_unit_test(bad_lines),  cmocka_unit_test(boot_ids),
        cmocka_unit_test(quoting),    cmocka_unit_test(last_lines),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
