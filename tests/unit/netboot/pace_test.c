/* How often waiting ramdisks ask, with clients that do as they are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "netboot/pace.h"

enum { SECOND = 1000 };

struct crowd {
    struct pace pace;
    int64_t *due; /* of each machine */
    int count;
    int64_t now;
};

/* Lets them ask for `seconds`; how often they did in the last ten of them. */
static int play(struct crowd *c, int seconds)
{
    int asked = 0;
    int64_t end = c->now + (int64_t)seconds * SECOND;
    for (; c->now < end; c->now += 50)
        for (int i = 0; i < c->count; i++)
            if (c->due[i] <= c->now) {
                c->due[i] = c->now + pace_next(&c->pace, c->now) * (int64_t)SECOND;
                asked += c->now >= end - 10 * (int64_t)SECOND;
            }
    return asked;
}

static void few_ask_every_two_seconds(void **state)
{
    (void)state;
    int64_t due[100] = {0};
    struct crowd c = {.due = due, .count = 100, .now = 5};
    assert_in_range(play(&c, 60), 100 * 5 - 100, 100 * 5 + 100);
    assert_int_equal(c.pace.seconds, 2);
}

static void a_crowd_asks_less_often(void **state)
{
    (void)state;
    enum { CROWD = 5000 };
    int64_t *due = calloc(CROWD, sizeof *due);
    struct crowd c = {.due = due, .count = CROWD, .now = 5};
    for (int i = 0; i < CROWD; i++)
        due[i] = i % 2000; /* as they came up */
    assert_in_range(play(&c, 300), 0, 200 * 10 * 3 / 2);
    assert_in_range(c.pace.seconds, 15, 40);
    c.count = 50; /* the others got their orders */
    (void)play(&c, 200);
    assert_int_equal(c.pace.seconds, 2);
    free(due);
}

static void no_crowd_is_told_more_than_a_minute(void **state)
{
    (void)state;
    struct pace p = {0};
    int64_t now = 1;
    for (int i = 0; i < 1000000; i++) {
        assert_in_range(pace_next(&p, now), 2, 60);
        now += i % 10 == 0;
    }
    assert_int_equal(pace_next(&p, now), 60);
    assert_int_equal(pace_next(&p, now + 3600 * SECOND), 2); /* nobody asked for an hour */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_ask_every_two_seconds),
        cmocka_unit_test(a_crowd_asks_less_often),
        cmocka_unit_test(no_crowd_is_told_more_than_a_minute),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
