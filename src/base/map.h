/*
 * A map from strings to pointers (uthash behind it). The keys are copied, the values are not owned.
 */
#pragma once

#include <stddef.h>

struct map;

struct map *map_new(void);
void map_free(struct map *m); /* NULL allowed */
/* Replaces; returns the value that was there before, or NULL. */
void *map_set(struct map *m, const char *key, void *value);
void *map_get(const struct map *m, const char *key);
void *map_remove(struct map *m, const char *key); /* the value that was there, or NULL */
size_t map_count(const struct map *m);
/* In order of insertion; fn may not change the map. */
void map_each(const struct map *m, void (*fn)(const char *key, void *value, void *user),
              void *user);
