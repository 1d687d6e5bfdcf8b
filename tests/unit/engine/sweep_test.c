/* Sweeps on virtual time: nodes answer what the test says, steps do nothing. */
#include "world.h"

#include "engine/node.h"
#include "remote/remote.h"

enum { HOUR = 3600 * 1000, NODES_MAX = 64, SWEEPS_MAX = 4000 };

static const char profile_text[] =
    "profile: p\nhardware: {gpus: 2, hcas: 1}\nvars: {branch: '580'}\n"
    "install: {image: os.raw, disk: largest}\nstages:\n"
    "- {stage: racked}\n"
    "- {stage: installed, after: racked, deadline: 10m, wipes: true, steps: [{netboot: install}]}\n"
    "- {stage: online, needs: installed, deadline: 1m, steps: [{wait: ssh}]}\n"
    "- {stage: parts, needs: online, hardware: gpu, deadline: 1m, steps: [{probe: node}, {check: "
    "bom}]}\n"
    "- {stage: links, needs: online, after: parts, deadline: 1m, steps: [{probe: node}, {check: "
    "hcas}]}\n"
    "- {stage: driver, needs: online, after: links, deadline: 1m, steps: [{check: driver, version: "
    "branch, sweep: false}]}\n"
    "- {stage: counted, needs: online, after: driver, deadline: 1m, steps: [{run: count.sh, sweep: "
    "true}]}\n"
    "- {stage: tuned, needs: parts, after: driver, deadline: 1m, retries: 0, steps: [{run: "
    "t.sh}]}\n"
    "- {stage: burnt, needs: tuned, hardware: gpu, deadline: 1m, power: burnin, steps: [{run: "
    "b.sh}]}\n"
    "- {stage: validated}\n";

static struct loop *loop;
static struct store *store;
static struct engine *engine;
static char db[] = "/tmp/clusterd-sweep-XXXXXX";

/* What machines are like, and what was seen. */
static struct {
    const char *machine; /* its serial; NULL: the node's name */
    const char *gpu;     /* the serial of the second GPU; NULL: it is gone */
    const char *port, *driver;
    const char *workload;
    int errors;         /* what the counting script ends with */
    enum err_code code; /* how sweeps end that reach nothing */
    int sweep_takes_ms;
    int step_takes_ms;
    const char *hang;   /* the step that does not end */
    char started[2000]; /* steps that would change a node */
    int sweeps, running, most;
    int64_t at[SWEEPS_MAX];
    char who[SWEEPS_MAX][8];
} world;

static char *facts(const char *node)
{
    char *gpu =
        world.gpu != NULL
            ? xasprintf(",{\"pci\":\"0000:02:00.0\",\"serial\":\"%s\",\"model\":\"G\"}", world.gpu)
            : xstrdup("");
    char *text = xasprintf(
        "{\"schema\":1,\"system\":{\"serial\":\"%s\"},\"board\":{},\"cpu\":{\"threads\":4},"
        "\"memory\":{},\"disks\":[],\"nics\":[],\"nvidia_driver\":\"%s\","
        "\"gpus\":[{\"pci\":\"0000:01:00.0\",\"serial\":\"G-ONE\",\"model\":\"G\"}%s],"
        "\"hcas\":[{\"name\":\"mlx5_0\",\"node_guid\":\"aa:bb\",\"pci\":\"0000:03:00.0\",\"ports\":"
        "[{\"port\":1,\"state\":\"%s\",\"rate\":\"400 Gb/s\"}]}]}",
        world.machine != NULL ? world.machine : node, world.driver, gpu, world.port);
    free(gpu);
    return text;
}

/* ---- steps ---- */

static void over(void *user)
{
    struct step_run *run = user;
    if (strcmp(run->def->type, "netboot") == 0)
        engine_on_installed(run->engine, run->node->id, run->attempt_id, "ssh-ed25519 AAAA", "");
    if (strcmp(run->def->type, "probe") == 0) {
        struct hardware *hw = NULL;
        char *json = facts(run->node->name);
        assert_int_equal(hardware_parse(json, strlen(json), &hw, NULL), 0);
        node_adopt_hardware(run->node, hw, loop_wall(loop));
        free(json);
    }
    struct err err = {0};
    if (run->def->sweep && strcmp(run->def->type, "run") == 0 && world.errors > 0)
        (void)err_set(&err, ERR_FAILED, "count.sh counted errors");
    step_done(run, &err, "observed");
}

static int fake_start(struct step_run *run, struct err *err)
{
    size_t len = strlen(world.started);
    (void)err;
    if ((strcmp(run->def->type, "run") == 0 && !run->def->sweep) ||
        strcmp(run->def->type, "netboot") == 0)
        (void)snprintf(world.started + len, sizeof world.started - len, "%s%s", len ? " " : "",
                       run->def->what);
    if (world.hang == NULL || strcmp(world.hang, run->def->what) != 0)
        timer_set(loop, &run->timer, world.step_takes_ms, over, run);
    return 0;
}

static const struct step_type fake_netboot = {.name = "netboot", .start = fake_start},
                              fake_wait = {.name = "wait", .start = fake_start},
                              fake_probe = {.name = "probe", .start = fake_start},
                              fake_run = {.name = "run", .start = fake_start};
static const struct step_type *const types[] = {&fake_netboot, &fake_wait,  &fake_probe,
                                                &fake_run,     &step_check, NULL};

/* ---- the answer of a sweep ---- */

struct fake_op {
    struct remote_op remote; /* first */
    struct timer timer;
    char node[32];
    int scripts;
};

static void fake_stop(struct op *op)
{
    timer_cancel(&((struct fake_op *)(void *)op)->timer);
    world.running--;
}

static void fake_free(struct op *op)
{
    struct fake_op *f = (struct fake_op *)(void *)op;
    strbuf_done(&f->remote.out);
    free(f);
}

static const struct op_type fake_type = {"sweep", fake_stop, fake_free};

static void answer(void *user)
{
    struct fake_op *f = user;
    struct err err = {0};
    if (world.code != ERR_OK) {
        (void)err_set(&err, world.code, "no route to it");
    } else if (world.workload != NULL) {
        strbuf_addf(&f->remote.out, "\nclusterd-sweep workload %lld %s\n",
                    (long long)(loop_wall(loop) / 1000 - 60), world.workload);
    } else {
        char *json = facts(f->node);
        strbuf_addf(&f->remote.out, "\nclusterd-sweep facts\n%s\n\nclusterd-sweep end 0\n", json);
        for (int i = 0; i < f->scripts; i++)
            strbuf_addf(&f->remote.out, "clusterd-sweep run %d counted %d errors\n", world.errors,
                        world.errors);
        strbuf_adds(&f->remote.out, "clusterd-sweep over\n");
        free(json);
    }
    op_finish(&f->remote.op, &err);
}

static struct remote_op *fake_sweep(const char *node, const struct remote_sweep *what,
                                    int64_t timeout_ms, op_done_fn done, void *done_user,
                                    void *user)
{
    struct fake_op *f = xcalloc(1, sizeof *f);
    (void)user;
    (void)snprintf(f->node, sizeof f->node, "%s", node);
    assert_string_equal(what->marker, "/run/clusterd/workload");
    (void)snprintf(f->node, sizeof f->node, "%s", node);
    f->scripts = what->script_count;
    strbuf_init(&f->remote.out, 1 << 20);
    op_init(&f->remote.op, &fake_type, loop, timeout_ms, done, done_user);
    timer_set(loop, &f->timer, world.sweep_takes_ms, answer, f);
    world.running++;
    world.most = world.running > world.most ? world.running : world.most;
    if (world.sweeps < SWEEPS_MAX) {
        world.at[world.sweeps] = loop_now(loop);
        (void)snprintf(world.who[world.sweeps], sizeof world.who[0], "%s", node);
        world.sweeps++;
    }
    return &f->remote;
}

/* ---- the engine ---- */

static struct spec *parse(const char *more, int nodes, struct profiles **ret_profiles)
{
    char *text = xasprintf("cluster: c\n%s\nclasses: {k: {profile: p}}\nnodes:\n- {name: "
                           "'n[1-%d]'}\n",
                           more, nodes);
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
                              .file = world_file,
                              .artefact = world_artefact,
                              .sweep = fake_sweep,
                              .seed = 7};
    engine = engine_new(&c);
}

static int setup(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    world.gpu = "G-TWO";
    world.port = "ACTIVE";
    world.driver = "580.1";
    world.sweep_takes_ms = 1000;
    world.step_takes_ms = 100;
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

static void apply(const char *more, int nodes)
{
    struct profiles *profiles;
    struct err err = {0};
    json_t *plan = NULL;
    struct spec *spec = parse(more, nodes, &profiles);
    char *bundle = xasprintf("[\"%s %d\"]", more, nodes);
    if (engine_apply(engine, spec, profiles, bundle, "tester", NULL, &plan, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(plan);
    free(bundle);
}

static void restart(const char *more, int nodes, int64_t off_ms)
{
    struct err err = {0};
    struct profiles *profiles;
    struct spec *spec = parse(more, nodes, &profiles);
    loop_run_for(loop, 50); /* what was written is on disk */
    engine_free(engine);
    store_close(store);
    loop_run_for(loop, off_ms);
    open_engine();
    if (engine_load(engine, spec, profiles, 1, &err) < 0)
        fail_msg("%s", err.text);
}

static void proven(const char *more, int nodes)
{
    apply(more, nodes);
    loop_run_for(loop, 30000);
    for (int i = 0; i < nodes; i++)
        assert_string_equal(node_word(engine->nodes[i]), "validated");
    world.started[0] = '\0';
    world.sweeps = 0;
}

/* The node's stages that are neither passed nor skipped: "parts:failed tuned:stale". */
static const char *unproven(int node)
{
    static char text[400];
    const struct enode *n = engine->nodes[node];
    text[0] = '\0';
    for (int i = 0; i < n->stage_count; i++) {
        size_t len = strlen(text);
        if (n->stages[i].status != STAGE_PASSED)
            (void)snprintf(text + len, sizeof text - len, "%s%s:%s", len ? " " : "",
                           n->stages[i].def->name, stage_status_name(n->stages[i].status));
    }
    return text;
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

static void on_swept(json_t *result, void *user)
{
    (void)snprintf(user, 20, "%s",
                   json_string_value(json_object_get(
                       json_array_get(json_object_get(result, "nodes"), 0), "result")));
    json_decref(result);
}

/* Sweeps one node now; how it ended. What follows by itself has its time, too. */
static const char *sweep(const char *node)
{
    static char result[20];
    struct err err = {0};
    result[0] = '\0';
    json_t *now = engine_sweep(engine, node, "tester", on_swept, result, &err);
    assert_non_null(now);
    json_decref(now);
    loop_run_for(loop, 20000);
    return result;
}

/* ---- tests ---- */

static void test_spread(void **state)
{
    (void)state;
    int counts[NODES_MAX] = {0};
    proven("sweep: {every: 6h, at_once: 3}", 40);
    int64_t start = loop_now(loop), gap = 0;
    loop_run_for(loop, 60 * HOUR);
    assert_true(world.most <= 3);
    for (int i = 0; i < world.sweeps; i++) {
        int at = atoi(world.who[i] + 1) - 1;
        assert_in_range(at, 0, 39);
        counts[at]++;
        if (i > 0 && world.at[i] - world.at[i - 1] > gap)
            gap = world.at[i] - world.at[i - 1];
    }
    /* 60 h at 5.4 to 6.6 h, the first one up to 6 h late */
    for (int i = 0; i < 40; i++)
        assert_in_range(counts[i], 9, 12);
    /* never all at once: at most a quarter within a tenth of the period, and no long silence */
    for (int i = 0; i + 10 < world.sweeps; i++)
        assert_true(world.at[i + 10] - world.at[i] > 6 * HOUR / 100);
    assert_true(gap < 2 * HOUR);
    assert_true(world.at[0] - start < 2 * HOUR);
    assert_string_equal(world.started, "");
}

static void test_off(void **state)
{
    (void)state;
    proven("sweep: off", 2);
    loop_run_for(loop, 50 * HOUR);
    assert_int_equal(world.sweeps, 0);
    assert_string_equal(sweep("n1"), "clean"); /* who asks gets one */
    apply("sweep: {every: 1h}", 2);
    loop_run_for(loop, 5 * HOUR);
    assert_true(world.sweeps >= 8);
    apply("sweep: off", 2);
    world.sweeps = 0;
    loop_run_for(loop, 50 * HOUR);
    assert_int_equal(world.sweeps, 0);
}

static void test_at_once_where_limits_bind(void **state)
{
    (void)state;
    struct err err = {0};
    proven("sweep: {at_once: 5}", 30);
    json_t *now = engine_sweep(engine, NULL, "tester", NULL, NULL, &err);
    assert_int_equal(json_array_size(json_object_get(now, "nodes")), 30);
    json_decref(now);
    loop_run_for(loop, 10000);
    assert_int_equal(world.sweeps, 30);
    assert_int_equal(world.most, 5);
}

/* What only looks is proven again by itself; what follows from that and changes nodes is not. */
static void test_other_part(void **state)
{
    (void)state;
    proven("", 2);
    world.gpu = "G-NEW";
    assert_string_equal(sweep("n1"), "drift");
    assert_string_equal(unproven(0), "tuned:stale burnt:stale validated:stale");
    assert_string_equal(unproven(1), "");
    assert_string_equal(world.started, "");
    assert_why("n1", "follows from the drift of parts");
    assert_string_equal(node_operation(engine->nodes[0]), "drifted");
    assert_string_equal(node_health(engine->nodes[0]), "drifted");
    loop_run_for(loop, 20 * HOUR);
    assert_string_equal(world.started, "");
    json_decref(engine_rerun(engine, "n1", "tuned", "tester", NULL));
    loop_run_for(loop, 5000);
    assert_string_equal(world.started, "t.sh b.sh");
    assert_string_equal(unproven(0), "");
    assert_string_equal(node_health(engine->nodes[0]), "ok");
}

static void test_part_gone_and_back(void **state)
{
    (void)state;
    proven("", 1);
    world.gpu = NULL;
    assert_string_equal(sweep("n1"), "drift");
    assert_string_equal(unproven(0), "parts:failed tuned:stale burnt:stale validated:stale");
    assert_why("n1", "1 GPUs instead of 2");
    world.gpu = "G-TWO";
    (void)sweep("n1");
    assert_string_equal(unproven(0), "");
    assert_string_equal(world.started, "");
}

static void test_link(void **state)
{
    (void)state;
    proven("", 1);
    world.port = "DOWN";
    assert_string_equal(sweep("n1"), "drift");
    assert_string_equal(unproven(0), "links:failed");
    assert_why("n1", "mlx5_0 port 1 DOWN, 400 Gb/s; before: mlx5_0 port 1 ACTIVE, 400 Gb/s");
    assert_string_equal(sweep("n1"), "drift"); /* still, and nothing new */
    assert_string_equal(unproven(0), "links:failed");
    world.port = "ACTIVE";
    (void)sweep("n1");
    assert_string_equal(unproven(0), "");
    /* a check that sweeps leave out */
    world.driver = "570.9";
    assert_string_equal(sweep("n1"), "clean");
    assert_string_equal(world.started, "");
}

/* A script that only looks is part of sweeps. */
static void test_script(void **state)
{
    (void)state;
    proven("", 1);
    world.errors = 3;
    assert_string_equal(sweep("n1"), "drift");
    assert_string_equal(unproven(0), "counted:failed");
    assert_why("n1", "count.sh ended with exit code 3: counted 3 errors");
    world.errors = 0;
    (void)sweep("n1");
    assert_string_equal(unproven(0), "");
    world.errors = 127; /* it could not be run: nobody knows */
    assert_string_equal(sweep("n1"), "clean");
    assert_string_equal(unproven(0), "");
    assert_non_null(strstr(engine->nodes[0]->sweep.text, "count.sh of counted told nothing"));
    assert_string_equal(world.started, "");
}

/* `repair: auto` goes on by itself - but never while a workload runs. */
static void test_repair_waits_for_workload(void **state)
{
    (void)state;
    proven("sweep: {every: 6h, repair: auto}", 1);
    world.gpu = "G-NEW";
    world.workload = "job 5";
    assert_string_equal(sweep("n1"), "workload");
    assert_string_equal(unproven(0), "");
    assert_why("n1", "a workload is running since 2025-11-30 23:59:31, job 5: it is not touched");
    world.workload = NULL;
    /* the job ends, the sweep comes, and just then the next job begins */
    world.sweep_takes_ms = 1000;
    json_t *now = engine_sweep(engine, "n1", "tester", NULL, NULL, NULL);
    json_decref(now);
    loop_run_for(loop, 1150); /* answered; `parts` is being proven */
    world.workload = "job 6";
    world.step_takes_ms = 20000; /* so long that the look counts no more */
    loop_run_for(loop, 120000);
    assert_string_equal(unproven(0), "tuned:stale burnt:stale validated:stale");
    assert_string_equal(world.started, "");
    assert_why("n1", "once no workload runs any more");
    loop_run_for(loop, 10 * HOUR);
    assert_string_equal(world.started, "");
    world.workload = NULL;
    world.step_takes_ms = 100;
    loop_run_for(loop, 3 * HOUR);
    assert_string_equal(world.started, "t.sh b.sh");
    assert_string_equal(unproven(0), "");
}

static void test_unreachable(void **state)
{
    (void)state;
    proven("sweep: {every: 6h}", 1);
    world.code = ERR_UNREACHABLE;
    assert_string_equal(sweep("n1"), "unreachable");
    assert_string_equal(node_health(engine->nodes[0]), "ok");
    loop_run_for(loop, HOUR);
    assert_int_equal(world.sweeps, 2); /* once more, soon */
    assert_string_equal(node_health(engine->nodes[0]), "unreachable");
    assert_string_equal(unproven(0), "");
    assert_why("n1", "did not reach it: no route to it");
    loop_run_for(loop, 4 * HOUR);
    assert_int_equal(world.sweeps, 2);
    world.code = ERR_OK;
    loop_run_for(loop, 3 * HOUR);
    assert_string_equal(node_health(engine->nodes[0]), "ok");
}

static void test_denied(void **state)
{
    (void)state;
    proven("", 1);
    world.code = ERR_DENIED;
    world.hang = "ssh"; /* the stage that logs in has its own troubles then */
    assert_string_equal(sweep("n1"), "denied");
    assert_string_equal(unproven(0), "online:running");
    assert_string_equal(world.started, "");
}

static void test_restart(void **state)
{
    (void)state;
    int64_t next[30];
    const char *more = "sweep: {every: 6h, at_once: 30}";
    proven(more, 30);
    for (int i = 0; i < 30; i++)
        next[i] = engine->nodes[i]->sweep.next_at;
    world.gpu = "G-NEW";
    assert_string_equal(sweep("n1"), "drift");
    json_decref(engine_maintenance(engine, "n2", "a fan", "ann", NULL));
    restart(more, 30, 1000);
    loop_run_for(loop, 1000);
    for (int i = 2; i < 30; i++)
        assert_int_equal(engine->nodes[i]->sweep.next_at, next[i]);
    assert_string_equal(unproven(0), "tuned:stale burnt:stale validated:stale");
    assert_string_equal(node_operation(engine->nodes[0]), "drifted");
    assert_int_equal(engine->nodes[1]->admin, NODE_MAINTENANCE);
    assert_why("n2", "in maintenance by ann");
    /* a day off: overdue, and not all at once */
    world.gpu = "G-TWO";
    restart(more, 30, 24 * HOUR);
    world.sweeps = world.most = 0;
    loop_run_for(loop, HOUR);
    assert_int_equal(world.sweeps, 29);
    assert_true(world.most < 10);
}

static void test_maintenance(void **state)
{
    (void)state;
    struct err err = {0};
    proven("sweep: {every: 1h}", 2);
    assert_null(engine_maintenance(engine, "n1", "", "ann", &err));
    json_decref(engine_maintenance(engine, "n1", "a fan", "ann", &err));
    assert_null(engine_hold(engine, "n1", "x", "ann", &err));
    assert_int_equal(err.code, ERR_CONFLICT);
    json_decref(engine_rerun(engine, "n1", "tuned", "ann", NULL));
    world.gpu = "G-NEW";
    world.port = "DOWN";
    loop_run_for(loop, 10 * HOUR);
    for (int i = 0; i < world.sweeps; i++)
        assert_string_equal(world.who[i], "n2");
    assert_string_equal(world.started, "");
    assert_string_equal(sweep("n1"), "left out");
    world.port = "ACTIVE";
    world.gpu = "G-TWO";
    world.sweeps = 0;
    json_decref(engine_release(engine, "n1", "ann", NULL));
    loop_run_for(loop, 60000);
    assert_string_equal(world.started, "t.sh b.sh");
    /* proven nodes are swept when it is over */
    json_decref(engine_maintenance(engine, "n1", "a fan", "ann", &err));
    world.sweeps = 0;
    world.gpu = "G-NEW";
    json_decref(engine_release(engine, "n1", "ann", NULL));
    loop_run_for(loop, 10000);
    assert_true(world.sweeps >= 1);
    assert_string_equal(unproven(0), "tuned:stale burnt:stale validated:stale");
}

static void test_maintenance_calls_off(void **state)
{
    (void)state;
    struct err err = {0};
    world.hang = "install";
    apply("", 1);
    loop_run_for(loop, 10000);
    assert_null(engine_maintenance(engine, "n1", "a fan", "ann", &err));
    assert_int_equal(err.code, ERR_BUSY);
    assert_int_equal(engine->nodes[0]->admin, NODE_ACTIVE);
    world.hang = "t.sh";
    loop_run_for(loop, HOUR); /* the deadline, and once more */
    apply("", 1);
    loop_run_for(loop, 10000);
    assert_string_equal(engine->nodes[0]->stages[engine->nodes[0]->attempt->stage].def->name,
                        "tuned");
    json_decref(engine_maintenance(engine, "n1", "a fan", "ann", &err));
    assert_null(engine->nodes[0]->attempt);
    world.hang = NULL;
    loop_run_for(loop, 10 * HOUR);
    assert_string_equal(world.started, "install install t.sh");
    json_decref(engine_release(engine, "n1", "ann", NULL));
    loop_run_for(loop, 10000);
    assert_string_equal(node_word(engine->nodes[0]), "validated");
}

/* A stage has the node: a sweep in work gives way, and comes later. */
static void test_gives_way(void **state)
{
    (void)state;
    char result[20] = "";
    proven("sweep: {every: 6h}", 1);
    json_decref(engine_sweep(engine, "n1", "tester", on_swept, result, NULL));
    loop_run_for(loop, 500);
    assert_int_equal(world.running, 1);
    json_decref(engine_rerun(engine, "n1", "tuned", "tester", NULL));
    loop_run_for(loop, 20);
    assert_int_equal(world.running, 0);
    assert_string_equal(result, "left out");
    loop_run_for(loop, 8 * HOUR);
    assert_true(world.sweeps >= 2);
    assert_string_equal(unproven(0), "");
}

/* Another machine says nothing about what was proven on the recorded one. */
static void test_other_machine(void **state)
{
    (void)state;
    proven("", 2);
    world.machine = "SN-OTHER";
    world.gpu = "G-NEW";
    assert_string_equal(sweep("n1"), "swap");
    assert_string_equal(unproven(0), "");
    assert_string_equal(node_admin_word(engine->nodes[0]), "swap-suspected");
    assert_why("n1", "system: serial n1 -> SN-OTHER");
    assert_string_equal(sweep("n1"), "left out");
    json_decref(engine_replace(engine, "n1", "tester", NULL));
    loop_run_for(loop, 10000);
    /* it did not drift: what was replaced on purpose is proven by itself */
    assert_string_equal(unproven(0), "");
    assert_string_equal(node_admin_word(engine->nodes[0]), "active");
}

/* An apply asks for what drifted, too; a disk is never overwritten by it. */
static void test_apply_proves(void **state)
{
    (void)state;
    proven("", 1);
    world.gpu = "G-NEW";
    (void)sweep("n1");
    assert_string_equal(unproven(0), "tuned:stale burnt:stale validated:stale");
    apply("", 1);
    loop_run_for(loop, 10000);
    assert_string_equal(world.started, "t.sh b.sh");
    assert_string_equal(unproven(0), "");
}

/* An operator's word: later stages go on, a restart keeps it, a changed part or a rerun ends it. */
static void test_waive(void **state)
{
    (void)state;
    struct err err = {0};
    world.gpu = NULL;
    apply("", 2);
    loop_run_for(loop, HOUR);
    assert_string_equal(unproven(0),
                        "parts:failed links:pending driver:pending counted:pending tuned:pending "
                        "burnt:pending validated:pending");
    world.started[0] = '\0';
    assert_null(engine_waive(engine, "n1", "parts", "", "ann", &err));
    assert_null(engine_waive(engine, "n1", "installed", "x", "ann", &err));
    assert_null(engine_waive(engine, "n1", "validated", "x", "ann", &err));
    assert_null(engine_waive(engine, "n1", "online", "x", "ann", &err)); /* is proven */
    assert_null(engine_waive(engine, "n1", "nonsense", "x", "ann", &err));
    assert_string_equal(world.started, "");
    json_decref(engine_waive(engine, "n1", "parts", "on order", "ann", &err));
    loop_run_for(loop, 30000);
    assert_string_equal(world.started, "t.sh b.sh");
    assert_string_equal(unproven(0), "parts:waived");
    assert_string_equal(node_word(engine->nodes[0]), "validated");
    assert_why("n1", "every stage is proven, but parts: waived by ann: on order");
    assert_string_equal(sweep("n1"), "clean"); /* nothing is made of what is known to be wrong */
    json_decref(engine_rerun(engine, "n1", "online", "ann", NULL));
    loop_run_for(loop, 30000);
    assert_string_equal(unproven(0), "parts:waived");
    restart("", 2, 1000);
    loop_run_for(loop, 5000);
    assert_string_equal(unproven(0), "parts:waived");
    world.gpu = "G-TWO"; /* it came */
    world.started[0] = '\0';
    assert_string_equal(sweep("n1"), "drift");
    assert_string_equal(unproven(0), "tuned:stale burnt:stale validated:stale");
    assert_string_equal(world.started, "");
    json_decref(engine_waive(engine, "n1", "tuned", "as it was", "ann", &err));
    json_decref(engine_rerun(engine, "n1", "tuned", "ann", NULL));
    loop_run_for(loop, 30000);
    assert_string_equal(unproven(0), "");
}

/* The daemon ends while somebody waits for an answer. */
static void test_end_with_waiters(void **state)
{
    (void)state;
    char result[20] = "";
    proven("", 3);
    json_decref(engine_sweep(engine, NULL, "tester", on_swept, result, NULL));
    loop_run_for(loop, 500);
    assert_int_equal(world.running, 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_spread),
        TEST(test_off),
        TEST(test_at_once_where_limits_bind),
        TEST(test_other_part),
        TEST(test_part_gone_and_back),
        TEST(test_link),
        TEST(test_script),
        TEST(test_repair_waits_for_workload),
        TEST(test_unreachable),
        TEST(test_denied),
        TEST(test_restart),
        TEST(test_maintenance),
        TEST(test_maintenance_calls_off),
        TEST(test_gives_way),
        TEST(test_other_machine),
        TEST(test_apply_proves),
        TEST(test_waive),
        TEST(test_end_with_waiters),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
