/* Log-ins and protected packets of a simulated BMC: section 13.17 on, the managed system's side. */
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/ipmi_int.h"

enum {
    HEADER = 4 + 12,
    NAME_ONLY = 0x10,
    SETUP_MS = 10000, /* a log-in that stops halfway gives its place back */

    /* status codes, table 13-15 */
    STATUS_OK = 0x00,
    STATUS_FULL = 0x01,
    STATUS_SESSION_ID = 0x02,
    STATUS_AUTHENTICATION = 0x04,
    STATUS_INTEGRITY = 0x05,
    STATUS_ROLE = 0x09,
    STATUS_PRIVILEGE = 0x0a,
    STATUS_NAME_LENGTH = 0x0c,
    STATUS_NAME = 0x0d,
    STATUS_CHECK = 0x0f,
    STATUS_CONFIDENTIALITY = 0x10,
    STATUS_SUITE = 0x11,
};

static int64_t now_of(const struct ipmi_bmc *b)
{
    return loop_now(b->node->sim->loop);
}

/* ---- sessions ---- */

void ipmi_session_end(struct ipmi_session *s)
{
    if (s->counted != NULL)
        sim_count_open(s->counted, -1);
    free(s->answer);
    OPENSSL_cleanse(s, sizeof *s);
}

static struct ipmi_session *session_by_id(struct ipmi_bmc *b, uint32_t id)
{
    for (int i = 0; i < IPMI_SESSIONS && id != 0; i++)
        if (b->sessions[i].state != SESSION_FREE && b->sessions[i].rakp.managed_id == id)
            return &b->sessions[i];
    return NULL;
}

static void random_bytes(void *out, int len)
{
    if (RAND_bytes(out, len) != 1)
        abort(); /* no randomness: nothing sensible can follow */
}

/* ---- bad logins ---- */

static bool is_locked(const struct ipmi_bmc *b)
{
    return sim_has(b->node, FAULT_BMC_LOCKS) && now_of(b) < b->locked_until;
}

static void note_bad_login(struct ipmi_bmc *b)
{
    int64_t now = now_of(b), span = sim_ms(b->node->sim, IPMI_LOCK_MS);
    b->node->count.bmc_bad_logins++;
    memmove(b->bad + 1, b->bad, (IPMI_BAD_LOGINS - 1) * sizeof b->bad[0]);
    b->bad[0] = now;
    b->bad_count += b->bad_count < IPMI_BAD_LOGINS;
    if (b->bad_count == IPMI_BAD_LOGINS && now - b->bad[IPMI_BAD_LOGINS - 1] < span) {
        b->locked_until = now + span;
        b->bad_count = 0;
    }
}

/* Clients that find out from RAKP 2 that the password is wrong just stay away: a log-in that is
 * given up there counts as a bad one. */
static void give_up(struct ipmi_bmc *b, struct ipmi_session *s)
{
    if (s->state == SESSION_RAKP)
        note_bad_login(b);
    ipmi_session_end(s);
}

/* A free place, or that of the log-in which has been waiting longest for its client. */
static struct ipmi_session *place(struct ipmi_bmc *b)
{
    struct ipmi_session *oldest = NULL;
    for (int i = 0; i < IPMI_SESSIONS; i++) {
        struct ipmi_session *s = &b->sessions[i];
        if (s->state == SESSION_FREE)
            return s;
        if (s->state != SESSION_ACTIVE && (oldest == NULL || s->used < oldest->used))
            oldest = s;
    }
    if (oldest != NULL)
        give_up(b, oldest);
    return oldest;
}

static void on_setup_due(void *user);

/* Idle sessions end, and so do log-ins that stopped halfway. */
static void expire(struct ipmi_bmc *b)
{
    int64_t now = now_of(b), next = 0;
    int64_t patience = SETUP_MS + (sim_has(b->node, FAULT_BMC_SLOW) ? 2 * b->node->fault_ms : 0);
    for (int i = 0; i < IPMI_SESSIONS; i++) {
        struct ipmi_session *s = &b->sessions[i];
        int64_t left = s->used + (s->state == SESSION_ACTIVE ? IPMI_IDLE_MS : patience) - now;
        if (s->state != SESSION_FREE && left <= 0) {
            give_up(b, s);
        } else if (s->state == SESSION_RAKP && (next == 0 || left < next)) {
            next = left;
        }
    }
    if (next > 0 && !timer_armed(&b->setup))
        timer_set(b->node->sim->loop, &b->setup, next, on_setup_due, b);
}

static void on_setup_due(void *user)
{
    expire(user);
}

/* ---- user and password ---- */

/* Zero padded to RAKP's 20 bytes. */
static void password_of(const struct sim_node *n, uint8_t out[RMCP_PASSWORD_MAX])
{
    memset(out, 0, RMCP_PASSWORD_MAX);
    memcpy(out, n->bmc_password, strnlen(n->bmc_password, RMCP_PASSWORD_MAX));
    if (sim_has(n, FAULT_BAD_PASSWORD))
        out[0] ^= 0x01; /* somebody changed it by hand */
}

/* Section 13.20, the role: with the name-only bit the name finds the user, whose limit must allow
 * the level; without it name and level must both be the user's. Ours is an administrator. */
static uint8_t look_up(const struct ipmi_bmc *b, uint8_t role, const char *user)
{
    uint8_t level = role & 0x0f;
    if (level < PRIV_CALLBACK || level > 5)
        return STATUS_ROLE;
    if (is_locked(b) || strcmp(user, b->node->bmc_user) != 0)
        return STATUS_NAME;
    if ((role & NAME_ONLY) == 0 && level != PRIV_ADMINISTRATOR)
        return STATUS_NAME;
    return level > PRIV_ADMINISTRATOR ? STATUS_PRIVILEGE : STATUS_OK;
}

void ipmi_guid(const struct sim_node *n, uint8_t out[16])
{
    const char *uuid =
        sim_has(n, FAULT_SERIAL_CHANGED) ? "0dd00000-0000-4000-8000-00000000dead" : n->uuid;
    int digits = 0;
    memset(out, 0, 16);
    for (const char *p = uuid; *p != '\0' && digits < 32; p++) {
        const char hex[2] = {*p, '\0'};
        if (*p == '-')
            continue;
        out[15 - digits / 2] = (uint8_t)(out[15 - digits / 2] << 4 | strtoul(hex, NULL, 16));
        digits++;
    }
}

/* ---- open session, section 13.17 and 13.18 ---- */

static void send_setup(struct ipmi_bmc *b, const struct ipmi_peer *peer, uint8_t type,
                       const uint8_t *data, size_t len)
{
    uint8_t packet[RMCP_MAX];
    size_t n = rmcp_encode(type, 0, 0, data, len, NULL, packet);
    ipmi_send(b, peer, packet, n);
}

static void refuse(struct ipmi_bmc *b, const struct ipmi_peer *peer, uint8_t type, uint8_t tag,
                   uint8_t status, uint32_t console_id)
{
    uint8_t p[8] = {tag, status};
    put_le32(p + 4, console_id);
    send_setup(b, peer, type, p, sizeof p);
}

/* Algorithms as three blocks {type, 0, 0, length, algorithm, 0, 0, 0}; length 0: ours to choose. */
static uint8_t choose_suite(const uint8_t *blocks, const struct cipher_suite **ret)
{
    const struct cipher_suite *s17 = cipher_suite_find(17), *s3 = cipher_suite_find(3);
    uint8_t wanted[3];
    const uint8_t best[3] = {s17->authentication, s17->integrity, s17->confidentiality};
    for (int i = 0; i < 3; i++)
        wanted[i] = blocks[8 * i + 3] == 0 ? best[i] : blocks[8 * i + 4] & 0x3f;
    if (wanted[0] != s17->authentication && wanted[0] != s3->authentication)
        return STATUS_AUTHENTICATION;
    if (wanted[1] != s17->integrity && wanted[1] != s3->integrity)
        return STATUS_INTEGRITY;
    if (wanted[2] != s17->confidentiality)
        return STATUS_CONFIDENTIALITY;
    *ret = wanted[0] == s17->authentication ? s17 : s3;
    return wanted[1] == (*ret)->integrity ? STATUS_OK : STATUS_SUITE;
}

/* The half-open log-in of the same client, when its request is sent again. */
static struct ipmi_session *same_client(struct ipmi_bmc *b, uint32_t console_id)
{
    for (int i = 0; i < IPMI_SESSIONS; i++)
        if (b->sessions[i].state == SESSION_OPENED && b->sessions[i].rakp.console_id == console_id)
            return &b->sessions[i];
    return NULL;
}

static void new_session(struct ipmi_bmc *b, struct ipmi_session *s, uint32_t console_id)
{
    uint32_t id;
    do
        random_bytes(&id, sizeof id);
    while (id == 0 || session_by_id(b, id) != NULL);
    *s = (struct ipmi_session){.state = SESSION_OPENED};
    s->rakp.console_id = console_id;
    s->rakp.managed_id = id;
}

static void on_open(struct ipmi_bmc *b, const struct ipmi_peer *peer, const struct rmcp_packet *p)
{
    const struct cipher_suite *suite = NULL;
    if (p->len < 32)
        return;
    uint32_t console_id = le32(p->data + 4);
    uint8_t limit = p->data[1] & 0x0f, status = choose_suite(p->data + 8, &suite);
    if (status == STATUS_OK && limit > PRIV_ADMINISTRATOR)
        status = STATUS_ROLE;
    struct ipmi_session *s = status == STATUS_OK ? same_client(b, console_id) : NULL;
    if (s == NULL && status == STATUS_OK) {
        s = place(b);
        if (s != NULL)
            new_session(b, s, console_id);
        else
            status = STATUS_FULL;
    }
    if (status != STATUS_OK || s == NULL) {
        refuse(b, peer, PAYLOAD_OPEN_RESPONSE, p->data[0], status, console_id);
        return;
    }
    s->used = now_of(b);
    s->rakp.suite = suite;
    s->limit = limit != 0 ? limit : PRIV_ADMINISTRATOR;
    uint8_t out[36] = {p->data[0], STATUS_OK, s->limit};
    put_le32(out + 4, console_id);
    put_le32(out + 8, s->rakp.managed_id);
    const uint8_t algorithms[3] = {suite->authentication, suite->integrity, suite->confidentiality};
    for (int i = 0; i < 3; i++) {
        out[12 + 8 * i] = (uint8_t)i;
        out[15 + 8 * i] = 8;
        out[16 + 8 * i] = algorithms[i];
    }
    send_setup(b, peer, PAYLOAD_OPEN_RESPONSE, out, sizeof out);
}

/* ---- RAKP 1 and 2, section 13.20 and 13.21 ---- */

static void send_rakp2(struct ipmi_bmc *b, const struct ipmi_peer *peer, uint8_t tag,
                       const struct ipmi_session *s)
{
    uint8_t out[40 + RMCP_KEY_MAX] = {tag, STATUS_OK};
    put_le32(out + 4, s->rakp.console_id);
    memcpy(out + 8, s->rakp.managed_random, 16);
    memcpy(out + 24, s->rakp.guid, 16);
    rakp_code2(&s->rakp, out + 40);
    send_setup(b, peer, PAYLOAD_RAKP2, out, 40 + s->rakp.suite->hash);
}

static void on_rakp1(struct ipmi_bmc *b, const struct ipmi_peer *peer, const struct rmcp_packet *p)
{
    if (p->len < 28)
        return;
    uint8_t tag = p->data[0], user_len = p->data[27], role = p->data[24];
    char user[RMCP_USER_MAX + 1] = "";
    struct ipmi_session *s = session_by_id(b, le32(p->data + 4));
    uint8_t status = STATUS_OK;
    if (s == NULL || s->state == SESSION_ACTIVE) {
        refuse(b, peer, PAYLOAD_RAKP2, tag, STATUS_SESSION_ID, 0);
        return;
    }
    if (user_len > RMCP_USER_MAX || p->len < (size_t)28 + user_len) {
        status = STATUS_NAME_LENGTH;
    } else {
        memcpy(user, p->data + 28, user_len);
        status = look_up(b, role, user);
    }
    if (status == STATUS_OK && (role & 0x0f) > s->limit)
        status = STATUS_PRIVILEGE;
    if (status != STATUS_OK) {
        if (status == STATUS_NAME)
            b->node->count.bmc_bad_logins++;
        refuse(b, peer, PAYLOAD_RAKP2, tag, status, s->rakp.console_id);
        ipmi_session_end(s);
        return;
    }
    /* the same message again gets the same answer */
    if (s->state != SESSION_RAKP || memcmp(s->rakp.console_random, p->data + 8, 16) != 0)
        random_bytes(s->rakp.managed_random, 16);
    memcpy(s->rakp.console_random, p->data + 8, 16);
    memcpy(s->rakp.user, user, sizeof user);
    s->rakp.role = role;
    s->state = SESSION_RAKP;
    s->used = now_of(b);
    password_of(b->node, s->rakp.password);
    ipmi_guid(b->node, s->rakp.guid);
    send_rakp2(b, peer, tag, s);
    expire(b); /* looks after this one */
}

/* ---- RAKP 3 and 4, section 13.22 and 13.23 ---- */

static void activate(struct ipmi_bmc *b, struct ipmi_session *s)
{
    uint8_t role = s->rakp.role & 0x0f;
    s->state = SESSION_ACTIVE;
    s->counted = &b->node->sim->load.bmc;
    sim_count_open(s->counted, 1);
    s->limit = role < s->limit ? role : s->limit;
    s->privilege = s->limit < PRIV_USER ? s->limit : PRIV_USER; /* 6.12.13: it starts as a user */
    rakp_keys(&s->rakp, &s->keys);
    b->node->count.bmc_logins++;
    b->bad_count = 0;
}

static void on_rakp3(struct ipmi_bmc *b, const struct ipmi_peer *peer, const struct rmcp_packet *p)
{
    uint8_t code[RMCP_KEY_MAX], out[8 + RMCP_KEY_MAX] = {0};
    if (p->len < 8)
        return;
    struct ipmi_session *s = session_by_id(b, le32(p->data + 4));
    if (s == NULL || s->state == SESSION_OPENED) {
        refuse(b, peer, PAYLOAD_RAKP4, p->data[0], STATUS_SESSION_ID, 0);
        return;
    }
    if (p->data[1] != STATUS_OK) {
        /* the client gives up, and tells why: our code did not fit its password */
        if (s->state == SESSION_RAKP && p->data[1] == STATUS_CHECK)
            note_bad_login(b);
        if (s->state == SESSION_RAKP)
            ipmi_session_end(s);
        return;
    }
    rakp_code3(&s->rakp, code);
    if (p->len < 8 + s->rakp.suite->hash ||
        CRYPTO_memcmp(code, p->data + 8, s->rakp.suite->hash) != 0 || is_locked(b)) {
        if (s->state == SESSION_ACTIVE)
            return; /* somebody else's attempt at a session that stands */
        if (!is_locked(b))
            note_bad_login(b);
        refuse(b, peer, PAYLOAD_RAKP4, p->data[0], STATUS_CHECK, s->rakp.console_id);
        ipmi_session_end(s);
        return;
    }
    if (s->state == SESSION_RAKP)
        activate(b, s);
    s->used = now_of(b);
    out[0] = p->data[0];
    put_le32(out + 4, s->rakp.console_id);
    rakp_code4(&s->rakp, &s->keys, out + 8);
    send_setup(b, peer, PAYLOAD_RAKP4, out, 8 + s->rakp.suite->check);
}

/* ---- within a session ---- */

static void on_request(struct ipmi_bmc *b, const struct ipmi_peer *peer, struct ipmi_session *s,
                       const struct rmcp_packet *p)
{
    uint8_t message[RMCP_MAX], packet[RMCP_MAX];
    s->used = now_of(b);
    if (p->sequence == s->received && s->answer != NULL) {
        /* sent again: it is not carried out twice */
        ipmi_send(b, peer, s->answer, s->answer_len);
        return;
    }
    size_t n = p->type == PAYLOAD_IPMI ? ipmi_message(b, s, p->data, p->len, message) : 0;
    if (n == 0)
        return;
    n = rmcp_encode(PAYLOAD_IPMI, s->rakp.console_id, ++s->sent, message, n, &s->keys, packet);
    s->received = p->sequence;
    free(s->answer);
    s->answer = xmemdup(packet, n);
    s->answer_len = n;
    ipmi_send(b, peer, packet, n);
    for (int i = 0; i < IPMI_SESSIONS; i++)
        if (b->sessions[i].closing)
            ipmi_session_end(&b->sessions[i]);
}

static void on_setup(struct ipmi_bmc *b, const struct ipmi_peer *peer, const struct rmcp_packet *p)
{
    uint8_t message[RMCP_MAX];
    switch (p->type) {
    case PAYLOAD_OPEN_REQUEST:
        on_open(b, peer, p);
        break;
    case PAYLOAD_RAKP1:
        on_rakp1(b, peer, p);
        break;
    case PAYLOAD_RAKP3:
        on_rakp3(b, peer, p);
        break;
    case PAYLOAD_IPMI: {
        size_t n = ipmi_message(b, NULL, p->data, p->len, message);
        if (n > 0)
            send_setup(b, peer, PAYLOAD_IPMI, message, n);
        break;
    }
    default:
        break;
    }
}

void ipmi_session_packet(struct ipmi_bmc *b, const struct ipmi_peer *peer, const uint8_t *packet,
                         size_t len)
{
    struct rmcp_packet p;
    if (len < HEADER)
        return;
    expire(b);
    uint32_t id = le32(packet + 6);
    if (id == 0) {
        if (rmcp_decode(packet, len, NULL, &p))
            on_setup(b, peer, &p);
        return;
    }
    struct ipmi_session *s = session_by_id(b, id);
    if (s != NULL && s->state == SESSION_ACTIVE && rmcp_decode(packet, len, &s->keys, &p) &&
        p.sequence != 0)
        on_request(b, peer, s, &p);
}
