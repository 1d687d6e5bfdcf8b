/*
 * Names to addresses without blocking the loop: numbers at once, names on a worker thread.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "base/err.h"
#include "loop/loop.h"

enum { LOOKUP_MAX = 4 };

struct lookup_address {
    struct sockaddr_storage addr;
    socklen_t len;
};

struct lookup;

/* Called from the loop; count 0: *err says why. The addresses are borrowed. */
typedef void (*lookup_fn)(const struct lookup_address *addresses, int count, const struct err *err,
                          void *user);

bool lookup_numeric(const char *text, int port, struct lookup_address *ret_address);
struct lookup *lookup_start(struct loop *loop, const char *name, int port, lookup_fn fn, void *user,
                            struct err *err);
/* The thread goes on, its result is dropped. NULL allowed. */
void lookup_forget(struct lookup *l);
