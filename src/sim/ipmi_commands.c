/* The commands of a simulated BMC: the table, and those of the network functions application,
 * chassis and DCMI. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "sim/ipmi_int.h"

enum {
    BMC_ADDRESS = 0x20,
    CHANNEL = 1,
    CHANNEL_PRESENT = 0x0e,
    /* network functions, table 5-1 */
    CHASSIS = 0x00,
    SENSOR = 0x04,
    APP = 0x06,
    STORAGE = 0x0a,
    GROUP = 0x2c,
    DCMI = 0xdc, /* the group's identification, section 5.1 */
    /* boot option parameters, table 28-14 */
    BOOT_PROGRESS = 0,
    BOOT_ACKNOWLEDGE = 4,
    BOOT_FLAGS = 5,
    BOOT_UNSUPPORTED = 0x80, /* completion code of 28.12 and 28.13 */
};

/* ---- the answer ---- */

void ipmi_put(struct ipmi_call *c, const void *data, size_t len)
{
    if (len > sizeof c->out - c->out_len)
        len = sizeof c->out - c->out_len;
    memcpy(c->out + c->out_len, data, len);
    c->out_len += len;
}

void ipmi_put8(struct ipmi_call *c, unsigned value)
{
    const uint8_t v = (uint8_t)value;
    ipmi_put(c, &v, 1);
}

void ipmi_put16(struct ipmi_call *c, unsigned value)
{
    ipmi_put8(c, value & 0xff);
    ipmi_put8(c, value >> 8 & 0xff);
}

void ipmi_put32(struct ipmi_call *c, uint32_t value)
{
    ipmi_put16(c, value & 0xffff);
    ipmi_put16(c, value >> 16);
}

uint8_t ipmi_checksum(const uint8_t *data, size_t len)
{
    unsigned sum = 0;
    for (size_t i = 0; i < len; i++)
        sum += data[i];
    return (uint8_t)-sum;
}

/* ---- application: section 20 and 22 ---- */

static void get_device_id(struct ipmi_call *c)
{
    /* 20.1: device 20h, revision 1 with SDRs, firmware 3.14, IPMI 2.0; sensors, SDR, SEL, FRU and
     * chassis; no manufacturer, for none makes it */
    static const uint8_t id[15] = {0x20, 0x81, 0x03, 0x14, 0x02, 0x8f};
    ipmi_put(c, id, sizeof id);
}

static void get_guid(struct ipmi_call *c)
{
    uint8_t guid[16];
    ipmi_guid(c->bmc->node, guid);
    ipmi_put(c, guid, sizeof guid);
}

static bool is_our_channel(struct ipmi_call *c, uint8_t channel)
{
    if (channel == CHANNEL || channel == CHANNEL_PRESENT)
        return true;
    c->completion = CC_INVALID_FIELD;
    return false;
}

/* 22.13: no authentication of IPMI 1.5; names are wanted, K_G is not set; IPMI 2.0. */
static void get_auth_capabilities(struct ipmi_call *c)
{
    bool extended = (c->data[0] & 0x80) != 0;
    if (!is_our_channel(c, c->data[0] & 0x0f))
        return;
    const uint8_t out[8] = {CHANNEL, extended ? 0x80 : 0, 0x04, extended ? 0x02 : 0};
    ipmi_put(c, out, sizeof out);
}

/* 22.24: Ethernet, IPMI's own protocol, many sessions, vendor IPMI */
static void get_channel_info(struct ipmi_call *c)
{
    unsigned active = 0;
    if (!is_our_channel(c, c->data[0] & 0x0f))
        return;
    for (int i = 0; i < IPMI_SESSIONS; i++)
        active += c->bmc->sessions[i].state == SESSION_ACTIVE;
    const uint8_t out[9] = {CHANNEL, 0x04, 0x01, (uint8_t)(0x80 | active), 0xf2, 0x1b, 0x00};
    ipmi_put(c, out, sizeof out);
}

/* 22.15: 16 bytes of the list at a time. */
static void get_cipher_suites(struct ipmi_call *c)
{
    static const uint8_t records[] = {0xc0, 3, 0x01, 0x41, 0x81, 0xc0, 17, 0x03, 0x44, 0x81},
                         algorithms[] = {0x01, 0x03, 0x41, 0x44, 0x81};
    bool by_suite = (c->data[2] & 0x80) != 0;
    if (!is_our_channel(c, c->data[0] & 0x0f))
        return;
    ipmi_put8(c, CHANNEL);
    if ((c->data[2] & 0x3f) == 0)
        ipmi_put(c, by_suite ? records : algorithms, by_suite ? sizeof records : sizeof algorithms);
}

/* 22.18 */
static void set_privilege(struct ipmi_call *c)
{
    uint8_t wanted = c->data[0] & 0x0f;
    if (wanted == PRIV_CALLBACK || wanted > 5)
        c->completion = CC_INVALID_FIELD;
    else if (wanted > PRIV_ADMINISTRATOR)
        c->completion = 0x80; /* not available for this user */
    else if (wanted > c->session->limit)
        c->completion = 0x81; /* beyond what the session was opened for */
    else if (wanted != PRIV_NONE)
        c->session->privilege = wanted;
    if (c->completion == CC_OK)
        ipmi_put8(c, c->session->privilege);
}

/* 22.19; the answer still leaves through the session. */
static void close_session(struct ipmi_call *c)
{
    uint32_t id = le32(c->data);
    for (int i = 0; i < IPMI_SESSIONS; i++) {
        struct ipmi_session *s = &c->bmc->sessions[i];
        if (s->state != SESSION_ACTIVE || s->rakp.managed_id != id)
            continue;
        if (s != c->session && c->session->privilege < PRIV_ADMINISTRATOR)
            c->completion = CC_PRIVILEGE;
        else
            s->closing = true;
        c->bmc->node->count.bmc_closes += s->closing;
        return;
    }
    c->completion = 0x87; /* no such session */
}

/* ---- chassis: section 28 ---- */

static void get_chassis_status(struct ipmi_call *c)
{
    bool on = machine_power_shown(c->bmc->node);
    ipmi_put8(c, on ? 1 : 0);                            /* stays off after mains come back */
    ipmi_put8(c, on && c->bmc->commanded_on ? 0x10 : 0); /* the last power event */
    ipmi_put8(c, 0);
}

static void chassis_control(struct ipmi_call *c)
{
    static const struct {
        uint8_t code;
        enum sim_power what;
        bool needs_on;
    } actions[] = {{0, SIM_POWER_OFF, false},
                   {1, SIM_POWER_ON, false},
                   {2, SIM_POWER_CYCLE, true},
                   {3, SIM_POWER_RESET, true},
                   {5, SIM_POWER_SOFT, true}};
    struct sim_node *n = c->bmc->node;
    for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
        if (actions[i].code != (c->data[0] & 0x0f))
            continue;
        if (actions[i].needs_on && !n->on && !sim_has(n, FAULT_POWER_LIES)) {
            c->completion = CC_STATE;
            return;
        }
        c->bmc->commanded_on = actions[i].what == SIM_POWER_ON || c->bmc->commanded_on;
        machine_power(n, actions[i].what);
        return;
    }
    c->completion = CC_INVALID_FIELD; /* diagnostic interrupt */
}

/* Parameter 5: valid, persistent and EFI bits, then the device in bits 5:2. */
static void set_boot_flags(struct ipmi_call *c, const uint8_t *flags)
{
    enum sim_boot device = SIM_BOOT_DEFAULT;
    bool valid = (flags[0] & 0x80) != 0;
    switch (flags[1] >> 2 & 0x0f) {
    case 0:
        break;
    case 1:
        device = SIM_BOOT_PXE;
        break;
    case 2:
        device = SIM_BOOT_DISK;
        break;
    default: /* no CD, no floppy, no setup */
        c->completion = CC_INVALID_FIELD;
        return;
    }
    machine_set_boot(c->bmc->node, valid ? device : SIM_BOOT_DEFAULT, (flags[0] & 0x20) != 0,
                     (flags[0] & 0x40) == 0);
}

static void set_boot_options(struct ipmi_call *c)
{
    const uint8_t *data = c->data + 1;
    size_t len = c->len - 1;
    uint8_t parameter = c->data[0] & 0x7f;
    static const uint8_t sizes[] = {[BOOT_PROGRESS] = 1, [BOOT_ACKNOWLEDGE] = 2, [BOOT_FLAGS] = 5};
    if (parameter >= ARRAY_LEN(sizes) || sizes[parameter] == 0) {
        c->completion = BOOT_UNSUPPORTED;
        return;
    }
    if (len == 0)
        return; /* only marks the parameter as valid or not, which we do not keep */
    if (len < sizes[parameter]) {
        c->completion = CC_LENGTH;
        return;
    }
    if (parameter == BOOT_PROGRESS)
        c->bmc->boot_progress = data[0] & 0x03;
    else if (parameter == BOOT_FLAGS)
        set_boot_flags(c, data);
    else
        c->bmc->boot_acknowledge[1] =
            (uint8_t)((c->bmc->boot_acknowledge[1] & ~data[0]) | (data[1] & data[0]));
}

static void get_boot_options(struct ipmi_call *c)
{
    const struct sim_node *n = c->bmc->node;
    uint8_t parameter = c->data[0] & 0x7f;
    const uint8_t head[2] = {0x01, parameter};
    ipmi_put(c, head, sizeof head);
    if (parameter == BOOT_PROGRESS) {
        ipmi_put8(c, c->bmc->boot_progress);
    } else if (parameter == BOOT_ACKNOWLEDGE) {
        ipmi_put(c, c->bmc->boot_acknowledge, 2);
    } else if (parameter == BOOT_FLAGS) {
        bool set = n->override != SIM_BOOT_DEFAULT;
        const uint8_t flags[5] = {(uint8_t)((set ? 0x80 : 0) |
                                            (set && !n->override_once ? 0x40 : 0) |
                                            (set && n->override_efi ? 0x20 : 0)),
                                  (uint8_t)(n->override == SIM_BOOT_PXE    ? 1 << 2
                                            : n->override == SIM_BOOT_DISK ? 2 << 2
                                                                           : 0)};
        ipmi_put(c, flags, sizeof flags);
    } else {
        c->completion = BOOT_UNSUPPORTED;
    }
}

/* ---- DCMI 1.5, section 6.6.1: power reading ---- */

static void get_power_reading(struct ipmi_call *c)
{
    struct ipmi_bmc *b = c->bmc;
    struct sim *s = b->node->sim;
    if (c->data[1] != 0x01) {
        c->completion = CC_INVALID_FIELD; /* no other mode than system power statistics */
        return;
    }
    double watts = machine_watts(b->node);
    uint32_t now = watts < 0 ? 0 : watts > 65535 ? 65535 : (uint32_t)lround(watts);
    if (b->watts_count++ == 0) {
        b->watts_min = b->watts_max = now;
        b->watts_since = loop_now(s->loop);
    }
    b->watts_min = now < b->watts_min ? now : b->watts_min;
    b->watts_max = now > b->watts_max ? now : b->watts_max;
    b->watts_sum += now;
    ipmi_put8(c, DCMI);
    ipmi_put16(c, now);
    ipmi_put16(c, b->watts_min);
    ipmi_put16(c, b->watts_max);
    ipmi_put16(c, (unsigned)lround(b->watts_sum / b->watts_count));
    ipmi_put32(c, (uint32_t)(loop_wall(s->loop) / 1000));
    ipmi_put32(c, (uint32_t)(loop_now(s->loop) - b->watts_since));
    ipmi_put8(c, 0x40); /* measuring */
}

/* ---- the table ---- */

/* Privileges are those of appendix G; PRIV_NONE may be asked for before a log-in. */
static const struct command {
    uint8_t netfn, command, privilege, min_len;
    void (*fn)(struct ipmi_call *c);
} commands[] = {
    {APP, 0x01, PRIV_USER, 0, get_device_id},
    {APP, 0x37, PRIV_NONE, 0, get_guid},
    {APP, 0x38, PRIV_NONE, 2, get_auth_capabilities},
    {APP, 0x3b, PRIV_CALLBACK, 1, set_privilege},
    {APP, 0x3c, PRIV_CALLBACK, 4, close_session},
    {APP, 0x42, PRIV_USER, 1, get_channel_info},
    {APP, 0x54, PRIV_NONE, 3, get_cipher_suites},
    {CHASSIS, 0x01, PRIV_USER, 0, get_chassis_status},
    {CHASSIS, 0x02, PRIV_OPERATOR, 1, chassis_control},
    {CHASSIS, 0x08, PRIV_OPERATOR, 1, set_boot_options},
    {CHASSIS, 0x09, PRIV_OPERATOR, 3, get_boot_options},
    {SENSOR, 0x2d, PRIV_USER, 1, ipmi_sensor_reading},
    {STORAGE, 0x10, PRIV_USER, 1, ipmi_fru_info},
    {STORAGE, 0x11, PRIV_USER, 4, ipmi_fru_read},
    {STORAGE, 0x20, PRIV_USER, 0, ipmi_sdr_info},
    {STORAGE, 0x22, PRIV_USER, 0, ipmi_sdr_reserve},
    {STORAGE, 0x23, PRIV_USER, 6, ipmi_sdr_get},
    {STORAGE, 0x40, PRIV_USER, 0, ipmi_sel_info},
    {STORAGE, 0x42, PRIV_USER, 0, ipmi_sel_reserve},
    {STORAGE, 0x43, PRIV_USER, 6, ipmi_sel_entry},
    {GROUP, 0x02, PRIV_USER, 4, get_power_reading},
};

static const struct command *find(const struct ipmi_call *c, uint8_t netfn, uint8_t command)
{
    if (netfn == GROUP && (c->len == 0 || c->data[0] != DCMI))
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (commands[i].netfn == netfn && commands[i].command == command)
            return &commands[i];
    return NULL;
}

static void carry_out(struct ipmi_call *c, uint8_t netfn, uint8_t command)
{
    const struct command *d = find(c, netfn, command);
    uint8_t has = c->session != NULL ? c->session->privilege : PRIV_NONE;
    if (d == NULL)
        c->completion = CC_INVALID_COMMAND;
    else if (has < d->privilege)
        c->completion = CC_PRIVILEGE;
    else if (c->len < d->min_len)
        c->completion = CC_LENGTH;
    else
        d->fn(c);
    if (c->completion != CC_OK)
        c->out_len = 0; /* table 5-2: the data may be left out then */
    if (c->completion != CC_OK && netfn == GROUP && c->len > 0)
        ipmi_put8(c, c->data[0]);
}

/* Section 13.8: address, network function and LUN, checksum; address, sequence and LUN, command,
 * data, checksum. An answer swaps the two addresses. */
size_t ipmi_message(struct ipmi_bmc *b, struct ipmi_session *s, const uint8_t *m, size_t len,
                    uint8_t out[RMCP_MAX])
{
    if (len < 7 || m[0] != BMC_ADDRESS || ipmi_checksum(m, 2) != m[2] ||
        ipmi_checksum(m + 3, len - 4) != m[len - 1])
        return 0;
    uint8_t netfn = m[1] >> 2;
    if ((netfn & 1) != 0)
        return 0; /* an answer to a question that was not asked */
    struct ipmi_call c = {.bmc = b, .session = s, .data = m + 6, .len = len - 7};
    carry_out(&c, netfn, m[5]);
    out[0] = m[3];
    out[1] = (uint8_t)((netfn | 1) << 2 | (m[4] & 3));
    out[2] = ipmi_checksum(out, 2);
    out[3] = BMC_ADDRESS;
    out[4] = (uint8_t)((m[4] & 0xfc) | (m[1] & 3));
    out[5] = m[5];
    out[6] = c.completion;
    memcpy(out + 7, c.out, c.out_len);
    out[7 + c.out_len] = ipmi_checksum(out + 3, 4 + c.out_len);
    return 8 + c.out_len;
}
