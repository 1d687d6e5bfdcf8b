/*
 * The events as evidence: an append-only chain of hashes, and its verification.
 *
 * Every event carries the SHA-256 of the previous event's hash and of all of its own columns
 * (audit.c says how they are written down), and the row of `audit_head` says where the chain ends.
 * So an event that was changed, removed, moved or put in by hand shows. What this cannot show:
 * somebody who can write the whole file can compute the whole chain anew. Against that helps a hash
 * that was noted elsewhere: store_audit_verify() finds out whether the chain still holds it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "loop/op.h"

struct store;

/* The end of a chain: its last event and how many there are. */
struct audit_end {
    int64_t count, id;
    char hash[DIGEST_HEX_SIZE]; /* zeros before the first event */
};

struct audit_report {
    bool intact;
    int64_t events;       /* that follow each other from the first one on */
    struct audit_end end; /* the last of them */
    int64_t bad;          /* the event where the chain breaks; 0: none, or not at one event */
    char text[400];       /* what was found, one line */
};

/* The end that is on disk. */
void store_audit_end(const struct store *s, struct audit_end *ret);
/* 64 lower-case hex digits? */
bool audit_is_hash(const char *text);
/*
 * Walks the chain on a thread of its own, as it is on disk now. `hash` (NULL allowed) must be in
 * it. The op fails only when the file cannot be read; what was found is in store_audit_report().
 */
struct op *store_audit_verify(struct store *s, const char *hash, op_done_fn done, void *user);
const struct audit_report *store_audit_report(const struct op *op);
/* The same for a file that no daemon has to have open: blocking, changes nothing. */
int store_audit_file(const char *path, const char *hash, struct audit_report *ret, struct err *err);
