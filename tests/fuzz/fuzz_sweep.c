/* What a node answers to a sweep. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "remote/remote.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct remote_sweep_answer a;
    char *text = xstrndup((const char *)data, size);
    if (remote_sweep_parse(text, size, &a, NULL) == 0) {
        size_t len = strlen(a.text);
        for (size_t i = 0; i < len; i++)
            if ((unsigned char)a.text[i] < ' ')
                __builtin_trap();
        if (a.verdict == SWEEP_FACTS && (a.facts < text || a.facts + a.facts_len > text + size))
            __builtin_trap();
    }
    free(text);
    return 0;
}
