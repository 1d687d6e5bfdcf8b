#include "base/map.h"

#include <uthash.h>

#include "base/mem.h"

struct entry {
    char *key;
    void *value;
    UT_hash_handle hh;
};

struct map {
    struct entry *head;
};

struct map *map_new(void)
{
    return xcalloc(1, sizeof(struct map));
}

static void drop(struct map *m, struct entry *e)
{
    HASH_DEL(m->head, e);
    free(e->key);
    free(e);
}

void map_free(struct map *m)
{
    if (m == NULL)
        return;
    struct entry *e, *tmp;
    HASH_ITER(hh, m->head, e, tmp)
    {
        drop(m, e); // cppcheck-suppress uninitvar ; the iterator of uthash sets it
    }
    free(m);
}

static struct entry *find(const struct map *m, const char *key)
{
    struct entry *e = NULL;
    HASH_FIND_STR(m->head, key, e);
    return e;
}

void *map_set(struct map *m, const char *key, void *value)
{
    struct entry *e = find(m, key);
    if (e != NULL) {
        void *old = e->value;
        e->value = value;
        return old;
    }
    e = xcalloc(1, sizeof *e);
    e->key = xstrdup(key);
    e->value = value;
    HASH_ADD_KEYPTR(hh, m->head, e->key, strlen(e->key), e);
    return NULL;
}

void *map_get(const struct map *m, const char *key)
{
    struct entry *e = find(m, key);
    return e != NULL ? e->value : NULL;
}

void *map_remove(struct map *m, const char *key)
{
    struct entry *e = find(m, key);
    if (e == NULL)
        return NULL;
    void *value = e->value;
    drop(m, e);
    return value;
}

size_t map_count(const struct map *m)
{
    return HASH_COUNT(m->head);
}

void map_each(const struct map *m, void (*fn)(const char *key, void *value, void *user), void *user)
{
    struct entry *e, *tmp;
    HASH_ITER(hh, m->head, e, tmp)
    {
        fn(e->key, e->value, user);
    }
}
