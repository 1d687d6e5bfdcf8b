/* Fingerprints: equal inputs give equal hashes, any change another one, and changes are told in
 * words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/bundle.h"
#include "model/fingerprint.h"

static json_t *sample(void)
{
    json_t *in = inputs_new();
    inputs_add(in, INPUT_STEP, "run: tuned/tune.sh", "{\"timeout\":\"5m\"}");
    inputs_add(in, INPUT_FILE, "tuned/tune.sh", "aaaa");
    inputs_add(in, INPUT_VAR, "vm_swappiness", "10");
    (void)json_array_append_new(
        in, json_pack("[s,s,s,s,s]", "hardware", "gpu", "serial SN2", "0000:17:00.0", ""));
    inputs_add(in, INPUT_SECRET, "bmc password", "f00");
    inputs_add(in, INPUT_STAGE, "online", "bbbb");
    return in;
}

static void same_inputs_same_hash(void **state)
{
    (void)state;
    json_t *a = sample(), *b = sample();
    char ha[DIGEST_HEX_SIZE], hb[DIGEST_HEX_SIZE];
    inputs_fingerprint(a, ha);
    inputs_fingerprint(b, hb);
    assert_string_equal(ha, hb);
    struct strbuf sb;
    strbuf_init(&sb, 1000);
    inputs_explain(a, b, &sb);
    assert_string_equal(sb.data, "");
    inputs_add(b, INPUT_VAR, "x", NULL);
    inputs_fingerprint(b, hb);
    assert_string_not_equal(ha, hb);
    strbuf_done(&sb);
    json_decref(a);
    json_decref(b);
}

static void changes_in_words(void **state)
{
    (void)state;
    static const struct {
        int row;
        const char *value, *words;
    } cases[] = {
        {0, "{}", "the stage's definition changed (run: tuned/tune.sh)"},
        {1, "cccc", "tuned/tune.sh edited"},
        {2, "20", "vm_swappiness 10 -> 20"},
        {3, "serial SN3", "gpu 0000:17:00.0: serial SN2 -> SN3"},
        {4, "f01", "bmc password changed"},
        {5, "dddd", "stage online was proven anew"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *a = sample(), *b = sample();
        (void)json_array_set_new(json_array_get(b, (size_t)cases[i].row), 2,
                                 json_string(cases[i].value));
        struct strbuf sb;
        strbuf_init(&sb, 1000);
        inputs_explain(a, b, &sb);
        assert_string_equal(sb.data, cases[i].words);
        char ha[DIGEST_HEX_SIZE], hb[DIGEST_HEX_SIZE];
        inputs_fingerprint(a, ha);
        inputs_fingerprint(b, hb);
        assert_string_not_equal(ha, hb);
        strbuf_reset(&sb);
        (void)json_array_remove(b, (size_t)cases[i].row);
        inputs_explain(a, b, &sb);
        assert_non_null(
            strstr(sb.data, i == 3 ? "gpu 0000:17:00.0: gone (serial SN2)" : "no longer counts"));
        strbuf_reset(&sb);
        inputs_explain(b, a, &sb);
        assert_non_null(strstr(sb.data, i == 3 ? "gpu 0000:17:00.0: new (serial SN2)" : "is new"));
        strbuf_done(&sb);
        json_decref(a);
        json_decref(b);
    }
}

static void bundles_travel_as_json(void **state)
{
    (void)state;
    struct bundle a, b;
    bundle_init(&a);
    bundle_init(&b);
    bundle_add(&a, "x.yaml", "cluster: a\n", 11);
    bundle_add(&a, "y.csv", "", 0);
    json_t *json = bundle_to_json(&a);
    struct err err = {0};
    assert_int_equal(bundle_from_json(&b, json, &err), 0);
    assert_int_equal(b.count, 2);
    assert_string_equal(bundle_find(&b, "x.yaml")->text, "cluster: a\n");
    assert_null(bundle_find(&b, "z"));
    json_decref(json);
    static const char *const bad[] = {"[]", "{}", "[{\"path\":\"a\"}]",
                                      "[{\"path\":\"\",\"text\":\"\"}]",
                                      "[{\"path\":\"a\",\"text\":1}]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        json = json_loads(bad[i], 0, NULL);
        assert_true(bundle_from_json(&b, json, &err) < 0);
        assert_int_equal(err.code, ERR_INVALID);
        json_decref(json);
    }
    bundle_done(&a);
    bundle_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_inputs_same_hash),
        cmocka_unit_test(changes_in_words),
        cmocka_unit_test(bundles_travel_as_json),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
