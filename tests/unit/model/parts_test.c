/* Parts of a machine as inputs: junk serials, repeated serials, order, and differences in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/fingerprint.h"
#include "model/parts.h"

static const char machine[] =
    "{'schema':1,'system':{'vendor':'ACME','product':'X1','serial':'SN-7','uuid':'1ab0-77'},"
    "'board':{'vendor':'ACME','product':'B1','serial':'BS-1'},"
    "'cpu':{'model':'EPYC','threads':64,'cores':32,'sockets':2,'packages':[{'slot':'P0'},"
    "{'slot':'P1'}]},'memory':{'total_mib':128000,'dimms':["
    "{'slot':'A1','size_mib':65536,'serial':'D1','part':'M3'},"
    "{'slot':'A2','size_mib':65536,'serial':'D2','part':'M3'}]},"
    "'disks':[{'name':'nvme0n1','bytes':2000000000000,'serial':'S1','model':'T2'},"
    "{'name':'nvme1n1','bytes':2000000000000,'serial':'S2','model':'T2'}],"
    "'nics':[{'name':'eth0','permanent_mac':'52:54:00:00:00:01','pci':'0000:41:00.0'},"
    "{'name':'eth1','permanent_mac':'52:54:00:00:00:02','pci':'0000:41:00.1'}],"
    "'gpus':[{'pci':'0000:17:00.0','pci_id':'10de:2330','model':'H100','serial':'1320'},"
    "{'pci':'0000:ca:00.0','pci_id':'10de:2330','model':'H100','serial':'1321'}],"
    "'hcas':[{'name':'mlx5_0','node_guid':'a:b:c:d','pci':'0000:18:00.0','ports':[]}],"
    "'psus':[{'slot':'PSU1','serial':'P-1','model':'3K'},{'slot':'PSU2','serial':'P-2'}]}";

/* Each pair of texts in `edits` ("from|to|from|to") is replaced once; ' stands for ". */
static struct hardware *parse(const char *edits)
{
    char *text = xstrdup(machine), *list = xstrdup(edits != NULL ? edits : ""), *save = NULL;
    for (char *from = strtok_r(list, "|", &save); from != NULL; from = strtok_r(NULL, "|", &save)) {
        const char *to = strtok_r(NULL, "|", &save);
        char *at = strstr(text, from);
        if (at == NULL || to == NULL)
            fail_msg("'%s' is not in the machine", from);
        char *changed = xasprintf("%.*s%s%s", (int)(at - text), text,
                                  strcmp(to, "-") == 0 ? "" : to, at + strlen(from));
        free(text);
        text = changed;
    }
    free(list);
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    struct hardware *hw = NULL;
    struct err err = {0};
    if (hardware_parse(text, strlen(text), &hw, &err) < 0)
        fail_msg("%s: %s", err.text, text);
    free(text);
    return hw;
}

static json_t *inputs_of(const struct hardware *hw, bool placed)
{
    json_t *list = inputs_new();
    for (int i = 0; part_kinds[i] != NULL; i++)
        parts_add(list, hw, part_kinds[i], placed && strcmp(part_kinds[i], "gpu") == 0);
    return list;
}

static void test_junk(void **state)
{
    (void)state;
    static const char *const none[] = {"To be filled by O.E.M.",
                                       "to be filled by O.E.M. ",
                                       "Default string",
                                       "0123456789",
                                       "None",
                                       "N/A",
                                       "System Serial Number",
                                       "Chassis Serial Number",
                                       "Not Specified",
                                       "UNKNOWN",
                                       "",
                                       "   ",
                                       "0",
                                       "00000000",
                                       "FFFFFFFF",
                                       "ff:ff:ff:ff:ff:ff",
                                       "00:00:00:00:00:00",
                                       "xxxxxxxx",
                                       "........",
                                       "11111111",
                                       "ffffffff-ffff-ffff-ffff-ffffffffffff",
                                       "00000000-0000-0000-0000-000000000000",
                                       "03000200-0400-0500-0006-000700080009",
                                       "[N/A]"};
    static const char *const some[] = {
        "SN-7",       "1320622001234", "52:54:00:00:00:01",
        "A0000000",   "000000001",     "0000:0000:0000:0002",
        "S3YJNX0M1",  "J1234567890",   "7",
        "Nonesuch-1", "OEM-1",         "ffffffff-ffff-ffff-ffff-fffffffffffe"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        if (!serial_is_junk(none[i]) || serial_junk_source(none[i])[0] == '\0')
            fail_msg("'%s' counts as a serial", none[i]);
    assert_true(serial_is_junk(NULL));
    for (size_t i = 0; i < ARRAY_LEN(some); i++)
        if (serial_is_junk(some[i]))
            fail_msg("'%s' counts as none: %s", some[i], serial_junk_source(some[i]));
}

struct told {
    char text[2000];
};

static void add(enum part_change what, const char *kind, const char *words, void *user)
{
    static const char *const names[] = {"swapped", "new", "gone", "moved", "placed", "told"};
    struct told *t = user;
    size_t len = strlen(t->text);
    (void)kind;
    (void)snprintf(t->text + len, sizeof t->text - len, "%s%s %s", len ? "\n" : "", names[what],
                   words);
}

static void test_differences(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after, *words;
        bool stale;
    } cases[] = {
        {NULL, NULL, "", false},
        {NULL, "'1320'|'1654'", "swapped gpu 0000:17:00.0: serial 1320 -> 1654", true},
        {NULL, "'D2'|'D9'", "swapped memory A2: serial D2 -> D9", true},
        {NULL, "{'slot':'A1','size_mib':65536,'serial':'D1','part':'M3'},|-",
         "gone memory A1: gone (serial D1, 65536 MiB)", true},
        {"{'slot':'A1','size_mib':65536,'serial':'D1','part':'M3'},|-", NULL,
         "new memory A1: new (serial D1, 65536 MiB)", true},
        {NULL, "65536|32768", "swapped memory A1: 65536 MiB -> 32768 MiB", true},
        {NULL, "'S1'|'S9'", "swapped disk nvme0n1: serial S1 -> S9", true},
        {NULL, "00:01'|00:07'", "swapped nic eth0: mac 52:54:00:00:00:01 -> 52:54:00:00:00:07",
         true},
        {NULL, "a:b:c:d|a:b:c:e", "swapped hca mlx5_0: guid a:b:c:d -> a:b:c:e", true},
        {NULL, "P-1|P-9", "swapped psu PSU1: serial P-1 -> P-9", true},
        {NULL, "EPYC|Xeon", "swapped cpu P0: EPYC -> Xeon\nswapped cpu P1: EPYC -> Xeon", true},
        {NULL, "BS-1|BS-2", "swapped board: serial BS-1 -> BS-2", true},
        {NULL, "SN-7|SN-8|1ab0-77|1ab0-78",
         "swapped system: serial SN-7 -> SN-8, uuid 1ab0-77 -> 1ab0-78", true},
        {NULL, "1ab0-77|1ab0-78", "swapped system: uuid 1ab0-77 -> 1ab0-78", true},
        /* the kernel's names and order count for nothing */
        {NULL, "nvme0n1|nvmeXn1|nvme1n1|nvme0n1|nvmeXn1|nvme1n1|", "", false},
        {NULL, "'eth0'|'ens3f0'", "", false},
        {NULL, "'1320'|'X'|'1321'|'1320'|'X'|'1321'",
         "moved gpu serial 1320: moved from 0000:17:00.0 to 0000:ca:00.0\n"
         "moved gpu serial 1321: moved from 0000:ca:00.0 to 0000:17:00.0",
         false},
        {NULL, "'slot':'A1'|'slot':'B1'", "moved memory serial D1: moved from A1 to B1", false},
        /* a serial that is told only now is no swap, and is one more thing known */
        {"'1320'|'N/A'", NULL, "told gpu 0000:17:00.0: serial 1320, told for the first time", true},
        {"'1320'|'N/A'", "'1320'|'0000'", "", false},
        {"'1320'|'N/A'", "'1320'|''|'H100'|'H200'", "swapped gpu 0000:17:00.0: H100 -> H200", true},
        /* two of one serial: slot and model are all that is known */
        {"'1321'|'1320'", "'1321'|'1320'|'H100'|'H200'", "swapped gpu 0000:17:00.0: H100 -> H200",
         true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct hardware *a = parse(cases[i].before), *b = parse(cases[i].after);
        json_t *x = inputs_of(a, false), *y = inputs_of(b, false);
        struct told t = {""};
        char hx[DIGEST_HEX_SIZE], hy[DIGEST_HEX_SIZE];
        for (int k = 0; part_kinds[k] != NULL; k++)
            parts_diff(x, y, part_kinds[k], add, &t);
        if (strcmp(t.text, cases[i].words) != 0)
            fail_msg("case %zu: '%s' instead of '%s'", i, t.text, cases[i].words);
        inputs_fingerprint(x, hx);
        inputs_fingerprint(y, hy);
        if ((strcmp(hx, hy) != 0) != cases[i].stale)
            fail_msg("case %zu: the fingerprint %s", i, cases[i].stale ? "stays" : "changes");
        struct strbuf why;
        strbuf_init(&why, 2000);
        inputs_explain(x, y, &why);
        assert_int_equal(why.len > 0, cases[i].stale);
        strbuf_done(&why);
        json_decref(x);
        json_decref(y);
        hardware_free(a);
        hardware_free(b);
    }
}

/* Where the profile says that slots count, a part that moved is another one. */
static void test_places(void **state)
{
    (void)state;
    struct hardware *a = parse(NULL), *b = parse("'0000:17:00.0'|'0000:3b:00.0'");
    json_t *x = inputs_of(a, true), *y = inputs_of(b, true);
    char hx[DIGEST_HEX_SIZE], hy[DIGEST_HEX_SIZE];
    struct strbuf why;
    strbuf_init(&why, 2000);
    inputs_fingerprint(x, hx);
    inputs_fingerprint(y, hy);
    assert_string_not_equal(hx, hy);
    inputs_explain(x, y, &why);
    assert_string_equal(why.data, "gpu serial 1320: moved from 0000:17:00.0 to 0000:3b:00.0");
    strbuf_done(&why);
    json_decref(x);
    json_decref(y);
    hardware_free(a);
    hardware_free(b);
}

static void test_bmc_and_power(void **state)
{
    (void)state;
    struct hardware *hw = parse(",'psus':[{'slot':'PSU1','serial':'P-1','model':'3K'},{'slot':"
                                "'PSU2','serial':'P-2'}]|-");
    json_t *bmc = json_pack("{s:s,s:{s:i,s:i,s:s},s:[{s:s,s:s}]}", "guid", "77ab", "bmc",
                            "manufacturer_id", 674, "product_id", 256, "firmware", "6.10", "psus",
                            "slot", "PSU.1", "serial", "CN77");
    int before = hardware_count(hw);
    hardware_set_bmc(hw, bmc);
    assert_int_equal(hardware_count(hw), before + 2);
    assert_string_equal(hardware_at(hw, before)->value, "guid 77ab");
    assert_string_equal(hardware_at(hw, before + 1)->value, "serial CN77");
    (void)json_object_set_new(json_object_get(bmc, "bmc"), "mac", json_string("0c:c4:7a:00:00:01"));
    hardware_set_bmc(hw, bmc);
    assert_string_equal(hardware_at(hw, before)->value, "mac 0c:c4:7a:00:00:01");
    hardware_set_bmc(hw, NULL);
    assert_int_equal(hardware_count(hw), before);
    json_decref(bmc);
    hardware_free(hw);
}

static void test_what_a_look_cannot_see(void **state)
{
    (void)state;
    /* the ramdisk has no driver of the GPUs, and somebody who is not root looks */
    struct hardware *last = parse(NULL);
    struct hardware *now = parse("'serial':'SN-7','uuid':'1ab0-77'|'x':1|,'model':'H100','serial':"
                                 "'1320'|-|10de:2330','model':'H100','serial':'1321'|10de:9999'");
    free(hardware_carry_over(now, last));
    json_t *x = inputs_of(last, false), *y = inputs_of(now, false);
    struct told t = {""};
    for (int k = 0; part_kinds[k] != NULL; k++)
        parts_diff(x, y, part_kinds[k], add, &t);
    /* the second is another model: nothing is taken over for it */
    assert_string_equal(t.text, "swapped gpu 0000:ca:00.0: serial 1321 -> 10de:9999");
    json_decref(x);
    json_decref(y);
    hardware_free(last);
    hardware_free(now);
}

static void test_machines(void **state)
{
    (void)state;
    static const struct {
        const char *edits;
        bool same;
    } cases[] = {{NULL, true},
                 {"'S1'|'S9'|'1320'|'1654'", true},
                 {"BS-1|BS-2", true},
                 {"SN-7|SN-8|1ab0-77|1ab0-78|BS-1|BS-2|00:01'|00:11'|00:02'|00:12'", false},
                 /* makers who give all machines one serial */
                 {"1ab0-77|1ab0-78|BS-1|BS-2|00:01'|00:11'|00:02'|00:12'", false},
                 {"SN-7|None|1ab0-77|1ab0-78|BS-1|BS-2|00:01'|00:11'|00:02'|00:12'", false}};
    struct hardware *a = parse(NULL);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct hardware *b = parse(cases[i].edits);
        if (hardware_same_machine(a, b) != cases[i].same)
            fail_msg("case %zu", i);
        hardware_free(b);
    }
    assert_string_equal(hardware_machine_word(a), "SN-7");
    hardware_free(a);
}

/* What an older database holds turns into rows, where it says the same as what is recorded. */

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_junk),
                                       cmocka_unit_test(test_differences),
                                       cmocka_unit_test(test_places),
                                       cmocka_unit_test(test_bmc_and_power),
                                       cmocka_unit_test(test_what_a_look_cannot_see),
                                       cmocka_unit_test(test_machines)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
