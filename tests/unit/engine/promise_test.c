/* A plan is a promise: on random profiles, specs and changes, what runs after an apply is what the
 * plan said, node by node and stage by stage. Runs on virtual time; a seed reproduces a failure. */
#include "world.h"

#include "engine/node.h"
#include "engine/step.h"

enum { STAGES_MAX = 14, VARS = 6, SCRIPTS = 8, NODES_MAX = 6, ROUNDS = 12, WORLDS = 80 };

static struct loop *loop;
static struct store *store;
static struct engine *engine;
static unsigned seed;

/* ---- the world that changes ---- */

static struct {
    int stage_count;
    int needs[STAGES_MAX], after[STAGES_MAX]; /* bit sets of earlier stages */
    int vars[STAGES_MAX];
    int script[STAGES_MAX][2];
    bool wipes[STAGES_MAX], gpu[STAGES_MAX];
    int value[2][VARS]; /* of the two classes */
    int text[SCRIPTS];  /* which edition of each script */
    bool node[NODES_MAX];
    int klass[NODES_MAX];
    int failing; /* the script that fails, -1: none */
} w;

static int draw(int below)
{
    return (int)((unsigned)rand_r(&seed) % (unsigned)below);
}

static bool chance(int percent)
{
    return draw(100) < percent;
}

static void make_world(void)
{
    memset(&w, 0, sizeof w);
    w.failing = -1;
    w.stage_count = 3 + draw(STAGES_MAX - 3);
    int wiping = chance(70) ? draw(w.stage_count) : -1;
    for (int i = 0; i < w.stage_count; i++) {
        for (int j = 0; j < i; j++) {
            if (chance(25))
                w.needs[i] |= 1 << j;
            else if (chance(25))
                w.after[i] |= 1 << j;
        }
        w.vars[i] = draw(1 << VARS) & draw(1 << VARS);
        w.script[i][0] = draw(SCRIPTS);
        w.script[i][1] = chance(40) ? draw(SCRIPTS) : -1;
        w.wipes[i] = i == wiping;
        w.gpu[i] = !w.wipes[i] && chance(15);
    }
    for (int i = 0; i < NODES_MAX; i++) {
        w.node[i] = chance(60);
        w.klass[i] = draw(2);
    }
    w.node[0] = true;
}

static void add_names(struct strbuf *sb, const char *key, int set, const char *prefix)
{
    if (set == 0)
        return;
    bool first = true;
    strbuf_addf(sb, ", %s: [", key);
    for (int i = 0; i < 31; i++)
        if (set & 1 << i) {
            strbuf_addf(sb, "%s%s%d", first ? "" : ", ", prefix, i);
            first = false;
        }
    strbuf_adds(sb, "]");
}

static void write_profile(struct strbuf *sb, const char *name, int gpus)
{
    strbuf_addf(sb, "profile: %s\nvars: {", name);
    for (int i = 0; i < VARS; i++)
        strbuf_addf(sb, "%sv%d: 0", i ? ", " : "", i);
    strbuf_addf(sb,
                "}\nhardware: {gpus: %d}\ninstall: {image: os.raw, disk: largest}\nstages:\n"
                "- {stage: racked}\n",
                gpus);
    for (int i = 0; i < w.stage_count; i++) {
        strbuf_addf(sb, "- {stage: s%d", i);
        add_names(sb, "needs", w.needs[i], "s");
        add_names(sb, "after", w.after[i], "s");
        add_names(sb, "vars", w.vars[i], "v");
        strbuf_addf(sb, ", deadline: 1m%s%s, steps: [{%s}", w.wipes[i] ? ", wipes: true" : "",
                    w.gpu[i] ? ", skip_unless: gpu" : "",
                    w.wipes[i] ? "netboot: install" : "bmc: verify");
        for (int k = 0; k < 2; k++)
            if (w.script[i][k] >= 0)
                strbuf_addf(sb, ", {run: f%d.sh}", w.script[i][k]);
        strbuf_adds(sb, "]}\n");
    }
    strbuf_adds(sb, "- {stage: validated}\n");
}

static void write_spec(struct strbuf *sb)
{
    strbuf_adds(sb, "cluster: c\ncredentials: {bmc: {user: u, password: {file: f}}}\nclasses:\n");
    for (int k = 0; k < 2; k++) {
        strbuf_addf(sb, "  k%d: {profile: p%d, vars: {", k, k);
        for (int i = 0; i < VARS; i++)
            strbuf_addf(sb, "%sv%d: %d", i ? ", " : "", i, w.value[k][i]);
        strbuf_adds(sb, "}}\n");
    }
    strbuf_adds(sb, "nodes:\n");
    for (int i = 0; i < NODES_MAX; i++)
        if (w.node[i])
            strbuf_addf(sb, "- {name: n%d, class: k%d, bmc: 10.0.0.%d}\n", i, w.klass[i], i + 1);
}

static struct spec *parse(struct profiles **ret_profiles, char **ret_text)
{
    struct bundle profiles, spec;
    struct diags d;
    struct strbuf p0, p1, s;
    bundle_init(&profiles);
    bundle_init(&spec);
    diags_init(&d);
    strbuf_init(&p0, 65536);
    strbuf_init(&p1, 65536);
    strbuf_init(&s, 65536);
    write_profile(&p0, "p0", 0);
    write_profile(&p1, "p1", 8);
    write_spec(&s);
    bundle_add(&profiles, "p0.yaml", p0.data, p0.len);
    bundle_add(&profiles, "p1.yaml", p1.data, p1.len);
    bundle_add(&spec, "s.yaml", s.data, s.len);
    *ret_profiles = profiles_parse(&profiles, &d);
    struct spec *parsed = spec_parse(&spec, *ret_profiles, &d);
    if (parsed == NULL)
        fail_msg("%s\n%s%s", d.count > 0 ? d.items[0].text : "?", p1.data, s.data);
    *ret_text = xasprintf("[\"%s\"]", "spec");
    strbuf_done(&p0);
    strbuf_done(&p1);
    strbuf_done(&s);
    diags_done(&d);
    bundle_done(&profiles);
    bundle_done(&spec);
    return parsed;
}

/* ---- steps that note who ran ---- */

static json_t *ran; /* {"node stage": attempts} */

static void over(void *user)
{
    struct step_run *run = user;
    struct err err = {0};
    char name[16];
    (void)snprintf(name, sizeof name, "f%d.sh", w.failing);
    if (strcmp(run->def->what, name) == 0)
        (void)err_set(&err, ERR_FAILED, "%s fails", name);
    step_done(run, &err, "observed");
}

static int start(struct step_run *run, struct err *err)
{
    (void)err;
    if (run->index == 0) {
        char *key = xasprintf("%s %s", run->node->name, run->stage->name);
        json_int_t before = json_integer_value(json_object_get(ran, key));
        (void)json_object_set_new(ran, key, json_integer(before + 1));
        free(key);
    }
    timer_set(loop, &run->timer, 100 + draw(2000), over, run);
    return 0;
}

static const struct step_type fake_bmc = {.name = "bmc", .start = start};
static const struct step_type fake_netboot = {.name = "netboot", .start = start};
static const struct step_type fake_run = {.name = "run", .start = start};
static const struct step_type *const types[] = {&fake_bmc, &fake_netboot, &fake_run, NULL};

static bool find_file(const char *path, struct engine_file *ret, void *user)
{
    static char shas[SCRIPTS][24];
    int i = atoi(path + 1);
    (void)user;
    (void)snprintf(shas[i], sizeof shas[i], "edition-%d", w.text[i]);
    *ret = (struct engine_file){"x", 1, shas[i]};
    return true;
}

static void secret_id(const char *text, char hex[65], void *user)
{
    (void)text;
    (void)user;
    (void)snprintf(hex, 65, "id");
}

/* ---- plan, apply, compare ---- */

/* What the plan promises: {"node stage": 1}. Stages without steps run, too, but leave no trace
 * here.
 */
static json_t *promised(const json_t *plan)
{
    json_t *out = json_object(), *node, *stage;
    size_t i, j;
    json_array_foreach(json_object_get(plan, "nodes"), i, node)
    {
        json_array_foreach(json_object_get(node, "stages"), j, stage)
        {
            const char *name = json_string_value(json_object_get(stage, "name"));
            if (name[0] != 's')
                continue;
            char *key = xasprintf("%s %s", json_string_value(json_object_get(node, "name")), name);
            (void)json_object_set_new(out, key, json_integer(1));
            free(key);
        }
    }
    return out;
}

static bool depends_on_failed(const struct enode *n, int stage)
{
    const struct stage_def *def = n->stages[stage].def;
    char **lists[] = {def->needs, def->after};
    for (int l = 0; l < 2; l++)
        for (int i = 0; lists[l] != NULL && lists[l][i] != NULL; i++) {
            int at = node_stage_index(n, lists[l][i]);
            if (at >= 0 && (!stage_satisfied(&n->stages[at]) || depends_on_failed(n, at)))
                return true;
        }
    return false;
}

/* A promised stage that did not run must stand behind one that failed. */
static bool excused(const char *key)
{
    char node[16], stage[16];
    if (w.failing < 0 || sscanf(key, "%15s %15s", node, stage) != 2)
        return false;
    const struct enode *n = engine_find(engine, node);
    return n != NULL && depends_on_failed(n, node_stage_index(n, stage));
}

static void compare(const json_t *plan, unsigned world, int round)
{
    json_t *want = promised(plan), *value;
    const char *key;
    json_object_foreach(want, key, value)
    {
        if (json_object_get(ran, key) == NULL && !excused(key))
            fail_msg("world %u round %d: the plan promised %s, and it did not run", world, round,
                     key);
    }
    json_object_foreach(ran, key, value)
    {
        if (json_object_get(want, key) == NULL)
            fail_msg("world %u round %d: %s ran and the plan had not said so", world, round, key);
        if (json_integer_value(value) != 1)
            fail_msg("world %u round %d: %s ran %d times", world, round, key,
                     (int)json_integer_value(value));
    }
    json_decref(want);
}

static void change_world(char **ret_reinstall)
{
    *ret_reinstall = NULL;
    for (int i = 0; i < 3; i++) {
        switch (draw(7)) {
        case 0:
        case 1:
            w.value[draw(2)][draw(VARS)] = draw(4);
            break;
        case 2:
            w.text[draw(SCRIPTS)]++;
            break;
        case 3:
            w.node[draw(NODES_MAX)] = chance(60);
            w.node[0] = true;
            break;
        case 4:
            w.failing = chance(50) ? draw(SCRIPTS) : -1;
            break;
        case 5:
            w.klass[draw(NODES_MAX)] = draw(2);
            break;
        default:
            if (*ret_reinstall == NULL)
                *ret_reinstall = xstrdup("n0");
            break;
        }
    }
}

/* Now and then only some nodes or stages. */
static void draw_order(struct engine_order *o, char stage[8])
{
    if (chance(20) && (o->reinstall == NULL || w.node[0]))
        o->limit = o->reinstall != NULL ? "n[0-5]&n0" : "n0";
    (void)snprintf(stage, 8, "s%d", draw(w.stage_count));
    if (o->reinstall != NULL)
        return;
    if (chance(10))
        o->only = stage;
    else if (chance(10))
        o->from = stage;
}

static void play_round(unsigned world, int round)
{
    struct profiles *profiles;
    struct err err = {0};
    char *text, *reinstall, stage[8];
    change_world(&reinstall);
    struct engine_order order = {.reinstall = reinstall};
    draw_order(&order, stage);
    struct spec *spec = parse(&profiles, &text);
    json_t *plan = engine_plan(engine, spec, &order, &err), *applied = NULL;
    assert_non_null(plan);
    ran = json_object();
    if (engine_apply(engine, spec, profiles, text, "tester", &order, &applied, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(json_string_value(json_object_get(plan, "hash")),
                        json_string_value(json_object_get(applied, "hash")));
    loop_run_for(loop, 3600000);
    compare(plan, world, round);
    json_decref(plan);
    json_decref(applied);
    json_decref(ran);
    free(text);
    free(reinstall);
}

static void play_world(unsigned world)
{
    struct err err = {0};
    seed = world;
    make_world();
    loop = loop_new_virtual(WORLD_BEGINS);
    if (store_open(loop, ":memory:", &store, &err) < 0)
        fail_msg("%s", err.text);
    struct engine_config c = {.loop = loop,
                              .store = store,
                              .step_types = types,
                              .file = find_file,
                              .secret = world_secret,
                              .secret_id = secret_id,
                              .artefact = world_artefact,
                              .seed = 7};
    engine = engine_new(&c);
    for (int round = 0; round < ROUNDS; round++)
        play_round(world, round);
    engine_free(engine);
    store_close(store);
    assert_int_equal(loop_free(loop), 0);
}

static void what_ran_is_what_the_plan_said(void **state)
{
    (void)state;
    const char *one = getenv("PROMISE_WORLD");
    if (one != NULL) {
        play_world((unsigned)strtoul(one, NULL, 10));
        return;
    }
    for (unsigned world = 1; world <= WORLDS; world++)
        play_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_ran_is_what_the_plan_said)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
