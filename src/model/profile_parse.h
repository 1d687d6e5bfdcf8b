/*
 * What the files of profiles share: a profile as it was written, on its way to a struct profile.
 */
#pragma once

#include "model/profile.h"
#include "model/profile_steps.h"
#include "text/schema.h"

#define FIRST_STAGE "racked"
#define LAST_STAGE "validated"

enum { STAGES_MAX = 64, EXTENDS_MAX = 16 };

/* The keys of a profile's file. */
struct raw_file {
    const char *profile, *extends, *replacement;
    const struct ynode *vars, *hardware, *install, *stages;
};

enum stage_power { POWER_NORMAL, POWER_BURNIN };

/* The keys of a stage's row; lists are nodes. */
struct raw_stage {
    const char *stage, *proves, *skip_unless;
    const struct ynode *after, *needs, *hardware, *slots, *vars, *steps;
    int64_t deadline, retries, backoff;
    bool wipes, reboots, drop;
    int power; /* an enum stage_power */
};

struct stage_chain {
    const char *name;
    const struct ynode **rows; /* the nearest profile's first */
    int count;
};

struct raw_profile {
    struct ydoc *doc;
    const struct ynode *root;
    struct raw_file raw;
    const char *name;
    enum { UNRESOLVED, RESOLVING, RESOLVED } state;
    bool ok;
    int depth; /* how many profiles it extends, one through the other */
    struct stage_chain *chains;
    int chain_count, chain_capacity;
    const char **dropped; /* stages that it or a profile below it leaves out */
    int dropped_count, dropped_capacity;
    struct bom bom;
    bool auto_replace;
    json_t *vars, *install;
    struct profile result;
};

struct profiles {
    struct raw_profile *items;
    int count, capacity;
};

bool profile_file_check(const struct ynode *root, struct raw_file *ret, struct diags *d);
bool stage_row_check(const struct ynode *row, struct raw_stage *ret, struct diags *d);
void hardware_read(const struct ynode *map, struct bom *bom, struct diags *d);
void install_read(const struct ynode *map, json_t *install, struct diags *d);
/* "ask" or "auto"; anything else is an error at `at`. */
bool replacement_ok(const struct ynode *at, struct strbuf *why);
bool stage_build(const struct stage_chain *chain, struct stage_def *ret, struct diags *d);
void stage_def_done(struct stage_def *def);
/* Names that refer to stages and variables, cycles, first and last; sorts the result's stages. */
void profile_check(struct raw_profile *p, struct diags *d);
