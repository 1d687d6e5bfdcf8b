/*
 * YAML: one document as a tree of nodes that know file, line and column. Used by model (specs,
 * profiles) and by the daemon's configuration.
 *
 * Anchors, aliases and merge keys (`<<`) are resolved: an aliased node is the same node, found
 * under several parents, at the position where it was written. Everything that a hostile file can
 * grow has a maximum; going over it is a diagnostic like any other. All functions take the tree
 * read-only.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/diag.h"

#define YDOC_MAX_BYTES (4u << 20)
#define YDOC_MAX_DEPTH 64 /* aliases counted as copies */
#define YDOC_MAX_NODES 500000
#define YDOC_MAX_EXPANDED 1000000 /* nodes when every alias is counted as a copy */

enum ynode_kind { YNODE_SCALAR, YNODE_LIST, YNODE_MAP };

struct ynode {
    enum ynode_kind kind;
    const char *file;
    int line, column; /* from 1 */
    char *text;       /* scalar: without NUL bytes, UTF-8 */
    bool quoted;      /* scalar: in quotes or as a block, so always text */
    int count;        /* list: items; map: pairs */
    struct ynode **items;
    struct ypair *pairs; /* in order of writing, merged ones last; keys are unique scalars */
};

struct ypair {
    struct ynode *key, *value;
};

struct ydoc;

/* NULL when the text is not one YAML document within the limits; `d` says why. */
struct ydoc *ydoc_parse(const char *file, const char *text, size_t len, struct diags *d);
void ydoc_free(struct ydoc *doc);
const struct ynode *ydoc_root(const struct ydoc *doc);

/* The value of a map's key, or NULL (also when `map` is no map). Linear: for small maps. */
const struct ynode *ynode_get(const struct ynode *map, const char *key);
/* "a list", "a mapping", "text", "a number", "true or false", "nothing": for messages. */
const char *ynode_kind_text(const struct ynode *n);
/* Unquoted and empty, `~` or `null`. */
bool ynode_is_null(const struct ynode *n);
bool ynode_bool(const struct ynode *n, bool *ret_value);
bool ynode_int(const struct ynode *n, int64_t *ret_value);
bool ynode_number(const struct ynode *n, double *ret_value); /* finite */

/*
 * As JSON: plain scalars become null, true, false, numbers or text by the rules of YAML 1.2's core
 * schema (so `no` and `on` are text). With `as_text` every scalar is text exactly as written: the
 * version 580.10 stays "580.10".
 */
json_t *ynode_json(const struct ynode *n, bool as_text);

void ynode_error(const struct ynode *n, struct diags *d, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void ynode_warning(const struct ynode *n, struct diags *d, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
