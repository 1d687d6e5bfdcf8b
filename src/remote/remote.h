/*
 * SSH to nodes, by libssh2, without blocking: commands, uploads, and detached runs that survive a
 * lost connection or a restart of the daemon. Used by the engine; the daemon builds the hub.
 *
 * The host key is always pinned: a node that shows another one gets nothing (ERR_DENIED). All
 * operations follow the op contract. ERR_UNREACHABLE or ERR_TIMEOUT: the node is not there (now),
 * ERR_AUTH: it refuses our key, ERR_FAILED: the work ran and failed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "loop/op.h"

struct remote_hub;
struct remote_key;

struct remote_hub *remote_hub_new(struct loop *loop, int max_sessions, struct err *err);
void remote_hub_free(struct remote_hub *hub);
void remote_hub_set_max(struct remote_hub *hub, int max_sessions);

/*
 * Reads a private key in OpenSSH's or PEM format without a passphrase. Only ed25519: RSA keys are
 * refused by sshd since OpenSSH 8.8 when libssh2 1.10 signs with SHA-1; the error says so and how
 * to make a new key.
 */
int remote_key_load(const char *path, struct remote_key **ret_key, struct err *err);
void remote_key_free(struct remote_key *key); /* wipes; NULL allowed */
/* "ssh-ed25519 AAAA...": the line for authorized_keys. Borrowed. */
const char *remote_key_public(const struct remote_key *key);

/* Strings are copied; the key must outlive the operation. */
struct remote_target {
    const char *address;
    int port; /* 0: 22 */
    const char *user;
    const char *host_key; /* "ssh-ed25519 AAAA..." */
    const struct remote_key *key;
    int lane; /* of the limit of sessions: racks take turns */
};

struct remote_op {
    struct op op;          /* first */
    int exit_code;         /* exec, run: of the command; -1 unknown */
    struct strbuf out;     /* exec: stdout (at most 1 MiB); run: the end of the log (64 KiB) */
    struct strbuf err_out; /* exec: stderr (at most 64 KiB) */
    char note[200];        /* what it is doing or waiting for */
    bool began;            /* run: the node said that the script was started there */
    char boot_id[40];      /* wait: the node's /proc/sys/kernel/random/boot_id */
};

/*
 * Tries until a login works and the boot id could be read; ERR_DENIED (another host key) and
 * ERR_AUTH end it at once, everything else is tried again every 2 s until the timeout, whose text
 * says what the last try met.
 */
struct remote_op *remote_wait(struct remote_hub *hub, const struct remote_target *target,
                              int64_t timeout_ms, op_done_fn done, void *user);
/* One command by the login shell; `input` (copied, may be NULL) is its stdin. A non-zero exit is
 * ERR_FAILED with exit_code. */
struct remote_op *remote_exec(struct remote_hub *hub, const struct remote_target *target,
                              const char *command, const void *input, size_t input_len,
                              int64_t timeout_ms, op_done_fn done, void *user);
/* Writes `local_path` to `path` (absolute): a temporary file beside it, its SHA-256 compared, mode
 * set, renamed over. Nothing is sent where the digest is the same already. */
struct remote_op *remote_upload(struct remote_hub *hub, const struct remote_target *target,
                                const char *local_path, const char *path, int mode,
                                int64_t timeout_ms, op_done_fn done, void *user);

/*
 * A detached run: the script goes to /var/lib/clusterd/runs/ID/script on the node and is started
 * under its own session; log, exit code and boot id are files there. Asking again with the same id
 * attaches to what is there and never starts it twice. The connection may break at any time: it is
 * made again until the timeout. A node that was restarted meanwhile: ERR_FAILED, the text says so.
 */
struct remote_run_spec {
    const char *id; /* [A-Za-z0-9._-]{1,64} */
    const char *script;
    size_t script_len;
    /* {"name": "value"}: exported to the script, shell-quoted; names [A-Za-z_][A-Za-z0-9_]* */
    const char *const *names;
    const char *const *values;
    int var_count;
    /* Called with new pieces of the log as they appear. NULL allowed. */
    void (*on_log)(const char *data, size_t len, void *user);
    void *log_user;
};
struct remote_op *remote_run(struct remote_hub *hub, const struct remote_target *target,
                             const struct remote_run_spec *run, int64_t timeout_ms, op_done_fn done,
                             void *user);
/* Ends a run that may still go on (its process group: TERM, after 5 s KILL). */
struct remote_op *remote_run_kill(struct remote_hub *hub, const struct remote_target *target,
                                  const char *id, int64_t timeout_ms, op_done_fn done, void *user);

/* A sweep: one command on one connection that looks for a running workload first, and only where
 * there is none runs nodeprobe, and then scripts that look. `out` is for remote_sweep_parse(). */
enum { SWEEP_SCRIPTS_MAX = 8 };
struct remote_sweep {
    const char *marker;  /* a file, or a folder with a file in it: a workload runs */
    const char *command; /* instead of the marker, for sh: exit code 0: a workload runs, 1: none */
    const char *nodeprobe; /* the program on the node */
    const char *sha256;    /* that it must have */
    /* Text and variables of each; 30 s for one. id and on_log mean nothing here. */
    struct remote_run_spec scripts[SWEEP_SCRIPTS_MAX];
    int script_count;
};
struct remote_op *remote_sweep(struct remote_hub *hub, const struct remote_target *target,
                               const struct remote_sweep *sweep, int64_t timeout_ms,
                               op_done_fn done, void *user);

enum remote_sweep_verdict {
    SWEEP_WORKLOAD, /* a workload runs: nothing else was looked at */
    SWEEP_UNKNOWN,  /* whether one runs could not be told: nothing else was looked at */
    SWEEP_NO_PROBE, /* none runs; nodeprobe is missing on the node, or is another one */
    SWEEP_FACTS,    /* none runs; nodeprobe's output is there */
};
struct remote_sweep_answer {
    enum remote_sweep_verdict verdict;
    int64_t since;     /* wall ms of the marker; 0: not known */
    char text[200];    /* of the marker or the command; printable */
    const char *facts; /* into `out` */
    size_t facts_len;
    int exit_code; /* of nodeprobe */
    struct {
        int exit_code;  /* 124 and more: it ran too long, was killed, or could not be run */
        char line[200]; /* the last that it printed; printable */
    } scripts[SWEEP_SCRIPTS_MAX];
    int script_count;
};
/* ERR_INVALID when `out` is no whole answer. */
int remote_sweep_parse(const char *out, size_t len, struct remote_sweep_answer *ret,
                       struct err *err);
/* How many operations wait for a session. */
int remote_hub_waiting(const struct remote_hub *hub);
