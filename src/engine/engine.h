/*
 * The engine: decides for every node which stage runs next, journals it, runs its steps, and says
 * why.
 *
 * The daemon builds one, gives it the store and the drivers' hubs, loads what the store knows and
 * lets it run; the api asks and posts. Everything happens on the loop's thread. Nothing here
 * blocks.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "loop/loop.h"
#include "loop/op.h"
#include "model/profile.h"
#include "model/spec.h"
#include "store/store.h"

struct engine;
struct bmc_hub;
struct remote_hub;
struct remote_key;
struct netboot;
struct step_type;
struct transfer_way;
struct remote_sweep;
struct remote_op;

/* A file that a stage names (script, template), by its path under the templates directory. */
struct engine_file {
    const char *text;
    size_t len;
    const char *sha256;
};

struct engine_config {
    struct loop *loop;
    struct store *store;
    /* NULL in tests that bring their own step types */
    struct bmc_hub *bmc_hub;
    struct remote_hub *remote_hub;
    /* Step types, ended by NULL; NULL: the built-in ones. */
    const struct step_type *const *step_types;
    /* How two nodes measure with each other; NULL: by scripts, over SSH. */
    const struct transfer_way *transfers;
    /* Finds a script; false when there is none. Borrowed until the next reload of templates. */
    bool (*file)(const char *path, struct engine_file *ret, void *user);
    /* Reads a secret afresh. The caller wipes and frees *ret_text. */
    int (*secret)(const struct secret_ref *ref, char **ret_text, struct err *err, void *user);
    /* A keyed hash of a secret, safe to store: tells whether a credential changed. */
    void (*secret_id)(const char *text, char hex[65], void *user);
    /* SHA-256 of an artefact file by name; false when there is none (or not hashed yet). */
    bool (*artefact)(const char *name, char sha256[65], void *user);
    void *user;
    /* Where a secret that is a file lies (the SSH key). The caller frees. */
    char *(*secret_path)(const struct secret_ref *ref, void *user);
    const char *nodeprobe_path; /* the program that `copy: nodeprobe` brings to nodes */
    const char *templates_dir;  /* where the files of `copy` are */
    /* The question of a sweep; NULL: over SSH. For tests. */
    struct remote_op *(*sweep)(const char *node, const struct remote_sweep *what,
                               int64_t timeout_ms, op_done_fn done, void *done_user, void *user);
    unsigned seed; /* of the jitter; 0: from the clock */
};

struct engine *engine_new(const struct engine_config *config);
void engine_free(struct engine *e);
/* The network boot side comes and goes with the spec's provisioning network. */
void engine_set_netboot(struct engine *e, struct netboot *nb);

/* Rebuilds the nodes from the store; `spec` is the last revision's (owned by the engine from now
 * on), NULL when nothing was ever applied. Attempts that were running are observed again. */
int engine_load(struct engine *e, struct spec *spec, struct profiles *profiles, int64_t revision,
                struct err *err);

/* ---- asking ---- */

/* The wanted state; NULL before the first apply. Borrowed until the next one. */
const struct spec *engine_spec(const struct engine *e);

/* What an apply is asked to do beside the spec. All NULL: bring every node up to date. */
struct engine_order {
    const char *reinstall; /* these nodes' disks are overwritten */
    const char *limit; /* only these nodes; others keep what is not current until the next apply */
    const char *only;  /* of what is not current, only this stage */
    const char *from;  /* of what is not current, only this stage and those after it */
};

/* What applying `spec` would do, as the API shows it (docs/api.md), with "hash". */
json_t *engine_plan(struct engine *e, const struct spec *spec, const struct engine_order *order,
                    struct err *err);
/* Makes `spec` the wanted state. Takes spec and profiles. `bundle_json` is kept as a revision. */
int64_t engine_apply(struct engine *e, struct spec *spec, struct profiles *profiles,
                     const char *bundle_json, const char *author, const struct engine_order *order,
                     json_t **ret_plan, struct err *err);

json_t *engine_view_nodes(struct engine *e, const char *nodeset, struct err *err);
json_t *engine_view_node(struct engine *e, const char *name, struct err *err);
json_t *engine_view_stages(struct engine *e, const char *nodeset, struct err *err);
json_t *engine_view_why(struct engine *e, const char *nodeset, struct err *err);
json_t *engine_view_status(struct engine *e);
/* The last results of group steps, per node and pair; stage NULL: of all stages. */
json_t *engine_view_results(struct engine *e, const char *nodeset, const char *stage,
                            struct err *err);
/* The variables that a template for this node sees. */
json_t *engine_view_vars(struct engine *e, const char *name, struct err *err);

/* Rollouts under way and the last ones that ended; those with the nodes' names by how they fare. */
json_t *engine_view_rollouts(struct engine *e, struct err *err);

/* ---- telling ---- */

/* "pause", "resume" or "cancel"; id 0: the one that is under way. */
json_t *engine_rollout(struct engine *e, int64_t id, const char *verb, const char *actor,
                       struct err *err);

json_t *engine_rerun(struct engine *e, const char *nodeset, const char *stage, const char *actor,
                     struct err *err);
json_t *engine_hold(struct engine *e, const char *nodeset, const char *reason, const char *actor,
                    struct err *err);
/* Nothing at all is done to the nodes by itself until they are released. What runs is cancelled,
 * but ERR_BUSY, and nothing done, where that would leave a disk or the power half way. */
json_t *engine_maintenance(struct engine *e, const char *nodeset, const char *reason,
                           const char *actor, struct err *err);
/* Sweeps nodes now. done(result, user) gets {"nodes":[{name, result, text}]} once all are over;
 * done NULL: the returned answer is all that is told. */
json_t *engine_sweep(struct engine *e, const char *nodeset, const char *actor,
                     void (*done)(json_t *result, void *user), void *user, struct err *err);
/* An operator vouches for a stage that is not proven; a rerun of it ends that. */
json_t *engine_waive(struct engine *e, const char *nodeset, const char *stage, const char *reason,
                     const char *actor, struct err *err);
json_t *engine_release(struct engine *e, const char *nodeset, const char *actor, struct err *err);
/* The other machine that was seen in these slots is meant: it becomes the recorded one. */
json_t *engine_replace(struct engine *e, const char *nodeset, const char *actor, struct err *err);
/* The id by which the store knows the node, or a negative code. */
int64_t engine_node_id(struct engine *e, const char *name, struct err *err);
/* NULL for 0 and unknown ids. Borrowed. */
const char *engine_node_name(struct engine *e, int64_t id);
/* A power action waits 15 min for watts, and what has them has 15 min to be carried out. */
enum { ENGINE_POWER_MAX_MS = 30 * 60000 };
/* Starts the action on each node's BMC; done(result, user) gets {"nodes":[...]} once all answered.
 */
int engine_power(struct engine *e, const char *nodeset, const char *action, const char *actor,
                 void (*done)(json_t *result, void *user), void *user, struct err *err);
/* Reads credentials and scripts again and looks at every node (SIGHUP). */
void engine_refresh(struct engine *e);

/* The node's BMC and id for the console; NULL with *err set. */
struct bmc *engine_bmc(struct engine *e, const char *name, struct err *err);

/* ---- what netboot reports; each returns before the answer to the node is sent ---- */

/* Its firmware asked for a boot script and was told what to boot: its disk (`local`) or the
 * ramdisk. */
void engine_on_boot_asked(struct engine *e, int64_t node, bool local, const char *text);
void engine_on_claimed(struct engine *e, int64_t node, int64_t attempt, const char *purpose);
void engine_on_facts(struct engine *e, int64_t node, int64_t attempt, const char *json);
void engine_on_progress(struct engine *e, int64_t node, int64_t attempt, int percent,
                        const char *text);
void engine_on_installed(struct engine *e, int64_t node, int64_t attempt, const char *host_key,
                         const char *text);
void engine_on_proof(struct engine *e, int64_t node, int64_t attempt, const char *boot_id,
                     const char *text);
void engine_on_install_failed(struct engine *e, int64_t node, int64_t attempt, const char *text);
