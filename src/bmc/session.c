/* The state machine of a session: open, RAKP 1 to 4, privilege, then requests. Section 13.14 on. */
#include "bmc/session.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/map.h"
#include "base/mem.h"

enum {
    ADMINISTRATOR = 4,
    NAME_ONLY = 0x10,
    TRIES = 5,
    IDLE_MS = 20000, /* BMCs end idle sessions after 60 s (section 6.12.15): we end them before */
    RECEIVE_BATCH = 64,
    LEAST_MS = 300, /* of real time for an answer; timer_set_least() */
};
static const int64_t waits_ms[TRIES] = {500, 1000, 2000, 3000, 3000};

struct wire {
    struct loop *loop;
    int fd;
    struct watch watch;
    struct map *sessions; /* console session id -> session */
    struct map *logins;   /* label -> the session that logs in: short refusals carry no id */
    void (*on_other)(const struct sockaddr_in *from, const uint8_t *packet, size_t len, void *user);
    void *other_user;
};

enum state { CLOSED, OPENING, RAKP_1, RAKP_3, PRIVILEGE, READY };

struct session {
    struct wire *wire;
    struct session_target t;
    char label[64], user[RMCP_USER_MAX + 1], suite_text[24];
    enum state state;
    struct rakp rakp;
    struct rmcp_keys keys;
    uint32_t sequence;
    uint8_t ipmi_sequence, tag;
    uint8_t packet[RMCP_MAX]; /* the one in flight, for retransmission */
    size_t packet_len;
    int tries;
    struct timer timer;
    bool used; /* an answer came in this log-in: silence may mean that the BMC forgot it */
    /* the request that waits for its answer, or for the log-in */
    session_answer_fn fn;
    void *fn_user;
    uint8_t netfn, command, data[RMCP_MAX / 2];
    size_t data_len;
    void (*on_sol)(const uint8_t *data, size_t len, void *user);
    void *sol_user;
    uint8_t sol_seen; /* sequence number of the last SOL packet */
};

static void key_of(uint32_t id, char key[12])
{
    (void)snprintf(key, 12, "%08x", id);
}

/* ---- sending ---- */

static void send_packet(struct session *s)
{
    /* a full socket buffer is like a lost packet: it is sent again */
    (void)sendto(s->wire->fd, s->packet, s->packet_len, 0, (const struct sockaddr *)&s->t.address,
                 sizeof s->t.address);
    if (s->t.pace != NULL)
        s->t.pace->sent++;
}

static void start_login(struct session *s);
static void lose(struct session *s);

static void answer(struct session *s, const struct err *err, const struct ipmi_message *m)
{
    session_answer_fn fn = s->fn;
    s->fn = NULL;
    timer_cancel(&s->timer);
    if (fn != NULL)
        fn(err, m, s->fn_user);
}

static void fail(struct session *s, const struct err *err)
{
    lose(s);
    answer(s, err, NULL);
}

static void on_silence(void *user)
{
    struct session *s = user;
    struct err err = {0};
    bool stale = s->state == READY && s->used && s->tries >= 2;
    if (stale) {
        /* the log-in is older than this request: perhaps the BMC no longer knows it */
        lose(s);
        start_login(s);
    } else if (s->tries < TRIES) {
        if (s->t.pace != NULL)
            s->t.pace->resent++;
        send_packet(s);
        timer_set_least(s->wire->loop, &s->timer, waits_ms[s->tries++], LEAST_MS, on_silence, s);
    } else {
        (void)err_set(&err, ERR_TIMEOUT, "the BMC at %s does not answer (%d packets in %.1f s)",
                      s->label, TRIES, 9.5);
        fail(s, &err);
    }
}

static void transmit_now(void *user)
{
    struct session *s = user;
    s->tries = 1;
    send_packet(s);
    timer_set_least(s->wire->loop, &s->timer, waits_ms[0], LEAST_MS, on_silence, s);
}

/* BMCs that are asked too quickly stop answering: packets keep their distance. */
static void transmit(struct session *s)
{
    int64_t now = loop_now(s->wire->loop);
    int64_t wait = s->t.pace != NULL ? s->t.pace->next_at - now : 0;
    if (s->t.pace != NULL)
        s->t.pace->next_at = (wait > 0 ? now + wait : now) + s->t.pace->gap_ms;
    if (wait > 0)
        timer_set(s->wire->loop, &s->timer, wait, transmit_now, s);
    else
        transmit_now(s);
}

static void send_setup(struct session *s, uint8_t type, const uint8_t *data, size_t len)
{
    s->packet_len = rmcp_encode(type, 0, 0, data, len, NULL, s->packet);
    transmit(s);
}

static void send_ipmi(struct session *s, uint8_t netfn, uint8_t command, const uint8_t *data,
                      size_t len)
{
    uint8_t message[RMCP_MAX];
    s->ipmi_sequence = (uint8_t)((s->ipmi_sequence + 1) & 0x3f);
    size_t n = ipmi_encode(netfn, command, s->ipmi_sequence, data, len, message);
    s->packet_len = rmcp_encode(PAYLOAD_IPMI, s->rakp.managed_id, ++s->sequence, message, n,
                                &s->keys, s->packet);
    transmit(s);
}

/* ---- logging in ---- */

static void forget_id(struct session *s)
{
    char key[12];
    key_of(s->rakp.console_id, key);
    if (map_get(s->wire->sessions, key) == s)
        (void)map_remove(s->wire->sessions, key);
    if (map_get(s->wire->logins, s->label) == s)
        (void)map_remove(s->wire->logins, s->label);
}

static void lose(struct session *s)
{
    forget_id(s);
    s->state = CLOSED;
    s->used = false;
    timer_cancel(&s->timer);
    OPENSSL_cleanse(&s->keys, sizeof s->keys);
}

static void new_id(struct session *s)
{
    char key[12];
    do {
        if (RAND_bytes((unsigned char *)&s->rakp.console_id, 4) != 1)
            abort();
        key_of(s->rakp.console_id, key);
    } while (s->rakp.console_id == 0 || map_get(s->wire->sessions, key) != NULL);
    (void)map_set(s->wire->sessions, key, s);
    (void)map_set(s->wire->logins, s->label, s);
}

static void send_open(struct session *s)
{
    const struct cipher_suite *suite = s->rakp.suite;
    uint8_t p[32] = {++s->tag, 0, 0, 0};
    put_le32(p + 4, s->rakp.console_id);
    const uint8_t algorithms[3] = {suite->authentication, suite->integrity, suite->confidentiality};
    for (int i = 0; i < 3; i++) {
        p[8 + 8 * i] = (uint8_t)i;
        p[11 + 8 * i] = 8;
        p[12 + 8 * i] = algorithms[i];
    }
    s->state = OPENING;
    send_setup(s, PAYLOAD_OPEN_REQUEST, p, sizeof p);
}

static void start_login(struct session *s)
{
    if (s->rakp.suite == NULL)
        s->rakp.suite = cipher_suite_find(s->t.cipher_suite != 0 ? s->t.cipher_suite : 17);
    new_id(s);
    s->sequence = 0;
    s->sol_seen = 0;
    send_open(s);
}

static bool suite_refused(uint8_t status)
{
    return status == 0x04 || status == 0x05 || status == 0x06 || status == 0x07 || status == 0x10 ||
           status == 0x11 || status == 0x12;
}

static void refuse(struct session *s, uint8_t status)
{
    struct err err = {0};
    switch (status) {
    case 0x01:
    case 0x0b:
        (void)err_set(&err, ERR_BUSY, "the BMC at %s: %s", s->label, rakp_status_text(status));
        break;
    case 0x0d:
        (void)err_set(&err, ERR_AUTH, "the BMC at %s does not know the user '%s'", s->label,
                      s->user);
        break;
    case 0x0f:
        (void)err_set(&err, ERR_AUTH, "the BMC at %s refused the password of user '%s'", s->label,
                      s->user);
        break;
    case 0x09:
    case 0x0a:
        (void)err_set(&err, ERR_DENIED, "user '%s' has no administrator privilege on the BMC at %s",
                      s->user, s->label);
        break;
    default:
        (void)err_set(&err, suite_refused(status) ? ERR_UNSUPPORTED : ERR_PROTOCOL,
                      "the BMC at %s refused the login: %s (status 0x%02x)", s->label,
                      rakp_status_text(status), status);
        break;
    }
    fail(s, &err);
}

static void on_open_response(struct session *s, const struct rmcp_packet *p)
{
    if (p->len < 2 || p->data[0] != s->tag)
        return;
    if (p->data[1] != 0) {
        if (suite_refused(p->data[1]) && s->t.cipher_suite == 0 && s->rakp.suite->id == 17) {
            s->rakp.suite = cipher_suite_find(3);
            send_open(s);
        } else {
            refuse(s, p->data[1]);
        }
        return;
    }
    if (p->len < 36)
        return;
    const struct cipher_suite *suite = s->rakp.suite;
    if ((p->data[16] & 0x3f) != suite->authentication || (p->data[24] & 0x3f) != suite->integrity ||
        (p->data[32] & 0x3f) != suite->confidentiality) {
        struct err err = {0};
        (void)err_set(&err, ERR_PROTOCOL,
                      "the BMC at %s chose another cipher suite than it was asked for", s->label);
        fail(s, &err);
        return;
    }
    s->rakp.managed_id = le32(p->data + 8);
    if (RAND_bytes(s->rakp.console_random, 16) != 1)
        abort();
    s->rakp.role = ADMINISTRATOR | NAME_ONLY;
    uint8_t m[28 + RMCP_USER_MAX] = {++s->tag};
    size_t user_len = strlen(s->user);
    put_le32(m + 4, s->rakp.managed_id);
    memcpy(m + 8, s->rakp.console_random, 16);
    m[24] = s->rakp.role;
    m[27] = (uint8_t)user_len;
    memcpy(m + 28, s->user, user_len);
    s->state = RAKP_1;
    send_setup(s, PAYLOAD_RAKP1, m, 28 + user_len);
}

static void on_rakp2(struct session *s, const struct rmcp_packet *p)
{
    uint8_t code[RMCP_KEY_MAX];
    size_t hash = s->rakp.suite->hash;
    if (p->len < 2 || p->data[0] != s->tag)
        return;
    if (p->data[1] != 0) {
        refuse(s, p->data[1]);
        return;
    }
    if (p->len < 40 + hash)
        return;
    memcpy(s->rakp.managed_random, p->data + 8, 16);
    memcpy(s->rakp.guid, p->data + 24, 16);
    rakp_code2(&s->rakp, code);
    if (CRYPTO_memcmp(code, p->data + 40, hash) != 0) {
        /* the BMC knows another password: it is not sent a proof that could count as an attempt */
        refuse(s, 0x0f);
        return;
    }
    uint8_t m[8 + RMCP_KEY_MAX] = {++s->tag};
    put_le32(m + 4, s->rakp.managed_id);
    rakp_code3(&s->rakp, code);
    memcpy(m + 8, code, hash);
    s->state = RAKP_3;
    send_setup(s, PAYLOAD_RAKP3, m, 8 + hash);
}

static void on_rakp4(struct session *s, const struct rmcp_packet *p)
{
    uint8_t code[RMCP_KEY_MAX];
    if (p->len < 2 || p->data[0] != s->tag)
        return;
    if (p->data[1] != 0) {
        refuse(s, p->data[1]);
        return;
    }
    rakp_keys(&s->rakp, &s->keys);
    rakp_code4(&s->rakp, &s->keys, code);
    if (p->len < 8 + s->keys.suite->check ||
        CRYPTO_memcmp(code, p->data + 8, s->keys.suite->check) != 0) {
        struct err err = {0};
        (void)err_set(&err, ERR_PROTOCOL,
                      "the BMC at %s sent a wrong integrity check value in RAKP 4", s->label);
        fail(s, &err);
        return;
    }
    (void)snprintf(s->suite_text, sizeof s->suite_text, "cipher suite %d", s->keys.suite->id);
    s->state = PRIVILEGE;
    static const uint8_t level[1] = {ADMINISTRATOR};
    send_ipmi(s, 0x06, 0x3b, level, sizeof level);
}

static void on_privilege(struct session *s, const struct ipmi_message *m)
{
    struct err err = {0};
    if (m->completion == 0) {
        s->state = READY;
        s->used = false;
        send_ipmi(s, s->netfn, s->command, s->data, s->data_len);
        return;
    }
    /* 22.18: 80h not for this user, 81h beyond the channel's limit */
    (void)err_set(&err, ERR_DENIED,
                  "user '%s' has no administrator privilege on the BMC at %s (completion 0x%02x)",
                  s->user, s->label, m->completion);
    fail(s, &err);
}

/* ---- receiving ---- */

static void on_idle(void *user)
{
    struct session *s = user;
    uint8_t id[4];
    if (s->state != READY || s->fn != NULL)
        return;
    put_le32(id, s->rakp.managed_id);
    if (s->t.pace != NULL)
        s->t.pace->next_at = 0;              /* a goodbye does not wait */
    send_ipmi(s, 0x06, 0x3c, id, sizeof id); /* Close Session; its answer is of no interest */
    lose(s);
}

static void on_ipmi(struct session *s, const struct rmcp_packet *p)
{
    struct ipmi_message m;
    static const struct err ok = {0};
    if (!ipmi_decode(p->data, p->len, &m) || m.sequence != s->ipmi_sequence)
        return;
    if (s->state == PRIVILEGE && m.command == 0x3b) {
        timer_cancel(&s->timer);
        on_privilege(s, &m);
        return;
    }
    if (s->state != READY || s->fn == NULL || m.command != s->command || m.netfn != (s->netfn | 1))
        return;
    s->used = true;
    session_answer_fn fn = s->fn;
    s->fn = NULL;
    timer_set(s->wire->loop, &s->timer, IDLE_MS, on_idle, s);
    fn(&ok, &m, s->fn_user);
}

/* Section 15.9: sequence, acknowledged sequence, accepted characters, status, characters. */
static void on_sol(struct session *s, const struct rmcp_packet *p)
{
    uint8_t packet[RMCP_MAX];
    if (p->len < 4 || s->on_sol == NULL)
        return;
    uint8_t sequence = p->data[0] & 0x0f;
    if (sequence == 0)
        return; /* an acknowledgement only */
    uint8_t ack[4] = {0, sequence, (uint8_t)(p->len - 4), 0};
    size_t n = rmcp_encode(PAYLOAD_SOL, s->rakp.managed_id, ++s->sequence, ack, sizeof ack,
                           &s->keys, packet);
    (void)sendto(s->wire->fd, packet, n, 0, (const struct sockaddr *)&s->t.address,
                 sizeof s->t.address);
    if (sequence == s->sol_seen)
        return; /* sent again because our acknowledgement was lost */
    s->sol_seen = sequence;
    if (p->len > 4)
        s->on_sol(p->data + 4, p->len - 4, s->sol_user);
}

static void on_packet(struct session *s, const uint8_t *data, size_t len)
{
    struct rmcp_packet p;
    bool open = s->state == PRIVILEGE || s->state == READY;
    if (!rmcp_decode(data, len, open ? &s->keys : NULL, &p))
        return; /* forged, damaged or late: as if it had not come */
    if (s->t.pace != NULL) {
        s->t.pace->heard_at = loop_now(s->wire->loop);
        s->t.pace->heard++;
    }
    if (s->state == OPENING && p.type == PAYLOAD_OPEN_RESPONSE)
        on_open_response(s, &p);
    else if (s->state == RAKP_1 && p.type == PAYLOAD_RAKP2)
        on_rakp2(s, &p);
    else if (s->state == RAKP_3 && p.type == PAYLOAD_RAKP4)
        on_rakp4(s, &p);
    else if (open && p.type == PAYLOAD_IPMI)
        on_ipmi(s, &p);
    else if (open && p.type == PAYLOAD_SOL)
        on_sol(s, &p);
}

static struct session *by_address(struct wire *w, const struct sockaddr_in *from)
{
    char label[64], host[INET_ADDRSTRLEN];
    (void)inet_ntop(AF_INET, &from->sin_addr, host, sizeof host);
    (void)snprintf(label, sizeof label, "%s:%d", host, ntohs(from->sin_port));
    return map_get(w->logins, label);
}

static void on_readable(int fd, int events, void *user)
{
    struct wire *w = user;
    uint8_t packet[RMCP_MAX];
    (void)events;
    for (int i = 0; i < RECEIVE_BATCH; i++) {
        struct sockaddr_in from;
        socklen_t from_len = sizeof from;
        ssize_t n = recvfrom(fd, packet, sizeof packet, 0, (struct sockaddr *)&from, &from_len);
        if (n < 0)
            return;
        uint8_t type;
        uint32_t id;
        char key[12];
        if (!rmcp_session_id(packet, (size_t)n, &type, &id)) {
            if (w->on_other != NULL)
                w->on_other(&from, packet, (size_t)n, w->other_user);
            continue;
        }
        key_of(id, key);
        struct session *s = id != 0 ? map_get(w->sessions, key) : by_address(w, &from);
        if (s != NULL && s->t.address.sin_addr.s_addr == from.sin_addr.s_addr &&
            s->t.address.sin_port == from.sin_port)
            on_packet(s, packet, (size_t)n);
    }
}

/* ---- life ---- */

int wire_new(struct loop *loop, struct wire **ret, struct err *err)
{
    struct wire *w = xcalloc(1, sizeof *w);
    w->loop = loop;
    w->sessions = map_new();
    w->logins = map_new();
    w->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int size = 4 << 20;
    int rc = w->fd < 0 ? err_sys(err, errno, "UDP socket for BMCs") : 0;
    if (rc == 0) {
        (void)setsockopt(w->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
        rc = watch_set(loop, &w->watch, w->fd, WATCH_READ, on_readable, w, err);
    }
    if (rc < 0) {
        wire_free(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void wire_free(struct wire *w)
{
    if (w == NULL)
        return;
    watch_stop(&w->watch);
    if (w->fd >= 0)
        (void)close(w->fd);
    map_free(w->sessions);
    map_free(w->logins);
    free(w);
}

void wire_send(struct wire *w, const struct sockaddr_in *to, const uint8_t *packet, size_t len)
{
    (void)sendto(w->fd, packet, len, 0, (const struct sockaddr *)to, sizeof *to);
}

void wire_on_other(struct wire *w,
                   void (*fn)(const struct sockaddr_in *from, const uint8_t *packet, size_t len,
                              void *user),
                   void *user)
{
    w->on_other = fn;
    w->other_user = user;
}

struct session *session_new(struct wire *w, const struct session_target *target)
{
    struct session *s = xcalloc(1, sizeof *s);
    s->wire = w;
    s->t = *target;
    (void)snprintf(s->label, sizeof s->label, "%s", target->label);
    (void)snprintf(s->user, sizeof s->user, "%s", target->user != NULL ? target->user : "");
    memcpy(s->rakp.user, s->user, sizeof s->rakp.user);
    size_t len = target->password != NULL ? strlen(target->password) : 0;
    memcpy(s->rakp.password, target->password != NULL ? target->password : "",
           len < RMCP_PASSWORD_MAX ? len : RMCP_PASSWORD_MAX);
    s->t.user = s->t.password = s->t.label = NULL;
    return s;
}

void session_free(struct session *s)
{
    if (s == NULL)
        return;
    s->fn = NULL;
    on_idle(s);
    lose(s);
    mem_wipe_free(s, sizeof *s);
}

static void send_or_login(void *user)
{
    struct session *s = user;
    if (s->state == READY)
        send_ipmi(s, s->netfn, s->command, s->data, s->data_len);
    else
        start_login(s);
}

void session_request(struct session *s, uint8_t netfn, uint8_t command, const uint8_t *data,
                     size_t len, session_answer_fn fn, void *user)
{
    s->netfn = netfn;
    s->command = command;
    s->data_len = len < sizeof s->data ? len : sizeof s->data;
    if (len > 0)
        memcpy(s->data, data, s->data_len);
    s->fn = fn;
    s->fn_user = user;
    send_or_login(s);
}

void session_drop(struct session *s)
{
    s->fn = NULL;
    if (s->state != READY)
        lose(s);
    else
        timer_set(s->wire->loop, &s->timer, IDLE_MS, on_idle, s);
}

const char *session_suite(const struct session *s)
{
    return s->suite_text;
}

void session_on_sol(struct session *s, void (*fn)(const uint8_t *data, size_t len, void *user),
                    void *user)
{
    s->on_sol = fn;
    s->sol_user = user;
}
