/* Templates against a fixed value. */
#include <stdint.h>

#include "text/template.h"

static const char *partial(const char *name, void *user)
{
    (void)user;
    return name[0] == 'p' ? "{{#a}}{{>p}}{{b | shell}}{{/a}}\n" : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *value = json_loads(
        "{\"a\":[{\"b\":1},{\"b\":\"x'y\",\"a\":[]}],\"c\":{\"d\":null,\"e\":1.5}}", 0, NULL);
    struct strbuf sb;
    struct err err;
    struct template_options o = {.file = "t", .strict = size % 2, .partial = partial};
    strbuf_init(&sb, 1 << 16);
    (void)template_render((const char *)data, size, value, &o, &sb, &err);
    strbuf_done(&sb);
    json_decref(value);
    return 0;
}
