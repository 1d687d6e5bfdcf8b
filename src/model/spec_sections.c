/* The sections of a spec that later stages use as they are: limits, fabric, targets. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "model/spec_read.h"

/* ---- limits ---- */

struct raw_limits {
    int64_t installs, ssh, power_on_per_rack, bmc, per_rack_installs, bmc_gap;
};

enum { BMC_GAP_MS = 20 };

static bool gap_ok(const struct ynode *value, struct strbuf *why)
{
    int64_t ms;
    if (clock_parse_duration(value->text, &ms, NULL) == 0 && ms <= 10000)
        return true;
    strbuf_adds(why, "must be a time of at most 10s, such as 50ms");
    return false;
}

#define LIMIT(name_, help_)                                                                        \
    {                                                                                              \
        .key = #name_, .type = FIELD_INT, .offset = offsetof(struct raw_limits, name_), .min = 1,  \
        .max = 10000, .help = help_                                                                \
    }

void read_limits(struct reader *r, const struct ynode *map)
{
    static const struct field rows[] = {
        LIMIT(installs, "installs at once"),
        LIMIT(ssh, "SSH sessions at once"),
        LIMIT(power_on_per_rack, "machines of a rack switched on at once"),
        LIMIT(bmc, "BMC operations at once"),
        LIMIT(per_rack_installs, "installs in a rack at once"),
        {.key = "bmc_gap",
         .type = FIELD_DURATION,
         .offset = offsetof(struct raw_limits, bmc_gap),
         .check = gap_ok,
         .help = "the least time between two commands to one BMC: 20ms"},
        {0}};
    struct raw_limits raw = {64, 256, 8, 256, 0, BMC_GAP_MS};
    if (map != NULL)
        (void)schema_read(rows, map, "'limits'", &raw, r->d);
    r->spec->limits = (struct spec_limits){(int)raw.installs,          (int)raw.ssh,
                                           (int)raw.power_on_per_rack, (int)raw.bmc,
                                           (int)raw.per_rack_installs, raw.bmc_gap};
}

/* ---- what is kept as JSON ---- */

/* Members are written by the readers of rows and not looked at: the checked text is what is kept.
 */
struct raw_section {
    int choice;
    int64_t whole;
    double number;
    const char *text;
};

#define NUMBER(key_, min_, max_, help_)                                                            \
    {                                                                                              \
        .key = key_, .type = FIELD_NUMBER, .offset = offsetof(struct raw_section, number),         \
        .min = min_, .max = max_, .help = help_                                                    \
    }
#define WHOLE(key_, min_, max_, help_)                                                             \
    {                                                                                              \
        .key = key_, .type = FIELD_INT, .offset = offsetof(struct raw_section, whole),             \
        .min = min_, .max = max_, .help = help_                                                    \
    }
#define CHOICE(key_, names_, help_)                                                                \
    {                                                                                              \
        .key = key_, .type = FIELD_ENUM, .offset = offsetof(struct raw_section, choice),           \
        .names = names_, .help = help_                                                             \
    }
#define TEXT(key_, check_, help_)                                                                  \
    {                                                                                              \
        .key = key_, .type = FIELD_TEXT, .offset = offsetof(struct raw_section, text),             \
        .check = check_, .help = help_                                                             \
    }

static json_t *read_section(struct reader *r, const struct ynode *map, const struct field *rows,
                            const char *what)
{
    struct raw_section raw = {0};
    if (map == NULL || !schema_read(rows, map, what, &raw, r->d))
        return NULL;
    return ynode_json(map, false);
}

/* "400G", "400Gb/s", "NDR": what a port runs at. */
static bool rate_ok(const struct ynode *value, struct strbuf *why)
{
    char *end;
    double number = strtod(value->text, &end);
    static const char *const units[] = {"", "G", "g", "Gb/s", "Gbit/s", "Gbps"};
    for (size_t i = 0; value->text[0] >= '0' && value->text[0] <= '9' && i < ARRAY_LEN(units); i++)
        if (strcmp(end, units[i]) == 0 && number > 0 && number <= 100000)
            return true;
    strbuf_adds(why, "must be the rate of a port in Gb/s, such as 400G");
    return false;
}

json_t *read_fabric(struct reader *r, const struct ynode *map)
{
    static const struct name types[] = {{0, "infiniband"}, {1, "roce"}, {2, "ethernet"}, {0, NULL}};
    static const struct name topologies[] = {
        {0, "fat-tree"}, {1, "rail-optimized"}, {2, "single-switch"}, {0, NULL}};
    static const struct field rows[] = {
        CHOICE("type", types, "the kind of fabric"),
        CHOICE("topology", topologies, "how leaves and spines are joined"),
        TEXT("rate", rate_ok, "the rate of a port: 400G"),
        WHOLE("rails", 1, 64, "rails"),
        WHOLE("leaf_ports", 1, 1024, "ports of a leaf switch"),
        WHOLE("uplinks_per_leaf", 0, 1024, "ports of a leaf that go up"),
        {0}};
    return read_section(r, map, rows, "'fabric'");
}

json_t *read_targets(struct reader *r, const struct ynode *map)
{
    static const struct field rows[] = {
        NUMBER("allreduce_busbw_gbs", 0, 1e6, "GB/s of a collective on all nodes"),
        NUMBER("gpu_utilisation", 0, 1, "share of a GPU's peak in a training step"),
        NUMBER("storage_read_gbs", 0, 1e6, "GB/s read from storage"),
        {0}};
    return read_section(r, map, rows, "'targets'");
}
