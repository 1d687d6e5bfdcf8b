/*
 * Looks whether a BMC is there at all, without a log-in: what every IPMI BMC answers outside of a
 * session (section 13.6), then ASF's ping (section 13.2.3), or a TCP connection. An answer proves
 * nothing but that somebody is at home; whoever sends a false one makes us try, no more.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/map.h"
#include "bmc/driver.h"

enum {
    LOOK_PACKETS = 3,
    LEAST_MS = 300, /* of real time for an answer; timer_set_least() */
    BACKGROUND_MAX_MS = 60000
};
static const int64_t waits_ms[LOOK_PACKETS] = {400, 600, 1000};

bool probe_can(const struct bmc *b)
{
    return b->driver->look == LOOK_TCP || (b->driver->look == LOOK_RMCP && b->hub->wire != NULL) ||
           b->driver->look_with != NULL;
}

/* ---- by RMCP ---- */

static void send_rmcp(struct bmc *b)
{
    /* Get Channel Authentication Capabilities (22.13) of the present channel, administrator */
    static const uint8_t capabilities[] = {0x06, 0,    0xff, 0x07, 0,    0,    0,    0,
                                           0,    0,    0,    0,    0,    9,    0x20, 0x18,
                                           0xc8, 0x81, 0,    0x38, 0x8e, 0x04, 0xb5};
    static const uint8_t ping[] = {0x06, 0, 0xff, 0x06, 0, 0, 0x11, 0xbe, 0x80, 0, 0, 0};
    if (b->gate.sent++ % 2 == 0)
        wire_send(b->hub->wire, &b->sockaddr, capabilities, sizeof capabilities);
    else
        wire_send(b->hub->wire, &b->sockaddr, ping, sizeof ping);
}

static void join(struct bmc *b)
{
    if (b->driver->look == LOOK_RMCP)
        (void)map_set(b->hub->looks, b->label, b);
}

static void leave(struct bmc *b)
{
    if (map_get(b->hub->looks, b->label) == b)
        (void)map_remove(b->hub->looks, b->label);
}

void probe_packet(const struct sockaddr_in *from, const uint8_t *packet, size_t len, void *user)
{
    struct bmc_hub *hub = user;
    char label[sizeof(((struct bmc *)0)->label)];
    bool pong = len >= 12 && packet[3] == 0x06 && packet[8] == 0x40;
    bool capabilities = len >= 22 && packet[3] == 0x07 && packet[4] == 0 && packet[19] == 0x38;
    if (packet[0] != 0x06 || (!pong && !capabilities))
        return;
    bmc_label(from, label);
    struct bmc *b = map_get(hub->looks, label);
    if (b != NULL)
        gate_looked(b, true);
}

/* ---- by TCP ---- */

static void tcp_close(struct bmc *b)
{
    struct gate *g = &b->gate;
    if (g->tcp_fd < 0)
        return;
    watch_stop(&g->tcp);
    (void)close(g->tcp_fd);
    g->tcp_fd = -1;
}

static void on_connected(int fd, int events, void *user)
{
    struct bmc *b = user;
    int problem = 0;
    socklen_t len = sizeof problem;
    (void)events;
    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &len);
    tcp_close(b);
    if (problem == 0)
        gate_looked(b, true);
}

static void send_tcp(struct bmc *b)
{
    struct gate *g = &b->gate;
    if (g->tcp_fd >= 0)
        return; /* still at it */
    g->tcp_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (g->tcp_fd < 0)
        return;
    bool begun =
        connect(g->tcp_fd, (const struct sockaddr *)&b->sockaddr, sizeof b->sockaddr) == 0 ||
        errno == EINPROGRESS;
    if (!begun ||
        watch_set(b->hub->c.loop, &g->tcp, g->tcp_fd, WATCH_WRITE, on_connected, b, NULL) < 0)
        tcp_close(b);
}

/* ---- looks ---- */

static void send_look(struct bmc *b)
{
    b->gate.looks++;
    b->hub->looks_sent++;
    if (b->driver->look_with != NULL)
        b->driver->look_with(b);
    else if (b->driver->look == LOOK_RMCP)
        send_rmcp(b);
    else if (b->driver->look == LOOK_TCP)
        send_tcp(b);
}

static void on_silence(void *user)
{
    struct bmc *b = user;
    struct gate *g = &b->gate;
    /* one that is not known yet is tried all the same: it is not waited for as long */
    int packets = g->state == GATE_DEAD ? LOOK_PACKETS : LOOK_PACKETS - 1;
    if (g->sent >= packets) {
        probe_stop(b);
        gate_looked(b, false);
        return;
    }
    send_look(b);
    if (!g->looking)
        return; /* answered at once */
    if (b->driver->look != LOOK_RMCP)
        g->sent++;
    timer_set_least(b->hub->c.loop, &g->look, waits_ms[g->sent - 1], LEAST_MS, on_silence, b);
}

void probe_begin(struct bmc *b)
{
    join(b);
    b->gate.sent = 0;
    on_silence(b);
}

static void on_background(void *user)
{
    struct bmc *b = user;
    if (b->driver->look != LOOK_RMCP)
        tcp_close(b); /* the last one's */
    send_look(b);
    b->gate.rounds++;
    if (b->gate.state == GATE_DEAD)
        probe_background(b);
}

void probe_background(struct bmc *b)
{
    struct gate *g = &b->gate;
    if (!probe_can(b))
        return;
    join(b);
    int64_t ms = 1000;
    for (int i = 0; i < g->rounds && ms < BACKGROUND_MAX_MS; i++)
        ms *= 2;
    ms = ms < BACKGROUND_MAX_MS ? ms : BACKGROUND_MAX_MS;
    /* a rack that lost its power dies at once: its BMCs are looked for one after the other */
    b->hub->dice = b->hub->dice * 1664525u + 1013904223u;
    ms += (int64_t)(b->hub->dice >> 8) % (ms / 4 + 1);
    timer_set_least(b->hub->c.loop, &g->look, ms, LEAST_MS, on_background, b);
}

void probe_stop(struct bmc *b)
{
    timer_cancel(&b->gate.look);
    tcp_close(b);
    leave(b);
}
