/*
 * Files: read with a cap, replace atomically, safe joins. Errors name the path.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* Reads a whole file of at most `max` bytes; *ret_data is NUL-terminated, the caller frees it. */
int fs_read(const char *path, size_t max, char **ret_data, size_t *ret_len, struct err *err);
/* Writes to a temporary neighbour, fsyncs and renames over `path`. */
int fs_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *err);
/* mkdir -p */
int fs_mkdirs(const char *path, mode_t mode, struct err *err);
/* dir + "/" + name; refuses names that are absolute or hold a ".." part. The caller frees. */
int fs_join(const char *dir, const char *name, char **ret_path, struct err *err);
/* The text before the last '/', or "." - the caller frees. */
char *fs_dirname(const char *path);
