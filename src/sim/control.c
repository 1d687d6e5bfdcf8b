/* A unix socket for tests and rehearsals: one request a connection, one line in, JSON out.
 *
 *   state [NODESET]       what each machine is and has counted
 *   totals                counts of all machines, watts now and at their peak
 *   fault NODESET=FAULT[:ARG] | heal NODESET=FAULT
 *   swap NODE KIND SLOT SERIAL      another part in its place
 *   remove NODE KIND SLOT
 *   exchange NODE NODE              their chassis change places: serial, UUID and board; NICs,
 * disks and cards are moved over power NODE on|off|reset         by hand, at the machine link NODE
 * SLOT up|down|GBS      an HCA's port, or how fast it runs driver NODE VERSION             of its
 * GPUs workload NODE TEXT|-            the marker file that says that a workload runs, or none
 *   commands NODE [clear]           what was asked over SSH
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/nodeset.h"
#include "sim/sim.h"

enum { LINE_MAX_BYTES = 4096, WORDS_MAX = 8 };

struct control {
    struct sim *sim;
    int fd;
    char *path;
    struct watch watch;
    struct peer *peers;
};

struct peer {
    struct control *control;
    int fd;
    struct watch watch;
    struct strbuf in;
    char *out;
    size_t out_len, sent;
    struct peer *next, **link;
};

/* ---- what is asked ---- */

static json_t *node_state(const struct sim_node *n)
{
    char a[16], b[16];
    return json_pack(
        "{s:s,s:s,s:s,s:s,s:b,s:b,s:i,s:i,s:s,s:f,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "name",
        n->name, "bmc", sim_dotted(n->bmc, a), "address", sim_dotted(n->address, b), "phase",
        name_of(sim_phase_names, (int)n->phase, "?"), "on", n->on, "installed", n->installed,
        "boots", n->boots, "installs", n->installs, "boot_id", n->boot_id, "watts",
        machine_watts(n), "bmc_requests", (json_int_t)n->count.bmc_requests, "bmc_logins",
        (json_int_t)n->count.bmc_logins, "bmc_bad_logins", (json_int_t)n->count.bmc_bad_logins,
        "bmc_closes", (json_int_t)n->count.bmc_closes, "power_ons", (json_int_t)n->count.power_ons,
        "power_offs", (json_int_t)n->count.power_offs, "ssh_logins",
        (json_int_t)n->count.ssh_logins, "ssh_commands", (json_int_t)n->count.ssh_commands,
        "runs_started", (json_int_t)n->count.runs_started, "runs_doubled",
        (json_int_t)n->count.runs_doubled);
}

static json_t *states(struct sim *s, const char *nodes, struct err *err)
{
    json_t *rows = json_array();
    if (nodes == NULL) {
        for (int i = 0; i < s->node_count; i++)
            (void)json_array_append_new(rows, node_state(&s->nodes[i]));
    } else {
        struct nodeset *set = nodeset_parse(nodes, err);
        for (int i = 0; set != NULL && i < nodeset_count(set); i++) {
            const struct sim_node *n = sim_by_name(s, nodeset_at(set, i));
            if (n != NULL)
                (void)json_array_append_new(rows, node_state(n));
        }
        nodeset_free(set);
    }
    return json_pack("{s:o}", "nodes", rows);
}

static json_t *totals(const struct sim *s)
{
    json_int_t boots = 0, installs = 0, requests = 0, logins = 0, bad = 0, runs = 0, doubled = 0,
               bytes = 0, running = 0, on = 0;
    for (int i = 0; i < s->node_count; i++) {
        const struct sim_node *n = &s->nodes[i];
        boots += n->boots;
        installs += n->installs;
        requests += n->count.bmc_requests;
        logins += n->count.bmc_logins;
        bad += n->count.bmc_bad_logins;
        runs += n->count.runs_started;
        doubled += n->count.runs_doubled;
        bytes += n->count.boot_bytes;
        running += machine_is_running(n);
        on += n->on;
    }
    return json_pack("{s:i,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f}", "nodes",
                     s->node_count, "on", on, "running", running, "boots", boots, "installs",
                     installs, "bmc_requests", requests, "bmc_logins", logins, "bmc_bad_logins",
                     bad, "runs_started", runs, "runs_doubled", doubled, "boot_bytes", bytes,
                     "watts", s->watts_now, "peak_watts", s->watts_peak);
}

static json_t *done(void)
{
    return json_pack("{s:b}", "ok", 1);
}

static struct sim_part *find_part(struct sim_node *n, const char *kind, const char *slot)
{
    for (int i = 0; i < n->part_count; i++)
        if (strcmp(n->parts[i].kind, kind) == 0 && strcmp(n->parts[i].slot, slot) == 0)
            return &n->parts[i];
    return NULL;
}

static json_t *change_part(struct sim *s, char **w, bool gone, struct err *err)
{
    struct sim_node *n = sim_by_name(s, w[1]);
    struct sim_part *p = n != NULL ? find_part(n, w[2], w[3]) : NULL;
    if (p == NULL) {
        (void)err_set(err, ERR_NOT_FOUND, "%s has no %s %s", w[1], w[2], w[3]);
        return NULL;
    }
    if (gone) {
        n->part_count--;
        memmove(p, p + 1, (size_t)(&n->parts[n->part_count] - p) * sizeof *p);
        return done();
    }
    (void)snprintf(p->serial, sizeof p->serial, "%s", w[4]);
    if (strcmp(p->kind, "system") == 0)
        (void)snprintf(n->serial, sizeof n->serial, "%s", w[4]);
    return done();
}

static void exchange_text(char *a, char *b, size_t size)
{
    char *kept = xstrdup(a);
    (void)snprintf(a, size, "%s", b);
    (void)snprintf(b, size, "%s", kept);
    free(kept);
}

static json_t *exchange(struct sim *s, char **w, struct err *err)
{
    static const char *const kinds[] = {"system", "board"};
    struct sim_node *a = sim_by_name(s, w[1]), *b = sim_by_name(s, w[2]);
    if (a == NULL || b == NULL || a == b) {
        (void)err_set(err, ERR_INVALID, "expected: exchange NODE NODE");
        return NULL;
    }
    exchange_text(a->serial, b->serial, sizeof a->serial);
    exchange_text(a->uuid, b->uuid, sizeof a->uuid);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct sim_part *x = find_part(a, kinds[i], kinds[i]),
                        *y = find_part(b, kinds[i], kinds[i]);
        if (x != NULL && y != NULL)
            exchange_text(x->serial, y->serial, sizeof x->serial);
    }
    return done();
}

static json_t *change_power(struct sim *s, char **w, struct err *err)
{
    static const struct name words[] = {
        {SIM_POWER_ON, "on"}, {SIM_POWER_OFF, "off"}, {SIM_POWER_RESET, "reset"}, {0, NULL}};
    struct sim_node *n = sim_by_name(s, w[1]);
    int what = name_id(words, w[2]);
    if (n == NULL || what < 0) {
        (void)err_set(err, ERR_INVALID, "expected: power NODE on|off|reset");
        return NULL;
    }
    machine_power(n, (enum sim_power)what);
    return done();
}

static json_t *change_link(struct sim *s, char **w, struct err *err)
{
    struct sim_node *n = sim_by_name(s, w[1]);
    struct sim_part *p = n != NULL ? find_part(n, "hca", w[2]) : NULL;
    if (p == NULL) {
        (void)err_set(err, ERR_NOT_FOUND, "%s has no hca %s", w[1], w[2]);
        return NULL;
    }
    p->down = strcmp(w[3], "down") == 0;
    p->gbs = (int)strtol(w[3], NULL, 10);
    return done();
}

/* driver, workload, commands: of one machine */
static json_t *change_system(struct sim *s, char **w, struct err *err)
{
    struct sim_node *n = sim_by_name(s, w[1]);
    if (n == NULL) {
        (void)err_set(err, ERR_NOT_FOUND, "no machine is called '%s'", w[1]);
        return NULL;
    }
    if (w[0][0] == 'c') {
        json_t *out = json_pack("{s:s}", "log", ssh_said(n));
        if (w[2] != NULL && strcmp(w[2], "clear") == 0)
            ssh_said_clear(n);
        return out;
    }
    if (w[0][0] == 'd') {
        (void)snprintf(n->driver, sizeof n->driver, "%s", w[2]);
    } else {
        bool none = strcmp(w[2], "-") == 0;
        n->workload_at = none ? 0 : loop_wall(s->loop);
        (void)snprintf(n->workload, sizeof n->workload, "%s", none ? "" : w[2]);
    }
    return done();
}

static json_t *answer(struct sim *s, char *line, struct err *err)
{
    char *words[WORDS_MAX] = {NULL}, *save = NULL;
    int count = 0;
    for (char *w = strtok_r(line, " \t\r\n", &save); w != NULL && count < WORDS_MAX;
         w = strtok_r(NULL, " \t\r\n", &save))
        words[count++] = w;
    if (count >= 1 && strcmp(words[0], "state") == 0)
        return states(s, words[1], err);
    if (count == 1 && strcmp(words[0], "totals") == 0)
        return totals(s);
    if (count == 1 && strcmp(words[0], "load") == 0)
        return sim_load_report(s);
    if (count == 2 && (strcmp(words[0], "fault") == 0 || strcmp(words[0], "heal") == 0))
        return sim_set_fault(s, words[1], words[0][0] == 'f', err) == 0 ? done() : NULL;
    if (count == 5 && strcmp(words[0], "swap") == 0)
        return change_part(s, words, false, err);
    if (count == 4 && strcmp(words[0], "remove") == 0)
        return change_part(s, words, true, err);
    if (count == 3 && strcmp(words[0], "exchange") == 0)
        return exchange(s, words, err);
    if (count == 3 && strcmp(words[0], "power") == 0)
        return change_power(s, words, err);
    if (count == 4 && strcmp(words[0], "link") == 0)
        return change_link(s, words, err);
    if ((count == 3 && (strcmp(words[0], "driver") == 0 || strcmp(words[0], "workload") == 0)) ||
        ((count == 2 || count == 3) && strcmp(words[0], "commands") == 0))
        return change_system(s, words, err);
    (void)err_set(
        err, ERR_INVALID,
        "not understood: state, totals, load, fault, heal, swap, remove, exchange, power, link, "
        "driver, workload, commands");
    return NULL;
}

/* ---- sockets ---- */

static void peer_free(struct peer *p)
{
    watch_stop(&p->watch);
    (void)close(p->fd);
    *p->link = p->next;
    if (p->next != NULL)
        p->next->link = p->link;
    strbuf_done(&p->in);
    free(p->out);
    free(p);
}

static void on_writable(int fd, int events, void *user)
{
    struct peer *p = user;
    (void)events;
    ssize_t n = send(fd, p->out + p->sent, p->out_len - p->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    p->sent += n > 0 ? (size_t)n : 0;
    if (n <= 0 || p->sent == p->out_len)
        peer_free(p);
}

static void reply(struct peer *p)
{
    struct err err = {0};
    json_t *json = answer(p->control->sim, p->in.data, &err);
    if (json == NULL)
        json = json_pack("{s:s}", "error", err.text);
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    p->out = xasprintf("%s\n", text);
    p->out_len = strlen(p->out);
    free(text);
    if (watch_set(p->control->sim->loop, &p->watch, p->fd, WATCH_WRITE, on_writable, p, &err) < 0)
        peer_free(p);
}

static void on_readable(int fd, int events, void *user)
{
    struct peer *p = user;
    char buf[1024];
    (void)events;
    ssize_t n = recv(fd, buf, sizeof buf, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        strbuf_add(&p->in, buf, (size_t)n);
    if (n <= 0 || !strbuf_ok(&p->in))
        peer_free(p);
    else if (strchr(p->in.data, '\n') != NULL)
        reply(p);
}

static void on_connection(int fd, int events, void *user)
{
    struct control *c = user;
    (void)events;
    int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer < 0)
        return;
    struct peer *p = xcalloc(1, sizeof *p);
    p->control = c;
    p->fd = peer;
    strbuf_init(&p->in, LINE_MAX_BYTES);
    p->link = &c->peers;
    p->next = c->peers;
    if (p->next != NULL)
        p->next->link = &p->next;
    c->peers = p;
    if (watch_set(c->sim->loop, &p->watch, peer, WATCH_READ, on_readable, p, NULL) < 0)
        peer_free(p);
}

int control_start(struct sim *s, const char *path, struct err *err)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof sun.sun_path)
        return err_set(err, ERR_INVALID, "%s: a socket path has at most %zu characters", path,
                       sizeof sun.sun_path - 1);
    memcpy(sun.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(err, errno, "socket");
    (void)fchmod(fd, 0600);
    if (bind(fd, (const struct sockaddr *)(const void *)&sun, sizeof sun) != 0 ||
        listen(fd, 16) != 0) {
        (void)err_sys(err, errno, "%s", path);
        (void)close(fd);
        return -(int)err->code;
    }
    struct control *c = xcalloc(1, sizeof *c);
    c->sim = s;
    c->fd = fd;
    c->path = xstrdup(path);
    s->control = c;
    return watch_set(s->loop, &c->watch, fd, WATCH_READ, on_connection, c, err);
}

void control_stop(struct sim *s)
{
    struct control *c = s->control;
    if (c == NULL)
        return;
    while (c->peers != NULL)
        peer_free(c->peers);
    watch_stop(&c->watch);
    (void)close(c->fd);
    (void)unlink(c->path);
    free(c->path);
    free(c);
    s->control = NULL;
}
