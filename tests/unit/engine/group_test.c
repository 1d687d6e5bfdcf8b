/* Groups on virtual time: who takes part, who is not waited for, who is at fault, restarts, scale.
 */
#include "world.h"
#include <math.h>

#include "base/map.h"
#include "base/strbuf.h"
#include "engine/node.h"
#include "engine/step.h"
#include "engine/transfer.h"

enum { MINUTE = 60000, TRANSFER_MS = 10000, DEAD_MS = 30000, NODES_MAX = 5000 };

static struct loop *loop;
static struct store *store;
static struct engine *engine;
static char db[] = "/tmp/clusterd-group-XXXXXX";

static struct {
    const char *nodes, *step, *rollout, *fabric, *power;
} want;

/* What the steps and transfers do, and what was seen of them. */
static struct {
    struct map *failing, *slow, *dead, *late; /* node names */
    int slow_rail;                            /* -1: all */
    int transfers, in_flight, most;
    bool busy[NODES_MAX];
} fake;

/* ---- installs ---- */

static void install_over(void *user)
{
    struct step_run *run = user;
    struct err err = {0};
    if (map_get(fake.failing, run->node->name) != NULL)
        (void)err_set(&err, ERR_INVALID, "the disk takes no data");
    free(run->node->host_key);
    run->node->host_key = xstrdup("ssh-ed25519 AAAA");
    step_done(run, &err, "observed");
}

static int install_start(struct step_run *run, struct err *err)
{
    (void)err;
    bool late = map_get(fake.late, run->node->name) != NULL;
    timer_set(loop, &run->timer, late ? 60 * MINUTE : MINUTE, install_over, run);
    return 0;
}

static const struct step_type fake_netboot = {.name = "netboot", .start = install_start};
static const struct step_type *const types[] = {&fake_netboot, &step_group, NULL};

/* ---- transfers ---- */

struct fake_transfer {
    struct timer timer;
    int64_t server, client;
    int rail;
    char text[200];
    void (*done)(const struct transfer_end *end, void *user);
    void *user;
};

static const char *name_at(int64_t id)
{
    return engine_find_id(engine, id)->name;
}

static bool either(const struct map *names, const struct fake_transfer *t)
{
    return map_get(names, name_at(t->server)) != NULL || map_get(names, name_at(t->client)) != NULL;
}

static void forget(struct fake_transfer *t)
{
    fake.in_flight--;
    fake.busy[t->server] = fake.busy[t->client] = false;
    timer_cancel(&t->timer);
    free(t);
}

static void transfer_over(void *user)
{
    struct fake_transfer *t = user;
    bool slow = either(fake.slow, t) && (fake.slow_rail < 0 || t->rail == fake.slow_rail);
    char log[300];
    struct transfer_end end = {.log = log};
    (void)snprintf(log, sizeof log,
                   " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
                   " 65536 5000 %d %d 0.1\n",
                   slow ? 20 : 191, slow ? 19 : 190);
    if (either(fake.dead, t)) {
        end.at_fault = map_get(fake.dead, name_at(t->server)) != NULL ? t->server : t->client;
        (void)err_set(&end.err, ERR_UNREACHABLE, "%s cannot be worked with: no route",
                      name_at(end.at_fault));
        log[0] = '\0';
    }
    void (*done)(const struct transfer_end *, void *) = t->done;
    void *owner = t->user;
    forget(t);
    done(&end, owner);
}

static struct transfer *start_transfer(struct engine *e, const struct transfer_spec *spec,
                                       void (*done)(const struct transfer_end *end, void *user),
                                       void *user)
{
    struct fake_transfer *t = xcalloc(1, sizeof *t);
    t->server = spec->server;
    t->client = spec->client;
    t->rail = spec->rail;
    t->done = done;
    t->user = user;
    assert_true(e == engine && spec->server != spec->client);
    assert_false(fake.busy[t->server] || fake.busy[t->client]);
    fake.busy[t->server] = fake.busy[t->client] = true;
    fake.transfers++;
    fake.in_flight++;
    fake.most = fake.in_flight > fake.most ? fake.in_flight : fake.most;
    timer_set(loop, &t->timer, either(fake.dead, t) ? DEAD_MS : TRANSFER_MS, transfer_over, t);
    return (struct transfer *)(void *)t;
}

static void cancel_transfer(struct transfer *t)
{
    forget((struct fake_transfer *)(void *)t);
}

static const struct transfer_way way = {.start = start_transfer, .cancel = cancel_transfer};

/* ---- the engine ---- */

static struct spec *parse(struct profiles **ret_profiles)
{
    char *profile = xasprintf(
        "profile: p\ninstall: {image: os.raw, disk: largest}\nstages:\n- {stage: racked}\n"
        "- {stage: installed, after: racked, deadline: 2h, wipes: true, steps: [{netboot: "
        "install}]}\n"
        "- {stage: measured, needs: installed, deadline: 30m, retries: 0, power: %s, steps: "
        "[{group: %s, "
        "server: a.sh, client: b.sh, measure: ib-write-bw, floor_gbs: 150}]}\n"
        "- {stage: validated}\n",
        want.power, want.step);
    char *text = xasprintf("cluster: c\ncredentials: {bmc: {user: u, password: {file: f}}}\n"
                           "classes: {k: {profile: p}}\nracks: {r1: , r2: , r3: }\n"
                           "limits: {installs: 10000}\n%srollout: {%s}\nnodes:\n%s",
                           want.fabric, want.rollout, want.nodes);
    const char *const profiles[] = {profile, NULL};
    struct spec *s = world_parse(profiles, text, ret_profiles);
    free(text);
    free(profile);
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
                              .transfers = &way,
                              .file = world_file,
                              .secret = world_secret,
                              .secret_id = world_secret_id,
                              .artefact = world_artefact,
                              .seed = 7};
    engine = engine_new(&c);
}

#define TWO_RACKS                                                                                  \
    "- {name: 'n[1-4]', class: k, rack: r1, bmc: '10.0.0.[1-4]'}\n"                                \
    "- {name: 'n[5-8]', class: k, rack: r2, bmc: '10.0.0.[5-8]'}\n"

static int setup(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.failing = map_new();
    fake.slow = map_new();
    fake.dead = map_new();
    fake.late = map_new();
    fake.slow_rail = -1;
    want.nodes = TWO_RACKS;
    want.step = "rack";
    want.rollout = want.fabric = "";
    want.power = "normal";
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
    map_free(fake.slow);
    map_free(fake.dead);
    map_free(fake.late);
    world_remove_db(db);
    return left;
}

static void apply(void)
{
    struct profiles *profiles;
    struct err err = {0};
    json_t *plan = NULL;
    struct spec *spec = parse(&profiles);
    if (engine_apply(engine, spec, profiles, "[]", "tester", NULL, &plan, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(plan);
}

static void reopen(void)
{
    struct profiles *profiles;
    struct err err = {0};
    engine_free(engine);
    store_close(store);
    assert_int_equal(fake.in_flight, 0);
    open_engine();
    struct spec *spec = parse(&profiles);
    if (engine_load(engine, spec, profiles, 1, &err) < 0)
        fail_msg("%s", err.text);
    for (int i = 0; i < engine->node_count; i++)
        if (engine->nodes[i]->host_key == NULL)
            engine->nodes[i]->host_key = xstrdup("ssh-ed25519 AAAA");
}

static void rerun(const char *nodes)
{
    struct err err = {0};
    json_t *answer = engine_rerun(engine, nodes, "measured", "tester", &err);
    if (answer == NULL)
        fail_msg("%s", err.text);
    json_decref(answer);
}

static void is(struct map *m, const char *node)
{
    (void)map_set(m, node, m);
}

/* The names of those that are not validated. */
static void assert_others(const char *expected)
{
    struct strbuf names;
    strbuf_init(&names, 1000);
    for (int i = 0; i < engine->node_count; i++)
        if (strcmp(node_word(engine->nodes[i]), "validated") != 0)
            strbuf_addf(&names, "%s%s", names.len > 0 ? " " : "", engine->nodes[i]->name);
    if (strcmp(names.data, expected) != 0) {
        json_t *why = engine_view_why(engine, names.data, NULL);
        fail_msg("not validated: '%s' instead of '%s': %s", names.data, expected,
                 why != NULL ? json_dumps(why, 0) : "");
    }
    strbuf_done(&names);
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

struct search {
    const char *kind, *part;
    int found;
};

static void on_event(const struct store_event *e, void *user)
{
    struct search *s = user;
    s->found += strcmp(e->kind, s->kind) == 0 && strstr(e->text, s->part) != NULL;
}

static int events(const char *kind, const char *part)
{
    struct search s = {kind, part, 0};
    assert_int_equal(store_each_event(store, 0, 0, 100000, on_event, &s, NULL), 0);
    return s.found;
}

static void count_run(const struct store_group_run *r, void *user)
{
    (void)r;
    ++*(int *)user;
}

static int open_runs(void)
{
    int count = 0;
    assert_int_equal(store_each_open_group_run(store, count_run, &count, NULL), 0);
    return count;
}

/* ---- tests ---- */

static void racks_pass(void **state)
{
    (void)state;
    apply();
    loop_run_for(loop, 5 * MINUTE);
    assert_others("");
    assert_int_equal(fake.transfers, 12);
    assert_int_equal(fake.most, 4);
    assert_int_equal(events("group.started", "rack r1: 4 nodes measure in 3 rounds"), 1);
    assert_int_equal(events("group.finished", "rack r2: 4 of 4 passed"), 1);
    assert_int_equal(open_runs(), 0);
}

static void one_is_slow(void **state)
{
    (void)state;
    is(fake.slow, "n3");
    apply();
    loop_run_for(loop, 5 * MINUTE);
    assert_others("n3");
    assert_why("n3", "with 3 of 3 partners (n4, n1, n2) 19 Gb/s where at least 150 is asked; those "
                     "partners reach 190 with others");
    /* alone again, with neighbours that are proven */
    rerun("n3");
    loop_run_for(loop, 5 * MINUTE);
    assert_others("n3");
    assert_why("n3", "with 3 of 3 partners");
    (void)map_remove(fake.slow, "n3");
    rerun("n3");
    loop_run_for(loop, 5 * MINUTE);
    assert_others("");
    for (int i = 0; i < engine->node_count; i++)
        assert_int_equal(engine->nodes[i]->group_peer, 0);
    json_t *results = engine_view_results(engine, "n3", "measured", NULL);
    json_t *last = json_array_get(
        json_object_get(json_array_get(json_object_get(results, "nodes"), 0), "results"), 0);
    json_t *pairs = json_object_get(last, "pairs");
    assert_int_equal(json_array_size(pairs), 3);
    assert_true(json_real_value(json_object_get(last, "value")) > 189);
    assert_true(json_real_value(json_object_get(json_array_get(pairs, 0), "previous")) < 20);
    json_decref(results);
}

static void nobody_waits_for_the_broken(void **state)
{
    (void)state;
    struct err err = {0};
    is(fake.failing, "n2");
    apply();
    json_t *held = engine_hold(engine, "n7", "a part is missing", "tester", &err);
    assert_non_null(held);
    json_decref(held);
    loop_run_for(loop, 5 * MINUTE);
    assert_others("n2 n7");
    assert_int_equal(events("group.started", "left out: n2 failed at installed"), 1);
    assert_int_equal(events("group.started", "left out: n7 is held: a part is missing"), 1);
}

static void a_straggler_comes_later(void **state)
{
    (void)state;
    is(fake.late, "n6");
    apply();
    loop_run_for(loop, 8 * MINUTE);
    assert_others("n5 n6 n7 n8");
    assert_why("n5", "waiting for its group: n6 has come as far as racked");
    loop_run_for(loop, 10 * MINUTE);
    assert_others("n6");
    loop_run_for(loop, 60 * MINUTE);
    assert_others("");
    assert_int_equal(events("group.started", "rack r2: 4 nodes measure in 3 rounds"), 2);
}

static void a_quorum_is_asked_for(void **state)
{
    (void)state;
    want.step = "rack, quorum: 75%";
    is(fake.failing, "n2");
    is(fake.failing, "n6");
    is(fake.failing, "n7");
    apply();
    loop_run_for(loop, 5 * MINUTE);
    assert_others("n2 n5 n6 n7 n8");
    loop_run_for(loop, 10 * MINUTE);
    assert_why("n5", "2 of 4 nodes of rack r2 are ready, and 75% are asked for: n6 failed at "
                     "installed; n7 failed at installed");
}

static void one_dies(void **state)
{
    (void)state;
    is(fake.dead, "n4");
    apply();
    loop_run_for(loop, 5 * MINUTE);
    assert_others("n4");
    assert_why("n4", "n4 cannot be worked with: no route");
    assert_int_equal(fake.transfers, 6 + 4); /* it is asked once, and its partners go on */
}

static void two_alone_cannot_tell(void **state)
{
    (void)state;
    want.nodes = "- {name: 'n[1-2]', class: k, rack: r1, bmc: '10.0.0.[1-2]'}\n"
                 "- {name: 'n[5-8]', class: k, rack: r2, bmc: '10.0.0.[5-8]'}\n";
    is(fake.slow, "n1");
    apply();
    loop_run_for(loop, 3 * MINUTE);
    assert_others("n1 n2");
    assert_why("n2", "it measured with nobody else, so it may be either of the two");
    /* proven nodes of the other rack tell */
    rerun("n[1-2]");
    loop_run_for(loop, 5 * MINUTE);
    assert_others("n1");
}

static void canaries_meet(void **state)
{
    (void)state;
    want.rollout = "canary: 1";
    apply();
    loop_run_for(loop, 2 * MINUTE);
    assert_others("n2 n3 n4 n6 n7 n8");
    loop_run_for(loop, 5 * MINUTE);
    assert_others("");
    assert_int_equal(events("group.started", "class k: 2 nodes measure in 1 rounds"), 1);
    assert_int_equal(events("group.started", "r1: 4 nodes measure in 3 rounds"), 1);
}

static void rails_are_told_apart(void **state)
{
    (void)state;
    want.step = "rail, rounds: 2";
    want.fabric = "fabric: {type: infiniband, rails: 4}\n";
    is(fake.slow, "n3");
    fake.slow_rail = 2;
    apply();
    loop_run_for(loop, 10 * MINUTE);
    assert_others("n3");
    assert_why("n3", "rail 2: with 2 of 2 partners");
    assert_int_equal(fake.transfers, 4 * 2 * 4);
}

static void a_restart_in_the_middle(void **state)
{
    (void)state;
    is(fake.slow, "n3");
    apply();
    for (int i = 0; i < 12; i++) {
        loop_run_for(loop, i == 0 ? MINUTE - 1000 : 4000);
        reopen();
    }
    loop_run_for(loop, 5 * MINUTE);
    assert_others("n3");
    assert_why("n3", "with 3 of 3 partners");
    assert_int_equal(open_runs(), 0);
    assert_int_equal(events("group.started", "rack r1"), 1);
    rerun("n3");
    loop_run_for(loop, MINUTE / 6);
    reopen(); /* those that lend themselves do so after it, too */
    loop_run_for(loop, 5 * MINUTE);
    assert_int_equal(open_runs(), 0);
    for (int i = 0; i < engine->node_count; i++)
        assert_int_equal(engine->nodes[i]->group_peer, 0);
}

static void members_leave(void **state)
{
    (void)state;
    want.step = "cluster";
    apply();
    loop_run_for(loop, MINUTE + 12000); /* in the second round */
    want.nodes = "- {name: 'n[1-4]', class: k, rack: r1, bmc: '10.0.0.[1-4]'}\n"
                 "- {name: 'n[6-8]', class: k, rack: r2, bmc: '10.0.0.[6-8]'}\n";
    apply();
    loop_run_for(loop, 5 * MINUTE);
    assert_others("");
    assert_int_equal(engine->node_count, 7);
    assert_int_equal(open_runs(), 0);
    assert_int_equal(events("group.finished", "class k: 7 of 7 passed"), 1);
    /* the step itself is replaced while they measure */
    rerun("n[1-4,6-8]");
    loop_run_for(loop, 15000);
    want.step = "pair";
    apply();
    loop_run_for(loop, 10 * MINUTE);
    assert_others("");
    assert_int_equal(open_runs(), 0);
}

/* Its watts would be nobody's: a node on its own measures with no proven one. */
static void full_load_borrows_nobody(void **state)
{
    (void)state;
    want.power = "burnin";
    apply();
    loop_run_for(loop, 5 * MINUTE);
    assert_others("");
    assert_int_equal(fake.transfers, 12);
    rerun("n3");
    loop_run_for(loop, 20 * MINUTE);
    assert_others("n3");
    assert_int_equal(fake.transfers, 12);
    rerun("n[3-4]");
    loop_run_for(loop, 20 * MINUTE);
    assert_others("");
    assert_int_equal(fake.transfers, 13);
}

static void one_result_for_two(void **state)
{
    (void)state;
    want.step = "pair, counts_for: both";
    apply();
    loop_run_for(loop, 5 * MINUTE);
    assert_others("");
    assert_int_equal(fake.transfers, 4);
    fake.transfers = 0;
    want.step = "pair";
    apply();
    loop_run_for(loop, 5 * MINUTE);
    assert_others("");
    assert_int_equal(fake.transfers, 8);
}

static void many(void **state)
{
    (void)state;
    want.step = "cluster, at_once: 100";
    want.nodes = "- {name: 'n[1-4000]', class: k, rack: r1, bmc: '10.0.[0-15].[1-250]'}\n";
    is(fake.slow, "n17");
    is(fake.failing, "n18");
    is(fake.dead, "n1900");
    apply();
    loop_run_for(loop,
                 60 * MINUTE); /* longer than the stage's deadline: it is no fault of theirs */
    assert_others("n17 n18 n1900");
    assert_int_equal(fake.most, 100);
    assert_true(fake.transfers >= 5990 && fake.transfers <= 6000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(racks_pass),
        TEST(one_is_slow),
        TEST(nobody_waits_for_the_broken),
        TEST(a_straggler_comes_later),
        TEST(a_quorum_is_asked_for),
        TEST(one_dies),
        TEST(two_alone_cannot_tell),
        TEST(canaries_meet),
        TEST(rails_are_told_apart),
        TEST(full_load_borrows_nobody),
        TEST(a_restart_in_the_middle),
        TEST(members_leave),
        TEST(one_result_for_two),
        TEST(many),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
