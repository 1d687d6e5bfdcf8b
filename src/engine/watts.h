/*
 * The power budget in use: what the engine's nodes count on their feeds (budget.h), kept in the
 * store, so that it holds after a crash, too.
 *
 * Whoever switches a machine on takes watts first; ready() follows once they are reserved AND that
 * is on disk. A node that is on, or should be, or of which nobody knows, counts as idle at least; a
 * node that is observed off and should be off counts nothing.
 */
#pragma once

#include <jansson.h>

#include "engine/budget.h"
#include "loop/op.h"

struct engine;
struct enode;

/* Embedded in the node. */
struct watts {
    struct budget_load load;
    void (*ready)(void *user, const struct err *err); /* NULL: nobody waits */
    void *user;
    enum load_state want;
    struct op *sync;       /* the reservation is on its way to the disk */
    bool commanded;        /* the machine was told: what is reserved is in use */
    int64_t lost_until;    /* until then it may still start, although it is seen off */
    struct timer patience; /* moves the attempt's deadline while its step waits */
    int64_t patient_until;
    int saved_feed; /* the row in the store; -1: none, -2: not known */
    int64_t saved_w, saved_until;
    enum load_state saved_state;
};

/* ---- asking ---- */

/*
 * Takes the watts of LOAD_INRUSH (to switch it on), LOAD_BOOT (to restart it) or LOAD_BURNIN. Fails
 * at once where they could never fit, and where somebody else waits. ready() runs from the loop. A
 * patient asker is a step: the deadline of its attempt is moved as long as it waits.
 */
int watts_take(struct enode *n, enum load_state want, bool patient,
               void (*ready)(void *user, const struct err *err), void *user, struct err *err);
/* ready() will not run any more; what was reserved already stays until watts_release(). */
void watts_cancel(struct enode *n);
/* Gives back what was reserved but not used, and what a burn-in took. */
void watts_release(struct enode *n);

/* ---- telling ---- */

/* The machine was told to start: its inrush window and boot begin now where it was seen on, else
 * within a minute or never. */
void watts_started(struct enode *n, bool seen_on);
/* It is up: its boot is over. */
void watts_settled(struct enode *n);
/* power_desired or power_observed changed. */
void watts_account(struct enode *n);

/* ---- stages ---- */

/* Whether the stage may start: one with `power: burnin` waits for its watts first, outside of any
 * attempt; the node is kicked when it has them. */
bool watts_admit(struct enode *n, int stage);
/* Nothing is about to start: a burn-in that waits, or has its watts, gives up. */
void watts_unadmit(struct enode *n);
/* The attempt is over, however it ended. */
void watts_stage_over(struct enode *n);

/* ---- life ---- */

/* The feeds, racks and classes are those of e->spec now. */
void watts_bind(struct engine *e);
/* At start, with the nodes and their attempts known: what the store says is counted again. */
int watts_load(struct engine *e, struct err *err);
/* The node goes: with the spec (then its row goes, too) or with the daemon. */
void watts_node_done(struct enode *n);
void watts_done(struct engine *e);

/* ---- showing ---- */

/* "waits for 1200 W on feed pdu-r1: 9.1 of 10 kW reserved, 3 before it"; false: it does not wait.
 * Without the place in the queue where `place` is false. */
bool watts_waits(const struct enode *n, bool place, char *text, size_t size);
json_t *watts_view(const struct engine *e);
