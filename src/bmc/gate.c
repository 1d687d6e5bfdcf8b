/* The queue of a BMC, the dead lane, and what is counted. */
#include "bmc/gate.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/names.h"
#include "bmc/driver.h"

enum { PLACE_MS = 1000 };

static const struct name change_names[] = {{BMC_SET_LED, "set the LED"},
                                           {BMC_SET_AC_LOSS, "set the policy after a power loss"},
                                           {BMC_SET_PASSWORD, "set a password"},
                                           {BMC_ADD_USER, "add a user"},
                                           {BMC_CLEAR_SEL, "clear the SEL"},
                                           {BMC_RESET, "reset the BMC"},
                                           {0, NULL}};

static struct loop *loop_of(const struct bmc *b)
{
    return b->hub->c.loop;
}

/* ---- the life of a BMC, as it shows ---- */

static void die(struct bmc *b)
{
    if (b->gate.state == GATE_DEAD)
        return;
    b->gate.state = GATE_DEAD;
    b->gate.dead_since = loop_wall(loop_of(b));
    b->gate.deaths++;
    b->gate.rounds = 0;
    log_warn("bmc.dead", "the BMC at %s does not answer; looked for now and then", b->label);
    probe_background(b);
}

void gate_heard(struct bmc *b)
{
    struct gate *g = &b->gate;
    g->pace.heard_at = loop_now(loop_of(b));
    g->pace.heard++;
    if (g->state == GATE_ALIVE)
        return;
    if (g->state == GATE_DEAD)
        log_info("bmc.back", "the BMC at %s answers again", b->label);
    g->state = GATE_ALIVE;
    g->dead_since = 0;
    g->looking = false;
    probe_stop(b);
    gate_pump(b);
}

static void dead_text(const struct bmc *b, struct err *err)
{
    char since[CLOCK_TEXT_SIZE];
    (void)err_set(err, ERR_TIMEOUT,
                  "the BMC at %s does not answer since %s: off, unplugged, another network, or its "
                  "network access is disabled. It is looked for now and then",
                  b->label, clock_format(b->gate.dead_since, since));
}

void gate_looked(struct bmc *b, bool answered)
{
    struct gate *g = &b->gate;
    struct err err = {0};
    g->looking = false;
    if (answered) {
        gate_heard(b);
        return;
    }
    if (g->state == GATE_UNKNOWN) {
        g->state = GATE_SILENT;
        gate_pump(b);
        return;
    }
    dead_text(b, &err);
    while (g->head != NULL) {
        g->timeouts++;
        op_finish(&g->head->pub.op, &err); /* leaves the queue */
    }
    probe_background(b);
}

/* ---- who is next ---- */

/* Places bound how much goes on at once. Who waits for a BMC that says nothing does nothing, and
 * hundreds of dead ones must not keep the living waiting. A child process is something: it keeps
 * its place; so does a BMC that is only slow, for it is at work. */
static void give_place_back(void *user)
{
    struct request *r = user;
    if (r->bmc->gate.pace.heard == r->heard_before)
        limit_release(&r->ticket);
}

static int64_t gap_of(const struct bmc *b)
{
    return b->gate.gap_ms > b->hub->gap_ms ? b->gate.gap_ms : b->hub->gap_ms;
}

static void granted(void *user)
{
    struct request *r = user;
    struct bmc *b = r->bmc;
    r->running = true;
    r->started_at = loop_now(loop_of(b));
    r->heard_before = b->gate.pace.heard;
    b->gate.pace.gap_ms = gap_of(b);
    op_set_timeout(&r->pub.op, r->timeout_ms);
    if (b->driver->look == LOOK_RMCP && !b->driver->child)
        timer_set(loop_of(b), &r->patience, PLACE_MS, give_place_back, r);
    b->driver->start(r);
}

int64_t gate_wait_ms(struct bmc *b)
{
    struct session_pace *p = &b->gate.pace;
    int64_t now = loop_now(loop_of(b)), wait = p->next_at > now ? p->next_at - now : 0;
    p->next_at = now + wait + gap_of(b);
    return wait;
}

/* False: it is over already. */
static bool may_be_asked(struct bmc *b, struct request *r)
{
    struct err err = {0};
    if (b->lock_reason != NULL)
        (void)err_set(
            &err, ERR_AUTH,
            "%s; nothing is tried until the credential changes, so that the account is not "
            "locked",
            b->lock_reason);
    else if (!b->driver->knows(r))
        (void)err_set(&err, ERR_UNSUPPORTED, "the driver '%s' for the BMC at %s cannot %s%s",
                      b->driver->name, b->label, r->kind == REQ_READ ? "read " : "",
                      r->kind == REQ_READ ? name_of(bmc_what_names, (int)r->what, "?")
                                          : name_of(change_names, (int)r->change.kind, "?"));
    else
        return true;
    op_finish(&r->pub.op, &err); /* leaves the queue */
    return false;
}

static int max_of(const struct bmc *b)
{
    int most = b->driver->max > 0 ? b->driver->max : 1;
    return b->gate.max < most ? b->gate.max : most;
}

/* Whether the BMC must be looked for first; the look goes on then. */
static bool look_first(struct bmc *b)
{
    struct gate *g = &b->gate;
    if (g->looking)
        return true;
    if (g->state != GATE_DEAD && (g->state != GATE_UNKNOWN || !probe_can(b)))
        return false;
    if (g->state == GATE_DEAD && !probe_can(b)) {
        /* no way to look: who asks is the look */
        return g->in_flight > 0;
    }
    g->looking = true;
    probe_begin(b);
    return true;
}

static void take_out(struct gate *g, struct request *r)
{
    *(r->prev != NULL ? &r->prev->next : &g->head) = r->next;
    *(r->next != NULL ? &r->next->prev : &g->tail) = r->prev;
    r->next = r->prev = NULL;
    g->queued--;
}

static void pump(void *user)
{
    struct bmc *b = user;
    struct gate *g = &b->gate;
    while (g->head != NULL && g->in_flight < max_of(b)) {
        struct request *r = g->head;
        if (!may_be_asked(b, r))
            continue;
        if (look_first(b))
            return;
        int64_t wait = b->driver->paces ? 0 : g->pace.next_at - loop_now(loop_of(b));
        if (wait > 0) {
            timer_set(loop_of(b), &g->pump, wait, pump, b);
            return;
        }
        if (!b->driver->paces)
            (void)gate_wait_ms(b);
        take_out(g, r);
        r->next = g->running;
        if (r->next != NULL)
            r->next->prev = r;
        g->running = r;
        g->in_flight++;
        g->requests++;
        b->hub->requests++;
        r->taken = true;
        /* one that was never heard takes no place from those that were */
        bool doubt = g->state == GATE_SILENT || g->state == GATE_DEAD;
        struct limit *places = doubt ? &b->hub->silent : &b->hub->ops;
        limit_take_lane(places, b->lane, &r->ticket, granted, r);
    }
}

void gate_pump(struct bmc *b)
{
    timer_set(loop_of(b), &b->gate.pump, 0, pump, b);
}

/* Behind those of its kind; what only reads lets everything else pass. */
void gate_enter(struct bmc *b, struct request *r)
{
    struct gate *g = &b->gate;
    struct request *after = g->tail;
    while (r->kind != REQ_READ && after != NULL && after->kind == REQ_READ)
        after = after->prev;
    r->prev = after;
    r->next = after != NULL ? after->next : g->head;
    *(after != NULL ? &after->next : &g->head) = r;
    *(r->next != NULL ? &r->next->prev : &g->tail) = r;
    g->queued++;
    gate_pump(b);
}

/* ---- how it ended ---- */

static void note_time(struct bmc *b, const struct request *r)
{
    int64_t ms = loop_now(loop_of(b)) - r->started_at;
    b->gate.recent_ms[b->gate.recent_count++ % GATE_RECENT] =
        (uint16_t)(ms < UINT16_MAX ? ms : UINT16_MAX);
    latency_add(&b->hub->latency, ms * 1000);
}

/* What the end of a request says of the BMC. Errors of our own side say nothing. */
static void judge(struct bmc *b, const struct request *r, enum err_code code)
{
    struct gate *g = &b->gate;
    bool heard = g->pace.heard > r->heard_before;
    if (code == ERR_TIMEOUT || code == ERR_UNREACHABLE) {
        g->timeouts++;
        b->hub->timeouts++;
        if (heard)
            gate_heard(b);
        else
            die(b);
    } else if (code == ERR_OK || code == ERR_AUTH || code == ERR_DENIED || code == ERR_PROTOCOL ||
               code == ERR_BUSY || heard) {
        gate_heard(b);
    }
    if (code != ERR_OK) {
        g->failed++;
        b->hub->failed++;
    }
}

static void leave_running(struct bmc *b, struct request *r)
{
    struct gate *g = &b->gate;
    *(r->prev != NULL ? &r->prev->next : &g->running) = r->next;
    if (r->next != NULL)
        r->next->prev = r->prev;
    r->next = r->prev = NULL;
    g->in_flight--;
    if (!r->running)
        return; /* it waited for a place */
    /* the op's error is there in every case but a cancellation, which says nothing */
    if (r->pub.op.state != OP_RUNNING) {
        note_time(b, r);
        judge(b, r, r->pub.op.err.code);
    }
    r->running = false;
    r->bmc = b; /* the driver may look at it */
    b->driver->cancel(r);
    r->bmc = NULL;
}

static void request_stop(struct op *op)
{
    struct request *r = (struct request *)(void *)op;
    struct bmc *b = r->bmc;
    if (b == NULL)
        return;
    r->bmc = NULL;
    if (r->taken)
        leave_running(b, r);
    else
        take_out(&b->gate, r);
    timer_cancel(&r->timer);
    timer_cancel(&r->patience);
    limit_release(&r->ticket);
    gate_pump(b);
}

static void request_free(struct op *op)
{
    struct request *r = (struct request *)(void *)op;
    json_decref(r->pub.result);
    free((char *)r->change.user);
    if (r->change.password != NULL)
        mem_wipe_free((char *)r->change.password, strlen(r->change.password));
    free(r->fru);
    free(r);
}

const struct op_type request_type = {
    .name = "BMC request", .stop = request_stop, .free = request_free};

void request_done(struct request *r, const struct err *err)
{
    if (err != NULL && err->code == ERR_AUTH)
        bmc_refused(r->bmc, err);
    op_finish(&r->pub.op, err);
}

/* ---- life ---- */

void gate_open(struct bmc *b)
{
    b->gate.max = 1;
    b->gate.tcp_fd = -1;
}

void gate_close(struct bmc *b, const struct err *err)
{
    struct gate *g = &b->gate;
    while (g->running != NULL || g->head != NULL)
        op_finish(&(g->running != NULL ? g->running : g->head)->pub.op, err);
    if (g->console != NULL)
        op_finish(g->console, err);
    probe_stop(b);
    timer_cancel(&g->pump);
}
