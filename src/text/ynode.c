/* What a YAML node is: kinds, numbers, JSON. See text/yaml.h. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "text/yaml.h"

const struct ynode *ynode_get(const struct ynode *map, const char *key)
{
    if (map == NULL || map->kind != YNODE_MAP)
        return NULL;
    for (int i = 0; i < map->count; i++)
        if (strcmp(map->pairs[i].key->text, key) == 0)
            return map->pairs[i].value;
    return NULL;
}

bool ynode_is_null(const struct ynode *n)
{
    return n->kind == YNODE_SCALAR && !n->quoted &&
           (n->text[0] == '\0' || strcmp(n->text, "~") == 0 || strcmp(n->text, "null") == 0 ||
            strcmp(n->text, "Null") == 0 || strcmp(n->text, "NULL") == 0);
}

bool ynode_bool(const struct ynode *n, bool *ret_value)
{
    if (n->kind != YNODE_SCALAR || n->quoted)
        return false;
    if (strcmp(n->text, "true") == 0 || strcmp(n->text, "True") == 0 ||
        strcmp(n->text, "TRUE") == 0)
        *ret_value = true;
    else if (strcmp(n->text, "false") == 0 || strcmp(n->text, "False") == 0 ||
             strcmp(n->text, "FALSE") == 0)
        *ret_value = false;
    else
        return false;
    return true;
}

bool ynode_int(const struct ynode *n, int64_t *ret_value)
{
    if (n->kind != YNODE_SCALAR)
        return false;
    const char *p = n->text;
    if (*p == '-' || *p == '+')
        p++;
    if (*p == '\0' || p[strspn(p, "0123456789")] != '\0')
        return false;
    errno = 0;
    long long value = strtoll(n->text, NULL, 10);
    if (errno != 0)
        return false;
    *ret_value = value;
    return true;
}

bool ynode_number(const struct ynode *n, double *ret_value)
{
    if (n->kind != YNODE_SCALAR || n->text[strspn(n->text, "0123456789+-.eE")] != '\0' ||
        strpbrk(n->text, "0123456789") == NULL)
        return false;
    char *end;
    double value = strtod(n->text, &end);
    if (*end != '\0' || !isfinite(value))
        return false;
    *ret_value = value;
    return true;
}

const char *ynode_kind_text(const struct ynode *n)
{
    bool truth;
    double number;
    if (n->kind == YNODE_LIST)
        return "a list";
    if (n->kind == YNODE_MAP)
        return "a mapping";
    if (ynode_is_null(n))
        return "nothing";
    if (ynode_bool(n, &truth))
        return "true or false";
    if (!n->quoted && ynode_number(n, &number))
        return "a number";
    return "text";
}

static json_t *scalar_json(const struct ynode *n, bool as_text)
{
    bool truth;
    int64_t whole;
    double number;
    if (!as_text && !n->quoted) {
        if (ynode_is_null(n))
            return json_null();
        if (ynode_bool(n, &truth))
            return json_boolean(truth);
        if (ynode_int(n, &whole))
            return json_integer(whole);
        if (ynode_number(n, &number))
            return json_real(number);
    }
    json_t *text = json_string(n->text);
    return text != NULL ? text : json_string("?"); /* libyaml lets only valid UTF-8 through */
}

/* The work is bounded by YDOC_MAX_EXPANDED, the recursion by YDOC_MAX_DEPTH. */
json_t *ynode_json(const struct ynode *n, bool as_text)
{
    if (n->kind == YNODE_SCALAR)
        return scalar_json(n, as_text);
    if (n->kind == YNODE_LIST) {
        json_t *list = json_array();
        for (int i = 0; i < n->count; i++)
            (void)json_array_append_new(list, ynode_json(n->items[i], as_text));
        return list;
    }
    json_t *map = json_object();
    for (int i = 0; i < n->count; i++)
        (void)json_object_set_new(map, n->pairs[i].key->text,
                                  ynode_json(n->pairs[i].value, as_text));
    return map;
}

static void report(const struct ynode *n, struct diags *d, enum diag_level level, const char *fmt,
                   va_list ap)
{
    char *text = NULL;
    if (vasprintf(&text, fmt, ap) < 0)
        abort();
    diags_add(d, level, n->file, n->line, n->column, "%s", text);
    free(text);
}

void ynode_error(const struct ynode *n, struct diags *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report(n, d, DIAG_ERROR, fmt, ap);
    va_end(ap);
}

void ynode_warning(const struct ynode *n, struct diags *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report(n, d, DIAG_WARNING, fmt, ap);
    va_end(ap);
}
