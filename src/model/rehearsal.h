/*
 * Rehearsals: a spec rewritten for simulated machines of the same shape. Pure.
 *
 * `clusterctl rehearse` parses the user's spec as it is, and asks here for three things: the same
 * spec with loopback addresses and credentials of its own, the fleet file of clusterd-sim
 * (docs/sim.md) with machines that are what each class expects, and what scripts print where a
 * stage measures something. The user's secrets have no way in: the model never sees them.
 * rehearsal_timeline.c makes the table of stages out of the daemon's events.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "model/spec.h"

/* Of the machine that stands for nodes[i]: BMCs begin at the first, addresses at the second. */
enum { REHEARSAL_BMCS = 0x7f400001, REHEARSAL_ADDRESSES = 0x7f800002 };
#define REHEARSAL_HEAD "127.128.0.1"
#define REHEARSAL_USER "rehearsal"
#define REHEARSAL_PASSWORD_FILE "bmc.pw"
#define REHEARSAL_KEY_FILE "id_ed25519"

struct rehearsal {
    int bmc_port, ssh_port;
    const char *password; /* of all simulated BMCs, at most 20 characters */
    int64_t kernel_bytes, initrd_bytes;
    const json_t *images;  /* {file: bytes} */
    int64_t image_bytes;   /* of those that are not in it */
    double uplink_mb_s;    /* of the head node; 0: without limit */
    const json_t *history; /* {stage: seconds that it took}; NULL: none */
};

/* The spec, for the private daemon: JSON, which is YAML. The caller json_decref()s. */
json_t *rehearsal_spec(const struct spec *s, const struct rehearsal *r);
/* The fleet. What simulated machines cannot be is a text in `notes`, an array. */
json_t *rehearsal_fleet(const struct spec *s, const struct rehearsal *r, json_t *notes);
/* {"CLASS/STAGE.log": text}: figures that meet the limits. Which ones is said in `figures`:
 * [{stage, class, names: [...]}]. */
json_t *rehearsal_answers(const struct spec *s, json_t *figures);
/* The text with the users' own addresses for loopback ones; the caller frees. */
char *rehearsal_real_names(const struct spec *s, const char *text);

/* ---- rehearsal_timeline.c ---- */

struct timeline;
/* `start_ms`: wall time that counts as 0. */
struct timeline *timeline_new(int64_t start_ms);
void timeline_free(struct timeline *t);
/* Rows of GET /v1/events, oldest first. */
void timeline_add(struct timeline *t, const json_t *events);
/* [{stage, nodes, passed, failed, skipped, retries, first_start_s, median_s, last_end_s}] in the
 * order of their first starts; seconds since the start, median_s: of the passed ones, from the
 * first attempt's start to the pass. */
json_t *timeline_json(struct timeline *t);
/* Seconds from the start to the last event of a stage. */
double timeline_length(const struct timeline *t);
