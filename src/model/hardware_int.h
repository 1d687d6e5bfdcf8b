/* The hardware tree's inside. For the files hardware*.c only. */
#pragma once

#include "model/hardware.h"

struct hardware {
    json_t *root; /* the strings of the components live here, in `bmc` or in `texts`; NULL: only the
                     parts are left of it, their strings in `blob` */
    json_t *bmc;  /* what its BMC says of itself and the machine; NULL: nothing yet */
    struct component *items;
    int count, capacity;
    char **texts;
    int text_count, text_capacity;
    char *blob;
    struct machine_id id; /* in `root` or `blob` */
};

/* All parts anew, out of what the machine and its BMC said. */
void hardware_build(struct hardware *hw);
/* Finds `id` in `root`. */
void hardware_find_machine(struct hardware *hw);
/* Frees what the texts of the parts live in. */
void hardware_drop_facts(struct hardware *hw);
