/*
 * What a webhook says, without saying it: which events it wants, bodies, signatures, pauses. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "store/store.h"

#define NOTIFY_SKIPPED "notify.skipped"

/* Does one of the globs (`*`, `?`) match the kind? */
bool notify_wants(char *const *globs, int count, const char *kind);
/* {cluster, id, at, node, kind, stage, attempt, text, actor} as one line. The caller frees. */
char *notify_body(const char *cluster, const struct store_event *e);
/* The same for the synthetic event in the place of those that were skipped up to `id`. */
char *notify_skipped_body(const char *cluster, int64_t id, int64_t count, int64_t at);
/* HMAC-SHA256(secret, timestamp "." body): RFC 2104 and FIPS 180-4, as hex. */
void notify_sign(const char *secret, int64_t timestamp, const char *body,
                 char hex[DIGEST_HEX_SIZE]);
/* The pause in ms after so many failures in a row (1, 2, ...): 1 s, doubling up to 10 min, of which
 * `random` takes off up to one half. */
int64_t notify_pause(int failures, uint32_t random);
