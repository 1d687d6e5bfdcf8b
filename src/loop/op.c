#include "loop/op.h"

#include <stddef.h>

enum { PEER_MS = 10000 }; /* a peer's answer may take so long, however fast time passes */

static void op_stop(struct op *op)
{
    timer_cancel(&op->timer);
    if (op->type->stop != NULL)
        op->type->stop(op);
}

static void op_deliver(void *user)
{
    struct op *op = user;
    op->state = OP_DONE;
    /* the owner may free the op inside done: nothing touches it afterwards */
    op->done(op, op->user);
}

static void op_expired(void *user)
{
    struct op *op = user;
    struct err err = {0};
    (void)err_set(&err, ERR_TIMEOUT, "%s: no result within its deadline", op->type->name);
    op_finish(op, &err);
}

void op_init(struct op *op, const struct op_type *type, struct loop *loop, int64_t timeout_ms,
             op_done_fn done, void *user)
{
    *op = (struct op){.type = type, .loop = loop, .done = done, .user = user, .state = OP_RUNNING};
    if (timeout_ms > 0)
        timer_set_least(loop, &op->timer, timeout_ms, PEER_MS, op_expired, op);
}

void op_set_timeout(struct op *op, int64_t timeout_ms)
{
    if (op->state == OP_RUNNING)
        timer_set_least(op->loop, &op->timer, timeout_ms, PEER_MS, op_expired, op);
}

void op_finish(struct op *op, const struct err *err)
{
    if (op->state != OP_RUNNING)
        return;
    op->state = OP_FINISHED;
    if (err != NULL)
        op->err = *err;
    op_stop(op);
    timer_set(op->loop, &op->timer, 0, op_deliver, op);
}

void op_cancel(struct op *op)
{
    if (op == NULL)
        return;
    if (op->state == OP_RUNNING)
        op_stop(op);
    op_free(op);
}

void op_free(struct op *op)
{
    if (op == NULL)
        return;
    timer_cancel(&op->timer);
    op->type->free(op);
}
