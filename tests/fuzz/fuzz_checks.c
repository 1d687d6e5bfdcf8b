/* Output of tools; the first byte chooses the parser. */
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "checks/checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err;
    struct values *v = xcalloc(1, sizeof *v);
    const char *parser = size % 2 ? "node-test" : "ib-write-bw";
    if (checks_parse(parser, (const char *)data, size, v, &err) == 0 && v->count < 1)
        abort();
    free(v);
    return 0;
}
