/*
 * Parts of a machine as inputs of stages: one row for each part, told apart by its serial, and the
 * difference of two such lists in words. Pure. Used by fingerprints and by the engine, which
 * compares every new look at a machine with the recorded one.
 *
 * A row is [ "hardware", KIND, VALUE, SLOT, PLACE ]. VALUE is what the part is ("serial 1320"; what
 * it is and where, for one without a serial); SLOT and PLACE only say where, and count for nothing.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/strbuf.h"
#include "model/hardware.h"

/* Ended by NULL: system, board, bmc, cpu, memory, gpu, nic, hca, disk, psu. */
extern const char *const part_kinds[];

/* Whether a serial, UUID or address is one of firmware's ways to say nothing. NULL: it is. */
bool serial_is_junk(const char *text);
/* Where such a text comes from, for the table's test; NULL when it is none. Static. */
const char *serial_junk_source(const char *text);

/* Appends the machine's rows of this kind, sorted by value, so that the order in which a kernel
 * finds parts counts for nothing. with_places: a part that moves is another one. */
void parts_add(json_t *inputs, const struct hardware *hw, const char *kind, bool with_places);

enum part_change {
    PART_SWAPPED, /* another one in the same slot */
    PART_NEW,
    PART_GONE,
    PART_MOVED,  /* the same one in another place: no change of the value */
    PART_PLACED, /* the same, where the value names the place (with_places) */
    PART_TOLD,   /* the same slot, and only now somebody tells the serial */
};
/* `words`: "gpu 0000:17:00.0: serial 1320 -> 1654". All borrowed for the call. */
typedef void (*part_change_fn)(enum part_change what, const char *kind, const char *words,
                               void *user);
/* Calls fn for every difference between the rows of this kind; other rows are passed over. */
void parts_diff(const json_t *before, const json_t *after, const char *kind, part_change_fn fn,
                void *user);
