/*
 * A bundle: the files of one apply, in memory - the spec and the CSV files that it names.
 *
 * The model does no I/O. Programs load files into a bundle (spec_wants() says which are still
 * missing), the API carries bundles as JSON, and the store keeps them as revisions.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

struct bundle_file {
    char *path; /* as written by the user; the spec itself comes first */
    char *text;
    size_t len;
};

struct bundle {
    struct bundle_file *files;
    int count;
    int capacity;
};

void bundle_init(struct bundle *b);
void bundle_done(struct bundle *b);
/* Copies. */
void bundle_add(struct bundle *b, const char *path, const char *text, size_t len);
const struct bundle_file *bundle_find(const struct bundle *b, const char *path);
/* [{"path": ..., "text": ...}], as the API and the store carry it. At most 1000 files of 16 MiB in
 * all. An initialised bundle is filled; *err says what is wrong with the JSON. */
int bundle_from_json(struct bundle *b, const json_t *files, struct err *err);
/* The caller json_decref()s. */
json_t *bundle_to_json(const struct bundle *b);
