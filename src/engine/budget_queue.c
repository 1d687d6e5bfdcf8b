/* Who waits for watts, and who is next: turns of racks, and the ramp. */
#include <stdlib.h>

#include "engine/budget_int.h"

void feed_dirty(struct budget *b, int feed)
{
    struct feed *f = &b->feeds[feed];
    if (f->dirty || f->parked.count == 0)
        return;
    f->dirty = true;
    f->next_dirty = b->dirty;
    b->dirty = feed;
}

static void refill(struct feed *f, int64_t now)
{
    int64_t passed = now - f->filled_at;
    f->filled_at = now;
    if (passed <= 0 || f->ramp == 0)
        return;
    int64_t lacks = f->burst - f->tokens;
    if (lacks <= 0 || passed > lacks / f->ramp)
        f->tokens = f->burst;
    else
        f->tokens += passed * f->ramp;
}

int64_t budget_need(const struct budget_load *l)
{
    int64_t need = budget_watts(&l->envelope, l->want) - l->watts;
    return need > 0 ? need : 0;
}

static bool ramp_allows(struct budget *b, struct feed *f, int64_t need)
{
    refill(f, b->now);
    return f->ramp == 0 || f->tokens >= need * MS_PER_MIN;
}

/* Whether the feed alone has room. */
static bool fits(struct budget *b, struct feed *f, int64_t need)
{
    return need == 0 || (f->reserved_w + need <= f->usable_w && ramp_allows(b, f, need));
}

/* Where only the ramp keeps the first that waits at a feed, the feed is looked at again in the ms
 * in which the tokens suffice. */
static void set_due(struct budget *b, struct feed *f)
{
    const struct rack *r = heap_first(&f->parked);
    heap_drop(&b->feeds_due, &f->due);
    if (r == NULL)
        return;
    int64_t need = budget_need(r->head), lacks = need * MS_PER_MIN - f->tokens;
    if (f->ramp > 0 && lacks > 0 && f->reserved_w + need <= f->usable_w)
        heap_put(&b->feeds_due, &f->due, f->filled_at + (lacks + f->ramp - 1) / f->ramp, f);
}

static int64_t first_turn(const struct feed *f)
{
    return f->parked.count > 0 ? f->parked.items[0]->key : INT64_MAX;
}

/* The lowest feed that the rack's first load cannot pass now, -1: it can go. */
static int blocked_at(struct budget *b, const struct rack *r)
{
    int64_t need = budget_need(r->head);
    if (need == 0)
        return -1;
    for (int i = r->feed; i >= 0; i = b->feeds[i].parent) {
        struct feed *f = &b->feeds[i];
        if (first_turn(f) < r->turn || !fits(b, f, need))
            return i;
    }
    return -1;
}

static void park(struct budget *b, struct rack *r, int feed)
{
    r->parked_at = feed;
    heap_put(&b->feeds[feed].parked, &r->park, r->turn, r);
    set_due(b, &b->feeds[feed]);
    if (r->from >= 0 && r->from != feed)
        feed_dirty(b, r->from);
    r->from = -1;
}

static void unpark(struct budget *b, struct rack *r)
{
    if (r->parked_at >= 0)
        heap_drop(&b->feeds[r->parked_at].parked, &r->park);
    else
        heap_drop(&b->ready, &r->park);
    r->parked_at = -1;
}

static void make_ready(struct budget *b, struct rack *r, int from)
{
    r->from = from;
    heap_put(&b->ready, &r->park, r->turn, r);
}

static void unlink_load(struct rack *r, struct budget_load *l)
{
    *(l->prev ? &l->prev->next : &r->head) = l->next;
    *(l->next ? &l->next->prev : &r->tail) = l->prev;
    l->next = l->prev = NULL;
    r->count--;
    l->waiting = false;
    for (int f = l->feed; f >= 0; f = l->budget->feeds[f].parent)
        l->budget->feeds[f].waiting--;
}

void queue_enter(struct budget_load *l)
{
    struct budget *b = l->budget;
    struct rack *r = &b->racks[l->rack];
    l->waiting = true;
    l->asked = ++b->asked;
    l->prev = r->tail;
    l->next = NULL;
    *(r->tail ? &r->tail->next : &r->head) = l;
    r->tail = l;
    for (int f = l->feed; f >= 0; f = b->feeds[f].parent)
        b->feeds[f].waiting++;
    if (r->count++ > 0)
        return;
    r->turn = ++b->turns;
    make_ready(b, r, -1);
}

void queue_leave(struct budget_load *l)
{
    struct budget *b = l->budget;
    struct rack *r = &b->racks[l->rack];
    bool first = r->head == l;
    int parked_at = r->parked_at;
    unlink_load(r, l);
    if (r->head == NULL)
        unpark(b, r);
    if (first && parked_at >= 0)
        feed_dirty(b, parked_at); /* those behind it, or its own next, may fit */
}

/* The first of the racks that wait at a feed which has room again gets its try. */
static void wake_parked(struct budget *b)
{
    while (b->dirty >= 0) {
        int i = b->dirty;
        struct feed *f = &b->feeds[i];
        b->dirty = f->next_dirty;
        f->dirty = false;
        struct rack *r = heap_first(&f->parked);
        if (r == NULL || !fits(b, f, budget_need(r->head))) {
            set_due(b, f);
            continue;
        }
        unpark(b, r);
        set_due(b, f);
        make_ready(b, r, i);
    }
}

static struct budget_load *grant(struct budget *b, struct rack *r)
{
    struct budget_load *l = r->head;
    int64_t need = budget_need(l);
    unlink_load(r, l);
    for (int f = l->feed; f >= 0; f = b->feeds[f].parent)
        if (b->feeds[f].ramp > 0)
            b->feeds[f].tokens -= need * MS_PER_MIN;
    load_enter(l, l->want, 0);
    if (r->from >= 0)
        feed_dirty(b, r->from);
    r->turn = ++b->turns;
    if (r->head != NULL)
        make_ready(b, r, -1);
    r->from = -1;
    return l;
}

void queue_serve(struct budget *b, void (*changed)(struct budget_load *l, bool granted, void *user),
                 void *user)
{
    for (;;) {
        wake_parked(b);
        struct rack *r = heap_first(&b->ready);
        if (r == NULL)
            return;
        heap_drop(&b->ready, &r->park);
        int at = blocked_at(b, r);
        if (at >= 0)
            park(b, r, at);
        else
            changed(grant(b, r), true, user);
    }
}

/* ---- views ---- */

int budget_kept_by(const struct budget_load *l, bool *ret_ramp)
{
    const struct budget *b = l->budget;
    const struct rack *r = &b->racks[l->rack];
    int at = r->parked_at >= 0 ? r->parked_at : l->feed;
    const struct feed *f = &b->feeds[at];
    *ret_ramp = f->ramp > 0 && f->reserved_w + budget_need(l) <= f->usable_w;
    return at;
}

static bool below(const struct budget *b, int feed, int top)
{
    for (; feed >= 0; feed = b->feeds[feed].parent)
        if (feed == top)
            return true;
    return false;
}

int budget_before(const struct budget_load *l)
{
    const struct budget *b = l->budget;
    const struct rack *mine = &b->racks[l->rack];
    bool ramp;
    int at = budget_kept_by(l, &ramp), place = 0;
    for (const struct budget_load *x = l->prev; x != NULL; x = x->prev)
        place++;
    int before = place;
    for (int i = 0; i < b->rack_count; i++) {
        const struct rack *r = &b->racks[i];
        if (r == mine || r->count == 0 || !below(b, r->feed, at))
            continue;
        int turns = place + (r->turn < mine->turn);
        before += turns < r->count ? turns : r->count;
    }
    return before;
}
