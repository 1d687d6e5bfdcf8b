/* The engine on virtual time, with steps that do what the test says. */
#include "world.h"

#include "engine/step.h"

static const char profile_text[] =
    "profile: p\nvars: {a: 1, b: 1}\ninstall: {image: os.raw, disk: largest}\nstages:\n"
    "- {stage: racked}\n"
    "- {stage: reachable, after: racked, deadline: 1m, retries: 2, backoff: 10s, steps: [{bmc: "
    "verify}]}\n"
    "- {stage: installed, after: reachable, deadline: 10m, wipes: true, steps: [{netboot: "
    "install}]}\n"
    "- {stage: tuned, needs: installed, vars: [a], deadline: 1m, steps: [{run: t.sh}]}\n"
    "- {stage: other, needs: installed, vars: [b], deadline: 1m, steps: [{run: o.sh}]}\n"
    "- {stage: last, needs: tuned, after: other, deadline: 1m, steps: [{run: l.sh}]}\n"
    "- {stage: gpu, needs: installed, skip_unless: gpu, deadline: 1m, steps: [{run: g.sh}]}\n"
    "- {stage: validated}\n";

static struct loop *loop;
static struct store *store;
static struct engine *engine;
static char db[] = "/tmp/clusterd-engine-XXXXXX";

/* What the steps do, and what was seen of them. */
static struct {
    int64_t takes_ms;
    const char *fail; /* the step that fails ... */
    enum err_code code;
    int fail_times;
    const char *hang; /* the step that never ends */
    char started[2000];
    int resumed;
    int64_t starts[64];
    int count;
    const char *script; /* digest of t.sh */
    const char *credential;
} fake;

static void over(void *user)
{
    struct step_run *run = user;
    struct err err = {0};
    if (fake.fail != NULL && strcmp(run->def->what, fake.fail) == 0 && fake.fail_times-- > 0)
        (void)err_set(&err, fake.code, "%s did not work", run->def->what);
    step_done(run, &err, "observed");
}

static int fake_start(struct step_run *run, struct err *err)
{
    (void)err;
    size_t len = strlen(fake.started);
    (void)snprintf(fake.started + len, sizeof fake.started - len, "%s%s", len ? " " : "",
                   run->def->what);
    fake.resumed += run->resumed;
    if (fake.count < 64)
        fake.starts[fake.count++] = loop_now(loop);
    if (fake.hang == NULL || strcmp(run->def->what, fake.hang) != 0)
        timer_set(loop, &run->timer, fake.takes_ms, over, run);
    return 0;
}

static const struct step_type fake_bmc = {.name = "bmc", .start = fake_start};
static const struct step_type fake_netboot = {.name = "netboot", .start = fake_start};
static const struct step_type fake_run = {.name = "run", .start = fake_start};
static const struct step_type *const types[] = {&fake_bmc, &fake_netboot, &fake_run, NULL};

static bool find_file(const char *path, struct engine_file *ret, void *user)
{
    (void)user;
    *ret = (struct engine_file){"x", 1, strcmp(path, "t.sh") == 0 ? fake.script : "1111"};
    return true;
}

static void secret_id(const char *text, char hex[65], void *user)
{
    (void)text;
    (void)user;
    (void)snprintf(hex, 65, "%s", fake.credential);
}

static struct spec *parse(const char *vars, int nodes, struct profiles **ret_profiles)
{
    char *text = xasprintf("cluster: c\ncredentials: {bmc: {user: u, password: {file: f}}}\n"
                           "classes: {k: {profile: p, vars: {%s}}}\nnodes:\n- {name: 'n[1-%d]', "
                           "bmc: '10.0.0.[1-%d]'}\n",
                           vars, nodes, nodes);
    const char *const profiles[] = {profile_text, NULL};
    struct spec *s = world_parse(profiles, text, ret_profiles);
    free(text);
    return s;
}

static void open_engine(void)
{
    struct err err = {0};
    if (store_open(loop, db, &store, &err) < 0)
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
}

static int setup(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.takes_ms = 1000;
    fake.script = "2222";
    fake.credential = "cred1";
    world_new_db(db);
    loop = loop_new_virtual(WORLD_BEGINS);
    open_engine();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    engine_free(engine);
    store_close(store);
    int left = loop_free(loop);
    world_remove_db(db);
    return left;
}

static void apply_nodes(const char *vars, const char *reinstall, int nodes)
{
    struct profiles *profiles;
    struct err err = {0};
    json_t *plan = NULL;
    struct spec *spec = parse(vars, nodes, &profiles);
    char *bundle = xasprintf("[\"%s %d\"]", vars, nodes);
    if (engine_apply(engine, spec, profiles, bundle, "tester",
                     &(struct engine_order){.reinstall = reinstall}, &plan, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(plan);
    free(bundle);
    fake.started[0] = '\0';
    fake.count = 0;
}

static void apply(const char *vars, const char *reinstall)
{
    apply_nodes(vars, reinstall, 1);
}

static void settle(int64_t ms)
{
    loop_run_for(loop, ms);
}

static char *stage_status(const char *node, const char *stage)
{
    static char text[40];
    json_t *view = engine_view_node(engine, node, NULL), *s;
    size_t i;
    text[0] = '\0';
    json_array_foreach(json_object_get(view, "stages"), i, s)
    {
        if (strcmp(json_string_value(json_object_get(s, "name")), stage) == 0)
            (void)snprintf(text, sizeof text, "%s",
                           json_string_value(json_object_get(s, "status")));
    }
    json_decref(view);
    return text;
}

static void assert_word(const char *node, const char *word)
{
    json_t *view = engine_view_node(engine, node, NULL);
    assert_string_equal(json_string_value(json_object_get(view, "state")), word);
    json_decref(view);
}

static void assert_why(const char *node, const char *part)
{
    json_t *why = engine_view_why(engine, node, NULL);
    char *text = json_dumps(why, 0);
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in %s", part, text);
    free(text);
    json_decref(why);
}

static void test_runs_in_order_and_then_nothing(void **state)
{
    (void)state;
    apply("", NULL);
    settle(60000);
    assert_string_equal(fake.started, "verify install t.sh o.sh l.sh");
    assert_word("n1", "validated");
    assert_string_equal(stage_status("n1", "gpu"), "skipped");
    apply("", NULL);
    settle(60000);
    assert_string_equal(fake.started, "");
    assert_why("n1", "every stage is proven");
}

static void test_only_what_depends(void **state)
{
    (void)state;
    static const struct {
        const char *vars, *script, *started;
    } rows[] = {{"a: 2", "2222", "t.sh l.sh"},
                {"a: 2, b: 2", "2222", "o.sh"},
                {"a: 2, b: 2", "3333", "t.sh l.sh"},
                {"a: 2, b: 2", "3333", ""}};
    apply("", NULL);
    settle(60000);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        fake.script = rows[i].script;
        apply(rows[i].vars, NULL);
        settle(60000);
        assert_string_equal(fake.started, rows[i].started);
        assert_word("n1", "validated");
    }
}

static void test_rerun_and_reinstall(void **state)
{
    (void)state;
    struct err err = {0};
    apply("", NULL);
    settle(60000);
    fake.started[0] = '\0';
    json_decref(engine_rerun(engine, "n1", "tuned", "tester", &err));
    settle(60000);
    assert_string_equal(fake.started, "t.sh l.sh");
    assert_null(engine_rerun(engine, "n1", "installed", "tester", &err));
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_null(engine_rerun(engine, "n7", "tuned", "tester", &err));
    assert_int_equal(err.code, ERR_NOT_FOUND);
    apply("", "n1");
    settle(60000);
    assert_string_equal(fake.started, "install t.sh o.sh l.sh");
    assert_word("n1", "validated");
}

static void test_retries_back_off(void **state)
{
    (void)state;
    fake.fail = "verify";
    fake.code = ERR_TIMEOUT;
    fake.fail_times = 100;
    apply("", NULL);
    settle(20 * 60000);
    /* the first and two further attempts, after 10 s and 20 s and up to a quarter more */
    assert_string_equal(fake.started, "verify verify verify");
    int64_t first = fake.starts[1] - fake.starts[0] - fake.takes_ms;
    int64_t second = fake.starts[2] - fake.starts[1] - fake.takes_ms;
    assert_in_range(first, 10000, 12600);
    assert_in_range(second, 20000, 25200);
    assert_string_equal(stage_status("n1", "reachable"), "failed");
    assert_why("n1", "rerun n1 --stage reachable");
    fake.fail_times = 0;
    apply("", NULL);
    settle(60000);
    assert_word("n1", "validated");
}

static void test_refused_credential_is_not_tried_again(void **state)
{
    (void)state;
    fake.fail = "verify";
    fake.code = ERR_AUTH;
    fake.fail_times = 1;
    apply("", NULL);
    settle(60 * 60000);
    assert_string_equal(fake.started, "verify");
    apply("", NULL);
    settle(60 * 60000);
    assert_string_equal(fake.started, "");
    assert_why("n1", "not asked again until its credential changes");
    json_decref(engine_rerun(engine, "n1", "reachable", "tester", NULL));
    settle(60000);
    assert_word("n1", "validated");
}

static void test_deadline(void **state)
{
    (void)state;
    fake.hang = "verify";
    apply("", NULL);
    settle(30000);
    assert_string_equal(stage_status("n1", "reachable"), "running");
    assert_why("n1", "ends by itself at its deadline");
    settle(40000);
    assert_why("n1", "the deadline of 1m00s passed");
    settle(20 * 60000);
    assert_string_equal(fake.started, "verify verify verify");
    assert_string_equal(stage_status("n1", "reachable"), "failed");
}

static void test_hold(void **state)
{
    (void)state;
    apply("", NULL);
    settle(1500);
    assert_null(engine_hold(engine, "n1", "", "tester", NULL));
    json_decref(engine_hold(engine, "n1", "a part is swapped", "tester", NULL));
    settle(60000);
    assert_string_equal(fake.started, "verify install");
    assert_string_equal(stage_status("n1", "installed"), "passed");
    assert_why("n1", "a part is swapped");
    json_decref(engine_release(engine, "n1", "tester", NULL));
    settle(60000);
    assert_word("n1", "validated");
}

static void test_change_while_running(void **state)
{
    (void)state;
    apply("", NULL);
    settle(2500); /* in tuned */
    assert_string_equal(stage_status("n1", "tuned"), "running");
    apply("a: 5", NULL);
    settle(60000);
    assert_string_equal(fake.started, "t.sh o.sh l.sh");
    assert_word("n1", "validated");
    /* a disk that is being written is finished, whatever changed */
    apply("", "n1");
    settle(500);
    assert_string_equal(stage_status("n1", "installed"), "running");
    apply("a: 6", NULL);
    settle(60000);
    assert_string_equal(fake.started, "t.sh o.sh l.sh");
    assert_word("n1", "validated");
}

static void reopen(const char *vars)
{
    struct profiles *profiles;
    struct err err = {0};
    engine_free(engine);
    store_close(store);
    open_engine();
    struct spec *spec = parse(vars, 1, &profiles);
    if (engine_load(engine, spec, profiles, 1, &err) < 0)
        fail_msg("%s", err.text);
}

static void test_restart_at_any_moment(void **state)
{
    (void)state;
    for (int64_t at = 50; at < 6000; at += 150) {
        apply("", NULL);
        settle(at);
        char before[2000];
        (void)snprintf(before, sizeof before, "%s", fake.started);
        fake.resumed = 0;
        reopen("");
        settle(60000);
        assert_word("n1", "validated");
        /* the step that ran is looked at again, once; nothing else is repeated */
        const char *whole = "verify install t.sh o.sh l.sh";
        size_t extra = strlen(fake.started) - strlen(whole);
        if (fake.resumed == 0 && strcmp(fake.started, whole) != 0)
            fail_msg("at %lld: %s", (long long)at, fake.started);
        if (fake.resumed > 1 || (fake.resumed == 1 && extra > strlen(" install")))
            fail_msg("at %lld: %d resumed, %s (%s before)", (long long)at, fake.resumed,
                     fake.started, before);
        teardown(state);
        setup(state);
    }
}

static void test_nodes_leave(void **state)
{
    (void)state;
    apply_nodes("", NULL, 3);
    settle(1500);
    fake.started[0] = '\0';
    apply_nodes("", NULL, 1);
    settle(60000);
    assert_word("n1", "validated");
    assert_null(engine_view_node(engine, "n2", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_runs_in_order_and_then_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_what_depends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rerun_and_reinstall, setup, teardown),
        cmocka_unit_test_setup_teardown(test_retries_back_off, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_credential_is_not_tried_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hold, setup, teardown),
        cmocka_unit_test_setup_teardown(test_change_while_running, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart_at_any_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nodes_leave, setup, teardown),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
