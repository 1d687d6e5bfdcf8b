/* RMCP+ packets: both cipher suites round trip, nothing damaged is taken, RAKP codes by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bmc/fru.h"
#include "bmc/rmcp.h"

static struct rakp sample(int suite)
{
    struct rakp r = {.suite = cipher_suite_find(suite),
                     .console_id = 0x04030201,
                     .managed_id = 0x14131211,
                     .role = 0x14,
                     .user = "admin",
                     .password = "secret"};
    for (int i = 0; i < 16; i++) {
        r.console_random[i] = (uint8_t)i;
        r.managed_random[i] = (uint8_t)(16 + i);
        r.guid[i] = (uint8_t)(32 + i);
    }
    return r;
}

static void hex(const uint8_t *data, size_t len, char *out)
{
    for (size_t i = 0; i < len; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", data[i]);
}

/*
 * Computed with Python's hmac over the bytes that section 13.28 lists: key = "secret" padded to 20
 * bytes; code 2 = ids, randoms, GUID, role, length, name.
 */
static const struct {
    int suite;
    const char *code2, *code3, *code4, *k1;
} vectors[] = {
#include "rmcp_vectors.h"
};

static void test_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        struct rakp r = sample(vectors[i].suite);
        struct rmcp_keys keys;
        uint8_t code[RMCP_KEY_MAX];
        char text[2 * RMCP_KEY_MAX + 1];
        rakp_code2(&r, code);
        hex(code, r.suite->hash, text);
        assert_string_equal(text, vectors[i].code2);
        rakp_code3(&r, code);
        hex(code, r.suite->hash, text);
        assert_string_equal(text, vectors[i].code3);
        rakp_keys(&r, &keys);
        rakp_code4(&r, &keys, code);
        hex(code, r.suite->check, text);
        assert_string_equal(text, vectors[i].code4);
        hex(keys.k1, r.suite->hash, text);
        assert_string_equal(text, vectors[i].k1);
    }
}

static void test_round_trip(void **state)
{
    (void)state;
    static const int suites[] = {0, 3, 17};
    for (size_t s = 0; s < ARRAY_LEN(suites); s++)
        for (size_t len = 0; len < 70; len++) {
            struct rmcp_keys keys, *k = NULL;
            uint8_t data[70], packet[RMCP_MAX];
            struct rmcp_packet got;
            if (suites[s] != 0) {
                struct rakp r = sample(suites[s]);
                rakp_keys(&r, &keys);
                k = &keys;
            }
            for (size_t i = 0; i < len; i++)
                data[i] = (uint8_t)(i * 7);
            size_t n = rmcp_encode(PAYLOAD_IPMI, 0xdeadbeef, 5, data, len, k, packet);
            assert_true(n > 0);
            assert_true(rmcp_decode(packet, n, k, &got));
            assert_int_equal(got.len, len);
            assert_memory_equal(got.data, data, len);
            assert_int_equal(got.session_id, 0xdeadbeef);
            assert_int_equal(got.sequence, 5);
        }
}

static void test_damage(void **state)
{
    (void)state;
    static const int suites[] = {3, 17};
    for (size_t s = 0; s < ARRAY_LEN(suites); s++) {
        struct rakp r = sample(suites[s]);
        struct rmcp_keys keys;
        struct rmcp_packet got;
        uint8_t packet[RMCP_MAX];
        rakp_keys(&r, &keys);
        size_t n = rmcp_encode(PAYLOAD_IPMI, 7, 5, (const uint8_t *)"hello", 5, &keys, packet);
        /* the RMCP header is not covered by the integrity check */
        for (size_t i = 4; i < n; i++) {
            packet[i] ^= 1;
            assert_false(rmcp_decode(packet, n, &keys, &got));
            packet[i] ^= 1;
        }
        for (size_t len = 0; len < n; len++)
            assert_false(rmcp_decode(packet, len, &keys, &got));
        assert_false(rmcp_decode(packet, n, NULL, &got));
        n = rmcp_encode(PAYLOAD_IPMI, 7, 5, (const uint8_t *)"hello", 5, NULL, packet);
        assert_false(rmcp_decode(packet, n, &keys, &got)); /* unprotected within a session */
    }
}

static void test_messages(void **state)
{
    (void)state;
    uint8_t message[RMCP_MAX];
    struct ipmi_message m;
    static const uint8_t data[] = {0, 1, 2, 3};
    size_t n = ipmi_encode(0x07, 0x38, 9, data, sizeof data, message);
    assert_true(ipmi_decode(message, n, &m));
    assert_int_equal(m.netfn, 7);
    assert_int_equal(m.command, 0x38);
    assert_int_equal(m.sequence, 9);
    assert_int_equal(m.completion, 0);
    assert_int_equal(m.len, 3);
    for (size_t i = 0; i < n; i++) {
        message[i] ^= 0x10;
        assert_false(ipmi_decode(message, n, &m));
        message[i] ^= 0x10;
    }
    for (size_t len = 0; len < 8; len++)
        assert_false(ipmi_decode(message, len, &m));
}

static void finish_area(uint8_t *area, size_t len)
{
    uint8_t sum = 0;
    for (size_t i = 0; i + 1 < len; i++)
        sum = (uint8_t)(sum + area[i]);
    area[len - 1] = (uint8_t)-sum;
}

static void test_fru(void **state)
{
    (void)state;
    /* header; product area at 8: manufacturer ACME, name in 6-bit ASCII "LAB1", serial SN-9 */
    uint8_t fru[48] = {1, 0, 0, 0, 1};
    static const uint8_t product[] = {1,    5,    0,    0xc4, 'A',  'C', 'M', 'E', 0x83, 0x6c,
                                      0x28, 0x46, 0xc0, 0xc0, 0xc4, 'S', 'N', '-', '9',  0xc1};
    finish_area(fru, 8);
    memcpy(fru + 8, product, sizeof product);
    finish_area(fru + 8, 40);
    json_t *o = fru_parse(fru, sizeof fru);
    assert_string_equal(json_string_value(json_object_get(o, "manufacturer")), "ACME");
    assert_string_equal(json_string_value(json_object_get(o, "product")), "LAB1");
    assert_string_equal(json_string_value(json_object_get(o, "serial")), "SN-9");
    json_decref(o);
    for (size_t len = 0; len < sizeof fru; len++) {
        o = fru_parse(fru, len);
        assert_int_equal(json_object_size(o), 0);
        json_decref(o);
    }
    fru[12]++; /* a wrong checksum */
    o = fru_parse(fru, sizeof fru);
    assert_int_equal(json_object_size(o), 0);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors), cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage), cmocka_unit_test(test_messages), cmocka_unit_test(test_fru)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
