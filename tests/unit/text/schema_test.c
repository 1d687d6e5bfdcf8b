/* Schema rows: what every type takes, what is said when it is something else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../diags_text.h"
#include "base/mem.h"
#include "text/schema.h"

static bool even(const struct ynode *value, struct strbuf *why)
{
    int64_t n = 0;
    (void)ynode_int(value, &n);
    if (n % 2 == 0)
        return true;
    strbuf_adds(why, "must be even");
    return false;
}

struct out {
    const char *text;
    int64_t whole, checked, duration;
    double number;
    bool truth;
    int choice;
    const struct ynode *scalar, *list, *texts, *map, *any;
};

static const struct name choices[] = {{3, "ipmi"}, {5, "redfish"}, {7, "manual"}, {0, NULL}};

#define ROW(key_, type_, ...)                                                                      \
    {                                                                                              \
        .key = #key_, .type = type_, .offset = offsetof(struct out, key_), __VA_ARGS__             \
    }

static const struct field rows[] = {
    ROW(text, FIELD_TEXT, .required = true, .help = "any text"),
    ROW(whole, FIELD_INT, .min = 1, .max = 65535, .fallback = "623"),
    ROW(checked, FIELD_INT, .check = even),
    ROW(duration, FIELD_DURATION, .fallback = "10m"),
    ROW(number, FIELD_NUMBER, .min = 0, .max = 1),
    ROW(truth, FIELD_BOOL),
    ROW(choice, FIELD_ENUM, .names = choices, .fallback = "redfish"),
    ROW(scalar, FIELD_SCALAR),
    ROW(list, FIELD_LIST),
    ROW(texts, FIELD_TEXTS),
    ROW(map, FIELD_MAP),
    ROW(any, FIELD_ANY),
    {0}};

static bool read(const char *yaml, bool fresh, struct out *out, struct ydoc **ret_doc,
                 char **ret_problems)
{
    struct diags d;
    diags_init(&d);
    *ret_doc = ydoc_parse("f", yaml, strlen(yaml), &d);
    assert_non_null(*ret_doc);
    bool ok = fresh ? schema_read(rows, ydoc_root(*ret_doc), "'it'", out, &d)
                    : schema_update(rows, ydoc_root(*ret_doc), "'it'", out, &d);
    assert_int_equal(ok, d.errors == 0);
    *ret_problems = diags_text(&d);
    diags_done(&d);
    return ok;
}

static void test_values(void **state)
{
    (void)state;
    struct out out = {0};
    struct ydoc *doc;
    char *problems;
    assert_true(read("{text: 580.10, whole: 17, checked: 4, duration: 90s, number: 0.25, truth: "
                     "yes, choice: manual, scalar: s, list: [1], texts: [a, b], map: {x: 1}, any: "
                     "[z]}",
                     true, &out, &doc, &problems));
    assert_string_equal(out.text, "580.10");
    assert_int_equal(out.whole, 17);
    assert_int_equal(out.checked, 4);
    assert_int_equal(out.duration, 90000);
    assert_true(out.number == 0.25);
    assert_true(out.truth);
    assert_int_equal(out.choice, 7);
    assert_string_equal(out.scalar->text, "s");
    assert_int_equal(out.list->count, 1);
    assert_int_equal(out.texts->count, 2);
    assert_int_equal(out.map->count, 1);
    assert_int_equal(out.any->kind, YNODE_LIST);
    ydoc_free(doc);
    free(problems);
}

static void test_fallbacks(void **state)
{
    (void)state;
    struct out out = {.truth = true, .number = 0.5};
    struct ydoc *doc;
    char *problems;
    assert_true(read("text: a\nwhole:\nlist: ~", true, &out, &doc, &problems));
    assert_int_equal(out.whole, 623);
    assert_int_equal(out.duration, 600000);
    assert_int_equal(out.choice, 5);
    assert_true(out.truth); /* no fallback: as it was */
    assert_true(out.number == 0.5);
    assert_null(out.list);
    ydoc_free(doc);
    free(problems);
    /* an update needs nothing and changes only what is written */
    out = (struct out){.whole = 5, .text = "old"};
    assert_true(read("duration: 1h", false, &out, &doc, &problems));
    assert_int_equal(out.whole, 5);
    assert_string_equal(out.text, "old");
    assert_int_equal(out.duration, 3600000);
    ydoc_free(doc);
    free(problems);
}

static const struct {
    const char *yaml, *problems;
} broken[] = {
    {"[]", "f:1:1: 'it' must be a mapping, not a list\n"},
    {"x", "f:1:1: 'it' must be a mapping, not text\n"},
    {"{}", "f:1:1: missing key 'text' in 'it': any text\n"},
    {"text:", "f:1:6: 'text' must be text, not nothing\n"},
    {"text: [a]", "f:1:7: 'text' must be text, not a list\n"},
    /* what is misspelled is not missing as well */
    {"txet: a", "f:1:1: unknown key 'txet', did you mean 'text'?\n"},
    {"{text: a, wohle: 1, zzz: 2}",
     "f:1:11: unknown key 'wohle', did you mean 'whole'?\n"
     "f:1:21: unknown key 'zzz': known are text, whole, checked, duration, number, truth, choice, "
     "scalar, list, texts, map, any\n"},
    {"{text: a, TEXTS: b}", "f:1:11: unknown key 'TEXTS', did you mean 'texts'?\n"},
    {"{text: a, whole: 0}",
     "f:1:18: 'whole' must be a whole number from 1 to 65535, not a number\n"},
    {"{text: a, whole: 65536}",
     "f:1:18: 'whole' must be a whole number from 1 to 65535, not a number\n"},
    {"{text: a, whole: 1.5}",
     "f:1:18: 'whole' must be a whole number from 1 to 65535, not a number\n"},
    {"{text: a, whole: many}",
     "f:1:18: 'whole' must be a whole number from 1 to 65535, not text\n"},
    {"{text: a, whole: 99999999999999999999}",
     "f:1:18: 'whole' must be a whole number from 1 to 65535, not a number\n"},
    {"{text: a, checked: 3}", "f:1:20: 'checked' must be even\n"},
    {"{text: a, duration: 10}",
     "f:1:21: 'duration' must be a time with its unit, such as 90s, 10m or 2h, not a number\n"},
    {"{text: a, number: 1.01}", "f:1:19: 'number' must be a number from 0 to 1, not a number\n"},
    {"{text: a, number: .inf}", "f:1:19: 'number' must be a number from 0 to 1, not text\n"},
    {"{text: a, truth: maybe}", "f:1:18: 'truth' must be true or false, not text\n"},
    {"{text: a, truth: 'yes'}", "f:1:18: 'truth' must be true or false, not text\n"},
    {"{text: a, choice: redfsh}", "f:1:19: 'choice' must be one of ipmi, redfish, manual, not "
                                  "'redfsh', did you mean 'redfish'?\n"},
    {"{text: a, choice: x}", "f:1:19: 'choice' must be one of ipmi, redfish, manual, not 'x'\n"},
    {"{text: a, choice: [x]}",
     "f:1:19: 'choice' must be one of ipmi, redfish, manual, not a list\n"},
    {"{text: a, list: b}", "f:1:17: 'list' must be a list, not text\n"},
    {"{text: a, texts: [b, [c]]}", "f:1:18: 'texts' must be text or a list of texts, not a list\n"},
    {"{text: a, texts: {b: c}}",
     "f:1:18: 'texts' must be text or a list of texts, not a mapping\n"},
    {"{text: a, map: [b]}", "f:1:16: 'map' must be a mapping, not a list\n"},
    /* everything at once */
    {"whole: x\nmap: 1\ntruth: 2\n", "f:1:1: missing key 'text' in 'it': any text\n"
                                     "f:1:8: 'whole' must be a whole number from 1 to 65535, not "
                                     "text\n"
                                     "f:2:6: 'map' must be a mapping, not a number\n"
                                     "f:3:8: 'truth' must be true or false, not a number\n"},
};

static void test_problems(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        struct out out = {0};
        struct ydoc *doc;
        char *problems;
        (void)read(broken[i].yaml, true, &out, &doc, &problems);
        assert_string_equal(problems, broken[i].problems);
        free(problems);
        ydoc_free(doc);
    }
}

/* A value that slipped into the wrong line may be a secret: it is not repeated. */
static void test_quiet(void **state)
{
    (void)state;
    static const char *const slips[] = {"{text: a, whole: hunter2}", "{text: a, map: hunter2}",
                                        "{text: a, truth: hunter2}", "{text: a, number: hunter2}",
                                        "{text: a, duration: hunter2}"};
    for (size_t i = 0; i < ARRAY_LEN(slips); i++) {
        struct out out = {0};
        struct ydoc *doc;
        char *problems;
        assert_false(read(slips[i], true, &out, &doc, &problems));
        assert_null(strstr(problems, "hunter2"));
        free(problems);
        ydoc_free(doc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_fallbacks),
        cmocka_unit_test(test_problems),
        cmocka_unit_test(test_quiet),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
