/*
 * What scripts do on a simulated machine: a table by the stage's name, or what a user put into
 * answers_dir. No script is ever executed.
 *
 * The figures are those of a machine with two current processors, NVMe and the link speed of its
 * own ports, a few percent up or down by machine and run.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "sim/ssh_int.h"

enum { FAILS_AFTER_S = 5, SPREAD_PERCENT = 3, DEFAULT_S = 10, PORT_MBITS = 200000 };

static const struct {
    const char *stage;
    int seconds;
} durations[] = {
    {"tuned", 20}, {"fabric", 30}, {"gpu", 60}, {"node-tested", 300}, {"fabric-tested", 60}};

/* How long a script takes, and where that comes from. */
static const char *seconds_of(const struct sim_run *r, double *ret)
{
    const struct sim *s = r->shell->node->sim;
    const json_t *given = json_object_get(s->stage_seconds, r->stage);
    const json_t *assumed = json_object_get(s->assumed_seconds, r->stage);
    const char *source = "assumed";
    *ret = json_is_number(assumed) ? json_number_value(assumed) : DEFAULT_S;
    for (size_t i = 0; i < ARRAY_LEN(durations); i++)
        if (strcmp(durations[i].stage, r->stage) == 0) {
            *ret = durations[i].seconds;
            source = "usual";
        }
    if (!json_is_number(given))
        return source;
    *ret = json_number_value(given);
    return "given";
}

int64_t sim_answer_ms(const struct sim_run *r)
{
    double seconds;
    (void)seconds_of(r, &seconds);
    return sim_ms(r->shell->node->sim, (int64_t)(seconds * 1000));
}

/* ---- variables ---- */

/* The format is made by put_variable() of remote/run.c: a quote in a value is written '\''. */
char *sim_env_get(const char *env, const char *name)
{
    char *start = xasprintf("export %s='", name);
    const char *at = env;
    while (at != NULL && strncmp(at, start, strlen(start)) != 0) {
        at = strstr(at, "\nexport ");
        at += at != NULL;
    }
    size_t skip = strlen(start);
    free(start);
    if (at == NULL)
        return xstrdup("");
    char *value = xstrdup(at + skip), *out = value;
    for (const char *p = value; *p != '\0'; p++) {
        if (*p != '\'')
            *out++ = *p;
        else if (strncmp(p, "'\\''", 4) == 0) {
            *out++ = '\'';
            p += 3;
        } else
            break;
    }
    *out = '\0';
    return value;
}

/* ---- figures ---- */

static double vary(const struct sim_run *r, const char *what, double base)
{
    char question[128];
    (void)snprintf(question, sizeof question, "%s %s", what, r->id);
    int permille = (int)sim_draw(r->shell->node, question, 20 * SPREAD_PERCENT + 1);
    return base * (1.0 + (permille - 10 * SPREAD_PERCENT) / 1000.0);
}

/* That of the rail, or the first one. */
static const struct sim_part *find_port(const struct sim_run *r)
{
    const struct sim_node *n = r->shell->node;
    int left = r->rail;
    for (int i = 0; i < n->part_count; i++)
        if (strcmp(n->parts[i].kind, "hca") == 0 && left-- <= 0)
            return &n->parts[i];
    return NULL;
}

static int64_t port_mbits(const struct sim_run *r)
{
    const struct sim_node *n = r->shell->node;
    const struct sim_part *p = find_port(r);
    int64_t rate = p != NULL && p->size > 0 ? p->size : PORT_MBITS;
    bool slow = p != NULL && sim_has(n, FAULT_SLOW_NIC) &&
                (n->fault_arg[0] == '\0' || strcmp(n->fault_arg, p->slot) == 0);
    return slow ? rate / 10 : rate;
}

/* The lines of templates/node-test/node-test.sh. */
static char *node_test_log(const struct sim_run *r, const char *env)
{
    int cpus = 0;
    for (int i = 0; i < r->shell->node->part_count; i++)
        cpus += strcmp(r->shell->node->parts[i].kind, "cpu") == 0;
    cpus = cpus == 0 ? 1 : cpus;
    char *mib = sim_env_get(env, "test_mib");
    int size = isdigit((unsigned char)*mib) ? (int)strtol(mib, NULL, 10) : 256;
    free(mib);
    return xasprintf("processors: %d times SHA-256 of %d MiB\n"
                     "measure cpu_sha256 %.1f MB/s\n"
                     "memory: %d MiB in copies of 4 MiB, compared\n"
                     "measure memory_copy %.1f MB/s\n"
                     "disk: %d MiB in /var/tmp/clusterd-node-test\n"
                     "measure disk_write %.1f MB/s\n"
                     "measure disk_read %.1f MB/s\n"
                     "data came back as written; no hardware error in the kernel's log\n",
                     cpus, size, vary(r, "cpu_sha256", 12000.0 * cpus), size,
                     vary(r, "memory_copy", 11500), size, vary(r, "disk_write", 1900),
                     vary(r, "disk_read", 3200));
}

/* The table of perftest's ib_write_bw --report_gbits. */
static char *write_bw_log(const struct sim_run *client, const struct sim_run *server)
{
    const struct sim_part *from = find_port(client);
    int64_t a = port_mbits(client), b = port_mbits(server);
    double link = (double)(a < b ? a : b) / 1000;
    double average = vary(client, "ib_write_bw", link * 0.95);
    return xasprintf(
        "---------------------------------------------------------------------------------------\n"
        "                    RDMA_Write BW Test\n"
        " Dual-port       : OFF\t\tDevice         : %s\n"
        " Number of qps   : 1\t\tTransport type : IB\n"
        " Connection type : RC\t\tUsing SRQ      : OFF\n"
        " PCIe relax order: ON\n"
        " TX depth        : 128\n"
        " CQ Moderation   : 1\n"
        " Mtu             : 4096[B]\n"
        " Link type       : IB\n"
        " Max inline data : 0[B]\n"
        " rdma_cm QPs\t : OFF\n"
        " Data ex. method : Ethernet\n"
        "---------------------------------------------------------------------------------------\n"
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        " 1048576    20000            %.2f             %.2f               %.6f\n"
        "---------------------------------------------------------------------------------------\n",
        from != NULL ? from->slot : "mlx5_0", average * 1.002, average,
        average * 1e9 / 8 / 1048576 / 1e6);
}

/* ---- a user's own answers: STAGE.log, STAGE.rc ---- */

static char *read_answer(const struct sim_run *r, const char *what)
{
    const char *dir = r->shell->node->sim->answers_dir;
    char *data = NULL;
    /* the stage's name comes with the run: nothing but a plain name gets near a path */
    if (dir == NULL || r->stage[0] == '\0' ||
        r->stage[strspn(r->stage, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789_-")] != '\0')
        return NULL;
    const char *own = r->shell->node->answers; /* of machines such as this first */
    for (const char *at = own[0] != '\0' ? own : "."; data == NULL; at = ".") {
        char *path = xasprintf("%s/%s/%s.%s", dir, at, r->stage, what);
        if (fs_read(path, SIM_LOG_MAX, &data, NULL, NULL) < 0)
            data = NULL;
        free(path);
        if (strcmp(at, ".") == 0)
            break;
    }
    return data;
}

/* `log` is freed. */
static void finish(struct sim_run *r, char *log)
{
    char *own_log = read_answer(r, "log"), *own_rc = read_answer(r, "rc");
    long rc = own_rc != NULL ? strtol(own_rc, NULL, 10) : 0;
    sim_run_set_tail(r, own_log != NULL ? own_log : log, rc >= 0 && rc <= 255 ? (int)rc : 1);
    free(own_rc);
    free(own_log);
    free(log);
}

/* ---- all together ---- */

static void fails_early(struct sim_run *r, char *log)
{
    r->role = ROLE_ALONE;
    r->end = r->start + sim_ms(r->shell->node->sim, FAILS_AFTER_S * 1000);
    sim_run_set_tail(r, log, 1);
    free(log);
}

void sim_answer(struct sim_run *r, const char *env)
{
    const struct sim_node *n = r->shell->node;
    const struct sim_part *port = find_port(r);
    const char *stage = r->stage[0] != '\0' ? r->stage : "script";
    double seconds;
    const char *source = seconds_of(r, &seconds);
    sim_count_script(n->sim, stage, seconds, source);
    r->end = r->start + sim_answer_ms(r);
    if (sim_has(n, FAULT_SCRIPT_FAILS) && strcmp(r->stage, n->fault_arg) == 0) {
        fails_early(r, xasprintf("%s: scripts of stage %s fail on %s (simulated fault)\n", stage,
                                 stage, n->name));
    } else if (r->role != ROLE_ALONE && port == NULL) {
        fails_early(r, xstrdup("no RDMA port is Active\n"));
    } else if (r->role == ROLE_SERVER) {
        char *head = xasprintf("ib_write_bw on %s port 1 waits for %s\n", port->slot, r->peer);
        sim_run_set_tail(r, head, 0);
        r->log_head = r->log_len;
        free(head);
    } else if (r->role == ROLE_ALONE) {
        r->steps = true;
        finish(r, strcmp(r->stage, "node-tested") == 0
                      ? node_test_log(r, env)
                      : xasprintf("%s: simulated, nothing was done\n", stage));
    }
}

void sim_answer_pair(struct sim_run *client, struct sim_run *server)
{
    char *log = write_bw_log(client, server);
    sim_run_set_tail(server, log, 0);
    finish(client, log);
}
