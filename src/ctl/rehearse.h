/*
 * clusterctl rehearse: what its files share. cmd_rehearse.c is the course of a rehearsal,
 * rehearse_host.c the private folder and the two programs in it, rehearse_files.c what is written
 * there, rehearse_summary.c the facts at the end as JSON, rehearse_print.c the same for people.
 * What is pure is in model/rehearsal.h.
 */
#pragma once

#include <sys/types.h>

#include "base/digest.h"
#include "ctl/ctl.h"
#include "model/rehearsal.h"

enum { HOST_PROGRAMS = 2 };

/* A folder of our own and the programs that run in it; all of it goes when we go. */
struct host {
    char *dir;
    bool keep;
    pid_t keeper; /* removes the folder when the leash breaks */
    int leash;
    struct host_program {
        const char *name;
        pid_t pid; /* 0: not running */
        double cpu_s;
    } programs[HOST_PROGRAMS];
};

/* `keep`: a folder that must not exist or be empty; NULL: a temporary one. Exit code. */
int host_open(struct host *h, const char *keep);
/* Ends the programs and removes what is not kept. */
void host_close(struct host *h);
/* The path of a program of ours, beside this one or where it is installed; never from PATH. NULL
 * after complaining. The caller frees. */
char *host_find(const char *name);
/* Starts a program with its output in DIR/NAME.log; it dies with us. Exit code. */
int host_start(struct host *h, const char *name, char *const *argv);
/* Runs a program to its end: what it printed; NULL: it failed, and has said why on stderr. The
 * caller frees. */
char *host_output(char *const *argv);
bool host_runs(struct host *h, const char *name);
void host_stop(struct host *h); /* both, and counts the processor time they took */
/* The last lines of DIR/NAME.log, without times, on stderr. */
void host_say_log(const struct host *h, const char *name);
/* `count` ports in a row that nobody listens on; 0 after complaining. */
int host_free_ports(int count);
/* dir + "/" + name; the caller frees. */
char *host_path(const struct host *h, const char *name);
int host_write(const struct host *h, const char *name, const char *text, size_t len);
/* A line for the simulator's control socket and what it answers; NULL: no answer. */
json_t *host_ask_sim(const struct host *h, const char *line);

enum { PORT_BOOT, PORT_BMC, PORT_SSH, PORTS };

struct rehearse {
    struct ctl *c;    /* as it was called */
    struct ctl inner; /* asks the private daemon */
    struct host host;
    struct profiles *profiles;
    struct spec *spec;
    json_t *warnings; /* of lint: {"problems": [...]} */
    json_t *notes;    /* what could not be rehearsed as it is */
    json_t *figures;  /* that were made up */
    json_t *history;  /* {stage: seconds}, or NULL */
    json_t *sizes;    /* {kernel, initrd, image: {bytes, assumed}} */
    double speed, uplink_mb_s;
    const char *seed;
    int port;           /* the first of PORTS */
    int64_t started_at; /* clock_mono_ms() when the spec was applied */
    double took_s;      /* of real time since */
    int validated, failed, held, total;
    bool moving;                     /* something runs, or will by itself */
    char last_look[DIGEST_HEX_SIZE]; /* what /v1/nodes said */
    int64_t still_since;             /* since when nothing moved, clock_mono_ms() */
    json_t *nodes;                   /* the last answer of /v1/nodes */
};

/* A request to the private daemon, as request(); silent after an interrupt. */
json_t *rehearse_ask(struct rehearse *r, const char *method, const char *path, json_t *body,
                     int *ret_code);
/* The folder's files: spec, fleet, answers, secrets, settings. Exit code. */
int rehearse_write(struct rehearse *r);
/* What is known at the end. `result`: "validated", "failed", "stalled", "timeout". */
json_t *rehearse_summary(struct rehearse *r, const char *result);
void rehearse_print(const json_t *summary);

/* cmd_spec.c: all *.yaml of a folder; false after complaining. */
bool load_profiles(const char *dir, struct bundle *b);
json_t *diags_json(const struct diags *d);
/* progress.c: how a node stands: 'v' validated or left out, 'f' cannot go on, 'h' held, 'r' under
 * way. */
char node_standing(const json_t *n);
