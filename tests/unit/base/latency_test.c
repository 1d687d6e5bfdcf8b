/* Percentiles of durations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/latency.h"

static void test_percentiles_are_at_most_a_quarter_too_high(void **state)
{
    static struct latency l;
    (void)state;
    assert_int_equal(latency_percentile(&l, 99), 0);
    for (int64_t us = 1; us <= 100000; us++)
        latency_add(&l, us);
    for (int percent = 1; percent <= 100; percent++) {
        int64_t is = percent * 1000, told = latency_percentile(&l, percent);
        assert_in_range(told, is, is + is / 4 + 1);
    }
    assert_int_equal(latency_percentile(&l, 100), 100000);
}

static void test_ends(void **state)
{
    struct latency l = {0};
    (void)state;
    latency_add(&l, -5);
    assert_int_equal(latency_percentile(&l, 50), 0);
    latency_add(&l, INT64_MAX / 2);
    assert_int_equal(latency_percentile(&l, 1), 0);
    assert_true(latency_percentile(&l, 100) > 1000000000);
    for (int64_t us = 0; us < 64; us++) {
        struct latency one = {0};
        latency_add(&one, us);
        assert_int_equal(latency_percentile(&one, 99), us);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles_are_at_most_a_quarter_too_high),
        cmocka_unit_test(test_ends),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
