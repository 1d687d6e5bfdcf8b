/* Rehearsals: the rewritten spec is the same cluster on loopback, the fleet fits it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "checks/checks.h"
#include "model/rehearsal.h"

static const char profiles_text[] =
    "profile: p\n"
    "vars: {floor: 100, ceiling: 9000, other: x}\n"
    "hardware: {cpus: 7, memory_mib: 1001, gpus: 8, gpu_model: H100, nics: 1, hcas: 20, disk_gb: "
    "3000}\n"
    "install: {method: image, image: os.raw.zst, disk: largest}\n"
    "stages:\n"
    "- {stage: racked, proves: x}\n"
    "- stage: own\n"
    "  proves: x\n"
    "  vars: [floor]\n"
    "  deadline: 20m\n"
    "  steps:\n"
    "  - {run: a.sh}\n"
    "  - {run: b.sh}\n"
    "  - measure: node-test\n"
    "    limits: {memory_copy: {min: floor, max: ceiling}, strange: {max: 3}, disk_read: {min: "
    "1}}\n"
    "- stage: wire\n"
    "  proves: x\n"
    "  deadline: 10h\n"
    "  steps:\n"
    "  - {run: c.sh}\n"
    "  - {measure: ib-write-bw, limits: {ib_write_bw: {min: 500}}}\n"
    "- {stage: validated, proves: x}\n";

static const char spec_text[] =
    "cluster: real\n"
    "networks: {provision: {cidr: 10.1.0.0/16, dhcp: 10.1.9.1-10.1.9.9}, bmc: {cidr: "
    "10.2.0.0/16}}\n"
    "fabric: {type: infiniband, rate: 200G}\n"
    "power:\n"
    "  inrush_window: 7s\n"
    "  feeds: {room: {rated_kw: 90}, pdu: {rated_kw: 34, reserve: 10%, parent: room}}\n"
    "credentials:\n"
    "  bmc: {user: hidden, password: {file: /secret/place}}\n"
    "  ssh: {user: somebody, port: 2222, key: {file: /secret/key}}\n"
    "classes:\n"
    "  k: {profile: p, node_kw: 10, vars: {other: '0123'}, power: {idle_w: 2000}}\n"
    "  quiet: {profile: p}\n"
    "racks: {r1: {feed: pdu}, r2: {}}\n"
    "nodes:\n"
    "- {name: a, class: k, rack: r1, unit: 3, bmc: '10.2.0.1:6000', mac: ['02:00:00:00:00:01', "
    "'02:00:00:00:00:02'], serial: S1, uuid: 1ab00000-0000-4000-8000-000000000001, vars: {floor: "
    "8000}}\n"
    "- {name: b, class: quiet, bmc: 10.2.0.2, mac: from bmc, bmc_driver: ipmitool, bmc_user: "
    "other, "
    "bmc_password: {env: HIDDEN}}\n"
    "limits: {installs: 3, per_rack_installs: 2}\n"
    "rollout: {canary: [a], waves: [1, 50%], wave_pause: 10m, max_failed: 5%}\n"
    "targets: {gpu_utilisation: 0.9}\n";

struct world {
    struct profiles *profiles;
    struct spec *spec;
    struct rehearsal r;
    json_t *images;
};

static void say(const struct diags *d)
{
    for (int i = 0; i < d->count; i++)
        print_message("%s:%d:%d: %s\n", d->items[i].file, d->items[i].line, d->items[i].column,
                      d->items[i].text);
}

static struct spec *parse(const char *text, const struct profiles *profiles)
{
    struct bundle b;
    struct diags d;
    bundle_init(&b);
    diags_init(&d);
    bundle_add(&b, "spec.yaml", text, strlen(text));
    struct spec *s = spec_parse(&b, profiles, &d);
    if (s == NULL)
        say(&d);
    diags_done(&d);
    bundle_done(&b);
    return s;
}

static int world_new(void **state)
{
    struct world *w = xcalloc(1, sizeof *w);
    struct bundle b;
    struct diags d;
    bundle_init(&b);
    diags_init(&d);
    bundle_add(&b, "p.yaml", profiles_text, strlen(profiles_text));
    w->profiles = profiles_parse(&b, &d);
    say(&d);
    diags_done(&d);
    bundle_done(&b);
    w->spec = parse(spec_text, w->profiles);
    w->images = json_pack("{s:i}", "os.raw.zst", 777);
    w->r = (struct rehearsal){.bmc_port = 6001,
                              .ssh_port = 6002,
                              .password = "made-up",
                              .kernel_bytes = 11,
                              .initrd_bytes = 22,
                              .images = w->images,
                              .image_bytes = 5,
                              .uplink_mb_s = 125};
    *state = w;
    return w->spec == NULL;
}

static int world_free(void **state)
{
    struct world *w = *state;
    json_decref(w->images);
    spec_free(w->spec);
    profiles_free(w->profiles);
    free(w);
    return 0;
}

/* What the private daemon reads is the same cluster, elsewhere. */
static void the_spec_is_the_same_elsewhere(void **state)
{
    struct world *w = *state;
    json_t *json = rehearsal_spec(w->spec, &w->r);
    char *text = json_dumps(json, JSON_INDENT(1));
    json_decref(json);
    assert_null(strstr(text, "10.2."));
    assert_null(strstr(text, "10.1."));
    assert_null(strstr(text, "secret"));
    assert_null(strstr(text, "HIDDEN"));
    assert_null(strstr(text, "hidden"));
    struct spec *s = parse(text, w->profiles);
    free(text);
    assert_non_null(s);
    const struct spec_node *a = &s->nodes[0], *b = &s->nodes[1];
    assert_string_equal(s->cluster, "real");
    assert_string_equal(a->bmc, "127.64.0.1");
    assert_string_equal(b->bmc, "127.64.0.2");
    assert_int_equal(a->bmc_port, 6001);
    assert_string_equal(a->address, "127.128.0.2");
    assert_string_equal(b->bmc_driver, "ipmi");
    assert_string_equal(b->bmc_user, REHEARSAL_USER);
    assert_string_equal(a->macs[1], "02:00:00:00:00:02");
    assert_true(b->mac_from_bmc);
    assert_string_equal(a->serial, "S1");
    assert_null(b->serial);
    assert_true(json_equal(a->vars, w->spec->nodes[0].vars));
    assert_true(json_equal(b->vars, w->spec->nodes[1].vars));
    assert_int_equal(s->ssh_port, 6002);
    assert_string_equal(s->ssh_user, "root");
    assert_int_equal(s->provision.mode, DHCP_NONE);
    assert_memory_equal(&s->classes[0].power, &w->spec->classes[0].power,
                        sizeof s->classes[0].power);
    assert_int_equal(s->classes[1].power.idle_w, 0);
    assert_int_equal(s->racks[0].feed_index, w->spec->racks[0].feed_index);
    assert_int_equal(s->feeds[1].usable_w, w->spec->feeds[1].usable_w);
    assert_int_equal(s->inrush_ms, 7000);
    assert_memory_equal(&s->limits, &w->spec->limits, sizeof s->limits);
    assert_true(json_equal(s->rollout, w->spec->rollout));
    assert_true(json_equal(s->fabric, w->spec->fabric));
    assert_true(json_equal(s->targets, w->spec->targets));
    spec_free(s);
}

static int64_t number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static void the_fleet_is_what_classes_expect(void **state)
{
    struct world *w = *state;
    json_t *notes = json_array();
    json_t *history = json_pack("{s:i}", "own", 90);
    w->r.history = history;
    json_t *fleet = rehearsal_fleet(w->spec, &w->r, notes);
    const json_t *a = json_array_get(json_object_get(fleet, "nodes"), 0);
    const json_t *b = json_array_get(json_object_get(fleet, "nodes"), 1);
    assert_string_equal(json_string_value(json_object_get(a, "bmc")), "127.64.0.1");
    assert_string_equal(json_string_value(json_object_get(a, "password")), "made-up");
    assert_int_equal(number(a, "cpus"), 7);
    assert_int_equal(number(a, "cpu_packages"), 1);  /* 7 do not go into two */
    assert_int_equal(number(a, "memory_mib"), 1004); /* four DIMMs, not less than asked for */
    assert_int_equal(number(a, "gpus"), 8);
    assert_int_equal(number(a, "nics"), 2); /* two MACs */
    assert_int_equal(number(a, "hcas"), 12);
    assert_int_equal(number(a, "hca_mbps"), 200000);
    assert_int_equal(number(a, "disk_gb"), 3000);
    assert_int_equal(number(a, "image_bytes"), 777);
    assert_int_equal(number(json_object_get(a, "watts"), "idle"), 2000);
    assert_int_equal(number(json_object_get(a, "watts"), "burnin"), 10000);
    assert_int_equal(number(json_object_get(b, "watts"), "burnin"), 0);
    assert_int_equal(json_array_size(json_object_get(a, "feeds")), 2);
    assert_int_equal(json_array_size(json_object_get(b, "feeds")), 0);
    assert_true(json_string_length(json_object_get(b, "serial")) > 0);
    assert_true(json_string_length(json_object_get(b, "mac")) == 17);
    /* two classes with too many HCAs, and another driver */
    assert_int_equal(json_array_size(notes), 3);
    /* the history is of the whole stage, which has two scripts; the rest is a share of the deadline
     */
    assert_true(
        fabs(json_number_value(json_object_get(json_object_get(fleet, "stage_seconds"), "own")) -
             45) < 0.01);
    const json_t *assumed = json_object_get(fleet, "assumed_seconds");
    assert_true(fabs(json_number_value(json_object_get(assumed, "own")) - 150) < 0.01);
    assert_true(fabs(json_number_value(json_object_get(assumed, "wire")) - 600) < 0.01);
    json_decref(fleet);
    json_decref(history);
    json_decref(notes);
}

static void made_up_figures_meet_the_limits(void **state)
{
    struct world *w = *state;
    json_t *figures = json_array();
    json_t *answers = rehearsal_answers(w->spec, figures);
    const char *log = json_string_value(json_object_get(answers, "k/own.log"));
    struct values v = {0};
    struct err err = {0};
    double limit;
    json_t *limits = json_pack("{s:{s:i,s:i},s:{s:i},s:{s:i}}", "memory_copy", "min", 8000, "max",
                               9000, "strange", "max", 3, "ib_write_bw", "min", 500);
    assert_non_null(log);
    assert_int_equal(checks_parse("node-test", log, strlen(log), &v, &err), 0);
    assert_int_equal(v.count, 5);
    for (int i = 0; i < v.count; i++)
        assert_string_not_equal(checks_judge(&v.items[i], limits, &limit), "low");
    for (int i = 0; i < v.count; i++)
        assert_string_not_equal(checks_judge(&v.items[i], limits, &limit), "high");
    log = json_string_value(json_object_get(answers, "quiet/wire.log"));
    assert_non_null(log);
    assert_int_equal(checks_parse("ib-write-bw", log, strlen(log), &v, &err), 0);
    assert_string_equal(checks_judge(&v.items[0], limits, &limit), "ok");
    assert_int_equal(json_array_size(figures), 4); /* two stages of two classes */
    json_decref(limits);
    json_decref(answers);
    json_decref(figures);
}

static void texts_have_real_addresses(void **state)
{
    struct world *w = *state;
    static const struct {
        const char *said, *real;
    } rows[] = {
        {"the BMC at 127.64.0.1:6001 does not answer", "the BMC at 10.2.0.1:6000 does not answer"},
        {"the BMC at 127.64.0.2: no", "the BMC at 10.2.0.2: no"},
        {"127.128.0.3:6002 refused.", "10.1.0.3:2222 refused."},
        {"see 127.128.0.2.", "see 10.1.0.2."},
        {"127.64.0.9, 1127.64.0.1, 127.0.0.1 and 5.5",
         "127.64.0.9, 1127.64.0.1, 127.0.0.1 and 5.5"},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *text = rehearsal_real_names(w->spec, rows[i].said);
        assert_string_equal(text, rows[i].real);
        free(text);
    }
}

/* ---- the timeline ---- */

static json_t *event(const char *kind, const char *stage, const char *node, int minute)
{
    char at[40];
    (void)snprintf(at, sizeof at, "2026-12-01 06:%02d:00.500", minute);
    return json_pack("{s:s,s:s,s:s?,s:s}", "kind", kind, "node", node, "stage", stage, "at", at);
}

static void stages_in_time(void **state)
{
    (void)state;
    /* 2026-12-01 06:00:00 UTC */
    struct timeline *t = timeline_new(1796104800000);
    json_t *events =
        json_pack("[o,o,o,o,o,o,o,o,o,o]", event("stage.skipped", "gpu", "a", 1),
                  event("attempt.started", "s", "a", 2), event("attempt.started", "s", "b", 3),
                  event("stage.passed", "s", "a", 4), event("attempt.failed", "s", "b", 5),
                  event("attempt.started", "s", "b", 7), event("stage.passed", "s", "b", 13),
                  event("attempt.started", "t", "a", 14), event("stage.failed", "t", "a", 20),
                  event("node.held", NULL, "a", 59));
    timeline_add(t, events);
    json_t *rows = timeline_json(t);
    json_t *wanted = json_pack(
        "[{s:s,s:i,s:i,s:i,s:i,s:i,s:f,s:f,s:f},{s:s,s:i,s:i,s:i,s:i,s:i,s:f,s:n,s:f},"
        "{s:s,s:i,s:i,s:i,s:i,s:i,s:f,s:n,s:f}]",
        "stage", "s", "nodes", 2, "passed", 2, "failed", 0, "skipped", 0, "retries", 1,
        "first_start_s", 120.5, "median_s", 600.0, "last_end_s", 780.5, "stage", "t", "nodes", 1,
        "passed", 0, "failed", 1, "skipped", 0, "retries", 0, "first_start_s", 840.5, "median_s",
        "last_end_s", 1200.5, "stage", "gpu", "nodes", 1, "passed", 0, "failed", 0, "skipped", 1,
        "retries", 0, "first_start_s", 60.5, "median_s", "last_end_s", 60.5);
    assert_true(json_equal(rows, wanted));
    assert_true(fabs(timeline_length(t) - 1200.5) < 0.001);
    json_decref(wanted);
    json_decref(rows);
    json_decref(events);
    timeline_free(t);
    timeline_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_spec_is_the_same_elsewhere, world_new, world_free),
        cmocka_unit_test_setup_teardown(the_fleet_is_what_classes_expect, world_new, world_free),
        cmocka_unit_test_setup_teardown(made_up_figures_meet_the_limits, world_new, world_free),
        cmocka_unit_test_setup_teardown(texts_have_real_addresses, world_new, world_free),
        cmocka_unit_test(stages_in_time),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
