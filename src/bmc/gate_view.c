/* What the gates are doing and what they counted, as JSON (docs/bmc.md). Reads only. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bmc/driver.h"

static const char *state_word(const struct bmc *b)
{
    static const char *const words[] = {[GATE_UNKNOWN] = "unknown",
                                        [GATE_SILENT] = "unknown",
                                        [GATE_ALIVE] = "alive",
                                        [GATE_DEAD] = "dead"};
    return b->lock_reason != NULL ? "locked" : words[b->gate.state];
}

static int by_size(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

/* Of the last requests; -1: none so far. */
static int percentile(const struct gate *g, unsigned percent)
{
    uint16_t sorted[GATE_RECENT];
    unsigned n = g->recent_count < GATE_RECENT ? g->recent_count : GATE_RECENT;
    if (n == 0)
        return -1;
    memcpy(sorted, g->recent_ms, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_size);
    return sorted[(n - 1) * percent / 100];
}

static json_t *time_or_null(int64_t wall_ms)
{
    char text[CLOCK_TEXT_SIZE];
    return wall_ms > 0 ? json_string(clock_format(wall_ms, text)) : json_null();
}

static json_t *ms_or_null(int ms)
{
    return ms >= 0 ? json_integer(ms) : json_null();
}

json_t *bmc_view(const struct bmc *b)
{
    const struct gate *g = &b->gate;
    json_t *o =
        json_pack("{s:s,s:s,s:s,s:o,s:s*,s:b}", "address", b->label, "driver", b->driver->name,
                  "state", state_word(b), "dead_since", time_or_null(g->dead_since), "locked",
                  b->lock_reason, "console", g->console != NULL);
    json_t *counts =
        json_pack("{s:i,s:i,s:i,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o}", "queued", g->queued,
                  "in_flight", g->in_flight, "max", g->max, "gap_ms",
                  (json_int_t)(g->gap_ms > b->hub->gap_ms ? g->gap_ms : b->hub->gap_ms), "requests",
                  (json_int_t)g->requests, "failed", (json_int_t)g->failed, "timeouts",
                  (json_int_t)g->timeouts, "retries", (json_int_t)g->pace.resent, "looks",
                  (json_int_t)g->looks, "deaths", (json_int_t)g->deaths, "p50_ms",
                  ms_or_null(percentile(g, 50)), "p99_ms", ms_or_null(percentile(g, 99)));
    (void)json_object_update(o, counts);
    json_decref(counts);
    return o;
}

json_t *bmc_hub_view(const struct bmc_hub *hub)
{
    int by_state[GATE_DEAD + 1] = {0}, locked = 0, queued = 0, in_flight = 0, consoles = 0;
    uint64_t resent = 0, sent = 0;
    for (const struct bmc *b = hub->bmcs; b != NULL; b = b->next) {
        locked += b->lock_reason != NULL;
        by_state[b->gate.state]++;
        queued += b->gate.queued;
        in_flight += b->gate.in_flight;
        consoles += b->gate.console != NULL;
        resent += b->gate.pace.resent;
        sent += b->gate.pace.sent;
    }
    const struct latency *l = &hub->latency;
    return json_pack(
        "{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:I}", "bmcs",
        hub->open, "alive", by_state[GATE_ALIVE], "dead", by_state[GATE_DEAD], "unknown",
        by_state[GATE_UNKNOWN] + by_state[GATE_SILENT], "locked", locked, "places", hub->ops.max,
        "places_taken", hub->ops.in_use, "queued", queued, "in_flight", in_flight, "consoles",
        consoles, "requests", (json_int_t)hub->requests, "failed", (json_int_t)hub->failed,
        "timeouts", (json_int_t)hub->timeouts, "packets", (json_int_t)sent, "retries",
        (json_int_t)resent, "looks", (json_int_t)hub->looks_sent, "p50_ms",
        (double)latency_percentile(l, 50) / 1000, "p99_ms",
        (double)latency_percentile(l, 99) / 1000, "gap_ms", (json_int_t)hub->gap_ms);
}

bool bmc_answers(const struct bmc *b)
{
    return b->gate.state == GATE_ALIVE && b->lock_reason == NULL;
}
