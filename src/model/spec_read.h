/*
 * What the files that read specs share: spec.c (the whole), spec_classes.c (credentials, classes,
 * racks), spec_power.c (feeds), spec_sections.c (limits, fabric, ...), spec_networks.c, spec_node.c
 * (one node), spec_rows.c (rows with ranges), spec_csv.c. lint.c uses the address helpers.
 */
#pragma once

#include "base/map.h"
#include "model/spec.h"
#include "text/csv.h"
#include "text/schema.h"

/* The keys of a node's row; CSV columns have the same names. */
enum node_field {
    NODE_NAME,
    NODE_CLASS,
    NODE_RACK,
    NODE_UNIT,
    NODE_BMC,
    NODE_BMC_PORT,
    NODE_BMC_DRIVER,
    NODE_BMC_USER,
    NODE_MAC,
    NODE_ADDRESS,
    NODE_SERIAL,
    NODE_UUID,
    NODE_FIELDS
};
extern const char *const node_field_names[NODE_FIELDS];

enum {
    SPEC_NODES_MAX = 100000,
    SPEC_VALUES_MAX = 2000000,
    SPEC_MACS_MAX = 16,
    SPEC_NAME_MAX = 63,
    IPMI_USER_MAX = 16
};

/* A text and where it was written. text NULL: not given. */
struct cell {
    const char *text, *file;
    int line, column;
};

struct node_row {
    struct cell cells[NODE_FIELDS];
    const struct ynode *macs; /* `mac` as a list */
    const struct ynode *vars;
    struct secret_ref password; /* SECRET_NONE: the one of credentials.bmc */
    struct cell at;             /* the row itself */
    bool incomplete;            /* a key was not understood: nothing is called missing */
};

struct reader {
    struct spec *spec;
    int class_capacity, rack_capacity, node_capacity;
    const struct bundle *bundle;
    const struct profiles *profiles;
    struct diags *d;
    char *bmc_user;
    struct secret_ref bmc_password;
    bool no_credentials_said; /* that credentials.bmc is missing, or something about it */
    bool classes_unknown, racks_unknown, feeds_unknown; /* their section could not be read */
    struct map *class_ids, *rack_ids;                   /* name -> index + 1 */
    struct map *taken[NODE_FIELDS]; /* value -> index + 1 of the node that has it */
    struct map *bmc_hosts;          /* a BMC's address, whatever the port -> the same */
    bool said[NODE_FIELDS];         /* an error of this row's cell: ranges repeat one mistake */
    json_t *row_vars;               /* the row's variables over those of class `row_class` */
    int row_class;
    int values_left; /* that ranges may still make */
};

/* spec.c */
void cell_error(const struct cell *c, struct diags *d, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* "unknown KIND 'x', did you mean 'y'?" for the keys of a map of names. */
void cell_unknown(const struct cell *c, struct diags *d, const char *kind, const struct map *known);
struct spec_place place_of(const struct ynode *n);

/* spec_classes.c */
/* 1 to 65535, all digits (spec_node.c). */
bool port_read(const char *text, int *ret);
void read_credentials(struct reader *r, const struct ynode *map);
void read_classes(struct reader *r, const struct ynode *map);
void read_racks(struct reader *r, const struct ynode *map);
/* Copies the variables of `map` over `vars`, which says what is declared. */
void merge_vars_checked(const struct ynode *map, json_t *vars, struct diags *d);
/* Reads {file: X} or {env: X}; false after a diagnostic, which never repeats the value. */
bool read_secret(const struct ynode *n, const char *what, struct secret_ref *ret, struct diags *d);

/* spec_sections.c */
void read_limits(struct reader *r, const struct ynode *map);
json_t *read_fabric(struct reader *r, const struct ynode *map);
/* spec_rollout.c */
json_t *read_rollout(struct reader *r, const struct ynode *map);
/* spec_sweep.c: `at` over what `s` holds (NULL: as it is); `what` names it in messages. */
void read_sweep(struct reader *r, const struct ynode *at, bool of_class, struct spec_sweep *s);
void sweep_defaults(struct spec_sweep *s);
void sweep_copy(struct spec_sweep *to, const struct spec_sweep *from);
void sweep_done(struct spec_sweep *s);
json_t *read_targets(struct reader *r, const struct ynode *map);

/* spec_power.c */
json_t *read_power(struct reader *r, const struct ynode *map);
/* The feed of that name, or -1 after a diagnostic. */
int read_feed_name(struct reader *r, const struct ynode *at);
/* The class's `power` (NULL: none); its node_kw is known. */
void read_envelope(struct reader *r, const struct ynode *map, struct spec_class *c);
/* Errors for nodes that no order of switching on could ever fit on their feeds. */
void check_power(struct reader *r);

/* spec_networks.c */
void read_networks(struct reader *r, const struct ynode *networks);
bool network_holds(const struct spec_network *net, uint32_t addr);
uint32_t network_broadcast(const struct spec_network *net);
bool ipv4_read(const char *text, uint32_t *ret);
/* Gives addresses to the nodes that have none. */
void assign_addresses(struct reader *r);

/* spec_node.c: one node, all of whose cells are single values. */
void add_node(struct reader *r, const struct node_row *row);

/* spec_rows.c */
void read_nodes(struct reader *r, const struct ynode *nodes);

/* spec_csv.c: the file that `from` names, a row each; `defaults` where it has empty cells. */
void read_csv(struct reader *r, const struct ynode *from, const struct node_row *defaults);
