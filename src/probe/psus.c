/* Power supplies, as the firmware lists them (SMBIOS type 39, DSP0134 7.40). */
#include <stdlib.h>

#include "base/mem.h"
#include "probe/probe.h"

enum { TABLE_MAX = 1 << 20, PSU = 39, PRESENT = 1 << 1, UNKNOWN_WATTS = 0x8000 };

static void add_psu(const struct smbios *s, void *user)
{
    if (s->type != PSU || s->len < 0x10)
        return;
    /* 7.40.1: bit 1 of the characteristics says that it is in its bay */
    if ((smbios_u16(s, 0x0E) & PRESENT) == 0)
        return;
    json_t *o = json_object();
    probe_set_text(o, "slot", smbios_string(s, 0x05));
    probe_set_text(o, "name", smbios_string(s, 0x06));
    probe_set_text(o, "manufacturer", smbios_string(s, 0x07));
    probe_set_text(o, "serial", smbios_string(s, 0x08));
    probe_set_text(o, "model", smbios_string(s, 0x0A));
    probe_set_text(o, "firmware", smbios_string(s, 0x0B));
    if (smbios_u16(s, 0x0C) != UNKNOWN_WATTS)
        (void)json_object_set_new(o, "watts", json_integer(smbios_u16(s, 0x0C)));
    (void)json_array_append_new(user, o);
}

void probe_psus(struct probe *p)
{
    size_t len;
    json_t *rows = json_array();
    unsigned char *table = probe_bytes(p, TABLE_MAX, &len, "/sys/firmware/dmi/tables/DMI");
    if (table != NULL)
        smbios_each(table, len, add_psu, rows);
    free(table);
    (void)json_object_set_new(p->out, "psus", rows);
}
