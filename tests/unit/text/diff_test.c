/* Unified diffs: known ones, and random ones that must turn one text into the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "text/diff.h"

static char *diff_of(const char *a, const char *b)
{
    struct strbuf out;
    struct err err = {0};
    struct diff_text from = {"a", a, strlen(a)}, to = {"b", b, strlen(b)};
    strbuf_init(&out, 64 << 20);
    if (diff_unified(&from, &to, &out, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(strbuf_ok(&out));
    char *text = strbuf_take(&out);
    strbuf_done(&out);
    return text;
}

#define HEAD "--- a\n+++ b\n"
#define NONE "\\ No newline at end of file\n"

static void known(void **state)
{
    static const struct {
        const char *a, *b, *diff;
    } rows[] = {
        {"", "", ""},
        {"x\n", "x\n", ""},
        {"", "x\n", HEAD "@@ -0,0 +1 @@\n+x\n"},
        {"x\n", "", HEAD "@@ -1 +0,0 @@\n-x\n"},
        {"x\n", "y\n", HEAD "@@ -1 +1 @@\n-x\n+y\n"},
        {"x", "x\n", HEAD "@@ -1 +1 @@\n-x\n" NONE "+x\n"},
        {"x\n", "x", HEAD "@@ -1 +1 @@\n-x\n+x\n" NONE},
        {"a\nx", "b\nx", HEAD "@@ -1,2 +1,2 @@\n-a\n+b\n x\n" NONE},
        {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n",
         HEAD "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"},
        /* six equal lines between: one hunk; seven: two */
        {"a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n",
         HEAD "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n"},
        {"a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
         HEAD "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n"},
        {"1\n2\n3\n4\n5\n", "1\n2\n3\n4\n5\n6\n", HEAD "@@ -3,3 +3,4 @@\n 3\n 4\n 5\n+6\n"},
        {"1\n2\n3\n4\n5\n", "0\n1\n2\n3\n4\n5\n", HEAD "@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *diff = diff_of(rows[i].a, rows[i].b);
        if (strcmp(diff, rows[i].diff) != 0)
            fail_msg("row %zu:\n%s\ninstead of\n%s", i, diff, rows[i].diff);
        free(diff);
    }
}

/* ---- random texts ---- */

enum { LINES_MAX = 60 };

struct text {
    char lines[LINES_MAX];
    int count;
    bool feed; /* the last line ends in one */
    char text[2 * LINES_MAX + 1];
};

static void write_text(struct text *t)
{
    int n = 0;
    for (int i = 0; i < t->count; i++) {
        t->text[n++] = t->lines[i];
        t->text[n++] = '\n';
    }
    if (!t->feed && n > 0)
        n--;
    t->text[n] = '\0';
}

static void make_texts(unsigned *seed, struct text *a, struct text *b)
{
    int letters = 2 + rand_r(seed) % 20;
    a->count = rand_r(seed) % LINES_MAX;
    for (int i = 0; i < a->count; i++)
        a->lines[i] = (char)('a' + rand_r(seed) % letters);
    b->count = 0;
    int calm = 1 + rand_r(seed) % 12;
    for (int i = 0; i < a->count && b->count < LINES_MAX - 1; i++) {
        if (rand_r(seed) % calm == 0)
            continue;
        b->lines[b->count++] = a->lines[i];
        if (rand_r(seed) % calm == 0)
            b->lines[b->count++] = (char)('a' + rand_r(seed) % letters);
    }
    a->feed = rand_r(seed) % 4 != 0;
    b->feed = rand_r(seed) % 4 != 0;
    write_text(a);
    write_text(b);
}

/* As patch(1) does: follows the hunks through `a`; counts the lines that are removed and added. */
static char *patched(const char *a, const char *diff, int *ret_edits)
{
    struct strbuf out;
    int line = 1;
    *ret_edits = 0;
    strbuf_init(&out, 1 << 20);
    for (const char *p = diff; *p != '\0';) {
        const char *end = strchr(p, '\n') + 1;
        bool last = strncmp(end, "\\ No", 4) == 0; /* the line has no line feed */
        size_t len = (size_t)(end - p) - 1 - (last ? 1 : 0);
        int from, count = 1;
        if (strncmp(p, "---", 3) == 0 || strncmp(p, "+++", 3) == 0 || *p == '\\') {
            p = end;
            continue;
        }
        if (*p == '@') {
            assert_true(sscanf(p, "@@ -%d,%d", &from, &count) >= 1);
            for (from += count == 0; line < from; line++) {
                const char *next = strchr(a, '\n');
                next = next != NULL ? next + 1 : a + strlen(a);
                strbuf_add(&out, a, (size_t)(next - a));
                a = next;
            }
        } else {
            if (*p != '+') {
                assert_memory_equal(a, p + 1, len);
                a += len;
                line++;
            }
            if (*p != '-')
                strbuf_add(&out, p + 1, len);
            *ret_edits += *p != ' ';
        }
        p = end;
    }
    strbuf_adds(&out, a);
    char *text = strbuf_take(&out);
    strbuf_done(&out);
    return text;
}

/* The length of a longest common subsequence, by the textbook's table. */
static int common(const struct text *a, const struct text *b)
{
    static int table[LINES_MAX + 1][LINES_MAX + 1];
    for (int i = 1; i <= a->count; i++)
        for (int j = 1; j <= b->count; j++) {
            bool last_a = i == a->count && !a->feed, last_b = j == b->count && !b->feed;
            int up = table[i - 1][j], left = table[i][j - 1];
            table[i][j] = a->lines[i - 1] == b->lines[j - 1] && last_a == last_b
                              ? table[i - 1][j - 1] + 1
                              : (up > left ? up : left);
        }
    return table[a->count][b->count];
}

static void random_ones(void **state)
{
    (void)state;
    for (unsigned round = 1; round <= 20000; round++) {
        struct text a = {0}, b = {0};
        unsigned seed = round;
        int edits;
        make_texts(&seed, &a, &b);
        char *diff = diff_of(a.text, b.text), *result = patched(a.text, diff, &edits);
        if (strcmp(result, b.text) != 0)
            fail_msg("seed %u:\n%s", round, diff);
        int fewest = a.count + b.count - 2 * common(&a, &b);
        if (edits != fewest)
            fail_msg("seed %u: %d edits, %d are enough:\n%s", round, edits, fewest, diff);
        free(result);
        free(diff);
    }
}

/* ---- sizes ---- */

static char *numbers(int count, const char *format)
{
    struct strbuf sb;
    strbuf_init(&sb, 64 << 20);
    for (int i = 0; i < count; i++)
        strbuf_addf(&sb, format, i);
    char *text = strbuf_take(&sb);
    strbuf_done(&sb);
    return text;
}

static void large_ones(void **state)
{
    int edits;
    (void)state;
    /* two thousand changed lines are found one by one, and beyond that the middle is replaced */
    char *a = numbers(20000, "node%d,rack\n"), *b = numbers(20000, "node%d,shelf\n");
    char *diff = diff_of(a, b), *result = patched(a, diff, &edits);
    assert_string_equal(result, b);
    assert_int_equal(edits, 40000);
    free(result);
    free(diff);
    free(b);
    b = numbers(20000, "node%d,rack\n");
    int changed = 0;
    for (char *line = b; changed < 900; line = strchr(line, '\n') + 1)
        if ((line - b) % 2 == 0) {
            line[0] = 'N';
            changed++;
        }
    diff = diff_of(a, b);
    result = patched(a, diff, &edits);
    assert_string_equal(result, b);
    assert_int_equal(edits, 1800);
    free(result);
    free(diff);
    free(a);
    free(b);
}

static void too_large(void **state)
{
    struct strbuf out;
    struct err err = {0};
    (void)state;
    char *many = xcalloc(DIFF_MAX_LINES + 2, 1);
    memset(many, '\n', DIFF_MAX_LINES + 1);
    struct diff_text from = {"a", "", 0}, to = {"b", many, DIFF_MAX_LINES + 1};
    strbuf_init(&out, 1 << 20);
    assert_int_equal(diff_unified(&from, &to, &out, &err), -ERR_LIMIT);
    assert_int_equal(diff_unified(&to, &from, &out, &err), -ERR_LIMIT);
    assert_int_equal(out.len, 0);
    strbuf_done(&out);
    free(many);
}

static void bytes_are_bytes(void **state)
{
    struct strbuf out;
    (void)state;
    struct diff_text from = {"a", "x\0y\n\xff\n", 6}, to = {"b", "x\0z\n\xff\n", 6};
    strbuf_init(&out, 1 << 20);
    assert_int_equal(diff_unified(&from, &to, &out, NULL), 0);
    static const char expected[] = HEAD "@@ -1,2 +1,2 @@\n-x\0y\n+x\0z\n \xff\n";
    assert_int_equal(out.len, sizeof expected - 1);
    assert_memory_equal(out.data, expected, out.len);
    strbuf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known),           cmocka_unit_test(random_ones),
        cmocka_unit_test(large_ones),      cmocka_unit_test(too_large),
        cmocka_unit_test(bytes_are_bytes),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
