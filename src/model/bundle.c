#include "model/bundle.h"

#include <string.h>

#include "base/mem.h"

void bundle_init(struct bundle *b)
{
    *b = (struct bundle){0};
}

void bundle_done(struct bundle *b)
{
    for (int i = 0; i < b->count; i++) {
        free(b->files[i].path);
        free(b->files[i].text);
    }
    free(b->files);
    bundle_init(b);
}

void bundle_add(struct bundle *b, const char *path, const char *text, size_t len)
{
    ARRAY_GROW(b->files, b->count, b->capacity);
    char *copy = xcalloc(1, len + 1);
    if (len > 0)
        memcpy(copy, text, len);
    b->files[b->count++] = (struct bundle_file){.path = xstrdup(path), .text = copy, .len = len};
}

const struct bundle_file *bundle_find(const struct bundle *b, const char *path)
{
    for (int i = 0; i < b->count; i++)
        if (strcmp(b->files[i].path, path) == 0)
            return &b->files[i];
    return NULL;
}
