/*
 * Memory: allocate or abort, and scoped clean-up for function temporaries.
 *
 * Running out of memory ends the process: the state is on disk and a restart is safe, while an
 * untested error branch on every line is not. Inputs from outside are capped before they get here.
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>

void *xcalloc(size_t count, size_t size);
void *xrealloc(void *ptr, size_t count, size_t size); /* checks count * size for overflow */
char *xstrdup(const char *text);                      /* NULL gives NULL */
char *xstrndup(const char *text, size_t max);
void *xmemdup(const void *data, size_t len);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Wipes in a way that the compiler keeps, then frees. NULL allowed. */
void mem_wipe_free(void *ptr, size_t len);

static inline void mem_cleanup_free(void *pp)
{
    free(*(void **)pp);
}
/* char *s cleanup_free = ...;  frees s at the end of the scope */
#define cleanup_free __attribute__((cleanup(mem_cleanup_free)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Makes room for one more element in a growing array {items, count, capacity}. */
#define ARRAY_GROW(items, count, capacity)                                                         \
    do {                                                                                           \
        if ((count) == (capacity)) {                                                               \
            (capacity) = (capacity) ? (capacity)*2 : 8;                                            \
            (items) = xrealloc((items), (capacity), sizeof *(items));                              \
        }                                                                                          \
    } while (0)
