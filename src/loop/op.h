/*
 * The op contract, obeyed by everything that takes time (BMC calls, SSH, children, hashing):
 *
 *   an op has an owner, a deadline from birth and a completion;
 *   it never completes inside start; it completes exactly once; after cancel it never completes.
 *
 * A driver embeds `struct op` as the first member of its own struct, calls op_init() in its start
 * function and op_finish() when it knows the outcome. The owner gets done(op, user) from the loop,
 * reads op->err and the driver's result, and calls op_free() (inside done or later). An owner that
 * loses interest calls op_cancel(), which stops the work and frees the op. Owners keep ids across
 * the wait, never pointers to things that can go away.
 */
#pragma once

#include "base/err.h"
#include "loop/loop.h"

struct op;

struct op_type {
    const char *name;
    /* Stops the work: descriptors, children, timers. Called once, by cancel, by the deadline or by
     * op_finish itself, always before free; the driver must not touch the op afterwards. NULL:
     * none. */
    void (*stop)(struct op *op);
    /* Releases the driver's struct, the op included. */
    void (*free)(struct op *op);
};

typedef void (*op_done_fn)(struct op *op, void *user);

struct op {
    const struct op_type *type;
    struct loop *loop;
    op_done_fn done;
    void *user;
    struct err err; /* code ERR_OK on success */
    struct timer timer;
    enum { OP_RUNNING, OP_FINISHED, OP_DONE } state;
};

/* timeout_ms > 0: after that the op ends with ERR_TIMEOUT. 0: only where the driver keeps its own.
 */
void op_init(struct op *op, const struct op_type *type, struct loop *loop, int64_t timeout_ms,
             op_done_fn done, void *user);
/* By the driver: its turn has come; from now on it has timeout_ms, whatever it waited before. */
void op_set_timeout(struct op *op, int64_t timeout_ms);
/* By the driver: the outcome is known (err NULL or code ERR_OK: success). done runs from the loop.
 */
void op_finish(struct op *op, const struct err *err);
/* By the owner, before completion: stops and frees; done will not run. NULL allowed. */
void op_cancel(struct op *op);
/* By the owner, after completion. NULL allowed. */
void op_free(struct op *op);
static inline bool op_ok(const struct op *op)
{
    return op->err.code == ERR_OK;
}
