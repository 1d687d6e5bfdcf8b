/* The store's rows: every kind comes back as it was written, NULLs too, and each reader's choice.
 */
#include "rows.h"

static void is_node(const struct store_node *r, void *user)
{
    const struct store_node *x = NEXT(store_node);
    NUMBER(id);
    TEXT(name);
    NUMBER(revision);
    TEXT(class_name);
    TEXT(profile);
    TEXT(rack);
    TEXT(unit);
    TEXT(bmc);
    TEXT(address);
    TEXT(serial);
    TEXT(uuid);
    TEXT(macs);
    TEXT(state);
    TEXT(operation);
    TEXT(admin);
    TEXT(hold_reason);
    TEXT(hold_by);
    NUMBER(hold_at);
    TEXT(power_desired);
    TEXT(power_observed);
    NUMBER(power_at);
    TEXT(boot_intent);
    TEXT(health);
    NUMBER(created_at);
    NUMBER(removed_at);
}

static void nodes(void **state)
{
    (void)state;
    struct store_node rows[] = {{.name = "gpu001",
                                 .revision = 3,
                                 .class_name = "h200",
                                 .profile = "gpu",
                                 .rack = "r01",
                                 .unit = "17",
                                 .bmc = "10.20.0.1",
                                 .address = "10.0.0.1",
                                 .serial = "SN'1\"",
                                 .uuid = "1ab00000-0000-4000-8000-000000000001",
                                 .macs = "52:54:00:77:00:01,52:54:00:77:00:02",
                                 .state = "validated",
                                 .operation = "idle",
                                 .admin = "held",
                                 .hold_reason = "fan \xc3\xbc"
                                                "ber 100 %",
                                 .hold_by = "root",
                                 .hold_at = T0 + 1,
                                 .power_desired = "on",
                                 .power_observed = "off",
                                 .power_at = T0 + 2,
                                 .boot_intent = "disk",
                                 .health = "ok",
                                 .created_at = T0 + 3,
                                 .removed_at = T0 + 4},
                                {.name = "gpu001"}, /* the name is free: the other one is removed */
                                {.name = "gpu002", .created_at = 999}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        rows[i].id = store_put_node(store, &rows[i]);
        assert_int_equal(rows[i].id, (int64_t)i + 1);
    }
    struct expected e = EXPECT(rows);
    assert_int_equal(store_each_node(store, is_node, &e, NULL), 0);
    SEEN_ALL(e);

    rows[2] = (struct store_node){.id = 3, .name = "login1", .state = "racked", .hold_at = T0};
    assert_int_equal(store_put_node(store, &rows[2]), 3);
    e.seen = 0;
    assert_int_equal(store_each_node(store, is_node, &e, NULL), 0);
    SEEN_ALL(e);
}

static void is_stage(const struct store_stage *r, void *user)
{
    const struct store_stage *x = NEXT(store_stage);
    NUMBER(node_id);
    TEXT(name);
    NUMBER(ordinal);
    TEXT(status);
    TEXT(fingerprint);
    assert_null(r->inputs); /* read one by one */
    TEXT(reason);
    NUMBER(attempt_id);
    NUMBER(passed_at);
    NUMBER(changed_at);
}

static void stages(void **state)
{
    (void)state;
    struct store_stage rows[] = {
        {.node_id = 1, .name = "racked", .ordinal = 0, .status = "pending"},
        {.node_id = 1,
         .name = "installed",
         .ordinal = 1,
         .status = "stale",
         .fingerprint = "f00",
         .inputs = "[\"image\"]",
         .reason = "image changed",
         .attempt_id = 8,
         .passed_at = T0,
         .changed_at = T0 + 5},
        {.node_id = 2, .name = "racked", .ordinal = 0, .status = "passed"},
    };
    for (int i = (int)ARRAY_LEN(rows); i-- > 0;)
        store_put_stage(store, &rows[i]);
    struct expected e = EXPECT(rows);
    assert_int_equal(store_each_stage(store, is_stage, &e, NULL), 0);
    SEEN_ALL(e);

    rows[0].status = "running"; /* the same key: replaced */
    store_put_stage(store, &rows[0]);
    rows[1].inputs = NULL; /* as they were */
    rows[1].status = "queued";
    store_put_stage(store, &rows[1]);
    char *inputs = store_stage_inputs(store, 1, "installed");
    assert_string_equal(inputs, "[\"image\"]");
    free(inputs);
    assert_null(store_stage_inputs(store, 1, "racked"));
    assert_null(store_stage_inputs(store, 7, "racked"));
    store_drop_stage(store, 2, "racked");
    store_drop_stage(store, 2, "nothing of that name");
    e = (struct expected){.rows = rows, .count = 2};
    assert_int_equal(store_each_stage(store, is_stage, &e, NULL), 0);
    SEEN_ALL(e);
}

static void is_attempt(const struct store_attempt *r, void *user)
{
    const struct store_attempt *x = NEXT(store_attempt);
    NUMBER(id);
    NUMBER(node_id);
    TEXT(stage);
    NUMBER(number);
    TEXT(status);
    TEXT(fingerprint);
    TEXT(why);
    NUMBER(step);
    NUMBER(started_at);
    NUMBER(deadline_at);
    NUMBER(ended_at);
    TEXT(error_code);
    TEXT(error);
    NUMBER(retry_at);
}

static void attempts(void **state)
{
    (void)state;
    struct store_attempt a = {.node_id = 1, .stage = "racked", .status = "running", .number = 1},
                         b = {.node_id = 1,
                              .stage = "installed",
                              .number = 2,
                              .status = "failed",
                              .fingerprint = "f",
                              .why = "asked for",
                              .step = 3,
                              .started_at = T0,
                              .deadline_at = T0 + 1,
                              .ended_at = T0 + 2,
                              .error_code = "timeout",
                              .error = "no answer",
                              .retry_at = T0 + 3},
                         c = {.node_id = 2, .stage = "racked", .status = "running", .number = 1};
    a.id = store_put_attempt(store, &a);
    b.id = store_put_attempt(store, &b);
    c.id = store_put_attempt(store, &c);
    a.step = 1; /* an update keeps the id */
    assert_int_equal(store_put_attempt(store, &a), a.id);

    struct store_attempt running[] = {a, c}, all[] = {c, b, a}, one[] = {b}, newest[] = {c};
    struct expected e = EXPECT(running);
    assert_int_equal(store_each_running_attempt(store, is_attempt, &e, NULL), 0);
    SEEN_ALL(e);
    e = (struct expected)EXPECT(all);
    assert_int_equal(store_each_attempt(store, 0, NULL, 10, is_attempt, &e, NULL), 0);
    SEEN_ALL(e);
    e = (struct expected){.rows = &all[1], .count = 2};
    assert_int_equal(store_each_attempt(store, 1, NULL, 10, is_attempt, &e, NULL), 0);
    SEEN_ALL(e);
    e = (struct expected)EXPECT(one);
    assert_int_equal(store_each_attempt(store, 1, "installed", 10, is_attempt, &e, NULL), 0);
    SEEN_ALL(e);
    e = (struct expected)EXPECT(newest);
    assert_int_equal(store_each_attempt(store, 0, "racked", 1, is_attempt, &e, NULL), 0);
    SEEN_ALL(e);
}

static void end_attempt(const struct store_attempt *r, void *user)
{
    struct store_attempt end = *r;
    ++*(int *)user;
    end.status = "cancelled";
    end.error = "the spec changed";
    (void)store_put_attempt(store, &end);
}

/* As after a restart: the reader of running attempts ends each of them while it reads. */
static void writing_while_reading(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct store_attempt a = {.node_id = i + 1, .stage = "racked", .status = "running"};
        (void)store_put_attempt(store, &a);
    }
    int seen = 0;
    assert_int_equal(store_each_running_attempt(store, end_attempt, &seen, NULL), 0);
    assert_int_equal(seen, 50);
    seen = 0;
    assert_int_equal(store_each_running_attempt(store, end_attempt, &seen, NULL), 0);
    assert_int_equal(seen, 0);
}

static void is_step(const struct store_step *r, void *user)
{
    const struct store_step *x = NEXT(store_step);
    NUMBER(attempt_id);
    NUMBER(index);
    TEXT(type);
    TEXT(what);
    TEXT(status);
    TEXT(data);
    TEXT(result);
    NUMBER(started_at);
    NUMBER(ended_at);
}

static void steps(void **state)
{
    (void)state;
    struct store_step rows[] = {{.attempt_id = 5, .index = 0},
                                {.attempt_id = 5,
                                 .index = 1,
                                 .type = "script",
                                 .what = "driver",
                                 .status = "running",
                                 .data = "{\"run\":\"x\"}",
                                 .result = "580.1",
                                 .started_at = T0,
                                 .ended_at = T0 + 1}};
    struct store_step other = {.attempt_id = 6, .index = 0, .type = "power"};
    store_put_step(store, &rows[1]);
    store_put_step(store, &rows[0]);
    store_put_step(store, &other);
    rows[0].status = "passed";
    store_put_step(store, &rows[0]);
    struct expected e = EXPECT(rows);
    assert_int_equal(store_each_step(store, 5, is_step, &e, NULL), 0);
    SEEN_ALL(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(stages, setup, teardown),
        cmocka_unit_test_setup_teardown(attempts, setup, teardown),
        cmocka_unit_test_setup_teardown(writing_while_reading, setup, teardown),
        cmocka_unit_test_setup_teardown(steps, setup, teardown),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
