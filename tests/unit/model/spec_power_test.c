/* Feeds, envelopes, what they are when not given, every mistake with its place, and lint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "../diags_text.h"
#include "base/mem.h"
#include "model/spec.h"

static struct profiles *profiles;

static int setup(void **state)
{
    static const char text[] = "profile: lab\nstages:\n  - {stage: racked, proves: a}\n"
                               "  - {stage: node-tested, power: burnin, proves: b}\n"
                               "  - {stage: validated, proves: c}\n";
    static const char calm[] = "profile: calm\nextends: lab\nstages:\n"
                               "  - {stage: node-tested, power: normal}\n";
    struct bundle b;
    struct diags d;
    (void)state;
    bundle_init(&b);
    diags_init(&d);
    bundle_add(&b, "lab.yaml", text, strlen(text));
    bundle_add(&b, "calm.yaml", calm, strlen(calm));
    profiles = profiles_parse(&b, &d);
    int errors = d.errors;
    bundle_done(&b);
    diags_done(&d);
    return errors;
}

static int teardown(void **state)
{
    (void)state;
    profiles_free(profiles);
    return 0;
}

#define HEAD                                                                                       \
    "cluster: t\nnetworks: {provision: {cidr: 10.0.0.0/8}}\n"                                      \
    "credentials: {bmc: {user: u, password: {file: f}}, ssh: {key: {file: f}}}\n"
#define NODE(n)                                                                                    \
    "  - {name: 'x[1-" n "]', rack: r, mac: '5254000000[01-0" n "]', serial: 'S[1-" n              \
    "]', bmc: '10.1.0.[1-" n "]'}\n"

static struct spec *parse(const char *text, struct diags *d)
{
    struct bundle b;
    bundle_init(&b);
    bundle_add(&b, "s", text, strlen(text));
    struct spec *s = spec_parse(&b, profiles, d);
    bundle_done(&b);
    return s;
}

static struct spec *good(const char *text)
{
    struct diags d;
    diags_init(&d);
    struct spec *s = parse(text, &d);
    char *problems = diags_text(&d);
    assert_string_equal(problems, "");
    free(problems);
    diags_done(&d);
    return s;
}

static void test_feeds(void **state)
{
    (void)state;
    struct spec *s =
        good(HEAD "power:\n  inrush_window: 8s\n  boot_timeout: 3m\n  feeds:\n"
                  "    pdu: {rated_kw: 17.3, ramp_kw_per_min: 2.5, reserve: 12.5%, parent: room}\n"
                  "    room: {rated_kw: 100}\n    bare:\n"
                  "classes: {a: {profile: lab}}\nracks: {r: {feed: pdu}, q: }\n"
                  "nodes: [{name: x}]\n");
    assert_int_equal(s->feed_count, 3);
    assert_int_equal(s->feeds[0].rated_w, 17300);
    assert_int_equal(s->feeds[0].usable_w, 15137);
    assert_int_equal(s->feeds[0].ramp_w_per_min, 2500);
    assert_int_equal(s->feeds[0].parent, 1);
    assert_int_equal(s->feeds[1].usable_w, 100000);
    assert_int_equal(s->feeds[1].parent, -1);
    assert_int_equal(s->feeds[2].rated_w, 0);
    assert_int_equal(s->racks[0].feed_index, 0);
    assert_int_equal(s->racks[1].feed_index, -1);
    assert_int_equal(s->inrush_ms, 8000);
    assert_int_equal(s->boot_ms, 180000);
    assert_true(s->classes[0].profile->stages[1].burnin);
    spec_free(s);
    s = good("cluster: t\nclasses: {a: {profile: calm}}\nnodes: [{name: x}]\n");
    assert_int_equal(s->inrush_ms, 5000);
    assert_int_equal(s->boot_ms, 600000);
    assert_false(s->classes[0].profile->stages[1].burnin);
    spec_free(s);
}

static void test_envelopes(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        struct spec_envelope is;
    } rows[] = {
        {"", {0, 0, 0, 0}},
        {", node_kw: 10.2", {10200, 10200, 10200, 10200}},
        {", node_kw: 10.2, power: {idle_w: 2000}", {10200, 10200, 2000, 10200}},
        {", power: {idle_w: 2000, boot_w: 4000}", {4000, 4000, 2000, 4000}},
        {", node_kw: 3, power: {inrush_w: 5000, boot_w: 4000, idle_w: 1, burnin_w: 2}",
         {5000, 4000, 1, 2}},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *text = xasprintf("cluster: t\nclasses: {a: {profile: lab%s}}\nnodes: [{name: x}]\n",
                               rows[i].keys);
        struct spec *s = good(text);
        assert_memory_equal(&s->classes[0].power, &rows[i].is, sizeof rows[i].is);
        spec_free(s);
        free(text);
    }
}

struct row {
    const char *text, *problems;
};

static const struct row mistakes[] = {
    {HEAD "power: {feeds: {a: {rated_kw: 5, parent: bb}, b: {rated_kw: 5, reserve: 5}, c: "
          "{rated_kw: 5, reserve: 95%}}}\nclasses: {a: {profile: lab}}\nracks: {r: {feed: aa}}\n"
          "nodes: [{name: x}]\n",
     "s:4:42: unknown feed 'bb', did you mean 'b'?\n"
     "s:4:73: 'reserve' must be a share of the rating from 0% to 90%, such as 10%\n"
     "s:4:103: 'reserve' must be a share of the rating from 0% to 90%, such as 10%\n"
     "s:6:19: unknown feed 'aa', did you mean 'a'?\n"},
    {HEAD "power: {feeds: {a: {parent: b}, b: {parent: c}, c: {parent: a}, d: {parent: d}, e: "
          "{parent: a}}, inrush_window: 5ms}\n"
          "classes: {a: {profile: lab}}\nnodes: [{name: x}]\n",
     "s:4:29: feed 'a' would feed itself: 'parent' must make a tree\n"
     "s:4:77: feed 'd' would feed itself: 'parent' must make a tree\n"
     "s:4:113: 'inrush_window' must be from 100ms to 24h\n"},
    {HEAD "classes: {a: {profile: lab, power: {inrush: 5, idle_w: 0, boot_w: 1.5}}}\n"
          "nodes: [{name: x}]\n",
     "s:4:37: unknown key 'inrush', did you mean 'inrush_w'?\n"
     "s:4:56: 'idle_w' must be a whole number from 1 to 1000000, not a number\n"
     "s:4:67: 'boot_w' must be a whole number from 1 to 1000000, not a number\n"},
    {HEAD "power: {feeds: {pdu: {rated_kw: 5, parent: room}, room: {rated_kw: 4, reserve: 20%}}}\n"
          "classes:\n  a: {profile: lab, power: {inrush_w: 3201, boot_w: 900, idle_w: 300}}\n"
          "  b: {profile: lab, power: {inrush_w: 3200, boot_w: 1, burnin_w: 3300, idle_w: 1}}\n"
          "  c: {profile: calm, power: {inrush_w: 3200, boot_w: 1, burnin_w: 3300, idle_w: 1}}\n"
          "  d: {profile: calm, node_kw: 6}\n  e: {profile: calm, node_kw: 600}\n"
          "racks: {r: {feed: pdu}}\nnodes:\n  - {name: 'x[1-3]', class: a, rack: r}\n"
          "  - {name: y, class: b, rack: r}\n  - {name: z, class: c, rack: r}\n"
          "  - {name: w, class: d, rack: r}\n  - {name: v, class: e}\n",
     "s:6:3: class 'a': one node takes 3201 W (inrush_w), and feed 'room' carries 3200 W at most "
     "(less its reserve): it could never be switched on; correct the class's 'power' or the feed\n"
     "s:7:3: class 'b': one node takes 3300 W (burnin_w), and feed 'room' carries 3200 W at most "
     "(less its reserve): it could never be switched on; correct the class's 'power' or the feed\n"
     "s:9:3: class 'd': one node takes 6000 W (inrush_w, from node_kw), and feed 'pdu' carries "
     "5000 W at most: it could never be switched on; correct the class's 'power' or the feed\n"},
};

static void test_mistakes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(mistakes); i++) {
        struct diags d;
        diags_init(&d);
        assert_null(parse(mistakes[i].text, &d));
        char *problems = diags_text(&d);
        assert_string_equal(problems, mistakes[i].problems);
        free(problems);
        diags_done(&d);
    }
}

static const struct row lints[] = {
    {HEAD "power: {feeds: {pdu: {rated_kw: 5, reserve: 10%, parent: room}, room: {rated_kw: 50}}}\n"
          "classes: {a: {profile: lab, power: {inrush_w: 1500, idle_w: 1000}}}\n"
          "racks: {r: {feed: pdu}}\nnodes:\n" NODE("5"),
     "s:4:8: warning: feed 'pdu' is rated at 5 kW, but its 5 nodes draw 7.5 kW\n"
     "s:4:17: warning: feed 'pdu' carries 4.5 kW less its reserve, but its nodes draw 5 kW when "
     "idle: they can never all be on\n"},
    {HEAD "power: {feeds: {pdu: {rated_kw: 5, parent: room}, room: {rated_kw: 5.2}}}\n"
          "classes: {a: {profile: lab, power: {inrush_w: 1500, idle_w: 1000, burnin_w: 900}}}\n"
          "racks: {r: {feed: pdu}}\nnodes:\n" NODE("5"),
     "s:4:17: warning: feed 'pdu' carries 5 kW, and its nodes draw 5 kW when idle: the last of "
     "them cannot be switched on, which takes another 0.5 kW\n"
     "s:4:51: warning: feed 'room' carries 5.2 kW, and its nodes draw 5 kW when idle: the last of "
     "them cannot be switched on, which takes another 0.5 kW\n"},
    {HEAD "power: {feeds: {pdu: {rated_kw: 5}}}\n"
          "classes: {a: {profile: lab}, b: {profile: lab, node_kw: 1}}\nracks: {r: {feed: pdu}}\n"
          "nodes:\n  - {name: y, class: b, rack: r, mac: 525400000099, serial: T, bmc: 10.2.0.1}\n"
          "  - {name: z, class: a, rack: r, mac: 525400000098, serial: U, bmc: 10.2.0.2}\n",
     "s:4:17: warning: feed 'pdu': 1 of its nodes are of classes with neither 'power' nor "
     "node_kw: the budget counts nothing for them\n"},
};

static void test_lint(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lints); i++) {
        struct diags d;
        struct spec *s = good(lints[i].text);
        diags_init(&d);
        spec_lint(s, &d);
        char *problems = diags_text(&d);
        assert_string_equal(problems, lints[i].problems);
        free(problems);
        spec_free(s);
        diags_done(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_feeds),
        cmocka_unit_test(test_envelopes),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_lint),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
