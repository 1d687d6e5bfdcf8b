/* The table of stages of a rehearsal, out of the daemon's events. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "model/rehearsal.h"

struct span {
    int64_t start; /* of the first attempt, -1: none yet */
    int attempts;
    bool passed, failed, skipped; /* how it stands now */
};

struct stage_times {
    char *name;
    struct map *nodes; /* name -> struct span */
    int64_t first, last;
    int64_t *took; /* of those that passed */
    int took_count, took_capacity;
    int retries;
};

struct timeline {
    int64_t start;
    struct stage_times **stages;
    int count, capacity;
    struct map *by_name;
};

struct timeline *timeline_new(int64_t start_ms)
{
    struct timeline *t = xcalloc(1, sizeof *t);
    t->start = start_ms;
    t->by_name = map_new();
    return t;
}

static void free_span(const char *key, void *value, void *user)
{
    (void)key;
    (void)user;
    free(value);
}

void timeline_free(struct timeline *t)
{
    if (t == NULL)
        return;
    for (int i = 0; i < t->count; i++) {
        map_each(t->stages[i]->nodes, free_span, NULL);
        map_free(t->stages[i]->nodes);
        free(t->stages[i]->took);
        free(t->stages[i]->name);
        free(t->stages[i]);
    }
    free(t->stages);
    map_free(t->by_name);
    free(t);
}

static struct stage_times *stage_of(struct timeline *t, const char *name, int64_t at)
{
    struct stage_times *s = map_get(t->by_name, name);
    if (s != NULL)
        return s;
    s = xcalloc(1, sizeof *s);
    *s = (struct stage_times){.name = xstrdup(name), .nodes = map_new(), .first = at, .last = at};
    ARRAY_GROW(t->stages, t->count, t->capacity);
    t->stages[t->count++] = s;
    (void)map_set(t->by_name, name, s);
    return s;
}

static void add_event(struct timeline *t, const char *kind, const char *stage, const char *node,
                      int64_t at)
{
    bool started = strcmp(kind, "attempt.started") == 0, passed = strcmp(kind, "stage.passed") == 0,
         failed = strcmp(kind, "stage.failed") == 0, skipped = strcmp(kind, "stage.skipped") == 0;
    if (!started && !passed && !failed && !skipped && strcmp(kind, "attempt.failed") != 0)
        return;
    struct stage_times *s = stage_of(t, stage, at);
    struct span *n = map_get(s->nodes, node);
    if (n == NULL) {
        n = xcalloc(1, sizeof *n);
        n->start = -1;
        (void)map_set(s->nodes, node, n);
    }
    s->last = at > s->last ? at : s->last;
    if (started) {
        n->start = n->attempts++ == 0 ? at : n->start;
        s->retries += n->attempts > 1;
        return;
    }
    if (passed && n->start >= 0) {
        ARRAY_GROW(s->took, s->took_count, s->took_capacity);
        s->took[s->took_count++] = at - n->start;
    }
    if (passed || failed || skipped) {
        n->passed = passed;
        n->failed = failed;
        n->skipped = skipped;
    }
}

void timeline_add(struct timeline *t, const json_t *events)
{
    size_t i;
    json_t *e;
    json_array_foreach(events, i, e)
    {
        const char *kind = json_string_value(json_object_get(e, "kind"));
        const char *stage = json_string_value(json_object_get(e, "stage"));
        const char *node = json_string_value(json_object_get(e, "node"));
        const char *text = json_string_value(json_object_get(e, "at"));
        int64_t at;
        if (kind != NULL && stage != NULL && node != NULL && text != NULL &&
            clock_parse(text, &at, NULL) == 0 && at >= t->start)
            add_event(t, kind, stage, node, at);
    }
}

struct tally {
    int nodes, passed, failed, skipped;
};

static void tally_one(const char *key, void *value, void *user)
{
    const struct span *n = value;
    struct tally *y = user;
    (void)key;
    y->nodes++;
    y->passed += n->passed;
    y->failed += n->failed;
    y->skipped += n->skipped;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static json_t *stage_row(const struct timeline *t, struct stage_times *s, const struct tally *y)
{
    if (s->took_count > 0)
        qsort(s->took, (size_t)s->took_count, sizeof *s->took, compare);
    int middle = s->took_count / 2;
    json_t *median = s->took_count > 0 ? json_real((double)s->took[middle] / 1000) : json_null();
    return json_pack("{s:s,s:i,s:i,s:i,s:i,s:i,s:f,s:o,s:f}", "stage", s->name, "nodes", y->nodes,
                     "passed", y->passed, "failed", y->failed, "skipped", y->skipped, "retries",
                     s->retries, "first_start_s", (double)(s->first - t->start) / 1000, "median_s",
                     median, "last_end_s", (double)(s->last - t->start) / 1000);
}

json_t *timeline_json(struct timeline *t)
{
    json_t *rows = json_array();
    /* what everybody skipped comes last: that is said before anything runs */
    for (int last = 0; last < 2; last++) {
        for (int i = 0; i < t->count; i++) {
            struct tally y = {0};
            map_each(t->stages[i]->nodes, tally_one, &y);
            if ((y.skipped == y.nodes) == (last == 1))
                (void)json_array_append_new(rows, stage_row(t, t->stages[i], &y));
        }
    }
    return rows;
}

double timeline_length(const struct timeline *t)
{
    int64_t last = t->start;
    for (int i = 0; i < t->count; i++)
        last = t->stages[i]->last > last ? t->stages[i]->last : last;
    return (double)(last - t->start) / 1000;
}
