/* Swapped parts and machines: exactly the stages that name a part go stale, in words; another
 * machine waits for an operator or the policy; nothing is forgotten over a restart. */
#include "world.h"

#include "base/fsutil.h"
#include "engine/swap.h"
#include "model/fingerprint.h"

/* The ladder with all its names; `scheduler` minds where a GPU sits. */
static const char ladder[] =
    "profile: p\ninstall: {image: os.raw, disk: largest}\nhardware: {gpus: 2, hcas: 1}\nstages:\n"
    "- {stage: racked}\n"
    "- {stage: reachable, after: racked, deadline: 1m, steps: [{bmc: verify}]}\n"
    "- {stage: identified, needs: reachable, hardware: [system, board, bmc], deadline: 5m, steps: "
    "[{bmc: identity}, {netboot: discover}, {check: identity}]}\n"
    "- {stage: inventoried, needs: identified, hardware: [system, board, bmc, cpu, memory, gpu, "
    "nic, hca, disk, psu], deadline: 1m, steps: [{check: bom}]}\n"
    "- {stage: firmware, after: inventoried, hardware: [board, bmc, gpu, nic], deadline: 1m, "
    "steps: [{run: f.sh}]}\n"
    "- {stage: installed, after: firmware, hardware: disk, wipes: true, deadline: 10m, steps: "
    "[{netboot: install}]}\n"
    "- {stage: online, needs: installed, deadline: 1m, steps: [{wait: ssh}]}\n"
    "- {stage: tuned, needs: online, hardware: [cpu, memory], deadline: 1m, steps: [{run: t.sh}]}\n"
    "- {stage: fabric, needs: online, after: tuned, hardware: [nic, hca], skip_unless: hca, "
    "deadline: 1m, steps: [{run: n.sh}]}\n"
    "- {stage: gpu, needs: online, after: fabric, hardware: gpu, skip_unless: gpu, deadline: 1m, "
    "steps: [{run: g.sh}]}\n"
    "- {stage: nccl, needs: online, after: gpu, hardware: [gpu, nic], deadline: 1m, steps: [{run: "
    "c.sh}]}\n"
    "- {stage: storage, needs: online, after: nccl, hardware: [nic, disk], deadline: 1m, steps: "
    "[{run: s.sh}]}\n"
    "- {stage: scheduler, needs: online, after: storage, hardware: gpu, slots: gpu, deadline: 1m, "
    "steps: [{run: j.sh}]}\n"
    "- {stage: monitoring, needs: online, after: scheduler, deadline: 1m, steps: [{run: m.sh}]}\n"
    "- {stage: node-tested, needs: [tuned, gpu], after: monitoring, hardware: [gpu, memory, disk], "
    "deadline: 1m, steps: [{run: b.sh}]}\n"
    "- {stage: fabric-tested, needs: fabric, after: node-tested, hardware: nic, deadline: 1m, "
    "steps: [{run: e.sh}]}\n"
    "- {stage: workload, needs: [node-tested, fabric-tested, nccl], deadline: 1m, steps: [{run: "
    "w.sh}]}\n"
    "- {stage: validated}\n";

static const char machine[] =
    "{'schema':1,'system':{'vendor':'ACME','product':'X1','serial':'SN-1','uuid':'u-1'},"
    "'board':{'vendor':'ACME','product':'B1','serial':'BS-1'},"
    "'cpu':{'model':'EPYC','threads':64,'cores':32,'sockets':1,'packages':[{'slot':'P0',"
    "'serial':'C-1'}]},'memory':{'total_mib':128000,'dimms':["
    "{'slot':'A1','size_mib':65536,'serial':'D-1'},"
    "{'slot':'A2','size_mib':65536,'serial':'D-2'}]},"
    "'disks':[{'name':'nvme0n1','bytes':2000000000000,'serial':'S-1'},"
    "{'name':'nvme1n1','bytes':2000000000000,'serial':'S-2'}],"
    "'nics':[{'name':'eth0','permanent_mac':'52:54:00:00:00:01','pci':'0000:41:00.0'}],"
    "'gpus':[{'pci':'0000:17:00.0','pci_id':'10de:2330','model':'H100','serial':'1320'},"
    "{'pci':'0000:ca:00.0','pci_id':'10de:2330','model':'H100','serial':'1321'}],"
    "'hcas':[{'name':'mlx5_0','node_guid':'a:b:c:1','pci':'0000:18:00.0','ports':[]}],"
    "'psus':[{'slot':'PSU1','serial':'P-1'},{'slot':'PSU2','serial':'P-2'}]}";

/* Another machine altogether: the number in every serial is another one. */
static const char second[] = "SN-1|SN-2|u-1|u-2|BS-1|BS-2|C-1|C-9|D-1|D-8|D-2|D-9|'S-1'|'S-8'|'S-2'"
                             "|'S-9'|00:00:01|00:00:09|1320|"
                             "7770|1321|7771|a:b:c:1|a:b:c:9|P-1|P-8|P-2|P-9";
static const char new_board[] = "BS-1|BS-2";

static struct loop *loop;
static struct store *store;
static struct engine *engine;
static char db[] = "/tmp/clusterd-swap-XXXXXX";
static const char *profile = ladder;
static const char *class_more = "";
static int node_count = 1;
static char started[4000];
static const char *guid = "g-1";
static const char *hang; /* the step that never ends */

/* ---- steps that do nothing ---- */

static void over(void *user)
{
    struct step_run *run = user;
    struct err none = {0};
    step_done(run, &none, "observed");
}

static int fake_start(struct step_run *run, struct err *err)
{
    (void)err;
    size_t len = strlen(started);
    if (run->index == 0)
        (void)snprintf(started + len, sizeof started - len, "%s%s", len ? " " : "",
                       run->stage->name);
    if (strcmp(run->def->what, "identity") == 0 && strcmp(run->def->type, "bmc") == 0) {
        json_t *said = json_pack("{s:s,s:{s:s}}", "guid", guid, "bmc", "firmware", "1.2");
        swap_adopt_bmc(run->node, said);
        json_decref(said);
    }
    if (hang == NULL || strcmp(run->def->what, hang) != 0)
        timer_set(loop, &run->timer, 1000, over, run);
    return 0;
}

static const struct step_type fakes[] = {
    {.name = "bmc", .start = fake_start},   {.name = "netboot", .start = fake_start},
    {.name = "wait", .start = fake_start},  {.name = "run", .start = fake_start},
    {.name = "copy", .start = fake_start},  {.name = "probe", .start = fake_start},
    {.name = "check", .start = fake_start}, {.name = "measure", .start = fake_start},
    {.name = "group", .start = fake_start}};
static const struct step_type *const types[] = {&fakes[0], &fakes[1], &fakes[2], &fakes[3],
                                                &fakes[4], &fakes[5], &fakes[6], &fakes[7],
                                                &fakes[8], NULL};

/* ---- a cluster ---- */

static struct spec *parse(struct profiles **ret_profiles)
{
    char *base = NULL;
    if (profile != ladder)
        assert_int_equal(fs_read("profiles/base.yaml", 1 << 20, &base, NULL, NULL), 0);
    char *text = xasprintf("cluster: c\ncredentials: {bmc: {user: u, password: {file: f}}}\n"
                           "classes: {k: {profile: p%s}}\nnodes:\n- {name: 'n[1-%d]', "
                           "bmc: '10.0.0.[1-%d]'}\n",
                           class_more, node_count, node_count);
    const char *const profiles[] = {profile, base, NULL};
    struct spec *s = world_parse(profiles, text, ret_profiles);
    free(text);
    free(base);
    return s;
}

static void open_engine(void)
{
    struct err err = {0};
    if (store_open(loop, db, &store, &err) < 0)
        fail_msg("%s", err.text);
    struct engine_config c = {.loop = loop,
                              .store = store,
                              .step_types = types,
                              .secret = world_secret,
                              .secret_id = world_secret_id,
                              .seed = 7};
    engine = engine_new(&c);
}

static int setup(void **state)
{
    (void)state;
    profile = ladder;
    class_more = "";
    node_count = 1;
    guid = "g-1";
    hang = NULL;
    started[0] = '\0';
    world_new_db(db);
    loop = loop_new_virtual(WORLD_BEGINS);
    open_engine();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    engine_free(engine);
    store_close(store);
    int left = loop_free(loop);
    world_remove_db(db);
    return left;
}

/* The machine with each "from|to" replaced everywhere, as JSON. The caller frees. */
static char *machine_json(const char *edits)
{
    char *text = xstrdup(machine), *list = xstrdup(edits != NULL ? edits : ""), *save = NULL;
    for (char *from = strtok_r(list, "|", &save); from != NULL; from = strtok_r(NULL, "|", &save)) {
        const char *to = strtok_r(NULL, "|", &save);
        char *at = strstr(text, from);
        if (at == NULL || to == NULL)
            fail_msg("'%s' is not in the machine", from);
        char *changed = xasprintf("%.*s%s%s", (int)(at - text), text, strcmp(to, "-") ? to : "",
                                  at + strlen(from));
        free(text);
        text = changed;
    }
    free(list);
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    return text;
}

static void facts(const char *name, const char *edits)
{
    char *json = machine_json(edits);
    engine_on_facts(engine, engine_find(engine, name)->id, 0, json);
    free(json);
}

static void settle(void)
{
    loop_run_for(loop, 10 * 60000);
}

static void apply(void)
{
    struct profiles *profiles;
    struct err err = {0};
    json_t *plan = NULL;
    struct spec *spec = parse(&profiles);
    if (engine_apply(engine, spec, profiles, class_more, "tester", NULL, &plan, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(plan);
}

static void start(void)
{
    apply();
    facts("n1", NULL);
    settle();
    assert_string_equal(node_word(engine_find(engine, "n1")), "validated");
    started[0] = '\0';
}

static void reopen(void)
{
    struct profiles *profiles;
    struct err err = {0};
    engine_free(engine);
    store_close(store);
    open_engine();
    struct spec *spec = parse(&profiles);
    if (engine_load(engine, spec, profiles, 1, &err) < 0)
        fail_msg("%s", err.text);
}

static void hold(bool on)
{
    json_decref(on ? engine_hold(engine, "n1", "a part is swapped", "tester", NULL)
                   : engine_release(engine, "n1", "tester", NULL));
}

/* The stages of a node that are stale, and the reason that they all give. */
static void stale(const char *name, char *names, size_t size, char *reason, size_t reason_size)
{
    const struct enode *n = engine_find(engine, name);
    names[0] = reason[0] = '\0';
    for (int i = 0; i < n->stage_count; i++) {
        if (n->stages[i].status != STAGE_STALE)
            continue;
        size_t len = strlen(names);
        (void)snprintf(names + len, size - len, "%s%s", len ? " " : "", n->stages[i].def->name);
        (void)snprintf(reason, reason_size, "%s", n->stages[i].reason);
    }
}

static void assert_stale(const char *name, const char *wanted, const char *why)
{
    char names[1000], reason[1000];
    stale(name, names, sizeof names, reason, sizeof reason);
    if (strcmp(names, wanted) != 0)
        fail_msg("stale: '%s' instead of '%s'", names, wanted);
    if (why != NULL && strcmp(reason, why) != 0)
        fail_msg("'%s' instead of '%s'", reason, why);
}

struct seen {
    const char *kind;
    char text[2000];
    int count;
};

static void on_event(const struct store_event *r, void *user)
{
    struct seen *s = user;
    if (strcmp(r->kind, s->kind) != 0)
        return;
    size_t len = strlen(s->text);
    (void)snprintf(s->text + len, sizeof s->text - len, "%s%s", len ? " | " : "", r->text);
    s->count++;
}

static void assert_event(const char *kind, const char *text)
{
    struct seen s = {.kind = kind};
    (void)store_each_event(store, 0, 0, 10000, on_event, &s, NULL);
    if (strcmp(s.text, text) != 0)
        fail_msg("%s: '%s' instead of '%s'", kind, s.text, text);
}

static void assert_why(const char *name, const char *part)
{
    json_t *why = engine_view_why(engine, name, NULL);
    char *text = json_dumps(why, 0);
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in %s", part, text);
    free(text);
    json_decref(why);
}

static void assert_admin(const char *name, const char *word)
{
    assert_string_equal(node_admin_word(engine_find(engine, name)), word);
}

/* ---- one part after the other ---- */

struct part_case {
    const char *edits; /* NULL: the BMC's GUID */
    bool machine;      /* it is another machine: waits for `replace` */
    const char *stale; /* at once */
    const char *why;
    const char *ran; /* once it may: with what builds on it */
};

static void swap_part(const struct part_case *c)
{
    start();
    hold(true);
    if (c->edits == NULL) {
        json_t *said = json_pack("{s:s,s:{s:s}}", "guid", "g-2", "bmc", "firmware", "1.2");
        swap_adopt_bmc(engine_find(engine, "n1"), said);
        json_decref(said);
        guid = "g-2";
    } else {
        facts("n1", c->edits);
    }
    settle();
    if (c->machine) {
        struct err err = {0};
        assert_admin("n1", "swap-suspected");
        assert_stale("n1", "", NULL);
        assert_why("n1", c->why);
        json_t *out = engine_replace(engine, "n1", "tester", &err);
        assert_non_null(out);
        json_decref(out);
        settle();
    }
    assert_admin("n1", "held");
    assert_stale("n1", c->stale, c->why);
    assert_string_equal(started, "");
    hold(false);
    settle();
    if (strcmp(started, c->ran) != 0)
        fail_msg("ran '%s' instead of '%s'", started, c->ran);
}

static void test_ladder(void **state)
{
    static const struct part_case cases[] = {
        {"SN-1|SN-5", true, "identified inventoried", "system: serial SN-1 -> SN-5",
         "identified inventoried"},
        {new_board, true, "identified inventoried firmware", "board: serial BS-1 -> BS-2",
         "identified inventoried firmware"},
        {NULL, false, "identified inventoried firmware", "bmc: guid g-1 -> g-2",
         "identified inventoried firmware"},
        {"C-1|C-2", false, "inventoried tuned", "cpu P0: serial C-1 -> C-2",
         "inventoried tuned node-tested workload"},
        {"D-1|D-7", false, "inventoried tuned node-tested", "memory A1: serial D-1 -> D-7",
         "inventoried tuned node-tested workload"},
        {"{'slot':'A1','size_mib':65536,'serial':'D-1'},|-", false, "inventoried tuned node-tested",
         "memory A1: gone (serial D-1, 65536 MiB)", "inventoried tuned node-tested workload"},
        {"1320|1654", false, "inventoried firmware gpu nccl scheduler node-tested",
         "gpu 0000:17:00.0: serial 1320 -> 1654",
         "inventoried firmware gpu nccl scheduler node-tested workload"},
        {"00:00:01|00:00:07", false, "inventoried firmware fabric nccl storage fabric-tested",
         "nic eth0: mac 52:54:00:00:00:01 -> 52:54:00:00:00:07",
         "inventoried firmware fabric nccl storage fabric-tested workload"},
        {"a:b:c:1|a:b:c:2", false, "inventoried fabric", "hca mlx5_0: guid a:b:c:1 -> a:b:c:2",
         "inventoried fabric fabric-tested workload"},
        /* installed is stale, stands, and waits for --reinstall */
        {"S-2|S-7", false, "inventoried installed storage node-tested",
         "disk nvme1n1: serial S-2 -> S-7", "inventoried storage node-tested workload"},
        {"P-1|P-7", false, "inventoried", "psu PSU1: serial P-1 -> P-7", "inventoried"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        swap_part(&cases[i]);
        teardown(state);
        setup(state);
    }
}

/* The shipped profile names parts as its documentation says. */
static void test_base(void **state)
{
    static const char extended[] =
        "profile: p\nextends: base\ninstall: {image: os.raw, disk: largest}\n"
        "hardware: {gpus: 2, hcas: 1}\n";
    static const struct part_case cases[] = {
        {"SN-1|SN-5", true, "identified inventoried", "system: serial SN-1 -> SN-5",
         "identified inventoried"},
        {new_board, true, "identified inventoried", "board: serial BS-1 -> BS-2",
         "identified inventoried"},
        {NULL, false, "identified inventoried", "bmc: guid g-1 -> g-2", "identified inventoried"},
        {"C-1|C-2", false, "inventoried tuned node-tested", "cpu P0: serial C-1 -> C-2",
         "inventoried tuned node-tested"},
        {"D-1|D-7", false, "inventoried tuned node-tested", "memory A1: serial D-1 -> D-7",
         "inventoried tuned node-tested"},
        {"1320|1654", false, "inventoried gpu", "gpu 0000:17:00.0: serial 1320 -> 1654",
         "inventoried gpu"},
        {"00:00:01|00:00:07", false, "inventoried fabric",
         "nic eth0: mac 52:54:00:00:00:01 -> 52:54:00:00:00:07",
         "inventoried fabric fabric-tested"},
        {"a:b:c:1|a:b:c:2", false, "inventoried fabric", "hca mlx5_0: guid a:b:c:1 -> a:b:c:2",
         "inventoried fabric fabric-tested"},
        {"S-2|S-7", false, "inventoried installed node-tested", "disk nvme1n1: serial S-2 -> S-7",
         "inventoried node-tested"},
        {"P-1|P-7", false, "inventoried", "psu PSU1: serial P-1 -> P-7", "inventoried"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        profile = extended;
        swap_part(&cases[i]);
        teardown(state);
        setup(state);
    }
}

static void test_told_in_events_and_plans(void **state)
{
    (void)state;
    start();
    facts("n1", "1320|1654|D-2|D-7|'S-1'|'S-7'");
    settle();
    assert_event("part.swapped", "memory A2: serial D-2 -> D-7 | gpu 0000:17:00.0: serial 1320 -> "
                                 "1654 | disk nvme0n1: serial S-1 -> S-7");
    assert_event("machine.replaced", "");
    assert_string_equal(node_word(engine_find(engine, "n1")), "validated");
    struct profiles *profiles;
    struct spec *spec = parse(&profiles);
    json_t *plan = engine_plan(engine, spec, &(struct engine_order){0}, NULL);
    char *text = json_dumps(plan, 0);
    if (strstr(text, "disk nvme0n1: serial S-1 -> S-7) but the disk stays as it is") == NULL)
        fail_msg("%s", text);
    free(text);
    json_decref(plan);
    spec_free(spec);
    profiles_free(profiles);
}

static void test_moved(void **state)
{
    (void)state;
    start();
    hold(true);
    facts("n1", "0000:17:00.0|0000:3b:00.0");
    settle();
    assert_event("part.moved", "gpu serial 1320: moved from 0000:17:00.0 to 0000:3b:00.0");
    assert_event("part.swapped", "");
    /* only the stage whose profile says that slots count */
    assert_stale("n1", "scheduler", "gpu serial 1320: moved from 0000:17:00.0 to 0000:3b:00.0");
    /* the kernel's names are no slots */
    facts("n1", "0000:17:00.0|0000:3b:00.0|nvme0n1|nvme7n1|'eth0'|'ens3'");
    settle();
    assert_stale("n1", "scheduler", NULL);
}

static void test_junk_serials(void **state)
{
    static const struct {
        const char *first, *then, *stale;
        const char *admin;
    } cases[] = {
        {"'SN-1'|'Default string'", "'SN-1'|'To be filled by O.E.M.'", "", "held"},
        {"'BS-1'|'None'", "'BS-1'|'0123456789'", "", "held"},
        {"'1320'|'00000000'", "'1320'|'FFFFFFFF'", "", "held"},
        {"'D-1'|'N/A'", "'D-1'|'System Serial Number'", "", "held"},
        /* a serial that this look cannot see stays what it was */
        {NULL, "'serial':'SN-1','uuid':'u-1'|'x':1", "", "held"},
        {NULL, ",'model':'H100','serial':'1320'|-", "", "held"},
        /* two parts of one serial are known by their slots */
        {"1321|1320", "1321|1320|'H100'|'H200'",
         "inventoried firmware gpu nccl scheduler node-tested", "held"},
        /* the UUID still tells */
        {"'SN-1'|'None'", "'SN-1'|'None'|u-1|u-2", "", "swap-suspected"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        apply();
        facts("n1", cases[i].first);
        settle();
        hold(true);
        facts("n1", cases[i].then);
        settle();
        assert_stale("n1", cases[i].stale, NULL);
        assert_admin("n1", cases[i].admin);
        teardown(state);
        setup(state);
    }
}

/* ---- other machines ---- */

static void test_suspected(void **state)
{
    (void)state;
    struct err err = {0};
    start();
    assert_null(engine_replace(engine, "n1", "tester", &err));
    assert_int_equal(err.code, ERR_CONFLICT);
    facts("n1", second);
    facts("n1", second);
    settle();
    assert_admin("n1", "swap-suspected");
    assert_event("swap.suspected",
                 "system: serial SN-1 -> SN-2; system: uuid u-1 -> u-2; board: serial BS-1 -> BS-2;"
                 " nothing is started until 'clusterctl replace n1'");
    assert_why("n1", "clusterctl replace n1");
    /* whatever is asked for waits */
    json_decref(engine_rerun(engine, "n1", "tuned", "tester", &err));
    apply();
    settle();
    assert_string_equal(started, "");
    /* somebody put the old one back: it is looked at, and it is */
    json_decref(engine_release(engine, "n1", "tester", &err));
    settle();
    assert_admin("n1", "active");
    assert_string_equal(started, "identified inventoried tuned node-tested workload");
    assert_event("swap.dismissed", "the recorded machine is expected; it is looked at again");
    facts("n1", second);
    facts("n1", NULL);
    settle();
    assert_admin("n1", "active");
    assert_event("swap.withdrawn", "the recorded machine is back");
}

static void test_replaced(void **state)
{
    (void)state;
    struct err err = {0};
    start();
    facts("n1", second);
    settle();
    json_t *out = engine_replace(engine, "n1", "tester", &err);
    char *text = json_dumps(out, 0);
    /* its disks went with it: the install is asked for by people only */
    if (strstr(text, "--reinstall n1") == NULL)
        fail_msg("%s", text);
    free(text);
    json_decref(out);
    settle();
    assert_admin("n1", "active");
    assert_stale("n1", "installed",
                 "disk nvme0n1: serial S-1 -> S-8; disk nvme1n1: serial S-2 -> S-9");
    assert_null(strstr(started, "installed"));
    assert_event("part.swapped", "");
    assert_false(node_is_installed(engine_find(engine, "n1")));
    /* the old one's parts are history, of that machine */
    node_count = 2;
    apply();
    facts("n2", NULL);
    settle();
    json_t *view = engine_view_node(engine, "n2", NULL);
    json_t *system = json_array_get(json_object_get(view, "components"), 0);
    json_t *before = json_array_get(json_object_get(system, "before"), 0);
    assert_string_equal(json_string_value(json_object_get(before, "node")), "n1");
    assert_string_equal(json_string_value(json_object_get(before, "machine")), "SN-1");
    assert_true(json_is_string(json_object_get(before, "to")));
    json_decref(view);
}

static void test_disk_stays(void **state)
{
    (void)state;
    struct err err = {0};
    start();
    /* the chassis is another, the disks moved over */
    facts("n1", "SN-1|SN-2|u-1|u-2|BS-1|BS-2");
    settle();
    json_t *out = engine_replace(engine, "n1", "tester", &err);
    assert_int_equal(json_array_size(json_object_get(out, "notes")), 0);
    json_decref(out);
    settle();
    assert_string_equal(started, "identified inventoried firmware");
    assert_string_equal(node_word(engine_find(engine, "n1")), "validated");
}

static void test_policy(void **state)
{
    (void)state;
    class_more = ", replacement: auto";
    node_count = 2;
    apply();
    facts("n1", NULL);
    facts("n2", second);
    settle();
    started[0] = '\0';
    facts("n1", new_board);
    settle();
    assert_admin("n1", "active");
    assert_event("machine.replaced", "by policy: board: serial BS-1 -> BS-2");
    assert_string_equal(started, "identified inventoried firmware");
    /* a machine cannot be in two slots, whatever the policy */
    facts("n1", second);
    settle();
    assert_admin("n1", "swap-suspected");
    assert_why("n1", "this is the machine of n2 (serial SN-2)");
    json_decref(engine_replace(engine, "n1", "tester", NULL));
    assert_event("machine.moved", "its machine (SN-2) is in n1 now");
}

static void test_two_slots(void **state)
{
    (void)state;
    node_count = 3;
    apply();
    facts("n1", NULL);
    /* the cable of n2's BMC leads to n1's machine */
    facts("n2", NULL);
    settle();
    assert_admin("n1", "active");
    assert_admin("n2", "swap-suspected");
    assert_why("n2", "this is the machine of n1 (serial SN-1)");
    /* a maker who gives all machines one serial: no reason to suspect anything */
    facts("n3", "u-1|u-3|BS-1|BS-3|00:00:01|00:00:03|1320|1|1321|2|D-1|D-4|D-2|D-5");
    settle();
    assert_admin("n3", "active");
    struct strbuf sb;
    strbuf_init(&sb, 1000);
    const struct enode *n3 = engine_find(engine, "n3");
    swap_name_owner(n3, n3->hardware, &sb);
    assert_string_equal(sb.data, "");
    strbuf_done(&sb);
}

static void test_attempt_ends(void **state)
{
    (void)state;
    start();
    hang = "discover";
    json_decref(engine_rerun(engine, "n1", "identified", "tester", NULL));
    loop_run_for(loop, 10000);
    const struct enode *n = engine_find(engine, "n1");
    assert_non_null(n->attempt);
    facts("n1", second);
    loop_run_for(loop, 1000);
    assert_null(n->attempt);
    assert_event("attempt.cancelled",
                 "another machine answers in this slot: system: serial SN-1 -> SN-2; system: uuid "
                 "u-1 -> u-2; board: serial BS-1 -> BS-2");
    /* what was proven was the recorded machine, and still is */
    assert_stale("n1", "", NULL);
    hang = NULL;
    settle();
    assert_admin("n1", "swap-suspected");
    json_decref(engine_replace(engine, "n1", "tester", NULL));
    settle();
    assert_string_equal(node_word(n), "validated");
}

/* A wrong machine that was refused, and then the right one: nothing is bound yet. */
static void test_never_proven(void **state)
{
    (void)state;
    hang = "discover";
    apply();
    facts("n1", second);
    facts("n1", NULL);
    loop_run_for(loop, 10000);
    assert_admin("n1", "active");
    assert_event(
        "machine.replaced",
        "nothing was proven of the other: system: serial SN-2 -> SN-1; system: uuid u-2 -> "
        "u-1; board: serial BS-2 -> BS-1");
    assert_string_equal(hardware_machine_word(engine_find(engine, "n1")->hardware), "SN-1");
}

/* ---- restarts ---- */

static void test_restart(void **state)
{
    (void)state;
    /* between the suspicion and the end of the attempt that found it */
    start();
    hang = "discover";
    json_decref(engine_rerun(engine, "n1", "identified", "tester", NULL));
    loop_run_for(loop, 10000);
    facts("n1", second);
    reopen();
    hang = NULL;
    settle();
    assert_admin("n1", "swap-suspected");
    assert_null(engine_find(engine, "n1")->attempt);
    assert_why("n1", "system: serial SN-1 -> SN-2");
    /* held and suspected: both survive */
    hold(true);
    reopen();
    assert_admin("n1", "swap-suspected");
    json_decref(engine_replace(engine, "n1", "tester", NULL));
    assert_admin("n1", "held");
    reopen();
    assert_admin("n1", "held");
    hold(false);
    settle();
    assert_string_equal(node_word(engine_find(engine, "n1")), "validated");
    assert_string_equal(hardware_machine_word(engine_find(engine, "n1")->hardware), "SN-2");
    /* nothing is proven again for a restart */
    started[0] = '\0';
    reopen();
    settle();
    assert_string_equal(started, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ladder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_base, setup, teardown),
        cmocka_unit_test_setup_teardown(test_told_in_events_and_plans, setup, teardown),
        cmocka_unit_test_setup_teardown(test_moved, setup, teardown),
        cmocka_unit_test_setup_teardown(test_junk_serials, setup, teardown),
        cmocka_unit_test_setup_teardown(test_suspected, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_disk_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_policy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_slots, setup, teardown),
        cmocka_unit_test_setup_teardown(test_attempt_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_never_proven, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restart, setup, teardown)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
