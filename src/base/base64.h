/*
 * Base64 (RFC 4648 with padding), for SSH's key files and key lines.
 */
#pragma once

#include <stddef.h>

/* The bytes that base64_encode needs for `len` bytes, with the NUL. */
#define BASE64_SIZE(len) (((len) + 2) / 3 * 4 + 1)

void base64_encode(const unsigned char *data, size_t len, char *text);
/* Decodes text[0..len), white space skipped, into `out` of `max` bytes. Returns 0 and *ret_len, or
 * -1: a character that does not belong there, wrong padding or no room. */
int base64_decode(const char *text, size_t len, unsigned char *out, size_t max, size_t *ret_len);
