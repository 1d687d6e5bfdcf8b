#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void out_of_memory(void)
{
    (void)fputs("out of memory\n", stderr);
    abort();
}

void *xcalloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (p == NULL)
        out_of_memory();
    return p;
}

void *xrealloc(void *ptr, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        out_of_memory();
    size_t n = count * size;
    void *p = realloc(ptr, n ? n : 1);
    if (p == NULL)
        out_of_memory();
    return p;
}

char *xstrdup(const char *text)
{
    return text == NULL ? NULL : xmemdup(text, strlen(text) + 1);
}

char *xstrndup(const char *text, size_t max)
{
    size_t n = strnlen(text, max);
    char *p = xcalloc(1, n + 1);
    memcpy(p, text, n);
    return p;
}

void *xmemdup(const void *data, size_t len)
{
    void *p = xcalloc(1, len);
    if (len > 0)
        memcpy(p, data, len);
    return p;
}

char *xasprintf(const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        out_of_memory();
    va_end(ap);
    return text;
}

void mem_wipe_free(void *ptr, size_t len)
{
    if (ptr != NULL) {
        explicit_bzero(ptr, len);
        free(ptr);
    }
}
