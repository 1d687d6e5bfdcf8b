/* How long stages take in this cluster: what a plan's minutes come from. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "engine/node.h"

enum { KEPT = 31, LOADED = 2000 };

struct history {
    int64_t took_ms[KEPT]; /* a ring */
    int count;             /* ever */
};

void history_add(struct engine *e, const char *stage, int64_t took_ms)
{
    if (e->history == NULL)
        e->history = map_new();
    struct history *h = map_get(e->history, stage);
    if (h == NULL) {
        h = xcalloc(1, sizeof *h);
        (void)map_set(e->history, stage, h);
    }
    h->took_ms[h->count++ % KEPT] = took_ms > 0 ? took_ms : 1;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

int64_t history_typical_ms(const struct engine *e, const char *stage)
{
    const struct history *h = e->history != NULL ? map_get(e->history, stage) : NULL;
    int64_t sorted[KEPT];
    if (h == NULL)
        return -1;
    int n = h->count < KEPT ? h->count : KEPT;
    memcpy(sorted, h->took_ms, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    return sorted[n / 2];
}

static void load_pass(const struct store_attempt *row, void *user)
{
    history_add(user, row->stage, row->ended_at - row->started_at);
}

int history_load(struct engine *e, struct err *err)
{
    return store_each_passed_attempt(e->store, LOADED, load_pass, e, err);
}

static void free_one(const char *key, void *value, void *user)
{
    (void)key;
    (void)user;
    free(value);
}

void history_free(struct engine *e)
{
    if (e->history != NULL)
        map_each(e->history, free_one, NULL);
    map_free(e->history);
}
