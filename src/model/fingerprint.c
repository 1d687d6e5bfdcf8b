#include "model/fingerprint.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/names.h"
#include "model/parts.h"

static const struct name kind_names[] = {
    {INPUT_STEP, "step"},     {INPUT_FILE, "file"},   {INPUT_VAR, "var"}, {INPUT_SPEC, "spec"},
    {INPUT_SECRET, "secret"}, {INPUT_STAGE, "stage"}, {0, NULL}};

json_t *inputs_new(void)
{
    return json_array();
}

void inputs_add(json_t *inputs, enum input_kind kind, const char *name, const char *value)
{
    json_t *row =
        json_pack("[s,s,s]", name_of(kind_names, (int)kind, "?"), name, value != NULL ? value : "");
    if (row != NULL)
        (void)json_array_append_new(inputs, row);
}

/* Kind, name and value count; where a part sits is only told. */
static json_t *what_counts(const json_t *inputs)
{
    json_t *list = json_array(), *row;
    size_t i;
    json_array_foreach(inputs, i, row)
    {
        json_t *copy = json_copy(row);
        while (json_array_size(copy) > 3)
            (void)json_array_remove(copy, json_array_size(copy) - 1);
        (void)json_array_append_new(list, copy);
    }
    return list;
}

void inputs_fingerprint(const json_t *inputs, char hex[DIGEST_HEX_SIZE])
{
    json_t *list = what_counts(inputs);
    char *text = json_dumps(list, JSON_COMPACT);
    if (text == NULL)
        abort(); /* inputs are strings that jansson accepted before */
    digest_hex(text, strlen(text), hex);
    free(text);
    json_decref(list);
}

static const char *cell(const json_t *row, size_t column)
{
    const char *text = json_string_value(json_array_get(row, column));
    return text != NULL ? text : "";
}

static const json_t *find(const json_t *inputs, const json_t *like)
{
    size_t i;
    json_t *row;
    json_array_foreach(inputs, i, row) if (strcmp(cell(row, 0), cell(like, 0)) == 0 &&
                                           strcmp(cell(row, 1), cell(like, 1)) == 0) return row;
    return NULL;
}

static void explain_change(const json_t *before, const json_t *after, struct strbuf *out)
{
    const char *name = cell(after, 1);
    switch (name_id(kind_names, cell(after, 0))) {
    case INPUT_STEP:
        strbuf_addf(out, "the stage's definition changed (%s)", name);
        break;
    case INPUT_FILE:
        strbuf_addf(out, "%s edited", name);
        break;
    case INPUT_SECRET:
        strbuf_addf(out, "%s changed", name);
        break;
    case INPUT_STAGE:
        strbuf_addf(out, "stage %s was proven anew", name);
        break;
    default:
        strbuf_addf(out, "%s %s -> %s", name, cell(before, 2), cell(after, 2));
        break;
    }
}

static void explain_presence(const json_t *row, bool added, struct strbuf *out)
{
    int kind = name_id(kind_names, cell(row, 0));
    const char *what = kind == INPUT_STAGE ? "stage " : "";
    strbuf_addf(out, "%s%s %s", what, cell(row, 1), added ? "is new" : "no longer counts");
}

/* ---- parts ---- */

struct part_words {
    struct strbuf *out;
    size_t start;
};

static void add_part_words(enum part_change what, const char *kind, const char *words, void *user)
{
    struct part_words *w = user;
    (void)kind;
    if (what != PART_MOVED)
        strbuf_addf(w->out, "%s%s", w->out->len > w->start ? "; " : "", words);
}

static bool is_part(const json_t *row)
{
    return strcmp(cell(row, 0), "hardware") == 0;
}

void inputs_explain(const json_t *before, const json_t *after, struct strbuf *out)
{
    size_t i;
    json_t *row;
    size_t start = out->len;
    json_array_foreach(after, i, row)
    {
        const json_t *old = is_part(row) ? row : find(before, row);
        if (old != NULL && strcmp(cell(old, 2), cell(row, 2)) == 0)
            continue;
        if (out->len > start)
            strbuf_adds(out, "; ");
        if (old != NULL)
            explain_change(old, row, out);
        else
            explain_presence(row, true, out);
    }
    struct part_words w = {.out = out, .start = start};
    for (int k = 0; part_kinds[k] != NULL; k++)
        parts_diff(before, after, part_kinds[k], add_part_words, &w);
    json_array_foreach(before, i, row)
    {
        if (is_part(row) || find(after, row) != NULL)
            continue;
        if (out->len > start)
            strbuf_adds(out, "; ");
        explain_presence(row, false, out);
    }
}
