/*
 * A spec of 10,000 nodes, each in a row of its own: spec_parse() against libyaml's bare event parse
 * of the same text in the same run, and again at twice the size. Instructions double with the size
 * (callgrind counts them); time grows a little faster, by the caches that no longer hold the spec.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <yaml.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "model/spec.h"

enum { ROUNDS = 5 };

static const char profile[] = "profile: lab\n"
                              "vars: {driver: '580', swappiness: 1}\n"
                              "stages:\n"
                              "  - {stage: racked, proves: a}\n"
                              "  - {stage: validated, proves: c}\n";

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static char *make_spec(int nodes)
{
    struct strbuf sb;
    int racks = nodes / 8;
    strbuf_init(&sb, (size_t)16 << 20);
    strbuf_adds(&sb, "cluster: bench\n"
                     "networks: {provision: {cidr: 10.0.0.0/16, dhcp: 10.0.255.0-10.0.255.250}}\n"
                     "credentials: {bmc: {user: u, password: {file: f}}, ssh: {key: {file: k}}}\n"
                     "classes: {a: {profile: lab}, b: {profile: lab, vars: {driver: '570'}}}\n"
                     "racks:\n");
    for (int i = 0; i < racks; i++)
        strbuf_addf(&sb, "  r%04d: {}\n", i);
    strbuf_adds(&sb, "nodes:\n");
    for (int i = 0; i < nodes; i++)
        strbuf_addf(&sb,
                    "  - {name: gpu%05d, class: %c, rack: r%04d, unit: %d, bmc: 10.20.%d.%d, mac: "
                    "52:54:00:%02x:%02x:%02x, serial: SN%08d}\n",
                    i, 'a' + i % 2, i / 8 % racks, i % 8 * 5 + 1, i / 250, i % 250 + 1,
                    (unsigned)i >> 16, ((unsigned)i >> 8) & 255, (unsigned)i & 255, i);
    if (!strbuf_ok(&sb))
        abort();
    char *text = strbuf_take(&sb);
    strbuf_done(&sb);
    return text;
}

static double events_ms(const char *text, size_t len)
{
    double start = now_ms();
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        abort();
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    for (bool end = false; !end;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event))
            abort();
        end = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return now_ms() - start;
}

static double spec_ms(const struct bundle *b, const struct profiles *profiles, int nodes)
{
    struct diags d;
    diags_init(&d);
    double start = now_ms();
    struct spec *spec = spec_parse(b, profiles, &d);
    if (spec != NULL)
        spec_lint(spec, &d);
    double took = now_ms() - start;
    if (spec == NULL || spec->node_count != nodes) {
        printf("the spec was not read: %s\n", d.count > 0 ? d.items[0].text : "?");
        exit(1);
    }
    spec_free(spec);
    diags_done(&d);
    return took;
}

/* The best of some rounds: what the machine can do, not what disturbed it. */
static double measure(int nodes, const struct profiles *profiles)
{
    char *text = make_spec(nodes);
    size_t len = strlen(text);
    struct bundle b;
    double events = 1e9, spec = 1e9;
    bundle_init(&b);
    bundle_add(&b, "bench.yaml", text, len);
    for (int i = 0; i < ROUNDS; i++) {
        double t = events_ms(text, len);
        events = t < events ? t : events;
        t = spec_ms(&b, profiles, nodes);
        spec = t < spec ? t : spec;
    }
    printf("%6d nodes, %5zu KiB: libyaml's events %6.1f ms, spec and lint %6.1f ms, ratio %.2f\n",
           nodes, len / 1024, events, spec, spec / events);
    bundle_done(&b);
    free(text);
    return spec;
}

int main(void)
{
    struct bundle files;
    struct diags d;
    diags_init(&d);
    bundle_init(&files);
    bundle_add(&files, "lab.yaml", profile, strlen(profile));
    struct profiles *profiles = profiles_parse(&files, &d);
    double one = measure(10000, profiles), two = measure(20000, profiles);
    printf("twice the nodes take %.2f times as long\n", two / one);
    profiles_free(profiles);
    bundle_done(&files);
    diags_done(&d);
    return 0;
}
