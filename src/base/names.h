/*
 * Names tables: every enum that is shown or parsed has one {id, name} table, ended by a NULL name.
 */
#pragma once

#include "base/strbuf.h"

struct name {
    int id;
    const char *name;
};

const char *name_of(const struct name *table, int id, const char *fallback);
/* The id of `name`, or -1. */
int name_id(const struct name *table, const char *name);
/* "a, b, c" for messages that say what was expected. */
void names_list(const struct name *table, struct strbuf *out);
/*
 * The closest of `count` candidates to `word` (edit distance at most a third of its length, at
 * least 1), or NULL: for "did you mean". The result is borrowed from `candidates`.
 */
const char *names_nearest(const char *word, const char *const *candidates, int count);
