/*
 * How long something takes, as counts in buckets a fifth wide: percentiles in constant space. The
 * loop keeps one of its turns, the store one of its commits.
 */
#pragma once

#include <stdint.h>

enum { LATENCY_BUCKETS = 128 };

struct latency {
    uint64_t counts[LATENCY_BUCKETS];
    uint64_t count;
    int64_t max_us;
};

void latency_add(struct latency *l, int64_t us);
/* The time in µs that `percent` of all stayed below, at most a quarter too high; 0: none yet. */
int64_t latency_percentile(const struct latency *l, double percent);
