/* Composed power actions: command, then look until the BMC shows what was asked for. */
#include "engine/power.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bmc/bmc.h"
#include "engine/node.h"

enum {
    CALL_MS = 20000,       /* one exchange with a BMC, retransmissions included */
    POLL_MS = 1000,        /* between looks at the power state */
    POLL_LEAST_MS = 100,   /* of real time; timer_set_least() */
    OBSERVE_MS = 60000,    /* for the state to show after a command was accepted */
    SOFT_MS = 180000,      /* an operating system may take its time to go down */
    WAIT_MS = 15 * 60000,  /* for watts; steps wait longer, see watts_take() */
    WHOLE_MS = 15 * 60000, /* with the wait for a place in the rack */
};

enum action { ON, OFF, CYCLE, RESET, SOFT, STATUS, BOOT, BOOT_PXE, BOOT_DISK };
static const struct name action_names[] = {
    {ON, "on"},       {OFF, "off"},           {CYCLE, "cycle"},
    {RESET, "reset"}, {SOFT, "soft"},         {STATUS, "status"},
    {BOOT, "boot"},   {BOOT_PXE, "boot-pxe"}, {BOOT_DISK, "boot-disk"},
    {0, NULL}};

struct power {
    struct power_op pub; /* first */
    struct enode *n;
    enum action action;
    struct op *inner; /* the BMC call in flight */
    struct timer timer, whole;
    struct limit_ticket place;
    bool patient;                  /* of a step: the wait for watts does not count */
    bool reserved;                 /* the watts are taken */
    bool commanded;                /* and may be in use */
    bool shown;                    /* and the machine was seen on */
    void (*next)(struct power *p); /* once they are */
    bool want_on;                  /* what is being looked for */
    int64_t look_until;
};

static struct power *self(struct op *op)
{
    return (struct power *)(void *)op;
}

static void stop(struct op *op)
{
    struct power *p = self(op);
    op_cancel(p->inner);
    p->inner = NULL;
    timer_cancel(&p->timer);
    timer_cancel(&p->whole);
    limit_release(&p->place);
    if (p->n->power_op == &p->pub)
        p->n->power_op = NULL;
    if (p->next != NULL && !p->reserved)
        watts_cancel(p->n);
    else if (p->commanded && !p->shown)
        watts_started(p->n, false); /* it may start all the same */
    else if (p->reserved && !p->commanded)
        watts_release(p->n);
    node_kick(p->n, 0); /* a stage may have waited for the end of it */
}

static void release(struct op *op)
{
    struct power *p = self(op);
    free(p);
}

static const struct op_type type = {.name = "power", .stop = stop, .free = release};

static void fail(struct power *p, const struct err *err)
{
    op_finish(&p->pub.op, err);
}

static void succeed(struct power *p)
{
    op_finish(&p->pub.op, NULL);
}

static void observed(struct power *p, bool on)
{
    struct enode *n = p->n;
    const char *word = on ? "on" : "off";
    bool changed = strcmp(n->power_observed, word) != 0;
    (void)snprintf(p->pub.observed, sizeof p->pub.observed, "%s", word);
    (void)snprintf(n->power_observed, sizeof n->power_observed, "%s", word);
    n->power_at = engine_wall(n->engine);
    if (changed)
        node_save(n);
    watts_account(n);
}

static void desire(struct power *p, bool on)
{
    (void)snprintf(p->n->power_desired, sizeof p->n->power_desired, "%s", on ? "on" : "off");
    node_save(p->n);
    watts_account(p->n);
}

/* The call is over: its error goes to the owner, else the caller goes on with the result. */
static bool took(struct power *p, struct op *op)
{
    p->inner = NULL;
    if (op_ok(op))
        return true;
    struct err err = op->err;
    op_free(op);
    fail(p, &err);
    return false;
}

/* ---- looking ---- */

static void look(void *user);
static void switch_on(struct power *p);

static void seen(struct power *p, bool on)
{
    struct err err = {0};
    observed(p, on);
    if (on != p->want_on) {
        if (loop_now(p->pub.op.loop) < p->look_until) {
            timer_set_least(p->pub.op.loop, &p->timer, POLL_MS, POLL_LEAST_MS, look, p);
            return;
        }
        (void)err_set(
            &err, ERR_TIMEOUT,
            "the BMC accepted 'power %s' but says that the machine is still %s after %d s: it "
            "did nothing, or reports a wrong power state",
            p->want_on ? "on" : "off", on ? "on" : "off",
            (p->action == SOFT ? SOFT_MS : OBSERVE_MS) / 1000);
        fail(p, &err);
    } else if (!p->want_on && (p->action == CYCLE || p->action == BOOT)) {
        switch_on(p);
    } else {
        p->shown = p->commanded;
        if (p->commanded)
            watts_started(p->n, true);
        succeed(p);
    }
}

static void on_looked(struct op *op, void *user)
{
    struct power *p = user;
    if (!took(p, op))
        return;
    bool on = ((struct bmc_op *)(void *)op)->on;
    op_free(op);
    seen(p, on);
}

static void look(void *user)
{
    struct power *p = user;
    p->inner = &bmc_power_get(p->n->bmc, CALL_MS, on_looked, p)->op;
}

static void on_commanded(struct op *op, void *user)
{
    struct power *p = user;
    if (!took(p, op))
        return;
    op_free(op);
    p->look_until = loop_now(p->pub.op.loop) + (p->action == SOFT ? SOFT_MS : OBSERVE_MS);
    look(p);
}

static void command(struct power *p, enum bmc_power_action what, bool want_on)
{
    p->want_on = want_on;
    p->commanded = want_on;
    desire(p, want_on);
    p->inner = &bmc_power_set(p->n->bmc, what, CALL_MS, on_commanded, p)->op;
}

/* ---- watts before anything that makes it draw more ---- */

static void on_whole(void *user)
{
    struct power *p = user;
    char wait[400] = "";
    struct err err = {0};
    if (power_waits(p->n, true, wait, sizeof wait))
        (void)err_set(&err, ERR_TIMEOUT, "not switched on within %d min: it %s; ask again later",
                      WAIT_MS / 60000, wait);
    else
        (void)err_set(&err, ERR_TIMEOUT, "'power %s' was not over within %d min",
                      name_of(action_names, (int)p->action, "?"), WHOLE_MS / 60000);
    fail(p, &err);
}

static void on_reserved(void *user, const struct err *err)
{
    struct power *p = user;
    p->reserved = true;
    timer_set(p->pub.op.loop, &p->whole, WHOLE_MS, on_whole, p); /* what has begun may end */
    if (err->code != ERR_OK)
        fail(p, err);
    else
        p->next(p);
}

static void reserve(struct power *p, enum load_state want, void (*next)(struct power *p))
{
    struct err err = {0};
    p->next = next;
    if (p->patient)
        timer_cancel(&p->whole); /* the attempt's deadline stays, and moves */
    if (watts_take(p->n, want, p->patient, on_reserved, p, &err) < 0) {
        p->next = NULL;
        fail(p, &err);
    }
}

static void reset(struct power *p)
{
    command(p, BMC_POWER_RESET, true);
}

/* To be switched on again: its watts are kept for it meanwhile. */
static void switch_off(struct power *p)
{
    command(p, BMC_POWER_OFF, false);
}

static void admitted(void *user)
{
    command(user, BMC_POWER_ON, true);
}

static void switch_on(struct power *p)
{
    struct limit *rack = node_rack_limit(p->n);
    if (rack != NULL)
        limit_take(rack, &p->place, admitted, p);
    else
        admitted(p);
}

/* ---- boot device ---- */

static void on_device_read(struct op *op, void *user)
{
    struct power *p = user;
    struct err err = {0};
    if (!took(p, op))
        return;
    enum bmc_boot_device device = ((struct bmc_op *)(void *)op)->device;
    op_free(op);
    if (device == (p->action == BOOT_PXE ? BMC_BOOT_PXE : BMC_BOOT_DISK)) {
        succeed(p);
        return;
    }
    (void)err_set(&err, ERR_FAILED, "the BMC accepted the boot device but does not show it");
    fail(p, &err);
}

static void on_device_set(struct op *op, void *user)
{
    struct power *p = user;
    if (!took(p, op))
        return;
    op_free(op);
    p->inner = &bmc_boot_get(p->n->bmc, CALL_MS, on_device_read, p)->op;
}

/* ---- start ---- */

static void on_first_look(struct op *op, void *user)
{
    struct power *p = user;
    if (!took(p, op))
        return;
    bool on = ((struct bmc_op *)(void *)op)->on;
    op_free(op);
    observed(p, on);
    switch (p->action) {
    case ON:
        if (on)
            succeed(p);
        else
            reserve(p, LOAD_INRUSH, switch_on);
        break;
    case OFF:
    case SOFT:
        if (on) {
            command(p, p->action == OFF ? BMC_POWER_OFF : BMC_POWER_SOFT, false);
        } else {
            desire(p, false);
            succeed(p);
        }
        break;
    case CYCLE:
    case BOOT:
        reserve(p, LOAD_INRUSH, on ? switch_off : switch_on);
        break;
    case RESET:
        reserve(p, on ? LOAD_BOOT : LOAD_INRUSH, reset);
        break;
    default:
        succeed(p);
        break;
    }
}

bool power_waits(const struct enode *n, bool place, char *text, size_t size)
{
    if (watts_waits(n, place, text, size))
        return true;
    const struct power *p = (const struct power *)(const void *)n->power_op;
    if (p == NULL || p->place.limit == NULL || p->place.holding)
        return false;
    (void)snprintf(text, size, "waits for one of %d places to be switched on in rack %s",
                   p->place.limit->max, n->rack);
    return true;
}

bool power_action_ok(const char *action)
{
    return name_id(action_names, action) >= 0;
}

static struct power_op *start(struct enode *n, const char *action, bool patient, op_done_fn done,
                              void *user, struct err *err)
{
    int id = name_id(action_names, action);
    if (id < 0) {
        (void)err_set(err, ERR_INVALID,
                      "unknown power action '%s': use on, off, cycle, reset, soft or status",
                      action);
        return NULL;
    }
    if (n->bmc == NULL) {
        (void)err_set(err, ERR_UNSUPPORTED, "%s has no BMC in the spec", n->name);
        return NULL;
    }
    if (n->power_op != NULL) {
        (void)err_set(err, ERR_BUSY, "another power action on %s is in work", n->name);
        return NULL;
    }
    struct power *p = xcalloc(1, sizeof *p);
    p->n = n;
    p->action = (enum action)id;
    p->patient = patient;
    op_init(&p->pub.op, &type, n->engine->loop, 0, done, user);
    timer_set(n->engine->loop, &p->whole, WAIT_MS, on_whole, p);
    n->power_op = &p->pub;
    if (p->action == BOOT_PXE || p->action == BOOT_DISK)
        p->inner = &bmc_boot_set(n->bmc, p->action == BOOT_PXE ? BMC_BOOT_PXE : BMC_BOOT_DISK,
                                 n->efi, CALL_MS, on_device_set, p)
                        ->op;
    else
        p->inner = &bmc_power_get(n->bmc, CALL_MS, on_first_look, p)->op;
    return &p->pub;
}

struct power_op *power_start(struct enode *n, const char *action, op_done_fn done, void *user,
                             struct err *err)
{
    return start(n, action, false, done, user, err);
}

/* ---- within steps ---- */

static void on_step_power(struct op *op, void *user)
{
    struct step_run *run = user;
    run->op = NULL;
    struct err err = op->err;
    op_free(op);
    if (err.code != ERR_OK)
        step_done(run, &err, NULL);
    else
        run->powered(run);
}

void step_power(struct step_run *run, const char *action, void (*next)(struct step_run *run))
{
    struct err err = {0};
    run->powered = next;
    struct power_op *op = start(run->node, action, true, on_step_power, run, &err);
    if (op == NULL)
        step_done(run, &err, NULL);
    else
        run->op = &op->op;
}
