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

struct spec_place { /* in the spec's own file, for lint */
    int line, column;
};

struct spec_network {
    struct spec_place at;
    bool set;
    char *cidr;    /* "10.10.0.0/22" */
    uint32_t addr; /* host byte order */
    int prefix;
    uint32_t head; /* the head node's own address: `head:`, else the first of the network */
    uint32_t dhcp_first, dhcp_last; /* 0: none */
    enum { DHCP_NONE, DHCP_AUTHORITATIVE, DHCP_PROXY } mode;
};

/* What one node takes, in W; all 0: nobody said. */
struct spec_envelope {
    int64_t inrush_w, boot_w, idle_w, burnin_w;
};

enum { FEED_DEPTH_MAX = 16 };

struct spec_feed {
    struct spec_place at;
    char *name;
    int64_t rated_w;        /* 0: not given, without limit */
    int64_t usable_w;       /* the rating less its reserve */
    int64_t ramp_w_per_min; /* 0: not given, without limit */
    int parent;             /* index, -1: none. A tree of at most FEED_DEPTH_MAX above each */
};

/* `sweep`: how often nodes that are proven are looked at again, and what may follow by itself. */
struct spec_sweep {
    bool on;
    int64_t every_ms;
    int at_once; /* in the whole cluster; of the spec's own only */
    bool repair; /* `repair: auto`: what drifted is proven again also where that changes the node */
    char *marker;  /* a file or folder on the node that says that a workload runs */
    char *command; /* asked instead of the marker: exit code 0, a workload runs; NULL: none */
};

struct spec_class {
    struct spec_place at;
    char *name;
    const struct profile *profile; /* borrowed from the set given to spec_parse */
    json_t *vars;                  /* profile defaults with the class's vars over them */
    double node_kw;                /* what one node draws at most; 0: not given */
    bool auto_replace;             /* another machine in the slot is bound without asking */
    struct spec_envelope power;    /* `power`, with node_kw for what it does not give */
    bool has_power;                /* `power` was written */
    struct spec_sweep sweep;       /* the cluster's, with what the class says otherwise */
};

struct spec_rack {
    struct spec_place at;
    char *name;
    char *feed;     /* or NULL */
    int feed_index; /* into feeds, -1: none */
};

struct spec_node {
    char *name;
    int class_index;
    int rack_index;   /* -1: none */
    char *unit;       /* rack unit, or NULL */
    char *bmc;        /* IPv4 address of the BMC */
    char *bmc_driver; /* "ipmi" (default) or "ipmitool" */
    int bmc_port;     /* 623 */
    char *bmc_user;
    struct secret_ref bmc_password;
    char *address; /* IPv4 on the provisioning network: `address:` or assigned in order, outside the
                      DHCP pool */
    char **macs;   /* lower-case with colons, NULL-terminated, may be empty (`mac: from bmc`) */
    bool mac_from_bmc;
    char *serial; /* or NULL */
    char *uuid;   /* lower-case, or NULL */
    json_t *vars; /* final: profile, class, node */
    char *file;   /* where it was written */
    int line, column;
};

struct spec_limits {
    int installs;          /* at once; default 64 */
    int ssh;               /* sessions at once; default 256 */
    int power_on_per_rack; /* default 8 */
    int bmc;               /* BMC operations at once; default 256 */
    int per_rack_installs; /* installs in one rack at once; 0: no limit but `installs` */
    int64_t bmc_gap_ms;    /* the least between two commands to one BMC; default 20 */
};

struct spec {
    char *file; /* the name of the spec's own file, for messages */
    char *cluster;
    struct spec_network provision, bmc;
    struct spec_class *classes;
    int class_count;
    struct spec_rack *racks;
    int rack_count;
    struct spec_node *nodes;
    int node_count;
    char *ssh_user; /* default "root" */
    int ssh_port;   /* of all nodes; 22 */
    struct secret_ref ssh_key;
    struct spec_limits limits;
    struct spec_sweep sweep;
    struct spec_place fabric_at, power_at;
    json_t *fabric; /* as written, checked; NULL where absent */
    json_t *power;
    struct spec_feed *feeds;
    int feed_count;
    int64_t inrush_ms, boot_ms; /* power.inrush_window, power.boot_timeout */
    json_t *targets;
    json_t *rollout;     /* canary, waves, wave_pause, max_failed, per_rack */
    struct map *by_name; /* of spec_find_node, made on demand */
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
/* The feed of that name, or -1. */
int spec_find_feed(const struct spec *spec, const char *name);
/* Judges the design (rack power, DHCP pool, no validation, ...): warnings into d. */
void spec_lint(const struct spec *spec, struct diags *d);
