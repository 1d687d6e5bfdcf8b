/* Measurements of groups come back as written, with what was reached the time before. */
#include "rows.h"

static void is_run(const struct store_group_run *r, void *user)
{
    const struct store_group_run *x = NEXT(store_group_run);
    NUMBER(id);
    NUMBER(at);
    TEXT(stage);
    NUMBER(step);
    TEXT(scope);
    TEXT(class_name);
    TEXT(rack);
    NUMBER(rounds);
    NUMBER(rails);
    TEXT(status);
    TEXT(text);
    NUMBER(ended_at);
}

static void is_member(const struct store_group_member *r, void *user)
{
    const struct store_group_member *x = NEXT(store_group_member);
    NUMBER(run_id);
    NUMBER(node_id);
    NUMBER(ordinal);
    TEXT(stage);
    NUMBER(attempt_id);
    TEXT(verdict);
    TEXT(why);
    TEXT(unit);
    NUMBER(at);
    assert_true(isnan(r->value) ? isnan(x->value) : r->value == x->value);
    assert_true(isnan(r->limit) ? isnan(x->limit) : r->limit == x->limit);
}

static void is_result(const struct store_group_result *r, void *user)
{
    const struct store_group_result *x = NEXT(store_group_result);
    NUMBER(run_id);
    NUMBER(bout);
    NUMBER(round);
    NUMBER(rail);
    NUMBER(node_id);
    NUMBER(peer_id);
    TEXT(stage);
    TEXT(metric);
    TEXT(unit);
    TEXT(verdict);
    TEXT(why);
    NUMBER(at);
    assert_true(isnan(r->value) ? isnan(x->value) : r->value == x->value);
}

static void runs(void **state)
{
    (void)state;
    struct store_group_run rows[] = {
        {.at = T0,
         .stage = "fabric-tested",
         .step = 1,
         .scope = "rack",
         .class_name = "k",
         .rack = "r1",
         .rounds = 3,
         .rails = 1,
         .status = "running",
         .text = "left out: n7 is held"},
        {.at = T0, .stage = "rails", .scope = "rail", .status = "running"}};
    struct store_group_run over = rows[1];
    rows[0].id = store_put_group_run(store, &rows[0]);
    over.id = store_put_group_run(store, &over);
    rows[1].id = store_put_group_run(store, &rows[1]);
    over.status = "finished";
    over.ended_at = T0 + 5;
    assert_int_equal(store_put_group_run(store, &over), over.id);
    struct expected e = EXPECT(rows);
    assert_int_equal(store_each_open_group_run(store, is_run, &e, NULL), 0);
    SEEN_ALL(e);
}

static void members_and_results(void **state)
{
    (void)state;
    struct store_group_member members[] = {
        {.run_id = 4,
         .node_id = 9,
         .ordinal = 0,
         .stage = "s",
         .attempt_id = 12,
         .verdict = "fault",
         .why = "slow",
         .value = 19,
         .limit = 150,
         .unit = "Gb/s",
         .at = T0},
        {.run_id = 4, .node_id = 3, .ordinal = 1, .value = NAN, .limit = NAN}};
    struct store_group_member first = {.run_id = 4, .node_id = 9, .value = NAN, .limit = NAN};
    store_put_group_member(store, &first);
    store_put_group_member(store, &members[1]);
    store_put_group_member(store, &members[0]);
    struct expected m = EXPECT(members);
    assert_int_equal(store_each_group_member(store, 4, is_member, &m, NULL), 0);
    SEEN_ALL(m);

    struct store_group_result results[] = {{.run_id = 4,
                                            .bout = 0,
                                            .round = 2,
                                            .rail = 5,
                                            .node_id = 9,
                                            .peer_id = 3,
                                            .stage = "s",
                                            .metric = "ib_write_bw",
                                            .value = 19,
                                            .limit = 150,
                                            .unit = "Gb/s",
                                            .verdict = "low",
                                            .at = T0},
                                           {.run_id = 4,
                                            .bout = 1,
                                            .rail = -1,
                                            .metric = "transfer",
                                            .value = NAN,
                                            .limit = NAN,
                                            .verdict = "none",
                                            .why = "it left"}};
    struct store_group_result other = results[0];
    other.run_id = 5;
    store_put_group_result(store, &results[1]);
    store_put_group_result(store, &results[0]);
    store_put_group_result(store, &results[0]);
    store_put_group_result(store, &other);
    struct expected e = EXPECT(results);
    assert_int_equal(store_each_group_result(store, 4, is_result, &e, NULL), 0);
    SEEN_ALL(e);
}

/* ---- the last ones ---- */

struct seen {
    int groups, pairs;
    int64_t node, run[4];
    double value[4], previous[4];
};

static void see_result(const struct store_last_result *r, void *user)
{
    struct seen *s = user;
    assert_true(s->pairs < 4);
    s->value[s->pairs] = r->result.value;
    s->previous[s->pairs++] = r->previous;
}

static void see_group(const struct store_last_group *r, void *user)
{
    struct seen *s = user;
    s->run[s->groups++] = r->run.id;
    assert_int_equal(store_each_last_result(store, s->node, r->run.id, see_result, s, NULL), 0);
}

static void measured(int64_t run, int64_t node, int64_t peer, double value)
{
    struct store_group_member m = {.run_id = run,
                                   .node_id = node,
                                   .stage = "s",
                                   .verdict = "ok",
                                   .value = value,
                                   .limit = NAN};
    struct store_group_result r = {.run_id = run,
                                   .rail = -1,
                                   .node_id = node,
                                   .peer_id = peer,
                                   .stage = "s",
                                   .metric = "bw",
                                   .value = value,
                                   .limit = NAN,
                                   .verdict = "ok"};
    store_put_group_member(store, &m);
    m.node_id = peer;
    store_put_group_member(store, &m);
    store_put_group_result(store, &r);
}

static void the_last_ones(void **state)
{
    (void)state;
    struct store_group_run r = {.at = T0, .stage = "s", .scope = "rack", .status = "finished"};
    int64_t ids[4];
    for (int i = 0; i < 4; i++) {
        struct store_group_run next = r;
        next.step = i == 3;
        ids[i] = store_put_group_run(store, &next);
    }
    measured(ids[0], 1, 2, 100);
    measured(ids[1], 2, 1, 110); /* the other way round: the same two */
    measured(ids[3], 1, 3, 50);  /* another step of the stage */
    struct store_group_member unknown = {
        .run_id = ids[2], .node_id = 1, .stage = "s", .value = NAN, .limit = NAN};
    store_put_group_member(store, &unknown); /* goes on: no verdict yet */
    struct seen seen = {.node = 1};
    assert_int_equal(store_each_last_group(store, 1, NULL, see_group, &seen, NULL), 0);
    assert_int_equal(seen.groups, 2);
    assert_int_equal(seen.run[0], ids[1]);
    assert_int_equal(seen.run[1], ids[3]);
    assert_int_equal(seen.pairs, 2);
    assert_true(seen.value[0] == 110 && seen.previous[0] == 100);
    assert_true(seen.value[1] == 50 && isnan(seen.previous[1]));
    struct seen none = {.node = 1};
    assert_int_equal(store_each_last_group(store, 1, "other", see_group, &none, NULL), 0);
    assert_int_equal(none.groups, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(runs, setup, teardown),
        cmocka_unit_test_setup_teardown(members_and_results, setup, teardown),
        cmocka_unit_test_setup_teardown(the_last_ones, setup, teardown),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
