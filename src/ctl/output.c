/* Tables, JSON, times. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "ctl/ctl.h"

struct table {
    const char *const *headers;
    int columns;
    char **cells;
    int count, capacity;
};

int print_json(const json_t *value)
{
    if (json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY) < 0)
        return complain(CTL_FAILED, "writing the output failed");
    putchar('\n');
    return CTL_DONE;
}

bool colour_on(FILE *to)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fileno(to)) && (no == NULL || no[0] == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

struct table *table_new(const char *const *headers)
{
    struct table *t = xcalloc(1, sizeof *t);
    t->headers = headers;
    while (headers[t->columns] != NULL)
        t->columns++;
    return t;
}

void table_add(struct table *t, const char *cell)
{
    ARRAY_GROW(t->cells, t->count, t->capacity);
    t->cells[t->count++] = xstrdup(cell != NULL && cell[0] != '\0' ? cell : "-");
}

int table_rows(const struct table *t)
{
    return t->count / t->columns;
}

/* Characters, not bytes; wide ones count as one. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static const char *colour_of(const char *cell)
{
    static const struct {
        const char *word, *colour;
    } rows[] = {{"validated", "\033[32m"}, {"passed", "\033[32m"},  {"ok", "\033[32m"},
                {"failed", "\033[31m"},    {"held", "\033[33m"},    {"swap-suspected", "\033[31m"},
                {"stale", "\033[33m"},     {"backoff", "\033[33m"}, {"running", "\033[36m"},
                {"low", "\033[31m"},       {"high", "\033[31m"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].word, cell) == 0)
            return rows[i].colour;
    return NULL;
}

static void print_row(const struct table *t, const char *const *cells, const int *widths, FILE *to,
                      bool colours)
{
    for (int c = 0; c < t->columns; c++) {
        const char *colour = colours ? colour_of(cells[c]) : NULL;
        int pad = c + 1 < t->columns ? widths[c] - width_of(cells[c]) + 2 : 0;
        (void)fprintf(to, "%s%s%s%*s", colour != NULL ? colour : "", cells[c],
                      colour != NULL ? "\033[0m" : "", pad, "");
    }
    fputc('\n', to);
}

void table_print(struct table *t, FILE *to)
{
    int *widths = xcalloc((size_t)t->columns, sizeof *widths);
    for (int c = 0; c < t->columns; c++)
        widths[c] = width_of(t->headers[c]);
    for (int i = 0; i < t->count; i++)
        if (width_of(t->cells[i]) > widths[i % t->columns])
            widths[i % t->columns] = width_of(t->cells[i]);
    print_row(t, t->headers, widths, to, false);
    bool colours = colour_on(to);
    for (int i = 0; i + t->columns <= t->count; i += t->columns)
        print_row(t, (const char *const *)&t->cells[i], widths, to, colours);
    for (int i = 0; i < t->count; i++)
        free(t->cells[i]);
    free(t->cells);
    free(widths);
    free(t);
}

const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text != NULL ? text : "";
}

const char *short_time(const char *text)
{
    static char buf[32];
    char today[16];
    time_t now = time(NULL);
    struct tm tm;
    (void)gmtime_r(&now, &tm);
    (void)strftime(today, sizeof today, "%Y-%m-%d", &tm);
    if (strlen(text) < 19)
        return text;
    bool same = strncmp(text, today, 10) == 0;
    (void)snprintf(buf, sizeof buf, "%.*s", same ? 8 : 16, same ? text + 11 : text);
    return buf;
}
