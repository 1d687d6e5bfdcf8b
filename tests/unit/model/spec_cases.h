/* The profiles that the tests of specs name, and what most of their specs begin with. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../diags_text.h"
#include "base/mem.h"
#include "model/spec.h"

static const char profile_text[] =
    "profile: lab\n"
    "vars: {driver: '580', swappiness: 1}\n"
    "hardware: {gpus: 8, hcas: 8, cpus: 96, memory_mib: 2097152, gpu_model: H100}\n"
    "stages:\n"
    "  - {stage: racked, proves: a}\n"
    "  - {stage: fabric-tested, proves: b, after: racked}\n"
    "  - {stage: scheduler, proves: b, after: racked}\n"
    "  - {stage: validated, proves: c}\n";
static const char bare_text[] = "profile: bare\n"
                                "extends: lab\n"
                                "hardware: {gpus: 8, hcas: 3, cpus: 16, memory_mib: 65536}\n"
                                "stages:\n"
                                "  - {stage: fabric-tested, drop: true}\n"
                                "  - {stage: scheduler, drop: true}\n";
static const char unfinished_text[] = "profile: unfinished\n"
                                      "stages:\n"
                                      "  - {stage: racked, proves: a}\n"
                                      "  - {stage: installed, proves: b, after: racked, wipes: "
                                      "true}\n"
                                      "  - {stage: validated, proves: c}\n";

static const char grouped_text[] =
    "profile: grouped\n"
    "extends: lab\n"
    "stages:\n"
    "  - stage: fabric-tested\n"
    "    deadline: 1h\n"
    "    steps:\n"
    "      - {group: rack, server: a.sh, client: b.sh, measure: ib-write-bw}\n"
    "      - {group: rail, server: a.sh, client: b.sh, measure: ib-write-bw}\n";

static struct profiles *profiles;

static int setup(void **state)
{
    struct bundle b;
    struct diags d;
    (void)state;
    bundle_init(&b);
    diags_init(&d);
    bundle_add(&b, "lab.yaml", profile_text, strlen(profile_text));
    bundle_add(&b, "bare.yaml", bare_text, strlen(bare_text));
    bundle_add(&b, "grouped.yaml", grouped_text, strlen(grouped_text));
    bundle_add(&b, "unfinished.yaml", unfinished_text, strlen(unfinished_text));
    profiles = profiles_parse(&b, &d);
    char *problems = diags_text(&d);
    if (problems[0] != '\0')
        fprintf(stderr, "# %s", problems);
    int rc = problems[0] != '\0';
    free(problems);
    bundle_done(&b);
    diags_done(&d);
    return rc;
}

static int teardown(void **state)
{
    (void)state;
    profiles_free(profiles);
    return 0;
}

/* What most specs of this file need around their nodes. Lines are counted from the nodes' key. */
#define HEAD                                                                                       \
    "cluster: t\n"                                                                                 \
    "networks: {provision: {cidr: 10.0.0.0/24, dhcp: 10.0.0.100-10.0.0.120}}\n"                    \
    "credentials: {bmc: {user: admin, password: {file: pw}}, ssh: {key: {file: k}}}\n"             \
    "classes: {a: {profile: lab}}\n"                                                               \
    "racks: {r1: }\n"                                                                              \
    "nodes:\n" /* line 6 */

static struct spec *parse(const char *yaml, const char *csv, struct diags *d)
{
    struct bundle b;
    bundle_init(&b);
    bundle_add(&b, "s", yaml, strlen(yaml));
    if (csv != NULL)
        bundle_add(&b, "c.csv", csv, strlen(csv));
    struct spec *spec = spec_parse(&b, profiles, d);
    assert_int_equal(spec == NULL, d->errors > 0);
    bundle_done(&b);
    return spec;
}

static struct spec *good(const char *yaml, const char *csv)
{
    struct diags d;
    diags_init(&d);
    struct spec *spec = parse(yaml, csv, &d);
    char *problems = diags_text(&d);
    assert_string_equal(problems, "");
    free(problems);
    diags_done(&d);
    return spec;
}
