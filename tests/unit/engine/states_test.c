/* Walks the two tables: no state without its exits, no row twice, everything reachable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fsutil.h"
#include "base/strbuf.h"
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

/* Running ends by success, failure, deadline and cancel; every other state has a way back to
 * running. */
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

/* docs/states.md is what the tables say; UPDATE_DOCS=1 writes it. */
static void the_picture_in_the_docs_is_fresh(void **state)
{
    struct strbuf sb;
    struct err err = {0};
    char *there = NULL;
    (void)state;
    strbuf_init(&sb, 65536);
    strbuf_adds(&sb, "# Statuses of a stage\n\nMade from the tables in `src/engine/states.c` by "
                     "`tests/unit/engine/states_test.c`; `clusterctl stages --graph` prints the "
                     "same for Graphviz.\n\n| status | means | later stages may build on it | may "
                     "be started |\n|---|---|---|---|\n");
    for (int i = 0; i < STAGE_STATUS_COUNT; i++)
        strbuf_addf(&sb, "| %s | %s | %s | %s |\n", stage_states[i].name, stage_states[i].meaning,
                    stage_states[i].satisfied ? "yes" : "no",
                    stage_states[i].runnable ? "yes" : "no");
    strbuf_adds(&sb, "\n```mermaid\nstateDiagram-v2\n");
    for (int i = 0; i < stage_transition_count; i++)
        strbuf_addf(&sb, "    %s --> %s: %s\n", stage_status_name(stage_transitions[i].from),
                    stage_status_name(stage_transitions[i].to),
                    name_of(stage_event_names, (int)stage_transitions[i].event, "?"));
    strbuf_adds(&sb, "```\n");
    if (getenv("UPDATE_DOCS") != NULL)
        assert_int_equal(fs_write_atomic("docs/states.md", sb.data, sb.len, 0644, &err), 0);
    size_t len = 0;
    if (fs_read("docs/states.md", 65536, &there, &len, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(there, sb.data);
    free(there);
    strbuf_done(&sb);
}

/* An operator gets every status but running somewhere; running ends by its deadline or a cancel. */
static void every_state_has_an_operators_verb(void **state)
{
    (void)state;
    for (int s = 0; s < STAGE_STATUS_COUNT; s++) {
        bool verb = s == STAGE_QUEUED || s == STAGE_RUNNING ? stage_next(s, STAGE_EV_CANCEL) >= 0
                                                            : stage_next(s, STAGE_EV_RERUN) >= 0;
        /* skipped is the profile's word, and ends with it */
        assert_true(verb || s == STAGE_SKIPPED);
    }
    assert_true(stage_next(STAGE_SKIPPED, STAGE_EV_INVALIDATE) >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_has_its_row),
        cmocka_unit_test(no_transition_twice),
        cmocka_unit_test(every_state_has_its_exits),
        cmocka_unit_test(runnable_states_start),
        cmocka_unit_test(proofs_can_be_taken_back),
        cmocka_unit_test(the_picture_in_the_docs_is_fresh),
        cmocka_unit_test(every_state_has_an_operators_verb),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
