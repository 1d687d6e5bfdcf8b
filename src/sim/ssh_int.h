/*
 * What the files of the simulator's SSH head share. Nothing outside includes this.
 *
 *   ssh.c           the listening socket, host keys, one shell for each machine
 *   ssh_login.c     a connection: libssh's server side, driven by our loop
 *   ssh_commands.c  what a command answers; knows nothing of libssh
 *   ssh_run.c       detached runs as src/remote/programs.c keeps them on a node
 *   ssh_answers.c   how long a script takes, what it prints and how it ends
 */
#pragma once

#include <libssh/libssh.h>
#include <libssh/server.h>

#include "base/digest.h"
#include "base/map.h"
#include "sim/sim.h"

enum {
    SIM_RUN_ID_MAX = 64,
    SIM_ENV_MAX = 128 << 10, /* of a run's variables */
    SIM_LOG_MAX = 1 << 20,   /* of a log that a user brought */
    SIM_ARGS_MAX = 8
};

struct sim_login;

/* What a machine keeps for this head: n->ssh. */
struct sim_shell {
    struct sim_node *node;
    ssh_key key;  /* the host's; made when it is needed first */
    int installs; /* files and runs below belong to the disk as this install made it */
    struct sim_run *runs;
    struct map *files; /* path -> struct sim_file */
    struct sim_login *logins;
    char *dropped; /* " STAGE STAGE ": whose first run lost its connection already */
    int pids;
    struct strbuf log; /* ssh_said() */
};

struct sim_file {
    char sha256[DIGEST_HEX_SIZE];
    int64_t size;
    unsigned mode;
};

/* Never NULL. Forgets what an install has wiped since. */
struct sim_shell *sim_shell_of(struct sim_node *n);

/* ---- runs ---- */

enum sim_role { ROLE_ALONE, ROLE_SERVER, ROLE_CLIENT };

struct sim_run {
    struct sim_run *next;
    struct sim_shell *shell;
    char id[SIM_RUN_ID_MAX + 1];
    char stage[40], peer[64], peer_address[48];
    enum sim_role role;
    int rail; /* -1: none was named */
    int installs;
    int pid;            /* 0: killed before it was started */
    int64_t start, end; /* loop_now() */
    int exit_code;      /* that it has or will have at its end */
    bool died;          /* with the machine: there will be no exit code */
    bool steps;         /* the log comes line by line; else all behind log_head at the end */
    char *log;
    size_t log_len, log_head;
    enum { DROP_NEVER, DROP_START, DROP_MIDDLE } drop;
};

struct sim_run *sim_run_find(struct sim_shell *sh, const char *id);
/* The claim is won: the script starts. `env` is the text of programs.c. */
struct sim_run *sim_run_begin(struct sim_shell *sh, const char *id, const char *env);
/* Ends it; an id that is not known is made one that has ended. */
void sim_run_kill(struct sim_shell *sh, const char *id);
/* The status line with the empty line before it, as report() of programs.c prints it. */
void sim_run_report(struct sim_shell *sh, const char *id, struct strbuf *out);
/* The bytes of the log that are there now. */
size_t sim_run_log_len(const struct sim_run *r);
/* Whether the connection that asks for this run now is to be cut; true only once. */
bool sim_run_drops(struct sim_run *r, bool at_start);
void sim_runs_machine_down(struct sim_shell *sh);
void sim_runs_free(struct sim_shell *sh);

/* ---- answers ---- */

/* What a script of `r` does by itself: duration, exit code, log. `env` as above. */
void sim_answer(struct sim_run *r, const char *env);
/* The transfer of a pair: the log of both sides and the exit code. */
void sim_answer_pair(struct sim_run *client, struct sim_run *server);
/* How long that takes. */
int64_t sim_answer_ms(const struct sim_run *r);
/* Puts `text` behind what of the log is seen from the start on. */
void sim_run_set_tail(struct sim_run *r, const char *text, int exit_code);
/* The value of NAME in "export NAME='value'" lines; "" where it is not. The caller frees. */
char *sim_env_get(const char *env, const char *name);

/* ---- commands ---- */

enum sim_command_kind { COMMAND_OTHER, COMMAND_START, COMMAND_UPLOAD, COMMAND_SWEEP };

struct sim_command {
    struct sim_shell *shell;
    enum sim_command_kind kind;
    char *args[SIM_ARGS_MAX + 1];
    int arg_count;
    struct strbuf out, err_out;
    int exit_code; /* -1: still waits for input */
    bool cut;      /* the connection is cut when `out` was sent */
    /* START and UPLOAD */
    int64_t expected, got;
    struct strbuf env;
    struct digest *digest;
};

void sim_command_begin(struct sim_command *c, struct sim_shell *sh, const char *text);
void sim_command_input(struct sim_command *c, const void *data, size_t len);
/* The end of stdin: the client's EOF, or the connection broke. */
void sim_command_input_end(struct sim_command *c);
void sim_command_done(struct sim_command *c);

/* ---- connections ---- */

/* Takes over the descriptor, whatever happens. */
void sim_login_open(ssh_bind bind, struct sim_shell *sh, int fd);
/* `reset`: the peer sees a reset, as from a machine that lost its power and came back. */
void sim_login_close(struct sim_login *l, bool reset);
