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

enum { BUNDLE_FILES_MAX = 1000, BUNDLE_BYTES_MAX = 16 << 20 };

int bundle_from_json(struct bundle *b, const json_t *files, struct err *err)
{
    size_t i, total = 0;
    json_t *row;
    if (!json_is_array(files) || json_array_size(files) == 0 ||
        json_array_size(files) > BUNDLE_FILES_MAX)
        return err_set(err, ERR_INVALID, "\"files\" must be a list of 1 to %d files",
                       BUNDLE_FILES_MAX);
    json_array_foreach(files, i, row)
    {
        const json_t *text = json_object_get(row, "text");
        const char *path = json_string_value(json_object_get(row, "path"));
        if (path == NULL || path[0] == '\0' || !json_is_string(text))
            return err_set(err, ERR_INVALID, "file %zu must have a \"path\" and a \"text\"", i + 1);
        total += json_string_length(text);
        if (total > BUNDLE_BYTES_MAX)
            return err_set(err, ERR_LIMIT, "the files are larger than %d MiB in all",
                           BUNDLE_BYTES_MAX >> 20);
        bundle_add(b, path, json_string_value(text), json_string_length(text));
    }
    return 0;
}

json_t *bundle_to_json(const struct bundle *b)
{
    json_t *files = json_array();
    for (int i = 0; i < b->count; i++)
        (void)json_array_append_new(files, json_pack("{s:s,s:s%}", "path", b->files[i].path, "text",
                                                     b->files[i].text, b->files[i].len));
    return files;
}
