/*
 * Which node's recorded machine has an identifier: found at once, however many nodes there are.
 * Private to this room.
 */
#pragma once

#include "engine/node.h"

/* n->hardware becomes, or ceases to be, a recorded machine. Without hardware: nothing. */
void machines_enter(struct enode *n);
void machines_leave(struct enode *n);
/* The nodes other than n whose machine has one of hw's identifiers, each once; at most `max` of
 * them. An identifier that more than MACHINES_ALIKE nodes have tells nothing and finds none. */
enum { MACHINES_ALIKE = 16 };
int machines_sharing(const struct enode *n, const struct hardware *hw, struct enode **ret, int max);
void machines_free(struct engine *e);
