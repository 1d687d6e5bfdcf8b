/* What nodes answer: the status line of a run, the boot id. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "remote/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_status st;
    char boot[40];
    size_t next = 0;
    if (run_status_parse((const char *)data, size, &st, &next) == 0 &&
        (next > size || st.log_size < 0 || st.exit_code < -1 || st.exit_code > 255))
        abort();
    if (boot_id_parse((const char *)data, size, boot) == 0 && strlen(boot) != 36)
        abort();
    return 0;
}
