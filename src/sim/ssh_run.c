/*
 * Detached runs of one machine, with the states that the programs of remote/programs.c report: an
 * id is started at most once on a disk, a killed id has ended for good, and a run that its machine
 * took down has no exit code.
 *
 * Nothing happens while a run goes on: when it ends and how is decided at its start, and for a pair
 * when both sides are there; the state follows from the time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/ssh_int.h"

enum {
    KILLED = 143, /* 128 + SIGTERM */
    PAIR_WAIT_S = 40,
    PAIR_HANGS_S = 150, /* templates/fabric-test/client.sh gives up a transfer then */
    SERVER_S = 240,     /* and server.sh its client */
    /* however fast the simulation is, clusterd's own pauses are real: the least of the two waits */
    CLIENT_PATIENCE_MS = 30000,
    SERVER_PATIENCE_MS = 60000
};

static int64_t now_of(const struct sim_shell *sh)
{
    return loop_now(sh->node->sim->loop);
}

static bool ended(const struct sim_run *r)
{
    return r->died || now_of(r->shell) >= r->end;
}

struct sim_run *sim_run_find(struct sim_shell *sh, const char *id)
{
    for (struct sim_run *r = sh->runs; r != NULL; r = r->next)
        if (r->installs == sh->installs && strcmp(r->id, id) == 0)
            return r;
    return NULL;
}

/* ---- log ---- */

size_t sim_run_log_len(const struct sim_run *r)
{
    if (ended(r))
        return r->log_len;
    if (!r->steps || r->end <= r->start)
        return r->log_head;
    double share = (double)(now_of(r->shell) - r->start) / (double)(r->end - r->start);
    size_t len = (size_t)(share * (double)r->log_len);
    while (len > 0 && r->log[len - 1] != '\n')
        len--;
    return len;
}

void sim_run_set_tail(struct sim_run *r, const char *text, int exit_code)
{
    char *log = xasprintf("%.*s%s", (int)r->log_head, r->log != NULL ? r->log : "", text);
    free(r->log);
    r->log = log;
    r->log_len = strlen(log);
    r->exit_code = exit_code;
}

/* ---- pairs ---- */

static enum sim_role role_of(const char *id, const char *peer)
{
    const char *dash = strrchr(id, '-');
    if (*peer == '\0' || dash == NULL)
        return ROLE_ALONE;
    return strcmp(dash, "-server") == 0   ? ROLE_SERVER
           : strcmp(dash, "-client") == 0 ? ROLE_CLIENT
                                          : ROLE_ALONE;
}

/* The other side, while it goes on: its id differs in the last word only. */
static struct sim_run *other_side(const struct sim_run *r)
{
    char id[SIM_RUN_ID_MAX + 8];
    struct sim_node *n = r->role == ROLE_ALONE ? NULL : sim_by_name(r->shell->node->sim, r->peer);
    if (n == NULL)
        return NULL;
    (void)snprintf(id, sizeof id, "%.*s-%s", (int)(strrchr(r->id, '-') - r->id), r->id,
                   r->role == ROLE_SERVER ? "client" : "server");
    struct sim_run *other = sim_run_find(sim_shell_of(n), id);
    return other != NULL && other->pid != 0 && other->role != ROLE_ALONE && !ended(other) ? other
                                                                                          : NULL;
}

static int64_t patience(const struct sim_run *r, int64_t seconds)
{
    int64_t ms = sim_ms(r->shell->node->sim, seconds * 1000);
    int64_t least = r->role == ROLE_SERVER ? SERVER_PATIENCE_MS : CLIENT_PATIENCE_MS;
    return ms > least ? ms : least;
}

static void client_alone(struct sim_run *r, int64_t seconds, const char *what)
{
    char text[240];
    r->end = r->start + patience(r, seconds);
    (void)snprintf(text, sizeof text, "ib_write_bw to %s (%s) %s\n", r->peer, r->peer_address,
                   what);
    sim_run_set_tail(r, text, 1);
}

static void server_alone(struct sim_run *r)
{
    r->end = r->start + patience(r, SERVER_S);
    sim_run_set_tail(r, "no client came and ended within 240 s\n", 1);
}

static void pair_begin(struct sim_run *r)
{
    struct sim_run *other = other_side(r);
    if (r->role == ROLE_CLIENT)
        client_alone(r, PAIR_WAIT_S, "failed 20 times, the last time with 1");
    else
        server_alone(r);
    if (other == NULL)
        return;
    struct sim_run *client = r->role == ROLE_CLIENT ? r : other;
    struct sim_run *server = r->role == ROLE_CLIENT ? other : r;
    client->end = now_of(r->shell) + sim_answer_ms(client);
    server->end = client->end + sim_ms(r->shell->node->sim, 1000);
    sim_answer_pair(client, server);
}

/* One side is gone in the middle; call it while the other can still be found. */
static void pair_break(struct sim_run *r)
{
    struct sim_run *other = other_side(r);
    if (other == NULL)
        return;
    if (other->role == ROLE_SERVER)
        server_alone(other);
    else
        client_alone(other, PAIR_HANGS_S, "did not end within 150 s");
    if (other->end <= now_of(r->shell))
        other->end = now_of(r->shell) + 1;
}

/* ---- begin, end ---- */

static struct sim_run *add(struct sim_shell *sh, const char *id)
{
    struct sim_run *r = xcalloc(1, sizeof *r);
    (void)snprintf(r->id, sizeof r->id, "%s", id);
    r->shell = sh;
    r->installs = sh->installs;
    r->start = r->end = now_of(sh);
    r->next = sh->runs;
    sh->runs = r;
    return r;
}

/* On whatever disk: an id of before an install that comes back has run its script twice. */
static bool was_begun(const struct sim_shell *sh, const char *id)
{
    for (const struct sim_run *r = sh->runs; r != NULL; r = r->next)
        if (r->pid != 0 && strcmp(r->id, id) == 0)
            return true;
    return false;
}

/* FAULT_SSH_DROPS: the first run of each stage. */
static void decide_drop(struct sim_run *r)
{
    struct sim_shell *sh = r->shell;
    char word[48], question[64];
    if (!sim_has(sh->node, FAULT_SSH_DROPS))
        return;
    (void)snprintf(word, sizeof word, " %s ", r->stage);
    if (sh->dropped != NULL && strstr(sh->dropped, word) != NULL)
        return;
    char *list = xasprintf("%s%s", sh->dropped != NULL ? sh->dropped : "", word);
    free(sh->dropped);
    sh->dropped = list;
    (void)snprintf(question, sizeof question, "drop %s", r->stage);
    r->drop = sim_draw(sh->node, question, 2) == 0 ? DROP_START : DROP_MIDDLE;
}

bool sim_run_drops(struct sim_run *r, bool at_start)
{
    if (r->drop == DROP_NEVER || at_start != (r->drop == DROP_START))
        return false;
    if (!at_start && now_of(r->shell) < r->start + (r->end - r->start) / 2)
        return false;
    r->drop = DROP_NEVER;
    return true;
}

static void copy_variable(const char *env, const char *name, char *ret, size_t size)
{
    char *value = sim_env_get(env, name);
    (void)snprintf(ret, size, "%s", value);
    free(value);
}

/* server.sh ends an earlier server of its machine, for the port can be had only once. */
static void end_earlier_server(const struct sim_run *r)
{
    for (struct sim_run *old = r->next; old != NULL; old = old->next)
        if (old->role == ROLE_SERVER && old->installs == r->installs && old->pid != 0 &&
            !ended(old))
            sim_run_kill(r->shell, old->id);
}

struct sim_run *sim_run_begin(struct sim_shell *sh, const char *id, const char *env)
{
    struct sim_node *n = sh->node;
    char rail[12];
    n->count.runs_started++;
    if (was_begun(sh, id))
        n->count.runs_doubled++;
    struct sim_run *r = add(sh, id);
    r->pid = 1000 + ++sh->pids;
    copy_variable(env, "CLUSTERD_STAGE", r->stage, sizeof r->stage);
    copy_variable(env, "CLUSTERD_PEER", r->peer, sizeof r->peer);
    copy_variable(env, "CLUSTERD_PEER_ADDRESS", r->peer_address, sizeof r->peer_address);
    copy_variable(env, "CLUSTERD_RAIL", rail, sizeof rail);
    r->rail = rail[0] != '\0' ? atoi(rail) : -1;
    r->role = role_of(id, r->peer);
    if (r->role == ROLE_SERVER)
        end_earlier_server(r);
    sim_answer(r, env);
    if (r->role != ROLE_ALONE)
        pair_begin(r);
    decide_drop(r);
    return r;
}

void sim_run_kill(struct sim_shell *sh, const char *id)
{
    struct sim_run *r = sim_run_find(sh, id);
    if (r == NULL) {
        r = add(sh, id);
        r->exit_code = KILLED;
        return;
    }
    if (ended(r))
        return;
    pair_break(r);
    r->log_len = sim_run_log_len(r);
    r->end = now_of(sh);
    r->exit_code = KILLED;
}

void sim_runs_machine_down(struct sim_shell *sh)
{
    for (struct sim_run *r = sh->runs; r != NULL; r = r->next) {
        if (r->installs != sh->installs || ended(r))
            continue;
        pair_break(r);
        r->log_len = sim_run_log_len(r);
        r->died = true;
    }
}

void sim_runs_free(struct sim_shell *sh)
{
    while (sh->runs != NULL) {
        struct sim_run *r = sh->runs;
        sh->runs = r->next;
        free(r->log);
        free(r);
    }
}

/* ---- status ---- */

void sim_run_report(struct sim_shell *sh, const char *id, struct strbuf *out)
{
    const struct sim_run *r = sim_run_find(sh, id);
    if (r == NULL)
        strbuf_adds(out, "\nclusterd-run 1 absent -1 0 0\n");
    else if (r->died)
        strbuf_addf(out, "\nclusterd-run 1 restarted -1 %zu %d\n", r->log_len, r->pid);
    else if (ended(r))
        strbuf_addf(out, "\nclusterd-run 1 exited %d %zu %d\n", r->exit_code, r->log_len, r->pid);
    else
        strbuf_addf(out, "\nclusterd-run 1 running -1 %zu %d\n", sim_run_log_len(r), r->pid);
}
