/*
 * SHA-256, HMAC, random bytes and ed25519 public keys, over libcrypto. Used for fingerprints,
 * tokens, artefacts and SSH keys.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DIGEST_SIZE 32
#define DIGEST_HEX_SIZE 65 /* with the NUL */

struct digest; /* a running SHA-256 */
struct digest *digest_new(void);
void digest_add(struct digest *d, const void *data, size_t len);
/* Writes lower-case hex and frees d. */
void digest_finish(struct digest *d, char hex[DIGEST_HEX_SIZE]);

void digest_hex(const void *data, size_t len, char hex[DIGEST_HEX_SIZE]);
/* HMAC-SHA256 as hex: a fingerprint of a secret that is useless without the key. */
void digest_hmac_hex(const void *key, size_t key_len, const void *data, size_t len,
                     char hex[DIGEST_HEX_SIZE]);
/* SHA-256 of a file; blocking, for worker threads and tools. */
int digest_file(const char *path, char hex[DIGEST_HEX_SIZE], struct err *err);
/* `len` random bytes as 2*len hex digits and a NUL. Aborts when the system has none. */
void random_hex(size_t len, char *hex);

/* The public half of an ed25519 key from its 32-byte seed (RFC 8032): for the SSH key file. */
void ed25519_public(const unsigned char seed[32], unsigned char ret_public[32]);
