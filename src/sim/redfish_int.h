/*
 * What the files of the Redfish head share: redfish.c owns the sockets, TLS and the faults of time,
 * redfish_auth.c logins and sessions, redfish_tree.c the routes and services, redfish_parts.c the
 * inventory, redfish_set.c what changes a machine, redfish_error.c messages.
 *
 * One rf_call is one request on its way to an answer; everything runs on the loop's thread.
 * "DSP0266" is DMTF's Redfish Specification, 1.15.
 */
#pragma once

#include "sim/sim.h"

#define RF_ROOT "/redfish/v1"

enum {
    RF_SESSIONS_MAX = 16,
    RF_SESSION_S = 300, /* a session unused for so long is gone */
    RF_BAD_LOGINS = 3,  /* so many within RF_LOCK_MS lock the account for RF_LOCK_MS */
    RF_LOCK_MS = 300 * 1000,
    RF_FREEZE_MS = 30 * 1000,
    RF_RESET_MS = 60 * 1000, /* a BMC that restarts is away for so long */
    RF_TOKEN_SIZE = 33,
};

struct rf_session {
    char id[17]; /* "" while the place is free */
    char token[RF_TOKEN_SIZE];
    char origin[16];
    int64_t created_wall, used;
};

/* The part of a BMC that only this head knows; made when its first client comes. */
struct rf_bmc {
    struct sim_node *node;
    struct rf_session sessions[RF_SESSIONS_MAX];
    int64_t bad[RF_BAD_LOGINS]; /* when the last bad logins were, newest first; 0: none */
    int64_t locked_until;
    int64_t second; /* the second in which `in_second` requests came */
    int in_second;
    int64_t frozen_until; /* FAULT_BMC_FREEZES */
    int64_t absent_until; /* Manager.Reset */
    bool http_boot;       /* the override was set as UefiHttp, not Pxe */
};

struct rf_call {
    struct sim *sim;
    struct sim_node *node;
    struct rf_bmc *bmc;
    const char *method, *body;
    size_t body_len;
    char path[256];  /* without the slash at the end */
    char member[64]; /* what stands for the route's "*" */
    char origin[16]; /* the client's address */
    const char *token, *user, *password, *if_match, *if_none_match; /* NULL: not sent */

    /* the answer */
    int status;
    json_t *answer;     /* NULL: no body */
    const char *xml;    /* instead of `answer` */
    char etag[24];      /* "" or in quotes */
    char allow[48];     /* methods, for the Allow header */
    char location[128]; /* "" or a path */
    char new_token[RF_TOKEN_SIZE];
};

/* ---- redfish_error.c ---- */

enum rf_message {
    RF_SUCCESS,
    RF_ACTION_PARAMETER_MISSING,    /* action, parameter */
    RF_ACTION_PARAMETER_UNKNOWN,    /* action, parameter */
    RF_ACTION_PARAMETER_NOT_LISTED, /* value, parameter, action */
    RF_EMPTY_JSON,
    RF_MALFORMED_JSON,
    RF_NO_VALID_SESSION,
    RF_UNAUTHORIZED, /* path, reason */
    RF_METHOD_NOT_ALLOWED,
    RF_PAYLOAD_TOO_LARGE,
    RF_PRECONDITION_FAILED,
    RF_PROPERTY_MISSING,          /* property */
    RF_PROPERTY_NOT_WRITABLE,     /* property */
    RF_PROPERTY_UNKNOWN,          /* property */
    RF_PROPERTY_VALUE_CONFLICT,   /* property, other property */
    RF_PROPERTY_VALUE_NOT_LISTED, /* value, property */
    RF_PROPERTY_VALUE_TYPE,       /* value, property */
    RF_QUERY_NOT_SUPPORTED,
    RF_RESOURCE_MISSING, /* path */
    RF_SESSION_LIMIT,
    RF_MESSAGE_COUNT
};

/* Makes the answer an error (DSP0266, 8.6 "Error responses"). Arguments that a message does not
 * have are NULL. */
void rf_refuse(struct rf_call *c, int status, enum rf_message m, const char *arg1, const char *arg2,
               const char *arg3);
/* The request's body as an object, or NULL and the answer says why. The caller json_decref()s. */
json_t *rf_body(struct rf_call *c);

/* ---- redfish_auth.c ---- */

/* Whoever sent this is known; or the answer is 401. */
bool rf_authenticate(struct rf_call *c);
bool rf_locked(const struct rf_call *c);
json_t *rf_get_sessions(struct rf_call *c);
json_t *rf_get_session(struct rf_call *c);
void rf_post_session(struct rf_call *c);
void rf_delete_session(struct rf_call *c);

/* ---- redfish_tree.c ---- */

/* Answers the call. */
void rf_handle(struct rf_call *c);
/* {"@odata.id", "@odata.type", "Id", "Name"}: where every resource starts. The type is
 * "Chassis.v1_16_0". */
json_t *rf_resource(const struct rf_call *c, const char *type, const char *name);
/* A collection of the members named; the type is "ChassisCollection". */
json_t *rf_collection(const struct rf_call *c, const char *type, const char *name,
                      const char *const *members, int count);
/* {"@odata.id": RF_ROOT path} */
json_t *rf_link(const char *path);
json_t *rf_status(const char *state);

/* ---- redfish_parts.c ---- */

const struct sim_part *rf_part(const struct sim_node *n, const char *kind, int nth);
/* Adds ProcessorSummary and MemorySummary. */
void rf_add_summaries(const struct sim_node *n, json_t *system);
json_t *rf_get_processors(struct rf_call *c);
json_t *rf_get_processor(struct rf_call *c);
json_t *rf_get_memory(struct rf_call *c);
json_t *rf_get_dimm(struct rf_call *c);
json_t *rf_get_interfaces(struct rf_call *c);
json_t *rf_get_interface(struct rf_call *c);
json_t *rf_get_storages(struct rf_call *c);
json_t *rf_get_storage(struct rf_call *c);
json_t *rf_get_drive(struct rf_call *c);
json_t *rf_get_adapters(struct rf_call *c);
json_t *rf_get_adapter(struct rf_call *c);
json_t *rf_get_firmwares(struct rf_call *c);
json_t *rf_get_firmware(struct rf_call *c);
json_t *rf_get_power(struct rf_call *c);
json_t *rf_get_thermal(struct rf_call *c);

/* ---- redfish_set.c ---- */

extern const char *const rf_reset_types[],
    *const rf_boot_targets[], *const rf_boot_enabled[],
                                  *const rf_boot_modes[],
                                      *const rf_manager_reset_types[]; /* each ends with NULL */
json_t *rf_boot(const struct rf_call *c);
void rf_patch_system(struct rf_call *c);
void rf_reset_system(struct rf_call *c);
void rf_reset_manager(struct rf_call *c);
