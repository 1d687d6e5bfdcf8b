/* Reservations of watts come back as written. */
#include "rows.h"

static void is_reservation(const struct store_reservation *r, void *user)
{
    const struct store_reservation *x = NEXT(store_reservation);
    NUMBER(node_id);
    TEXT(feed);
    NUMBER(watts);
    TEXT(state);
    NUMBER(until);
}

static void reservations(void **state)
{
    (void)state;
    struct store_reservation rows[] = {
        {.node_id = 1, .feed = "pdu-r1", .watts = 1200, .state = "inrush"},
        {.node_id = 2, .feed = "pdu-r2", .watts = 800, .state = "boot", .until = T0}};
    struct store_reservation gone = {.node_id = 3, .feed = "pdu-r1", .watts = 1, .state = "idle"};
    struct store_reservation before = {
        .node_id = 2, .feed = "pdu-r1", .watts = 1200, .state = "inrush"};
    store_put_reservation(store, &rows[0]);
    store_put_reservation(store, &before);
    store_put_reservation(store, &gone);
    store_put_reservation(store, &rows[1]);
    store_drop_reservation(store, 3);
    store_drop_reservation(store, 4);
    struct expected e = EXPECT(rows);
    assert_int_equal(store_each_reservation(store, is_reservation, &e, NULL), 0);
    SEEN_ALL(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reservations, setup, teardown),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
