/*
 * The IPMI head: all BMCs on one UDP socket. The destination of a datagram (IP_PKTINFO) tells which
 * BMC is meant, and the answer leaves from that address. RMCP and ASF are section 13.1 and 13.2.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "sim/ipmi_int.h"

enum {
    BATCH = 256, /* datagrams a wakeup, so that other heads get their turn */
    SOCKET_BUFFER = 16 << 20,
    LATE_MAX = 64, /* answers of one slow BMC that wait; more are lost */
    CLASS_ASF = 0x06,
    CLASS_IPMI = 0x07,
    CLASS_ACK = 0x80,
    NO_ACK = 0xff,
    AUTH_NONE = 0x00, /* authentication types, table 13-8 */
    AUTH_RMCPP = 0x06,
    V15_HEADER = 4 + 10, /* RMCP, authentication type, sequence, session id, length */
    DEFAULT_SLOW_MS = 1500,
    DEFAULT_RATE = 20,
};

struct late {
    struct ipmi_head *head;
    struct ipmi_bmc *bmc;
    struct ipmi_peer peer;
    struct timer timer;
    struct late *next, **link;
    size_t len;
    uint8_t packet[];
};

struct ipmi_head {
    struct sim *sim;
    int fd;
    struct watch watch;
    struct late *late;
};

/* ---- sending ---- */

static void send_now(const struct ipmi_head *h, const struct ipmi_peer *peer, const uint8_t *packet,
                     size_t len)
{
    union {
        char data[CMSG_SPACE(sizeof(struct in_pktinfo))];
        struct cmsghdr align;
    } control = {0};
    struct sockaddr_in to = peer->from;
    struct iovec iov = {(void *)(uintptr_t)packet, len};
    struct msghdr m = {.msg_name = &to,
                       .msg_namelen = sizeof to,
                       .msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.data,
                       .msg_controllen = sizeof control.data};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    struct in_pktinfo info = {.ipi_spec_dst = peer->to};
    c->cmsg_level = IPPROTO_IP;
    c->cmsg_type = IP_PKTINFO;
    c->cmsg_len = CMSG_LEN(sizeof info);
    memcpy(CMSG_DATA(c), &info, sizeof info);
    /* a full socket buffer is like a lost packet: the client asks again */
    (void)sendmsg(h->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void late_free(struct late *l)
{
    timer_cancel(&l->timer);
    l->bmc->in_flight--;
    *l->link = l->next;
    if (l->next != NULL)
        l->next->link = l->link;
    free(l);
}

static void on_late(void *user)
{
    struct late *l = user;
    if (!sim_has(l->bmc->node, FAULT_BMC_DEAD))
        send_now(l->head, &l->peer, l->packet, l->len);
    late_free(l);
}

void ipmi_send(struct ipmi_bmc *b, const struct ipmi_peer *peer, const uint8_t *packet, size_t len)
{
    struct ipmi_head *h = b->head;
    if (!sim_has(b->node, FAULT_BMC_SLOW)) {
        send_now(h, peer, packet, len);
        return;
    }
    if (b->in_flight == LATE_MAX)
        return;
    struct late *l = xcalloc(1, sizeof *l + len);
    l->head = h;
    l->bmc = b;
    l->peer = *peer;
    l->len = len;
    memcpy(l->packet, packet, len);
    l->link = &h->late;
    l->next = h->late;
    if (l->next != NULL)
        l->next->link = &l->next;
    h->late = l;
    b->in_flight++;
    int ms = b->node->fault_ms > 0 ? b->node->fault_ms : DEFAULT_SLOW_MS;
    timer_set(h->sim->loop, &l->timer, ms, on_late, l);
}

/* ---- what comes in ---- */

/* ASF 2.0, section 3.2.4.3: Presence Pong says that there is a BMC. */
static void on_asf(struct ipmi_bmc *b, const struct ipmi_peer *peer, const uint8_t *p, size_t len)
{
    static const uint8_t iana[4] = {0, 0, 0x11, 0xbe};
    if (len < 12 || memcmp(p + 4, iana, 4) != 0 || p[8] != 0x80)
        return;
    if (p[2] != NO_ACK) {
        const uint8_t ack[4] = {0x06, 0, p[2], CLASS_ASF | CLASS_ACK};
        ipmi_send(b, peer, ack, sizeof ack);
    }
    uint8_t pong[28] = {0x06, 0, NO_ACK, CLASS_ASF, 0, 0, 0x11, 0xbe, 0x40, p[9], 0, 16};
    memcpy(pong + 12, iana, 4);
    pong[20] = 0x81; /* IPMI, ASF 1.0 */
    ipmi_send(b, peer, pong, sizeof pong);
}

/* Section 13.6, IPMI 1.5's packet: only outside of a session, for finding out what we can. */
static void on_v15(struct ipmi_bmc *b, const struct ipmi_peer *peer, const uint8_t *p, size_t len)
{
    uint8_t message[RMCP_MAX], out[RMCP_MAX] = {0x06, 0, NO_ACK, CLASS_IPMI};
    if (len < V15_HEADER || le32(p + 9) != 0 || (size_t)V15_HEADER + p[13] > len)
        return;
    size_t n = ipmi_message(b, NULL, p + V15_HEADER, p[13], message);
    if (n == 0 || n > 255)
        return;
    out[13] = (uint8_t)n;
    memcpy(out + V15_HEADER, message, n);
    ipmi_send(b, peer, out, V15_HEADER + n);
}

/* FAULT_BMC_FREEZES: too many requests in a second, and it says nothing for a while. */
static bool is_frozen(struct ipmi_bmc *b)
{
    struct sim *s = b->node->sim;
    int64_t now = loop_now(s->loop);
    if (!sim_has(b->node, FAULT_BMC_FREEZES))
        return false;
    if (now < b->frozen_until)
        return true;
    if (b->in_second == 0 || now - b->second >= 1000) {
        b->second = now;
        b->in_second = 0;
    }
    int rate = b->node->fault_rate > 0 ? b->node->fault_rate : DEFAULT_RATE;
    if (++b->in_second <= rate)
        return false;
    b->in_second = 0;
    b->frozen_until = now + sim_ms(s, IPMI_FREEZE_MS);
    return true;
}

static struct ipmi_bmc *bmc_of(struct ipmi_head *h, struct sim_node *n)
{
    if (n->ipmi == NULL) {
        struct ipmi_bmc *b = xcalloc(1, sizeof *b);
        b->head = h;
        b->node = n;
        n->ipmi = b;
    }
    return n->ipmi;
}

static void on_datagram(struct ipmi_head *h, const struct ipmi_peer *peer, const uint8_t *p,
                        size_t len)
{
    struct sim_node *n = sim_by_bmc(h->sim, ntohl(peer->to.s_addr));
    if (n == NULL || len < 5 || p[0] != 0x06)
        return;
    struct ipmi_bmc *b = bmc_of(h, n);
    n->count.bmc_requests++;
    if (sim_has(n, FAULT_BMC_DEAD) || is_frozen(b))
        return;
    if (p[3] == CLASS_ASF)
        on_asf(b, peer, p, len);
    else if (p[3] == CLASS_IPMI && p[4] == AUTH_NONE)
        on_v15(b, peer, p, len);
    else if (p[3] == CLASS_IPMI && p[4] == AUTH_RMCPP)
        ipmi_session_packet(b, peer, p, len);
}

static bool receive(int fd, struct ipmi_peer *peer, uint8_t packet[RMCP_MAX], size_t *ret_len)
{
    union {
        char data[CMSG_SPACE(sizeof(struct in_pktinfo)) + 64];
        struct cmsghdr align;
    } control;
    struct iovec iov = {packet, RMCP_MAX};
    struct msghdr m = {.msg_name = &peer->from,
                       .msg_namelen = sizeof peer->from,
                       .msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.data,
                       .msg_controllen = sizeof control.data};
    ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);
    if (n < 0)
        return false;
    *ret_len = (m.msg_flags & MSG_TRUNC) != 0 ? 0 : (size_t)n;
    peer->to.s_addr = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c != NULL; c = CMSG_NXTHDR(&m, c)) {
        struct in_pktinfo info;
        if (c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_PKTINFO)
            continue;
        memcpy(&info, CMSG_DATA(c), sizeof info);
        peer->to = info.ipi_addr;
    }
    return true;
}

static void on_readable(int fd, int events, void *user)
{
    uint8_t packet[RMCP_MAX];
    struct ipmi_peer peer;
    size_t len;
    (void)events;
    for (int i = 0; i < BATCH && receive(fd, &peer, packet, &len); i++)
        on_datagram(user, &peer, packet, len);
}

/* ---- life ---- */

static int open_socket(struct ipmi_head *h, struct err *err)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)h->sim->bmc_port)};
    int one = 1, size = SOCKET_BUFFER;
    h->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (h->fd < 0)
        return err_sys(err, errno, "UDP socket of the BMCs");
    sim_loopback_only(h->fd);
    /* beyond net.core.rmem_max where we may, for thousands of BMCs share this buffer */
    if (setsockopt(h->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) != 0)
        (void)setsockopt(h->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    if (setsockopt(h->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0)
        (void)setsockopt(h->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    if (setsockopt(h->fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof one) != 0 ||
        bind(h->fd, (const struct sockaddr *)&any, sizeof any) != 0)
        return err_sys(err, errno, "UDP port %d of the BMCs (--bmc-port takes another one)",
                       h->sim->bmc_port);
    return watch_set(h->sim->loop, &h->watch, h->fd, WATCH_READ, on_readable, h, err);
}

int ipmi_start(struct sim *s, struct err *err)
{
    struct ipmi_head *h = xcalloc(1, sizeof *h);
    h->sim = s;
    s->ipmi = h;
    if (open_socket(h, err) == 0)
        return 0;
    ipmi_stop(s);
    return -(int)err->code;
}

void ipmi_stop(struct sim *s)
{
    struct ipmi_head *h = s->ipmi;
    if (h == NULL)
        return;
    watch_stop(&h->watch);
    if (h->fd >= 0)
        (void)close(h->fd);
    while (h->late != NULL)
        late_free(h->late);
    for (int i = 0; i < s->node_count; i++) {
        struct ipmi_bmc *b = s->nodes[i].ipmi;
        for (int k = 0; b != NULL && k < IPMI_SESSIONS; k++)
            ipmi_session_end(&b->sessions[k]);
        if (b != NULL)
            timer_cancel(&b->setup);
        free(b);
        s->nodes[i].ipmi = NULL;
    }
    free(h);
    s->ipmi = NULL;
}
