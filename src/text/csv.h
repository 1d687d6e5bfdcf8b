/*
 * CSV (RFC 4180) with a header row: lists of machines as vendors and spreadsheets ship them.
 *
 * Tolerated: a byte order mark, CRLF, `;` or tab instead of the comma (found in the header row),
 * blank lines, lines that start with `#`, rows that leave empty cells out at their end. Cells are
 * trimmed of blanks around them unless quoted. Used by model.
 */
#pragma once

#include <stddef.h>

#include "text/diag.h"

#define CSV_MAX_BYTES (8u << 20)
#define CSV_MAX_ROWS 100000
#define CSV_MAX_COLUMNS 64
#define CSV_MAX_CELLS 1000000
#define CSV_MAX_CELL 1024

struct csv_cell {
    char *text; /* "" where the row has no such cell */
    int line, column;
};

struct csv {
    char *file;
    int columns;
    int rows; /* without the header */
    struct csv_cell *header;
    struct csv_cell *cells; /* row by row */
};

/* NULL when the file cannot be read as a table; `d` says everything that is wrong with it. */
struct csv *csv_parse(const char *file, const char *text, size_t len, struct diags *d);
void csv_free(struct csv *csv);
const struct csv_cell *csv_at(const struct csv *csv, int row, int column);
