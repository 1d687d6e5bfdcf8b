/* E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", Algorithmica 1 (1986): the
 * greedy algorithm of section 3. The format is that of POSIX, diff, "Diff -u Output Format". */
#include "text/diff.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct line {
    const char *at;
    size_t len; /* with its line feed, where it has one */
    uint32_t hash;
};

struct side {
    struct line *lines;
    int count;
    bool *changed; /* removed on one side, added on the other */
};

static bool split(const struct diff_text *text, struct side *ret)
{
    const char *p = text->text, *end = p + text->len;
    int capacity = 0;
    *ret = (struct side){0};
    while (p < end) {
        const char *feed = memchr(p, '\n', (size_t)(end - p));
        struct line line = {.at = p, .len = (size_t)((feed != NULL ? feed + 1 : end) - p)};
        line.hash = 2166136261u; /* FNV-1a */
        for (size_t i = 0; i < line.len; i++)
            line.hash = (line.hash ^ (unsigned char)p[i]) * 16777619u;
        if (ret->count == DIFF_MAX_LINES)
            return false;
        ARRAY_GROW(ret->lines, ret->count, capacity);
        ret->lines[ret->count++] = line;
        p += line.len;
    }
    ret->changed = xcalloc((size_t)ret->count + 1, sizeof *ret->changed);
    return true;
}

static void side_done(struct side *s)
{
    free(s->lines);
    free(s->changed);
}

static bool same(const struct line *a, const struct line *b)
{
    return a->hash == b->hash && a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

/* ---- the shortest edit script ---- */

/* The part of both sides that differs, after equal lines at both ends were taken off. */
struct middle {
    struct side *a, *b;
    int first, n, m; /* lines from `first` on: n of a, m of b */
    int *furthest;   /* by diagonal k = x - y, from -max - 1 to max + 1 */
    int **trace;     /* by d: the furthest points before it, from -d to d */
    int max;
};

static bool goes_down(const int *v, int k, int d)
{
    return k == -d || (k != d && v[k - 1] < v[k + 1]);
}

/* Walks on with one more edit. True when both ends were reached. */
static bool extend(struct middle *w, int d)
{
    int *v = w->furthest + w->max + 1;
    const struct line *a = w->a->lines + w->first, *b = w->b->lines + w->first;
    for (int k = -d; k <= d; k += 2) {
        int x = goes_down(v, k, d) ? v[k + 1] : v[k - 1] + 1;
        int y = x - k;
        while (x < w->n && y < w->m && same(&a[x], &b[y])) {
            x++;
            y++;
        }
        v[k] = x;
        if (x >= w->n && y >= w->m)
            return true;
    }
    return false;
}

static void walk_back(struct middle *w, int d)
{
    int x = w->n, y = w->m;
    for (; d > 0; d--) {
        const int *v = w->trace[d] + d;
        int k = x - y;
        bool down = goes_down(v, k, d);
        int before = down ? v[k + 1] : v[k - 1];
        if (down)
            w->b->changed[w->first + before - (k + 1)] = true;
        else
            w->a->changed[w->first + before] = true;
        x = before;
        y = before - (down ? k + 1 : k - 1);
    }
}

/* False: more than DIFF_MAX_EDITS. */
static bool shortest(struct middle *w)
{
    int d, total = w->n + w->m;
    bool found = false;
    w->max = total < DIFF_MAX_EDITS ? total : DIFF_MAX_EDITS;
    w->furthest = xcalloc(2 * (size_t)w->max + 3, sizeof(int));
    w->trace = xcalloc((size_t)w->max + 1, sizeof(int *));
    for (d = 0; d <= w->max && !found; d++) {
        /* of the step before: diagonals -d to d hold all that goes_down() will look at */
        w->trace[d] = xmemdup(w->furthest + w->max + 1 - d, (2 * (size_t)d + 1) * sizeof(int));
        found = extend(w, d);
    }
    if (found)
        walk_back(w, d - 1);
    for (int i = 0; i <= w->max; i++)
        free(w->trace[i]);
    free(w->trace);
    free(w->furthest);
    return found;
}

static void compare(struct side *a, struct side *b)
{
    int first = 0, last_a = a->count, last_b = b->count;
    while (first < last_a && first < last_b && same(&a->lines[first], &b->lines[first]))
        first++;
    while (last_a > first && last_b > first && same(&a->lines[last_a - 1], &b->lines[last_b - 1])) {
        last_a--;
        last_b--;
    }
    struct middle w = {.a = a, .b = b, .first = first, .n = last_a - first, .m = last_b - first};
    if (w.n > 0 && w.m > 0 && shortest(&w))
        return;
    for (int i = first; i < last_a; i++)
        a->changed[i] = true;
    for (int i = first; i < last_b; i++)
        b->changed[i] = true;
}

/* ---- hunks ---- */

static void put_line(struct strbuf *out, char mark, const struct line *line)
{
    strbuf_addc(out, mark);
    strbuf_add(out, line->at, line->len);
    if (line->at[line->len - 1] != '\n')
        strbuf_adds(out, "\n\\ No newline at end of file\n");
}

/* "7,3", "7", or "6,0" for nothing after line 6. */
static void put_range(struct strbuf *out, int first, int count)
{
    if (count == 1)
        strbuf_addf(out, "%d", first + 1);
    else
        strbuf_addf(out, "%d,%d", count == 0 ? first : first + 1, count);
}

/* Moves both places over equal lines, at most `max`; how many. */
static int skip_same(const struct side *a, const struct side *b, int *x, int *y, int max)
{
    int count = 0;
    while (count < max && *x < a->count && *y < b->count && !a->changed[*x] && !b->changed[*y]) {
        ++*x;
        ++*y;
        count++;
    }
    return count;
}

static void skip_changed(const struct side *a, const struct side *b, int *x, int *y)
{
    while (*x < a->count && a->changed[*x])
        ++*x;
    while (*y < b->count && b->changed[*y])
        ++*y;
}

static void put_hunk(struct strbuf *out, const struct side *a, const struct side *b, int x, int y,
                     int to_x, int to_y)
{
    strbuf_adds(out, "@@ -");
    put_range(out, x, to_x - x);
    strbuf_adds(out, " +");
    put_range(out, y, to_y - y);
    strbuf_adds(out, " @@\n");
    while (x < to_x || y < to_y) {
        if (x < to_x && a->changed[x])
            put_line(out, '-', &a->lines[x++]);
        else if (y < to_y && b->changed[y])
            put_line(out, '+', &b->lines[y++]);
        else {
            put_line(out, ' ', &a->lines[x++]);
            y++;
        }
    }
}

static void put_hunks(struct strbuf *out, const struct side *a, const struct side *b)
{
    int x = 0, y = 0;
    for (;;) {
        (void)skip_same(a, b, &x, &y, DIFF_MAX_LINES);
        if (x >= a->count && y >= b->count)
            return;
        int context = x < DIFF_CONTEXT ? x : DIFF_CONTEXT;
        int from_x = x - context, from_y = y - context, equal;
        do { /* changes with few lines between belong to one hunk */
            skip_changed(a, b, &x, &y);
            equal = skip_same(a, b, &x, &y, 2 * DIFF_CONTEXT + 1);
        } while (equal <= 2 * DIFF_CONTEXT && (x < a->count || y < b->count));
        int back = equal > DIFF_CONTEXT ? equal - DIFF_CONTEXT : 0;
        put_hunk(out, a, b, from_x, from_y, x - back, y - back);
    }
}

int diff_unified(const struct diff_text *from, const struct diff_text *to, struct strbuf *out,
                 struct err *err)
{
    struct side a, b = {0};
    int rc = 0;
    if (from->len == to->len && memcmp(from->text, to->text, from->len) == 0)
        return 0;
    if (!split(from, &a) || !split(to, &b)) {
        rc = err_set(err, ERR_LIMIT, "%s: more than %d lines", to->name, DIFF_MAX_LINES);
    } else {
        compare(&a, &b);
        strbuf_addf(out, "--- %s\n+++ %s\n", from->name, to->name);
        put_hunks(out, &a, &b);
    }
    side_done(&a);
    side_done(&b);
    return rc;
}
