/* Expressions over names, and the set itself. */
#include "base/nodeset.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/nodeset_int.h"

enum { TEXT_MAX = 4 << 20 };

struct nodeset *set_new(void)
{
    struct nodeset *set = xcalloc(1, sizeof *set);
    set->patterns = map_new();
    return set;
}

static void free_value(const char *key, void *value, void *user)
{
    (void)key;
    (void)user;
    free(value);
}

void nodeset_free(struct nodeset *set)
{
    if (set == NULL)
        return;
    for (int i = 0; i < set->count; i++)
        free(set->items[i].name);
    free(set->items);
    map_each(set->patterns, free_value, NULL);
    map_free(set->patterns);
    map_free(set->names);
    free(set);
}

/* ---- names ---- */

static const char *intern(struct nodeset *set, const char *pattern)
{
    char *known = map_get(set->patterns, pattern);
    if (known == NULL) {
        known = xstrdup(pattern);
        (void)map_set(set->patterns, pattern, known);
    }
    return known;
}

static void split(struct nodeset *set, struct nodeset_item *item)
{
    struct strbuf pattern;
    strbuf_init(&pattern, 2 * NODESET_NAME_MAX);
    for (const char *p = item->name; *p != '\0';) {
        size_t digits = strspn(p, "0123456789");
        if (digits == 0 || digits > NODESET_DIGITS_MAX || item->dims == NODESET_DIMS) {
            size_t n = digits > 0 ? digits : 1;
            if (*p == '%')
                strbuf_addc(&pattern, '%');
            strbuf_add(&pattern, p, n);
            p += n;
            continue;
        }
        uint64_t value = strtoull(p, NULL, 10);
        item->idx[item->dims++] = index_make(value, (unsigned)digits);
        strbuf_adds(&pattern, "%s");
        p += digits;
    }
    item->pattern = intern(set, pattern.data);
    strbuf_done(&pattern);
}

int set_add(struct nodeset *set, char *name, struct err *err)
{
    if (name[0] == '\0') {
        free(name);
        return err_set(err, ERR_INVALID, "an empty name");
    }
    if (set->count >= NODESET_MAX) {
        free(name);
        return err_set(err, ERR_LIMIT, "more than %d names", NODESET_MAX);
    }
    ARRAY_GROW(set->items, set->count, set->capacity);
    struct nodeset_item *item = &set->items[set->count++];
    *item = (struct nodeset_item){.name = name};
    /* strtoull stops at the first non-digit: the name is NUL-terminated */
    split(set, item);
    return 0;
}

int item_compare(const void *a, const void *b)
{
    const struct nodeset_item *x = a, *y = b;
    int order = x->pattern == y->pattern ? 0 : strcmp(x->pattern, y->pattern);
    for (int i = 0; order == 0 && i < x->dims; i++)
        order = x->idx[i] < y->idx[i] ? -1 : x->idx[i] > y->idx[i];
    return order;
}

void set_normalise(struct nodeset *set)
{
    int kept = 0;
    if (set->count > 1)
        qsort(set->items, (size_t)set->count, sizeof *set->items, item_compare);
    for (int i = 0; i < set->count; i++) {
        if (kept > 0 && item_compare(&set->items[kept - 1], &set->items[i]) == 0)
            free(set->items[i].name);
        else
            set->items[kept++] = set->items[i];
    }
    set->count = kept;
}

/* ---- expressions ---- */

static int add_to_set(char *name, void *user, struct err *err)
{
    return set_add(user, name, err);
}

static int parse_operand(struct nodeset *set, const char *text, size_t len, struct err *err)
{
    while (len > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        len--;
    }
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        len--;
    for (size_t i = 0, in = 0; i < len; i++) {
        in += text[i] == '[';
        in -= text[i] == ']' && in > 0;
        if ((unsigned char)text[i] <= ' ' && in == 0)
            return err_set(err, ERR_INVALID, "a blank in the name '%.*s'",
                           (int)(len < 80 ? len : 80), text);
    }
    if (len > 0 && text[0] == '@')
        return err_set(err, ERR_UNSUPPORTED, "groups such as '%.*s' are not supported",
                       (int)(len < 80 ? len : 80), text);
    int rc = operand_expand(text, len, false, NODESET_MAX, add_to_set, set, err);
    set_normalise(set);
    return rc;
}

/* What stays of two sorted lists: names of a alone, of both, of b alone. */
static void combine(struct nodeset *a, struct nodeset *b, bool only_a, bool both, bool only_b)
{
    struct nodeset *out = set_new();
    int i = 0, j = 0;
    while (i < a->count || j < b->count) {
        int order = i == a->count   ? 1
                    : j == b->count ? -1
                                    : item_compare(&a->items[i], &b->items[j]);
        bool keep = order < 0 ? only_a : order > 0 ? only_b : both;
        char **from = order <= 0 ? &a->items[i].name : &b->items[j].name;
        if (keep) {
            (void)set_add(out, *from, NULL);
            *from = NULL;
        }
        i += order <= 0;
        j += order >= 0;
    }
    struct nodeset old = *a;
    *a = *out;
    *out = old;
    nodeset_free(out);
}

/* A union only appends, to be sorted before the next other operator or at the end: lists of many
 * names are the usual case. */
static int unite(struct nodeset *set, struct nodeset *operand, struct err *err)
{
    if (set->count > NODESET_MAX - operand->count)
        set_normalise(set);
    for (int i = 0; i < operand->count; i++) {
        char *name = operand->items[i].name;
        operand->items[i].name = NULL;
        if (set_add(set, name, err) < 0)
            return -(int)err->code;
    }
    return 0;
}

static int apply(char op, struct nodeset *set, struct nodeset *operand, struct err *err)
{
    if (op == ',')
        return unite(set, operand, err);
    set_normalise(set);
    combine(set, operand, op != '&', op == '&', op == '^');
    return set->count > NODESET_MAX ? err_set(err, ERR_LIMIT, "more than %d names", NODESET_MAX)
                                    : 0;
}

/* The end of the operand at p: an operator outside of brackets, or the end. */
static const char *operand_end(const char *p)
{
    int depth = 0;
    for (; *p != '\0'; p++) {
        if (*p == '[')
            depth++;
        else if (*p == ']' && depth > 0)
            depth--;
        else if (depth == 0 && strchr(",!&^", *p) != NULL)
            break;
    }
    return p;
}

static bool is_blank(const char *text, const char *end)
{
    while (text < end && (*text == ' ' || *text == '\t' || *text == '\n' || *text == '\r'))
        text++;
    return text == end;
}

/* Multi-dimensional names come in the order of their folded form, as clustershell lists them. */
static void order_vectors(struct nodeset *set);

struct nodeset *nodeset_parse(const char *text, struct err *err)
{
    struct err local;
    if (err == NULL)
        err = &local;
    struct nodeset *set = set_new();
    size_t len = strlen(text);
    if (len > TEXT_MAX) {
        (void)err_set(err, ERR_LIMIT, "a nodeset of more than %d bytes", TEXT_MAX);
        nodeset_free(set);
        return NULL;
    }
    if (is_blank(text, text + len))
        return set;
    char op = ',';
    for (const char *p = text;;) {
        const char *end = operand_end(p);
        struct nodeset *operand = set_new();
        int rc = is_blank(p, end) ? err_set(err, ERR_INVALID, "a name is missing beside '%c'",
                                            *end != '\0' ? *end : op)
                                  : parse_operand(operand, p, (size_t)(end - p), err);
        if (rc == 0)
            rc = apply(op, set, operand, err);
        nodeset_free(operand);
        if (rc < 0) {
            nodeset_free(set);
            return NULL;
        }
        if (*end == '\0')
            break;
        op = *end;
        p = end + 1;
    }
    set_normalise(set);
    order_vectors(set);
    return set;
}

/* ---- order of several dimensions ---- */

static void emit(struct nodeset *set, int base, int count, const struct nodeset_vector *v,
                 int vectors, int dims)
{
    /* items of one pattern are sorted: each tuple is found by bisection */
    struct nodeset_item *out = xcalloc((size_t)count, sizeof *out);
    int n = 0;
    for (int k = 0; k < vectors; k++) {
        int at[NODESET_DIMS] = {0};
        for (;;) {
            struct nodeset_item key = set->items[base];
            for (int d = 0; d < dims; d++)
                key.idx[d] = v[k].list[d][at[d]];
            const struct nodeset_item *found =
                bsearch(&key, &set->items[base], (size_t)count, sizeof key, item_compare);
            if (found != NULL && n < count)
                out[n++] = *found;
            int d = dims - 1;
            while (d >= 0 && ++at[d] == v[k].len[d])
                at[d--] = 0;
            if (d < 0)
                break;
        }
    }
    if (n == count)
        memcpy(&set->items[base], out, (size_t)count * sizeof *out);
    free(out);
}

static void order_vectors(struct nodeset *set)
{
    for (int i = 0, j; i < set->count; i = j) {
        for (j = i + 1; j < set->count && set->items[j].pattern == set->items[i].pattern;)
            j++;
        if (set->items[i].dims < 2 || j - i < 2)
            continue;
        int vectors;
        struct nodeset_vector *v = vectors_fold(&set->items[i], j - i, &vectors);
        if (vectors > 1) /* else they are in order already */
            emit(set, i, j - i, v, vectors, set->items[i].dims);
        vectors_free(v, vectors);
    }
}

/* ---- looking in ---- */

int nodeset_count(const struct nodeset *set)
{
    return set->count;
}

const char *nodeset_at(const struct nodeset *set, int index)
{
    return index >= 0 && index < set->count ? set->items[index].name : NULL;
}

bool nodeset_contains(const struct nodeset *set, const char *name)
{
    struct nodeset *s = (struct nodeset *)set;
    if (s->names == NULL) {
        s->names = map_new();
        for (int i = 0; i < s->count; i++)
            (void)map_set(s->names, s->items[i].name, &s->items[i]);
    }
    return map_get(s->names, name) != NULL;
}
