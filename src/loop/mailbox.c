#include "loop/mailbox.h"

#include <pthread.h>
#include <stdlib.h>
#include <uv.h>

#include "base/mem.h"

struct mailbox {
    uv_async_t async;
    pthread_mutex_t lock;
    void **items;
    int count, capacity;
    void (*handle)(void *item, void *user);
    void *user;
};

static void drain(struct mailbox *m)
{
    for (;;) {
        (void)pthread_mutex_lock(&m->lock);
        void **items = m->items;
        int count = m->count;
        m->items = NULL;
        m->count = m->capacity = 0;
        (void)pthread_mutex_unlock(&m->lock);
        if (count == 0) {
            free(items);
            return;
        }
        for (int i = 0; i < count; i++)
            m->handle(items[i], m->user);
        free(items);
    }
}

static void on_async(uv_async_t *async)
{
    drain(container_of(async, struct mailbox, async));
}

struct mailbox *mailbox_new(struct loop *loop, void (*handle)(void *item, void *user), void *user)
{
    struct mailbox *m = xcalloc(1, sizeof *m);
    m->handle = handle;
    m->user = user;
    if (pthread_mutex_init(&m->lock, NULL) != 0 ||
        uv_async_init(loop_uv(loop), &m->async, on_async) != 0)
        abort();
    return m;
}

void mailbox_post(struct mailbox *m, void *item)
{
    (void)pthread_mutex_lock(&m->lock);
    ARRAY_GROW(m->items, m->count, m->capacity);
    m->items[m->count++] = item;
    (void)pthread_mutex_unlock(&m->lock);
    (void)uv_async_send(&m->async);
}

static void on_closed(uv_handle_t *handle)
{
    struct mailbox *m = container_of((uv_async_t *)handle, struct mailbox, async);
    (void)pthread_mutex_destroy(&m->lock);
    free(m->items);
    free(m);
}

void mailbox_free(struct mailbox *m)
{
    if (m == NULL)
        return;
    drain(m);
    uv_close((uv_handle_t *)&m->async, on_closed);
}
