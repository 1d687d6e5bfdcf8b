/* What a simulated BMC stores: FRU data, event log, sensor data records; and sensor readings.
 * "FRU section" is that of the Platform Management FRU Information Storage Definition v1.0 r1.3. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sim/ipmi_int.h"

enum {
    FRU_SIZE = 512,
    READ_MAX = 200, /* bytes of an answer */
    FIELD_MAX = 63, /* FRU section 13: the length has six bits */
    FIELD_ASCII = 0xc0,
    FIELD_END = 0xc1,
    RACK_MOUNT = 0x17, /* chassis types are SMBIOS's */

    SENSOR_TEMPERATURE = 1, /* sensor numbers */
    SENSOR_POWER = 2,
    SENSOR_STATE = 3,
    TYPE_TEMPERATURE = 0x01, /* table 42-3 */
    TYPE_OTHER = 0x0b,
    TYPE_ACPI_STATE = 0x22,
    ACPI_WORKING = 0,
    ACPI_SOFT_OFF = 5,
    EVENT_THRESHOLD = 0x01, /* table 42-1 */
    EVENT_SPECIFIC = 0x6f,
    ENTITY_BOARD = 0x07, /* table 43-13 */
    ENTITY_INLET = 0x37,
    UNIT_DEGREES = 1, /* table 43-15 */
    UNIT_WATTS = 6,
    WATTS_STEP = 50,
    SDR_MAX = 64,
    SDR_COUNT = 5,
    SEL_RECORD = 16,
    NO_MORE = 0xffff,
};

/* ---- FRU: one device, id 0 ---- */

struct image {
    uint8_t data[FRU_SIZE];
    size_t len, area; /* where the area in work begins */
};

static void add8(struct image *m, uint8_t value)
{
    if (m->len < FRU_SIZE)
        m->data[m->len++] = value;
}

static void add_text(struct image *m, const char *text)
{
    size_t len = strnlen(text, FIELD_MAX);
    if (len == 1)
        len = 0; /* one character of this kind would be the end mark */
    add8(m, (uint8_t)(FIELD_ASCII | len));
    for (size_t i = 0; i < len; i++)
        add8(m, (uint8_t)text[i]);
}

/* Byte `offset` of the common header (FRU section 8) tells where the area is, in eights. */
static void begin_area(struct image *m, int offset)
{
    m->area = m->len;
    m->data[offset] = (uint8_t)(m->len / 8);
    add8(m, 1); /* format version */
    add8(m, 0); /* length in eights, known at the end */
}

static void end_area(struct image *m)
{
    add8(m, FIELD_END);
    while ((m->len + 1) % 8 != 0)
        add8(m, 0);
    m->data[m->area + 1] = (uint8_t)((m->len + 1 - m->area) / 8);
    add8(m, ipmi_checksum(m->data + m->area, m->len - m->area));
}

static const struct sim_part *part_of(const struct sim_node *n, const char *kind)
{
    static const struct sim_part none;
    for (int i = 0; i < n->part_count; i++)
        if (strcmp(n->parts[i].kind, kind) == 0)
            return &n->parts[i];
    return &none;
}

static void build_fru(const struct sim_node *n, struct image *m)
{
    static const char maker[] = "Simulated";
    bool other = sim_has(n, FAULT_SERIAL_CHANGED);
    const struct sim_part *system = part_of(n, "system"), *board = part_of(n, "board");
    const char *serial = other ? "SN-OTHER-MACHINE" : n->serial;
    *m = (struct image){.data = {1}, .len = 8};
    begin_area(m, 2); /* chassis, FRU section 10 */
    add8(m, RACK_MOUNT);
    add_text(m, system->model);
    add_text(m, serial);
    end_area(m);
    begin_area(m, 3); /* board, FRU section 11: English, no date */
    for (int i = 0; i < 4; i++)
        add8(m, 0);
    add_text(m, maker);
    add_text(m, board->model);
    add_text(m, other ? "BOARD-OTHER" : board->serial);
    add_text(m, board->firmware);
    add_text(m, "");
    end_area(m);
    begin_area(m, 4); /* product, FRU section 12 */
    add8(m, 0);
    add_text(m, maker);
    add_text(m, system->model);
    add_text(m, system->model);
    add_text(m, system->firmware);
    add_text(m, serial);
    add_text(m, n->name);
    add_text(m, "");
    end_area(m);
    m->data[7] = ipmi_checksum(m->data, 7);
}

/* 34.1 */
void ipmi_fru_info(struct ipmi_call *c)
{
    if (c->data[0] != 0) {
        c->completion = CC_NOT_PRESENT;
        return;
    }
    ipmi_put16(c, FRU_SIZE);
    ipmi_put8(c, 0); /* by bytes */
}

/* 34.2 */
void ipmi_fru_read(struct ipmi_call *c)
{
    struct image m;
    size_t at = c->data[1] | (size_t)c->data[2] << 8, count = c->data[3];
    if (c->data[0] != 0)
        c->completion = CC_NOT_PRESENT;
    else if (at >= FRU_SIZE)
        c->completion = CC_RANGE;
    else if (count > READ_MAX)
        c->completion = CC_TOO_MANY;
    if (c->completion != CC_OK)
        return;
    build_fru(c->bmc->node, &m);
    count = count < FRU_SIZE - at ? count : FRU_SIZE - at;
    ipmi_put8(c, (unsigned)count);
    ipmi_put(c, m.data + at, count);
}

/* ---- SEL: power on and off ---- */

static uint32_t wall_of(const struct ipmi_bmc *b, int64_t at)
{
    const struct sim *s = b->node->sim;
    return (uint32_t)((loop_wall(s->loop) - (loop_now(s->loop) - at)) / 1000);
}

static void add_event(struct ipmi_bmc *b, bool on, uint32_t time)
{
    if (b->sel_count == IPMI_SEL_SIZE) {
        memmove(b->sel, b->sel + 1, (IPMI_SEL_SIZE - 1) * sizeof b->sel[0]);
        b->sel_count--;
        b->sel_reservation++; /* ids that were told are gone */
    }
    if (++b->sel_last_id == NO_MORE)
        b->sel_last_id = 1;
    b->sel[b->sel_count++] = (struct ipmi_sel_entry){.time = time, .id = b->sel_last_id, .on = on};
}

/* What happened to the machine since the log was last looked at: on and off take turns. Of several
 * turns only the last one's time is known. */
static void catch_up(struct ipmi_bmc *b)
{
    const struct sim_node *n = b->node;
    int64_t ons = n->count.power_ons - b->seen_ons, offs = n->count.power_offs - b->seen_offs;
    uint32_t on_at = wall_of(b, n->power_since),
             off_at = n->on ? on_at : wall_of(b, n->phase_since);
    b->seen_ons += ons;
    b->seen_offs += offs;
    bool on = ons > offs || (ons == offs && !n->on);
    for (int64_t left = ons + offs; left > 0; left--, on = !on)
        if (left <= IPMI_SEL_SIZE)
            add_event(b, on, on ? on_at : off_at);
}

/* 31.2 */
void ipmi_sel_info(struct ipmi_call *c)
{
    struct ipmi_bmc *b = c->bmc;
    catch_up(b);
    ipmi_put8(c, 0x51);
    ipmi_put16(c, (unsigned)b->sel_count);
    ipmi_put16(c, (unsigned)((IPMI_SEL_SIZE - b->sel_count) * SEL_RECORD));
    ipmi_put32(c, b->sel_count > 0 ? b->sel[b->sel_count - 1].time : UINT32_MAX);
    ipmi_put32(c, UINT32_MAX); /* never erased */
    ipmi_put8(c, 0x02);        /* can be reserved */
}

/* 31.4 */
void ipmi_sel_reserve(struct ipmi_call *c)
{
    catch_up(c->bmc);
    if (++c->bmc->sel_reservation == 0)
        c->bmc->sel_reservation = 1;
    ipmi_put16(c, c->bmc->sel_reservation);
}

static int find_event(const struct ipmi_bmc *b, unsigned id)
{
    if (id == 0)
        return b->sel_count > 0 ? 0 : -1;
    if (id == NO_MORE)
        return b->sel_count - 1;
    for (int i = 0; i < b->sel_count; i++)
        if (b->sel[i].id == id)
            return i;
    return -1;
}

/* The part [at, at + count) of a record; count FFh is all of it. */
static void put_part(struct ipmi_call *c, const uint8_t *record, size_t len, size_t at,
                     size_t count)
{
    if (at >= len) {
        c->completion = CC_RANGE;
        return;
    }
    ipmi_put(c, record + at, count < len - at ? count : len - at);
}

/* 31.5, and 32.1 for the record */
void ipmi_sel_entry(struct ipmi_call *c)
{
    struct ipmi_bmc *b = c->bmc;
    unsigned reservation = c->data[0] | (unsigned)c->data[1] << 8;
    catch_up(b);
    int i = find_event(b, c->data[2] | (unsigned)c->data[3] << 8);
    if (c->data[4] != 0 && reservation != b->sel_reservation)
        c->completion = CC_RESERVATION;
    else if (i < 0)
        c->completion = CC_NOT_PRESENT;
    if (c->completion != CC_OK)
        return;
    const struct ipmi_sel_entry *e = &b->sel[i];
    uint8_t r[SEL_RECORD] = {(uint8_t)e->id, (uint8_t)(e->id >> 8), 0x02};
    put_le32(r + 3, e->time);
    r[7] = 0x20; /* generated by the BMC */
    r[9] = 0x04; /* IPMI 2.0 event */
    r[10] = TYPE_ACPI_STATE;
    r[11] = SENSOR_STATE;
    r[12] = EVENT_SPECIFIC;
    r[13] = e->on ? ACPI_WORKING : ACPI_SOFT_OFF;
    r[14] = r[15] = 0xff;
    ipmi_put16(c, i + 1 < b->sel_count ? b->sel[i + 1].id : NO_MORE);
    put_part(c, r, sizeof r, c->data[4], c->data[5]);
}

/* ---- SDR repository ---- */

static size_t finish_sdr(uint8_t *r, size_t at, unsigned id, uint8_t type, const char *name)
{
    size_t len = strlen(name);
    r[0] = (uint8_t)id;
    r[2] = 0x51;
    r[3] = type;
    r[at] = (uint8_t)(FIELD_ASCII | len);
    memcpy(r + at + 1, name, len);
    len += at + 1;
    r[4] = (uint8_t)(len - 5);
    return len;
}

/* 43.1: a reading without thresholds, value = raw * step */
static size_t full_sdr(uint8_t *r, unsigned id, uint8_t sensor, uint8_t step, const char *name)
{
    bool temperature = sensor == SENSOR_TEMPERATURE;
    r[5] = 0x20;
    r[7] = sensor;
    r[8] = temperature ? ENTITY_INLET : ENTITY_BOARD;
    r[9] = 1;
    r[10] = 0x7f; /* scanning and events are on from the start */
    r[11] = 0x43; /* re-arms itself, no thresholds, no events of its own */
    r[12] = temperature ? TYPE_TEMPERATURE : TYPE_OTHER;
    r[13] = EVENT_THRESHOLD;
    r[21] = temperature ? UNIT_DEGREES : UNIT_WATTS;
    r[24] = step;
    r[35] = 0xff; /* the highest and lowest raw reading */
    return finish_sdr(r, 47, id, 0x01, name);
}

/* 43.2: the machine's power state */
static size_t compact_sdr(uint8_t *r, unsigned id, const char *name)
{
    r[5] = 0x20;
    r[7] = SENSOR_STATE;
    r[8] = ENTITY_BOARD;
    r[9] = 1;
    r[10] = 0x67;
    r[11] = 0x40;
    r[12] = TYPE_ACPI_STATE;
    r[13] = EVENT_SPECIFIC;
    r[14] = r[18] = 1 << ACPI_WORKING | 1 << ACPI_SOFT_OFF;
    r[20] = 0xc0; /* no analogue reading */
    r[23] = 1;    /* one sensor has this record */
    return finish_sdr(r, 31, id, 0x02, name);
}

/* 43.9: the BMC itself; 43.8: the FRU device */
static size_t locator_sdr(uint8_t *r, unsigned id, uint8_t type, const char *name)
{
    r[5] = 0x20;
    if (type == 0x12) {
        r[8] = 0x0f; /* FRU, SEL, SDR, sensors */
    } else {
        r[7] = 0x80; /* a logical device */
        r[10] = 0x10;
    }
    r[12] = ENTITY_BOARD;
    r[13] = 1;
    return finish_sdr(r, 15, id, type, name);
}

static size_t build_sdr(unsigned id, uint8_t r[SDR_MAX])
{
    memset(r, 0, SDR_MAX);
    switch (id) {
    case 1:
        return locator_sdr(r, id, 0x12, "BMC");
    case 2:
        return locator_sdr(r, id, 0x11, "Machine");
    case 3:
        return full_sdr(r, id, SENSOR_TEMPERATURE, 1, "Inlet Temp");
    case 4:
        return full_sdr(r, id, SENSOR_POWER, WATTS_STEP, "Power");
    default:
        return compact_sdr(r, id, "Power State");
    }
}

/* 33.9 */
void ipmi_sdr_info(struct ipmi_call *c)
{
    ipmi_put8(c, 0x51);
    ipmi_put16(c, SDR_COUNT);
    ipmi_put16(c, 0); /* no room for more */
    ipmi_put32(c, 0); /* never changed */
    ipmi_put32(c, 0);
    ipmi_put8(c, 0x02); /* can be reserved */
}

/* 33.11 */
void ipmi_sdr_reserve(struct ipmi_call *c)
{
    if (++c->bmc->sdr_reservation == 0)
        c->bmc->sdr_reservation = 1;
    ipmi_put16(c, c->bmc->sdr_reservation);
}

/* 33.12 */
void ipmi_sdr_get(struct ipmi_call *c)
{
    uint8_t record[SDR_MAX];
    unsigned reservation = c->data[0] | (unsigned)c->data[1] << 8;
    unsigned id = c->data[2] | (unsigned)c->data[3] << 8;
    id = id == 0 ? 1 : id == NO_MORE ? SDR_COUNT : id;
    if (id > SDR_COUNT)
        c->completion = CC_NOT_PRESENT;
    else if (c->data[4] != 0 && reservation != c->bmc->sdr_reservation)
        c->completion = CC_RESERVATION;
    if (c->completion != CC_OK)
        return;
    size_t len = build_sdr(id, record);
    ipmi_put16(c, id < SDR_COUNT ? id + 1 : NO_MORE);
    put_part(c, record, len, c->data[4], c->data[5]);
}

/* ---- sensors, 35.14 ---- */

void ipmi_sensor_reading(struct ipmi_call *c)
{
    const struct sim_node *n = c->bmc->node;
    double watts = machine_watts(n);
    unsigned reading = 0, states = 0;
    switch (c->data[0]) {
    case SENSOR_TEMPERATURE: /* the air of the aisle, a bit warmer in front of a busy machine */
        reading = 20 + sim_draw(n, "inlet temperature", 6) + (watts > 2000 ? 2 : 0);
        break;
    case SENSOR_POWER:
        reading = watts > 255.0 * WATTS_STEP ? 255 : (unsigned)lround(watts / WATTS_STEP);
        break;
    case SENSOR_STATE:
        states = machine_power_shown(n) ? 1 << ACPI_WORKING : 1 << ACPI_SOFT_OFF;
        break;
    default:
        c->completion = CC_NOT_PRESENT;
        return;
    }
    ipmi_put8(c, reading);
    ipmi_put8(c, 0xc0); /* events and scanning are on */
    ipmi_put8(c, c->data[0] == SENSOR_STATE ? states : 0xc0);
    ipmi_put8(c, 0x80);
}
