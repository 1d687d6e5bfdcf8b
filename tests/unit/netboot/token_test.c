/* The life of a boot token, row by row: what is allowed, what is refused, with which answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "netboot/token.h"

static const char ramdisk_boot[] = "11111111-0000-4000-8000-000000000001";
static const char disk_boot[] = "22222222-0000-4000-8000-000000000002";
static const char image[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

static int changes;
static struct token_view last;

static void on_change(const struct token_view *t, void *user)
{
    (void)user;
    changes++;
    last = *t;
}

struct step {
    enum token_event ev;
    const char *boot_id, *peer;
    int64_t at;
    int status; /* 204: allowed */
    enum token_state state;
    bool replay;
};

#define R ramdisk_boot, "10.0.0.1"
#define D disk_boot, "10.0.0.1"

static const struct {
    const char *name;
    enum token_purpose purpose;
    struct step steps[10];
    int count;
} lives[] = {
    {"an install from order to proof",
     TOKEN_INSTALL,
     {{TOKEN_EV_SERVE, "", "10.0.0.1", 1, 204, TOKEN_ARMED, false},
      {TOKEN_EV_SERVE, "", "10.0.0.1", 2, 204, TOKEN_ARMED, false},
      {TOKEN_EV_CLAIM, R, 3, 204, TOKEN_CLAIMED, false},
      {TOKEN_EV_CLAIM, R, 4, 204, TOKEN_CLAIMED, false},
      {TOKEN_EV_PROGRESS, R, 5, 204, TOKEN_CLAIMED, false},
      {TOKEN_EV_INSTALLED, R, 6, 204, TOKEN_WRITTEN, false},
      {TOKEN_EV_INSTALLED, R, 7, 204, TOKEN_WRITTEN, false},
      {TOKEN_EV_PROOF, D, 8, 204, TOKEN_PROVEN, false},
      {TOKEN_EV_PROOF, D, 9, 204, TOKEN_PROVEN, false},
      {TOKEN_EV_PROOF, "33333333", "10.0.0.1", 9, 410, TOKEN_PROVEN, true}},
     10},
    {"single use: a claimed token is not handed out again",
     TOKEN_INSTALL,
     {{TOKEN_EV_CLAIM, R, 1, 204, TOKEN_CLAIMED, false},
      {TOKEN_EV_SERVE, R, 2, 409, TOKEN_CLAIMED, false}},
     2},
    {"replay by another boot",
     TOKEN_INSTALL,
     {{TOKEN_EV_CLAIM, R, 1, 204, TOKEN_CLAIMED, false},
      {TOKEN_EV_CLAIM, D, 2, 409, TOKEN_CLAIMED, true},
      {TOKEN_EV_INSTALLED, D, 3, 409, TOKEN_CLAIMED, true}},
     3},
    {"replay from another address without boot id",
     TOKEN_INSTALL,
     {{TOKEN_EV_CLAIM, "", "10.0.0.1", 1, 204, TOKEN_CLAIMED, false},
      {TOKEN_EV_CLAIM, "", "10.0.0.2", 2, 409, TOKEN_CLAIMED, true},
      {TOKEN_EV_FAILED, "", "10.0.0.2", 3, 409, TOKEN_CLAIMED, true}},
     3},
    {"expiry",
     TOKEN_INSTALL,
     {{TOKEN_EV_CLAIM, R, 999, 204, TOKEN_CLAIMED, false},
      {TOKEN_EV_CLAIM, R, 1000, 410, TOKEN_CLAIMED, false},
      {TOKEN_EV_INSTALLED, R, 1000, 410, TOKEN_CLAIMED, false}},
     3},
    {"expired before it was served",
     TOKEN_DISCOVER,
     {{TOKEN_EV_SERVE, "", "", 1000, 410, TOKEN_ARMED, false}},
     1},
    {"discovery installs nothing",
     TOKEN_DISCOVER,
     {{TOKEN_EV_FACTS, R, 1, 409, TOKEN_ARMED, false},
      {TOKEN_EV_CLAIM, R, 1, 204, TOKEN_CLAIMED, false},
      {TOKEN_EV_FACTS, R, 2, 204, TOKEN_CLAIMED, false},
      {TOKEN_EV_INSTALLED, R, 3, 409, TOKEN_CLAIMED, false},
      {TOKEN_EV_PROOF, D, 4, 409, TOKEN_CLAIMED, false}},
     5},
    {"the boot that wrote the disk proves nothing",
     TOKEN_INSTALL,
     {{TOKEN_EV_CLAIM, R, 1, 204, TOKEN_CLAIMED, false},
      {TOKEN_EV_PROOF, D, 2, 409, TOKEN_CLAIMED, false},
      {TOKEN_EV_INSTALLED, R, 3, 204, TOKEN_WRITTEN, false},
      {TOKEN_EV_PROOF, R, 4, 409, TOKEN_WRITTEN, false},
      {TOKEN_EV_PROOF, "", "10.0.0.1", 5, 409, TOKEN_WRITTEN, false},
      {TOKEN_EV_DISPROOF, D, 6, 204, TOKEN_DEAD, false},
      {TOKEN_EV_PROOF, D, 7, 410, TOKEN_DEAD, false}},
     7},
    {"failed",
     TOKEN_INSTALL,
     {{TOKEN_EV_CLAIM, R, 1, 204, TOKEN_CLAIMED, false},
      {TOKEN_EV_FAILED, R, 2, 204, TOKEN_DEAD, false},
      {TOKEN_EV_CLAIM, R, 3, 410, TOKEN_DEAD, false},
      {TOKEN_EV_INSTALLED, R, 4, 410, TOKEN_DEAD, false},
      {TOKEN_EV_SERVE, R, 5, 410, TOKEN_DEAD, false}},
     5},
};

static void test_lives(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lives); i++) {
        struct tokens *ts = tokens_new(on_change, NULL, NULL);
        struct token *t = token_arm(ts, 1, 7, lives[i].purpose, image, 0, 1000);
        for (int k = 0; k < lives[i].count; k++) {
            const struct step *s = &lives[i].steps[k];
            const struct token_claimer who = {s->boot_id, s->peer};
            struct token_verdict v = token_judge(t, s->ev, &who, s->at);
            token_apply(ts, t, s->ev, &v, &who, NULL, s->at);
            if (v.status != s->status || v.allowed != (s->status == 204) ||
                t->view.state != s->state || v.replay != s->replay)
                fail_msg("%s, step %d: status %d state %d replay %d (%s)", lives[i].name, k + 1,
                         v.status, (int)t->view.state, v.replay, v.why);
        }
        tokens_free(ts);
    }
}

/* Every state leaves by disarm, expiry and failure; final ones by nothing. */
static void test_table(void **state)
{
    (void)state;
    for (int s = TOKEN_ARMED; s <= TOKEN_DEAD; s++)
        for (int ev = 0; ev < TOKEN_EV_COUNT; ev++) {
            const struct token_transition *found = NULL;
            for (int i = 0; i < token_transition_count; i++)
                if ((int)token_transitions[i].state == s && (int)token_transitions[i].event == ev) {
                    assert_null(found); /* one row each */
                    found = &token_transitions[i];
                }
            bool ends = ev == TOKEN_EV_DISARM || ev == TOKEN_EV_EXPIRE || ev == TOKEN_EV_FAILED;
            if (s < TOKEN_PROVEN && ends) {
                assert_non_null(found);
                assert_int_equal(found->next, TOKEN_DEAD);
            }
            if (s == TOKEN_DEAD)
                assert_null(found);
            if (s == TOKEN_PROVEN && found != NULL)
                assert_int_equal(found->next, TOKEN_PROVEN);
        }
}

static void test_text(void **state)
{
    (void)state;
    struct tokens *ts = tokens_new(on_change, NULL, NULL);
    struct token *t = token_arm(ts, 1, 7, TOKEN_INSTALL, image, 0, 1000);
    char text[TOKEN_TEXT_SIZE], hash[DIGEST_HEX_SIZE];
    memcpy(text, t->text, sizeof text);
    assert_int_equal(strlen(text), 64);
    digest_hex(text, 64, hash);
    assert_string_equal(hash, t->view.hash);
    assert_ptr_equal(token_find_text(ts, text), t);
    assert_null(token_find_text(ts, t->view.hash)); /* what the database has opens nothing */
    text[63] = text[63] == '0' ? '1' : '0';
    assert_null(token_find_text(ts, text));
    text[63] = '\0';
    assert_null(token_find_text(ts, text));
    assert_null(token_find_text(ts, ""));
    assert_null(token_find_text(ts, NULL));
    assert_int_equal(token_judge(NULL, TOKEN_EV_CLAIM, &(struct token_claimer){"", ""}, 0).status,
                     401);
    /* the text goes when nothing needs it any more */
    token_disarm(ts, t->view.hash, "test", 5);
    assert_int_equal(t->view.state, TOKEN_DEAD);
    assert_string_equal(t->view.why_dead, "test");
    assert_string_equal(t->text, "");
    tokens_free(ts);
}

static void test_replace(void **state)
{
    (void)state;
    struct tokens *ts = tokens_new(on_change, NULL, NULL);
    struct token *discover = token_arm(ts, 1, 7, TOKEN_DISCOVER, NULL, 0, 1000);
    struct token *other = token_arm(ts, 2, 7, TOKEN_DISCOVER, NULL, 0, 1000);
    struct token *install = token_arm(ts, 1, 8, TOKEN_INSTALL, image, 0, 1000);
    assert_int_equal(discover->view.state, TOKEN_DEAD);
    assert_int_equal(other->view.state, TOKEN_ARMED);
    struct token *again = token_arm(ts, 1, 9, TOKEN_INSTALL, image, 0, 1000);
    assert_int_equal(install->view.state, TOKEN_DEAD);
    assert_ptr_equal(token_of_node(ts, 1, TOKEN_INSTALL, TOKEN_ARMED), again);
    assert_null(token_of_node(ts, 2, TOKEN_INSTALL, TOKEN_ARMED));
    tokens_free(ts);
}

static const struct {
    enum token_state before;
    bool lives;
} restored[] = {{TOKEN_ARMED, false}, {TOKEN_CLAIMED, true}, {TOKEN_WRITTEN, true}};

static void test_restart(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(restored); i++) {
        char text[TOKEN_TEXT_SIZE];
        struct token_view row = {.node = 3,
                                 .attempt = 4,
                                 .purpose = TOKEN_INSTALL,
                                 .state = restored[i].before,
                                 .expires_at = 1000};
        random_hex(32, text);
        digest_hex(text, 64, row.hash);
        memcpy(row.ramdisk_boot_id, ramdisk_boot, sizeof ramdisk_boot);
        struct tokens *ts = tokens_new(on_change, NULL, NULL);
        changes = 0;
        struct token *t = token_restore(ts, &row, 10);
        assert_int_equal(t != NULL, restored[i].lives);
        assert_int_equal(changes, restored[i].lives ? 0 : 1);
        struct token *found = token_find_text(ts, text);
        assert_non_null(found);
        const struct token_claimer same = {R}, other = {D};
        struct token_verdict v = token_judge(found, TOKEN_EV_CLAIM, &same, 20);
        assert_int_equal(v.status, restored[i].lives ? 204 : 410);
        if (t != NULL) {
            assert_true(t->lost_order);
            v = token_judge(found, TOKEN_EV_CLAIM, &other, 20);
            assert_true(v.replay);
        }
        tokens_free(ts);
    }
}

static void test_expire(void **state)
{
    (void)state;
    struct tokens *ts = tokens_new(on_change, NULL, NULL);
    struct token *t = token_arm(ts, 1, 7, TOKEN_INSTALL, image, 0, 1000);
    token_expire(ts, 999);
    assert_int_equal(t->view.state, TOKEN_ARMED);
    token_expire(ts, 1000);
    assert_int_equal(t->view.state, TOKEN_DEAD);
    assert_int_equal(last.state, TOKEN_DEAD);
    assert_int_equal(tokens_count(ts), 1);
    token_expire(ts, 1000 + 3600 * 1000);
    assert_int_equal(tokens_count(ts), 0);
    assert_null(token_of_node(ts, 1, TOKEN_INSTALL, TOKEN_DEAD));
    tokens_free(ts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lives),   cmocka_unit_test(test_table),
        cmocka_unit_test(test_text),    cmocka_unit_test(test_replace),
        cmocka_unit_test(test_restart), cmocka_unit_test(test_expire),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
