/*
 * Templates: Mustache as its core specification has it (comments, delimiters, interpolation,
 * inverted sections, partials, sections), with filters that quote: {{name | shell}}, `yaml`,
 * `json`, `html`. No HTML escaping unless asked for. Used by netboot (boot files) and ctl (render).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/strbuf.h"

#define TEMPLATE_MAX_BYTES (1u << 20)
#define TEMPLATE_MAX_DEPTH 64

struct template_options {
    const char *file; /* for messages: file:line:column */
    bool strict;      /* an unknown name, partial or filter is an error; else empty */
    /* Finds a partial's text (borrowed); NULL when there is none. NULL: no partials. */
    const char *(*partial)(const char *name, void *user);
    void *user;
};

/* ERR_INVALID (the template), ERR_NOT_FOUND (strict: a name), ERR_LIMIT. `data`: any JSON. */
int template_render(const char *text, size_t len, const json_t *data,
                    const struct template_options *options, struct strbuf *out, struct err *err);
