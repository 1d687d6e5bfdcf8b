/* The hardware tree: parsing, identity of parts, bill of materials, identity of the machine. */
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
#include "model/hardware.h"
#include "model/parts.h"

static const char server[] =
    "{'schema':1,'tool':'nodeprobe','firmware':'efi','system':{'vendor':'ACME','product':'X1',"
    "'serial':'SN-7','uuid':'1ab00000-0000-4000-8000-000000000001','bios_version':'2.4'},"
    "'board':{'product':'B1','serial':'To be filled by O.E.M.'},"
    "'cpu':{'model':'EPYC','threads':64,'cores':32,'sockets':1,'packages':[{'slot':'P0'}]},"
    "'memory':{'total_mib':128000,'dimms':[{'slot':'A1','size_mib':65536,'serial':'D1'},"
    "{'slot':'A2','size_mib':65536,'serial':'D2'}]},"
    "'disks':[{'name':'nvme0n1','bytes':2000000000000,'serial':'S2','transport':'nvme'},"
    "{'name':'nvme1n1','bytes':1000000000000,'serial':'S1','transport':'nvme'}],"
    "'nics':[{'name':'eth0','permanent_mac':'52:54:00:77:00:01','mac':'52:54:00:77:00:01',"
    "'state':'up','speed_mbps':25000,'link_layer':'ethernet'}],"
    "'gpus':[{'pci':'0000:17:00.0','pci_id':'10de:2330','model':'NVIDIA H100 80GB HBM3',"
    "'serial':'G1'}],"
    "'hcas':[{'name':'mlx5_0','node_guid':'a:b:c:d','pci':'0000:18:00.0','ports':"
    "[{'port':1,'state':'ACTIVE','rate':'400 Gb/sec (4X NDR)','link_layer':'InfiniBand'}]},"
    "{'name':'rxe0','node_guid':'1:2:3:4','ports':[{'port':1,'state':'DOWN'}]}]}";

/* JSON with ' for ", one text replaced by another. */
static char *variant(const char *from, const char *to)
{
    char *text = xstrdup(server);
    if (from != NULL) {
        char *at = strstr(text, from);
        assert_non_null(at);
        char *changed = xasprintf("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
        free(text);
        text = changed;
    }
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    return text;
}

static struct hardware *parse(const char *from, const char *to)
{
    struct err err = {0};
    struct hardware *hw = NULL;
    char *text = variant(from, to);
    int rc = hardware_parse(text, strlen(text), &hw, &err);
    free(text);
    if (rc < 0)
        fail_msg("%s", err.text);
    return hw;
}

static void test_components(void **state)
{
    (void)state;
    struct hardware *hw = parse(NULL, NULL);
    const char *kinds[] = {"system", "board", "cpu", "memory", "memory", "disk",
                           "disk",   "nic",   "gpu", "hca",    "hca"};
    assert_int_equal(hardware_count(hw), ARRAY_LEN(kinds));
    for (int i = 0; i < hardware_count(hw); i++)
        assert_string_equal(hardware_at(hw, i)->kind, kinds[i]);
    assert_string_equal(hardware_at(hw, 0)->identity, "SN-7");
    assert_string_equal(hardware_at(hw, 1)->identity, "");
    assert_string_equal(hardware_at(hw, 9)->detail, "port 1 ACTIVE 400 Gb/sec (4X NDR) InfiniBand");
    assert_null(hardware_at(hw, 11));
    hardware_free(hw);
    hardware_free(NULL);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        enum err_code code;
    } cases[] = {{"'schema':1", "'schema':2", ERR_UNSUPPORTED},
                 {"'schema':1,", "", ERR_UNSUPPORTED},
                 {"{'schema'", "['schema'", ERR_INVALID},
                 {"'disks':[", "'disks':[7,", ERR_INVALID},
                 {"'nics':[", "'nics':{},'x':[", ERR_INVALID},
                 {"'board':{", "'board':7,'b':{", ERR_INVALID},
                 {"'tool':'nodeprobe'", "'tool':[[[[[[[[[[1]]]]]]]]]]", ERR_INVALID}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct hardware *hw = NULL;
        struct err err = {0};
        char *text = variant(cases[i].from, cases[i].to);
        assert_int_equal(hardware_parse(text, strlen(text), &hw, &err), -(int)cases[i].code);
        assert_null(hw);
        assert_true(err.text[0] != '\0');
        free(text);
    }
}

static void identity(const char *from, const char *to, const char *kind, char out[400])
{
    struct hardware *hw = parse(from, to);
    struct strbuf sb;
    strbuf_init(&sb, 399);
    json_t *rows = inputs_new();
    parts_add(rows, hw, kind, false);
    for (size_t i = 0; i < json_array_size(rows); i++)
        strbuf_addf(&sb, "%s%s", i > 0 ? ", " : "",
                    json_string_value(json_array_get(json_array_get(rows, i), 2)));
    json_decref(rows);
    (void)snprintf(out, 400, "%s", sb.data);
    strbuf_done(&sb);
    hardware_free(hw);
}

static void test_identity_of_kind(void **state)
{
    (void)state;
    char before[400], after[400];
    identity(NULL, NULL, "disk", before);
    assert_string_equal(before, "serial S1, serial S2");
    static const struct {
        const char *kind, *from, *to;
        bool changes;
    } cases[] = {{"disk", "'S1'", "'S9'", true},
                 {"disk", "'name':'nvme0n1'", "'name':'nvme2n1'", false},
                 {"disk", "'G1'", "'G2'", false},
                 {"gpu", "'G1'", "'G2'", true},
                 {"nic", "'name':'eth0'", "'name':'ens3'", false},
                 {"nic", "00:01','mac'", "00:07','mac'", true},
                 {"memory", "'D2'", "'D3'", true},
                 {"memory", "'total_mib':128000", "'total_mib':127990", false},
                 {"hca", "'1:2:3:4'", "'5:6:7:8'", false},
                 {"hca", "'a:b:c:d'", "'5:6:7:8'", true},
                 {"cpu", "'EPYC'", "'Xeon'", true}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        identity(NULL, NULL, cases[i].kind, before);
        identity(cases[i].from, cases[i].to, cases[i].kind, after);
        if ((strcmp(before, after) != 0) != cases[i].changes)
            fail_msg("%s: %s -> %s: '%s' and '%s'", cases[i].kind, cases[i].from, cases[i].to,
                     before, after);
    }
}

static void test_bom(void **state)
{
    (void)state;
    static const struct bom any = {-1, 0, -1, NULL, -1, -1, -1, 0};
    struct bom wants[] = {any, any, any, any, any, any, any, any};
    static const char *const expected[] = {"",
                                           "64 logical CPUs instead of 32",
                                           "131072 MiB of memory instead of at least 200000 MiB",
                                           "1 GPUs instead of 8",
                                           "GPU 0000:17:00.0 is a NVIDIA H100 80GB HBM3 instead of "
                                           "a H200",
                                           "1 network interfaces instead of at least 2",
                                           "2 disks instead of at least 4",
                                           "the largest disk has 2000.0 GB instead of at least "
                                           "3000 GB"};
    char h200[] = "H200";
    wants[1].cpus = 32;
    wants[2].memory_mib = 200000;
    wants[3].gpus = 8;
    wants[4].gpu_model = h200;
    wants[5].nics = 2;
    wants[6].disks = 4;
    wants[7].disk_gb = 3000;
    struct hardware *hw = parse(NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(wants); i++) {
        struct strbuf sb;
        strbuf_init(&sb, 1000);
        assert_int_equal(hardware_check_bom(hw, &wants[i], &sb), expected[i][0] == '\0');
        assert_string_equal(sb.data, expected[i]);
        strbuf_done(&sb);
    }
    hardware_free(hw);
}

static void test_machine_identity(void **state)
{
    (void)state;
    char serial[] = "sn-7", other[] = "SN-8", uuid[] = "1AB00000-0000-4000-8000-000000000001";
    char mac[] = "52:54:00:77:00:01", alien[] = "52:54:00:77:00:09";
    char *macs[] = {mac, NULL}, *aliens[] = {mac, alien, NULL};
    json_t *bmc = json_pack("{s:s,s:{s:s}}", "guid", "1ab00000-0000-4000-8000-000000000001", "fru",
                            "serial", "SN-7");
    const struct {
        struct spec_node slot;
        json_t *bmc;
        int agreements, contradictions;
    } cases[] = {{{.serial = serial, .uuid = uuid, .macs = macs}, bmc, 3, 0},
                 {{.serial = serial, .uuid = uuid, .macs = macs}, NULL, 3, 0},
                 {{.serial = serial}, bmc, 1, 0},
                 {{.serial = other, .uuid = uuid}, bmc, 1, 1},
                 {{.macs = aliens, .uuid = uuid}, NULL, 1, 1},
                 {{.uuid = NULL}, bmc, 0, 0}};
    struct hardware *hw = parse(NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct identity_result r;
        struct strbuf sb;
        strbuf_init(&sb, 1000);
        hardware_check_identity(hw, &cases[i].slot, cases[i].bmc, &r, &sb);
        if (r.agreements != cases[i].agreements || r.contradictions != cases[i].contradictions)
            fail_msg("case %zu: %d agree, %d contradict: %s", i, r.agreements, r.contradictions,
                     sb.data);
        strbuf_done(&sb);
    }
    hardware_free(hw);
    json_decref(bmc);
}

static void test_blank_serials_do_not_count(void **state)
{
    (void)state;
    char serial[] = "To Be Filled By O.E.M.";
    struct spec_node slot = {.serial = serial};
    struct identity_result r;
    struct strbuf sb;
    strbuf_init(&sb, 1000);
    struct hardware *hw = parse("'SN-7'", "'To Be Filled By O.E.M.'");
    hardware_check_identity(hw, &slot, NULL, &r, &sb);
    assert_int_equal(r.agreements, 0);
    assert_int_equal(r.contradictions, 0);
    assert_string_equal(hardware_at(hw, 0)->identity, "1ab00000-0000-4000-8000-000000000001");
    strbuf_done(&sb);
    hardware_free(hw);
}

static void test_rdma_ports(void **state)
{
    (void)state;
    struct hardware *hw = parse(NULL, NULL);
    struct strbuf sb;
    strbuf_init(&sb, 1000);
    assert_int_equal(hardware_active_rdma_ports(hw, 0, &sb), 1);
    assert_non_null(strstr(sb.data, "rxe0 port 1 DOWN"));
    strbuf_done(&sb);
    hardware_free(hw);
}

static void same_text(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        assert_true(a == b);
    else
        assert_string_equal(a, b);
}

static void test_slim(void **state)
{
    (void)state;
    struct hardware *full = parse(NULL, NULL), *slim = parse(NULL, NULL);
    json_t *bmc = json_pack("{s:{s:s,s:s}}", "bmc", "model", "AST2600", "mac", "52:54:00:77:00:99");
    hardware_set_bmc(full, bmc);
    hardware_set_bmc(slim, bmc);
    json_decref(bmc);
    hardware_slim(slim);
    hardware_slim(slim); /* once more does nothing */
    assert_int_equal(hardware_count(slim), hardware_count(full));
    for (int i = 0; i < hardware_count(full); i++) {
        const struct component *a = hardware_at(full, i), *b = hardware_at(slim, i);
        same_text(a->kind, b->kind);
        same_text(a->slot, b->slot);
        same_text(a->identity, b->identity);
        same_text(a->model, b->model);
        same_text(a->firmware, b->firmware);
        same_text(a->detail, b->detail);
        same_text(a->place, b->place);
        same_text(a->value, b->value);
        same_text(a->first, b->first);
        same_text(a->second, b->second);
    }
    assert_true(hardware_same_machine(full, slim));
    assert_true(hardware_same_machine(slim, full));
    assert_string_equal(hardware_machine(slim).serial, "SN-7");
    hardware_free(full);
    hardware_free(slim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_components),       cmocka_unit_test(test_refused),
        cmocka_unit_test(test_identity_of_kind), cmocka_unit_test(test_bom),
        cmocka_unit_test(test_machine_identity), cmocka_unit_test(test_blank_serials_do_not_count),
        cmocka_unit_test(test_rdma_ports),       cmocka_unit_test(test_slim)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
