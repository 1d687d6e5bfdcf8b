#include "loop/limit.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"

void limit_init(struct limit *l, struct loop *loop, const char *name, int max)
{
    *l = (struct limit){.loop = loop, .name = name, .max = max > 0 ? max : 1, .turn = -1};
}

/* ---- the ring of lanes that have somebody to serve and room for it ---- */

static void join_ring(struct limit *l, int at)
{
    struct limit_lane *lane = &l->lanes[at];
    if (lane->next >= 0 || lane->head == NULL || (l->lane_max > 0 && lane->in_use >= l->lane_max))
        return;
    if (l->turn < 0) {
        lane->next = lane->prev = l->turn = at;
        return;
    }
    /* before the one whose turn it is: at the end of this round */
    lane->next = l->turn;
    lane->prev = l->lanes[l->turn].prev;
    l->lanes[lane->prev].next = at;
    l->lanes[l->turn].prev = at;
}

static void leave_ring(struct limit *l, int at)
{
    struct limit_lane *lane = &l->lanes[at];
    if (lane->next < 0)
        return;
    if (lane->next == at) {
        l->turn = -1;
    } else {
        l->lanes[lane->prev].next = lane->next;
        l->lanes[lane->next].prev = lane->prev;
        if (l->turn == at)
            l->turn = lane->next;
    }
    lane->next = lane->prev = -1;
}

static void unlink_ticket(struct limit *l, struct limit_ticket *t)
{
    struct limit_lane *lane = &l->lanes[t->lane];
    *(t->prev ? &t->prev->next : &lane->head) = t->next;
    *(t->next ? &t->next->prev : &lane->tail) = t->prev;
    t->next = t->prev = NULL;
    l->waiting--;
    if (lane->head == NULL)
        leave_ring(l, t->lane);
}

static struct limit_lane *lane_of(struct limit *l, int at)
{
    while (at >= l->lane_count) {
        int count = l->lane_count == 0 ? at + 1 : 2 * l->lane_count;
        l->lanes = xrealloc(l->lanes, (size_t)count, sizeof *l->lanes);
        for (int i = l->lane_count; i < count; i++)
            l->lanes[i] = (struct limit_lane){.next = -1, .prev = -1};
        l->lane_count = count;
    }
    return &l->lanes[at];
}

static void hold(struct limit *l, struct limit_ticket *t)
{
    struct limit_lane *lane = lane_of(l, t->lane);
    t->holding = true;
    l->in_use++;
    lane->in_use++;
    if (l->lane_max > 0 && lane->in_use >= l->lane_max)
        leave_ring(l, t->lane);
}

/* ---- granting ---- */

static void grant(void *user)
{
    struct limit *l = user;
    while (l->turn >= 0 && l->in_use < l->max) {
        struct limit_ticket *t = l->lanes[l->turn].head;
        l->turn = l->lanes[l->turn].next;
        unlink_ticket(l, t);
        hold(l, t);
        t->granted(t->user);
    }
}

static void wake(struct limit *l)
{
    if (l->turn >= 0 && l->in_use < l->max)
        timer_set(l->loop, &l->wake, 0, grant, l);
}

void limit_set_max(struct limit *l, int max)
{
    l->max = max > 0 ? max : 1;
    wake(l);
}

void limit_set_lane_max(struct limit *l, int lane_max)
{
    l->lane_max = lane_max > 0 ? lane_max : 0;
    for (int i = 0; i < l->lane_count; i++) {
        if (l->lane_max > 0 && l->lanes[i].in_use >= l->lane_max)
            leave_ring(l, i);
        else
            join_ring(l, i);
    }
    wake(l);
}

void limit_done(struct limit *l)
{
    for (int i = 0; i < l->lane_count; i++)
        while (l->lanes[i].head != NULL) {
            struct limit_ticket *t = l->lanes[i].head;
            unlink_ticket(l, t);
            t->limit = NULL;
        }
    timer_cancel(&l->wake);
    free(l->lanes);
    l->lanes = NULL;
    l->lane_count = 0;
}

void limit_take(struct limit *l, struct limit_ticket *t, void (*granted)(void *user), void *user)
{
    limit_take_lane(l, 0, t, granted, user);
}

void limit_take_lane(struct limit *l, int at, struct limit_ticket *t, void (*granted)(void *user),
                     void *user)
{
    limit_release(t);
    struct limit_lane *lane = lane_of(l, at > 0 ? at : 0);
    *t = (struct limit_ticket){
        .limit = l, .prev = lane->tail, .lane = at > 0 ? at : 0, .granted = granted, .user = user};
    *(lane->tail ? &lane->tail->next : &lane->head) = t;
    lane->tail = t;
    l->waiting++;
    join_ring(l, t->lane);
    wake(l);
}

void limit_force(struct limit *l, int at, struct limit_ticket *t)
{
    limit_release(t);
    *t = (struct limit_ticket){.limit = l, .lane = at > 0 ? at : 0};
    hold(l, t);
}

void limit_release(struct limit_ticket *t)
{
    struct limit *l = t->limit;
    if (l == NULL)
        return;
    int lane = t->lane;
    if (!t->holding) {
        unlink_ticket(l, t);
    } else {
        l->in_use--;
        if (lane < l->lane_count) {
            l->lanes[lane].in_use--;
            join_ring(l, lane);
        }
    }
    *t = (struct limit_ticket){0};
    wake(l);
}
