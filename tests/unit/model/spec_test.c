/* Specs: what a row means. Mistakes are in spec_mistakes_test.c. */
#include "spec_cases.h"

/* ---- what is read ---- */

static void test_design_example(void **state)
{
    (void)state;
    struct spec *s = good("cluster: atlas\n"
                          "networks:\n"
                          "  provision: {cidr: 10.10.0.0/22, dhcp: 10.10.3.0-10.10.3.250, mode: "
                          "authoritative}\n"
                          "  bmc:       {cidr: 10.20.0.0/22}\n"
                          "fabric: {type: infiniband, rate: 400G, topology: fat-tree, rails: 8, "
                          "leaf_ports: 64, uplinks_per_leaf: 32}\n"
                          "power:\n"
                          "  feeds: {pdu-r1: {rated_kw: 34, ramp_kw_per_min: 10}}\n"
                          "credentials:\n"
                          "  bmc: {user: admin, password: {file: /etc/clusterd/bmc.pw}}\n"
                          "  ssh: {user: root, key: {file: /etc/clusterd/id_ed25519}}\n"
                          "classes:\n"
                          "  hgx-h100: {profile: lab, vars: {driver: \"570\"}}\n"
                          "racks:\n"
                          "  r1: {feed: pdu-r1}\n"
                          "nodes:\n"
                          "  - {name: \"gpu[001-004]\", class: hgx-h100, rack: r1, unit: "
                          "\"[1-25/8]\", bmc: \"10.20.0.[1-4]\", mac: from bmc}\n"
                          "  - from: c.csv\n"
                          "limits: {installs: 32, ssh: 256, power_on_per_rack: 8}\n"
                          "rollout: {canary: 1, max_failed: 5%}\n"
                          "targets: {allreduce_busbw_gbs: 430, gpu_utilisation: 0.9, "
                          "storage_read_gbs: 40}\n",
                          "Name,MAC Address,BMC IP,Serial Number\n"
                          "login1,AA-BB-CC-DD-EE-01,10.20.1.1,SN[1]\n");
    assert_string_equal(s->cluster, "atlas");
    assert_int_equal(s->provision.prefix, 22);
    assert_int_equal(s->provision.head, 0x0a0a0001);
    assert_int_equal(s->provision.dhcp_first, 0x0a0a0300);
    assert_int_equal(s->provision.dhcp_last, 0x0a0a03fa);
    assert_int_equal(s->provision.mode, DHCP_AUTHORITATIVE);
    assert_string_equal(s->bmc.cidr, "10.20.0.0/22");
    assert_int_equal(s->node_count, 5);
    const struct spec_node *n = &s->nodes[3];
    assert_string_equal(n->name, "gpu004");
    assert_string_equal(n->unit, "25");
    assert_string_equal(n->bmc, "10.20.0.4");
    assert_int_equal(n->bmc_port, 623);
    assert_string_equal(n->bmc_driver, "ipmi");
    assert_string_equal(n->bmc_user, "admin");
    assert_int_equal(n->bmc_password.kind, SECRET_FILE);
    assert_string_equal(n->bmc_password.name, "/etc/clusterd/bmc.pw");
    assert_true(n->mac_from_bmc);
    assert_null(n->macs);
    assert_string_equal(n->address, "10.10.0.5"); /* .1 is the head */
    assert_int_equal(n->rack_index, 0);
    assert_string_equal(json_string_value(json_object_get(n->vars, "driver")), "570");
    assert_string_equal(json_string_value(json_object_get(n->vars, "swappiness")), "1");
    n = &s->nodes[4];
    assert_string_equal(n->macs[0], "aa:bb:cc:dd:ee:01");
    assert_null(n->macs[1]);
    assert_string_equal(n->serial, "SN[1]"); /* a cell is a value, not a range */
    assert_string_equal(n->file, "c.csv");
    assert_int_equal(n->line, 2);
    assert_int_equal(n->rack_index, -1);
    assert_int_equal(s->limits.installs, 32);
    assert_int_equal(s->limits.bmc, 256);
    assert_string_equal(s->ssh_user, "root");
    assert_string_equal(s->racks[0].feed, "pdu-r1");
    assert_string_equal(json_string_value(json_object_get(s->rollout, "max_failed")), "5%");
    assert_int_equal(json_integer_value(json_object_get(s->fabric, "rails")), 8);
    assert_int_equal(spec_find_node(s, "gpu004"), 3);
    assert_int_equal(spec_find_node(s, "gpu005"), -1);
    spec_free(s);
}

static void test_rollout(void **state)
{
    (void)state;
    struct spec *s = good(HEAD "  - {name: \"n[1-9]\", bmc: \"10.0.0.[1-9]\"}\n"
                               "limits: {per_rack_installs: 4}\n"
                               "rollout: {canary: [n1, \"n[8-9]\"], waves: [1, 5%, 100%], "
                               "wave_pause: 10m, max_failed: 2, per_rack: 3}\n",
                          NULL);
    assert_int_equal(s->limits.per_rack_installs, 4);
    assert_string_equal(json_string_value(json_array_get(json_object_get(s->rollout, "canary"), 1)),
                        "n[8-9]");
    assert_string_equal(json_string_value(json_array_get(json_object_get(s->rollout, "waves"), 1)),
                        "5%");
    assert_string_equal(json_string_value(json_object_get(s->rollout, "wave_pause")), "10m");
    assert_int_equal(json_integer_value(json_object_get(s->rollout, "max_failed")), 2);
    spec_free(s);
}

static void test_sweep(void **state)
{
    (void)state;
    struct spec *s = good(HEAD "  - {name: n1, bmc: 10.0.0.1}\n", NULL);
    assert_true(s->sweep.on);
    assert_int_equal(s->sweep.every_ms, 6 * 3600 * 1000);
    assert_int_equal(s->sweep.at_once, 8);
    assert_false(s->sweep.repair);
    assert_string_equal(s->sweep.marker, "/run/clusterd/workload");
    assert_null(s->sweep.command);
    spec_free(s);
    s = good("cluster: c\ncredentials: {bmc: {user: u, password: {file: f}}}\n"
             "classes:\n"
             "  a: {profile: lab}\n"
             "  b: {profile: lab, sweep: off}\n"
             "  c: {profile: lab, sweep: {every: 12h, workload_command: \"test -e /busy\"}}\n"
             "  d: {profile: lab, sweep: on}\n"
             "sweep: {every: 1h, at_once: 20, repair: auto, workload_file: /run/job}\n"
             "nodes:\n  - {name: n1, class: a, bmc: 10.0.0.1}\n",
             NULL);
    const struct spec_sweep *a = &s->classes[0].sweep, *b = &s->classes[1].sweep,
                            *c = &s->classes[2].sweep;
    assert_int_equal(s->sweep.at_once, 20);
    assert_true(a->on && a->repair && a->every_ms == 3600 * 1000);
    assert_string_equal(a->marker, "/run/job");
    assert_false(b->on);
    assert_true(c->on && c->repair && c->every_ms == 12 * 3600 * 1000);
    assert_string_equal(c->command, "test -e /busy");
    assert_true(s->classes[3].sweep.on);
    spec_free(s);
}

static void test_rows(void **state)
{
    (void)state;
    struct spec *s = good(
        HEAD "  - name: n[1-2]\n"
             "    mac: ['52:54:00:00:00:0[1-2]', '5254.0000.01F[3-4]']\n"
             "    vars: {swappiness: 60}\n"
             "    bmc: 10.9.0.1:[6231-6232]\n"
             "    bmc_user: other\n"
             "    bmc_password: {env: PW}\n"
             "    bmc_driver: ipmitool\n"
             "    serial: S[1-2]\n"
             "    uuid: 1AB00000-0000-4000-8000-00000000000[1-2]\n"
             "  - {name: m1, mac: 525400000021 52-54-00-00-00-22, bmc: 10.9.0.9, bmc_port: 6000}\n"
             "  - {name: m2}\n",
        NULL);
    const struct spec_node *n = &s->nodes[1];
    assert_string_equal(n->macs[0], "52:54:00:00:00:02");
    assert_string_equal(n->macs[1], "52:54:00:00:01:f4");
    assert_null(n->macs[2]);
    assert_string_equal(n->bmc, "10.9.0.1");
    assert_int_equal(n->bmc_port, 6232);
    assert_string_equal(n->bmc_user, "other");
    assert_int_equal(n->bmc_password.kind, SECRET_ENV);
    assert_string_equal(n->bmc_driver, "ipmitool");
    assert_string_equal(n->serial, "S2");
    assert_string_equal(n->uuid, "1ab00000-0000-4000-8000-000000000002");
    assert_int_equal(n->class_index, 0); /* the only one */
    assert_int_equal(n->line, 7);
    assert_int_equal(n->column, 5);
    assert_string_equal(json_string_value(json_object_get(n->vars, "swappiness")), "60");
    n = &s->nodes[2];
    assert_string_equal(n->macs[1], "52:54:00:00:00:22");
    assert_int_equal(n->bmc_port, 6000);
    assert_string_equal(n->bmc_user, "admin");
    n = &s->nodes[3];
    assert_null(n->bmc);
    assert_null(n->macs);
    assert_string_equal(json_string_value(json_object_get(n->vars, "swappiness")), "1");
    spec_free(s);
}

static void test_csv(void **state)
{
    (void)state;
    static const char csv[] = "name;mac;class;rack;unit;bmc;address;bmc driver\n"
                              "x1;525400000001;b;r1;3;10.9.0.1;10.0.0.50;\n"
                              "x2;\"52:54:00:00:00:02, 52:54:00:00:00:03\";;;;;;ipmitool\n";
    struct spec *s = good("cluster: t\n"
                          "networks: {provision: {cidr: 10.0.0.0/24}}\n"
                          "credentials: {bmc: {user: u, password: {file: f}}}\n"
                          "classes: {a: {profile: lab}, b: {profile: lab}}\n"
                          "racks: {r1: , r2: {}}\n"
                          "nodes: [{from: c.csv, class: a, rack: r2, bmc_user: v, vars: {driver: "
                          "1}}]\n",
                          csv);
    assert_int_equal(s->node_count, 2);
    assert_int_equal(s->nodes[0].class_index, 1);
    assert_int_equal(s->nodes[0].rack_index, 0);
    assert_string_equal(s->nodes[0].address, "10.0.0.50");
    assert_string_equal(s->nodes[0].bmc_user, "v");
    assert_int_equal(s->nodes[1].class_index, 0);
    assert_int_equal(s->nodes[1].rack_index, 1);
    assert_string_equal(s->nodes[1].macs[1], "52:54:00:00:00:03");
    assert_string_equal(s->nodes[1].bmc_driver, "ipmitool");
    assert_string_equal(s->nodes[1].address, "10.0.0.2");
    assert_string_equal(json_string_value(json_object_get(s->nodes[1].vars, "driver")), "1");
    spec_free(s);
}

static void test_addresses(void **state)
{
    (void)state;
    struct spec *s = good("cluster: t\n"
                          "networks: {provision: {cidr: 10.0.0.0/28, head: 10.0.0.4, dhcp: "
                          "10.0.0.6-10.0.0.9}}\n"
                          "credentials: {bmc: {user: u, password: {file: f}}}\n"
                          "classes: {a: {profile: lab}}\n"
                          "nodes:\n"
                          "  - {name: 'a[1-4]'}\n"
                          "  - {name: b, address: 10.0.0.2}\n"
                          "  - {name: c, bmc: 10.0.0.3}\n"
                          "  - {name: d, address: 10.0.0.7}\n" /* in the pool: lint's business */
                          "  - {name: 'e[1-2]'}\n",
                          NULL);
    static const char *const expected[] = {"10.0.0.1",  "10.0.0.5",  "10.0.0.10",
                                           "10.0.0.11", "10.0.0.2",  "10.0.0.12",
                                           "10.0.0.7",  "10.0.0.13", "10.0.0.14"};
    assert_int_equal(s->node_count, 9);
    for (int i = 0; i < 9; i++)
        assert_string_equal(s->nodes[i].address, expected[i]);
    spec_free(s);
    /* without a network nobody has one */
    s = good("cluster: t\nclasses: {a: {profile: lab}}\nnodes: [{name: a}]\n", NULL);
    assert_null(s->nodes[0].address);
    spec_free(s);
}

static void test_anchors(void **state)
{
    (void)state;
    struct spec *s = good("cluster: t\n"
                          "classes:\n"
                          "  a: &a {profile: lab, vars: {driver: 1}}\n"
                          "  b:\n"
                          "    <<: *a\n"
                          "    vars: {driver: 2}\n"
                          "nodes:\n"
                          "  - &n {name: x, class: b}\n"
                          "  - {<<: *n, name: y}\n",
                          NULL);
    assert_int_equal(s->class_count, 2);
    assert_string_equal(json_string_value(json_object_get(s->nodes[1].vars, "driver")), "2");
    spec_free(s);
}

static void test_wants(void **state)
{
    (void)state;
    static const char text[] = "nodes: [{from: a.csv}, {name: x}, {from: b/c.csv}, {from: a.csv}, "
                               "{from: there.csv}, {from: [x]}, {from: }, 3]\n";
    struct bundle b;
    bundle_init(&b);
    char **wants = spec_wants(&b);
    assert_null(wants[0]);
    spec_wants_free(wants);
    bundle_add(&b, "s", text, strlen(text));
    bundle_add(&b, "there.csv", "", 0);
    wants = spec_wants(&b);
    assert_string_equal(wants[0], "a.csv");
    assert_string_equal(wants[1], "b/c.csv");
    assert_null(wants[2]);
    spec_wants_free(wants);
    bundle_done(&b);
    bundle_init(&b);
    bundle_add(&b, "s", "nodes: [", 8);
    wants = spec_wants(&b);
    assert_null(wants[0]);
    spec_wants_free(wants);
    bundle_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_design_example),
        cmocka_unit_test(test_rollout),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_anchors),
        cmocka_unit_test(test_wants),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
