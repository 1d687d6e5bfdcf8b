/*
 * clusterctl: what its files share. A command is a row in main.c's table: its options, its help and
 * a function; what it needs of the daemon it asks through request.c, what it prints goes through
 * output.c.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/strbuf.h"
#include "clusterd.h"

/* Exit codes; further ones come from the daemon's error codes (err_exit_code). */
enum {
    CTL_DONE = 0,    /* done, or nothing to do */
    CTL_FAILED = 1,  /* what was asked for failed */
    CTL_INPUT = 2,   /* wrong input: arguments, spec */
    CTL_PENDING = 3, /* plan --exit-code: there are changes */
};

struct option_row {
    const char *name; /* without "--"; NULL ends the table */
    char letter;      /* '\0': none */
    const char *arg;  /* what follows, for the help; NULL: a flag */
    const char *help;
};

enum { OPTIONS_MAX = 16, GIVEN_MAX = 256 };

struct command;

struct ctl {
    const struct command *command;
    const char *values[OPTIONS_MAX]; /* by row of the command's table; flags: "" */
    struct {
        int row;
        const char *value;
    } given[GIVEN_MAX]; /* every option as often as it was written; more of them are an error */
    int given_count;
    const char *socket;
    bool json;
    int argc; /* further arguments */
    char **argv;
    struct clusterd *client; /* opened on demand */
    long patience_ms;        /* for its answers; 0: the client's own */
};

struct command {
    const char *name, *args, *summary;
    int min_args, max_args; /* max -1: any number */
    const struct option_row *options;
    int (*run)(struct ctl *c);
    const char *help; /* more than the summary: what it does, examples */
};

/* The option's text; NULL when it was not given (flags: ""). Aborts on a name the table lacks. */
const char *opt(const struct ctl *c, const char *name);
/* The n-th text of an option that was written several times, from 0 on; NULL: no more. opt() gives
 * the last. */
const char *opt_nth(const struct ctl *c, const char *name, int n);
/* Further arguments joined with ','; NULL where there is none. The caller frees. */
char *joined_args(const struct ctl *c, int from);
/* "clusterctl: ..." on stderr; returns `code`. */
int complain(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- request.c ---- */

struct clusterd *client_of(struct ctl *c);
/* One request; on failure says why on stderr and sets *ret_code. `body` is taken. */
json_t *request(struct ctl *c, const char *method, const char *path, json_t *body, int *ret_code);
/* path + "?name=" + escaped value, where value is not NULL. The caller frees. */
char *with_query(const char *path, const char *name, const char *value);
/* Prints "file:line:column: message" lines of {"problems": [...]}; how many errors. */
int print_problems(FILE *to, const json_t *problems);
/* Set by SIGINT and SIGTERM. */
extern volatile sig_atomic_t interrupted;

/* ---- output.c ---- */

int print_json(const json_t *value); /* CTL_DONE */
bool colour_on(FILE *to);
/* A table: columns are as wide as their widest cell; the last one is not padded. */
struct table;
struct table *table_new(const char *const *headers); /* NULL-terminated */
void table_add(struct table *t, const char *cell);   /* row by row; NULL: "-" */
void table_print(struct table *t, FILE *to);         /* and frees */
/* Lines that table_print would write. */
int table_rows(const struct table *t);
const char *text_of(const json_t *o, const char *key); /* "" for null and absent */
/* "2026-12-01 06:50:31.123" as "06:50:31" today, else with the date. Borrowed static. */
const char *short_time(const char *text);

/* ---- files.c ---- */

/* The spec and the files it names as {"files": [...]}; NULL after saying why. */
json_t *load_spec(const char *path);
/* Where profiles/ or templates/ are: an option, CLUSTERD_DATADIR, the checkout, the system. */
char *data_path(const char *option, const char *what);

/* ---- cmd_spec.c ---- */

void print_plan(const json_t *plan);
/* Adds what --reinstall, --limit, --only and --from say. */
void add_order(const struct ctl *c, json_t *body);
/* POST /v1/apply (takes the body), and what --wait and --timeout ask for. */
int apply_body(struct ctl *c, json_t *body);

/* ---- progress.c ---- */

/* Waits until all of the nodes are validated, or none of them can go on. */
int wait_for_nodes(struct ctl *c, const char *nodes, json_int_t after_event, int64_t timeout_ms);
/* The newest event's id; -1 after saying why not. */
json_int_t last_event(struct ctl *c);
void print_event(const json_t *event);

/* ---- the commands ---- */

int cmd_lint(struct ctl *c);
int cmd_rehearse(struct ctl *c);
int cmd_plan(struct ctl *c);
int cmd_apply(struct ctl *c);
int cmd_nodes(struct ctl *c);
int cmd_show(struct ctl *c);
int cmd_why(struct ctl *c);
int cmd_stages(struct ctl *c);
int cmd_results(struct ctl *c);
int cmd_status(struct ctl *c);
int cmd_pending(struct ctl *c);
int cmd_rerun(struct ctl *c);
int cmd_hold(struct ctl *c);
int cmd_waive(struct ctl *c);
int cmd_maintenance(struct ctl *c);
int cmd_sweep(struct ctl *c);
int cmd_release(struct ctl *c);
int cmd_replace(struct ctl *c);
int cmd_power(struct ctl *c);
int cmd_rollout(struct ctl *c);
int cmd_logs(struct ctl *c);
int cmd_events(struct ctl *c);
int cmd_console(struct ctl *c);
int cmd_audit(struct ctl *c);
int cmd_backup(struct ctl *c);
int cmd_history(struct ctl *c);
int cmd_diff(struct ctl *c);
int cmd_rollback(struct ctl *c);
int cmd_nodeset(struct ctl *c);
int cmd_render(struct ctl *c);
