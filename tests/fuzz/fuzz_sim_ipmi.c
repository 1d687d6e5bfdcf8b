/* A simulated BMC: packets before a login, then messages within a session that was opened by the
 * rules. Nothing but the machine and the socket is replaced. */
#include <stdlib.h>
#include <string.h>

#include "sim/ipmi_commands.c" /* NOLINT(bugprone-suspicious-include): a program room, no library */
#include "sim/ipmi_session.c"  /* NOLINT(bugprone-suspicious-include) */
#include "sim/ipmi_storage.c"  /* NOLINT(bugprone-suspicious-include) */

static uint8_t answer[RMCP_MAX];
static size_t answer_len;

void ipmi_send(struct ipmi_bmc *b, const struct ipmi_peer *peer, const uint8_t *packet, size_t len)
{
    (void)b;
    (void)peer;
    memcpy(answer, packet, len);
    answer_len = len;
}

void machine_power(struct sim_node *n, enum sim_power what)
{
    n->on = what != SIM_POWER_OFF;
    n->count.power_ons += n->on;
    n->count.power_offs += !n->on;
}

bool machine_power_shown(const struct sim_node *n)
{
    return n->on;
}

void machine_set_boot(struct sim_node *n, enum sim_boot device, bool efi, bool once)
{
    n->override = device;
    n->override_efi = efi;
    n->override_once = once;
}

void sim_count_open(struct sim_sessions *c, int change)
{
    c->open += change;
    if (c->open < 0)
        abort();
}

double machine_watts(const struct sim_node *n)
{
    return n->on ? 700 : 0;
}

int64_t sim_ms(const struct sim *s, int64_t real_ms)
{
    (void)s;
    return real_ms;
}

unsigned sim_draw(const struct sim_node *n, const char *question, unsigned below)
{
    (void)n;
    (void)question;
    return below - 1;
}

static void setup(struct ipmi_bmc *b, uint8_t type, const uint8_t *data, size_t len)
{
    static const struct ipmi_peer peer;
    uint8_t packet[RMCP_MAX];
    size_t n = rmcp_encode(type, 0, 0, data, len, NULL, packet);
    answer_len = 0;
    ipmi_session_packet(b, &peer, packet, n);
    if (answer_len < HEADER + 8)
        abort();
}

/* The console's side of a login; returns what the session's packets are made with. */
static uint32_t log_in(struct ipmi_bmc *b, struct rmcp_keys *keys)
{
    struct rakp r = {.suite = cipher_suite_find(17), .console_id = 1, .role = 0x14, .user = "a"};
    uint8_t open[32] = {0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 8, 3, 0, 0,
                        0, 1, 0, 0, 8, 4, 0, 0, 0, 2, 0, 0, 8, 1};
    uint8_t rakp1[29] = {0}, rakp3[40] = {0};
    setup(b, PAYLOAD_OPEN_REQUEST, open, sizeof open);
    r.managed_id = le32(answer + HEADER + 8);
    put_le32(rakp1 + 4, r.managed_id);
    rakp1[24] = r.role;
    rakp1[27] = 1;
    rakp1[28] = 'a';
    setup(b, PAYLOAD_RAKP1, rakp1, sizeof rakp1);
    memcpy(r.managed_random, answer + HEADER + 8, 16);
    memcpy(r.guid, answer + HEADER + 24, 16);
    put_le32(rakp3 + 4, r.managed_id);
    rakp_code3(&r, rakp3 + 8);
    setup(b, PAYLOAD_RAKP3, rakp3, sizeof rakp3);
    if (answer[HEADER + 1] != STATUS_OK)
        abort();
    rakp_keys(&r, keys);
    return r.managed_id;
}

/* Messages of the input, each with its length before it, with right checksums. */
static void in_session(struct ipmi_bmc *b, const uint8_t *data, size_t size)
{
    static const struct ipmi_peer peer;
    struct rmcp_keys keys;
    uint8_t message[RMCP_MAX], packet[RMCP_MAX];
    uint32_t id = log_in(b, &keys), sequence = 0;
    b->sessions[0].privilege = PRIV_ADMINISTRATOR;
    while (size >= 3) {
        size_t len = data[0] % 32 < size - 3 ? data[0] % 32 : size - 3;
        size_t n = ipmi_encode(data[1] & 0x3f, data[2], 1, data + 3, len, message);
        n = rmcp_encode(PAYLOAD_IPMI, id, ++sequence, message, n, &keys, packet);
        ipmi_session_packet(b, &peer, packet, n);
        data += 3 + len;
        size -= 3 + len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct ipmi_peer peer;
    size = size < 4096 ? size : 4096;
    struct sim s = {.loop = loop_new_virtual(1700000000000), .speed = 1};
    struct sim_node *n = xcalloc(1, sizeof *n);
    struct ipmi_bmc *b = xcalloc(1, sizeof *b);
    n->sim = &s;
    n->bmc_user[0] = 'a';
    n->part_count = 1;
    memcpy(n->parts[0].kind, "system", 7);
    b->node = n;
    if (size > 0 && data[0] % 2 == 0) {
        ipmi_session_packet(b, &peer, data + 1, size - 1 < RMCP_MAX ? size - 1 : RMCP_MAX);
        for (uint8_t type = PAYLOAD_OPEN_REQUEST; type <= PAYLOAD_RAKP4 && size < 500; type++) {
            uint8_t packet[RMCP_MAX];
            size_t len = rmcp_encode(type, 0, 0, data + 1, size - 1, NULL, packet);
            ipmi_session_packet(b, &peer, packet, len);
        }
    } else if (size > 0) {
        in_session(b, data + 1, size - 1);
    }
    for (int i = 0; i < IPMI_SESSIONS; i++)
        ipmi_session_end(&b->sessions[i]);
    timer_cancel(&b->setup);
    if (loop_free(s.loop) != 0)
        abort();
    free(b);
    free(n);
    return 0;
}
