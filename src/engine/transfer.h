/*
 * A transfer: a script that serves on one node and one that calls it on another, at the same time,
 * both detached under run ids. Asking again with the same ids attaches to what is there. The pair
 * and group steps own them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct engine;
struct enode;
struct transfer;

struct transfer_spec {
    int64_t server, client; /* node ids */
    const char *stage;      /* whose variables the scripts get */
    int64_t attempt;
    const char *server_script, *client_script; /* below templates/ */
    const char *id;                            /* of the runs: ID-server, ID-client */
    int rail;                                  /* CLUSTERD_RAIL, -1: none */
    int64_t timeout_ms;
};

struct transfer_end {
    struct err err;   /* ERR_OK: the client ended well */
    const char *log;  /* what the client printed; "" */
    int64_t at_fault; /* the node that could not be worked with; 0: none, or nobody knows which */
};

/* Never calls back inside; done() runs once, then the transfer is gone. on_line(user) gets lines of
 * the client's log as they come (NULL: nobody). NULL with *err set: it could not begin. */
struct transfer *transfer_start(struct engine *e, const struct transfer_spec *spec,
                                void (*on_line)(const char *line, void *user),
                                void (*done)(const struct transfer_end *end, void *user),
                                void *user, struct err *err);
/* Lets go without a word, and ends the scripts. NULL allowed. */
void transfer_cancel(struct engine *e, struct transfer *t);

/* Tests bring their own (engine_config.transfers), with what they like behind the pointer. */
struct transfer_way {
    struct transfer *(*start)(struct engine *e, const struct transfer_spec *spec,
                              void (*done)(const struct transfer_end *end, void *user), void *user);
    void (*cancel)(struct transfer *t);
};
/* Whether scripts can be run on the node. */
int transfer_possible(const struct enode *n, struct err *err);
