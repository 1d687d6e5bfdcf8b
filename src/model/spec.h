/*
 * The spec: what a user applies, parsed and checked (design: "the files a user writes").
 *
 * spec_parse() reports every problem with file, line, column and a suggestion; it returns a spec
 * only when there was no error. Immutable afterwards. Pure: no I/O, no clock.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/bundle.h"
#include "model/profile.h"
#include "text/diag.h"

/* A secret by reference; the model never sees the secret. */
enum secret_kind { SECRET_NONE, SECRET_FILE, SECRET_ENV };
struct secret_ref {
    enum secret_kind kind;
    char *name; /* the path or the variable */
};

struct spec_network {
    bool set;
    char *cidr;    /* "10.10.0.0/22" */
    uint32_t addr; /* host byte order */
    int prefix;
    uint32_t dhcp_first, dhcp_last; /* 0: none */
    enum { DHCP_NONE, DHCP_AUTHORITATIVE, DHCP_PROXY } mode;
};

struct spec_class {
    char *name;
    const struct profile *profile; /* borrowed from the set given to spec_parse */
    json_t *vars;                  /* profile defaults with the class's vars over them */
};

struct spec_rack {
    char *name;
    char *feed; /* or NULL */
};

struct spec_node {
    char *name;
    int class_index;
    int rack_index; /* -1: none */
    char *unit;     /* rack unit, or NULL */
    char *bmc;      /* IPv4 address of the BMC */
    char *bmc_driver; /* "ipmi" (default) or "ipmitool" */
    int bmc_port;     /* 623 */
    char *bmc_user;
    struct secret_ref bmc_password;
    char *address;  /* IPv4 on the provisioning network: `address:` or assigned in order, outside the DHCP pool */
    char **macs;    /* lower-case with colons, NULL-terminated, may be empty (`mac: from bmc`) */
    bool mac_from_bmc;
    char *serial;   /* or NULL */
    char *uuid;     /* lower-case, or NULL */
    json_t *vars;   /* final: profile, class, node */
    char *file;     /* where it was written */
    int line, column;
};

struct spec_limits {
    int installs;          /* at once; default 64 */
    int ssh;               /* sessions at once; default 256 */
    int power_on_per_rack; /* default 8 */
    int bmc;               /* BMC operations at once; default 256 */
};

struct spec {
    char *cluster;
    struct spec_network provision, bmc;
    struct spec_class *classes;
    int class_count;
    struct spec_rack *racks;
    int rack_count;
    struct spec_node *nodes;
    int node_count;
    char *ssh_user;             /* default "root" */
    struct secret_ref ssh_key;
    struct spec_limits limits;
    json_t *fabric;  /* as written, checked; NULL where absent */
    json_t *power;
    json_t *targets;
    json_t *rollout;
};

/*
 * NULL when there was any error; `d` then says all of them. b->files[0] is the spec. A file named
 * by `from:` that is not in the bundle is an error.
 */
struct spec *spec_parse(const struct bundle *b, const struct profiles *profiles, struct diags *d);
void spec_free(struct spec *spec);
/*
 * Which further files (CSV) the spec names and the bundle lacks, relative to the spec's folder:
 * a NULL-terminated list that the caller frees with spec_wants_free. Never fails; a broken spec
 * wants nothing.
 */
char **spec_wants(const struct bundle *b);
void spec_wants_free(char **paths);
/* The node of that name, or -1. O(1) amortised. */
int spec_find_node(const struct spec *spec, const char *name);
/* Judges the design (rack power, DHCP pool, no validation, ...): warnings into d. */
void spec_lint(const struct spec *spec, struct diags *d);
