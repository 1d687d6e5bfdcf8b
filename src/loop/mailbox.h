/*
 * Mailbox: the only door by which another thread reaches the loop. Values in, in order.
 */
#pragma once

#include "loop/loop.h"

struct mailbox;

/* handle(item, user) runs on the loop for each posted item. */
struct mailbox *mailbox_new(struct loop *loop, void (*handle)(void *item, void *user), void *user);
/* Any thread. The item belongs to the handler from now on. */
void mailbox_post(struct mailbox *m, void *item);
/* Handles what is still queued, then frees. No thread may post any more. */
void mailbox_free(struct mailbox *m);
