/* Nodesets: results as clustershell gives them, errors, patterns of specs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/nodeset.h"

static void test_results(void **state)
{
    (void)state;
    static const struct {
        const char *text, *folded, *names;
    } rows[] = {
        {"", "", ""},
        {"a[1-3]", "a[1-3]", "a1 a2 a3"},
        {"b1,a1,c", "a1,b1,c", "a1 b1 c"},
        {"a[09-10],a100", "a[09-10,100]", "a09 a10 a100"},
        {"a[1,01,001,2,02]", "a[1-2,01-02,001]", "a1 a2 a01 a02 a001"},
        {"a[1-10/3]", "a[1,4,7,10]", "a1 a4 a7 a10"},
        {"a[1-2]b[3-4]", "a[1-2]b[3-4]", "a1b3 a1b4 a2b3 a2b4"},
        {"a1b1,a1b2,a2b1", "a1b[1-2],a2b1", "a1b1 a1b2 a2b1"},
        {"x[1-2]y[1-2],x3y[1-2],x[1-3]y5", "x[1-3]y[1-2,5]",
         "x1y1 x1y2 x1y5 x2y1 x2y2 x2y5 x3y1 x3y2 x3y5"},
        {"[1-3]5", "[15,25,35]", "15 25 35"},
        {"n1[2-3]", "n[12-13]", "n12 n13"},
        {"a[1-3]&a[2-5]", "a[2-3]", "a2 a3"},
        {"a[1-5]!a3", "a[1-2,4-5]", "a1 a2 a4 a5"},
        {"a[1-5]^a[3-7]", "a[1-2,6-7]", "a1 a2 a6 a7"},
        {"a[1-5]!a3,a3!a1", "a[2-5]", "a2 a3 a4 a5"},
        {" a[ 1 - 3 ] , b ", "a[1-3],b", "a1 a2 a3 b"},
        {"a%sb%s-[1-2]%", "a%sb%s-[1-2]%", "a%sb%s-1% a%sb%s-2%"},
        {"a[5/1,3-3/2]", "a[3,5]", "a3 a5"},
        {"n1[08-11]", "n[108-111]", "n108 n109 n110 n111"},
        {"a[064,100-101,999-1001]", "a[064,100-101,999-1001]", "a064 a100 a101 a999 a1000 a1001"},
        {"a[14-101,064]", "a[14-99,064,100-101]", NULL},
        {"a[064,100-1001]", "a[064,100-999,1000-1001]", NULL},
        /* the order of vectors is that of text: 10 before 9 */
        {"a9b[1,3],a10b[2,4]", "a10b[2,4],a9b[1,3]", "a10b2 a10b4 a9b1 a9b3"},
        {"a1b[1-2],a2b[2-3],a3b[1-3]", "a3b[1-3],a1b[1-2],a2b[2-3]", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        struct strbuf sb;
        strbuf_init(&sb, 1000);
        struct nodeset *set = nodeset_parse(rows[i].text, &err);
        if (set == NULL)
            fail_msg("%s: %s", rows[i].text, err.text);
        nodeset_fold(set, &sb);
        assert_string_equal(sb.data, rows[i].folded);
        strbuf_reset(&sb);
        if (rows[i].names == NULL) {
            nodeset_free(set);
            strbuf_done(&sb);
            continue;
        }
        for (int k = 0; k < nodeset_count(set); k++) {
            strbuf_addf(&sb, "%s%s", k ? " " : "", nodeset_at(set, k));
            assert_true(nodeset_contains(set, nodeset_at(set, k)));
        }
        assert_string_equal(sb.data, rows[i].names);
        assert_false(nodeset_contains(set, "nobody"));
        nodeset_free(set);
        strbuf_done(&sb);
    }
}

static void test_errors(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "a[1-3",        "a1-3]",    "a[5-1]",    "a[1,,2]", "a[]",          "a[b]",
        "a[1-]",        ",a",       "a,",        "a[1-3]!", "a&&b",         "a[1-5/0]",
        "a[00-100]",    "a[01-5]",  "a b",       "@group",  "a[1-9999999]", "a[1-2][3-4]",
        "a[1-2]5[3-4]", "n1[8-11]", "a[1-5/2]3", "a[5/2]",  "a[-3]"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        struct nodeset *set = nodeset_parse(bad[i], &err);
        if (set != NULL)
            fail_msg("'%s' was taken", bad[i]);
        assert_true(err.text[0] != '\0');
    }
}

static void test_patterns(void **state)
{
    (void)state;
    char **names;
    int count;
    struct err err = {0};
    assert_int_equal(nodeset_expand_pattern("10.0.0.[9-10]", 10, &names, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_string_equal(names[1], "10.0.0.10");
    nodeset_pattern_free(names, count);
    assert_int_equal(nodeset_expand_pattern("[1-25/8]", 10, &names, &count, &err), 0);
    assert_int_equal(count, 4);
    assert_string_equal(names[3], "25");
    nodeset_pattern_free(names, count);
    assert_int_equal(nodeset_expand_pattern("10.0.1[8-11]", 10, &names, &count, NULL), 0);
    assert_int_equal(count, 4);
    assert_string_equal(names[3], "10.0.111");
    nodeset_pattern_free(names, count);
    assert_int_equal(nodeset_expand_pattern("plain", 10, &names, &count, &err), 0);
    assert_string_equal(names[0], "plain");
    nodeset_pattern_free(names, count);
    assert_int_equal(nodeset_expand_pattern("n[1-11]", 10, &names, &count, &err), -ERR_LIMIT);
    assert_int_equal(nodeset_expand_pattern("n[1", 10, &names, &count, &err), -ERR_INVALID);
}

/* Large sets of two dimensions: a grid, and one with a hole, in a time that does not grow with the
 * square of the names. */
static void test_large(void **state)
{
    (void)state;
    static const struct {
        const char *text, *folded;
        int count;
    } rows[] = {{"a[1-500]b[1-400]", "a[1-500]b[1-400]", 200000},
                {"a[1-300]b[1-300]!a5b7", "a[1-4,6-300]b[1-300],a5b[1-6,8-300]", 89999}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct strbuf sb;
        strbuf_init(&sb, 1000);
        struct nodeset *set = nodeset_parse(rows[i].text, NULL);
        assert_non_null(set);
        assert_int_equal(nodeset_count(set), rows[i].count);
        nodeset_fold(set, &sb);
        assert_string_equal(sb.data, rows[i].folded);
        nodeset_free(set);
        strbuf_done(&sb);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_patterns), cmocka_unit_test(test_large)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
