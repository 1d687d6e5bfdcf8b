/*
 * BMCs: one interface over the drivers (ipmi, ipmitool), with the gate that all callers share.
 *
 * A hub owns the UDP socket of the ipmi driver and the limit on operations in flight; a bmc is one
 * controller: its gate (gate.h), its session, and its lock-out breaker: once a BMC refused a
 * credential nothing is sent to it any more until it is opened with another credential_id. Used by
 * the engine; the daemon builds the hub.
 *
 * A timeout is the time for the conversation: it begins with the request's turn. The wait for it is
 * bounded, too: a BMC that is known to be dead fails its requests after a last look, within 3 s.
 *
 * All operations follow the op contract (loop/op.h): ERR_AUTH wrong user or password (the text says
 * which), ERR_DENIED the user lacks the privilege, ERR_TIMEOUT silence, ERR_UNREACHABLE refused by
 * the network, ERR_PROTOCOL nonsense, ERR_UNSUPPORTED, ERR_BUSY session or node busy.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/names.h"
#include "loop/op.h"

struct bmc_hub;
struct bmc;
struct bmc_driver;

struct bmc_hub_config {
    struct loop *loop;
    int max_ops;                             /* operations in flight over all BMCs */
    const struct bmc_driver *const *drivers; /* ended by NULL, for tests; NULL: the built-in ones */
    /* The breaker opened (reason) or closed (reason NULL): kept across restarts by the owner. */
    void (*on_lock)(const char *address, const char *credential_id, const char *reason, void *user);
    void *user;
};

struct bmc_hub *bmc_hub_new(const struct bmc_hub_config *config, struct err *err);
void bmc_hub_free(struct bmc_hub *hub); /* after all its BMCs */
void bmc_hub_set_max(struct bmc_hub *hub, int max_ops);
/* The least time between two commands to one BMC. */
void bmc_hub_set_gap(struct bmc_hub *hub, int64_t gap_ms);
/* All BMCs together, and one: what its gate is doing and what it counted (docs/bmc.md). */
json_t *bmc_hub_view(const struct bmc_hub *hub);
json_t *bmc_view(const struct bmc *bmc);
/* It answered lately and nothing bars it: whoever can do without must not ask another one. */
bool bmc_answers(const struct bmc *bmc);
/* At start: what on_lock said in an earlier life. Takes effect in bmc_open. */
void bmc_hub_remember_lock(struct bmc_hub *hub, const char *address, const char *credential_id,
                           const char *reason);

struct bmc_target {
    const char *address;       /* IPv4 */
    int port;                  /* 0: 623 */
    const char *driver;        /* "ipmi" or "ipmitool" */
    const char *user;          /* up to 16 bytes */
    const char *password;      /* up to 20 bytes; copied, wiped at close */
    const char *credential_id; /* keyed hash: tells whether the credential changed */
    int cipher_suite;          /* 17 or 3; 0: 17, then 3 where the BMC does not know it */
    int lane;                  /* of the limit of operations: racks take turns */
};

/* Sends nothing. */
int bmc_open(struct bmc_hub *hub, const struct bmc_target *target, struct bmc **ret_bmc,
             struct err *err);
/* Operations still running end with ERR_CANCELLED. NULL allowed. */
void bmc_close(struct bmc *bmc);
/* Why nothing is sent to it ("refused the password of user 'admin' at ..."), or NULL. Borrowed. */
const char *bmc_locked(const struct bmc *bmc);

/* A person asks for another try with the same credential: opens the breaker. */
void bmc_unlock(struct bmc *bmc);

enum bmc_power_action {
    BMC_POWER_OFF,
    BMC_POWER_ON,
    BMC_POWER_CYCLE,
    BMC_POWER_RESET,
    BMC_POWER_SOFT
};
enum bmc_boot_device { BMC_BOOT_NONE, BMC_BOOT_PXE, BMC_BOOT_DISK };

struct bmc_op {
    struct op op;                /* first */
    bool on;                     /* power_get: chassis power */
    enum bmc_boot_device device; /* boot_get */
    bool efi;
    /* What was read, owned by the op; NULL: nothing. bmc_read: see enum bmc_read and docs/bmc.md.
     * bmc_identity: {"bmc": {device_id, revision, firmware, ipmi, manufacturer_id, product_id},
     * "guid": "...", "guids": [in each
     * of the byte orders that BMCs use], "fru": {product, serial, part, manufacturer, board_serial,
     * chassis_serial}}; keys are absent where the BMC has none. */
    json_t *result;
    char
        text[200]; /* verify: "IPMI 2.0, cipher suite 17, privilege ADMINISTRATOR, firmware 2.49" */
};

/* Logs in with administrator privilege and reads the device id. */
struct bmc_op *bmc_verify(struct bmc *bmc, int64_t timeout_ms, op_done_fn done, void *user);
struct bmc_op *bmc_identity(struct bmc *bmc, int64_t timeout_ms, op_done_fn done, void *user);
struct bmc_op *bmc_power_get(struct bmc *bmc, int64_t timeout_ms, op_done_fn done, void *user);
/* Sends the command; whether it happened is for the caller to read back. */
struct bmc_op *bmc_power_set(struct bmc *bmc, enum bmc_power_action action, int64_t timeout_ms,
                             op_done_fn done, void *user);
struct bmc_op *bmc_boot_get(struct bmc *bmc, int64_t timeout_ms, op_done_fn done, void *user);
/* For the next boot only; BMC_BOOT_NONE clears. */
struct bmc_op *bmc_boot_set(struct bmc *bmc, enum bmc_boot_device device, bool efi,
                            int64_t timeout_ms, op_done_fn done, void *user);

/* What else can be read; the shapes of the results are in docs/bmc.md. ERR_UNSUPPORTED where the
 * driver or the BMC has no such thing: the caller does without. */
enum bmc_what {
    BMC_SENSORS,  /* [{name, type, value, unit, state}] */
    BMC_WATTS,    /* {watts, ...}: what the machine draws now */
    BMC_SEL,      /* {entries: [{id, time, sensor, event, severity, ...}], total, clock_offset_s} */
    BMC_FRU,      /* [{name, product, serial, part, ...}] */
    BMC_USERS,    /* [{id, name, privilege, enabled}] */
    BMC_NETWORK,  /* {address, netmask, gateway, mac, source, vlan} */
    BMC_AC_LOSS,  /* {policy}: "off", "last" or "on" */
    BMC_FIRMWARE, /* [{name, version, ...}] */
    BMC_BIOS,     /* {attribute: value} */
    BMC_LED,      /* {on} */
    BMC_WHAT_COUNT
};
extern const struct name bmc_what_names[]; /* "sensors", ... */

struct bmc_op *bmc_read(struct bmc *bmc, enum bmc_what what, int64_t timeout_ms, op_done_fn done,
                        void *user);

enum bmc_change_kind {
    BMC_SET_LED,      /* on: lit until it is switched off */
    BMC_SET_AC_LOSS,  /* policy */
    BMC_SET_PASSWORD, /* of `user`, which exists */
    BMC_ADD_USER,     /* `user` with `password`, administrator */
    BMC_CLEAR_SEL,    /* the caller has saved it */
    BMC_RESET         /* the BMC itself, not the machine */
};
enum bmc_ac_loss { BMC_AC_OFF, BMC_AC_LAST, BMC_AC_ON };
extern const struct name bmc_ac_loss_names[];

struct bmc_change {
    enum bmc_change_kind kind;
    bool on;
    enum bmc_ac_loss policy;
    const char *user, *password; /* copied; the password is wiped with the op */
};

/* The BMC accepted it; whether it happened is for the caller to read back. */
struct bmc_op *bmc_change(struct bmc *bmc, const struct bmc_change *change, int64_t timeout_ms,
                          op_done_fn done, void *user);

/*
 * The serial console over the BMC (Serial over LAN), read only. The op lives until it is cancelled,
 * the BMC ends it, or it fails; on_data gets what the machine prints. It has a session of its own,
 * so that requests go on beside it; the gate lets one in at a time: ERR_BUSY.
 */
struct op *bmc_console(struct bmc *bmc, void (*on_data)(const void *data, size_t len, void *user),
                       op_done_fn done, void *user);
