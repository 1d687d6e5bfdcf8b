/* CSV: what vendors and spreadsheets write, and what is no table. */
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
#include "text/csv.h"

/* Header and rows as "a|b;1|2;". */
static char *table_text(const struct csv *csv)
{
    struct strbuf sb;
    strbuf_init(&sb, 1 << 20);
    for (int c = 0; c < csv->columns; c++)
        strbuf_addf(&sb, "%s%s", c ? "|" : "", csv->header[c].text);
    strbuf_addc(&sb, ';');
    for (int i = 0; i < csv->rows; i++) {
        for (int c = 0; c < csv->columns; c++)
            strbuf_addf(&sb, "%s%s", c ? "|" : "", csv_at(csv, i, c)->text);
        strbuf_addc(&sb, ';');
    }
    char *text = strbuf_take(&sb);
    strbuf_done(&sb);
    return text;
}

static const struct {
    const char *csv, *table;
} good[] = {
    {"name,mac\ngpu1,aa\ngpu2,bb\n", "name|mac;gpu1|aa;gpu2|bb;"},
    {"name,mac\r\ngpu1,aa\r\n", "name|mac;gpu1|aa;"},
    {"name,mac\ngpu1,aa", "name|mac;gpu1|aa;"},
    {"\xEF\xBB\xBFname;mac\ngpu1;aa\n", "name|mac;gpu1|aa;"},
    {"name\tmac\ngpu1\taa\n", "name|mac;gpu1|aa;"},
    {"name\tmac\n\taa\n", "name|mac;|aa;"},
    {"name\n", "name;"},
    {"name\ngpu1\n", "name;gpu1;"},
    {" name , mac \n gpu1 ,\taa \n", "name|mac;gpu1|aa;"},
    {"# list\n\n  \nname,mac\n#gpu0,zz\ngpu1,aa\n\n", "name|mac;gpu1|aa;"},
    {"name,mac,x\ngpu1\ngpu2,bb\n", "name|mac|x;gpu1||;gpu2|bb|;"},
    {"name,mac\ngpu1,aa,,,\n", "name|mac;gpu1|aa;"},
    {"name,\"a, b\"\n\"gpu\"\"1\"\"\",\" aa \"\n", "name|a, b;gpu\"1\"| aa ;"},
    {"name,x\n\"two\nlines\",y\nb,c\n", "name|x;two\nlines|y;b|c;"},
    {"a,\"b;c;d;e\"\n1,2\n", "a|b;c;d;e;1|2;"},
    {"n\xC3\xA4me\n\xE2\x82\xAC\n", "n\xC3\xA4me;\xE2\x82\xAC;"},
    {"a,b\n5'6\"x,c\n", "a|b;5'6\"x|c;"},
};

static void test_tables(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct diags d;
        diags_init(&d);
        struct csv *csv = csv_parse("f", good[i].csv, strlen(good[i].csv), &d);
        char *problems = diags_text(&d);
        assert_string_equal(problems, "");
        assert_non_null(csv);
        char *got = table_text(csv);
        assert_string_equal(got, good[i].table);
        free(got);
        free(problems);
        csv_free(csv);
        diags_done(&d);
    }
}

static void test_positions(void **state)
{
    (void)state;
    struct diags d;
    static const char table[] = "a,b,c\n\xC3\xBC,  \"x\ny\" , z\nq\n";
    static const char text[] = "# c\na , b\n\xC3\xBC,  \"x\ny\" , z\nq\n";
    diags_init(&d);
    struct csv *csv = csv_parse("f", table, strlen(table), &d);
    assert_non_null(csv);
    assert_int_equal(csv->header[1].line, 1);
    assert_int_equal(csv->header[1].column, 3);
    assert_int_equal(csv_at(csv, 0, 1)->line, 2);
    assert_int_equal(csv_at(csv, 0, 1)->column, 5);
    assert_int_equal(csv_at(csv, 0, 2)->line, 3);
    assert_int_equal(csv_at(csv, 0, 2)->column, 6);
    assert_int_equal(csv_at(csv, 1, 0)->line, 4);
    assert_int_equal(csv_at(csv, 1, 2)->line, 4); /* left out: where the row's last cell is */
    csv_free(csv);
    csv = csv_parse("f", text, strlen(text), &d);
    assert_null(csv); /* three cells under two columns */
    diags_done(&d);
}

static const struct {
    const char *csv;
    size_t len; /* 0: strlen */
    const char *problems;
} broken[] = {
    {"", 0, "f:0:0: the file is empty: expected a header row that names the columns\n"},
    {"\n# x\n", 0, "f:0:0: the file is empty: expected a header row that names the columns\n"},
    {"a,b\n1,2,3\n4,5,,6\n", 0,
     "f:2:5: the row has 3 cells, the header has 2\n"
     "f:3:5: the row has 4 cells, the header has 2\n"},
    {"a,b\n\"1,2\n3,4\n", 0, "f:2:1: the quote that begins here is never closed\n"},
    {"a,b\n\"1\" x,2\n", 0, "f:2:5: text follows the closing quote: expected a separator\n"},
    {"a,b\n\xFF,2\n", 0, "f:2:1: the cell is not UTF-8 text: save the file as UTF-8\n"},
    {"a,b\nx\0y,2\n", 10, "f:2:1: the cell holds a NUL character\n"},
};

static char *problems_of(const char *text, size_t len)
{
    struct diags d;
    diags_init(&d);
    struct csv *csv = csv_parse("f", text, len, &d);
    assert_int_equal(csv == NULL, d.errors > 0);
    csv_free(csv);
    char *got = diags_text(&d);
    diags_done(&d);
    return got;
}

static void test_problems(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        size_t len = broken[i].len > 0 ? broken[i].len : strlen(broken[i].csv);
        char *got = problems_of(broken[i].csv, len);
        assert_string_equal(got, broken[i].problems);
        free(got);
    }
}

static void expect(const char *start, const char *piece, int count, const char *problems)
{
    struct strbuf sb;
    strbuf_init(&sb, (size_t)16 << 20);
    strbuf_adds(&sb, start);
    for (int i = 0; i < count; i++)
        strbuf_adds(&sb, piece);
    char *got = problems_of(sb.data, sb.len);
    assert_string_equal(got, problems);
    free(got);
    strbuf_done(&sb);
}

static void test_limits(void **state)
{
    (void)state;
    expect("a", ",a", 63, "");
    expect("a", ",a", 64, "f:1:129: too many columns: at most 64\n");
    expect("a\n", "x", 1024, "");
    expect("a\n", "x", 1025, "f:2:1: the cell is too long: at most 1024 bytes\n");
    expect("a\n", "x\n", 100000, "");
    expect("a\n", "x\n", 100001, "f:100002:1: too many rows: at most 100000, and 1000000 cells\n");
    expect("a,b,c,d,e,f,g,h,i,j,k\n", "x\n", 90910,
           "f:90911:1: too many rows: at most 100000, and 1000000 cells\n");
    expect("", "0123456789abcdef", 524289, "f:0:0: the file is too large: at most 8 MiB\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_problems),
        cmocka_unit_test(test_limits),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
