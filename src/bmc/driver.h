/*
 * What a BMC driver is, and what the gate (bmc.c) hands to it: one request at a time for each BMC.
 */
#pragma once

#include <netinet/in.h>

#include "base/latency.h"
#include "bmc/bmc.h"
#include "bmc/gate.h"
#include "bmc/session.h"
#include "loop/limit.h"

enum request_kind {
    REQ_VERIFY,
    REQ_IDENTITY,
    REQ_POWER_GET,
    REQ_POWER_SET,
    REQ_BOOT_GET,
    REQ_BOOT_SET,
    REQ_READ,
    REQ_CHANGE
};

struct request {
    struct bmc_op pub; /* first */
    struct bmc *bmc;   /* NULL once it is over */
    enum request_kind kind;
    enum bmc_power_action action; /* REQ_POWER_SET */
    enum bmc_what what;           /* REQ_READ */
    struct bmc_change change;     /* REQ_CHANGE; its texts belong to the request */
    /* the gate's */
    struct request *next, *prev;
    int64_t timeout_ms, started_at;
    uint64_t heard_before; /* packets of the BMC when it began */
    struct limit_ticket ticket;
    struct timer patience; /* how long it holds its place while the BMC is silent */
    bool taken, running;   /* out of the queue; at work */
    /* the driver's */
    int step, retries;
    uint8_t *fru;
    size_t fru_len, fru_size, fru_chunk;
    bool fru_words;
    struct op *child;
    struct timer timer;
};

/* How to find out that a BMC is there, without a log-in. */
enum look { LOOK_NONE, LOOK_RMCP, LOOK_TCP };

struct bmc_driver {
    const char *name;
    int port; /* unless the spec names one */
    int max;  /* requests at once that it can do for one BMC; 0: 1 */
    enum look look;
    bool child; /* works through child processes */
    bool paces; /* keeps the gap between its commands itself, see gate_wait_ms() */
    /* Sends one look; gate_looked() hears of an answer. NULL: as `look` says. */
    void (*look_with)(struct bmc *bmc);
    /* Whether the driver knows how to ask for this; what it does not is refused by the gate. */
    bool (*knows)(const struct request *r);
    /* Prepares and releases what the driver keeps for a BMC; NULL: nothing. */
    void (*open)(struct bmc *bmc);
    void (*close)(struct bmc *bmc);
    /* Begins; the driver calls request_done exactly once, not inside start, unless cancelled. */
    void (*start)(struct request *r);
    void (*cancel)(struct request *r);
};
extern const struct bmc_driver bmc_driver_ipmi, bmc_driver_ipmitool;

struct bmc_hub {
    struct bmc_hub_config c;
    struct wire *wire;   /* NULL: a test's own drivers */
    struct limit ops;    /* places of the BMCs that answer */
    struct limit silent; /* of those that did not answer a look */
    struct map *locks;   /* address -> struct lock */
    struct map *looks;   /* label -> the BMC that is looked for */
    struct bmc *bmcs;
    int open;
    int64_t gap_ms;
    unsigned dice;
    /* of all BMCs that ever were */
    uint64_t requests, failed, timeouts, looks_sent;
    struct latency latency;
};

struct bmc {
    struct bmc_hub *hub;
    const struct bmc_driver *driver;
    char *address, *user, *password, *credential_id;
    char label[64]; /* "10.0.0.1:623" */
    struct sockaddr_in sockaddr;
    int port, cipher_suite, lane;
    char *lock_reason;
    struct gate gate;
    struct session *session; /* ipmi */
    struct bmc *next, *prev; /* of the hub */
};

extern const struct op_type request_type;
void bmc_label(const struct sockaddr_in *address, char label[64]);
/* The BMC refused the credential: the breaker opens. */
void bmc_refused(struct bmc *b, const struct err *err);

/* The outcome; r is over afterwards. err NULL or OK: success. */
void request_done(struct request *r, const struct err *err);
