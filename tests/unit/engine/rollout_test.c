/* Rollouts on virtual time: canaries, waves, the failure budget, verbs, restarts, fairness, cost.
 */
#include "world.h"

#include "base/map.h"
#include "engine/node.h"
#include "engine/step.h"

static const char profile_text[] =
    "profile: p\nvars: {a: 1}\ninstall: {image: os.raw, disk: largest}\nstages:\n"
    "- {stage: racked}\n"
    "- {stage: installed, after: racked, deadline: 10m, wipes: true, steps: [{netboot: install}]}\n"
    "- {stage: tuned, needs: installed, vars: [a], deadline: 5m, steps: [{run: t.sh}]}\n"
    "- {stage: validated}\n";

static const char pair_profile_text[] =
    "profile: q\ninstall: {image: os.raw, disk: largest}\nstages:\n"
    "- {stage: racked}\n"
    "- {stage: installed, after: racked, deadline: 10m, wipes: true, steps: [{netboot: install}]}\n"
    "- {stage: paired, needs: installed, deadline: 5m, steps: [{group: pair, server: a.sh, client: "
    "b.sh, "
    "measure: ib-write-bw}]}\n"
    "- {stage: validated}\n";

#define ONE_RACK "- {name: 'n[1-8]', class: k, rack: r1, bmc: '10.0.0.[1-8]'}\n"
#define TWO_RACKS                                                                                  \
    "- {name: 'n[1-4]', class: k, rack: r1, bmc: '10.0.0.[1-4]'}\n"                                \
    "- {name: 'n[5-8]', class: k, rack: r2, bmc: '10.0.0.[5-8]'}\n"

static struct loop *loop;
static struct store *store;
static struct engine *engine;
static char db[] = "/tmp/clusterd-rollout-XXXXXX";

/* What the steps do, and what was seen of them. */
static struct {
    int64_t takes_ms;
    struct map *failing; /* node names */
    const char *what;    /* the step that fails on them */
    char order[4000];    /* names in the order of their installs, or of other steps */
    const char *ordered; /* the step that `order` notes */
    int64_t at[20000];
    int starts;
    int busy, busiest;
    int rack_busy[8], rack_busiest;
} fake;

static int rack_of(const struct step_run *run)
{
    return run->node->spec->rack_index + 1;
}

static void over(void *user)
{
    struct step_run *run = user;
    struct err err = {0};
    fake.busy--;
    fake.rack_busy[rack_of(run)]--;
    if (strcmp(run->def->what, fake.what) == 0 && map_get(fake.failing, run->node->name) != NULL)
        (void)err_set(&err, ERR_FAILED, "%s did not work", run->def->what);
    step_done(run, &err, "observed");
}

static int fake_start(struct step_run *run, struct err *err)
{
    (void)err;
    size_t len = strlen(fake.order);
    if (strcmp(run->def->what, fake.ordered) == 0) {
        (void)snprintf(fake.order + len, sizeof fake.order - len, "%s%s", len ? " " : "",
                       run->node->name);
        fake.at[fake.starts++ % 20000] = loop_now(loop);
    }
    fake.busy++;
    int busy = ++fake.rack_busy[rack_of(run)];
    fake.rack_busiest = busy > fake.rack_busiest ? busy : fake.rack_busiest;
    fake.busiest = fake.busy > fake.busiest ? fake.busy : fake.busiest;
    timer_set(loop, &run->timer, fake.takes_ms, over, run);
    return 0;
}

static const struct step_type fake_netboot = {.name = "netboot", .start = fake_start};
static const struct step_type fake_run = {.name = "run", .start = fake_start};
static const struct step_type *const types[] = {&fake_netboot, &fake_run, NULL};

/* ---- the spec ---- */

static struct {
    const char *nodes, *rollout, *limits;
    int a;
} want;

static struct spec *parse(struct profiles **ret_profiles)
{
    char *text =
        xasprintf("cluster: c\ncredentials: {bmc: {user: u, password: {file: f}}}\n"
                  "classes: {k: {profile: p, vars: {a: %d}}, l: {profile: p}, q: {profile: q}}\n"
                  "racks: {r1: , r2: , r3: }\nnodes:\n%srollout: {%s}\nlimits: {%s}\n",
                  want.a, want.nodes, want.rollout, want.limits);
    const char *const profiles[] = {profile_text, pair_profile_text, NULL};
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
                              .file = world_file,
                              .secret = world_secret,
                              .secret_id = world_secret_id,
                              .artefact = world_artefact,
                              .seed = 7};
    engine = engine_new(&c);
}

static int setup(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.takes_ms = 60000;
    fake.failing = map_new();
    fake.ordered = "install";
    fake.what = "t.sh";
    want.nodes = TWO_RACKS;
    want.rollout = want.limits = "";
    want.a = 1;
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
    map_free(fake.failing);
    world_remove_db(db);
    return left;
}

/* ---- doing and looking ---- */

static void settle(int64_t ms)
{
    loop_run_for(loop, ms);
}

static void apply_order(const struct engine_order *order)
{
    struct profiles *profiles;
    struct err err = {0};
    json_t *plan = NULL;
    struct spec *spec = parse(&profiles);
    char *bundle = xasprintf("[\"%s %s %d\"]", want.rollout, want.limits, want.a);
    if (engine_apply(engine, spec, profiles, bundle, "tester", order, &plan, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(plan);
    free(bundle);
    fake.order[0] = '\0';
    fake.starts = 0;
}

static void apply(void)
{
    apply_order(NULL);
}

static void reopen(void)
{
    struct profiles *profiles;
    struct err err = {0};
    engine_free(engine);
    store_close(store);
    fake.busy = 0;
    memset(fake.rack_busy, 0, sizeof fake.rack_busy);
    open_engine();
    struct spec *spec = parse(&profiles);
    if (engine_load(engine, spec, profiles, 1, &err) < 0)
        fail_msg("%s", err.text);
}

static void tell(int64_t id, const char *verb)
{
    struct err err = {0};
    json_t *answer = engine_rollout(engine, id, verb, "tester", &err);
    if (answer == NULL)
        fail_msg("%s: %s", verb, err.text);
    json_decref(answer);
}

static void refused(int64_t id, const char *verb, enum err_code code)
{
    struct err err = {0};
    assert_null(engine_rollout(engine, id, verb, "tester", &err));
    assert_int_equal(err.code, code);
}

static void fails(const char *node)
{
    (void)map_set(fake.failing, node, fake.failing);
}

static bool started(const char *node)
{
    return strstr(fake.order, node) != NULL;
}

static int in_state(const char *word)
{
    int count = 0;
    for (int i = 0; i < engine->node_count; i++)
        count += strcmp(node_word(engine->nodes[i]), word) == 0;
    return count;
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

/* The rollout's row as the API shows it, as JSON with sorted keys. */
static void assert_rollout(int64_t id, const char *part)
{
    json_t *all = engine_view_rollouts(engine, NULL), *row;
    size_t i;
    bool seen = false;
    json_array_foreach(json_object_get(all, "rollouts"), i, row)
    {
        char *text = json_dumps(row, JSON_SORT_KEYS | JSON_COMPACT);
        bool it = json_integer_value(json_object_get(row, "id")) == id;
        if (it && strstr(text, part) == NULL)
            fail_msg("'%s' is not in %s", part, text);
        seen = seen || it;
        free(text);
    }
    json_decref(all);
    if (!seen)
        fail_msg("no rollout %lld", (long long)id);
}

struct event_search {
    const char *kind, *part;
    int found;
};

static void on_event(const struct store_event *e, void *user)
{
    struct event_search *s = user;
    s->found += strcmp(e->kind, s->kind) == 0 && strstr(e->text, s->part) != NULL;
}

static int events(const char *kind, const char *part)
{
    struct event_search s = {kind, part, 0};
    assert_int_equal(store_each_event(store, 0, 0, 100000, on_event, &s, NULL), 0);
    return s.found;
}

/* ---- without a `rollout` ---- */

static void test_nothing_waits_by_default(void **state)
{
    (void)state;
    apply();
    settle(1000);
    assert_int_equal(fake.busy, 8);
    assert_rollout(1, "\"status\":\"running\"");
    for (int i = 1; i <= 5; i++)
        fails(&"n1\0n2\0n3\0n4\0n5\0"[3 * (i - 1)]);
    settle(10 * 60000);
    assert_int_equal(in_state("validated"), 3);
    assert_rollout(1,
                   "\"counts\":{\"done\":3,\"failed\":5,\"left\":0,\"started\":0,\"waiting\":0}");
    assert_rollout(1, "\"status\":\"finished\"");
    apply(); /* the failed ones are tried again */
    settle(1000);
    assert_int_equal(fake.busy, 5);
}

/* ---- canaries ---- */

static void test_canary_goes_first(void **state)
{
    (void)state;
    want.rollout = "canary: 1";
    apply();
    settle(90000);
    assert_string_equal(fake.order, "n1");
    assert_why("n2", "waits for canary n1 (tuned, 1m3");
    assert_why("n2", "clusterctl why n1");
    assert_string_equal(node_operation(engine_find(engine, "n2")), "waiting");
    settle(60000);
    assert_int_equal(fake.starts, 8);
    assert_int_equal(events("rollout.began", "apply of revision 1, 8 nodes; 1 canaries"), 1);
    settle(10 * 60000);
    assert_int_equal(in_state("validated"), 8);
    assert_rollout(1, "\"status\":\"finished\"");
    /* a change that concerns one stage: the canary is through when that stage is */
    fake.ordered = "t.sh";
    want.a = 2;
    apply();
    settle(30000);
    assert_string_equal(fake.order, "n1");
    settle(60000);
    assert_int_equal(fake.starts, 8);
}

static void test_canaries_of_each_class_over_racks(void **state)
{
    (void)state;
    want.nodes = "- {name: 'n[1-3]', class: k, rack: r1, bmc: '10.0.0.[1-3]'}\n"
                 "- {name: 'n[4-6]', class: k, rack: r2, bmc: '10.0.0.[4-6]'}\n"
                 "- {name: 'm[1-2]', class: l, rack: r1, bmc: '10.0.1.[1-2]'}\n"
                 "- {name: m3, class: l, rack: r3, bmc: 10.0.1.3}\n";
    want.rollout = "canary: 1";
    apply();
    settle(60000);
    assert_string_equal(fake.order, "n1 m3"); /* one of each class, not in the same rack */
    settle(20 * 60000);
    want.rollout = "canary: 3";
    fake.ordered = "t.sh";
    want.a = 2; /* of class k only */
    apply();
    settle(30000);
    assert_int_equal(fake.starts, 3);
    assert_true(started("n1") && started("n4") && started("n2"));
}

static void test_canaries_that_measure_pairs(void **state)
{
    (void)state;
    want.nodes = "- {name: 'n[1-3]', class: k, rack: r1, bmc: '10.0.0.[1-3]'}\n"
                 "- {name: 'q[1-4]', class: q, rack: r2, bmc: '10.0.0.[4-7]'}\n";
    want.rollout = "canary: 1";
    apply();
    settle(30000);
    assert_int_equal(fake.starts, 3);
    assert_true(started("n1") && started("q1") && started("q2"));
}

static void test_named_canaries(void **state)
{
    (void)state;
    want.rollout = "canary: ['n[3-4]', n7]";
    apply();
    settle(30000);
    assert_int_equal(fake.starts, 3);
    assert_true(started("n3") && started("n4") && started("n7"));
    assert_why("n1", "and 2 more");
}

static void test_failed_canary_stops(void **state)
{
    (void)state;
    want.rollout = "canary: 1, max_failed: 50%";
    fails("n1");
    apply();
    settle(20 * 60000);
    assert_string_equal(fake.order, "n1");
    assert_int_equal(events("rollout.stopped", "canary n1 failed"), 1);
    assert_int_equal(events("rollout.stopped", "Failed: n1: tuned: t.sh did not work"), 1);
    assert_rollout(1, "\"status\":\"stopped\"");
    assert_why("n2", "rollout 1 stopped by itself");
    assert_why("n2", "clusterctl rollout resume 1");
    assert_why("n1", "did not work");
    /* the canary alone, by name, then the rest */
    (void)map_remove(fake.failing, "n1");
    json_decref(engine_rerun(engine, "n1", "tuned", "tester", NULL));
    settle(5 * 60000);
    assert_int_equal(in_state("validated"), 1);
    assert_rollout(1, "\"failures\":0");
    assert_string_equal(fake.order, "n1");
    tell(0, "resume");
    settle(5 * 60000);
    assert_int_equal(in_state("validated"), 8);
    refused(1, "resume", ERR_NOT_FOUND);
}

static void test_resume_without_the_canary(void **state)
{
    (void)state;
    want.rollout = "canary: 1";
    fails("n1");
    apply();
    settle(20 * 60000);
    tell(1, "resume");
    settle(20 * 60000);
    assert_int_equal(in_state("validated"), 7);
    assert_rollout(1, "\"status\":\"finished\"");
}

/* ---- waves ---- */

static void test_waves(void **state)
{
    (void)state;
    want.rollout = "canary: 1, waves: [2, 50%, 100%], wave_pause: 10m";
    apply();
    settle(30000);
    assert_int_equal(fake.starts, 1);
    assert_why("n8", "waits for canary n1");
    settle(110000); /* the canary is through at 2 min */
    assert_why("n8", "wave 3 of 3 begins when 4 nodes (50%) are through; 1 are");
    assert_why("n5", "wave 2 of 3 begins when 2 nodes (25%) are through; 1 are");
    assert_why("n2", "wave 1 of 3 begins after a pause");
    settle(5 * 60000);
    assert_int_equal(fake.starts, 1);
    reopen(); /* the pause goes on */
    settle(4 * 60000);
    assert_int_equal(fake.starts, 1);
    settle(60000);
    assert_string_equal(fake.order, "n1 n2");
    settle(12 * 60000);
    assert_int_equal(fake.starts, 4); /* racks take turns */
    assert_true(started("n3") && started("n5"));
    settle(12 * 60000);
    assert_int_equal(fake.starts, 8);
    settle(12 * 60000);
    assert_int_equal(in_state("validated"), 8);
    assert_int_equal(events("rollout.wave", "wave 3 of 3 begins: 4 nodes"), 1);
}

static void test_failed_and_held_nodes_do_not_keep_a_wave(void **state)
{
    (void)state;
    want.rollout = "waves: [4, 100%]";
    fails("n1");
    apply();
    settle(30000);
    assert_int_equal(fake.starts, 4);
    json_decref(engine_hold(engine, "n2", "a part is swapped", "tester", NULL));
    settle(3 * 60000);
    assert_int_equal(fake.starts, 8);
    settle(20 * 60000);
    assert_int_equal(in_state("validated"), 6);
    assert_rollout(1, "\"started\":\"n2\"");
    json_decref(engine_release(engine, "n2", "tester", NULL));
    settle(20 * 60000);
    assert_int_equal(in_state("validated"), 7);
    assert_rollout(1, "\"status\":\"finished\"");
}

static void test_per_rack(void **state)
{
    (void)state;
    want.rollout = "per_rack: 1";
    apply();
    settle(30000);
    assert_string_equal(fake.order, "n1 n5");
    assert_why("n2", "waits for a place in rack r1");
    settle(3 * 60000);
    assert_string_equal(fake.order, "n1 n5 n2 n6");
    settle(20 * 60000);
    assert_int_equal(fake.rack_busiest, 1);
    assert_int_equal(in_state("validated"), 8);
}

static void test_a_wave_does_not_start_at_once(void **state)
{
    (void)state;
    want.nodes = "- {name: 'n[1-200]', class: k, bmc: '10.0.0.[1-200]'}\n";
    want.rollout = "waves: 100%";
    want.limits = "installs: 1000";
    int most = 0;
    apply();
    settle(30000);
    assert_int_equal(fake.starts, 200);
    for (int i = 0; i < 200; i++) {
        int same = 0;
        for (int j = 0; j < 200; j++)
            same += fake.at[i] == fake.at[j];
        most = same > most ? same : most;
    }
    assert_in_range(most, 1, 40); /* the store commits every 20 ms */
    assert_true(fake.at[199] - fake.at[0] <= 1000 + 200);
}

/* ---- the failure budget ---- */

static void test_budget_stops(void **state)
{
    (void)state;
    want.nodes = ONE_RACK;
    want.rollout = "waves: [2, 5, 100%], max_failed: 1";
    fails("n1");
    fails("n3");
    apply();
    settle(20 * 60000);
    /* n1 is within the budget; n3 is one too many, and what ran beside it went to its end */
    assert_int_equal(fake.starts, 5);
    assert_int_equal(in_state("validated"), 1);
    assert_int_equal(in_state("tuned"), 2);
    assert_int_equal(events("rollout.stopped", "2 of 8 nodes failed, and max_failed is 1"), 1);
    assert_int_equal(events("rollout.stopped", "n[1,3]: tuned: t.sh did not work"), 1);
    assert_why("n8", "2 of 8 nodes failed, and max_failed is 1");
    assert_why("n4", "rollout 1 stopped by itself");
    assert_rollout(1,
                   "\"failed\":[{\"because\":\"tuned: t.sh did not work\",\"nodes\":\"n[1,3]\"}]");
    reopen();
    settle(20 * 60000);
    assert_int_equal(fake.starts, 5);
    tell(0, "resume");
    assert_rollout(1, "\"failures\":0");
    fails("n6");
    settle(20 * 60000);
    assert_int_equal(in_state("validated"), 5);
    assert_rollout(1, "\"status\":\"finished\"");
}

static void test_budget_counts_nodes_once_and_shares(void **state)
{
    (void)state;
    want.nodes = ONE_RACK;
    want.rollout = "waves: [1, 2, 3, 100%], max_failed: 25%";
    fails("n1");
    fails("n2");
    apply();
    settle(150000);
    for (int i = 0; i < 3; i++) { /* the same node again and again */
        json_decref(engine_rerun(engine, "n1", "tuned", "tester", NULL));
        settle(65000);
    }
    assert_rollout(1, "\"failures\":2");
    settle(20 * 60000);
    assert_int_equal(in_state("validated"), 6); /* 25% of 8 are 2 */
    want.a = 2;
    fails("n3");
    fake.ordered = "t.sh";
    apply();
    settle(20 * 60000);
    assert_rollout(2, "\"status\":\"stopped\"");
    assert_int_equal(fake.starts, 3);
    /* an apply begins anew */
    map_free(fake.failing);
    fake.failing = map_new();
    apply();
    assert_rollout(2, "\"status\":\"replaced\"");
    settle(20 * 60000);
    assert_int_equal(in_state("validated"), 8);
}

/* ---- verbs ---- */

static void test_pause_survives(void **state)
{
    (void)state;
    want.rollout = "per_rack: 2";
    apply();
    settle(30000);
    assert_int_equal(fake.busy, 4);
    tell(0, "pause");
    refused(1, "pause", ERR_CONFLICT);
    settle(3 * 60000);
    assert_int_equal(in_state("installed"), 4); /* what ran went to its end */
    reopen();
    settle(60 * 60000);
    assert_int_equal(in_state("installed"), 4);
    assert_int_equal(fake.busy, 0);
    assert_why("n1", "rollout 1 is paused");
    assert_why("n8", "paused by tester");
    apply(); /* the same wish again ends no pause */
    settle(60 * 60000);
    assert_int_equal(fake.starts, 0);
    assert_rollout(1, "\"status\":\"paused\"");
    tell(1, "resume");
    settle(60 * 60000);
    assert_int_equal(in_state("validated"), 8);
}

static void test_cancel(void **state)
{
    (void)state;
    want.rollout = "canary: 1";
    apply();
    settle(30000);
    tell(0, "cancel");
    settle(60 * 60000);
    assert_int_equal(fake.starts, 1);
    assert_int_equal(in_state("installed"), 1);
    assert_why("n2", "rollout 1 was cancelled");
    assert_why("n1", "nothing until the next apply or rerun");
    refused(0, "resume", ERR_NOT_FOUND);
    refused(1, "resume", ERR_CONFLICT);
    refused(7, "cancel", ERR_NOT_FOUND);
    refused(1, "stop", ERR_INVALID);
    reopen();
    settle(60 * 60000);
    assert_int_equal(fake.starts, 1);
    json_decref(engine_rerun(engine, "n1", "tuned", "tester", NULL));
    settle(5 * 60000);
    assert_int_equal(in_state("validated"), 1);
    apply();
    settle(60 * 60000);
    assert_int_equal(in_state("validated"), 8);
}

static void test_cancelled_reinstall_does_not_come_back(void **state)
{
    (void)state;
    apply();
    settle(60 * 60000);
    want.rollout = "canary: 1";
    apply_order(&(struct engine_order){.reinstall = "n[1-8]"});
    settle(30000);
    tell(0, "cancel");
    settle(60 * 60000);
    assert_string_equal(fake.order, "n1");
    assert_int_equal(in_state("validated"), 7); /* their proofs stand as before */
    apply();
    settle(60 * 60000);
    assert_int_equal(in_state("validated"), 8);
    assert_string_equal(fake.order, "");
}

static void test_rerun_of_many(void **state)
{
    (void)state;
    apply();
    settle(60 * 60000);
    want.rollout = "canary: 1";
    apply(); /* nothing to do: no rollout */
    assert_rollout(1, "finished");
    fake.ordered = "t.sh";
    json_decref(engine_rerun(engine, "n[2-5]", "tuned", "tester", NULL));
    settle(30000);
    assert_string_equal(fake.order, "n2");
    assert_rollout(2, "rerun of tuned");
    json_decref(engine_rerun(engine, "n4", "tuned", "tester", NULL)); /* by name: waits for none */
    settle(1000);
    assert_string_equal(fake.order, "n2 n4");
    settle(60 * 60000);
    assert_int_equal(in_state("validated"), 8);
    /* a single one is no rollout */
    json_decref(engine_rerun(engine, "n6", "tuned", "tester", NULL));
    settle(1000);
    assert_null(engine_find(engine, "n6")->member);
}

static void test_newer_takes_over(void **state)
{
    (void)state;
    want.rollout = "canary: [n1]";
    apply();
    settle(30000);
    json_decref(engine_rerun(engine, "n[5-6]", "tuned", "tester", NULL));
    assert_rollout(2, "\"waiting\":null");
    assert_rollout(1, "\"left\":2");
    /* the canary of a rollout is taken away: it does not go on as if that were proven */
    json_decref(engine_rerun(engine, "n[1-2]", "tuned", "tester", NULL));
    settle(60 * 60000);
    assert_rollout(1, "rollout 3 took a canary over before it was proven");
    assert_rollout(1, "\"status\":\"stopped\"");
    assert_int_equal(in_state("validated"), 4);
    assert_why("n3", "took a canary over");
    /* an apply that leaves them out */
    apply_order(&(struct engine_order){.limit = "n3"});
    settle(60 * 60000);
    assert_rollout(1, "\"status\":\"replaced\"");
    assert_int_equal(in_state("validated"), 5);
    apply();
    settle(60 * 60000);
    assert_int_equal(in_state("validated"), 8);
}

static void test_nodes_leave(void **state)
{
    (void)state;
    want.rollout = "canary: 1";
    apply();
    settle(30000);
    want.nodes = "- {name: 'n[2-4]', class: k, rack: r1, bmc: '10.0.0.[2-4]'}\n";
    want.rollout = "canary: 1 ";
    apply();
    settle(60 * 60000);
    assert_int_equal(in_state("validated"), 3);
    assert_null(engine->rollouts);
}

/* A restart at any moment changes neither who goes first nor the end. */
static void test_restart_at_any_moment(void **state)
{
    for (int64_t at = 1000; at < 10 * 60000; at += 29000) {
        want.rollout = "canary: 1, waves: [3, 100%], wave_pause: 1m, per_rack: 2, max_failed: 1";
        fails("n2");
        apply();
        settle(at);
        reopen();
        settle(60 * 60000);
        assert_int_equal(in_state("validated"), 7);
        assert_rollout(1, "\"counts\":{\"done\":7,\"failed\":1,\"left\":0");
        assert_null(engine->rollouts);
        teardown(state);
        setup(state);
    }
}

/* ---- places to install ---- */

static void test_racks_take_turns(void **state)
{
    (void)state;
    want.nodes = "- {name: 'n[1-10]', class: k, rack: r1, bmc: '10.0.0.[1-10]'}\n"
                 "- {name: 'm[1-2]', class: k, rack: r2, bmc: '10.0.1.[1-2]'}\n"
                 "- {name: 'o[1-2]', class: k, rack: r3, bmc: '10.0.2.[1-2]'}\n";
    want.limits = "installs: 1";
    apply();
    settle(60 * 60000);
    assert_int_equal(in_state("validated"), 14);
    /* the first is who came first; afterwards racks take turns, whoever waits there longest */
    int others = 0;
    char order[sizeof fake.order];
    (void)snprintf(order, sizeof order, "%s", fake.order);
    char *rest = order, *name;
    for (int i = 0; i < 7 && (name = strsep(&rest, " ")) != NULL; i++)
        others += name[0] != 'n';
    assert_int_equal(others, 4);
    assert_int_equal(fake.busiest <= 2, 1); /* one installs, one is tuned */
}

static void test_installs_of_a_rack(void **state)
{
    (void)state;
    want.limits = "installs: 4, per_rack_installs: 1";
    apply();
    settle(30000);
    assert_int_equal(fake.starts, 2);
    for (int i = 0; i < engine->node_count; i++)
        if (engine->nodes[i]->attempt == NULL)
            assert_why(engine->nodes[i]->name, "waits for one of 4 places to install");
    reopen(); /* what installs keeps its place */
    settle(30000);
    assert_int_equal(engine->installs.in_use, 2);
    settle(60 * 60000);
    assert_int_equal(in_state("validated"), 8);
    assert_int_equal(engine->installs.in_use, 0);
}

/* With a limit far below the number of nodes no attempt runs into its deadline while it waits. */
static void test_deadline_does_not_run_in_the_queue(void **state)
{
    (void)state;
    want.nodes = "- {name: 'n[1-40]', class: k, bmc: '10.0.0.[1-40]'}\n";
    want.limits = "installs: 1";
    apply();
    settle(60 * 60000);
    assert_int_equal(in_state("validated"), 40);
    assert_int_equal(events("attempt.failed", "") + events("stage.failed", ""), 0);
}

/* ---- cost ---- */

static int64_t work_of(int nodes)
{
    char *text = xasprintf("- {name: 'n[1-%d]', class: k, rack: r1, bmc: '10.0.[0-%d].[1-250]'}\n",
                           nodes, nodes / 250 - 1);
    want.nodes = text;
    want.rollout = "canary: 2, waves: [1%, 5%, 100%], max_failed: 5%, per_rack: 9000";
    want.limits = "installs: 10000";
    apply();
    settle(60 * 60000);
    assert_int_equal(in_state("validated"), nodes);
    assert_rollout(1, "\"status\":\"finished\"");
    int64_t work = engine->rollout_work;
    free(text);
    return work;
}

static void test_ten_thousand_nodes(void **state)
{
    int64_t few = work_of(1000);
    teardown(state);
    setup(state);
    int64_t many = work_of(10000);
    /* a member is touched a few times, whoever else there is */
    assert_in_range(few, 1000, 8 * 1000);
    assert_in_range(many, 10000, 8 * 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_waits_by_default, setup, teardown),
        cmocka_unit_test_setup_teardown(test_canary_goes_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_canaries_of_each_class_over_racks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_canaries_that_measure_pairs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_named_canaries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_canary_stops, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resume_without_the_canary, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_and_held_nodes_do_not_keep_a_wave, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_per_rack, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_wave_does_not_start_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_budget_stops, setup, teardown),
        cmocka_unit_test_setup_teardown(test_budget_counts_nodes_once_and_shares, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pause_survives, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancelled_reinstall_does_not_come_back, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_rerun_of_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_newer_takes_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nodes_leave, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart_at_any_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_racks_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_installs_of_a_rack, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deadline_does_not_run_in_the_queue, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ten_thousand_nodes, setup, teardown),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
