#include "base/strbuf.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static char strbuf_empty[1];

void strbuf_init(struct strbuf *sb, size_t max)
{
    *sb = (struct strbuf){.data = strbuf_empty, .max = max};
}

void strbuf_done(struct strbuf *sb)
{
    if (sb->capacity > 0)
        free(sb->data);
    *sb = (struct strbuf){.data = strbuf_empty, .max = sb->max};
}

void strbuf_reset(struct strbuf *sb)
{
    sb->len = 0;
    sb->overflow = false;
    if (sb->capacity > 0)
        sb->data[0] = '\0';
}

static void reserve(struct strbuf *sb, size_t need)
{
    if (need + 1 <= sb->capacity)
        return;
    size_t cap = sb->capacity ? sb->capacity : 64;
    while (cap < need + 1)
        cap *= 2;
    if (sb->capacity == 0)
        sb->data = NULL;
    sb->data = xrealloc(sb->data, cap, 1);
    sb->capacity = cap;
    sb->data[sb->len] = '\0';
}

void strbuf_add(struct strbuf *sb, const void *data, size_t len)
{
    if (sb->overflow)
        return;
    if (len > sb->max - sb->len) {
        len = sb->max - sb->len;
        sb->overflow = true;
    }
    if (len == 0)
        return;
    reserve(sb, sb->len + len);
    memcpy(sb->data + sb->len, data, len);
    sb->len += len;
    sb->data[sb->len] = '\0';
}

void strbuf_adds(struct strbuf *sb, const char *text)
{
    strbuf_add(sb, text, strlen(text));
}

void strbuf_addc(struct strbuf *sb, char c)
{
    strbuf_add(sb, &c, 1);
}

void strbuf_vaddf(struct strbuf *sb, const char *fmt, va_list ap)
{
    char small[256];
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    if (n >= 0 && (size_t)n < sizeof small) {
        strbuf_add(sb, small, (size_t)n);
    } else if (n >= 0) {
        char *big = xcalloc(1, (size_t)n + 1);
        (void)vsnprintf(big, (size_t)n + 1, fmt, again);
        strbuf_add(sb, big, (size_t)n);
        free(big);
    }
    va_end(again);
}

void strbuf_addf(struct strbuf *sb, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    strbuf_vaddf(sb, fmt, ap);
    va_end(ap);
}

void strbuf_consume(struct strbuf *sb, size_t len)
{
    if (len >= sb->len) {
        strbuf_reset(sb);
        return;
    }
    memmove(sb->data, sb->data + len, sb->len - len + 1);
    sb->len -= len;
}

char *strbuf_take(struct strbuf *sb)
{
    char *text = sb->capacity > 0 ? sb->data : xstrdup("");
    *sb = (struct strbuf){.data = strbuf_empty, .max = sb->max};
    return text;
}
