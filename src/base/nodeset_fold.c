/*
 * Folding: names to ranges. One dimension is a walk over sorted numbers. Several are merged as
 * clustershell merges them, so that results are the same: two vectors that differ in one dimension
 * become one, the largest first, until nothing changes. A set that is so irregular that more than
 * FULL_PASS_MAX vectors are left when neighbours are merged stays at that: right, but not as short.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/nodeset_int.h"

enum { FULL_PASS_MAX = 4096 };

/* ---- one list of numbers ---- */

static void add_number(struct strbuf *out, uint64_t value, unsigned width)
{
    strbuf_addf(out, "%0*llu", (int)width, (unsigned long long)value);
}

static bool is_padded(nodeset_index i)
{
    uint64_t limit = 1;
    for (unsigned d = 1; d < index_digits(i); d++)
        limit *= 10;
    return index_digits(i) > 1 && index_value(i) < limit;
}

/* Whether `next` follows `last` in one range, and *width (of the zero padding, 0: none) from there
 * on. As with clustershell the width outlives a single number that has a gap behind it: with padded
 * and longer plain numbers in one list, "064,100-999,1000-1001". */
static bool continues(nodeset_index last, nodeset_index next, bool single, unsigned *width)
{
    bool other = *width > 0 ? index_digits(next) != *width : is_padded(next);
    bool follows = !other && index_value(next) == index_value(last) + 1;
    if (other || (!follows && !single))
        *width = is_padded(next) ? index_digits(next) : 0;
    return follows;
}

/* "1-3,5", in ascending order. */
static void fold_list(const nodeset_index *list, int len, struct strbuf *out)
{
    unsigned width = is_padded(list[0]) ? index_digits(list[0]) : 0;
    for (int i = 0, j; i < len; i = j) {
        unsigned shown = width;
        for (j = i + 1; j < len && continues(list[j - 1], list[j], j - i == 1, &width);)
            j++;
        if (i > 0)
            strbuf_addc(out, ',');
        add_number(out, index_value(list[i]), shown);
        if (j - i > 1) {
            strbuf_addc(out, '-');
            add_number(out, index_value(list[j - 1]), shown);
        }
    }
}

static void fold_dimension(const nodeset_index *list, int len, struct strbuf *out)
{
    if (len == 1) {
        fold_list(list, len, out);
        return;
    }
    strbuf_addc(out, '[');
    fold_list(list, len, out);
    strbuf_addc(out, ']');
}

/* ---- vectors ---- */

static double volume(const struct nodeset_vector *v, int dims)
{
    double product = 1;
    for (int d = 0; d < dims; d++)
        product *= v->len[d];
    return product;
}

/* Numbers as text: "10" before "2", "0" before "003". The shorter one is compared with as many
 * leading digits of the longer one. */
static int compare_as_text(nodeset_index x, nodeset_index y)
{
    uint64_t a = index_value(x), b = index_value(y);
    unsigned da = index_digits(x), db = index_digits(y);
    for (unsigned d = da; d < db; d++)
        b /= 10;
    for (unsigned d = db; d < da; d++)
        a /= 10;
    if (a != b)
        return a < b ? -1 : 1;
    return da < db ? -1 : da > db;
}

/* The largest first, then by first and last number; what is equal stays in order. */
static int vector_compare(const void *a, const void *b, void *user)
{
    const struct nodeset_vector *x = a, *y = b;
    int dims = *(const int *)user;
    double vx = volume(x, dims), vy = volume(y, dims);
    if (vx != vy)
        return vx > vy ? -1 : 1;
    for (int d = 0; d < dims; d++) {
        if (x->len[d] != y->len[d])
            return x->len[d] > y->len[d] ? -1 : 1;
        int order = compare_as_text(x->list[d][0], y->list[d][0]);
        if (order == 0)
            order = compare_as_text(x->list[d][x->len[d] - 1], y->list[d][y->len[d] - 1]);
        if (order != 0)
            return order;
    }
    return x->order < y->order ? -1 : x->order > y->order;
}

static void sort_vectors(struct nodeset_vector *v, int count, int dims)
{
    for (int i = 0; i < count; i++)
        v[i].order = i;
    if (count > 1)
        qsort_r(v, (size_t)count, sizeof *v, vector_compare, &dims);
}

static bool same_list(const struct nodeset_vector *a, const struct nodeset_vector *b, int d)
{
    return a->len[d] == b->len[d] &&
           memcmp(a->list[d], b->list[d], (size_t)a->len[d] * sizeof *a->list[d]) == 0;
}

/* The union of both in *ret, and how many both have. */
static int merge_lists(const nodeset_index *a, int na, const nodeset_index *b, int nb,
                       nodeset_index *ret, int *ret_len)
{
    int i = 0, j = 0, n = 0, common = 0;
    while (i < na || j < nb) {
        if (j == nb || (i < na && a[i] < b[j])) {
            ret[n++] = a[i++];
        } else if (i == na || b[j] < a[i]) {
            ret[n++] = b[j++];
        } else {
            ret[n++] = a[i++];
            j++;
            common++;
        }
    }
    *ret_len = n;
    return common;
}

/* The most frequent case, in place: one more number into a sorted list. */
static void insert_number(struct nodeset_vector *a, int d, nodeset_index number)
{
    nodeset_index *list = a->list[d];
    int low = 0, high = a->len[d];
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (list[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < a->len[d] && list[low] == number)
        return;
    /* full at each power of two */
    if ((a->len[d] & (a->len[d] - 1)) == 0)
        a->list[d] = list = xrealloc(list, 2 * (size_t)a->len[d], sizeof *list);
    memmove(&list[low + 1], &list[low], (size_t)(a->len[d] - low) * sizeof *list);
    list[low] = number;
    a->len[d]++;
}

static bool merge_dimension(struct nodeset_vector *a, const struct nodeset_vector *b, int d)
{
    int len, na = a->len[d], nb = b->len[d];
    size_t room = 1;
    if (nb == 1) {
        insert_number(a, d, b->list[d][0]);
        return true;
    }
    while (room < (size_t)na + (size_t)nb)
        room *= 2;
    nodeset_index *list = xcalloc(room, sizeof *list);
    int common = merge_lists(a->list[d], na, b->list[d], nb, list, &len);
    if (common != 0 && common != na && common != nb) {
        free(list);
        return false;
    }
    free(a->list[d]);
    a->list[d] = list;
    a->len[d] = len;
    return true;
}

/* Merges b into a when they differ in at most one dimension, and there one holds the other or they
 * have nothing in common. */
static bool merge_vectors(struct nodeset_vector *a, const struct nodeset_vector *b, int dims)
{
    int differs = -1;
    for (int d = 0; d < dims; d++) {
        if (same_list(a, b, d))
            continue;
        if (differs >= 0)
            return false;
        differs = d;
    }
    return differs < 0 || merge_dimension(a, b, differs);
}

static void vector_done(struct nodeset_vector *v)
{
    for (int d = 0; d < NODESET_DIMS; d++)
        free(v->list[d]);
    *v = (struct nodeset_vector){0};
}

void vectors_free(struct nodeset_vector *v, int count)
{
    for (int i = 0; i < count; i++)
        vector_done(&v[i]);
    free(v);
}

/* One pass over the sorted vectors; `full` looks at all pairs, else at neighbours that match. The
 * merged ones are empty until the end of the pass, which closes the gaps. */
static bool merge_pass(struct nodeset_vector *v, int *count, int dims, bool full)
{
    int kept = 0;
    for (int i = 0; i < *count; i++) {
        for (int j = i + 1; j < *count && v[i].len[0] > 0; j++) {
            if (v[j].len[0] == 0)
                continue;
            if (merge_vectors(&v[i], &v[j], dims))
                vector_done(&v[j]);
            else if (!full)
                break;
        }
    }
    for (int i = 0; i < *count; i++)
        if (v[i].len[0] > 0)
            v[kept++] = v[i];
    bool changed = kept < *count;
    *count = kept;
    return changed;
}

static int compare_index(const void *a, const void *b)
{
    nodeset_index x = *(const nodeset_index *)a, y = *(const nodeset_index *)b;
    return x < y ? -1 : x > y;
}

/* The numbers of one dimension, each once. */
static int list_dimension(const struct nodeset_item *items, int count, int d, nodeset_index **ret)
{
    int n = 0;
    nodeset_index *list = xcalloc((size_t)count, sizeof *list);
    for (int i = 0; i < count; i++)
        list[i] = items[i].idx[d];
    qsort(list, (size_t)count, sizeof *list, compare_index);
    for (int i = 0; i < count; i++)
        if (i == 0 || list[i] != list[i - 1])
            list[n++] = list[i];
    *ret = list;
    return n;
}

/* Most sets are a whole grid, of which one vector is seen without any merging. */
static bool fold_grid(const struct nodeset_item *items, int count, struct nodeset_vector *v)
{
    int dims = items[0].dims;
    for (int d = 0; d < dims; d++)
        v->len[d] = list_dimension(items, count, d, &v->list[d]);
    if (volume(v, dims) == (double)count)
        return true;
    vector_done(v);
    return false;
}

struct nodeset_vector *vectors_fold(const struct nodeset_item *items, int count, int *ret_count)
{
    struct nodeset_vector *v = xcalloc((size_t)count, sizeof *v);
    int dims = items[0].dims, n = count;
    *ret_count = 1;
    if (fold_grid(items, count, v))
        return v;
    for (int i = 0; i < count; i++)
        for (int d = 0; d < dims; d++) {
            v[i].list[d] = xmemdup(&items[i].idx[d], sizeof items[i].idx[d]);
            v[i].len[d] = 1;
        }
    for (bool full = false;;) {
        sort_vectors(v, n, dims);
        if (merge_pass(v, &n, dims, full))
            continue;
        if (full || n > FULL_PASS_MAX)
            break;
        full = true;
    }
    *ret_count = n;
    return v;
}

/* ---- the whole set ---- */

static void add_vector(const char *pattern, const struct nodeset_vector *v, struct strbuf *out)
{
    int d = 0;
    for (const char *p = pattern; *p != '\0'; p++) {
        if (p[0] == '%' && p[1] == 's' && d < NODESET_DIMS && v->len[d] > 0) {
            fold_dimension(v->list[d], v->len[d], out);
            d++;
            p++;
        } else {
            strbuf_addc(out, *p);
            p += p[0] == '%' && p[1] == '%';
        }
    }
}

static void fold_one_dimension(const struct nodeset_item *items, int count, struct strbuf *out)
{
    struct nodeset_vector v = {0};
    v.list[0] = xcalloc((size_t)count, sizeof *v.list[0]);
    v.len[0] = count;
    for (int i = 0; i < count; i++)
        v.list[0][i] = items[i].idx[0];
    add_vector(items[0].pattern, &v, out);
    free(v.list[0]);
}

void nodeset_fold(const struct nodeset *set, struct strbuf *out)
{
    for (int i = 0, j; i < set->count; i = j) {
        const struct nodeset_item *first = &set->items[i];
        for (j = i + 1; j < set->count && set->items[j].pattern == first->pattern;)
            j++;
        if (i > 0)
            strbuf_addc(out, ',');
        if (first->dims == 0) {
            strbuf_adds(out, first->name);
        } else if (first->dims == 1) {
            fold_one_dimension(first, j - i, out);
        } else {
            int vectors;
            struct nodeset_vector *v = vectors_fold(first, j - i, &vectors);
            for (int k = 0; k < vectors; k++) {
                if (k > 0)
                    strbuf_addc(out, ',');
                add_vector(first->pattern, &v[k], out);
            }
            vectors_free(v, vectors);
        }
    }
}
