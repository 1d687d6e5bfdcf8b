/*
 * A growing text buffer with a mandatory maximum: what outside data can fill must say how far.
 *
 * Going over the maximum sets a sticky overflow flag and drops the rest; callers check once at the
 * end with strbuf_ok(). The text is always NUL-terminated. Embedded: strbuf_init/strbuf_done.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct strbuf {
    char *data; /* NUL-terminated; "" while empty */
    size_t len;
    size_t capacity;
    size_t max; /* the most bytes it will hold, without the NUL */
    bool overflow;
};

void strbuf_init(struct strbuf *sb, size_t max);
void strbuf_done(struct strbuf *sb);
void strbuf_reset(struct strbuf *sb); /* empties, keeps memory, clears the overflow flag */
void strbuf_add(struct strbuf *sb, const void *data, size_t len);
void strbuf_adds(struct strbuf *sb, const char *text);
void strbuf_addc(struct strbuf *sb, char c);
void strbuf_addf(struct strbuf *sb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void strbuf_vaddf(struct strbuf *sb, const char *fmt, va_list ap);
/* Drops `len` bytes from the front. */
void strbuf_consume(struct strbuf *sb, size_t len);
static inline bool strbuf_ok(const struct strbuf *sb)
{
    return !sb->overflow;
}
/* Hands the text to the caller, who frees it; the buffer is empty afterwards. Never NULL. */
char *strbuf_take(struct strbuf *sb);
