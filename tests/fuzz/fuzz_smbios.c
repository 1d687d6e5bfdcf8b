/* SMBIOS tables as firmware leaves them. */
#include <stdint.h>
#include <stdlib.h>

#include "probe/smbios.c"

static void each(const struct smbios *s, void *user)
{
    (void)user;
    for (size_t offset = 0; offset < 40; offset++) {
        free(smbios_string(s, offset));
        (void)smbios_u32(s, offset);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    smbios_each(data, size, each, NULL);
    return 0;
}
