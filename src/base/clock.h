/*
 * Time: milliseconds as int64_t everywhere, monotonic for intervals, UTC wall time for records.
 *
 * Only loop and the programs' edges read the clock; everybody else is handed the time.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

#define CLOCK_TEXT_SIZE 32

int64_t clock_mono_ms(void);
int64_t clock_mono_us(void);
int64_t clock_wall_ms(void); /* since 1970-01-01 UTC */

/* "2026-12-01 06:50:31.123" (UTC), the form in which the store keeps times. Returns buf. */
const char *clock_format(int64_t wall_ms, char buf[CLOCK_TEXT_SIZE]);
/* Reverse of clock_format (fraction optional, 'T' or ' ' between, 'Z' allowed). */
int clock_parse(const char *text, int64_t *ret_wall_ms, struct err *err);

/* "90s", "10m", "2h", "1d", "500ms"; a bare number is refused, for it does not say its unit. */
int clock_parse_duration(const char *text, int64_t *ret_ms, struct err *err);
/* "850ms", "12s", "3m20s", "5h10m", "2d4h": short, for people. Returns buf. */
const char *clock_format_duration(int64_t ms, char buf[CLOCK_TEXT_SIZE]);
