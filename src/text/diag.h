/*
 * Diagnostics: everything wrong with a user's files, as file:line:column: message, in one run.
 */
#pragma once

#include <stdbool.h>

enum diag_level { DIAG_ERROR, DIAG_WARNING };

struct diag {
    char *file;
    int line; /* from 1; 0: the file as a whole */
    int column;
    enum diag_level level;
    char *text; /* what is wrong, what is expected, the nearest match */
};

struct diags {
    struct diag *items;
    int count;
    int capacity;
    int errors; /* how many of them are DIAG_ERROR */
};

void diags_init(struct diags *d);
void diags_done(struct diags *d);
void diags_add(struct diags *d, enum diag_level level, const char *file, int line, int column,
               const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* By file, line, column; stable. */
void diags_sort(struct diags *d);
