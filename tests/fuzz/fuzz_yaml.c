/* YAML documents, schema rows and whole specs: the same bytes through all three. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/spec.h"
#include "text/schema.h"
#include "text/yaml.h"

static const char profile[] = "profile: lab\n"
                              "vars: {driver: '580', swappiness: 1}\n"
                              "hardware: {gpus: 8, hcas: 8, memory_mib: 65536}\n"
                              "stages:\n"
                              "  - {stage: racked, proves: a}\n"
                              "  - {stage: validated, proves: c}\n";
static const char csv[] = "name,mac\nc1,525400000001\nc2,525400000002\n";

struct out {
    const char *text;
    int64_t whole, duration;
    double number;
    bool truth;
    const struct ynode *node;
};

static void read_rows(const struct ynode *root, struct diags *d)
{
    static const struct field rows[] = {
        {.key = "a", .type = FIELD_TEXT, .offset = offsetof(struct out, text)},
        {.key = "b", .type = FIELD_INT, .offset = offsetof(struct out, whole), .min = 1, .max = 9},
        {.key = "c",
         .type = FIELD_NUMBER,
         .offset = offsetof(struct out, number),
         .required = true},
        {.key = "d", .type = FIELD_BOOL, .offset = offsetof(struct out, truth)},
        {.key = "e", .type = FIELD_DURATION, .offset = offsetof(struct out, duration)},
        {.key = "f", .type = FIELD_TEXTS, .offset = offsetof(struct out, node)},
        {0}};
    struct out out = {0};
    (void)schema_read(rows, root, "'it'", &out, d);
}

static void read_spec(const uint8_t *data, size_t size, struct diags *d)
{
    struct bundle files, specs;
    bundle_init(&files);
    bundle_init(&specs);
    bundle_add(&files, "lab.yaml", profile, strlen(profile));
    bundle_add(&specs, "spec.yaml", (const char *)data, size);
    bundle_add(&specs, "c.csv", csv, strlen(csv));
    struct profiles *profiles = profiles_parse(&files, d);
    int errors = d->errors;
    struct spec *spec = spec_parse(&specs, profiles, d);
    if ((spec == NULL) != (d->errors > errors))
        abort(); /* no spec without a reason, none with one */
    if (spec != NULL) {
        spec_lint(spec, d);
        for (int i = 0; i < spec->node_count; i++)
            if (spec_find_node(spec, spec->nodes[i].name) != i)
                abort(); /* two nodes of one name */
    }
    spec_free(spec);
    profiles_free(profiles);
    spec_wants_free(spec_wants(&specs));
    bundle_done(&files);
    bundle_done(&specs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct diags d;
    diags_init(&d);
    struct ydoc *doc = ydoc_parse("f", (const char *)data, size, &d);
    if (doc != NULL) {
        json_decref(ynode_json(ydoc_root(doc), size % 2));
        read_rows(ydoc_root(doc), &d);
    }
    ydoc_free(doc);
    read_spec(data, size, &d);
    diags_sort(&d);
    for (int i = 0; i < d.count; i++) {
        json_t *text = json_string(d.items[i].text);
        if (text == NULL)
            abort(); /* the API carries diagnostics as JSON */
        json_decref(text);
    }
    diags_done(&d);
    return 0;
}
