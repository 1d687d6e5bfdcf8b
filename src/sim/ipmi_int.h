/*
 * What the files of the IPMI head share: ipmi.c owns the socket and the faults of time,
 * ipmi_session.c log-ins (RAKP) and protected packets, ipmi_commands.c the table of commands,
 * chassis and power, ipmi_storage.c FRU, SEL, SDR and sensors.
 *
 * "Section" is the IPMI specification's, v2.0 rev. 1.1, unless another one is named.
 */
#pragma once

#include <netinet/in.h>

#include "bmc/rmcp.h"
#include "sim/sim.h"

enum {
    IPMI_SESSIONS = 4,
    IPMI_SEL_SIZE = 32,
    IPMI_BAD_LOGINS = 3, /* FAULT_BMC_LOCKS: so many within the span lock the account for it */
    IPMI_LOCK_MS = 300000,
    IPMI_FREEZE_MS = 30000,
    IPMI_IDLE_MS = 60000, /* section 6.12.15; clients count in real time, so it is not scaled */
};

/* Privilege levels, table 13-9's low bits. */
enum { PRIV_NONE, PRIV_CALLBACK, PRIV_USER, PRIV_OPERATOR, PRIV_ADMINISTRATOR };

/* Completion codes, table 5-2. */
enum {
    CC_OK = 0x00,
    CC_INVALID_COMMAND = 0xc1,
    CC_LENGTH = 0xc7,
    CC_RANGE = 0xc9,
    CC_TOO_MANY = 0xca,
    CC_RESERVATION = 0xc5,
    CC_NOT_PRESENT = 0xcb,
    CC_INVALID_FIELD = 0xcc,
    CC_PRIVILEGE = 0xd4,
    CC_STATE = 0xd5,
};

enum ipmi_session_state { SESSION_FREE, SESSION_OPENED, SESSION_RAKP, SESSION_ACTIVE };

struct ipmi_session {
    enum ipmi_session_state state;
    struct rakp rakp;
    struct rmcp_keys keys;
    uint32_t sent, received; /* sequence numbers */
    uint8_t limit;           /* the highest privilege that was asked for */
    uint8_t privilege;
    bool closing;
    int64_t used;
    struct sim_sessions *counted; /* while it is active */
    uint8_t *answer;              /* the last one, for a request that is sent again */
    size_t answer_len;
};

struct ipmi_bmc {
    struct ipmi_head *head;
    struct sim_node *node;
    struct ipmi_session sessions[IPMI_SESSIONS];
    struct timer setup; /* ends log-ins that stopped halfway */

    /* faults */
    int64_t second; /* when the second began in which `in_second` requests came */
    int in_second, in_flight;
    int64_t frozen_until, locked_until;
    int64_t bad[IPMI_BAD_LOGINS]; /* when the last bad logins were, newest first */
    int bad_count;

    /* boot option parameters 0 and 4, section 28.13; parameter 5 is the machine's */
    uint8_t boot_progress, boot_acknowledge[2];
    bool commanded_on; /* the last power-on was asked for over IPMI */

    uint16_t sdr_reservation, sel_reservation;
    struct ipmi_sel_entry {
        uint32_t time;
        uint16_t id;
        bool on;
    } sel[IPMI_SEL_SIZE]; /* oldest first */
    int sel_count;
    uint16_t sel_last_id;
    int64_t seen_ons, seen_offs;

    /* what DCMI's readings saw so far */
    uint32_t watts_min, watts_max, watts_count;
    double watts_sum;
    int64_t watts_since;
};

/* ---- ipmi.c ---- */

/* Where a datagram came from and which of our addresses it was sent to. */
struct ipmi_peer {
    struct sockaddr_in from;
    struct in_addr to;
};
/* Sends, at once or as late as FAULT_BMC_SLOW wants it. */
void ipmi_send(struct ipmi_bmc *b, const struct ipmi_peer *peer, const uint8_t *packet, size_t len);

/* ---- ipmi_session.c ---- */

/* One RMCP+ packet (authentication type 6). */
void ipmi_session_packet(struct ipmi_bmc *b, const struct ipmi_peer *peer, const uint8_t *packet,
                         size_t len);
void ipmi_session_end(struct ipmi_session *s);
/* The GUID that the BMC shows, as 20.8 has it: least significant byte first. */
void ipmi_guid(const struct sim_node *n, uint8_t out[16]);

/* ---- ipmi_commands.c ---- */

struct ipmi_call {
    struct ipmi_bmc *bmc;
    struct ipmi_session *session; /* NULL: outside of a session */
    const uint8_t *data;
    size_t len;
    /* the answer */
    uint8_t completion;
    uint8_t out[256];
    size_t out_len;
};

/* One IPMI message in, its answer out. 0: no message, nothing is answered. */
size_t ipmi_message(struct ipmi_bmc *b, struct ipmi_session *s, const uint8_t *message, size_t len,
                    uint8_t out[RMCP_MAX]);
void ipmi_put(struct ipmi_call *c, const void *data, size_t len);
void ipmi_put8(struct ipmi_call *c, unsigned value);
void ipmi_put16(struct ipmi_call *c, unsigned value);
void ipmi_put32(struct ipmi_call *c, uint32_t value);
uint8_t ipmi_checksum(const uint8_t *data, size_t len);

/* ---- ipmi_storage.c ---- */

void ipmi_fru_info(struct ipmi_call *c);
void ipmi_fru_read(struct ipmi_call *c);
void ipmi_sel_info(struct ipmi_call *c);
void ipmi_sel_reserve(struct ipmi_call *c);
void ipmi_sel_entry(struct ipmi_call *c);
void ipmi_sdr_info(struct ipmi_call *c);
void ipmi_sdr_reserve(struct ipmi_call *c);
void ipmi_sdr_get(struct ipmi_call *c);
void ipmi_sensor_reading(struct ipmi_call *c);
