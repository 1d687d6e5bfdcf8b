/* CSV files as tables, and as the nodes of a spec. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/spec.h"
#include "text/csv.h"

static const char profile[] = "profile: lab\n"
                              "stages:\n"
                              "  - {stage: racked, proves: a}\n"
                              "  - {stage: validated, proves: c}\n";
static const char spec_text[] = "cluster: t\n"
                                "networks: {provision: {cidr: 10.0.0.0/24}}\n"
                                "credentials: {bmc: {user: u, password: {file: f}}}\n"
                                "classes: {a: {profile: lab}}\n"
                                "racks: {r1: }\n"
                                "nodes: [{from: c.csv, rack: r1}]\n";

static void read_spec(const uint8_t *data, size_t size)
{
    struct bundle files, specs;
    struct diags d;
    diags_init(&d);
    bundle_init(&files);
    bundle_init(&specs);
    bundle_add(&files, "lab.yaml", profile, strlen(profile));
    bundle_add(&specs, "spec.yaml", spec_text, strlen(spec_text));
    bundle_add(&specs, "c.csv", (const char *)data, size);
    struct profiles *profiles = profiles_parse(&files, &d);
    struct spec *spec = spec_parse(&specs, profiles, &d);
    if ((spec == NULL) != (d.errors > 0))
        abort();
    spec_free(spec);
    profiles_free(profiles);
    bundle_done(&files);
    bundle_done(&specs);
    diags_done(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct diags d;
    diags_init(&d);
    struct csv *csv = csv_parse("f", (const char *)data, size, &d);
    if ((csv == NULL) != (d.errors > 0))
        abort();
    for (int i = 0; csv != NULL && i < csv->rows; i++)
        for (int c = 0; c < csv->columns; c++)
            if (strlen(csv_at(csv, i, c)->text) > CSV_MAX_CELL || csv_at(csv, i, c)->line < 1)
                abort();
    csv_free(csv);
    diags_done(&d);
    read_spec(data, size);
    return 0;
}
