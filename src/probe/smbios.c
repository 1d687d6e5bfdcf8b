/* SMBIOS structures as the firmware leaves them in memory (DMTF DSP0134, sections 6.1 and 7). */
#include <string.h>

#include "base/mem.h"
#include "probe/probe.h"

enum { HEADER = 4, STRUCTURES_MAX = 4096 };

void smbios_each(const unsigned char *table, size_t len,
                 void (*fn)(const struct smbios *s, void *user), void *user)
{
    size_t at = 0;
    for (int i = 0; i < STRUCTURES_MAX && at + HEADER <= len; i++) {
        size_t formatted = table[at + 1];
        if (formatted < HEADER || at + formatted + 2 > len)
            return;
        size_t end = at + formatted;
        while (end + 1 < len && (table[end] != 0 || table[end + 1] != 0))
            end++;
        if (end + 1 >= len)
            return;
        struct smbios s = {.type = table[at],
                           .data = table + at,
                           .len = formatted,
                           .strings = (const char *)table + at + formatted,
                           .strings_len = end + 1 - (at + formatted)};
        fn(&s, user);
        if (s.type == 127) /* end of table */
            return;
        at = end + 2;
    }
}

char *smbios_string(const struct smbios *s, size_t offset)
{
    unsigned wanted = offset < s->len ? s->data[offset] : 0;
    const char *p = s->strings, *end = s->strings + s->strings_len;
    for (unsigned i = 1; i < wanted && p < end; i++)
        p += strnlen(p, (size_t)(end - p)) + 1;
    if (wanted == 0 || p >= end || *p == '\0')
        return NULL;
    return xstrndup(p, strnlen(p, (size_t)(end - p)));
}

unsigned smbios_u16(const struct smbios *s, size_t offset)
{
    return offset + 2 <= s->len ? s->data[offset] | (unsigned)s->data[offset + 1] << 8 : 0;
}

unsigned long smbios_u32(const struct smbios *s, size_t offset)
{
    return offset + 4 <= s->len
               ? smbios_u16(s, offset) | (unsigned long)smbios_u16(s, offset + 2) << 16
               : 0;
}
