/*
 * RMCP+ sessions over one UDP socket: log in, request and response with retransmission, Serial over
 * LAN. Used by the ipmi driver (ipmi.c) and the console (sol.c).
 */
#pragma once

#include <netinet/in.h>

#include "base/err.h"
#include "bmc/rmcp.h"
#include "loop/loop.h"

struct wire;    /* the socket of a hub */
struct session; /* one log-in on one BMC */

int wire_new(struct loop *loop, struct wire **ret, struct err *err);
void wire_free(struct wire *w); /* after its sessions */
/* Sends a packet of no session. fn gets what comes that is no RMCP+ packet. */
void wire_send(struct wire *w, const struct sockaddr_in *to, const uint8_t *packet, size_t len);
void wire_on_other(struct wire *w,
                   void (*fn)(const struct sockaddr_in *from, const uint8_t *packet, size_t len,
                              void *user),
                   void *user);

/* How a BMC is to be treated, and how it fares: shared by all sessions with it. */
struct session_pace {
    int64_t gap_ms;       /* the least between two packets to it */
    int64_t next_at;      /* the next one may leave then */
    int64_t heard_at;     /* the last sound packet came then; 0: none so far */
    uint64_t heard, sent; /* packets */
    uint64_t resent;      /* because nothing was heard */
};

struct session_target {
    struct sockaddr_in address;
    const char *label; /* "10.77.0.201:623", for messages; borrowed for the call */
    const char *user, *password;
    int cipher_suite;          /* 0: 17, then 3 */
    struct session_pace *pace; /* outlives the session; NULL: as fast as it answers */
};

struct session *session_new(struct wire *w, const struct session_target *target);
/* Says goodbye to the BMC when it is logged in. NULL allowed. */
void session_free(struct session *s);

/* `err` code OK: the BMC answered, look at m->completion (m is borrowed for the call). */
typedef void (*session_answer_fn)(const struct err *err, const struct ipmi_message *m, void *user);
/* Logs in first when needed. One at a time; never answers inside the call. */
void session_request(struct session *s, uint8_t netfn, uint8_t command, const uint8_t *data,
                     size_t len, session_answer_fn fn, void *user);
/* Forgets the request in flight; its answer is dropped. */
void session_drop(struct session *s);
/* "cipher suite 17"; "" before the first log-in. */
const char *session_suite(const struct session *s);

/* Serial over LAN (section 15): what the BMC sends, acknowledged here. */
void session_on_sol(struct session *s, void (*fn)(const uint8_t *data, size_t len, void *user),
                    void *user);
