/* YAML documents: values, positions, anchors and merge keys, and every limit. */
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
#include "base/strbuf.h"
#include "text/yaml.h"

static char *problems_of(const char *text, size_t len)
{
    struct diags d;
    diags_init(&d);
    struct ydoc *doc = ydoc_parse("f", text, len, &d);
    assert_true(doc != NULL || d.errors > 0);
    ydoc_free(doc);
    char *got = diags_text(&d);
    diags_done(&d);
    return got;
}

/* ---- values ---- */

static const struct {
    const char *yaml, *json;
} values[] = {
    {"a: 1", "{\"a\":1}"},
    {"a: -12", "{\"a\":-12}"},
    {"a: 1.5", "{\"a\":1.5}"},
    {"a: 1e3", "{\"a\":1000.0}"},
    {"a: 0x10", "{\"a\":\"0x10\"}"},
    {"a: 580.10", "{\"a\":580.1}"},
    {"a: '580.10'", "{\"a\":\"580.10\"}"},
    {"a: .inf", "{\"a\":\".inf\"}"},
    {"a: nan", "{\"a\":\"nan\"}"},
    {"a: 9223372036854775807", "{\"a\":9223372036854775807}"},
    {"a: true\nb: False\nc: \"true\"", "{\"a\":true,\"b\":false,\"c\":\"true\"}"},
    /* YAML 1.1 made Norway false */
    {"a: no\nb: on\nc: y", "{\"a\":\"no\",\"b\":\"on\",\"c\":\"y\"}"},
    {"a:\nb: ~\nc: null\nd: ''\ne: 'null'",
     "{\"a\":null,\"b\":null,\"c\":null,\"d\":\"\",\"e\":\"null\"}"},
    {"[1, [2], {a: 3}, []]", "[1,[2],{\"a\":3},[]]"},
    {"a: |\n  one\n  two\n", "{\"a\":\"one\\ntwo\\n\"}"},
    {"a: >\n  one\n  two\n", "{\"a\":\"one two\\n\"}"},
    {"\xEF\xBB\xBF"
     "a: 1",
     "{\"a\":1}"},
    {"52:54:00:12:34:56: x", "{\"52:54:00:12:34:56\":\"x\"}"},
    {"a: 12:30", "{\"a\":\"12:30\"}"},
    {"a: ü", "{\"a\":\"ü\"}"},
    {"{a: 1, 2: b}", "{\"a\":1,\"2\":\"b\"}"},
    /* anchors, aliases, merges */
    {"a: &x [1, 2]\nb: *x", "{\"a\":[1,2],\"b\":[1,2]}"},
    {"a: &x 1\nb: &x 2\nc: *x", "{\"a\":1,\"b\":2,\"c\":2}"},
    {"a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}", "{\"a\":{\"p\":1,\"q\":2},\"b\":{\"q\":3,\"p\":1}}"},
    {"a: &x {p: 1}\nb: &y {p: 2, q: 2}\nc: {<<: [*x, *y]}",
     "{\"a\":{\"p\":1},\"b\":{\"p\":2,\"q\":2},\"c\":{\"p\":1,\"q\":2}}"},
    {"a: &x {p: 1}\nb: {<<: *x, <<: {p: 2, q: 2}}", "{\"a\":{\"p\":1},\"b\":{\"p\":1,\"q\":2}}"},
    {"a: {'<<': 1}", "{\"a\":{\"<<\":1}}"},
};

static void test_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        struct diags d;
        diags_init(&d);
        struct ydoc *doc = ydoc_parse("f", values[i].yaml, strlen(values[i].yaml), &d);
        char *problems = diags_text(&d);
        assert_string_equal(problems, "");
        json_t *json = ynode_json(ydoc_root(doc), false);
        char *got = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(10));
        assert_string_equal(got, values[i].json);
        free(got);
        free(problems);
        json_decref(json);
        ydoc_free(doc);
        diags_done(&d);
    }
}

static void test_as_text(void **state)
{
    (void)state;
    struct diags d;
    static const char text[] = "{a: 580.10, b: true, c: ~, d: [007]}";
    diags_init(&d);
    struct ydoc *doc = ydoc_parse("f", text, strlen(text), &d);
    json_t *json = ynode_json(ydoc_root(doc), true);
    char *got = json_dumps(json, JSON_COMPACT);
    assert_string_equal(got, "{\"a\":\"580.10\",\"b\":\"true\",\"c\":\"~\",\"d\":[\"007\"]}");
    free(got);
    json_decref(json);
    ydoc_free(doc);
    diags_done(&d);
}

/* ---- positions ---- */

static void test_positions(void **state)
{
    (void)state;
    struct diags d;
    static const char text[] = "# c\nü: {a: &x 1,\n  b: [p, q]}\nc: *x\n";
    diags_init(&d);
    struct ydoc *doc = ydoc_parse("f", text, strlen(text), &d);
    const struct ynode *map = ynode_get(ydoc_root(doc), "ü"), *b = ynode_get(map, "b");
    assert_int_equal(map->line, 2);
    assert_int_equal(map->column, 4); /* characters, not bytes */
    assert_int_equal(b->items[1]->line, 3);
    assert_int_equal(b->items[1]->column, 10);
    /* an alias is the node itself, where it was written */
    assert_ptr_equal(ynode_get(ydoc_root(doc), "c"), ynode_get(map, "a"));
    assert_string_equal(b->file, "f");
    assert_null(ynode_get(b, "x"));
    assert_null(ynode_get(NULL, "x"));
    ydoc_free(doc);
    diags_done(&d);
}

/* ---- problems ---- */

static const struct {
    const char *yaml, *problems;
} broken[] = {
    {"", "f:0:0: the file is empty\n"},
    {"# only a comment\n", "f:0:0: the file is empty\n"},
    {"a: 1\n---\nb: 2\n", "f:2:1: a second document starts here: a file holds one\n"},
    {"a: 1\nb: 2\na: 3\nb: 4\n", "f:3:1: the key 'a' is given twice, first in line 1\n"
                                 "f:4:1: the key 'b' is given twice, first in line 2\n"},
    {"a:\n\tb: 1\n", "f:2:1: a tab cannot indent YAML: use spaces\n"},
    {"a: [1, 2\nb: 3\n", "f:2:2: YAML syntax: did not find expected ',' or ']' "
                         "(while parsing a flow sequence that began in line 1)\n"},
    {"a: b: c\n", "f:1:5: YAML syntax: mapping values are not allowed in this context\n"},
    {"a: 'x\n",
     "f:2:1: YAML syntax: found unexpected end of stream (while scanning a quoted scalar that "
     "began in line 1)\n"},
    {"a: *x\n", "f:1:4: no anchor '&x' was written before this alias\n"},
    {"a: &x [*x]\n", "f:1:8: the alias '*x' stands inside its own anchor\n"},
    {"a: &x {<<: *x}\n", "f:1:12: the alias '*x' stands inside its own anchor\n"},
    {"a: {<<: 3}\n", "f:1:9: '<<' merges mappings, this is a number\n"},
    {"a: {<<: [{}, x]}\n", "f:1:14: '<<' merges mappings, this is text\n"},
    {"[a]: 1\n", "f:1:1: a key must be a plain word, not a list\n"},
    {"? {a: 1}\n: 1\n", "f:1:3: a key must be a plain word, not a mapping\n"},
    {"a: \"x\\0y\"\n", "f:1:4: text may not hold a NUL character\n"},
    {"a: \xFF\n", "f:1:4: not valid UTF-8 text: invalid leading UTF-8 octet\n"},
    {"ü: 1\nb: \xC3(\n", "f:2:5: not valid UTF-8 text: invalid trailing UTF-8 octet\n"},
    {"a: \x01\n", "f:1:4: not valid UTF-8 text: control characters are not allowed\n"},
};

static void test_problems(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        char *got = problems_of(broken[i].yaml, strlen(broken[i].yaml));
        assert_string_equal(got, broken[i].problems);
        free(got);
    }
}

/* ---- limits ---- */

static char *repeated(const char *piece, int count, const char *end, size_t *ret_len)
{
    struct strbuf sb;
    strbuf_init(&sb, (size_t)64 << 20);
    for (int i = 0; i < count; i++)
        strbuf_adds(&sb, piece);
    strbuf_adds(&sb, end);
    assert_true(strbuf_ok(&sb));
    *ret_len = sb.len;
    return strbuf_take(&sb);
}

static void expect_problem(char *text, size_t len, const char *problem)
{
    char *got = problems_of(text, len);
    assert_string_equal(got, problem);
    free(got);
    free(text);
}

static void test_depth(void **state)
{
    (void)state;
    size_t len;
    char *text = repeated("[", 64, "", &len);
    text = xrealloc(text, len * 2 + 1, 1);
    memset(text + len, ']', len);
    expect_problem(text, 2 * len, "");
    text = repeated("[", 100000, "", &len);
    expect_problem(text, len, "f:1:65: nested too deeply: at most 64 levels\n");
    text = repeated("- ", 100000, "", &len);
    expect_problem(text, len, "f:1:129: nested too deeply: at most 64 levels\n");
    text = repeated("{a: ", 100000, "", &len);
    expect_problem(text, len, "f:1:257: nested too deeply: at most 64 levels\n");
}

/* Each alias adds a level below the one before: short lines, deep tree. */
static void test_depth_of_aliases(void **state)
{
    (void)state;
    struct strbuf sb;
    strbuf_init(&sb, 100000);
    strbuf_adds(&sb, "- &a0 [x]\n");
    for (int i = 1; i < 62; i++)
        strbuf_addf(&sb, "- &a%d [*a%d]\n", i, i - 1);
    char *got = problems_of(sb.data, sb.len);
    assert_string_equal(got, "");
    free(got);
    for (int i = 62; i < 70; i++)
        strbuf_addf(&sb, "- &a%d [*a%d]\n", i, i - 1);
    got = problems_of(sb.data, sb.len);
    assert_string_equal(got, "f:64:9: nested too deeply: at most 64 levels\n");
    free(got);
    strbuf_done(&sb);
}

static void test_billion_laughs(void **state)
{
    (void)state;
    struct strbuf sb;
    strbuf_init(&sb, 100000);
    strbuf_adds(&sb, "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for (int i = 1; i < 10; i++) {
        strbuf_addf(&sb, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            strbuf_addf(&sb, "%s*a%d", k ? "," : "", i - 1);
        strbuf_adds(&sb, "]\n");
    }
    char *got = problems_of(sb.data, sb.len);
    assert_string_equal(got, "f:6:38: the file is too large: with its aliases written out it has "
                             "more than 1000000 values\n");
    free(got);
    strbuf_done(&sb);
}

static void test_sizes(void **state)
{
    (void)state;
    size_t len;
    char *text = repeated("#", (4 << 20) + 1, "", &len);
    expect_problem(text, len, "f:0:0: the file is too large: 4194305 bytes, at most 4194304\n");
    text = repeated("- x\n", 500000, "", &len);
    expect_problem(text, len,
                   "f:500000:3: the file is too large: it has more than 500000 values, or 1000000 "
                   "with its aliases written out\n");
}

/* A map of many keys is not searched linearly: this takes minutes otherwise. */
static void test_many_keys(void **state)
{
    (void)state;
    struct strbuf sb;
    strbuf_init(&sb, YDOC_MAX_BYTES);
    for (int i = 0; i < 200000; i++)
        strbuf_addf(&sb, "key%d: 1\n", i);
    strbuf_adds(&sb, "key7: 2\n");
    char *got = problems_of(sb.data, sb.len);
    assert_string_equal(got, "f:200001:1: the key 'key7' is given twice, first in line 8\n");
    free(got);
    strbuf_done(&sb);
}

/* ---- diagnostics ---- */

static void test_diags(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } rows[] = {{"plain ü € 😀", "plain ü € 😀"},
                {"cut off \xC3", "cut off ?"},
                {"cut off \xE2\x82", "cut off ??"},
                {"overlong \xC0\x80", "overlong ??"},
                {"surrogate \xED\xA0\x80", "surrogate ???"},
                {"too far \xF4\x90\x80\x80", "too far ????"},
                {"esc \x1B[31m \x7F\n", "esc ?[31m ??"},
                {"c1 \xC2\x9B", "c1 ??"}};
    struct diags d;
    diags_init(&d);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        diags_add(&d, DIAG_ERROR, "f", 1, 1, "%s", rows[i].text);
        assert_string_equal(d.items[i].text, rows[i].shown);
        json_t *j = json_string(d.items[i].text);
        assert_non_null(j);
        json_decref(j);
    }
    diags_done(&d);
    /* sorted by place, stable, and never too many */
    for (int i = 0; i < 1500; i++)
        diags_add(&d, i % 2 ? DIAG_ERROR : DIAG_WARNING, i % 3 ? "b" : "a", 5 - i % 5, 1, "%d", i);
    assert_int_equal(d.errors, 750);
    assert_int_equal(d.count, 1001);
    assert_string_equal(d.items[1000].text, "too many problems: the rest is not shown");
    diags_sort(&d);
    for (int i = 1; i < d.count; i++) {
        const struct diag *a = &d.items[i - 1], *b = &d.items[i];
        int c = strcmp(a->file, b->file);
        assert_true(
            c < 0 || (c == 0 && a->line < b->line) ||
            (c == 0 && a->line == b->line && (a->line == 0 || atoi(a->text) < atoi(b->text))));
    }
    diags_done(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),         cmocka_unit_test(test_as_text),
        cmocka_unit_test(test_positions),      cmocka_unit_test(test_problems),
        cmocka_unit_test(test_depth),          cmocka_unit_test(test_depth_of_aliases),
        cmocka_unit_test(test_billion_laughs), cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_many_keys),      cmocka_unit_test(test_diags),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
