/*
 * Private keys for login and public host keys for comparison. Used by this room, its tests and the
 * fuzzer; other rooms see remote.h.
 */
#pragma once

#include <stddef.h>

#include "remote/remote.h"

enum { KEY_FILE_MAX = 16384, KEY_PUBLIC_BLOB = 4 + 11 + 4 + 32, KEY_FINGERPRINT_SIZE = 56 };

/* What remote_key_load() does with a file's content. `text` may hold any bytes. */
int remote_key_parse(const char *text, size_t len, struct remote_key **ret_key, struct err *err);

/* The private key as libssh2 reads it from memory: OpenSSH's format. Borrowed; a secret. */
const char *remote_key_private(const struct remote_key *key, size_t *ret_len);

/* "ssh-ed25519 AAAA... [comment]" to the blob that a server presents. */
int host_key_parse(const char *line, unsigned char blob[KEY_PUBLIC_BLOB], struct err *err);
/* "SHA256:..." as ssh-keygen -l shows it. Returns buf. */
const char *key_fingerprint(const unsigned char *blob, size_t len, char buf[KEY_FINGERPRINT_SIZE]);
