/* Walks the two tables: no state without its exits, no row twice, everything reachable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/states.h"

static void every_state_has_its_row(void **state)
{
    (void)state;
    for (int i = 0; i < STAGE_STATUS_COUNT; i++) {
        assert_int_equal(stage_states[i].id, i);
        assert_non_null(stage_states[i].name);
        assert_true(strlen(stage_states[i].meaning) > 5);
        assert_int_equal(stage_status_from_name(stage_states[i].name), i);
    }
    assert_int_equal(stage_status_from_name("nonsense"), -1);
}

static void no_transition_twice(void **state)
{
    (void)state;
    for (int i = 0; i < stage_transition_count; i++)
        for (int j = i + 1; j < stage_transition_count; j++)
            assert_false(stage_transitions[i].from == stage_transitions[j].from &&
                         stage_transitions[i].event == stage_transitions[j].event);
}

/* Running ends by success, failure, deadline and cancel; every other state has a way back to running. */
static void every_state_has_its_exits(void **state)
{
    (void)state;
    static const enum stage_event exits[] = {STAGE_EV_SUCCESS, STAGE_EV_FAILURE, STAGE_EV_RETRY,
                                             STAGE_EV_DEADLINE, STAGE_EV_CANCEL};
    for (size_t i = 0; i < sizeof exits / sizeof exits[0]; i++)
        assert_true(stage_next(STAGE_RUNNING, exits[i]) >= 0);
    for (int s = 0; s < STAGE_STATUS_COUNT; s++) {
        bool reach[STAGE_STATUS_COUNT] = {false};
        reach[s] = true;
        for (int round = 0; round < STAGE_STATUS_COUNT; round++)
            for (int t = 0; t < stage_transition_count; t++)
                if (reach[stage_transitions[t].from])
                    reach[stage_transitions[t].to] = true;
        assert_true(reach[STAGE_RUNNING]);
        assert_true(reach[STAGE_PASSED]);
    }
}

static void runnable_states_start(void **state)
{
    (void)state;
    for (int s = 0; s < STAGE_STATUS_COUNT; s++)
        assert_int_equal(stage_states[s].runnable, stage_next(s, STAGE_EV_START) == STAGE_RUNNING);
}

/* What is satisfied can become unsatisfied again: proofs age. */
static void proofs_can_be_taken_back(void **state)
{
    (void)state;
    for (int s = 0; s < STAGE_STATUS_COUNT; s++)
        if (stage_states[s].satisfied)
            assert_int_equal(stage_next(s, STAGE_EV_INVALIDATE), STAGE_STALE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_has_its_row),   cmocka_unit_test(no_transition_twice),
        cmocka_unit_test(every_state_has_its_exits), cmocka_unit_test(runnable_states_start),
        cmocka_unit_test(proofs_can_be_taken_back),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
