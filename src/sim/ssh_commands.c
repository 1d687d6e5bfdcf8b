/*
 * What the commands that arrive over SSH answer. The programs of remote/programs.h are recognised
 * by their whole text and played by their rules; a handful of plain commands are known too. Nothing
 * is executed and nothing is written: of an uploaded file its digest is kept, of a script nothing.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "remote/programs.h"
#include "sim/ssh_int.h"

enum {
    WORDS_MAX = 16,
    OUT_MAX = 4 << 20,
    ERR_OUT_MAX = 16 << 10,
    LOG_MAX = 64 << 10,
    DAY_MS = 24 * 3600 * 1000,
    NOT_EXECUTABLE = 126,
    NOT_FOUND = 127
};

/* remote/wait.c */
#define BOOT_PROGRAM "echo; echo clusterd-boot $(cat /proc/sys/kernel/random/boot_id)"
/* engine/ssh.h */
#define NODEPROBE "/usr/local/sbin/nodeprobe"
#define NO_SPACE "No space left on device"

static void done(struct sim_command *c, int exit_code)
{
    c->exit_code = exit_code;
}

/* Names only: commands can hold what is nobody's business. */
static void log_line(struct sim_shell *sh, const char *line)
{
    if (sh->log.len > LOG_MAX)
        strbuf_consume(&sh->log, sh->log.len / 2);
    strbuf_addf(&sh->log, "%s\n", line);
}

const char *ssh_said(struct sim_node *n)
{
    const char *text = sim_shell_of(n)->log.data;
    return text != NULL ? text : "";
}

void ssh_said_clear(struct sim_node *n)
{
    strbuf_reset(&sim_shell_of(n)->log);
}

static bool disk_full(const struct sim_command *c)
{
    return sim_has(c->shell->node, FAULT_DISK_FULL);
}

/* ---- words of a command line: plain characters, 'quoted' and \x ---- */

static void words_free(char **words, int count)
{
    for (int i = 0; i < count; i++)
        free(words[i]);
}

/* Returns the count, -1: something that takes a shell. */
static int split(const char *text, char *words[WORDS_MAX])
{
    int count = 0;
    const char *p = text;
    while (*(p += strspn(p, " ")) != '\0') {
        if (count == WORDS_MAX)
            break;
        char *out = words[count++] = xcalloc(1, strlen(p) + 1);
        while (*p != '\0' && *p != ' ') {
            if (*p == '\'') {
                const char *end = strchr(p + 1, '\'');
                if (end == NULL)
                    break;
                out = (char *)memcpy(out, p + 1, (size_t)(end - p - 1)) + (end - p - 1);
                p = end + 1;
            } else if (*p == '\\' && p[1] != '\0') {
                *out++ = p[1];
                p += 2;
            } else if (strchr("\"$`;&|<>()\n", *p) != NULL) {
                break;
            } else {
                *out++ = *p++;
            }
        }
        if (*p != '\0' && *p != ' ')
            break;
    }
    if (*p == '\0')
        return count;
    words_free(words, count);
    return -1;
}

/* ---- runs ---- */

static bool is_id(const char *id)
{
    size_t len = strlen(id);
    return len >= 1 && len <= SIM_RUN_ID_MAX && id[0] != '.' &&
           strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == len;
}

/* mkdir -p of the run's directory */
static bool made_dir(struct sim_command *c)
{
    if (!disk_full(c) || sim_run_find(c->shell, c->args[0]) != NULL)
        return true;
    strbuf_addf(&c->err_out,
                "mkdir: cannot create directory '/var/lib/clusterd/runs/%s': " NO_SPACE "\n",
                c->args[0]);
    done(c, 1);
    return false;
}

/* An answer that is lost on its way: the connection ends in the middle of it. */
static void cut(struct sim_command *c)
{
    struct strbuf half;
    strbuf_init(&half, OUT_MAX);
    strbuf_add(&half, c->out.data, c->out.len / 2);
    strbuf_done(&c->out);
    c->out = half;
    c->cut = true;
}

static void report_start(struct sim_command *c)
{
    struct sim_run *r = sim_run_find(c->shell, c->args[0]);
    sim_run_report(c->shell, c->args[0], &c->out);
    if (r != NULL && sim_run_drops(r, true))
        cut(c);
    done(c, 0);
}

static void begin_start(struct sim_command *c)
{
    if (!made_dir(c))
        return;
    if (sim_run_find(c->shell, c->args[0]) != NULL) {
        report_start(c);
        return;
    }
    c->kind = COMMAND_START;
    c->expected = atoll(c->args[2]);
    strbuf_init(&c->env, SIM_ENV_MAX);
    strbuf_adds(&c->out, "\nclusterd-run 1 send -1 0 0\n");
}

/* Only the variables are looked at; they can be secret, as the script. */
static void input_start(struct sim_command *c, const void *data, size_t len)
{
    int64_t left = atoll(c->args[1]) - c->got;
    if (left > 0)
        strbuf_add(&c->env, data, (int64_t)len < left ? len : (size_t)left);
}

static void end_start(struct sim_command *c)
{
    if (c->got != c->expected) {
        strbuf_adds(&c->err_out, "the script arrived cut short\n");
        done(c, 1);
        return;
    }
    /* link(2): somebody else may have been quicker since we asked for input */
    if (sim_run_find(c->shell, c->args[0]) == NULL)
        (void)sim_run_begin(c->shell, c->args[0], c->env.data);
    report_start(c);
}

static void begin_poll(struct sim_command *c)
{
    struct sim_run *r = sim_run_find(c->shell, c->args[0]);
    int64_t offset = atoll(c->args[1]), max = atoll(c->args[2]);
    sim_run_report(c->shell, c->args[0], &c->out);
    int64_t len = r != NULL ? (int64_t)sim_run_log_len(r) - offset : 0;
    if (offset >= 0 && max > 0 && len > 0)
        strbuf_add(&c->out, r->log + offset, (size_t)(len < max ? len : max));
    if (r != NULL && sim_run_drops(r, false))
        cut(c);
    done(c, 0);
}

static void begin_kill(struct sim_command *c)
{
    if (!made_dir(c))
        return;
    sim_run_kill(c->shell, c->args[0]);
    sim_run_report(c->shell, c->args[0], &c->out);
    done(c, 0);
}

/* ---- upload ---- */

struct below {
    const char *path;
    bool found;
};

static void look_below(const char *path, void *value, void *user)
{
    struct below *b = user;
    size_t len = strlen(b->path);
    (void)value;
    if (strncmp(path, b->path, len) == 0 && path[len] == '/')
        b->found = true;
}

static void begin_upload(struct sim_command *c)
{
    struct below below = {c->args[0], false};
    struct sim_file *f = map_get(c->shell->files, c->args[0]);
    map_each(c->shell->files, look_below, &below);
    if (below.found) {
        strbuf_addf(&c->err_out, "%s is a directory\n", c->args[0]);
        done(c, 1);
        return;
    }
    if (f != NULL && strcmp(f->sha256, c->args[1]) == 0) {
        f->mode = (unsigned)strtoul(c->args[2], NULL, 8);
        strbuf_adds(&c->out, "\nclusterd-upload same\n");
        done(c, 0);
        return;
    }
    c->kind = COMMAND_UPLOAD;
    c->expected = atoll(c->args[3]);
    c->digest = digest_new();
    strbuf_adds(&c->out, "\nclusterd-upload send\n");
}

static void input_upload(struct sim_command *c, const void *data, size_t len)
{
    if (disk_full(c)) {
        strbuf_addf(&c->err_out,
                    "cat: write error: " NO_SPACE "\n%s.clusterd.%d could not be written\n",
                    c->args[0], 1000 + ++c->shell->pids);
        done(c, 1);
        return;
    }
    digest_add(c->digest, data, len);
}

static void end_upload(struct sim_command *c)
{
    char sha256[DIGEST_HEX_SIZE];
    digest_finish(c->digest, sha256);
    c->digest = NULL;
    done(c, 1);
    if (c->got != c->expected) {
        strbuf_addf(&c->err_out, "%s arrived cut short\n", c->args[0]);
        return;
    }
    if (strcmp(sha256, c->args[1]) != 0) {
        strbuf_addf(&c->err_out,
                    "%s arrived with another SHA-256 (or was changed while it was sent)\n",
                    c->args[0]);
        return;
    }
    struct sim_file *f = xcalloc(1, sizeof *f);
    memcpy(f->sha256, sha256, sizeof sha256);
    f->size = c->got;
    f->mode = (unsigned)strtoul(c->args[2], NULL, 8);
    free(map_set(c->shell->files, c->args[0], f));
    strbuf_adds(&c->out, "\nclusterd-upload done\n");
    done(c, 0);
}

/* ---- what the login shell finds by itself ---- */

static void run_boot_id(struct sim_command *c)
{
    strbuf_addf(&c->out, "%s\n", c->shell->node->boot_id);
    done(c, 0);
}

static void run_boot(struct sim_command *c)
{
    strbuf_addf(&c->out, "\nclusterd-boot ");
    run_boot_id(c);
}

static void run_true(struct sim_command *c)
{
    done(c, 0);
}

static void run_hostname(struct sim_command *c)
{
    strbuf_addf(&c->out, "%s\n", c->shell->node->name);
    done(c, 0);
}

/* date [-u] [+FORMAT], always in UTC */
static void run_date(struct sim_command *c, char **words, int count)
{
    const struct sim_node *n = c->shell->node;
    const char *format = "%a %b %e %H:%M:%S UTC %Y";
    char text[256];
    struct tm tm;
    time_t t =
        (time_t)((loop_wall(n->sim->loop) - (sim_has(n, FAULT_CLOCK_WRONG) ? (int64_t)DAY_MS : 0)) /
                 1000);
    for (int i = 1; i < count; i++) {
        if (words[i][0] == '+')
            format = words[i] + 1;
        else if (strcmp(words[i], "-u") != 0) {
            strbuf_addf(&c->err_out, "date: the simulated machine does not know '%.60s'\n",
                        words[i]);
            done(c, 1);
            return;
        }
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    text[0] = '\0';
    if (gmtime_r(&t, &tm) != NULL)
        text[strftime(text, sizeof text, format, &tm)] = '\0';
#pragma GCC diagnostic pop
    strbuf_addf(&c->out, "%s\n", text);
    done(c, 0);
}

/* nodeprobe has to be there before it can be called: it comes by an upload. */
static void run_nodeprobe(struct sim_command *c)
{
    const struct sim_file *f = map_get(c->shell->files, NODEPROBE);
    if (f == NULL || (f->mode & 0111) == 0) {
        strbuf_addf(&c->err_out, "sh: 1: " NODEPROBE ": %s\n",
                    f == NULL ? "not found" : "Permission denied");
        done(c, f == NULL ? NOT_FOUND : NOT_EXECUTABLE);
        return;
    }
    json_t *facts = machine_facts(c->shell->node);
    char *text = json_dumps(facts, JSON_INDENT(2));
    json_decref(facts);
    if (text != NULL)
        strbuf_adds(&c->out, text);
    strbuf_addc(&c->out, '\n');
    free(text);
    done(c, 0);
}

/* ---- sweeps: what remote/sweep.c asks, step by step as its program does ---- */

static void sweep_line(struct sim_command *c, const char *line)
{
    strbuf_addf(&c->out, "clusterd-sweep %s\n", line);
}

static void begin_sweep(struct sim_command *c)
{
    const struct sim_node *n = c->shell->node;
    const struct sim_file *f = map_get(c->shell->files, c->args[2]);
    log_line(c->shell, "  looks for a workload");
    strbuf_adds(&c->out, "\n");
    if (n->workload_at != 0) {
        strbuf_addf(&c->out, "clusterd-sweep workload %lld %s\n",
                    c->args[1][0] != '\0' ? 0LL : (long long)n->workload_at / 1000, n->workload);
        done(c, 0);
        return;
    }
    if (f == NULL || (f->mode & 0111) == 0 || strcmp(f->sha256, c->args[3]) != 0) {
        sweep_line(c, "no-probe");
        done(c, 0);
        return;
    }
    log_line(c->shell, "  runs nodeprobe");
    sweep_line(c, "facts");
    run_nodeprobe(c);
    strbuf_addf(&c->out, "\n");
    sweep_line(c, "end 0");
    if (c->args[4][0] == '\0') {
        sweep_line(c, "over");
        return;
    }
    c->kind = COMMAND_SWEEP;
    c->exit_code = -1; /* the scripts are still to come */
    strbuf_init(&c->env, SIM_ENV_MAX);
}

/* Each script as STAGE's: it fails where that is the fault. */
static void end_sweep(struct sim_command *c)
{
    const struct sim_node *n = c->shell->node;
    const char *lengths = c->args[4];
    size_t at = 0;
    for (char *next; *lengths != '\0'; lengths = next) {
        size_t env = strtoul(lengths, &next, 10), script = strtoul(next, &next, 10);
        if (at + env + script > c->env.len) {
            done(c, 1);
            return;
        }
        char *text = xstrndup(c->env.data + at, env), *stage = sim_env_get(text, "CLUSTERD_STAGE");
        bool fails = sim_has(n, FAULT_SCRIPT_FAILS) && strcmp(stage, n->fault_arg) == 0;
        char *line = xasprintf("  runs a script of %s", stage);
        log_line(c->shell, line);
        strbuf_addf(&c->out, "clusterd-sweep run %d %s: simulated\n", fails, stage);
        at += env + script;
        free(line);
        free(stage);
        free(text);
    }
    sweep_line(c, "over");
    done(c, 0);
}

/* ---- which one it is ---- */

static const struct {
    const char *program; /* after exec /bin/sh -c, or all words joined by a blank */
    int args;            /* -1: not a program of remote/ */
    bool run_id;
    void (*begin)(struct sim_command *c);
    const char *name; /* in the log */
} known[] = {{run_start_program, 3, true, begin_start, "run-start"},
             {run_poll_program, 3, true, begin_poll, "run-poll"},
             {run_kill_program, 1, true, begin_kill, "run-kill"},
             {upload_program, 4, false, begin_upload, "upload"},
             {sweep_program, 5, false, begin_sweep, "sweep"},
             {BOOT_PROGRAM, 0, false, run_boot, "boot-id"},
             {"cat /proc/sys/kernel/random/boot_id", -1, false, run_boot_id, "boot-id"},
             {"hostname", -1, false, run_hostname, "hostname"},
             {"true", -1, false, run_true, "true"},
             {NODEPROBE, -1, false, run_nodeprobe, "nodeprobe"}};

static bool find_program(struct sim_command *c, char **words, int count)
{
    int args = count - 5;
    if (args < 0 || strcmp(words[0], "exec") != 0 || strcmp(words[1], "/bin/sh") != 0 ||
        strcmp(words[2], "-c") != 0 || strcmp(words[4], "clusterd") != 0 || args > SIM_ARGS_MAX)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (known[i].args != args || strcmp(known[i].program, words[3]) != 0 ||
            (known[i].run_id && !is_id(words[5])))
            continue;
        for (c->arg_count = 0; c->arg_count < args; c->arg_count++)
            c->args[c->arg_count] = xstrdup(words[5 + c->arg_count]);
        log_line(c->shell, known[i].name);
        known[i].begin(c);
        return true;
    }
    return false;
}

static bool find_plain(struct sim_command *c, const char *text, char **words, int count)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (known[i].args < 0 && strcmp(known[i].program, text) == 0) {
            log_line(c->shell, known[i].name);
            known[i].begin(c);
            return true;
        }
    if (count < 1 || strcmp(words[0], "date") != 0)
        return false;
    log_line(c->shell, "date");
    run_date(c, words, count);
    return true;
}

void sim_command_begin(struct sim_command *c, struct sim_shell *sh, const char *text)
{
    char *words[WORDS_MAX];
    *c = (struct sim_command){.shell = sh, .exit_code = -1};
    strbuf_init(&c->out, OUT_MAX);
    strbuf_init(&c->err_out, ERR_OUT_MAX);
    strbuf_init(&c->env, 0);
    sh->node->count.ssh_commands++;
    int count = split(text, words);
    bool found = count >= 0 && (find_program(c, words, count) || find_plain(c, text, words, count));
    if (count >= 0)
        words_free(words, count);
    if (found)
        return;
    log_line(c->shell, "unknown");
    strbuf_addf(&c->err_out, "%s: a simulated machine has no such command: %.80s\n", sh->node->name,
                *text != '\0' ? text : "a login shell");
    done(c, NOT_FOUND);
}

void sim_command_input(struct sim_command *c, const void *data, size_t len)
{
    if (c->exit_code >= 0 || len == 0)
        return;
    if (c->kind == COMMAND_START)
        input_start(c, data, len);
    else if (c->kind == COMMAND_UPLOAD)
        input_upload(c, data, len);
    else if (c->kind == COMMAND_SWEEP)
        strbuf_add(&c->env, data, len);
    c->got += (int64_t)len;
}

void sim_command_input_end(struct sim_command *c)
{
    if (c->exit_code >= 0)
        return;
    if (c->kind == COMMAND_START)
        end_start(c);
    else if (c->kind == COMMAND_UPLOAD)
        end_upload(c);
    else if (c->kind == COMMAND_SWEEP)
        end_sweep(c);
}

void sim_command_done(struct sim_command *c)
{
    if (c->digest != NULL) {
        char unused[DIGEST_HEX_SIZE];
        digest_finish(c->digest, unused);
    }
    for (int i = 0; i < c->arg_count; i++)
        free(c->args[i]);
    if (c->env.capacity > 0)
        explicit_bzero(c->env.data, c->env.capacity);
    strbuf_done(&c->env);
    strbuf_done(&c->out);
    strbuf_done(&c->err_out);
    *c = (struct sim_command){.exit_code = -1};
}
