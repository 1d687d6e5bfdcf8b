#include "text/schema.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { LIST_MAX = 2000, KNOWN_SHOWN = 24 };

void schema_unknown(const struct ynode *at, struct diags *d, const char *kind, const char *word,
                    const char *const *known, int count)
{
    const char *near = names_nearest(word, known, count);
    if (near != NULL) {
        ynode_error(at, d, "unknown %s '%.80s', did you mean '%s'?", kind, word, near);
        return;
    }
    struct strbuf list;
    strbuf_init(&list, LIST_MAX);
    for (int i = 0; i < count && i < KNOWN_SHOWN; i++)
        strbuf_addf(&list, "%s%s", i ? ", " : "", known[i]);
    if (count > KNOWN_SHOWN)
        strbuf_adds(&list, ", ...");
    if (count == 0)
        ynode_error(at, d, "unknown %s '%.80s': there is none", kind, word);
    else
        ynode_error(at, d, "unknown %s '%.80s': known are %s", kind, word, list.data);
    strbuf_done(&list);
}

static int row_count(const struct field *rows)
{
    int n = 0;
    while (rows[n].key != NULL)
        n++;
    return n;
}

static const struct field *find_row(const struct field *rows, const char *key)
{
    for (; rows->key != NULL; rows++)
        if (strcmp(rows->key, key) == 0)
            return rows;
    return NULL;
}

/* Returns the key that was suggested instead, or NULL. */
static const char *unknown_key(const struct field *rows, const struct ynode *key, struct diags *d)
{
    int count = row_count(rows);
    const char **known = xcalloc((size_t)count + 1, sizeof *known);
    for (int i = 0; i < count; i++)
        known[i] = rows[i].key;
    schema_unknown(key, d, "key", key->text, known, count);
    const char *near = names_nearest(key->text, known, count);
    free(known);
    return near;
}

static void expected(const struct field *f, struct strbuf *out)
{
    switch (f->type) {
    case FIELD_TEXT:
    case FIELD_SCALAR:
        strbuf_adds(out, "text");
        break;
    case FIELD_INT:
    case FIELD_NUMBER:
        strbuf_adds(out, f->type == FIELD_INT ? "a whole number" : "a number");
        if (f->min != 0 || f->max != 0)
            strbuf_addf(out, " from %g to %.12g", f->min, f->max);
        break;
    case FIELD_BOOL:
        strbuf_adds(out, "true or false");
        break;
    case FIELD_DURATION:
        strbuf_adds(out, "a time with its unit, such as 90s, 10m or 2h");
        break;
    case FIELD_ENUM:
        strbuf_adds(out, "one of ");
        names_list(f->names, out);
        break;
    case FIELD_LIST:
        strbuf_adds(out, "a list");
        break;
    case FIELD_TEXTS:
        strbuf_adds(out, "text or a list of texts");
        break;
    case FIELD_MAP:
        strbuf_adds(out, "a mapping");
        break;
    case FIELD_ANY:
        strbuf_adds(out, "a value");
        break;
    }
}

static bool in_range(const struct field *f, double value)
{
    return (f->min == 0 && f->max == 0) || (value >= f->min && value <= f->max);
}

static bool is_text(const struct ynode *v)
{
    return v->kind == YNODE_SCALAR && !ynode_is_null(v);
}

static bool is_texts(const struct ynode *v)
{
    if (v->kind != YNODE_LIST)
        return is_text(v);
    for (int i = 0; i < v->count; i++)
        if (!is_text(v->items[i]))
            return false;
    return true;
}

/* Accepts words that people write for truth although YAML 1.2 no longer reads them so. */
static bool to_bool(const struct ynode *v, bool *ret)
{
    static const struct name words[] = {{1, "yes"}, {1, "on"}, {0, "no"}, {0, "off"}, {0, NULL}};
    if (ynode_bool(v, ret))
        return true;
    int id = v->kind == YNODE_SCALAR && !v->quoted ? name_id(words, v->text) : -1;
    if (id >= 0)
        *ret = id == 1;
    return id >= 0;
}

static bool store_scalar(const struct field *f, const struct ynode *v, void *at)
{
    int64_t whole;
    double number;
    int id;
    switch (f->type) {
    case FIELD_TEXT:
        if (!is_text(v))
            return false;
        *(const char **)at = v->text;
        return true;
    case FIELD_INT:
        if (!ynode_int(v, &whole) || !in_range(f, (double)whole))
            return false;
        *(int64_t *)at = whole;
        return true;
    case FIELD_NUMBER:
        if (!ynode_number(v, &number) || !in_range(f, number))
            return false;
        *(double *)at = number;
        return true;
    case FIELD_BOOL:
        return to_bool(v, at);
    case FIELD_DURATION:
        return v->kind == YNODE_SCALAR && clock_parse_duration(v->text, at, NULL) == 0;
    case FIELD_ENUM:
        id = v->kind == YNODE_SCALAR ? name_id(f->names, v->text) : -1;
        if (id >= 0)
            *(int *)at = id;
        return id >= 0;
    default:
        return false;
    }
}

static bool store(const struct field *f, const struct ynode *v, void *at)
{
    bool ok;
    switch (f->type) {
    case FIELD_SCALAR:
        ok = is_text(v);
        break;
    case FIELD_LIST:
        ok = v->kind == YNODE_LIST;
        break;
    case FIELD_TEXTS:
        ok = is_texts(v);
        break;
    case FIELD_MAP:
        ok = v->kind == YNODE_MAP;
        break;
    case FIELD_ANY:
        ok = true;
        break;
    default:
        return store_scalar(f, v, at);
    }
    if (ok)
        *(const struct ynode **)at = v;
    return ok;
}

static void wrong_type(const struct field *f, const struct ynode *v, struct diags *d)
{
    struct strbuf want;
    strbuf_init(&want, LIST_MAX);
    expected(f, &want);
    if (f->type == FIELD_ENUM && is_text(v)) {
        int count = 0;
        const char *known[KNOWN_SHOWN];
        while (count < KNOWN_SHOWN && f->names[count].name != NULL) {
            known[count] = f->names[count].name;
            count++;
        }
        const char *near = names_nearest(v->text, known, count);
        ynode_error(v, d, "'%s' must be %s, not '%.60s'%s%s%s", f->key, want.data, v->text,
                    near != NULL ? ", did you mean '" : "", near != NULL ? near : "",
                    near != NULL ? "'?" : "");
    } else {
        /* The value is not repeated: it may be a secret that slipped into the wrong line. */
        ynode_error(v, d, "'%s' must be %s, not %s", f->key, want.data, ynode_kind_text(v));
    }
    strbuf_done(&want);
}

static bool take(const struct field *f, const struct ynode *v, void *out, struct diags *d)
{
    char *at = (char *)out + f->offset;
    if (!store(f, v, at)) {
        wrong_type(f, v, d);
        return false;
    }
    if (f->check == NULL)
        return true;
    struct strbuf why;
    strbuf_init(&why, LIST_MAX);
    bool ok = f->check(v, &why);
    if (!ok)
        ynode_error(v, d, "'%s' %s", f->key, why.data);
    strbuf_done(&why);
    return ok;
}

static bool fill_absent(const struct field *f, const struct ynode *map, const char *what, void *out,
                        struct diags *d)
{
    if (f->required) {
        ynode_error(map, d, "missing key '%s' in %s%s%s", f->key, what, f->help ? ": " : "",
                    f->help ? f->help : "");
        return false;
    }
    if (f->fallback == NULL)
        return true;
    struct ynode v = {.kind = YNODE_SCALAR, .file = map->file, .text = xstrdup(f->fallback)};
    if (f->type == FIELD_TEXT)
        *(const char **)((char *)out + f->offset) = f->fallback;
    else if (!store_scalar(f, &v, (char *)out + f->offset))
        abort(); /* a row of ours that contradicts itself */
    free(v.text);
    return true;
}

static bool walk(const struct field *rows, const struct ynode *map, const char *what, void *out,
                 struct diags *d, bool fresh)
{
    if (map->kind != YNODE_MAP) {
        ynode_error(map, d, "%s must be a mapping, not %s", what, ynode_kind_text(map));
        return false;
    }
    bool ok = true;
    const char *suggested = NULL; /* the last one: it is not called missing as well */
    for (int i = 0; i < map->count; i++) {
        const struct ynode *key = map->pairs[i].key, *v = map->pairs[i].value;
        const struct field *f = find_row(rows, key->text);
        if (f == NULL) {
            const char *near = unknown_key(rows, key, d);
            suggested = near != NULL ? near : suggested;
            ok = false;
        } else if (ynode_is_null(v) && !f->required) {
            continue; /* written without a value: as if absent */
        } else if (!take(f, v, out, d)) {
            ok = false;
        }
    }
    for (const struct field *f = rows; fresh && f->key != NULL; f++) {
        const struct ynode *v = ynode_get(map, f->key);
        if (f->required && v == NULL && suggested != NULL && strcmp(suggested, f->key) == 0)
            continue;
        if (v == NULL || (ynode_is_null(v) && !f->required))
            ok = fill_absent(f, map, what, out, d) && ok;
    }
    return ok;
}

bool schema_read(const struct field *rows, const struct ynode *map, const char *what, void *out,
                 struct diags *d)
{
    return walk(rows, map, what, out, d, true);
}

bool schema_update(const struct field *rows, const struct ynode *map, const char *what, void *out,
                   struct diags *d)
{
    return walk(rows, map, what, out, d, false);
}
