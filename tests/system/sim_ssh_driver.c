/*
 * The SSH head of clusterd-sim alone, for tests/system/sim_ssh.t: machines that are simply there.
 *
 *   sim_ssh_driver COUNT PORT SPEED KEY_LINE_FILE [ANSWERS_DIR]
 *
 * Machine i (from 0) is node "m<i>" at 127.77.(i/250).(i%250+1). Writes "HOSTKEY NAME ADDRESS KEY"
 * for each, then "READY". Then a line on stdin is an order and gets one line of answer: faults NAME
 * BITS [ARG]    down NAME    up NAME [wiped]    count NAME    stop Exit status 3: something was
 * left in the loop.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "sim/sim.h"

static struct sim sim = {.seed = 1};
static struct watch in;

struct sim_node *sim_by_name(struct sim *s, const char *name)
{
    for (int i = 0; i < s->node_count; i++)
        if (strcmp(s->nodes[i].name, name) == 0)
            return &s->nodes[i];
    return NULL;
}

struct sim_node *sim_by_address(struct sim *s, uint32_t address)
{
    for (int i = 0; i < s->node_count; i++)
        if (s->nodes[i].address == address)
            return &s->nodes[i];
    return NULL;
}

unsigned sim_draw(const struct sim_node *n, const char *question, unsigned below)
{
    unsigned h = 2166136261u + n->sim->seed;
    for (const char *p = n->name; *p != '\0'; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    for (const char *p = question; *p != '\0'; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    return (h >> 8) % below;
}

int64_t sim_ms(const struct sim *s, int64_t real_ms)
{
    int64_t ms = (int64_t)((double)real_ms / s->speed);
    return ms > 0 ? ms : 1;
}

json_t *machine_facts(const struct sim_node *n)
{
    return json_pack("{s:i,s:s,s:s}", "schema", 1, "hostname", n->name, "boot_id", n->boot_id);
}

static void new_boot(struct sim_node *n)
{
    (void)snprintf(n->boot_id, sizeof n->boot_id, "00000000-0000-4000-8000-%08x%04x",
                   (unsigned)n->index, (unsigned)++n->boots);
    n->phase = PHASE_RUNNING;
}

static void order(char *line)
{
    char *save = NULL;
    const char *verb = strtok_r(line, " \n", &save), *name = strtok_r(NULL, " \n", &save);
    const char *a = strtok_r(NULL, " \n", &save), *b = strtok_r(NULL, " \n", &save);
    struct sim_node *n = name != NULL ? sim_by_name(&sim, name) : NULL;
    if (verb == NULL || strcmp(verb, "stop") == 0 || n == NULL) {
        watch_stop(&in);
        loop_stop(sim.loop);
        return;
    }
    if (strcmp(verb, "faults") == 0) {
        n->faults = (unsigned)strtoul(a != NULL ? a : "0", NULL, 0);
        (void)snprintf(n->fault_arg, sizeof n->fault_arg, "%s", b != NULL ? b : "");
    } else if (strcmp(verb, "down") == 0) {
        n->phase = PHASE_OFF;
        ssh_machine_down(n);
    } else if (strcmp(verb, "up") == 0) {
        n->installs += a != NULL;
        new_boot(n);
    }
    printf("logins=%lld commands=%lld started=%lld doubled=%lld\n", (long long)n->count.ssh_logins,
           (long long)n->count.ssh_commands, (long long)n->count.runs_started,
           (long long)n->count.runs_doubled);
    (void)fflush(stdout);
}

static void on_stdin(int fd, int events, void *user)
{
    static char line[256];
    static size_t len;
    (void)events;
    (void)user;
    ssize_t n = read(fd, line + len, 1);
    if (n <= 0) {
        watch_stop(&in);
        loop_stop(sim.loop);
        return;
    }
    if (line[len] != '\n' && len < sizeof line - 2) {
        len++;
        return;
    }
    line[len] = '\0';
    len = 0;
    order(line);
}

static void make_node(int i, const char *key)
{
    struct sim_node *n = &sim.nodes[i];
    n->sim = &sim;
    n->index = i;
    (void)snprintf(n->name, sizeof n->name, "m%d", i);
    n->address = (127u << 24) + (77u << 16) + ((unsigned)i / 250 << 8) + (unsigned)i % 250 + 1;
    (void)snprintf(n->ssh_key, sizeof n->ssh_key, "%.*s", (int)strcspn(key, "\n"), key);
    n->parts[0] = (struct sim_part){.kind = "hca", .slot = "mlx5_0", .size = 400000};
    n->part_count = 1;
    new_boot(n);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    char *key, host[200];
    struct rlimit r = {0};
    if (argc < 5 || fs_read(argv[4], 4096, &key, NULL, &err) < 0)
        return 2;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &r);
    sim.loop = loop_new();
    sim.node_count = atoi(argv[1]);
    sim.ssh_port = atoi(argv[2]);
    sim.speed = atof(argv[3]);
    sim.answers_dir = argc > 5 ? argv[5] : NULL;
    sim.nodes = xcalloc((size_t)sim.node_count, sizeof *sim.nodes);
    for (int i = 0; i < sim.node_count; i++)
        make_node(i, key);
    free(key);
    if (ssh_start(&sim, &err) < 0 ||
        watch_set(sim.loop, &in, 0, WATCH_READ, on_stdin, NULL, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (int i = 0; i < sim.node_count; i++) {
        struct in_addr at = {htonl(sim.nodes[i].address)};
        ssh_host_key(&sim.nodes[i], host, sizeof host);
        printf("HOSTKEY %s %s %s\n", sim.nodes[i].name, inet_ntoa(at), host);
    }
    puts("READY");
    (void)fflush(stdout);
    (void)loop_worst_lag(sim.loop);
    loop_run(sim.loop);
    fprintf(stderr, "longest callback: %lld ms\n", (long long)loop_worst_lag(sim.loop));
    ssh_stop(&sim);
    free(sim.nodes);
    return loop_free(sim.loop) != 0 ? 3 : 0;
}
