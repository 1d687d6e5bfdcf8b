/*
 * Schema rows: what a YAML mapping may hold, and where each value goes in a C struct.
 *
 * One table per mapping of a file; reading walks the mapping once and reports everything that is
 * wrong with it (unknown keys with the nearest known one, wrong types, missing keys) as
 * diagnostics. Texts and nodes in the struct are borrowed from the document.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/names.h"
#include "base/strbuf.h"
#include "text/diag.h"
#include "text/yaml.h"

enum field_type {                 /* type of the struct member */
                  FIELD_TEXT,     /* const char *: any scalar as written */
                  FIELD_INT,      /* int64_t */
                  FIELD_NUMBER,   /* double */
                  FIELD_BOOL,     /* bool */
                  FIELD_DURATION, /* int64_t, ms: "10m" */
                  FIELD_ENUM,     /* int: an id of `names` */
                  FIELD_SCALAR,   /* const struct ynode *: a scalar that is not empty */
                  FIELD_LIST,     /* const struct ynode *: a list */
                  FIELD_TEXTS,    /* const struct ynode *: a scalar, or a list of scalars */
                  FIELD_MAP,      /* const struct ynode *: a mapping */
                  FIELD_ANY,      /* const struct ynode * */
};

struct field {
    const char *key; /* NULL ends the table */
    enum field_type type;
    bool required;
    size_t offset;
    const char *fallback; /* as a user would write it; NULL: the member stays as it was */
    double min, max;      /* FIELD_INT, FIELD_NUMBER; not checked when both are 0 */
    const struct name *names;
    /* Looks at a value of the right type; false after saying in `why` what must hold. */
    bool (*check)(const struct ynode *value, struct strbuf *why);
    const char *help; /* what it is, for messages: "the address of the node's BMC" */
};

/*
 * Reads `map` into `out`. `what` names the mapping in messages ("networks.provision"). Members of
 * keys that are absent get the fallback, or stay as they were. False when anything was wrong.
 */
bool schema_read(const struct field *rows, const struct ynode *map, const char *what, void *out,
                 struct diags *d);
/* The same without fallbacks and required keys: for rows that change an existing struct. */
bool schema_update(const struct field *rows, const struct ynode *map, const char *what, void *out,
                   struct diags *d);

/* Reports that `word` is none of `known`, with the nearest: "unknown KIND 'x', did you mean 'y'?"
 */
void schema_unknown(const struct ynode *at, struct diags *d, const char *kind, const char *word,
                    const char *const *known, int count);
