/*
 * The difference of two texts, by lines, as a unified diff: what patch(1) reads.
 *
 * The fewest lines are shown as changed, as long as there are at most DIFF_MAX_EDITS of them;
 * beyond that the part between the first and the last difference is shown as replaced, which is
 * right, too, but longer.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/strbuf.h"

enum { DIFF_MAX_LINES = 500000, DIFF_MAX_EDITS = 2000, DIFF_CONTEXT = 3 };

struct diff_text {
    const char *name; /* shown after "--- " and "+++ " */
    const char *text;
    size_t len;
};

/* Appends to `out`; nothing where both are the same. 0, or ERR_LIMIT for too many lines. */
int diff_unified(const struct diff_text *from, const struct diff_text *to, struct strbuf *out,
                 struct err *err);
