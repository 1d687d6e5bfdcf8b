/*
 * Diagnostics as text, a line each: "file:line:column: message", warnings with "warning: " before
 * the message. For tests that compare all of them at once.
 */
#pragma once

#include "base/strbuf.h"
#include "text/diag.h"

static inline char *diags_text(struct diags *d)
{
    struct strbuf sb;
    strbuf_init(&sb, 1 << 20);
    diags_sort(d);
    for (int i = 0; i < d->count; i++)
        strbuf_addf(&sb, "%s:%d:%d: %s%s\n", d->items[i].file, d->items[i].line, d->items[i].column,
                    d->items[i].level == DIAG_WARNING ? "warning: " : "", d->items[i].text);
    char *text = strbuf_take(&sb);
    strbuf_done(&sb);
    return text;
}
