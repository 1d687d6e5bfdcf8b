/*
 * Machines and parts that were swapped. A node is a slot; what answers in it is a machine. Every
 * look at a machine is compared with the recorded one: changed parts are told and recorded, another
 * machine is kept aside until somebody (or the class's policy) says that it is meant. Private to
 * this room.
 */
#pragma once

#include "engine/node.h"

/* Another machine than the recorded one answered in the slot: nothing is started on the node. */
struct node_swap {
    struct hardware *hw;
    char *probe;  /* its JSON */
    char *reason; /* what differs, and whose machine it is */
    int64_t at;
};

/* What was seen against what is recorded. Takes hw. Returns true when it is another machine that
 * must be asked about: it is kept aside, hw is gone. Else *hw is to be adopted: *ret_json is its
 * JSON with what this look could not see; the caller frees. */
bool swap_holds_back(struct enode *n, struct hardware *hw, int64_t at, char **ret_json);
/* The BMC's new words of itself: part of the tree. Takes a reference. */
void swap_adopt_bmc(struct enode *n, json_t *identity);
/* The node whose recorded machine this is, other than n; NULL: none. */
struct enode *swap_owner(const struct enode *n, const struct hardware *hw);
/* "this is the machine of n17 (serial SN-17)" where the machine is another node's, by what was
 * recorded or by the spec. */
void swap_name_owner(const struct enode *n, const struct hardware *hw, struct strbuf *text);
/* How many of serial and UUID another node's machine has as well: they identify neither. */
int swap_shared_identifiers(const struct enode *n, const struct hardware *hw, struct strbuf *text);
/* The first stage that looks at the machine's parts; negative: none. */
int swap_looking_stage(const struct enode *n);
/* The candidate is dropped: the recorded machine is expected, and looked at again. */
void swap_dismiss(struct enode *n, const char *actor);
/* After a change of the parts or of this stage: where it wipes and was proven, is any disk of its
 * proof in the machine still? The answer is n->disks_gone. */
void swap_judge_disks(struct enode *n, int stage);
/* {reason, at, machine, components} or null. */
json_t *swap_view(const struct enode *n);
/* {serial, uuid, board} of the recorded machine, or null. */
json_t *swap_machine_view(const struct enode *n);
/* Adds "before": [{node, slot, machine, from, to}] to the component rows of the node. */
void swap_add_history(const struct enode *n, json_t *rows);
void swap_free(struct node_swap *swap);
/* At start: the candidates; after the machines and stages are loaded. */
int swap_load(struct engine *e, struct err *err);
