/* MAC addresses, host names, and which belong to which node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "netboot/hosts.h"

static const struct {
    const char *text, *want; /* NULL: refused */
} macs[] = {
    {"52:54:00:77:00:01", "52:54:00:77:00:01"},
    {"52-54-00-AA-bb-01", "52:54:00:aa:bb:01"},
    {"52:54-00:77:00:01", NULL},
    {"525400770001", NULL},
    {"52:54:00:77:00:0", NULL},
    {"52:54:00:77:00:0g", NULL},
    {"52:54:00:77:00:01\n", NULL},
    {"", NULL},
    {NULL, NULL},
};

static void test_mac(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(macs); i++) {
        char out[MAC_SIZE] = "";
        int rc = mac_parse(macs[i].text, out, NULL);
        assert_int_equal(rc == 0, macs[i].want != NULL);
        if (macs[i].want != NULL)
            assert_string_equal(out, macs[i].want);
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_true(host_name_valid("gpu001"));
    assert_true(host_name_valid("gpu001.cluster-a"));
    assert_false(host_name_valid("-gpu"));
    assert_false(host_name_valid(""));
    assert_false(host_name_valid("a b"));
    assert_false(host_name_valid("a,b"));
    assert_false(host_name_valid("a\nb"));
}

static int put(struct hosts *hs, int64_t node, const char *address, const char *mac1,
               const char *mac2, bool *is_new, bool *changed)
{
    char list[2][MAC_SIZE] = {"", ""};
    struct host h = {.node = node, .macs = list, .mac_count = (mac1 != NULL) + (mac2 != NULL)};
    (void)snprintf(h.name, sizeof h.name, "n%d", (int)node);
    (void)snprintf(h.address, sizeof h.address, "%s", address);
    if (mac1 != NULL)
        (void)snprintf(list[0], MAC_SIZE, "%s", mac1);
    if (mac2 != NULL)
        (void)snprintf(list[1], MAC_SIZE, "%s", mac2);
    return hosts_put(hs, &h, is_new, changed, NULL);
}

#define A "52:54:00:77:00:01"
#define B "52:54:00:77:00:02"
#define C "52:54:00:77:00:03"

static void test_put(void **state)
{
    (void)state;
    bool n, c;
    struct hosts *hs = hosts_new();
    assert_int_equal(put(hs, 1, "10.0.0.1", A, B, &n, &c), 0);
    assert_true(n);
    assert_int_equal(put(hs, 1, "10.0.0.1", A, B, &n, &c), 0);
    assert_false(n);
    assert_false(c);
    assert_int_equal(hosts_of_mac(hs, B)->node, 1);
    /* another node's MAC or address: refused, and nothing changes */
    assert_int_equal(put(hs, 2, "10.0.0.2", C, B, &n, &c), -ERR_CONFLICT);
    assert_null(hosts_of_mac(hs, C));
    assert_null(hosts_of_node(hs, 2));
    assert_int_equal(put(hs, 2, "10.0.0.1", C, NULL, &n, &c), -ERR_CONFLICT);
    assert_int_equal(put(hs, 2, "10.0.0", C, NULL, &n, &c), -ERR_INVALID);
    /* a swapped card */
    assert_int_equal(put(hs, 1, "10.0.0.1", A, C, &n, &c), 0);
    assert_true(c);
    assert_null(hosts_of_mac(hs, B));
    assert_int_equal(put(hs, 2, "10.0.0.2", B, NULL, &n, &c), 0);
    assert_int_equal(hosts_count(hs), 2);
    assert_int_equal(hosts_of_address(hs, "10.0.0.2")->node, 2);
    hosts_remove(hs, 1);
    hosts_remove(hs, 77);
    assert_null(hosts_of_mac(hs, A));
    assert_null(hosts_of_address(hs, "10.0.0.1"));
    assert_int_equal(hosts_count(hs), 1);
    hosts_free(hs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mac), cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_put)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
