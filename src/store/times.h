/*
 * How long stages take, out of a database that no daemon has to have open: a rehearsal takes the
 * times of the real cluster from a backup (clusterd --stage-times).
 */
#pragma once

#include <jansson.h>

#include "base/err.h"

/* {stage: seconds}: the median of the newest attempts that passed, 31 at most, as plans have it.
 * Blocking, changes nothing. The caller json_decref()s. NULL with *err set. */
json_t *store_stage_times(const char *path, struct err *err);
