/* Parsers of tools' output, and the judgement of numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "checks/checks.h"

#define TABLE(unit, rows)                                                                          \
    "---------------------------------------------------------------------------------------\n"    \
    "                    RDMA_Write BW Test\n Dual-port       : OFF\t\tDevice         : rxe0\n"    \
    " #bytes     #iterations    BW peak[" unit "]    BW average[" unit "]   MsgRate[Mpps]\n" rows  \
    "---------------------------------------------------------------------------------------\n"

static void test_rows(void **state)
{
    (void)state;
    static const struct {
        const char *parser, *text;
        enum err_code code;
        int count;
        const char *name;
        double value;
        const char *unit;
    } rows[] = {
        {"node-test", "x\nmeasure memory_copy 812.5 MB/s\nmeasure t 3 s\n", ERR_OK, 2,
         "memory_copy", 812.5, "MB/s"},
        {"node-test", "measure a 1 s", ERR_OK, 1, "a", 1, "s"},
        {"node-test", "nothing here\n", ERR_INVALID, 0, NULL, 0, NULL},
        {"node-test", "measure a nan s\n", ERR_INVALID, 0, NULL, 0, NULL},
        {"node-test", "measure a 1\n", ERR_INVALID, 0, NULL, 0, NULL},
        {"node-test", "measure a 1 s extra\n", ERR_INVALID, 0, NULL, 0, NULL},
        {"ib-write-bw",
         TABLE("Gb/sec",
               " 65536      200              0.14               0.13     \t   0.000254\n"),
         ERR_OK, 1, "ib_write_bw", 0.13, "Gb/s"},
        {"ib-write-bw",
         TABLE("MB/sec", " 65536      5000            20000.00           12500.00\t\t   0.2\n"),
         ERR_OK, 1, "ib_write_bw", 100, "Gb/s"},
        {"ib-write-bw",
         TABLE("Gb/sec",
               " 2   1000   0.05   0.04   1.2\n 8388608   5000   392.1   391.9   0.005839\n"),
         ERR_OK, 1, "ib_write_bw", 391.9, "Gb/s"},
        {"ib-write-bw", "Couldn't connect to 10.0.0.1:18515\n", ERR_INVALID, 0, NULL, 0, NULL},
        {"ib-write-bw", TABLE("Gb/sec", " 65536 200 -1.0 -5.0 0.1\n"), ERR_INVALID, 0, NULL, 0,
         NULL},
        {"ib-write-bw", TABLE("furlongs", " 65536 200 1.0 5.0 0.1\n"), ERR_INVALID, 0, NULL, 0,
         NULL},
        {"nccl", "", ERR_UNSUPPORTED, 0, NULL, 0, NULL},
    };
    struct values *v = xcalloc(1, sizeof *v);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        int rc = checks_parse(rows[i].parser, rows[i].text, strlen(rows[i].text), v, &err);
        if (rc != -(int)rows[i].code)
            fail_msg("row %zu: %d %s", i, rc, err.text);
        if (rc < 0)
            continue;
        assert_int_equal(v->count, rows[i].count);
        assert_string_equal(v->items[0].name, rows[i].name);
        assert_string_equal(v->items[0].unit, rows[i].unit);
        assert_true(fabs(v->items[0].value - rows[i].value) < 1e-9);
    }
    free(v);
}

/*
 * What tools really printed: perftest 4.5 on a ConnectX card with 8 MiB messages and MB/sec, both
 * sides; perftest 4.5 between two machines with soft-RoCE; node-test.sh on one of them.
 */
static void test_recorded(void **state)
{
    (void)state;
    static const struct {
        const char *parser, *file;
        int count;
        const char *name;
        double value;
    } rows[] = {
        {"ib-write-bw", "ib-write-bw-8M.log", 1, "ib_write_bw", 24056.72 * 8 / 1000},
        {"ib-write-bw", "ib-write-bw-soft-roce.log", 1, "ib_write_bw", 0.084819},
        {"node-test", "node-test.log", 4, "cpu_sha256", 13.8},
    };
    struct values *v = xcalloc(1, sizeof *v);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char path[120], text[8192];
        struct err err = {0};
        (void)snprintf(path, sizeof path, "tests/fuzz/corpus/checks/%s", rows[i].file);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        size_t len = fread(text, 1, sizeof text, f);
        (void)fclose(f);
        assert_int_equal(checks_parse(rows[i].parser, text, len, v, &err), 0);
        assert_int_equal(v->count, rows[i].count);
        assert_string_equal(v->items[0].name, rows[i].name);
        assert_true(fabs(v->items[0].value - rows[i].value) < 1e-6);
        /* cut anywhere, it is an error or fewer figures, never another number */
        for (size_t cut = 0; cut < len; cut++)
            if (checks_parse(rows[i].parser, text, cut, v, &err) == 0)
                assert_true(v->count <= rows[i].count &&
                            fabs(v->items[0].value - rows[i].value) < 1e-6);
    }
    free(v);
}

/* More figures than there is room for are an error, and so is a line without an end. */
static void test_limits(void **state)
{
    (void)state;
    struct values *v = xcalloc(1, sizeof *v);
    struct strbuf text;
    struct err err = {0};
    strbuf_init(&text, 1 << 20);
    for (int i = 0; i < CHECKS_MAX_VALUES; i++)
        strbuf_addf(&text, "measure m%d %d s\n", i, i);
    assert_int_equal(checks_parse("node-test", text.data, text.len, v, &err), 0);
    assert_int_equal(v->count, CHECKS_MAX_VALUES);
    strbuf_adds(&text, "measure more 1 s\n");
    assert_int_equal(checks_parse("node-test", text.data, text.len, v, &err), -(int)ERR_LIMIT);
    strbuf_reset(&text);
    strbuf_adds(&text, "measure ");
    for (int i = 0; i < 5000; i++)
        strbuf_adds(&text, "x");
    strbuf_adds(&text, " 1 s\n");
    assert_int_equal(checks_parse("node-test", text.data, text.len, v, &err), -(int)ERR_INVALID);
    strbuf_done(&text);
    free(v);
}

static void test_judge(void **state)
{
    (void)state;
    json_t *limits =
        json_loads("{\"a\":{\"min\":10},\"b\":{\"max\":5.5},\"c\":{\"min\":1,\"max\":2}}", 0, NULL);
    static const struct {
        const char *name;
        double value;
        const char *verdict;
        double limit;
    } rows[] = {{"a", 10, "ok", 10},   {"a", 9.99, "low", 10}, {"b", 5.5, "ok", 5.5},
                {"b", 6, "high", 5.5}, {"c", 0, "low", 1},     {"c", 3, "high", 2},
                {"c", 1.5, "ok", 1},   {"d", 1, "info", NAN}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct value v = {.value = rows[i].value};
        double limit;
        (void)snprintf(v.name, sizeof v.name, "%s", rows[i].name);
        assert_string_equal(checks_judge(&v, limits, &limit), rows[i].verdict);
        assert_true(isnan(rows[i].limit) ? isnan(limit) : limit == rows[i].limit);
    }
    json_decref(limits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_recorded),
                                       cmocka_unit_test(test_limits), cmocka_unit_test(test_judge)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
