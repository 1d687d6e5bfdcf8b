/*
 * What the files of nodesets share: a name split into its pattern and its numbers.
 */
#pragma once

#include <stdint.h>

#include "base/nodeset.h"

enum {
    NODESET_DIMS = 8,        /* numbers in one name; further ones are text */
    NODESET_DIGITS_MAX = 16, /* longer runs of digits are text */
    NODESET_NAME_MAX = 255,
};

/* A number with its width: "007" and "7" differ. Ordered as clustershell orders: by width first. */
typedef uint64_t nodeset_index;
static inline nodeset_index index_make(uint64_t value, unsigned digits)
{
    return (uint64_t)digits << 56 | value;
}
static inline uint64_t index_value(nodeset_index i)
{
    return i & 0xffffffffffffffULL;
}
static inline unsigned index_digits(nodeset_index i)
{
    return (unsigned)(i >> 56);
}

struct nodeset_item {
    char *name;
    const char *pattern; /* "n%s-ib%s", interned in the set; "%%" is a '%' */
    int dims;
    nodeset_index idx[NODESET_DIMS];
};

struct nodeset {
    struct nodeset_item *items;
    int count, capacity;
    struct map *patterns; /* text -> the same text, owned */
    struct map *names;    /* name -> item, made on demand */
};

struct nodeset *set_new(void);
/* Splits and adds; takes `name`. */
int set_add(struct nodeset *set, char *name, struct err *err);
/* Sorts by pattern and numbers, drops duplicates. */
void set_normalise(struct nodeset *set);
int item_compare(const void *a, const void *b);

/* Calls add(name, user) for every name of an operand with brackets, in the order of writing. A
 * `pattern` of a spec may hold what has two readings as a nodeset. */
int operand_expand(const char *text, size_t len, bool pattern, int max,
                   int (*add)(char *name, void *user, struct err *err), void *user,
                   struct err *err);

/* One vector of a folded set: a list of numbers for each dimension. */
struct nodeset_vector {
    nodeset_index *list[NODESET_DIMS];
    int len[NODESET_DIMS];
    int order; /* before the sorting */
};
/* Folds `count` items of one pattern with two or more dimensions. The caller frees with
 * vectors_free. */
struct nodeset_vector *vectors_fold(const struct nodeset_item *items, int count, int *ret_count);
void vectors_free(struct nodeset_vector *v, int count);
