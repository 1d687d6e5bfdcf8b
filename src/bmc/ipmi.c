/* The ipmi driver: each request is a few IPMI commands in a row over the BMC's session. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bmc/driver.h"
#include "bmc/fru.h"

/* Network functions and commands, specification v2.0 rev. 1.1, appendix G. */
enum {
    CHASSIS = 0x00,
    GET_CHASSIS_STATUS = 0x01,
    CHASSIS_CONTROL = 0x02,
    SET_BOOT_OPTIONS = 0x08,
    GET_BOOT_OPTIONS = 0x09,
    APP = 0x06,
    GET_DEVICE_ID = 0x01,
    GET_SYSTEM_GUID = 0x37,
    STORAGE = 0x0a,
    GET_FRU_AREA = 0x10,
    READ_FRU = 0x11,
};

enum {
    BUSY_RETRIES = 5,
    BUSY_PAUSE_MS = 500,
    FRU_CHUNK = 32,
    BOOT_ACKNOWLEDGE = 4, /* boot option parameters, table 28-14 */
    BOOT_FLAGS = 5,
};

static void step(struct request *r);
static void on_answer(const struct err *err, const struct ipmi_message *m, void *user);

static void ask(struct request *r, uint8_t netfn, uint8_t command, const uint8_t *data, size_t len)
{
    session_request(r->bmc->session, netfn, command, data, len, on_answer, r);
}

/* ---- what is asked, by kind and step ---- */

static void ask_identity(struct request *r)
{
    if (r->step == 0) {
        ask(r, APP, GET_DEVICE_ID, NULL, 0);
    } else if (r->step == 1) {
        ask(r, APP, GET_SYSTEM_GUID, NULL, 0);
    } else if (r->step == 2) {
        ask(r, STORAGE, GET_FRU_AREA, (const uint8_t[]){0}, 1);
    } else {
        size_t left = r->fru_size - r->fru_len;
        size_t count = left < r->fru_chunk ? left : r->fru_chunk;
        size_t unit = r->fru_words ? 2 : 1, at = r->fru_len / unit;
        const uint8_t data[4] = {0, (uint8_t)at, (uint8_t)(at >> 8), (uint8_t)(count / unit)};
        ask(r, STORAGE, READ_FRU, data, sizeof data);
    }
}

static uint8_t device_bits(enum bmc_boot_device device)
{
    return device == BMC_BOOT_PXE ? 1 << 2 : device == BMC_BOOT_DISK ? 2 << 2 : 0;
}

static void ask_boot_set(struct request *r)
{
    if (r->step == 0) {
        /* the BIOS has seen nothing of this yet; BMCs without the parameter refuse it, no matter */
        const uint8_t data[3] = {BOOT_ACKNOWLEDGE, 0x01, 0x01};
        ask(r, CHASSIS, SET_BOOT_OPTIONS, data, sizeof data);
    } else {
        uint8_t valid = r->pub.device == BMC_BOOT_NONE ? 0 : 0x80;
        const uint8_t data[6] = {BOOT_FLAGS,
                                 (uint8_t)(valid | (r->pub.efi ? 0x20 : 0)),
                                 device_bits(r->pub.device),
                                 0,
                                 0,
                                 0};
        ask(r, CHASSIS, SET_BOOT_OPTIONS, data, sizeof data);
    }
}

static void step(struct request *r)
{
    static const uint8_t actions[] = {[BMC_POWER_OFF] = 0,
                                      [BMC_POWER_ON] = 1,
                                      [BMC_POWER_CYCLE] = 2,
                                      [BMC_POWER_RESET] = 3,
                                      [BMC_POWER_SOFT] = 5};
    static const uint8_t boot_flags[3] = {BOOT_FLAGS, 0, 0};
    switch (r->kind) {
    case REQ_VERIFY:
        ask(r, APP, GET_DEVICE_ID, NULL, 0);
        break;
    case REQ_IDENTITY:
        ask_identity(r);
        break;
    case REQ_POWER_GET:
        ask(r, CHASSIS, GET_CHASSIS_STATUS, NULL, 0);
        break;
    case REQ_POWER_SET:
        ask(r, CHASSIS, CHASSIS_CONTROL, &actions[r->action], 1);
        break;
    case REQ_BOOT_GET:
        ask(r, CHASSIS, GET_BOOT_OPTIONS, boot_flags, sizeof boot_flags);
        break;
    case REQ_BOOT_SET:
        ask_boot_set(r);
        break;
    case REQ_READ:
    case REQ_CHANGE:
        break; /* the gate refused it */
    }
}

/* ---- what is answered ---- */

/* A UUID as text. BMCs disagree on the order of its bytes (20.8: least significant first; many keep
 * SMBIOS's order, DSP0134 7.2.1, or the order of the text), so all three are kept. */
static json_t *guid_texts(const uint8_t g[16])
{
    static const uint8_t orders[3][16] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                                          {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15},
                                          {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}};
    json_t *list = json_array();
    for (int k = 0; k < 3; k++) {
        char text[37], *p = text;
        for (int i = 0; i < 16; i++) {
            if (i == 4 || i == 6 || i == 8 || i == 10)
                *p++ = '-';
            p += snprintf(p, 3, "%02x", g[orders[k][i]]);
        }
        (void)json_array_append_new(list, json_string(text));
    }
    return list;
}

static void take_device_id(struct request *r, const struct ipmi_message *m)
{
    const uint8_t *d = m->data; /* 20.1 */
    char firmware[16], ipmi[8];
    (void)snprintf(firmware, sizeof firmware, "%d.%02x", d[2] & 0x7f, d[3]);
    (void)snprintf(ipmi, sizeof ipmi, "%d.%d", d[4] & 0x0f, d[4] >> 4);
    if (r->kind == REQ_VERIFY) {
        (void)snprintf(r->pub.text, sizeof r->pub.text,
                       "IPMI %s, %s, privilege ADMINISTRATOR, firmware %s", ipmi,
                       session_suite(r->bmc->session), firmware);
        return;
    }
    (void)json_object_set_new(r->pub.result, "bmc",
                              json_pack("{s:i,s:i,s:s,s:s,s:i,s:i}", "device_id", d[0], "revision",
                                        d[1] & 0x0f, "firmware", firmware, "ipmi", ipmi,
                                        "manufacturer_id", d[6] | d[7] << 8 | (d[8] & 0x0f) << 16,
                                        "product_id", d[9] | d[10] << 8));
}

static int bad_answer(const struct request *r, const char *what, size_t len, struct err *err)
{
    return err_set(err, ERR_PROTOCOL, "the BMC at %s answered '%s' with %zu bytes", r->bmc->label,
                   what, len);
}

/* >0: another step follows; 0: done; <0: failed. */
static int take_fru(struct request *r, const struct ipmi_message *m)
{
    if (r->step == 2) {
        if (m->completion != 0 || m->len < 3)
            return 0; /* it has none */
        r->fru_size = m->data[0] | (size_t)m->data[1] << 8;
        r->fru_words = (m->data[2] & 1) != 0;
        r->fru_size = r->fru_size < FRU_MAX ? r->fru_size : FRU_MAX;
        r->fru = xcalloc(1, r->fru_size + 1);
        r->fru_chunk = FRU_CHUNK;
        return r->fru_size >= 8;
    }
    if ((m->completion == 0xca || m->completion == 0xc8 || m->completion == 0xc7) &&
        r->fru_chunk > 8) {
        r->fru_chunk /= 2; /* it cannot return that many at once */
        return 1;
    }
    size_t unit = r->fru_words ? 2 : 1;
    if (m->completion == 0 && m->len > 1 && m->data[0] > 0) {
        size_t n = m->data[0] * unit;
        n = n < m->len - 1 ? n : m->len - 1;
        n = n < r->fru_size - r->fru_len ? n : r->fru_size - r->fru_len;
        memcpy(r->fru + r->fru_len, m->data + 1, n);
        r->fru_len += n;
        if (r->fru_len < r->fru_size)
            return 1;
    }
    (void)json_object_set_new(r->pub.result, "fru", fru_parse(r->fru, r->fru_len));
    return 0;
}

static int take_identity(struct request *r, const struct ipmi_message *m, struct err *err)
{
    if (r->step == 0) {
        if (m->len < 11)
            return bad_answer(r, "get device id", m->len, err);
        take_device_id(r, m);
    } else if (r->step == 1) {
        if (m->completion == 0 && m->len >= 16) {
            json_t *texts = guid_texts(m->data);
            (void)json_object_set(r->pub.result, "guid", json_array_get(texts, 0));
            (void)json_object_set_new(r->pub.result, "guids", texts);
        }
    } else {
        int more = take_fru(r, m);
        r->step = 3;
        return more;
    }
    r->step++;
    return 1;
}

static int take(struct request *r, const struct ipmi_message *m, struct err *err)
{
    switch (r->kind) {
    case REQ_VERIFY:
        if (m->len < 11)
            return bad_answer(r, "get device id", m->len, err);
        take_device_id(r, m);
        return 0;
    case REQ_IDENTITY:
        return take_identity(r, m, err);
    case REQ_POWER_GET:
        if (m->len < 1)
            return bad_answer(r, "get chassis status", m->len, err);
        r->pub.on = (m->data[0] & 1) != 0;
        return 0;
    case REQ_BOOT_GET:
        if (m->len < 4)
            return bad_answer(r, "get boot options", m->len, err);
        r->pub.efi = (m->data[2] & 0x20) != 0;
        r->pub.device = (m->data[3] & 0x3c) == device_bits(BMC_BOOT_PXE)    ? BMC_BOOT_PXE
                        : (m->data[3] & 0x3c) == device_bits(BMC_BOOT_DISK) ? BMC_BOOT_DISK
                                                                            : BMC_BOOT_NONE;
        return 0;
    case REQ_BOOT_SET:
        return r->step++ == 0 ? 1 : 0;
    default:
        return 0;
    }
}

/* Whether this step may be refused without harm. */
static bool optional(const struct request *r)
{
    return (r->kind == REQ_BOOT_SET && r->step == 0) || (r->kind == REQ_IDENTITY && r->step > 0);
}

static void completion_error(const struct request *r, uint8_t completion, struct err *err)
{
    enum err_code code = ERR_FAILED;
    if (completion == 0xd4)
        code = ERR_DENIED;
    else if (completion == 0xc0 || completion == 0xc3 || completion == 0xcf || completion == 0xd2)
        code = ERR_BUSY;
    else if (completion == 0xc1 || completion == 0xc2 || completion == 0xcc || completion == 0xd6)
        code = ERR_UNSUPPORTED;
    (void)err_set(err, code, "the BMC at %s refused the command: %s (completion 0x%02x)",
                  r->bmc->label, ipmi_completion_text(completion), completion);
}

static void step_again(void *user)
{
    step(user);
}

static void on_answer(const struct err *error, const struct ipmi_message *m, void *user)
{
    struct request *r = user;
    struct err err = *error;
    if (err.code != ERR_OK) {
        request_done(r, &err);
        return;
    }
    bool busy = m->completion == 0xc0 || m->completion == 0xd2;
    if (busy && r->retries++ < BUSY_RETRIES) {
        timer_set(r->bmc->hub->c.loop, &r->timer, BUSY_PAUSE_MS, step_again, r);
        return;
    }
    if (m->completion != 0 && !optional(r)) {
        completion_error(r, m->completion, &err);
        request_done(r, &err);
        return;
    }
    int more = take(r, m, &err);
    if (more > 0)
        timer_set(r->bmc->hub->c.loop, &r->timer, 0, step_again, r);
    else
        request_done(r, more < 0 ? &err : NULL);
}

/* ---- driver ---- */

static void ipmi_open(struct bmc *b)
{
    struct session_target t = {.address = b->sockaddr,
                               .label = b->label,
                               .user = b->user,
                               .password = b->password,
                               .cipher_suite = b->cipher_suite,
                               .pace = &b->gate.pace};
    b->session = session_new(b->hub->wire, &t);
}

static void ipmi_close(struct bmc *b)
{
    session_free(b->session);
    b->session = NULL;
}

static void ipmi_cancel(struct request *r)
{
    session_drop(r->bmc->session);
}

static bool ipmi_knows(const struct request *r)
{
    return r->kind != REQ_READ && r->kind != REQ_CHANGE;
}

const struct bmc_driver bmc_driver_ipmi = {.name = "ipmi",
                                           .port = 623,
                                           .look = LOOK_RMCP,
                                           .paces = true,
                                           .knows = ipmi_knows,
                                           .open = ipmi_open,
                                           .close = ipmi_close,
                                           .start = step,
                                           .cancel = ipmi_cancel};
