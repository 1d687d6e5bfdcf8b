/*
 * Fingerprints: what a stage's proof rests on, as a list of inputs and their SHA-256.
 *
 * The engine collects the inputs of a stage (scripts, parameters, hardware, the stages it needs);
 * equal fingerprints mean that nothing it rests on has changed. The list is kept with the proof, so
 * that a difference can be told in words. Pure.
 */
#pragma once

#include <jansson.h>

#include "base/digest.h"
#include "base/strbuf.h"
#include "model/hardware.h"

enum input_kind {
    INPUT_STEP,   /* the stage's own definition: step types and parameters */
    INPUT_FILE,   /* a script or template: name and SHA-256 of its text */
    INPUT_VAR,    /* a parameter and its value */
    INPUT_SPEC,   /* a property of the slot: BMC address, serial, ... */
    INPUT_SECRET, /* keyed hash of a credential; the value is never shown */
    INPUT_STAGE,  /* the fingerprint at which a needed stage was proven */
};

/* An empty list of inputs: a JSON array of [kind, name, value]. The caller json_decref()s it. */
json_t *inputs_new(void);
void inputs_add(json_t *inputs, enum input_kind kind, const char *name, const char *value);
void inputs_fingerprint(const json_t *inputs, char hex[DIGEST_HEX_SIZE]);
/*
 * What changed from `before` to `after`, in words, joined by "; ": "vm_swappiness 10 -> 20",
 * "tuned/tune.sh edited", "gpu 0000:17:00.0: serial A -> B". Linear in the number of inputs (a few
 * dozen, and parts).
 */
void inputs_explain(const json_t *before, const json_t *after, struct strbuf *out);
