/* The rows of sweeps, and what they found at stages. */
#include "rows.h"

static void is_sweep(const struct store_sweep *r, void *user)
{
    const struct store_sweep *x = NEXT(store_sweep);
    NUMBER(node_id);
    NUMBER(at);
    NUMBER(ok_at);
    NUMBER(next_at);
    TEXT(result);
    TEXT(text);
    TEXT(workload);
    NUMBER(workload_since);
    NUMBER(misses);
}

static void sweeps(void **state)
{
    (void)state;
    struct store_sweep rows[] = {{.node_id = 1,
                                  .at = T0,
                                  .ok_at = T0 - 5,
                                  .next_at = T0 + 9,
                                  .result = "workload",
                                  .text = "job 7",
                                  .workload = "job 7",
                                  .workload_since = T0 - 60000,
                                  .misses = 2},
                                 {.node_id = 2, .next_at = T0 + 1, .result = "", .text = ""}};
    struct store_sweep before = {.node_id = 1, .at = T0 - 1, .result = "clean", .text = "x"};
    store_put_sweep(store, &before);
    store_put_sweep(store, &rows[0]);
    store_put_sweep(store, &rows[1]);
    struct expected e = EXPECT(rows);
    assert_int_equal(store_each_sweep(store, is_sweep, &e, NULL), 0);
    SEEN_ALL(e);
}

static void is_stage(const struct store_stage *r, void *user)
{
    const struct store_stage *x = NEXT(store_stage);
    TEXT(name);
    TEXT(status);
    TEXT(drift);
}

static void drift_of_stages(void **state)
{
    (void)state;
    struct store_stage rows[] = {
        {.node_id = 1, .name = "gpu", .status = "stale", .drift = "7 GPUs instead of 8"},
        {.node_id = 1, .name = "nic", .ordinal = 1, .status = "passed"}};
    struct store_stage before = rows[1];
    before.drift = "gone by now";
    store_put_stage(store, &rows[0]);
    store_put_stage(store, &before);
    store_put_stage(store, &rows[1]);
    struct expected e = EXPECT(rows);
    assert_int_equal(store_each_stage(store, is_stage, &e, NULL), 0);
    SEEN_ALL(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sweeps, setup, teardown),
        cmocka_unit_test_setup_teardown(drift_of_stages, setup, teardown),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
