#include "text/csv.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"

/* Shared by all cells without text, so that a table of nothing costs little. */
static char empty_text[1];

struct scanner {
    const char *file;
    const char *p, *end;
    const char *line_start;
    int line;
    char separator;
    struct diags *d;
    bool failed;
};

static void complain(struct scanner *s, int line, int column, const char *text)
{
    diags_add(s->d, DIAG_ERROR, s->file, line, column, "%s", text);
    s->failed = true;
}

/* Columns count characters, as editors do. */
static int column_of(const struct scanner *s)
{
    int column = 1;
    for (const char *p = s->line_start; p < s->p; p++)
        if (((unsigned char)*p & 0xC0) != 0x80)
            column++;
    return column;
}

static bool at_line_end(const struct scanner *s)
{
    return s->p == s->end || *s->p == '\n' ||
           (*s->p == '\r' && s->p + 1 < s->end && s->p[1] == '\n');
}

static void next_line(struct scanner *s)
{
    if (s->p < s->end && *s->p == '\r')
        s->p++;
    if (s->p < s->end)
        s->p++;
    s->line++;
    s->line_start = s->p;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void skip_blanks(struct scanner *s)
{
    while (s->p < s->end && is_blank(*s->p) && *s->p != s->separator)
        s->p++;
}

/* The text of a quoted cell; "" within stands for one quote. Line breaks within are kept. */
static void quoted_cell(struct scanner *s, struct strbuf *sb)
{
    int line = s->line, column = column_of(s);
    s->p++;
    for (;;) {
        if (s->p == s->end) {
            complain(s, line, column, "the quote that begins here is never closed");
            return;
        }
        if (*s->p == '"') {
            s->p++;
            if (s->p == s->end || *s->p != '"')
                break;
        }
        if (*s->p == '\n') {
            s->line++;
            s->line_start = s->p + 1;
        }
        strbuf_addc(sb, *s->p++);
    }
    skip_blanks(s);
    if (!at_line_end(s) && *s->p != s->separator) {
        complain(s, s->line, column_of(s), "text follows the closing quote: expected a separator");
        while (!at_line_end(s) && *s->p != s->separator)
            s->p++;
    }
}

static void plain_cell(struct scanner *s, struct strbuf *sb)
{
    const char *start = s->p;
    while (!at_line_end(s) && *s->p != s->separator)
        s->p++;
    const char *stop = s->p;
    while (stop > start && (is_blank(stop[-1]) || stop[-1] == '\r'))
        stop--;
    strbuf_add(sb, start, (size_t)(stop - start));
}

static bool is_utf8(const char *text, size_t len)
{
    json_t *j = json_stringn(text, len);
    json_decref(j);
    return j != NULL;
}

static struct csv_cell read_cell(struct scanner *s)
{
    struct strbuf sb;
    strbuf_init(&sb, CSV_MAX_CELL);
    skip_blanks(s);
    struct csv_cell cell = {.line = s->line, .column = column_of(s)};
    if (s->p < s->end && *s->p == '"')
        quoted_cell(s, &sb);
    else
        plain_cell(s, &sb);
    if (!strbuf_ok(&sb))
        complain(s, cell.line, cell.column, "the cell is too long: at most 1024 bytes");
    if (memchr(sb.data, '\0', sb.len) != NULL)
        complain(s, cell.line, cell.column, "the cell holds a NUL character");
    if (!is_utf8(sb.data, sb.len))
        complain(s, cell.line, cell.column, "the cell is not UTF-8 text: save the file as UTF-8");
    cell.text = sb.len > 0 ? strbuf_take(&sb) : empty_text;
    strbuf_done(&sb);
    return cell;
}

/* One line of at most CSV_MAX_COLUMNS cells; returns how many there are. */
static int read_row(struct scanner *s, struct csv_cell cells[CSV_MAX_COLUMNS])
{
    int count = 0;
    for (;;) {
        if (count == CSV_MAX_COLUMNS) {
            complain(s, s->line, column_of(s), "too many columns: at most 64");
            s->p = s->end;
            break;
        }
        cells[count++] = read_cell(s);
        if (s->p == s->end || *s->p != s->separator)
            break;
        s->p++;
    }
    next_line(s);
    return count;
}

static bool skip_empty_lines(struct scanner *s)
{
    while (s->p < s->end) {
        const char *p = s->p;
        while (p < s->end && (is_blank(*p) || *p == '\r'))
            p++;
        if (p < s->end && *p != '\n' && *p != '#')
            return true;
        const char *nl = memchr(p, '\n', (size_t)(s->end - p));
        s->p = nl != NULL ? nl : s->end;
        next_line(s);
    }
    return false;
}

/* Whichever of , ; and tab stands most often outside of quotes in the header. */
static char find_separator(const struct scanner *s)
{
    int count[3] = {0};
    static const char separators[3] = {',', ';', '\t'};
    bool quoted = false;
    for (const char *p = s->p; p < s->end && *p != '\n'; p++) {
        if (*p == '"')
            quoted = !quoted;
        for (int i = 0; i < 3 && !quoted; i++)
            count[i] += *p == separators[i];
    }
    int best = 0;
    for (int i = 1; i < 3; i++)
        if (count[i] > count[best])
            best = i;
    return separators[best];
}

static void free_cells(struct csv_cell *cells, int count)
{
    for (int i = 0; i < count; i++)
        if (cells[i].text != empty_text)
            free(cells[i].text);
}

static void keep_row(struct scanner *s, struct csv *csv, int *capacity, struct csv_cell *cells,
                     int count)
{
    int extra = count;
    while (extra > csv->columns && cells[extra - 1].text[0] == '\0')
        extra--;
    if (extra > csv->columns) {
        diags_add(s->d, DIAG_ERROR, s->file, cells[csv->columns].line, cells[csv->columns].column,
                  "the row has %d cells, the header has %d", extra, csv->columns);
        s->failed = true;
        free_cells(cells, count);
        return;
    }
    if (csv->rows == CSV_MAX_ROWS || csv->rows >= CSV_MAX_CELLS / csv->columns) {
        complain(s, cells[0].line, 1, "too many rows: at most 100000, and 1000000 cells");
        s->p = s->end;
        free_cells(cells, count);
        return;
    }
    if (csv->rows == *capacity) {
        *capacity = *capacity ? *capacity * 2 : 64;
        csv->cells =
            xrealloc(csv->cells, (size_t)*capacity * (size_t)csv->columns, sizeof *csv->cells);
    }
    struct csv_cell *row = &csv->cells[(size_t)csv->rows * (size_t)csv->columns];
    for (int i = 0; i < csv->columns; i++)
        row[i] = i < count ? cells[i]
                           : (struct csv_cell){.text = empty_text,
                                               .line = cells[count - 1].line,
                                               .column = cells[count - 1].column};
    if (count > csv->columns)
        free_cells(cells + csv->columns, count - csv->columns);
    csv->rows++;
}

static bool read_header(struct scanner *s, struct csv *csv)
{
    if (!skip_empty_lines(s)) {
        complain(s, 0, 0, "the file is empty: expected a header row that names the columns");
        return false;
    }
    s->separator = find_separator(s);
    struct csv_cell cells[CSV_MAX_COLUMNS];
    int count = read_row(s, cells);
    csv->header = xcalloc((size_t)count, sizeof *csv->header);
    memcpy(csv->header, cells, (size_t)count * sizeof *cells);
    csv->columns = count;
    return !s->failed;
}

struct csv *csv_parse(const char *file, const char *text, size_t len, struct diags *d)
{
    struct scanner s = {.file = file, .p = text, .end = text + len, .line = 1, .d = d};
    if (len > CSV_MAX_BYTES) {
        complain(&s, 0, 0, "the file is too large: at most 8 MiB");
        return NULL;
    }
    if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        s.p += 3;
    s.line_start = s.p;
    struct csv *csv = xcalloc(1, sizeof *csv);
    csv->file = xstrdup(file);
    int capacity = 0;
    bool ok = read_header(&s, csv);
    while (ok && skip_empty_lines(&s)) {
        struct csv_cell cells[CSV_MAX_COLUMNS];
        int count = read_row(&s, cells);
        keep_row(&s, csv, &capacity, cells, count);
    }
    if (s.failed) {
        csv_free(csv);
        return NULL;
    }
    return csv;
}

void csv_free(struct csv *csv)
{
    if (csv == NULL)
        return;
    free_cells(csv->header, csv->columns);
    free(csv->header);
    free_cells(csv->cells, csv->rows * csv->columns);
    free(csv->cells);
    free(csv->file);
    free(csv);
}

const struct csv_cell *csv_at(const struct csv *csv, int row, int column)
{
    return &csv->cells[(size_t)row * (size_t)csv->columns + (size_t)column];
}
