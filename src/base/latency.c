#include "base/latency.h"

/* Four buckets for each doubling: 0, 1, 2, 3, then (4..7) * 2^k. */
static int bucket_of(int64_t us)
{
    int shift = 0;
    if (us < 4)
        return us > 0 ? (int)us : 0;
    while ((us >> shift) >= 8)
        shift++;
    int i = shift * 4 + (int)(us >> shift);
    return i < LATENCY_BUCKETS ? i : LATENCY_BUCKETS - 1;
}

static int64_t top_of(int bucket)
{
    if (bucket < 8)
        return bucket;
    int shift = bucket / 4 - 1;
    return ((int64_t)(bucket % 4 + 5) << shift) - 1;
}

void latency_add(struct latency *l, int64_t us)
{
    l->counts[bucket_of(us)]++;
    l->count++;
    if (us > l->max_us)
        l->max_us = us;
}

int64_t latency_percentile(const struct latency *l, double percent)
{
    double wanted = (double)l->count * percent / 100;
    uint64_t seen = 0;
    for (int i = 0; i < LATENCY_BUCKETS; i++) {
        seen += l->counts[i];
        if (l->count > 0 && (double)seen >= wanted)
            return top_of(i) < l->max_us ? top_of(i) : l->max_us;
    }
    return l->max_us;
}
