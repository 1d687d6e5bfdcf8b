/* Profiles: the shipped ladders, extending, order, and every message that a wrong file can get. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../diags_text.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "model/profile.h"

/* Texts of profiles; the file of each is called as the profile is. */
static struct profiles *parse(const char *const *texts, struct diags *d)
{
    struct bundle b;
    bundle_init(&b);
    diags_init(d);
    for (int i = 0; texts[i] != NULL; i++) {
        int len = 0;
        const char *name = strstr(texts[i], "profile: ");
        if (name != NULL)
            len = (int)strcspn(name += 9, ",}\n");
        char *path = len > 0 ? xasprintf("%.*s.yaml", len, name) : xstrdup("none.yaml");
        bundle_add(&b, path, texts[i], strlen(texts[i]));
        free(path);
    }
    struct profiles *set = profiles_parse(&b, d);
    bundle_done(&b);
    return set;
}

static struct profiles *parse_good(const char *const *texts)
{
    struct diags d;
    struct profiles *set = parse(texts, &d);
    char *said = diags_text(&d);
    assert_string_equal(said, "");
    free(said);
    diags_done(&d);
    return set;
}

static char *order(const struct profile *p)
{
    struct strbuf sb;
    strbuf_init(&sb, 4096);
    for (int i = 0; i < p->stage_count; i++)
        strbuf_addf(&sb, "%s%s", i ? " " : "", p->stages[i].name);
    char *text = strbuf_take(&sb);
    strbuf_done(&sb);
    return text;
}

static char *joined(char **words)
{
    struct strbuf sb;
    strbuf_init(&sb, 4096);
    for (int i = 0; words[i] != NULL; i++)
        strbuf_addf(&sb, "%s%s", i ? " " : "", words[i]);
    char *text = strbuf_take(&sb);
    strbuf_done(&sb);
    return text;
}

#define assert_order(p, want)                                                                      \
    do {                                                                                           \
        char *order_ = order(p);                                                                   \
        assert_string_equal(order_, want);                                                         \
        free(order_);                                                                              \
    } while (0)
#define assert_words(words, want)                                                                  \
    do {                                                                                           \
        char *words_ = joined(words);                                                              \
        assert_string_equal(words_, want);                                                         \
        free(words_);                                                                              \
    } while (0)

/* ---- what is shipped ---- */

static char *read_file(const char *path)
{
    char *text;
    size_t len;
    struct err err = {0};
    if (fs_read(path, 1 << 20, &text, &len, &err) < 0)
        fail_msg("%s", err.text);
    return text;
}

static struct profiles *shipped(void)
{
    glob_t found;
    assert_int_equal(glob("profiles/*.yaml", 0, NULL, &found), 0);
    char **texts = xcalloc(found.gl_pathc + 1, sizeof *texts);
    for (size_t i = 0; i < found.gl_pathc; i++)
        texts[i] = read_file(found.gl_pathv[i]);
    struct profiles *set = parse_good((const char *const *)texts);
    assert_int_equal(profiles_count(set), (int)found.gl_pathc);
    for (size_t i = 0; i < found.gl_pathc; i++)
        free(texts[i]);
    free(texts);
    globfree(&found);
    return set;
}

/* What goes stale with what is the point of the ladder, so all of it is written down here. */
static void test_ladder(void **state)
{
    (void)state;
    static const struct {
        const char *name, *needs, *after, *hardware;
        bool wipes, reboots;
        const char *skip_unless;
    } rows[] = {
        {"racked", "", "", "", false, false, NULL},
        {"reachable", "", "racked", "", false, false, NULL},
        {"identified", "reachable", "", "system board bmc", false, true, NULL},
        {"inventoried", "identified", "", "system board cpu memory disk nic gpu hca bmc psu", false,
         false, NULL},
        {"installed", "", "inventoried", "disk", true, true, NULL},
        {"online", "installed", "", "", false, false, NULL},
        {"tuned", "online", "", "cpu memory", false, false, NULL},
        {"fabric", "online", "tuned", "nic hca", false, false, "hca"},
        {"gpu", "online", "fabric", "gpu", false, false, "gpu"},
        {"node-tested", "tuned", "gpu", "cpu memory disk", false, false, NULL},
        {"fabric-tested", "fabric", "node-tested", "", false, false, "hca"},
        {"validated",
         "racked reachable identified inventoried installed online tuned fabric gpu node-tested "
         "fabric-tested",
         "", "", false, false, NULL},
    };
    struct profiles *set = shipped();
    static const char *const names[] = {"base", "lab"};
    for (size_t k = 0; k < ARRAY_LEN(names); k++) {
        const struct profile *p = profiles_find(set, names[k]);
        assert_non_null(p);
        assert_int_equal(p->stage_count, (int)ARRAY_LEN(rows));
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
            const struct stage_def *s = &p->stages[i];
            assert_string_equal(s->name, rows[i].name);
            assert_words(s->needs, rows[i].needs);
            assert_words(s->after, rows[i].after);
            assert_words(s->hardware, rows[i].hardware);
            assert_int_equal(s->wipes, rows[i].wipes);
            assert_int_equal(s->reboots, rows[i].reboots);
            assert_true(s->proves != NULL);
            if (rows[i].skip_unless != NULL)
                assert_string_equal(s->skip_unless, rows[i].skip_unless);
            else
                assert_null(s->skip_unless);
        }
    }
    profiles_free(set);
}

/* The script of every shipped step is there, and every variable that it documents reaches it. */
static void test_scripts_exist(void **state)
{
    (void)state;
    struct profiles *set = shipped();
    int scripts = 0;
    for (int k = 0; k < profiles_count(set); k++) {
        const struct profile *p = profiles_at(set, k);
        for (int i = 0; i < p->stage_count; i++)
            for (int j = 0; j < p->stages[i].step_count; j++) {
                const struct step_def *step = &p->stages[i].steps[j];
                const char *files[] = {strcmp(step->type, "run") == 0 ? step->what : NULL,
                                       json_string_value(json_object_get(step->params, "server")),
                                       json_string_value(json_object_get(step->params, "client"))};
                for (size_t f = 0; f < ARRAY_LEN(files); f++) {
                    if (files[f] == NULL)
                        continue;
                    char *path = xasprintf("templates/%s", files[f]);
                    char *text = read_file(path);
                    for (char **v = p->stages[i].vars; *v != NULL; v++)
                        if (strstr(text, *v) == NULL)
                            fail_msg("%s does not use %s", path, *v);
                    free(text);
                    free(path);
                    scripts++;
                }
            }
    }
    assert_true(scripts >= 8);
    profiles_free(set);
}

static void test_lab(void **state)
{
    (void)state;
    struct profiles *set = shipped();
    const struct profile *base = profiles_find(set, "base"), *lab = profiles_find(set, "lab");
    assert_string_equal(profile_lacks(base), "it installs, but its 'install' names no 'image'");
    assert_null(profile_lacks(lab));
    assert_string_equal(json_string_value(json_object_get(lab->install, "image")),
                        "lab-os.raw.zst");
    assert_string_equal(json_string_value(json_object_get(lab->install, "disk")), "largest");
    assert_string_equal(json_string_value(json_object_get(lab->install, "method")), "image");
    assert_int_equal(lab->bom.gpus, 0);
    assert_int_equal(lab->bom.hcas, 1);
    assert_int_equal(lab->bom.disk_gb, 1);
    assert_int_equal(lab->bom.cpus, -1);
    assert_int_equal(base->bom.hcas, -1);
    assert_string_equal(json_string_value(json_object_get(lab->vars, "test_mib")), "32");
    assert_string_equal(json_string_value(json_object_get(base->vars, "test_mib")), "256");
    assert_string_equal(json_string_value(json_object_get(lab->vars, "swappiness")), "1");
    const struct stage_def *fabric = profile_stage(lab, "fabric");
    assert_string_equal(fabric->steps[0].what, "fabric/soft-roce.sh");
    assert_string_equal(profile_stage(base, "fabric")->steps[0].what, "node");
    assert_int_equal(fabric->deadline_ms, 15 * 60000); /* from base's row */
    profiles_free(set);
}

/* ---- what docs/profiles.md says ---- */

/* Every ```yaml block of the page that begins a profile is one, and all together are right. */
static void test_docs(void **state)
{
    (void)state;
    char *page = read_file("docs/profiles.md");
    char *base = read_file("profiles/base.yaml");
    const char *texts[16] = {base};
    int count = 1;
    for (char *at = page; (at = strstr(at, "```yaml\n")) != NULL;) {
        at += 8;
        char *end = strstr(at, "```");
        assert_non_null(end);
        assert_true(count < 15);
        if (strncmp(at, "profile: ", 9) == 0)
            texts[count++] = xstrndup(at, (size_t)(end - at));
        at = end + 3;
    }
    assert_true(count >= 3);
    struct profiles *set = parse_good(texts);
    const struct profile *p = profiles_find(set, "h100");
    assert_order(p, "racked reachable identified inventoried installed online tuned fabric gpu "
                    "node-tested site-checked validated");
    assert_string_equal(json_string_value(json_object_get(p->vars, "swappiness")), "10");
    assert_int_equal(p->bom.gpus, 8);
    assert_int_equal(profile_stage(p, "tuned")->step_count, 2);
    assert_words(profile_stage(p, "tuned")->hardware, "cpu memory");
    static const char *const types[] = {"bmc",   "netboot", "wait",    "run",  "copy",
                                        "probe", "check",   "measure", "group"};
    const struct stage_def *all = profile_stage(profiles_find(set, "all-steps"), "everything");
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        int seen = 0;
        for (int k = 0; k < all->step_count; k++)
            seen += strcmp(all->steps[k].type, types[i]) == 0;
        assert_true(seen > 0);
    }
    profiles_free(set);
    for (int i = 1; i < count; i++)
        free((char *)texts[i]);
    free(base);
    free(page);
}

/* The word after each step type, and each key, has its line in the page. */
static void test_docs_complete(void **state)
{
    (void)state;
    static const char *const words[] = {
        "bmc: verify", "bmc: identity", "power-on", "power-off", "power-cycle", "boot-pxe",
        "boot-disk", "netboot: discover", "netboot: install", "wait: ssh", "run: SCRIPT",
        "copy: FILE", "probe: node", "check: identity", "bom", "hcas", "check: driver",
        "measure: node-test", "ib-write-bw", "group: pair", "`timeout", "`to", "mode:", "count:",
        "rate_gbs:", "version:", "sweep:", "limits:", "server:", "client:", "floor:", "floor_gbs:",
        /* keys */
        "`profile`", "`extends`", "`vars`", "`hardware`", "`install`", "`stage`", "`proves`",
        "`after`", "`needs`", "`deadline`", "`retries`", "`backoff`", "`skip_unless`", "`wipes`",
        "`reboots`", "`drop`", "`steps`", "`cpus`", "`memory_mib`", "`nics`", "`disks`",
        "`disk_gb`", "`hcas`", "`gpus`", "`gpu_model`", "`image`", "`largest`", "`smallest`",
        "`serial=", "`/dev/", "CLUSTERD_NODE", "CLUSTERD_ADDRESS", "CLUSTERD_STAGE",
        "CLUSTERD_ATTEMPT", "CLUSTERD_PEER", "CLUSTERD_PEER_ADDRESS"};
    char *page = read_file("docs/profiles.md");
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strstr(page, words[i]) == NULL)
            fail_msg("docs/profiles.md does not explain %s", words[i]);
    free(page);
}

/* ---- extending and order ---- */

#define ENDS(rest)                                                                                 \
    "profile: p\nvars: {a: 1, floor: 2}\nstages:\n- stage: racked\n" rest "- stage: validated\n"

static void test_extends(void **state)
{
    (void)state;
    const char *texts[] = {
        /* the child comes first: the order of files means nothing */
        "profile: child\nextends: middle\nvars: {b: x y}\nhardware: {gpus: 4}\nstages:\n"
        "- {stage: two, retries: 7}\n- {stage: four, after: one, deadline: 1m}\n"
        "- {stage: three, drop: true}\n",
        "profile: middle\nextends: p\nhardware: {gpus: 2, gpu_model: H100}\nstages:\n"
        "- {stage: two, steps: [{run: b.sh}, {run: c.sh}], deadline: 2m}\n"
        "- {stage: three, needs: two, after: one}\n",
        ENDS("- {stage: one}\n"
             "- {stage: two, proves: it, after: one, vars: a, deadline: 1m, retries: 3, "
             "backoff: 5s, steps: [{run: a.sh}]}\n"),
        NULL};
    struct profiles *set = parse_good(texts);
    const struct profile *p = profiles_find(set, "child");
    assert_order(p, "racked one two four validated");
    assert_order(profiles_find(set, "middle"), "racked one two three validated");
    const struct stage_def *two = profile_stage(p, "two");
    assert_int_equal(two->retries, 7);          /* the child's */
    assert_int_equal(two->deadline_ms, 120000); /* the middle one's */
    assert_int_equal(two->backoff_ms, 5000);    /* the first one's */
    assert_string_equal(two->proves, "it");
    assert_words(two->vars, "a");
    assert_int_equal(two->step_count, 2); /* steps are replaced as a whole */
    assert_string_equal(two->steps[0].what, "b.sh");
    assert_string_equal(two->file, "child.yaml");
    assert_string_equal(two->steps[0].file, "middle.yaml");
    assert_int_equal(p->bom.gpus, 4);
    assert_string_equal(p->bom.gpu_model, "H100");
    assert_string_equal(json_string_value(json_object_get(p->vars, "b")), "x y");
    assert_string_equal(json_string_value(json_object_get(p->vars, "a")), "1");
    assert_null(profiles_find(set, "none"));
    assert_null(profile_stage(p, "three"));
    profiles_free(set);
}

/* A site's file takes the place of a shipped one of the same name. */
static void test_replaces(void **state)
{
    (void)state;
    const char *texts[] = {ENDS("- stage: shipped\n"), ENDS("- stage: own\n"), NULL};
    struct profiles *set = parse_good(texts);
    assert_int_equal(profiles_count(set), 1);
    assert_order(profiles_find(set, "p"), "racked own validated");
    profiles_free(set);
}

static void test_order(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } rows[] = {
        {ENDS(""), "racked validated"},
        {ENDS("- {stage: b}\n- {stage: a}\n"), "racked b a validated"}, /* as written */
        {ENDS("- {stage: b, after: a}\n- {stage: c}\n- {stage: a}\n"), "racked c a b validated"},
        {ENDS("- {stage: d, needs: [b, c]}\n- {stage: c, after: b}\n- {stage: b}\n"),
         "racked b c d validated"},
        {"profile: p\nstages:\n- stage: validated\n- {stage: x, after: racked}\n- stage: racked\n",
         "racked x validated"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *texts[] = {rows[i].text, NULL};
        struct profiles *set = parse_good(texts);
        assert_order(profiles_at(set, 0), rows[i].want);
        profiles_free(set);
    }
}

/* Order after a stage that was dropped is forgotten, also two profiles further. */
static void test_drop(void **state)
{
    (void)state;
    const char *texts[] = {
        ENDS("- {stage: one}\n- {stage: two, after: one}\n- {stage: three, after: [two, one]}\n"),
        "profile: q\nextends: p\nstages:\n- {stage: two, drop: true}\n",
        "profile: r\nextends: q\nstages:\n- {stage: one, drop: true}\n- {stage: four, after: "
        "two}\n",
        "profile: s\nextends: q\nstages:\n- {stage: two, deadline: 1m}\n", NULL};
    struct profiles *set = parse_good(texts);
    assert_order(profiles_find(set, "q"), "racked one three validated");
    assert_words(profile_stage(profiles_find(set, "q"), "three")->after, "one");
    assert_order(profiles_find(set, "r"), "racked three four validated");
    assert_words(profile_stage(profiles_find(set, "r"), "three")->after, "");
    assert_words(profile_stage(profiles_find(set, "r"), "validated")->needs, "racked three four");
    assert_order(profiles_find(set, "s"), "racked one two three validated"); /* back again */
    assert_words(profile_stage(profiles_find(set, "s"), "three")->after, "two one");
    profiles_free(set);
}

/* ---- every message ---- */

#define ONE(row) ENDS("- {stage: one, deadline: 1m, " row "}\n")
#define STEPS(steps) ENDS("- {stage: one, deadline: 1m, steps: [" steps "]}\n")
#define CHILD(rest) "profile: q\nextends: p\n" rest
#define GOOD ENDS("- {stage: one}\n- {stage: two, needs: one}\n")

static const struct error_row {
    const char *texts[3];
    const char *want;
} errors[] = {
    /* files */
    {{"stages: []\n"}, "none.yaml:1:1: missing key 'profile' in a profile: its name\n"},
    {{"[]\n"}, "none.yaml:1:1: a profile must be a mapping, not a list\n"},
    {{"profile: [\n"},
     "[.yaml:2:1: YAML syntax: did not find expected node content (while parsing a flow node)\n"},
    {{"profile: p\nstage: []\n"}, "p.yaml:2:1: unknown key 'stage', did you mean 'stages'?\n"},
    {{"profile: P 1\nstages: []\n"},
     "P 1.yaml:1:10: 'profile' must be a name of lower-case letters, digits, '-', '_' and '.', at "
     "most 64\n"},
    {{"{profile: p, stages: {}}"}, "p.yaml:1:22: 'stages' must be a list, not a mapping\n"},
    {{"# profile: other\nprofile: p\nstages: [{stage: racked}, {stage: validated}]\n"},
     "other.yaml:2:10: profile 'p' belongs in a file p.yaml\n"},
    /* extends */
    {{"profile: p\nextends: bas\n", "profile: base\nextends: q\n", NULL},
     "base.yaml:2:10: unknown profile 'q', did you mean 'p'?\n"
     "p.yaml:2:10: unknown profile 'bas', did you mean 'base'?\n"},
    {{"profile: p\nextends: q\n", "profile: q\nextends: p\n", NULL},
     "q.yaml:2:10: profile 'q' extends itself, by way of 'p'\n"},
    {{"profile: p\nextends: p\n"}, "p.yaml:2:10: profile 'p' extends itself, by way of 'p'\n"},
    {{GOOD, CHILD("stages: [{stage: thre, drop: true}]\n")},
     "q.yaml:3:10: there is no stage 'thre' to drop\n"},
    {{GOOD, CHILD("stages: [{stage: one, drop: true}]\n")},
     "p.yaml:6:23: stage 'two' needs 'one', which profile 'q' drops\n"},
    {{GOOD, CHILD("stages: [{stage: validated, drop: true}]\n")},
     "q.yaml:1:1: profile 'q': the last stage must be 'validated'\n"},
    {{ONE("steps: [{run: 1}], steps: []"), NULL},
     "p.yaml:5:49: the key 'steps' is given twice, first in line 5\n"},
    /* vars */
    {{"profile: p\nvars: {A: 1, 9a: 2, b: [1]}\nstages: [{stage: racked}, {stage: "
      "validated}]\n"},
     "p.yaml:2:8: 'A' cannot be a variable: use lower-case letters, digits and '_'\n"
     "p.yaml:2:14: '9a' cannot be a variable: use lower-case letters, digits and '_'\n"
     "p.yaml:2:24: variable 'b' must be text or a number, not a list\n"},
    {{ONE("vars: [a, b]")}, "p.yaml:5:40: stage 'one': the profile's 'vars' do not declare 'b'\n"},
    /* hardware and install */
    {{"profile: p\nhardware: {gpu: 1, cpus: -1, disks: many}\n"},
     "p.yaml:2:12: unknown key 'gpu', did you mean 'gpus'?\n"
     "p.yaml:2:26: 'cpus' must be a whole number from 0 to 65536, not a number\n"
     "p.yaml:2:37: 'disks' must be a whole number from 0 to 4096, not text\n"},
    {{"profile: p\ninstall: {method: imag, disk: /dev/sda}\n"},
     "p.yaml:2:19: unknown install method 'imag', did you mean 'image'?\n"},
    {{"profile: p\ninstall: {image: ../x, disk: biggest, kernel: k}\n"},
     "p.yaml:2:18: 'image' must be the name of a file in the artefacts folder\n"
     "p.yaml:2:30: 'disk' must be 'largest', 'smallest', 'serial=SERIAL' or a path below /dev\n"
     "p.yaml:2:39: unknown key 'kernel': known are method, image, disk\n"},
    {{"profile: p\ninstall: {disk: serial=}\n"},
     "p.yaml:2:17: 'disk' must be 'largest', 'smallest', 'serial=SERIAL' or a path below /dev\n"},
    /* stages */
    {{"profile: p\nstages: []\n"}, "p.yaml:1:1: profile 'p': the first stage must be 'racked'\n"},
    {{"profile: p\nstages: [{stage: one}, {stage: racked}, {stage: validated}]\n"},
     "p.yaml:1:1: profile 'p': the first stage must be 'racked'\n"},
    {{"profile: p\nstages: [{stage: racked}]\n"},
     "p.yaml:1:1: profile 'p': the last stage must be 'validated'\n"},
    {{ENDS("- one\n- {stag: x}\n- {stage: a b}\n")},
     "p.yaml:5:3: a stage is a mapping that begins with {stage: NAME, ...}, not text\n"
     "p.yaml:6:4: unknown key 'stag', did you mean 'stage'?\n"
     "p.yaml:7:11: 'stage' must be a name of lower-case letters, digits, '-', '_' and '.', at most "
     "64\n"},
    {{ENDS("- {stage: one}\n- {stage: one}\n")},
     "p.yaml:6:3: stage 'one' is written twice, first at line 5\n"},
    {{ENDS("- {stage: one, steps: [{run: a.sh}]}\n")},
     "p.yaml:5:3: stage 'one' has steps but no deadline: add 'deadline: 10m'\n"},
    {{ENDS("- {stage: one, deadline: 10}\n")},
     "p.yaml:5:26: 'deadline' must be a time with its unit, such as 90s, 10m or 2h, not a "
     "number\n"},
    {{ENDS("- {stage: one, deadline: 1ms, backoff: 2h, retries: 101, wipes: maybe}\n")},
     "p.yaml:5:26: 'deadline' must be from 1s to 7d\n"
     "p.yaml:5:40: 'backoff' must be from 100ms to 30m\n"
     "p.yaml:5:53: 'retries' must be a whole number from 0 to 100, not a number\n"
     "p.yaml:5:65: 'wipes' must be true or false, not text\n"},
    {{ONE("hardware: [cpu, memori, gpus]")},
     "p.yaml:5:46: unknown kind of component 'memori', did you mean 'memory'?\n"
     "p.yaml:5:54: unknown kind of component 'gpus', did you mean 'gpu'?\n"},
    {{ONE("hardware: ram")},
     "p.yaml:5:40: unknown kind of component 'ram': known are system, board, bmc, cpu, memory, "
     "gpu, nic, hca, disk, psu\n"},
    {{ONE("skip_unless: cpu")},
     "p.yaml:5:43: unknown kind of component 'cpu', did you mean 'gpu'?\n"},
    {{ONE("after: rack, needs: [racked, one, zzzzzz]")},
     "p.yaml:5:37: unknown stage 'rack': known are racked, one, validated\n"
     "p.yaml:5:59: stage 'one': 'needs' names the stage itself\n"
     "p.yaml:5:64: unknown stage 'zzzzzz': known are racked, one, validated\n"},
    {{ONE("after: validated")}, "p.yaml:5:37: stage 'one': nothing comes after 'validated'\n"},
    {{ENDS("- {stage: a, after: b}\n- {stage: b, needs: c}\n- {stage: c, after: [racked, a]}\n"
           "- {stage: d, after: a}\n")},
     "p.yaml:5:3: 'after' and 'needs' form a circle: a -> b -> c -> a\n"},
    {{ENDS("- {stage: racked2, needs: racked}\n- {stage: x, after: y}\n- {stage: y, after: x}\n")},
     "p.yaml:6:3: 'after' and 'needs' form a circle: x -> y -> x\n"},
    /* steps */
    {{STEPS("run")},
     "p.yaml:5:38: a step is a mapping that begins with its type, such as {run: FILE}\n"},
    {{STEPS("{}")},
     "p.yaml:5:38: a step is a mapping that begins with its type, such as {run: FILE}\n"},
    {{STEPS("{rum: a.sh}")}, "p.yaml:5:39: unknown step 'rum', did you mean 'run'?\n"},
    {{STEPS("{run: }, {run: [a]}, {run: /a}, {run: a/../b}, {run: a//b}")},
     "p.yaml:5:44: 'run' must be followed by a path below templates/, not nothing\n"
     "p.yaml:5:53: 'run' must be followed by a path below templates/, not a list\n"
     "p.yaml:5:65: 'run' must be a path below templates/, without '..'\n"
     "p.yaml:5:76: 'run' must be a path below templates/, without '..'\n"
     "p.yaml:5:91: 'run' must be a path below templates/, without '..'\n"},
    {{STEPS("{bmc: verfy}, {netboot: x}, {wait: boot}, {probe: gpu}")},
     "p.yaml:5:44: unknown word after 'bmc' 'verfy', did you mean 'verify'?\n"
     "p.yaml:5:62: unknown word after 'netboot' 'x': known are discover, install\n"
     "p.yaml:5:73: unknown word after 'wait' 'boot': known are ssh\n"
     "p.yaml:5:88: unknown word after 'probe' 'gpu': known are node\n"},
    {{STEPS("{check: bom, timeout: 5s}, {run: a.sh, timout: 5s}")},
     "p.yaml:5:51: unknown parameter of 'check' 'timeout': known are count, rate_gbs, version, "
     "sweep\n"
     "p.yaml:5:77: unknown parameter of 'run' 'timout', did you mean 'timeout'?\n"},
    {{STEPS("{run: a.sh, timeout: 5}, {run: a.sh, timeout: [1]}, {run: a.sh, timeout: 2m}")},
     "p.yaml:5:59: 'timeout' must be a time with its unit, such as 90s, 10m or 2h\n"
     "p.yaml:5:84: 'timeout' must be text, not a list\n"},
    {{STEPS("{run: a.sh, timeout: 60s}, {run: b.sh, timeout: 61s}")},
     "p.yaml:5:65: step 'run: b.sh' may take 61s, longer than the stage's deadline\n"},
    {{STEPS("{copy: a}, {copy: a, to: b}, {copy: a, to: /b/../c}, {copy: a, to: /b, mode: '888'}")},
     "p.yaml:5:38: step 'copy: a' needs the parameter 'to'\n"
     "p.yaml:5:63: 'to' must be an absolute path on the node\n"
     "p.yaml:5:81: 'to' must be an absolute path on the node\n"
     "p.yaml:5:115: 'mode' must be a file mode in octal, such as \"0755\"\n"},
    {{STEPS("{check: hcas, count: 0}, {check: hcas, count: x}")},
     "p.yaml:5:59: 'count' must be a count from 1\n"
     "p.yaml:5:84: 'count' must be a count from 1\n"},
    {{STEPS("{measure: node-test}")},
     "p.yaml:5:38: 'measure: node-test' reads what a 'run' step before it printed\n"},
    {{STEPS("{run: a.sh}, {measure: nodetest}")},
     "p.yaml:5:61: unknown word after 'measure' 'nodetest', did you mean 'node-test'?\n"},
    {{STEPS("{run: a.sh}, {measure: node-test, limits: 5}")},
     "p.yaml:5:80: 'limits' must be a mapping of measured names, not a number\n"},
    {{STEPS("{run: a.sh}, {measure: node-test, limits: {x: 5}}")},
     "p.yaml:5:84: a limit is written as {min: NUMBER}, {max: NUMBER} or both\n"},
    {{STEPS("{run: a.sh}, {measure: node-test, limits: {x: {mim: 5}}}")},
     "p.yaml:5:85: unknown key 'mim', did you mean 'min'?\n"},
    {{STEPS("{run: a.sh}, {measure: node-test, limits: {x: {min: [5]}}}")},
     "p.yaml:5:90: 'min' must be a number or the name of a variable\n"},
    {{STEPS("{run: a.sh}, {measure: node-test, limits: {x: {min: 5, max: 4}}}")},
     "p.yaml:5:84: 'min' is above 'max', so nothing could pass\n"},
    {{STEPS("{run: a.sh}, {measure: node-test, limits: {x: {min: b, max: floor}}}")},
     "p.yaml:5:51: step 'measure: node-test': the profile's 'vars' do not declare 'b'\n"},
    {{"profile: p\nvars: {f: fast}\nstages:\n- stage: racked\n- {stage: one, deadline: 1m, steps: "
      "[{group: pair, server: s, client: c, measure: ib-write-bw, floor: f}]}\n- stage: "
      "validated\n"},
     "p.yaml:5:38: step 'group: pair': variable 'f' is a limit, so its default is a number\n"},
    {{STEPS("{group: pair}, {group: rali, server: s, client: c, measure: ib-write-bw}")},
     "p.yaml:5:38: step 'group: pair' needs the parameter 'server'\n"
     "p.yaml:5:38: step 'group: pair' needs the parameter 'client'\n"
     "p.yaml:5:38: step 'group: pair' needs the parameter 'measure'\n"
     "p.yaml:5:61: unknown word after 'group' 'rali', did you mean 'rail'?\n"},
    {{STEPS("{group: rack, server: s, client: c, measure: ib-write-bw, quorum: 0%, rounds: 0}")},
     "p.yaml:5:104: 'quorum' must be a share of the group, 1% to 100%\n"
     "p.yaml:5:116: 'rounds' must be a count from 1\n"},
    {{STEPS(
         "{group: rack, server: s, client: c, measure: ib-write-bw, quorum: 3, counts_for: both}")},
     "p.yaml:5:104: 'quorum' must be a share of the group, 1% to 100%\n"
     "p.yaml:5:119: 'counts_for' is for group: pair; in a larger group each result counts for "
     "both\n"},
    {{STEPS(
         "{group: pair, server: s, client: c, measure: ib-write-bw, gather: 5s, counts_for: all}")},
     "p.yaml:5:104: 'gather' is for group: rail, rack or cluster; a pair has no rounds\n"
     "p.yaml:5:120: 'counts_for' must be 'one' (who measured) or 'both' (its partner, too)\n"},
    {{STEPS("{group: cluster, server: s, client: c, measure: ib-write-bw, gather: 60s}")},
     "p.yaml:5:38: step 'group: cluster' gathers its members for 60s, and the stage's deadline is "
     "no later\n"},
    {{STEPS("{group: pair, server: s, client: c, measure: x, floor_gbs: -1}")},
     "p.yaml:5:83: unknown parser 'x': known are node-test, ib-write-bw\n"
     "p.yaml:5:97: 'floor_gbs' must be a number from 0\n"},
    {{STEPS("{group: pair, server: s, client: c, measure: ib-write-bw, floor: floor, floor_gbs: "
            "1}")},
     "p.yaml:5:103: give 'floor' (a variable) or 'floor_gbs' (a number), not both\n"},
    {{ENDS("- {stage: one, deadline: 1m, power: burnin, steps: [{run: a.sh}, {group: pair, server: "
           "s, client: c, measure: ib-write-bw}]}\n")},
     "p.yaml:5:3: stage 'one': 'power: burnin' with 'group: pair' would load a neighbour whose "
     "watts nobody reserved: use 'group: rack' or a stage without it\n"},
    {{STEPS("{check: bom, sweep: maybe}")}, "p.yaml:5:58: 'sweep' must be true or false\n"},
    {{STEPS("{probe: node, sweep: true}")},
     "p.yaml:5:52: unknown parameter of 'probe' 'sweep': known are timeout\n"},
    {{STEPS("{check: driver, version: branch}")},
     "p.yaml:5:38: step 'check: driver': the profile's 'vars' do not declare 'branch'\n"},
    {{STEPS("{netboot: install}")},
     "p.yaml:5:38: stage 'one' installs, so it needs 'wipes: true'\n"},
};

static void test_errors(void **state)
{
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
        const struct error_row *row = &errors[i];
        const char *texts[] = {row->texts[0], row->texts[1], row->texts[2], NULL};
        struct diags d;
        struct profiles *set = parse(texts, &d);
        char *said = diags_text(&d);
        if (strcmp(said, row->want) != 0) {
            print_message("# row %zu:\n%s# but want:\n%s", i, said, row->want);
            bad++;
        }
        assert_true(d.errors > 0);
        free(said);
        diags_done(&d);
        profiles_free(set);
    }
    assert_int_equal(bad, 0);
}

/* What would take long or much is refused: many stages, names, steps, profiles upon profiles. */
static void test_limits(void **state)
{
    (void)state;
    struct strbuf many;
    strbuf_init(&many, 1 << 20);
    strbuf_adds(&many, "profile: p\nstages:\n- stage: racked\n");
    for (int i = 0; i < 2000; i++)
        strbuf_addf(&many, "- {stage: s%d}\n", i);
    struct diags d;
    const char *texts[] = {many.data, NULL};
    struct profiles *set = parse(texts, &d);
    assert_string_equal(d.items[0].text, "a profile has at most 64 stages");
    assert_int_equal(d.errors, 1);
    profiles_free(set);
    diags_done(&d);

    strbuf_reset(&many);
    strbuf_adds(&many, "profile: p\nstages:\n- stage: racked\n- {stage: one, after: [");
    for (int i = 0; i < 100; i++)
        strbuf_adds(&many, "racked, ");
    strbuf_adds(&many, "racked]}\n- stage: validated\n");
    texts[0] = many.data;
    set = parse(texts, &d);
    assert_string_equal(d.items[0].text, "more than 64 names");
    profiles_free(set);
    diags_done(&d);
    strbuf_done(&many);

    char *chain[64] = {xstrdup("profile: n0\nstages: [{stage: racked}, {stage: validated}]\n")};
    for (int i = 1; i < 60; i++)
        chain[i] = xasprintf("profile: n%d\nextends: n%d\n", i, i - 1);
    set = parse((const char *const *)chain, &d);
    assert_int_equal(d.errors, 1);
    assert_string_equal(d.items[0].file, "n17.yaml");
    assert_string_equal(d.items[0].text, "more than 16 profiles extend each other");
    assert_non_null(profiles_find(set, "n16"));
    assert_null(profiles_find(set, "n17"));
    assert_null(profiles_find(set, "n59"));
    profiles_free(set);
    diags_done(&d);
    for (int i = 0; i < 60; i++)
        free(chain[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ladder),        cmocka_unit_test(test_scripts_exist),
        cmocka_unit_test(test_lab),           cmocka_unit_test(test_docs),
        cmocka_unit_test(test_docs_complete), cmocka_unit_test(test_extends),
        cmocka_unit_test(test_replaces),      cmocka_unit_test(test_order),
        cmocka_unit_test(test_drop),          cmocka_unit_test(test_errors),
        cmocka_unit_test(test_limits)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
