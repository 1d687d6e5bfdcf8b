/* Rows of profile files: their keys, and one stage out of the rows of its name. */
#include "model/profile_parse.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { WORDS_MAX = 64, STEPS_MAX = 64 };

static const char *const component_kinds[] = {"system", "board", "bmc", "cpu",  "memory",
                                              "gpu",    "nic",   "hca", "disk", "psu"};
/* parts of which it is known where they sit, whatever the kernel calls them */
static const char *const placed_kinds[] = {"cpu", "memory", "gpu", "nic", "hca", "psu"};
static const char *const skip_kinds[] = {"gpu", "hca", "nic", "disk"};

static bool name_ok(const struct ynode *value, struct strbuf *why)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
    size_t len = strlen(value->text);
    if (len > 0 && len <= 64 && strspn(value->text, allowed) == len)
        return true;
    strbuf_adds(why, "must be a name of lower-case letters, digits, '-', '_' and '.', at most 64");
    return false;
}

static bool within(const struct ynode *value, const char *least, const char *most,
                   struct strbuf *why)
{
    int64_t ms = 0, min = 0, max = 0;
    (void)clock_parse_duration(value->text, &ms, NULL);
    (void)clock_parse_duration(least, &min, NULL);
    (void)clock_parse_duration(most, &max, NULL);
    if (ms >= min && ms <= max)
        return true;
    strbuf_addf(why, "must be from %s to %s", least, most);
    return false;
}

static bool deadline_ok(const struct ynode *value, struct strbuf *why)
{
    return within(value, "1s", "7d", why);
}

static bool backoff_ok(const struct ynode *value, struct strbuf *why)
{
    return within(value, "100ms", "30m", why); /* it doubles up to 30 min */
}

static bool is_one_of(const char *word, const char *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i], word) == 0)
            return true;
    return false;
}

bool replacement_ok(const struct ynode *value, struct strbuf *why)
{
    if (strcmp(value->text, "ask") == 0 || strcmp(value->text, "auto") == 0)
        return true;
    strbuf_adds(why, "must be 'ask' or 'auto'");
    return false;
}

bool profile_file_check(const struct ynode *root, struct raw_file *ret, struct diags *d)
{
    static const struct field rows[] = {{.key = "profile",
                                         .type = FIELD_TEXT,
                                         .required = true,
                                         .offset = offsetof(struct raw_file, profile),
                                         .check = name_ok,
                                         .help = "its name"},
                                        {.key = "extends",
                                         .type = FIELD_TEXT,
                                         .offset = offsetof(struct raw_file, extends),
                                         .help = "the profile that it builds on"},
                                        {.key = "vars",
                                         .type = FIELD_MAP,
                                         .offset = offsetof(struct raw_file, vars),
                                         .help = "variables of scripts, with their defaults"},
                                        {.key = "hardware",
                                         .type = FIELD_MAP,
                                         .offset = offsetof(struct raw_file, hardware),
                                         .help = "what a node of this kind holds"},
                                        {.key = "install",
                                         .type = FIELD_MAP,
                                         .offset = offsetof(struct raw_file, install),
                                         .help = "how its operating system is installed"},
                                        {.key = "replacement",
                                         .type = FIELD_TEXT,
                                         .offset = offsetof(struct raw_file, replacement),
                                         .check = replacement_ok,
                                         .help = "of the machine by another: ask or auto"},
                                        {.key = "stages",
                                         .type = FIELD_LIST,
                                         .offset = offsetof(struct raw_file, stages),
                                         .help = "the stages"},
                                        {0}};
    return schema_read(rows, root, "a profile", ret, d);
}

#define STAGE_FIELD(key_, type_, member_, help_)                                                   \
    {                                                                                              \
        .key = key_, .type = type_, .offset = offsetof(struct raw_stage, member_), .help = help_   \
    }

static const struct name stage_powers[] = {
    {POWER_NORMAL, "normal"}, {POWER_BURNIN, "burnin"}, {0, NULL}};

static const struct field stage_rows[] = {
    {.key = "stage",
     .type = FIELD_TEXT,
     .required = true,
     .offset = offsetof(struct raw_stage, stage),
     .check = name_ok,
     .help = "its name"},
    STAGE_FIELD("proves", FIELD_TEXT, proves, "one sentence: proven when ..."),
    STAGE_FIELD("skip_unless", FIELD_TEXT, skip_unless, "a kind of component"),
    STAGE_FIELD("after", FIELD_TEXTS, after, "stages that come before it"),
    STAGE_FIELD("needs", FIELD_TEXTS, needs, "stages that it builds on"),
    STAGE_FIELD("hardware", FIELD_TEXTS, hardware, "kinds of components"),
    STAGE_FIELD("slots", FIELD_TEXTS, slots, "kinds of components whose place counts, too"),
    STAGE_FIELD("vars", FIELD_TEXTS, vars, "variables of its scripts"),
    STAGE_FIELD("steps", FIELD_LIST, steps, "its steps"),
    {.key = "deadline",
     .type = FIELD_DURATION,
     .offset = offsetof(struct raw_stage, deadline),
     .check = deadline_ok,
     .help = "of one attempt"},
    {.key = "retries",
     .type = FIELD_INT,
     .offset = offsetof(struct raw_stage, retries),
     .min = 0,
     .max = 100,
     .help = "further attempts after the first"},
    {.key = "backoff",
     .type = FIELD_DURATION,
     .offset = offsetof(struct raw_stage, backoff),
     .check = backoff_ok,
     .help = "the pause before the second attempt"},
    STAGE_FIELD("wipes", FIELD_BOOL, wipes, "it overwrites a disk"),
    STAGE_FIELD("reboots", FIELD_BOOL, reboots, "it restarts the machine"),
    {.key = "power",
     .type = FIELD_ENUM,
     .offset = offsetof(struct raw_stage, power),
     .names = stage_powers,
     .help = "what its machine draws meanwhile"},
    STAGE_FIELD("drop", FIELD_BOOL, drop, "leave this stage out"),
    {0}};

static bool words_ok(const struct ynode *n, const char *what, const char *const *known, int count,
                     struct diags *d)
{
    bool ok = true;
    for (int i = 0; n != NULL && n->kind == YNODE_LIST && i < n->count; i++)
        if (!is_one_of(n->items[i]->text, known, count)) {
            schema_unknown(n->items[i], d, what, n->items[i]->text, known, count);
            ok = false;
        }
    if (n != NULL && n->kind == YNODE_SCALAR && !is_one_of(n->text, known, count)) {
        schema_unknown(n, d, what, n->text, known, count);
        ok = false;
    }
    return ok;
}

static bool length_ok(const struct ynode *n, struct diags *d)
{
    if (n == NULL || n->kind != YNODE_LIST || n->count <= WORDS_MAX)
        return true;
    ynode_error(n, d, "more than %d names", WORDS_MAX);
    return false;
}

bool stage_row_check(const struct ynode *row, struct raw_stage *ret, struct diags *d)
{
    if (row->kind != YNODE_MAP) {
        ynode_error(row, d, "a stage is a mapping that begins with {stage: NAME, ...}, not %s",
                    ynode_kind_text(row));
        return false;
    }
    if (!schema_read(stage_rows, row, "a stage", ret, d))
        return false;
    bool ok = length_ok(ret->after, d) && length_ok(ret->needs, d) && length_ok(ret->vars, d);
    ok = words_ok(ret->hardware, "kind of component", component_kinds,
                  (int)ARRAY_LEN(component_kinds), d) &&
         ok;
    ok = words_ok(ret->slots, "kind of component with a place", placed_kinds,
                  (int)ARRAY_LEN(placed_kinds), d) &&
         ok;
    if (ret->skip_unless != NULL)
        ok = words_ok(ynode_get(row, "skip_unless"), "kind of component", skip_kinds,
                      (int)ARRAY_LEN(skip_kinds), d) &&
             ok;
    return ok;
}

/* ---- hardware and install ---- */

struct raw_bom {
    int64_t cpus, memory_mib, gpus, nics, hcas, disks, disk_gb;
    const char *gpu_model;
};

#define BOM_FIELD(name, limit, help_)                                                              \
    {                                                                                              \
        .key = #name, .type = FIELD_INT, .offset = offsetof(struct raw_bom, name), .min = 0,       \
        .max = limit, .help = help_                                                                \
    }

void hardware_read(const struct ynode *map, struct bom *bom, struct diags *d)
{
    static const struct field rows[] = {BOM_FIELD(cpus, 65536, "logical processors"),
                                        BOM_FIELD(memory_mib, 1e9, "MiB of memory, at least"),
                                        BOM_FIELD(gpus, 1024, "GPUs"),
                                        BOM_FIELD(nics, 1024, "network interfaces, at least"),
                                        BOM_FIELD(hcas, 1024, "RDMA devices"),
                                        BOM_FIELD(disks, 4096, "disks, at least"),
                                        BOM_FIELD(disk_gb, 1e9, "GB of the largest disk, at least"),
                                        {.key = "gpu_model",
                                         .type = FIELD_TEXT,
                                         .offset = offsetof(struct raw_bom, gpu_model),
                                         .help = "a part of the GPU's name"},
                                        {0}};
    struct raw_bom raw = {.cpus = bom->cpus,
                          .memory_mib = bom->memory_mib,
                          .gpus = bom->gpus,
                          .nics = bom->nics,
                          .hcas = bom->hcas,
                          .disks = bom->disks,
                          .disk_gb = bom->disk_gb,
                          .gpu_model = bom->gpu_model};
    if (map == NULL || !schema_update(rows, map, "'hardware'", &raw, d))
        return;
    *bom = (struct bom){.cpus = (int)raw.cpus,
                        .memory_mib = raw.memory_mib,
                        .gpus = (int)raw.gpus,
                        .gpu_model = (char *)raw.gpu_model, /* borrowed from the document */
                        .nics = (int)raw.nics,
                        .hcas = (int)raw.hcas,
                        .disks = (int)raw.disks,
                        .disk_gb = raw.disk_gb};
}

static bool disk_rule_ok(const struct ynode *value, struct strbuf *why)
{
    const char *t = value->text;
    if (strcmp(t, "largest") == 0 || strcmp(t, "smallest") == 0 ||
        (strncmp(t, "serial=", 7) == 0 && t[7] != '\0') ||
        (strncmp(t, "/dev/", 5) == 0 && t[5] != '\0'))
        return true;
    strbuf_adds(why, "must be 'largest', 'smallest', 'serial=SERIAL' or a path below /dev");
    return false;
}

static bool artefact_ok(const struct ynode *value, struct strbuf *why)
{
    if (path_is_inside(value->text))
        return true;
    strbuf_adds(why, "must be the name of a file in the artefacts folder");
    return false;
}

struct raw_install {
    const char *method, *image, *disk;
};

void install_read(const struct ynode *map, json_t *install, struct diags *d)
{
    static const char *const methods[] = {"image"};
    static const struct field rows[] = {{.key = "method",
                                         .type = FIELD_TEXT,
                                         .offset = offsetof(struct raw_install, method),
                                         .help = "how: image"},
                                        {.key = "image",
                                         .type = FIELD_TEXT,
                                         .offset = offsetof(struct raw_install, image),
                                         .check = artefact_ok,
                                         .help = "the disk image"},
                                        {.key = "disk",
                                         .type = FIELD_TEXT,
                                         .offset = offsetof(struct raw_install, disk),
                                         .check = disk_rule_ok,
                                         .help = "which disk"},
                                        {0}};
    struct raw_install raw = {0};
    if (map == NULL || !schema_update(rows, map, "'install'", &raw, d))
        return;
    if (raw.method != NULL && !is_one_of(raw.method, methods, (int)ARRAY_LEN(methods))) {
        schema_unknown(ynode_get(map, "method"), d, "install method", raw.method, methods,
                       (int)ARRAY_LEN(methods));
        return;
    }
    const char *keys[] = {"method", "image", "disk"};
    const char *values[] = {raw.method, raw.image, raw.disk};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (values[i] != NULL)
            (void)json_object_set_new(install, keys[i], json_string(values[i]));
}

/* ---- one stage ---- */

/* NULL-terminated, never NULL. */
static char **words_of(const struct ynode *n)
{
    int count = n == NULL ? 0 : n->kind == YNODE_LIST ? n->count : 1;
    char **words = xcalloc((size_t)count + 1, sizeof *words);
    for (int i = 0; i < count; i++)
        words[i] = xstrdup(n->kind == YNODE_LIST ? n->items[i]->text : n->text);
    return words;
}

static void words_free(char **words)
{
    for (int i = 0; words != NULL && words[i] != NULL; i++)
        free(words[i]);
    free(words);
}

static bool word_in(char *const *words, const char *word)
{
    for (; *words != NULL; words++)
        if (strcmp(*words, word) == 0)
            return true;
    return false;
}

static void read_steps(const struct ynode *list, struct stage_def *def, struct diags *d)
{
    if (list == NULL)
        return;
    if (list->count > STEPS_MAX) {
        ynode_error(list, d, "more than %d steps", STEPS_MAX);
        return;
    }
    def->steps = xcalloc((size_t)list->count + 1, sizeof *def->steps);
    for (int i = 0; i < list->count; i++)
        if (step_read(list->items[i], &def->steps[def->step_count], d))
            def->step_count++;
}

bool stage_build(const struct stage_chain *chain, struct stage_def *ret, struct diags *d)
{
    struct raw_stage raw = {0};
    int errors = d->errors;
    /* the nearest profile's keys go over those below it; the rows were checked one by one */
    for (int i = chain->count - 1; i >= 0; i--)
        (void)schema_update(stage_rows, chain->rows[i], "a stage", &raw, d);
    const struct ynode *row = chain->rows[0];
    *ret = (struct stage_def){.name = xstrdup(chain->name),
                              .proves = xstrdup(raw.proves),
                              .after = words_of(raw.after),
                              .needs = words_of(raw.needs),
                              .hardware = words_of(raw.hardware),
                              .slots = words_of(raw.slots),
                              .vars = words_of(raw.vars),
                              .deadline_ms = raw.deadline,
                              .retries = (int)raw.retries,
                              .backoff_ms = raw.backoff,
                              .skip_unless = xstrdup(raw.skip_unless),
                              .wipes = raw.wipes,
                              .reboots = raw.reboots,
                              .burnin = raw.power == POWER_BURNIN,
                              .file = xstrdup(row->file),
                              .line = row->line,
                              .column = row->column};
    read_steps(raw.steps, ret, d);
    for (int i = 0; i < ret->step_count && ret->burnin; i++)
        if (strcmp(ret->steps[i].type, "group") == 0 && strcmp(ret->steps[i].what, "pair") == 0)
            ynode_error(row, d,
                        "stage '%s': 'power: burnin' with 'group: pair' would load a neighbour "
                        "whose watts nobody reserved: use 'group: rack' or a stage without it",
                        ret->name);
    for (int i = 0; ret->slots[i] != NULL; i++)
        if (!word_in(ret->hardware, ret->slots[i]))
            ynode_error(row, d, "stage '%s': 'slots' names %s, which its 'hardware' does not",
                        ret->name, ret->slots[i]);
    if (ret->step_count > 0 && raw.deadline == 0)
        ynode_error(row, d, "stage '%s' has steps but no deadline: add 'deadline: 10m'", ret->name);
    if (d->errors == errors)
        return true;
    stage_def_done(ret);
    return false;
}

void stage_def_done(struct stage_def *def)
{
    for (int i = 0; i < def->step_count; i++)
        step_def_done(&def->steps[i]);
    free(def->steps);
    free(def->name);
    free(def->proves);
    free(def->skip_unless);
    free(def->file);
    words_free(def->after);
    words_free(def->needs);
    words_free(def->hardware);
    words_free(def->slots);
    words_free(def->vars);
    *def = (struct stage_def){0};
}
