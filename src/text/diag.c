#include "text/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { DIAGS_MAX = 1000 };

void diags_init(struct diags *d)
{
    *d = (struct diags){0};
}

void diags_done(struct diags *d)
{
    for (int i = 0; i < d->count; i++) {
        free(d->items[i].file);
        free(d->items[i].text);
    }
    free(d->items);
    diags_init(d);
}

/* The length of the UTF-8 sequence at `p`, or 0 where there is none (RFC 3629). */
static size_t sequence(const unsigned char *p)
{
    size_t len = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (p[0] > 0xF4 || (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) ||
        (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    return len;
}

/*
 * Messages quote what a user wrote, may cut it off within a character, and end up on terminals and
 * in JSON: whatever is no UTF-8 or would steer a terminal becomes a question mark.
 */
static void make_printable(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p != '\0';) {
        size_t len = sequence(p);
        if (len == 0 || *p < 0x20 || *p == 0x7F || (*p == 0xC2 && p[1] < 0xA0)) {
            *p++ = '?';
            if (len == 2)
                *p++ = '?';
            continue;
        }
        p += len;
    }
}

static void add(struct diags *d, enum diag_level level, const char *file, int line, int column,
                char *text)
{
    char *name = xstrdup(file != NULL ? file : "?");
    make_printable(name);
    make_printable(text);
    ARRAY_GROW(d->items, d->count, d->capacity);
    d->items[d->count++] =
        (struct diag){.file = name, .line = line, .column = column, .level = level, .text = text};
}

void diags_add(struct diags *d, enum diag_level level, const char *file, int line, int column,
               const char *fmt, ...)
{
    if (level == DIAG_ERROR)
        d->errors++;
    if (d->count > DIAGS_MAX)
        return;
    if (d->count == DIAGS_MAX) {
        add(d, level, file, 0, 0, xstrdup("too many problems: the rest is not shown"));
        return;
    }
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        text = xstrdup(fmt);
    va_end(ap);
    add(d, level, file, line, column, text);
}

static int compare(const struct diag *a, const struct diag *b)
{
    int c = strcmp(a->file, b->file);
    if (c != 0)
        return c;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return 0;
}

/* Merge sort, because qsort() is not stable and equal positions keep the order of finding. */
static void sort(struct diag *items, struct diag *scratch, int count)
{
    if (count < 2)
        return;
    int half = count / 2;
    sort(items, scratch, half);
    sort(items + half, scratch, count - half);
    int left = 0, right = half, out = 0;
    while (left < half || right < count) {
        bool from_left =
            right == count || (left < half && compare(&items[left], &items[right]) <= 0);
        scratch[out++] = from_left ? items[left++] : items[right++];
    }
    memcpy(items, scratch, (size_t)count * sizeof *items);
}

void diags_sort(struct diags *d)
{
    if (d->count < 2)
        return;
    struct diag *scratch = xcalloc((size_t)d->count, sizeof *scratch);
    sort(d->items, scratch, d->count);
    free(scratch);
}
