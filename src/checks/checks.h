/*
 * Parsers of what tools on nodes print, and the judgement of the numbers in it. Pure. Used by the
 * engine's measure and group steps and by `clusterctl`.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define CHECKS_MAX_VALUES 256

struct value {
    char name[48]; /* "memory_copy" */
    double value;
    char unit[16]; /* "MB/s", "Gb/s", "s", "ops/s" */
};

struct values {
    struct value items[CHECKS_MAX_VALUES];
    int count;
};

/*
 * Reads the output of a tool: "node-test" (lines `measure NAME VALUE UNIT` among other text),
 * "ib-write-bw" (perftest's table: the average bandwidth as ib_write_bw in Gb/s).
 * ERR_INVALID when nothing that belongs to the format is in it, ERR_LIMIT, ERR_UNSUPPORTED
 * (parser).
 */
int checks_parse(const char *parser, const char *text, size_t len, struct values *ret,
                 struct err *err);

/* "ok", "low", "high", or "info" where no limit applies. `limits` is {NAME: {min, max}} with
 * numbers; NULL allowed. *ret_limit gets the one that applied, NaN: none. */
const char *checks_judge(const struct value *v, const json_t *limits, double *ret_limit);
