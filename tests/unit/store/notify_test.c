/* Cursors of webhooks come back as written. */
#include "rows.h"

static void is_cursor(const struct store_notify_cursor *r, void *user)
{
    const struct store_notify_cursor *x = NEXT(store_notify_cursor);
    TEXT(hook);
    NUMBER(event_id);
    NUMBER(skipped);
    NUMBER(delivered_id);
    NUMBER(delivered_at);
}

static void cursors(void **state)
{
    (void)state;
    struct store_notify_cursor rows[] = {
        {.hook = "chat", .event_id = 12, .skipped = 3, .delivered_id = 11, .delivered_at = T0},
        {.hook = "pager"}};
    struct store_notify_cursor before = {.hook = "chat", .event_id = 11};
    struct store_notify_cursor gone = {.hook = "old", .event_id = 5};
    store_put_notify_cursor(store, &before);
    store_put_notify_cursor(store, &rows[1]);
    store_put_notify_cursor(store, &gone);
    store_put_notify_cursor(store, &rows[0]);
    store_drop_notify_cursor(store, "old");
    store_drop_notify_cursor(store, "never");
    struct expected e = EXPECT(rows);
    assert_int_equal(store_each_notify_cursor(store, is_cursor, &e, NULL), 0);
    SEEN_ALL(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cursors, setup, teardown),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
