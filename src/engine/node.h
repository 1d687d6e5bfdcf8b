/*
 * A node as the engine holds it, and the engine's own parts. Private to this room.
 */
#pragma once

#include "engine/engine.h"
#include "engine/states.h"
#include "engine/step.h"
#include "engine/sweep.h"
#include "engine/watts.h"
#include "model/hardware.h"

struct stage_rt {
    const struct stage_def *def; /* borrowed from the current profiles */
    enum stage_status status;
    char *fingerprint; /* of the last pass (of the last failure while failed); NULL: never */
    json_t *inputs;    /* those behind it, until they are saved; then NULL: see stage_proof() */
    char *reason;      /* why stale, failed, skipped; NULL: none */
    char *drift;       /* what a sweep found; NULL: nothing, or it was asked for or proven since */
    int64_t attempt_id, passed_at, changed_at;
    int tries;        /* attempts since it was asked for */
    int64_t retry_at; /* wall time of the next attempt, 0: at once */
    enum err_code fail_code;
};

struct attempt {
    int64_t id;
    int stage; /* index into node->stages */
    int number;
    int64_t started_at, deadline_at;
    char *why;
    char *fingerprint; /* at the start */
    json_t *inputs;
    bool superseded; /* the spec changed under it: it proves the inputs of its start */
    int step;
    struct step_run run;
    bool step_running;
    char **step_data; /* JSON text per step, for later steps of the attempt */
    char *log;        /* the last script's output, for measure steps */
    struct timer deadline;
    struct op *sync;
};

enum node_admin { NODE_ACTIVE, NODE_HELD, NODE_MAINTENANCE };

struct enode {
    int64_t id;
    struct engine *engine;
    char *name;
    const struct spec_node *spec; /* borrowed from the current spec */
    const struct spec_class *klass;
    const char *rack;         /* or NULL */
    struct enode *class_next; /* the next of its class in the spec's order, round and round */
    struct enode *rack_next;  /* ... of its class and rack */
    struct stage_rt *stages;
    int stage_count;
    struct attempt *attempt;
    struct timer timer; /* the next look at this node */
    enum node_admin admin;
    char *hold_reason, *hold_by; /* of the hold, or of the maintenance */
    int64_t hold_at;
    char *deferred; /* only what is queued may start: what left the rest out; NULL: all may */
    char power_desired[8], power_observed[8];
    int64_t power_at;
    char boot_intent[12];
    struct hardware *hardware; /* its parts alone: see node_facts(); NULL: never inventoried */
    int64_t probed_at;
    json_t *bmc_identity;   /* what the BMC said of itself and the machine */
    struct node_swap *swap; /* another machine answered (swap.h); NULL: none */
    struct timer swap_timer;
    bool disks_gone; /* none of those that the OS was proven on is in the machine */
    struct bmc *bmc;
    struct power_op *power_op; /* the action in work, NULL: none */
    struct watts watts;        /* what it counts on its feed */
    bool efi;                  /* its firmware is UEFI, as nodeprobe saw it */
    char credential_id[65];
    char *host_key;
    int64_t created_at;
    char doing[240]; /* the running step's note */
    int64_t doing_at;
    int64_t last_evidence_at;
    char last_evidence[240];
    int64_t group_peer;        /* node id that this node lends itself to (pair tests), 0: free */
    struct member *member;     /* its part in a rollout; NULL: in none */
    struct limit_ticket place; /* among the installs */
    struct sweep sweep;
};

struct engine {
    struct engine_config c;
    struct loop *loop;
    struct store *store;
    struct netboot *netboot;
    struct spec *spec;
    struct profiles *profiles;
    int64_t revision;
    char spec_sha[65];    /* of the last revision's files */
    struct enode **nodes; /* by spec order; removed ones are gone from here */
    int node_count, node_capacity;
    struct map *by_name;        /* name -> struct enode */
    struct map *by_id;          /* decimal id -> struct enode */
    struct remote_key *ssh_key; /* NULL: none could be read, see ssh_key_problem */
    char ssh_key_problem[300];
    struct remote_key **ssh_keys; /* it and those before it */
    int ssh_key_count, ssh_key_capacity;
    struct limit installs, sweeps;
    char nodeprobe_sha[65];         /* of the file that nodes get; "": not read yet */
    struct stray *strays;           /* clean-up on nodes that no step waits for */
    struct power_lane *power_lanes; /* operators' power actions in work */
    struct limit *rack_power;       /* per rack */
    int rack_count;
    struct budget *budget; /* of the spec's feeds; NULL before the first spec */
    struct timer watts_timer;
    bool watts_unsaved;       /* rows of reservations may be missing */
    struct map *machines;     /* see machines.h */
    struct map *history;      /* stage name -> struct history */
    struct rollout *rollouts; /* those with nodes that are not through, newest first */
    int64_t rollout_work;     /* members that were touched so far, for tests */
    struct groups *groups;    /* nodes that measure with each other; NULL: none so far */
    unsigned seed;
    bool stopping;
    char fault[480]; /* the store failed: nothing new is started. "" when fine */
};

struct enode *engine_find(struct engine *e, const char *name);
struct enode *engine_find_id(struct engine *e, int64_t id);
int64_t engine_wall(const struct engine *e);
unsigned engine_random(struct engine *e, unsigned below);
/* Nodes that a nodeset names ("" or NULL: all), in spec order; unknown names are an error. */
int engine_select(struct engine *e, const char *nodeset, struct enode ***ret_nodes, int *ret_count,
                  struct err *err);

/* machine.c */
void node_kick(struct enode *n, int64_t delay_ms);
void node_event(struct enode *n, const char *kind, const char *stage, int64_t attempt,
                const char *actor, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
void node_save(struct enode *n);
/* Asks for the stage and for everything that needs it, directly or not, in one pass (stages are
 * ordered). Further stages that overwrite a disk are left alone. */
void node_queue(struct enode *n, int stage, const char *why);
void stage_save(struct enode *n, int stage);
/* The inputs behind its fingerprint, out of the store: 10,000 nodes' would fill the memory, and are
 * read only to explain a change. The caller json_decref()s; NULL: none. */
json_t *stage_proof(const struct enode *n, int stage);
/* Applies a transition; false (and a log line) when the table has none. */
bool stage_post(struct enode *n, int stage, enum stage_event event, const char *reason);
void attempt_cancel(struct enode *n, const char *reason);
/* Its deadline moves: it waits for what is no fault of its own. */
void attempt_postpone(struct enode *n, int64_t ms);
/* At shutdown: lets go without writing anything; the attempt goes on after the next start. */
void attempt_abandon(struct enode *n);
/* The profile was replaced: the running attempt's stage is now at index `stage`, -1: gone. */
void attempt_rebind(struct enode *n, int stage);
void attempt_step_event(struct enode *n, int64_t attempt, const char *event, const char *text);
int attempt_resume(struct enode *n, const struct store_attempt *row, struct err *err);
bool stage_satisfied(const struct stage_rt *s);
bool node_stages_ready(const struct enode *n, int stage);
/* An OS of ours was proven on its disk and its SSH host key is known. */
bool node_is_installed(const struct enode *n);
int node_stage_index(const struct enode *n, const char *name);
/* The furthest proven stage. */
const char *node_word(const struct enode *n);
const char *node_operation(const struct enode *n);

/* Looks at the inputs of all stages again. */
void node_refresh(struct enode *n);
/* "ok", "failed", "drifted", "unreachable" (sweep_ask.c) */
const char *node_health(const struct enode *n);
/* "active", "held", "maintenance" (maintenance.c) */
const char *node_admin_name(const struct enode *n);
enum node_admin node_admin_from_name(const char *name);

/* step_check.c: judges what hw (NULL: nothing known) shows of the node: 1 as it should be, 0 not,
 * negative: it cannot be judged. `text`: what was seen; *ret_complaint goes before it when not. */
int check_judge(const struct enode *n, const struct hardware *hw, const struct step_def *step,
                struct strbuf *text, const char **ret_complaint, struct err *err);

/* waive.c: the names of the stages that an operator vouches for. */
json_t *waived_view(const struct enode *n);

/* history.c: how long stages take here. Medians of the last passes of each stage name. */
void history_add(struct engine *e, const char *stage, int64_t took_ms);
int64_t history_typical_ms(const struct engine *e, const char *stage); /* -1: never seen */
int history_load(struct engine *e, struct err *err);
void history_free(struct engine *e);

/* inputs.c */
json_t *stage_inputs(struct engine *e, const struct enode *n, const struct spec_node *spec,
                     const struct spec_class *klass, const struct stage_def *def);
/* As if the stages of the class's profile were proven at `proofs`, in their order: for plans. */
typedef char proof_text[65];
json_t *stage_inputs_with(struct engine *e, const struct enode *n, const struct spec_node *spec,
                          const struct spec_class *klass, const struct stage_def *def,
                          proof_text *proofs);
/* Scalars as a script will see them; anything else as JSON. The caller frees. */
char *var_text(const json_t *value);
/* Why a stage does not apply to nodes of this class, or NULL. Borrowed static text or *buf. */
const char *stage_skip_reason(const struct spec_class *klass, const struct stage_def *def,
                              char *buf, size_t size);

/* adopt.c */
/* What a look at the machine showed: compared, recorded, or kept aside (swap.h). Takes hw. */
void node_adopt_hardware(struct enode *n, struct hardware *hw, int64_t at);
/* All that is known of the recorded machine, out of the store: only its parts stay in memory. The
 * caller frees; NULL: nothing is known. */
struct hardware *node_facts(const struct enode *n);
/* Its parts are n's from now on. Takes hw. */
void node_keep_parts(struct enode *n, struct hardware *hw);
/* Makes it the recorded machine. Takes hw. */
void node_record_machine(struct enode *n, struct hardware *hw, const char *json, int64_t at);
/* Nothing new may be started: an operator's hold, or a machine that somebody must vouch for. */
bool node_is_stopped(const struct enode *n);
const char *node_admin_word(const struct enode *n); /* or swap-suspected */
void node_refresh_bmc(struct enode *n);
void node_open_bmc(struct enode *n, const char *password);
/* Reads the SSH key that the spec names; a problem is kept in ssh_key_problem. */
void engine_load_key(struct engine *e);
void node_free(struct enode *n);
struct enode *node_new(struct engine *e, const char *name);
void node_bind(struct enode *n, const struct spec_node *spec, const struct spec_class *klass,
               const char *rack);
void node_publish_boot(struct enode *n);
void node_unpublish_boot(struct enode *n);
void node_save_removed(struct enode *n);
void engine_index(struct engine *e);
/* Not tried again by an apply: a refused credential, a disk that holds a proven OS. */
bool stage_failed_for_good(const struct stage_rt *s);
/* apply.c: points every node at its place in `spec`, making new ones. Takes both. */
void engine_bind_spec(struct engine *e, struct spec *spec, struct profiles *profiles,
                      int64_t revision);
void engine_bind_racks(struct engine *e);
struct limit *node_rack_limit(struct enode *n);
/* The rack as a lane of limits; 0: in none. */
int node_lane(const struct enode *n);
