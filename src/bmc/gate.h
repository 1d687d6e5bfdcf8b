/*
 * The gate of a BMC: the one way to it, for every caller. Private to this room.
 *
 * Requests queue; few are in flight (`max`), and commands keep their distance (`pace.gap_ms`). What
 * reads waits behind what switches power. A BMC that did not answer is *dead*: nothing is sent to
 * it but a look now and then (probe.c), which costs nobody else a place, and its requests wait for
 * the next look and fail with it. It comes back by itself.
 */
#pragma once

#include <jansson.h>

#include "bmc/session.h"
#include "loop/limit.h"

struct bmc;
struct request;
struct op;

enum gate_state {
    GATE_UNKNOWN, /* not asked yet, or not lately */
    GATE_SILENT,  /* a look was not answered: some BMCs answer none, so it is tried all the same */
    GATE_ALIVE,
    GATE_DEAD
};

enum { GATE_RECENT = 64 };

struct gate {
    /* set by the quirks; each is at least the hub's, at most what the driver can */
    int64_t gap_ms; /* between two commands */
    int max;        /* in flight at once */
    struct session_pace pace;
    enum gate_state state;
    struct request *head, *tail; /* those that wait */
    struct request *running;
    int queued, in_flight;
    struct timer pump;
    struct op *console; /* its one session for Serial over LAN; NULL: none */
    /* looks */
    bool looking; /* requests wait for the end of this one */
    struct timer look;
    int sent, rounds; /* packets of this look; looks in the background since it died */
    struct watch tcp;
    int tcp_fd;         /* of a look by TCP; -1: none */
    int64_t dead_since; /* wall time */
    /* how it fares */
    uint64_t requests, failed, timeouts, looks, deaths;
    uint16_t recent_ms[GATE_RECENT]; /* how long the last requests took, a ring */
    unsigned recent_count;
};

void gate_open(struct bmc *b);
/* Ends what is in it with `err`. */
void gate_close(struct bmc *b, const struct err *err);
/* Puts the request into the queue. */
void gate_enter(struct bmc *b, struct request *r);
/* Soon looks at who is next. */
void gate_pump(struct bmc *b);
/* The BMC showed a sign of life, by whatever way. */
void gate_heard(struct bmc *b);
/* How long a driver that sends several commands for one request waits before the next one. */
int64_t gate_wait_ms(struct bmc *b);

/* probe.c: begins a look, of which gate_looked() hears; in the background, only of a success. */
void probe_begin(struct bmc *b);
void probe_background(struct bmc *b);
void probe_stop(struct bmc *b);
/* Whether the driver has a way to look. */
bool probe_can(const struct bmc *b);
/* What came on the wire that belongs to no session. */
void probe_packet(const struct sockaddr_in *from, const uint8_t *packet, size_t len, void *hub);
void gate_looked(struct bmc *b, bool answered);
