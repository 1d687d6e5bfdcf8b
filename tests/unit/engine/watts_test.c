/*
 * The power budget in the engine, on virtual time: machines behind a BMC driver of the test draw
 * what they truly draw, and that never exceeds the feed, whoever switches them on, also after the
 * daemon was killed with a command on its way.
 */
#include "world.h"

#include "base/fsutil.h"
#include "bmc/driver.h"
#include "engine/node.h"

enum { MACHINES = 24, ANSWER_MS = 50, ON_MS = 500, INRUSH_MS = 4000, BOOT_MS = 60000 };

/* A machine: what it does with the BMC's commands, and what it draws. */
struct machine {
    bool on, dead; /* dead: its BMC never answers */
    int64_t on_at; /* since when, or from when on */
};

static struct machine machines[MACHINES];
static struct loop *loop;
static struct store *store;
static struct engine *engine;
static struct bmc_hub *hub;
static char db[80], copy[100];
static struct timer watch_timer;

static struct {
    int inrush_w, boot_w, idle_w, burnin_w, usable_w; /* of the spec, for the truth */
    int booting, most_booting;
    int burning, most_burning;
    int commands;
    int copy_at;    /* the command at which the daemon "is killed"; 0: never */
    int64_t disk_w; /* the sum of the rows that were on disk at the last command */
    bool delivered;
    char runs[4000];
} seen;

/* ---- machines ---- */

static int booting_now(int64_t *ret_watts)
{
    int count = 0;
    int64_t now = loop_now(loop), watts = 0;
    for (int i = 0; i < MACHINES; i++) {
        const struct machine *m = &machines[i];
        if (!m->on || now < m->on_at)
            continue;
        bool boots = now - m->on_at < BOOT_MS;
        count += boots;
        watts += now - m->on_at < INRUSH_MS ? seen.inrush_w : boots ? seen.boot_w : seen.idle_w;
    }
    *ret_watts = watts + seen.burning * (seen.burnin_w - seen.idle_w);
    return count;
}

static void watch(void *user)
{
    int64_t watts;
    (void)user;
    seen.booting = booting_now(&watts);
    if (seen.booting > seen.most_booting)
        seen.most_booting = seen.booting;
    if (watts > seen.usable_w)
        fail_msg("at %lld: %lld W are drawn", (long long)loop_now(loop), (long long)watts);
    timer_set(loop, &watch_timer, 100, watch, NULL);
}

static void sum_row(const struct store_reservation *r, void *user)
{
    *(int64_t *)user += r->watts;
}

struct search {
    int64_t id;
    bool found;
};

static void find_row(const struct store_reservation *r, void *user)
{
    struct search *s = user;
    s->found = s->found || (r->node_id == s->id && strcmp(r->state, "inrush") == 0);
}

static void copy_file(const char *suffix)
{
    char *from = xasprintf("%s%s", db, suffix), *to = xasprintf("%s%s", copy, suffix), *text = NULL;
    size_t len;
    struct err err = {0};
    (void)unlink(to);
    if (fs_read(from, 64 << 20, &text, &len, &err) == 0) {
        FILE *f = fopen(to, "w");
        assert_non_null(f);
        assert_int_equal(fwrite(text, 1, len, f), len);
        assert_int_equal(fclose(f), 0);
    }
    free(text);
    free(from);
    free(to);
}

/* What a daemon that starts after a kill -9 at this moment would read. */
static void check_disk(int64_t node_id)
{
    struct err err = {0};
    struct store *s = NULL;
    struct search search = {.id = node_id};
    int64_t sum = 0;
    copy_file("");
    copy_file("-wal");
    if (store_open(loop, copy, &s, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(store_each_reservation(s, find_row, &search, NULL), 0);
    assert_int_equal(store_each_reservation(s, sum_row, &sum, NULL), 0);
    store_close(s);
    assert_true(search.found);
    assert_true(sum <= seen.usable_w);
    seen.disk_w = sum;
}

/* Its place among the nodes: the port, from 1. */
static int at(const struct bmc *b)
{
    return b->port - 1;
}

static void answer(void *user)
{
    struct request *r = user;
    struct machine *m = &machines[at(r->bmc)];
    if (m->dead) {
        struct err err = {0};
        (void)err_set(&err, ERR_TIMEOUT, "no answer");
        request_done(r, &err);
        return;
    }
    if (r->kind == REQ_POWER_GET)
        r->pub.on = m->on && loop_now(loop) >= m->on_at;
    if (r->kind == REQ_POWER_SET && r->action == BMC_POWER_OFF)
        m->on = false;
    if (r->kind == REQ_POWER_SET && r->action == BMC_POWER_ON && !m->on)
        *m = (struct machine){.on = true, .on_at = loop_now(loop) + ON_MS};
    if (r->kind == REQ_POWER_SET && r->action == BMC_POWER_RESET && m->on)
        m->on_at = loop_now(loop) - INRUSH_MS;
    request_done(r, NULL);
}

static void fake_start(struct request *r)
{
    if (seen.copy_at > 0 && seen.commands >= seen.copy_at)
        return; /* the daemon is dead */
    if (r->kind == REQ_POWER_SET && r->action == BMC_POWER_ON) {
        check_disk(engine->nodes[at(r->bmc)]->id); /* before the command goes out */
        if (++seen.commands == seen.copy_at) {
            if (seen.delivered)
                machines[at(r->bmc)] =
                    (struct machine){.on = true, .on_at = loop_now(loop) + ON_MS};
            loop_stop(loop);
            return;
        }
    }
    timer_set(loop, &r->timer, ANSWER_MS, answer, r);
}

static void fake_cancel(struct request *r)
{
    timer_cancel(&r->timer);
}

static bool fake_knows(const struct request *r)
{
    return r->kind != REQ_READ && r->kind != REQ_CHANGE;
}

static const struct bmc_driver fake_driver = {
    .name = "test", .knows = fake_knows, .start = fake_start, .cancel = fake_cancel};
static const struct bmc_driver *const drivers[] = {&fake_driver, NULL};

static void connect_bmcs(void)
{
    for (int i = 0; i < engine->node_count; i++) {
        struct err err;
        struct bmc_target t = {.address = "10.0.0.1", .driver = "test", .port = 1 + i};
        if (bmc_open(hub, &t, &engine->nodes[i]->bmc, &err) < 0)
            fail_msg("%s", err.text);
    }
}

/* ---- steps that are not about power ---- */

static void run_over(void *user)
{
    struct step_run *run = user;
    seen.burning--;
    run->priv = NULL;
    step_done(run, NULL, "done");
}

static int run_start(struct step_run *run, struct err *err)
{
    (void)err;
    int64_t watts;
    (void)booting_now(&watts);
    seen.burning++;
    if (seen.burning > seen.most_burning)
        seen.most_burning = seen.burning;
    size_t len = strlen(seen.runs);
    (void)snprintf(seen.runs + len, sizeof seen.runs - len, "%s%s", len ? " " : "",
                   run->node->name);
    timer_set(loop, &run->timer, 120000, run_over, run);
    return 0;
}

static const struct step_type fake_run = {.name = "run", .start = run_start};
static const struct step_type *const types[] = {&step_bmc, &fake_run, NULL};

/* ---- engine ---- */

static void secret_id(const char *text, char hex[65], void *user)
{
    (void)text;
    (void)user;
    hex[0] = '\0';
}

#define STAGE_ON                                                                                   \
    "- {stage: powered, reboots: true, after: racked, deadline: 2m, steps: [{bmc: power-on}]}\n"
#define STAGE_BURN                                                                                 \
    "- {stage: burned, after: racked, power: burnin, deadline: 5m, steps: [{run: b.sh}]}\n"

static struct spec *parse(const char *stages, const char *power, const char *nodes,
                          struct profiles **ret_profiles)
{
    struct bundle profiles, spec;
    struct diags d;
    bundle_init(&profiles);
    bundle_init(&spec);
    diags_init(&d);
    char *profile =
        xasprintf("profile: p\nstages:\n- {stage: racked}\n%s- {stage: validated}\n", stages);
    char *text = xasprintf(
        "cluster: c\ncredentials: {bmc: {user: u, password: {file: f}}}\n"
        "classes: {k: {profile: p, power: {inrush_w: %d, boot_w: %d, idle_w: %d, burnin_w: %d}}}\n"
        "power: {boot_timeout: 60s, feeds: {%s}}\n%s",
        seen.inrush_w, seen.boot_w, seen.idle_w, seen.burnin_w, power, nodes);
    bundle_add(&profiles, "p.yaml", profile, strlen(profile));
    bundle_add(&spec, "s.yaml", text, strlen(text));
    *ret_profiles = profiles_parse(&profiles, &d);
    struct spec *s = spec_parse(&spec, *ret_profiles, &d);
    if (s == NULL)
        fail_msg("%s", d.count > 0 ? d.items[0].text : "?");
    free(text);
    free(profile);
    diags_done(&d);
    bundle_done(&profiles);
    bundle_done(&spec);
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
                              .secret = world_secret,
                              .secret_id = secret_id,
                              .seed = 7};
    engine = engine_new(&c);
}

static int setup(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    memset(machines, 0, sizeof machines);
    (void)snprintf(db, sizeof db, "/tmp/clusterd-watts-XXXXXX");
    (void)close(mkstemp(db));
    (void)snprintf(copy, sizeof copy, "%s.copy", db);
    loop = loop_new_virtual(WORLD_BEGINS);
    struct err err;
    struct bmc_hub_config c = {.loop = loop, .drivers = drivers};
    hub = bmc_hub_new(&c, &err);
    open_engine();
    timer_set(loop, &watch_timer, 0, watch, NULL);
    return 0;
}

static int teardown(void **state)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", ".lock"};
    (void)state;
    timer_cancel(&watch_timer);
    engine_free(engine);
    store_close(store);
    bmc_hub_free(hub);
    int left = loop_free(loop);
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        char *path = xasprintf("%s%s", db, suffixes[i]),
             *other = xasprintf("%s%s", copy, suffixes[i]);
        (void)unlink(path);
        (void)unlink(other);
        free(path);
        free(other);
    }
    return left;
}

static void envelope(int inrush, int boot, int idle, int burnin, int usable)
{
    seen.inrush_w = inrush;
    seen.boot_w = boot;
    seen.idle_w = idle;
    seen.burnin_w = burnin;
    seen.usable_w = usable;
}

static void apply(const char *stages, const char *power, const char *nodes)
{
    struct profiles *profiles;
    struct err err = {0};
    json_t *plan = NULL;
    struct spec *spec = parse(stages, power, nodes, &profiles);
    if (engine_apply(engine, spec, profiles, nodes, "tester", NULL, &plan, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(plan);
    connect_bmcs();
}

static json_int_t feed_value(const char *key)
{
    json_t *status = engine_view_status(engine);
    json_int_t value = json_integer_value(
        json_object_get(json_array_get(json_object_get(status, "feeds"), 0), key));
    json_decref(status);
    return value;
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

/* The node that has so many before it. */
static const char *waiting_at(int place)
{
    for (int i = 0; i < engine->node_count; i++) {
        const struct budget_load *l = &engine->nodes[i]->watts.load;
        if (l->waiting && budget_before(l) == place)
            return engine->nodes[i]->name;
    }
    fail_msg("nobody has %d before it", place);
    return "";
}

/* Every stage of every node is proven, each by its first attempt. */
static void assert_all_proven(int attempts)
{
    for (int i = 0; i < engine->node_count; i++) {
        const struct enode *n = engine->nodes[i];
        json_t *view = engine_view_node(engine, n->name, NULL);
        assert_string_equal(json_string_value(json_object_get(view, "state")), "validated");
        if (attempts > 0)
            assert_int_equal(json_array_size(json_object_get(view, "attempts")), attempts);
        json_decref(view);
    }
}

#define TWENTY                                                                                     \
    "racks: {r1: {feed: pdu}}\nnodes:\n- {name: 'n[01-20]', bmc: '10.0.0.[1-20]', rack: r1}\n"

/* ---- tests ---- */

static void test_a_rack_with_room_for_three(void **state)
{
    (void)state;
    envelope(1000, 800, 1, 900, 3017);
    apply(STAGE_ON, "pdu: {rated_kw: 3.352, reserve: 10%}", TWENTY);
    assert_int_equal(engine->spec->feeds[0].usable_w, 3016);
    loop_run_for(loop, 3000);
    assert_int_equal(feed_value("reserved_w"), 3000);
    assert_int_equal(feed_value("rated_w"), 3352);
    assert_int_equal(feed_value("waiting"), 17);
    for (int i = 0; i < 17; i++) {
        char *text =
            xasprintf("waits for 1000 W on feed pdu: 3 of 3.016 kW reserved, %d before it", i);
        assert_why(waiting_at(i), text);
        free(text);
    }
    loop_run_for(loop, 20 * 60000);
    assert_int_equal(seen.most_booting, 3);
    assert_int_equal(seen.commands, 20);
    /* the deadline of 2 minutes did not run while they waited */
    assert_all_proven(3);
    assert_int_equal(feed_value("reserved_w"), 20);
    assert_int_equal(feed_value("waiting"), 0);
    assert_in_range(feed_value("peak_reserved_w"), 3000, 3016);
}

static void test_ramp(void **state)
{
    (void)state;
    envelope(1000, 500, 100, 900, 30000);
    apply(STAGE_ON, "pdu: {rated_kw: 30, ramp_kw_per_min: 2}", TWENTY);
    loop_run_for(loop, 5 * 60000 + 3000);
    assert_int_equal(seen.commands, 10);
    assert_why("n20", "its load may grow by 2 kW a minute");
    loop_run_for(loop, 10 * 60000);
    assert_int_equal(seen.commands, 20);
    assert_all_proven(3);
}

static json_t *answered;

static void on_answer(json_t *result, void *user)
{
    (void)user;
    answered = result;
}

static int power_all(const char *action, int64_t ms, int *ret_waiting)
{
    int ok = 0;
    size_t i;
    json_t *row;
    answered = NULL;
    *ret_waiting = 0;
    assert_int_equal(engine_power(engine, "", action, "tester", on_answer, NULL, NULL), 0);
    loop_run_for(loop, ms);
    assert_non_null(answered);
    json_array_foreach(json_object_get(answered, "nodes"), i, row)
    {
        const char *text =
            json_string_value(json_object_get(json_object_get(row, "error"), "text"));
        ok += json_is_true(json_object_get(row, "ok"));
        *ret_waiting += text != NULL && strstr(text, "waits for 1000 W on feed pdu") != NULL;
    }
    json_decref(answered);
    return ok;
}

static void test_operators_wait_as_well(void **state)
{
    (void)state;
    int waiting;
    envelope(1000, 800, 1, 900, 3020);
    apply("", "pdu: {rated_kw: 3.02, ramp_kw_per_min: 0.8}", TWENTY);
    loop_run_for(loop, 1000);
    /* 12 are switched on within a quarter of an hour, the others are told why they are not */
    int ok = power_all("on", 16 * 60000, &waiting);
    assert_in_range(ok, 11, 12);
    assert_int_equal(ok + waiting, 20);
    assert_int_equal(seen.commands, ok);
    assert_in_range(seen.most_booting, 1, 3);
    assert_int_equal(feed_value("waiting"), 0);
    /* what is on keeps its watts, also while it is cycled */
    int before = seen.commands;
    ok = power_all("cycle", 16 * 60000, &waiting);
    assert_int_equal(ok + waiting, 20);
    assert_int_equal(seen.commands, before + ok);
    assert_int_equal(power_all("off", 60000, &waiting), 20);
    assert_int_equal(feed_value("reserved_w"), 0);
}

static void test_reset_counts_as_boot(void **state)
{
    (void)state;
    int waiting;
    envelope(1000, 1000, 1, 900, 3020);
    for (int i = 0; i < 20; i++)
        machines[i] = (struct machine){.on = true, .on_at = -BOOT_MS};
    apply("", "pdu: {rated_kw: 3.02}", TWENTY);
    assert_int_equal(power_all("reset", 16 * 60000, &waiting), 20);
    assert_int_equal(waiting, 0);
    assert_int_equal(seen.most_booting, 3);
}

static void test_unknown_counts_as_idle(void **state)
{
    (void)state;
    envelope(1000, 800, 200, 900, 4000);
    for (int i = 0; i < 12; i++)
        machines[i].dead = true;
    apply(STAGE_ON, "pdu: {rated_kw: 4}", TWENTY);
    assert_int_equal(feed_value("reserved_w"), 4000);
    assert_int_equal(feed_value("unknown"), 20);
    loop_run_for(loop, 5000);
    /* 12 * 200 W that nobody knows anything of, and 1000 W: the next has no room */
    assert_int_equal(feed_value("reserved_w"), 3400);
    assert_int_equal(feed_value("unknown"), 12);
    assert_why("n20", "; 12 of its nodes count as idle because nobody knows whether they are on");
}

static void test_burn_in(void **state)
{
    (void)state;
    envelope(1000, 800, 100, 900, 2900);
    for (int i = 0; i < 6; i++)
        machines[i] = (struct machine){.on = true, .on_at = -BOOT_MS};
    apply(STAGE_BURN, "pdu: {rated_kw: 2.9}",
          "racks: {r1: {feed: pdu}, r2: {feed: pdu}}\nnodes:\n"
          "- {name: 'a[1-4]', bmc: '10.0.0.[1-4]', rack: r1}\n"
          "- {name: 'b[1-2]', bmc: '10.0.0.[5-6]', rack: r2}\n");
    loop_run_for(loop, 5000);
    assert_int_equal(seen.burning, 2);
    const char *last = waiting_at(3);
    assert_int_equal(last[0], 'a');
    assert_why(last, "waits for 800 W on feed pdu: 2.2 of 2.9 kW reserved, 3 before it");
    json_decref(engine_hold(engine, last, "a part is swapped", "tester", NULL));
    loop_run_for(loop, 10 * 60000);
    assert_int_equal(seen.most_burning, 2);
    /* five names: racks take turns, and the last is held */
    assert_int_equal(strlen(seen.runs), 14);
    assert_null(strstr(seen.runs, last));
    assert_true(seen.runs[0] != seen.runs[3] && seen.runs[3] != seen.runs[6] &&
                seen.runs[6] != seen.runs[9]);
    assert_int_equal(feed_value("reserved_w"), 600);
    json_decref(engine_release(engine, last, "tester", NULL));
    loop_run_for(loop, 5 * 60000);
    assert_all_proven(3);
    assert_int_equal(feed_value("reserved_w"), 600);
}

/* The daemon is killed when a command is about to go out: what the next one counts is what is on
 * disk, and goes on from there. */
static void test_killed_between_reservation_and_command(void **state)
{
    (void)state;
    for (int at = 1; at <= 20; at++) {
        struct profiles *profiles;
        struct err err = {0};
        seen.copy_at = at;
        seen.delivered = at % 2 == 0;
        envelope(1000, 800, 1, 900, 3020);
        apply(STAGE_ON, "pdu: {rated_kw: 3.02}", TWENTY);
        loop_run_for(loop, 20 * 60000);
        assert_int_equal(seen.commands, at);
        engine_free(engine);
        store_close(store);
        (void)snprintf(db + strlen(db), sizeof db - strlen(db), ".copy");
        (void)snprintf(copy, sizeof copy, "%s.copy", db);
        open_engine();
        seen.copy_at = 0;
        int64_t disk_w = seen.disk_w;
        struct spec *spec = parse(STAGE_ON, "pdu: {rated_kw: 3.02}", TWENTY, &profiles);
        if (engine_load(engine, spec, profiles, 1, &err) < 0)
            fail_msg("%s", err.text);
        connect_bmcs();
        assert_int_equal(feed_value("reserved_w"), disk_w);
        loop_run_for(loop, 30 * 60000);
        assert_in_range(seen.most_booting, 1, 3);
        assert_all_proven(0);
        assert_int_equal(feed_value("reserved_w"), 20);
        char *first = xstrndup(db, strlen(db) - 5);
        (void)unlink(first);
        for (const char *const *s = (const char *const[]){"-wal", "-shm", ".lock", NULL}; *s; s++) {
            char *path = xasprintf("%s%s", first, *s);
            (void)unlink(path);
            free(path);
        }
        free(first);
        assert_int_equal(teardown(state), 0);
        (void)setup(state);
    }
}

/* Another spec while nodes wait: they keep their places, and the new feeds count. */
static void test_a_new_spec(void **state)
{
    (void)state;
    envelope(1000, 800, 1, 900, 3020);
    apply(STAGE_ON, "pdu: {rated_kw: 1.02}", TWENTY);
    loop_run_for(loop, 3000);
    assert_int_equal(feed_value("waiting"), 19);
    for (int i = 0; i < engine->node_count; i++)
        engine->nodes[i]->bmc = (bmc_close(engine->nodes[i]->bmc), NULL);
    apply(STAGE_ON, "pdu: {rated_kw: 3.02}",
          "racks: {r1: {feed: pdu}}\nnodes:\n- {name: 'n[01-18]', bmc: '10.0.0.[1-18]', rack: "
          "r1}\n");
    loop_run_for(loop, 20 * 60000);
    assert_in_range(seen.most_booting, 2, 3);
    assert_all_proven(0);
    assert_int_equal(feed_value("reserved_w"), 18);
    int64_t sum = 0;
    assert_int_equal(store_each_reservation(store, sum_row, &sum, NULL), 0);
    assert_int_equal(sum, 18); /* those that left the spec have no row */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_rack_with_room_for_three, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ramp, setup, teardown),
        cmocka_unit_test_setup_teardown(test_operators_wait_as_well, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reset_counts_as_boot, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_counts_as_idle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_burn_in, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_between_reservation_and_command, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_new_spec, setup, teardown),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
