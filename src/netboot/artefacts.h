/*
 * Artefacts: the files that machines fetch, named by their SHA-256. The index looks at a directory,
 * hashes new files on a worker thread and remembers digests by path, size and time of change, so
 * that a restart hashes nothing twice. Used by netboot's decision, job and HTTP answers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "loop/loop.h"

struct artefacts;

struct artefact {
    char name[128]; /* letters, digits, '.', '_', '+', '-'; does not begin with '.' */
    char *path;
    int64_t size, mtime_ns;
    char sha256[DIGEST_HEX_SIZE]; /* "" while it is being hashed */
    char problem[160];            /* why it cannot be hashed; "" */
    bool queued;                  /* wants a digest */
    unsigned scan;                /* the last look that saw it */
};

struct artefacts_hooks {
    /* A digest was computed; for the database. */
    void (*hashed)(const struct artefact *a, void *user);
    /* "artefact.new", "artefact.gone", "artefact.bad", with a text for people. */
    void (*event)(const char *kind, const char *text, void *user);
    void *user;
};

struct artefacts *artefacts_new(struct loop *loop, const char *dir,
                                const struct artefacts_hooks *hooks);
/* A worker that still hashes finishes by itself. NULL allowed. */
void artefacts_free(struct artefacts *as);
/* A digest known from before; used when size and time are still the same. Before the first look. */
void artefacts_remember(struct artefacts *as, const char *path, int64_t size, int64_t mtime_ns,
                        const char *sha256);
/* Looks at the directory now. */
void artefacts_scan(struct artefacts *as);

/* ERR_NOT_FOUND, or ERR_BUSY while it is being hashed. *ret is borrowed until the next look. */
int artefacts_find(struct artefacts *as, const char *name, const struct artefact **ret,
                   struct err *err);
/* For serving: the file of that name and digest, if it still is what was hashed. */
const struct artefact *artefacts_open(struct artefacts *as, const char *sha256, const char *name);
/* How many have a digest; *ret_hashing: how many wait for one. */
int artefacts_count(const struct artefacts *as, int *ret_hashing);
bool artefact_name_valid(const char *name);
