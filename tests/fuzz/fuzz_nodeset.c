/* Nodeset expressions: parse, fold, parse the folded form again: the same set. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/nodeset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xstrndup((const char *)data, size < 300 ? size : 300);
    struct err err;
    struct nodeset *set = nodeset_parse(text, &err);
    free(text);
    if (set != NULL && nodeset_count(set) < 3000) {
        struct strbuf sb;
        strbuf_init(&sb, 1 << 20);
        nodeset_fold(set, &sb);
        struct nodeset *again = nodeset_parse(sb.data, &err);
        if (again == NULL || nodeset_count(again) != nodeset_count(set))
            abort();
        for (int i = 0; i < nodeset_count(set); i++)
            if (strcmp(nodeset_at(set, i), nodeset_at(again, i)) != 0)
                abort();
        nodeset_free(again);
        strbuf_done(&sb);
    }
    nodeset_free(set);
    return 0;
}
