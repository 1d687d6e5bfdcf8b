/*
 * The parts of a plan: plan.c says what would run, plan_power.c what that may draw. Private to this
 * room.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "model/spec.h"

/* Of a node in a plan: bits. */
enum {
    PLAN_STARTS = 1, /* it is switched on or restarted */
    PLAN_BURNS = 2,  /* a stage works it as hard as it goes */
};

/* [{name, peak_kw, rated_kw}] for the feeds of the spec; `loads` has the bits of each node in the
 * spec's order. The caller json_decref()s. */
json_t *plan_feeds(const struct spec *spec, const uint8_t *loads);
