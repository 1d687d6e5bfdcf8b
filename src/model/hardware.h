/*
 * The hardware tree of a machine, from nodeprobe's JSON: components with identities, compared with
 * the slot (spec) and the bill of materials (profile). Pure. Used by the engine.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "model/spec.h"

#define HARDWARE_MAX_BYTES (1u << 20)

struct hardware;

struct component {
    const char *kind;     /* one of part_kinds (model/parts.h) */
    const char *slot;     /* "eth0", "0000:17:00.0", "cpu0", "vda" */
    const char *identity; /* serial, MAC, GUID: what changes with a swap; "" where it has none, also
                             where two parts of the machine have the same */
    const char *model;
    const char *firmware;
    const char *detail; /* one line: "512 MiB", "16 GB virtio", "up 10000 Mb/s", "port 1 ACTIVE" */
    const char *place;  /* where it sits, not what the kernel calls it: PCI address, slot; "" */
    const char *value;  /* what it is, as an input of stages: "serial 1320"; without an identity,
                           slot and model */
    bool software;      /* RDMA without hardware (rxe, siw): no part */
    const char *first_label, *first, *second_label, *second; /* inside: what it may be told by */
};

/* Checks the schema version and every member's type. ERR_INVALID, ERR_UNSUPPORTED (version). */
int hardware_parse(const char *json, size_t len, struct hardware **ret_hw, struct err *err);
/* Lets go of all but the parts and the machine's identifiers, a tenth of the memory: what the
 * functions below say of needing the facts does not work on it any more. */
void hardware_slim(struct hardware *hw);
void hardware_free(struct hardware *hw); /* NULL allowed */
int hardware_count(const struct hardware *hw);
const struct component *hardware_at(const struct hardware *hw, int index);
/* What the BMC says of itself (`bmc`: as bmc_op's identity; NULL: nothing), as parts: the BMC, and
 * power supplies where the machine's own firmware lists none. Replaces what it said before. */
void hardware_set_bmc(struct hardware *hw, const json_t *bmc); /* needs the facts */
/* What a look without drivers or without root cannot see (a GPU's serial in the ramdisk, the
 * system's serial) is taken over from the last look at the same machine, where the slot and the
 * model agree. Needs the facts of both. Returns them with it, as JSON text for the store; the
 * caller frees. */
char *hardware_carry_over(struct hardware *hw, const struct hardware *last);
/* The identifiers of the machine as a whole; "" where it has none. Borrowed. */
struct machine_id {
    const char *serial, *uuid, *board;
};
struct machine_id hardware_machine(const struct hardware *hw);
/* One word that the history of parts keeps as "the machine": serial, else UUID, else board. */
const char *hardware_machine_word(const struct hardware *hw);
/* Every identifier that tells the machine or a part of its own network from others: "serial",
 * "uuid", "board", "mac" and the text. */
void hardware_each_identifier(const struct hardware *hw,
                              void (*fn)(const char *kind, const char *text, void *user),
                              void *user);
/* Whether both are looks at one machine: more identifiers (serial, UUID, board, MACs) agree than
 * contradict. A serial alone does not do: makers repeat them. */
bool hardware_same_machine(const struct hardware *a, const struct hardware *b);

/* Whether the machine holds what the class wants. `differences`: one line each. Needs the facts, as
 * the two below. */
bool hardware_check_bom(const struct hardware *hw, const struct bom *bom,
                        struct strbuf *differences);

struct identity_result {
    int agreements; /* independent identifiers that agree with the slot: serial, uuid, MAC */
    int contradictions;
};
/*
 * Compares the slot with what the machine (hw; NULL: not probed) and its BMC (`bmc`: as bmc_op's
 * identity; NULL) say. `text` gets one line per identifier: "serial SN-1: spec, DMI and FRU agree".
 * A MAC counts once. Values of the "To be filled by O.E.M." kind count as absent.
 */
void hardware_check_identity(const struct hardware *hw, const struct spec_node *slot,
                             const json_t *bmc, struct identity_result *ret, struct strbuf *text);
/* RDMA ports in state ACTIVE that run at least at `gbs` (Gb/s; 0: whatever they run at); `text`:
 * every port. */
int hardware_active_rdma_ports(const struct hardware *hw, double gbs, struct strbuf *text);
/* The version of NVIDIA's driver that runs; "" where none does. Borrowed. */
const char *hardware_gpu_driver(const struct hardware *hw);
