/*
 * Profiles: a node class's hardware expectation and stage pipeline, composed by `extends`.
 *
 * Loaded from profiles/NAME.yaml. A profile's stages are those of the profile it extends, with its
 * own rows replacing, adding (`after`) or dropping (`drop: true`) by name. Pure: texts in, structs
 * out.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "model/bundle.h"
#include "text/diag.h"

enum { SWEPT_SCRIPTS_MAX = 8 }; /* `run` steps with `sweep: true` in a profile */

/* One action within a stage: `- run: tuned/sysctl.sh` or `- bmc: power` with its parameters. */
struct step_def {
    char *type; /* "bmc", "netboot", "wait", "run", "copy", "probe", "check", "measure", "group" */
    char *what; /* the scalar after it: "verify", "install", "tuned/sysctl.sh", ... */
    json_t *params; /* further keys of the step's mapping; an object, never NULL */
    bool sweep;     /* a sweep does it, too; no input of the stage's proof */
    char *file;     /* where it was written, for messages */
    int line, column;
};

struct stage_def {
    char *name;
    char *proves; /* one sentence: proven when ... */
    char **after; /* stages that come before it (order only), NULL-terminated */
    char *
        *needs; /* stages whose fingerprints are inputs: it goes stale with them; NULL-terminated */
    char **hardware; /* component kinds whose identity is an input: "cpu", "memory", "disk", "nic",
                        ... */
    char **slots;    /* those of them whose place counts, too: a part that moves is another one */
    char **vars;     /* names of the parameters that its scripts receive; NULL-terminated */
    struct step_def *steps;
    int step_count;
    int64_t deadline_ms; /* of one attempt */
    int retries;         /* further attempts after the first that failed */
    int64_t backoff_ms;  /* before the first retry; doubles, with jitter, up to 30 min */
    char
        *skip_unless; /* a component kind ("gpu"): skipped with a reason where the class has none */
    bool wipes;       /* overwrites a disk: never run again without --reinstall */
    bool reboots;
    bool burnin; /* `power: burnin`: it loads the machine fully */
    char *file;
    int line, column;
};

/* What a node of this class must hold; -1 or NULL where the profile does not say. */
struct bom {
    int cpus;           /* logical */
    int64_t memory_mib; /* at least */
    int gpus;
    char *gpu_model; /* substring of the PCI or NVML name */
    int nics;        /* at least, physical ones */
    int hcas;        /* RDMA devices */
    int disks;       /* at least */
    int64_t disk_gb; /* smallest acceptable installation disk */
};

struct profile {
    char *name;
    struct stage_def *stages; /* in an order that respects `after` and `needs` */
    int stage_count;
    struct bom bom;
    bool auto_replace; /* another machine in the slot is bound without asking */
    json_t *vars;      /* defaults; the class's and node's vars go over them */
    json_t
        *install; /* {method: image, image: FILE, kernel: FILE, ramdisk: FILE, disk: ...} or NULL */
};

struct profiles; /* a parsed set, by name */

/*
 * Parses all files of `b` (profiles/NAME.yaml, path as given) into a set; problems go to `d`.
 * Every step names a known type with known parameters, every `after`/`needs` a stage, no cycles,
 * first stage `racked`, last `validated`. Always returns a set (possibly partial).
 */
struct profiles *profiles_parse(const struct bundle *b, struct diags *d);
void profiles_free(struct profiles *set);
const struct profile *profiles_find(const struct profiles *set, const char *name);
int profiles_count(const struct profiles *set);
const struct profile *profiles_at(const struct profiles *set, int index);
/* Whether classes may use it: NULL, or what it still lacks (a profile that others extend). Static.
 */
const char *profile_lacks(const struct profile *p);
const struct stage_def *profile_stage(const struct profile *p, const char *name);
