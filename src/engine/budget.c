/* Feeds, what is counted on them, and the windows that end by themselves. */
#include "engine/budget.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/names.h"
#include "engine/budget_int.h"

static const struct name state_names[] = {{LOAD_OFF, "off"},
                                          {LOAD_UNKNOWN, "unknown"},
                                          {LOAD_IDLE, "idle"},
                                          {LOAD_BOOT, "boot"},
                                          {LOAD_INRUSH, "inrush"},
                                          {LOAD_BURNIN, "burnin"},
                                          {0, NULL}};

const char *load_state_name(enum load_state s)
{
    return name_of(state_names, (int)s, "?");
}

int load_state_from_name(const char *name)
{
    return name != NULL ? name_id(state_names, name) : -1;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t budget_watts(const struct spec_envelope *e, enum load_state s)
{
    int64_t boot = most(e->boot_w, e->idle_w);
    switch (s) {
    case LOAD_OFF:
        return 0;
    case LOAD_BOOT:
        return boot;
    case LOAD_INRUSH:
        return most(e->inrush_w, boot); /* the boot that follows never has to ask again */
    case LOAD_BURNIN:
        return most(e->burnin_w, e->idle_w);
    default:
        return e->idle_w;
    }
}

/* ---- heaps ---- */

static void heap_store(struct heap *h, int i, struct budget_place *p)
{
    h->items[i] = p;
    p->at = i + 1;
}

static void heap_sift(struct heap *h, int i)
{
    struct budget_place *p = h->items[i];
    for (; i > 0 && h->items[(i - 1) / 2]->key > p->key; i = (i - 1) / 2)
        heap_store(h, i, h->items[(i - 1) / 2]);
    for (;;) {
        int child = 2 * i + 1;
        if (child + 1 < h->count && h->items[child + 1]->key < h->items[child]->key)
            child++;
        if (child >= h->count || h->items[child]->key >= p->key)
            break;
        heap_store(h, i, h->items[child]);
        i = child;
    }
    heap_store(h, i, p);
}

void heap_put(struct heap *h, struct budget_place *p, int64_t key, void *owner)
{
    p->key = key;
    p->owner = owner;
    if (p->at == 0) {
        ARRAY_GROW(h->items, h->count, h->capacity);
        heap_store(h, h->count++, p);
    }
    heap_sift(h, p->at - 1);
}

void heap_drop(struct heap *h, struct budget_place *p)
{
    if (p->at == 0)
        return;
    int i = p->at - 1;
    p->at = 0;
    struct budget_place *last = h->items[--h->count];
    if (last == p)
        return;
    heap_store(h, i, last);
    heap_sift(h, i);
}

void *heap_first(const struct heap *h)
{
    return h->count > 0 ? h->items[0]->owner : NULL;
}

/* ---- life ---- */

struct budget *budget_new(const struct spec_feed *feeds, int feed_count, const int *rack_feeds,
                          int rack_count, const struct budget_times *times, int64_t now)
{
    struct budget *b = xcalloc(1, sizeof *b);
    b->feed_count = feed_count;
    b->feeds = xcalloc((size_t)feed_count + 1, sizeof *b->feeds);
    for (int i = 0; i < feed_count; i++)
        b->feeds[i] =
            (struct feed){.name = xstrdup(feeds[i].name),
                          .rated_w = feeds[i].rated_w,
                          .usable_w = feeds[i].rated_w > 0 ? feeds[i].usable_w : INT64_MAX / 2,
                          .ramp = feeds[i].ramp_w_per_min,
                          .parent = feeds[i].parent,
                          .filled_at = now};
    b->rack_count = rack_count;
    b->racks = xcalloc((size_t)rack_count + 1, sizeof *b->racks);
    for (int i = 0; i < rack_count; i++)
        b->racks[i] = (struct rack){.feed = rack_feeds[i], .parked_at = -1, .from = -1};
    b->times = *times;
    b->dirty = -1;
    b->now = now;
    return b;
}

void budget_free(struct budget *b)
{
    if (b == NULL)
        return;
    for (int i = 0; i < b->feed_count; i++) {
        free(b->feeds[i].name);
        free(b->feeds[i].parked.items);
    }
    free(b->feeds);
    free(b->racks);
    free(b->loads_due.items);
    free(b->feeds_due.items);
    free(b->ready.items);
    free(b);
}

void budget_inherit(struct budget *b, const struct budget *from)
{
    for (int i = 0; i < b->feed_count; i++)
        for (int j = 0; j < from->feed_count; j++)
            if (strcmp(b->feeds[i].name, from->feeds[j].name) == 0) {
                b->feeds[i].tokens = from->feeds[j].tokens;
                b->feeds[i].filled_at = from->feeds[j].filled_at;
                b->feeds[i].peak_w = from->feeds[j].peak_w;
            }
    b->asked = from->asked;
}

/* ---- loads ---- */

static void count(struct budget_load *l, int64_t watts, int unknown)
{
    struct budget *b = l->budget;
    int64_t rise = watts - l->watts;
    l->watts = watts;
    for (int f = l->feed; f >= 0; f = b->feeds[f].parent) {
        struct feed *feed = &b->feeds[f];
        feed->reserved_w += rise;
        feed->unknown += unknown;
        feed->peak_w = most(feed->peak_w, feed->reserved_w);
        if (rise < 0)
            feed_dirty(b, f);
    }
}

void load_enter(struct budget_load *l, enum load_state s, int64_t until)
{
    int unknown = (s == LOAD_UNKNOWN) - (l->state == LOAD_UNKNOWN);
    l->state = s;
    l->until = s == LOAD_INRUSH || s == LOAD_BOOT ? until : 0;
    count(l, budget_watts(&l->envelope, s), unknown);
    if (l->until > 0)
        heap_put(&l->budget->loads_due, &l->due, l->until, l);
    else
        heap_drop(&l->budget->loads_due, &l->due);
}

void budget_join(struct budget *b, struct budget_load *l, int rack, const struct spec_envelope *e)
{
    budget_leave(l);
    l->budget = b;
    l->rack = rack;
    l->feed = rack >= 0 && rack < b->rack_count ? b->racks[rack].feed : -1;
    l->envelope = *e;
    int64_t step = most(budget_watts(e, LOAD_INRUSH), budget_watts(e, LOAD_BURNIN));
    for (int f = l->feed; f >= 0; f = b->feeds[f].parent) {
        b->feeds[f].burst = most(b->feeds[f].burst, step * MS_PER_MIN);
        b->feeds[f].unknown += l->state == LOAD_UNKNOWN;
    }
    load_enter(l, l->state, l->until);
}

void budget_leave(struct budget_load *l)
{
    if (l->budget == NULL)
        return;
    budget_unask(l);
    heap_drop(&l->budget->loads_due, &l->due);
    count(l, 0, -(l->state == LOAD_UNKNOWN));
    l->budget = NULL;
    l->feed = -1;
}

void budget_set(struct budget_load *l, enum load_state s, int64_t until)
{
    if (l->budget == NULL) {
        l->state = s;
        l->until = until;
        return;
    }
    load_enter(l, s, until);
    int at = l->waiting ? l->budget->racks[l->rack].parked_at : -1;
    if (at >= 0)
        feed_dirty(l->budget, at); /* it may need less now */
}

int budget_ask(struct budget_load *l, enum load_state want, int *ret_feed)
{
    struct budget *b = l->budget;
    int64_t watts = budget_watts(&l->envelope, want);
    budget_unask(l);
    if (b == NULL || l->feed < 0 || watts <= l->watts) {
        budget_set(l, want, 0);
        return 1;
    }
    for (int f = l->feed; f >= 0; f = b->feeds[f].parent)
        if (watts > b->feeds[f].usable_w) {
            *ret_feed = f;
            return -1;
        }
    l->want = want;
    queue_enter(l);
    return 0;
}

void budget_unask(struct budget_load *l)
{
    if (l->waiting)
        queue_leave(l);
}

static void end_window(struct budget_load *l)
{
    struct budget *b = l->budget;
    if (l->state == LOAD_INRUSH)
        load_enter(l, LOAD_BOOT, l->stays ? 0 : l->until + b->times.boot_ms);
    else
        load_enter(l, LOAD_IDLE, 0);
}

void budget_run(struct budget *b, int64_t now,
                void (*changed)(struct budget_load *l, bool granted, void *user), void *user)
{
    struct budget_load *l;
    struct feed *f;
    b->now = most(b->now, now);
    while ((l = heap_first(&b->loads_due)) != NULL && l->until <= b->now) {
        end_window(l);
        changed(l, false, user);
    }
    while ((f = heap_first(&b->feeds_due)) != NULL && f->due.key <= b->now) {
        heap_drop(&b->feeds_due, &f->due);
        feed_dirty(b, (int)(f - b->feeds));
    }
    queue_serve(b, changed, user);
}

int64_t budget_next(const struct budget *b)
{
    int64_t next = INT64_MAX;
    if (b->dirty >= 0 || b->ready.count > 0)
        return b->now;
    if (b->loads_due.count > 0)
        next = b->loads_due.items[0]->key;
    if (b->feeds_due.count > 0 && b->feeds_due.items[0]->key < next)
        next = b->feeds_due.items[0]->key;
    return next;
}

/* ---- views ---- */

int budget_feeds(const struct budget *b)
{
    return b->feed_count;
}

struct budget_usage budget_usage(const struct budget *b, int feed)
{
    const struct feed *f = &b->feeds[feed];
    return (struct budget_usage){.name = f->name,
                                 .rated_w = f->rated_w,
                                 .usable_w = f->usable_w,
                                 .reserved_w = f->reserved_w,
                                 .peak_w = f->peak_w,
                                 .waiting = f->waiting,
                                 .unknown = f->unknown};
}

/* ---- plans ---- */

struct extra {
    int64_t watts;
    int count;
};

static int by_watts(const void *a, const void *b)
{
    const struct extra *x = a, *y = b;
    return x->watts < y->watts ? 1 : x->watts > y->watts ? -1 : 0;
}

int64_t budget_peak(const struct budget_group *groups, int count, int at_once, int64_t usable_w)
{
    struct extra *extras = xcalloc((size_t)count + 1, sizeof *extras);
    int64_t sum = 0;
    for (int i = 0; i < count; i++) {
        const struct budget_group *g = &groups[i];
        int64_t idle = budget_watts(&g->envelope, LOAD_IDLE);
        int64_t top = budget_watts(&g->envelope, LOAD_INRUSH);
        if (g->burnin)
            top = most(top, budget_watts(&g->envelope, LOAD_BURNIN));
        sum += idle * g->count;
        extras[i] = (struct extra){top - idle, g->count};
    }
    qsort(extras, (size_t)count, sizeof *extras, by_watts);
    for (int i = 0; i < count && at_once > 0; i++) {
        int n = extras[i].count < at_once ? extras[i].count : at_once;
        sum += extras[i].watts * n;
        at_once -= n;
    }
    free(extras);
    return usable_w > 0 && sum > usable_w ? usable_w : sum;
}
