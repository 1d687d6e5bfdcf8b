/*
 * Webhooks: events of the store, posted to the receivers that clusterd.yaml names.
 *
 * At least once and in the order of the events, one request at a time for each hook; what fails is
 * tried again with growing pauses, and 410 Gone ends a hook until the next start. How far a hook
 * came is in the store, written after the delivery. Only events on disk are told. A hook that is
 * more than NOTIFY_MAX_BEHIND events behind skips what is there and sends one event that counts
 * them.
 */
#pragma once

#include <jansson.h>

#include "daemon/config.h"
#include "loop/loop.h"
#include "store/store.h"

enum { NOTIFY_MAX_BEHIND = 10000 };

struct notify;

struct notify_config {
    struct loop *loop;
    struct store *store;
    const struct config_hook *hooks; /* borrowed */
    int hook_count;
    const char *(*cluster)(void *user); /* its name, NULL while no spec was applied */
    int (*secret)(const struct secret_ref *ref, char **ret_text, struct err *err, void *user);
    void *user;
};

/* Reads the cursors; a hook without one begins at the newest event. NULL with *err set. */
struct notify *notify_new(const struct notify_config *config, struct err *err);
/* Deliveries begin. */
void notify_start(struct notify *n);
/* Reads the secrets again and tries at once what is waiting. Hooks that got 410 stay ended. */
void notify_refresh(struct notify *n);
/* [{name, last_delivered, last_delivered_at, behind, last_error, next_try_at}] */
json_t *notify_status(const struct notify *n);
void notify_free(struct notify *n); /* NULL allowed */
