#include "loop/limit.h"

#include <stddef.h>

void limit_init(struct limit *l, struct loop *loop, const char *name, int max)
{
    *l = (struct limit){.loop = loop, .name = name, .max = max > 0 ? max : 1};
}

static void unlink_ticket(struct limit *l, struct limit_ticket *t)
{
    *(t->prev ? &t->prev->next : &l->head) = t->next;
    *(t->next ? &t->next->prev : &l->tail) = t->prev;
    t->next = t->prev = NULL;
    l->waiting--;
}

static void grant(void *user)
{
    struct limit *l = user;
    while (l->head != NULL && l->in_use < l->max) {
        struct limit_ticket *t = l->head;
        unlink_ticket(l, t);
        t->holding = true;
        l->in_use++;
        t->granted(t->user);
    }
}

static void wake(struct limit *l)
{
    if (l->head != NULL && l->in_use < l->max)
        timer_set(l->loop, &l->wake, 0, grant, l);
}

void limit_set_max(struct limit *l, int max)
{
    l->max = max > 0 ? max : 1;
    wake(l);
}

void limit_done(struct limit *l)
{
    while (l->head != NULL) {
        struct limit_ticket *t = l->head;
        unlink_ticket(l, t);
        t->limit = NULL;
    }
    timer_cancel(&l->wake);
}

void limit_take(struct limit *l, struct limit_ticket *t, void (*granted)(void *user), void *user)
{
    limit_release(t);
    *t = (struct limit_ticket){.limit = l, .prev = l->tail, .granted = granted, .user = user};
    *(l->tail ? &l->tail->next : &l->head) = t;
    l->tail = t;
    l->waiting++;
    wake(l);
}

void limit_release(struct limit_ticket *t)
{
    struct limit *l = t->limit;
    if (l == NULL)
        return;
    if (t->holding)
        l->in_use--;
    else
        unlink_ticket(l, t);
    *t = (struct limit_ticket){0};
    wake(l);
}
