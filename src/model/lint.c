/* What is allowed but hardly meant: warnings about the design of a cluster. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/spec_read.h"

struct lint {
    const struct spec *s;
    struct diags *d;
    int *nodes_of_class;
};

static void warn(const struct lint *l, struct spec_place at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void warn(const struct lint *l, struct spec_place at, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        abort();
    va_end(ap);
    diags_add(l->d, DIAG_WARNING, l->s->file, at.line, at.column, "%s", text);
    free(text);
}

/* ---- nodes: one warning for all that have the same flaw, at the first of them ---- */

static bool no_bmc(const struct spec *s, const struct spec_node *n)
{
    (void)s;
    return n->bmc == NULL;
}

static bool no_mac(const struct spec *s, const struct spec_node *n)
{
    (void)s;
    return n->macs == NULL && !n->mac_from_bmc;
}

static bool mac_unread(const struct spec *s, const struct spec_node *n)
{
    (void)s;
    return n->macs == NULL && n->mac_from_bmc;
}

static bool no_identity(const struct spec *s, const struct spec_node *n)
{
    (void)s;
    return n->serial == NULL && n->uuid == NULL;
}

static bool in_pool(const struct spec *s, const struct spec_node *n)
{
    const struct spec_network *net = &s->provision;
    uint32_t addr;
    return net->dhcp_first != 0 && n->address != NULL && ipv4_read(n->address, &addr) &&
           addr >= net->dhcp_first && addr <= net->dhcp_last;
}

static bool bmc_in_pool(const struct spec *s, const struct spec_node *n)
{
    const struct spec_network *net = &s->provision;
    uint32_t addr;
    return net->dhcp_first != 0 && n->bmc != NULL && ipv4_read(n->bmc, &addr) &&
           addr >= net->dhcp_first && addr <= net->dhcp_last;
}

static bool bmc_outside(const struct spec *s, const struct spec_node *n)
{
    uint32_t addr;
    return s->bmc.set && n->bmc != NULL && ipv4_read(n->bmc, &addr) &&
           !network_holds(&s->bmc, addr);
}

static void lint_nodes(const struct lint *l)
{
    static const struct {
        bool (*flaw)(const struct spec *s, const struct spec_node *n);
        const char *one, *many; /* after the name */
    } rows[] = {
        {no_bmc, "has no BMC: nothing can switch it on", "have no BMC: nothing can switch them on"},
        {no_mac, "has no MAC: it cannot boot from the network",
         "have no MAC: they cannot boot from the network"},
        {mac_unread,
         "has 'mac: from bmc', but MACs are not read from BMCs yet: it cannot boot from the "
         "network",
         "have 'mac: from bmc', but MACs are not read from BMCs yet: they cannot boot from the "
         "network"},
        {no_identity, "has neither serial nor UUID: two machines could be mistaken for each other",
         "have neither serial nor UUID: machines could be mistaken for each other"},
        {in_pool,
         "has its address inside networks.provision.dhcp: an unknown machine may be given "
         "it first",
         "have their addresses inside networks.provision.dhcp: unknown machines may be given them "
         "first"},
        {bmc_in_pool, "has its BMC's address inside networks.provision.dhcp",
         "have their BMCs' addresses inside networks.provision.dhcp"},
        {bmc_outside, "has its BMC outside of networks.bmc",
         "have their BMCs outside of networks.bmc"},
    };
    for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
        const struct spec_node *first = NULL;
        int count = 0;
        for (int i = 0; i < l->s->node_count; i++)
            if (rows[k].flaw(l->s, &l->s->nodes[i]) && count++ == 0)
                first = &l->s->nodes[i];
        if (count == 1)
            diags_add(l->d, DIAG_WARNING, first->file, first->line, first->column, "'%s' %s",
                      first->name, rows[k].one);
        else if (count > 1)
            diags_add(l->d, DIAG_WARNING, first->file, first->line, first->column,
                      "'%s' and %d more %s", first->name, count - 1, rows[k].many);
    }
}

/* ---- networks ---- */

static void lint_networks(const struct lint *l)
{
    const struct spec_network *net = &l->s->provision;
    if (!net->set) {
        warn(l, (struct spec_place){0, 0},
             "no networks.provision: nodes cannot be discovered or installed");
        return;
    }
    if (net->dhcp_first != 0 && net->head >= net->dhcp_first && net->head <= net->dhcp_last)
        warn(l, net->at, "the head node's own address is inside the DHCP range");
    if (net->dhcp_first != 0 && net->mode != DHCP_AUTHORITATIVE)
        warn(l, net->at, "'dhcp' is not used with this 'mode': another server gives addresses");
}

/* ---- classes ---- */

/* GiB of memory of GPUs that are known by name; the first row that matches counts. */
static int gpu_memory_gib(const char *model)
{
    static const struct name known[] = {{288, "B300"},          {180, "B200"}, {141, "H200"},
                                        {94, "H100 NVL"},       {80, "H100"},  {80, "A100 80GB"},
                                        {80, "A100-SXM4-80GB"}, {48, "L40S"},  {0, NULL}};
    for (const struct name *k = known; model != NULL && k->name != NULL; k++)
        if (strcasestr(model, k->name) != NULL)
            return k->id;
    return 0;
}

static void lint_hardware(const struct lint *l, const struct spec_class *c)
{
    const struct bom *bom = &c->profile->bom;
    int rails = (int)json_integer_value(json_object_get(l->s->fabric, "rails"));
    int gib = gpu_memory_gib(bom->gpu_model);
    if (rails > 0 && bom->hcas > 0 && bom->hcas % rails != 0)
        warn(l, c->at, "class '%s' has %d HCAs, which is no multiple of the fabric's %d rails",
             c->name, bom->hcas, rails);
    if (bom->gpus <= 0)
        return;
    if (bom->hcas > 0 && bom->gpus % bom->hcas != 0)
        warn(l, c->at, "class '%s' has %d GPUs and %d HCAs: the GPUs do not share them evenly",
             c->name, bom->gpus, bom->hcas);
    if (bom->hcas == 0 && l->s->fabric != NULL)
        warn(l, c->at, "class '%s' has %d GPUs but no HCA, although there is a fabric", c->name,
             bom->gpus);
    if (gib > 0 && bom->memory_mib > 0 && bom->memory_mib < (int64_t)bom->gpus * gib * 1024)
        warn(l, c->at,
             "class '%s' has less memory (%lld GiB) than its %d GPUs have together (%d GiB)",
             c->name, (long long)(bom->memory_mib / 1024), bom->gpus, bom->gpus * gib);
    if (bom->cpus > 0 && bom->cpus < 4 * bom->gpus)
        warn(l, c->at, "class '%s' has %d processors for %d GPUs: fewer than 4 each", c->name,
             bom->cpus, bom->gpus);
}

static void lint_stages(const struct lint *l, const struct spec_class *c)
{
    const struct profile *p = c->profile;
    if (profile_stage(p, "node-tested") == NULL && profile_stage(p, "fabric-tested") == NULL &&
        profile_stage(p, "workload") == NULL)
        warn(l, c->at,
             "profile '%s' of class '%s' has no stage that tests nodes: 'validated' would "
             "prove little",
             p->name, c->name);
    else if (p->bom.hcas > 0 && profile_stage(p, "fabric-tested") == NULL)
        warn(l, c->at, "profile '%s' of class '%s' has HCAs but no stage 'fabric-tested'", p->name,
             c->name);
    if (p->bom.gpus > 0 && profile_stage(p, "scheduler") == NULL)
        warn(l, c->at,
             "profile '%s' of class '%s' has GPUs but no stage 'scheduler': nothing will "
             "hand them out",
             p->name, c->name);
}

static bool measures(const struct profile *p, const char *scope)
{
    for (int i = 0; i < p->stage_count; i++) {
        const struct stage_def *s = &p->stages[i];
        if (s->skip_unless != NULL && strcmp(s->skip_unless, "hca") == 0 && p->bom.hcas <= 0)
            continue;
        for (int j = 0; j < s->step_count; j++)
            if (strcmp(s->steps[j].type, "group") == 0 &&
                (scope == NULL || strcmp(s->steps[j].what, scope) == 0))
                return true;
    }
    return false;
}

static void lint_groups(const struct lint *l, const struct spec_class *c)
{
    const struct profile *p = c->profile;
    int nodes = l->nodes_of_class[c - l->s->classes], rackless = 0;
    for (int i = 0; i < l->s->node_count; i++)
        rackless +=
            &l->s->classes[l->s->nodes[i].class_index] == c && l->s->nodes[i].rack_index < 0;
    if (nodes == 1 && measures(p, NULL))
        warn(l, c->at,
             "profile '%s' measures between nodes, and class '%s' has one: it has no partner",
             p->name, c->name);
    if (measures(p, "rail") && json_object_get(l->s->fabric, "rails") == NULL)
        warn(
            l, c->at,
            "profile '%s' measures rail by rail, and the spec has no 'fabric: {rails: N}': each of "
            "the %d HCAs that class '%s' expects is taken for a rail",
            p->name, p->bom.hcas > 0 ? p->bom.hcas : 1, c->name);
    if (measures(p, "rack") && rackless > 0)
        warn(l, c->at,
             "profile '%s' measures rack by rack, and %d of the nodes of class '%s' name none: "
             "they are "
             "taken for one rack",
             p->name, rackless, c->name);
}

static void lint_classes(const struct lint *l)
{
    for (int i = 0; i < l->s->class_count; i++) {
        const struct spec_class *c = &l->s->classes[i];
        if (l->nodes_of_class[i] == 0)
            warn(l, c->at, "class '%s' has no node", c->name);
        lint_hardware(l, c);
        lint_stages(l, c);
        lint_groups(l, c);
    }
}

/* ---- power ---- */

/* What hangs on a feed, directly or through the feeds below it. */
struct load {
    double kw;
    int known, unknown; /* nodes with and without a figure */
    int racks;
    int64_t idle_w;
    int64_t step_w; /* the most that one of them takes beyond idle while it is switched on */
};

static void add_load(struct load *to, const struct load *l)
{
    to->kw += l->kw;
    to->known += l->known;
    to->unknown += l->unknown;
    to->racks += l->racks;
    to->idle_w += l->idle_w;
    to->step_w = l->step_w > to->step_w ? l->step_w : to->step_w;
}

static struct load load_of(const struct spec_class *c)
{
    const struct spec_envelope *e = &c->power;
    int64_t top = e->inrush_w > e->boot_w ? e->inrush_w : e->boot_w;
    return (struct load){.kw = c->node_kw > 0 ? c->node_kw : (double)e->burnin_w / 1000,
                         .known = e->idle_w > 0,
                         .unknown = e->idle_w == 0,
                         .idle_w = e->idle_w,
                         .step_w = top > e->idle_w ? top - e->idle_w : 0};
}

static void lint_feed(const struct lint *l, const struct spec_feed *f, const struct load *sum)
{
    bool over = sum->kw * 1000 > (double)f->rated_w + 0.5;
    double usable = (double)f->usable_w / 1000, idle = (double)sum->idle_w / 1000;
    if (f->rated_w == 0)
        return;
    if (sum->racks == 0) {
        warn(l, l->s->power_at, "no rack has the feed '%s'", f->name);
        return;
    }
    if (over)
        warn(l, l->s->power_at, "feed '%s' is rated at %g kW, but its %d nodes%s draw %g kW",
             f->name, (double)f->rated_w / 1000, sum->known,
             sum->unknown > 0 ? " with a node_kw" : "", sum->kw);
    if (sum->unknown > 0 && sum->known > 0)
        warn(l, f->at,
             "feed '%s': %d of its nodes are of classes with neither 'power' nor node_kw: the "
             "budget counts nothing for them",
             f->name, sum->unknown);
    bool same = over && (double)sum->idle_w + 0.5 > sum->kw * 1000; /* node_kw alone: said above */
    if (sum->idle_w > f->usable_w && !same)
        warn(l, f->at,
             "feed '%s' carries %g kW%s, but its nodes draw %g kW when idle: they can never all "
             "be on",
             f->name, usable, f->usable_w < f->rated_w ? " less its reserve" : "", idle);
    else if (sum->idle_w <= f->usable_w && sum->idle_w + sum->step_w > f->usable_w)
        warn(l, f->at,
             "feed '%s' carries %g kW, and its nodes draw %g kW when idle: the last of them "
             "cannot be switched on, which takes another %g kW",
             f->name, usable, idle, (double)sum->step_w / 1000);
}

static void lint_power(const struct lint *l)
{
    const struct spec *s = l->s;
    struct load *loads = xcalloc((size_t)s->feed_count + 1, sizeof *loads);
    for (int i = 0; i < s->rack_count; i++)
        for (int f = s->racks[i].feed_index; f >= 0; f = s->feeds[f].parent)
            loads[f].racks++;
    for (int i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];
        struct load one = load_of(&s->classes[n->class_index]);
        int f = n->rack_index >= 0 ? s->racks[n->rack_index].feed_index : -1;
        for (; f >= 0; f = s->feeds[f].parent)
            add_load(&loads[f], &one);
    }
    for (int f = 0; f < s->feed_count; f++)
        lint_feed(l, &s->feeds[f], &loads[f]);
    free(loads);
}

/* ---- fabric ---- */

static void lint_fabric(const struct lint *l)
{
    const json_t *fabric = l->s->fabric, *up_json = json_object_get(fabric, "uplinks_per_leaf");
    const char *topology = json_string_value(json_object_get(fabric, "topology"));
    int ports = (int)json_integer_value(json_object_get(fabric, "leaf_ports"));
    int up = (int)json_integer_value(up_json), down = ports - up;
    bool one_switch = topology != NULL && strcmp(topology, "single-switch") == 0;
    if (ports <= 0 || up_json == NULL)
        return;
    if (one_switch && up > 0)
        warn(l, l->s->fabric_at, "a single switch has no uplinks, but there are %d", up);
    else if (up >= ports)
        warn(l, l->s->fabric_at, "a leaf has %d uplinks but only %d ports: none is left for nodes",
             up, ports);
    else if (!one_switch && up == 0)
        warn(l, l->s->fabric_at, "a leaf has no uplinks: nodes on different leaves cannot talk");
    else if (!one_switch && down > up)
        warn(l, l->s->fabric_at, "over-subscribed %.3g to 1: %d ports of a leaf go down, %d go up",
             (double)down / up, down, up);
}

/* ---- the rest ---- */

static void lint_rollout(const struct lint *l)
{
    int canary = (int)json_integer_value(json_object_get(l->s->rollout, "canary"));
    if (canary > 0 && canary >= l->s->node_count && l->s->node_count > 1)
        warn(l, (struct spec_place){0, 0},
             "rollout.canary is %d, and there are %d nodes: all would "
             "go first",
             canary, l->s->node_count);
}

void spec_lint(const struct spec *spec, struct diags *d)
{
    struct lint l = {.s = spec, .d = d};
    l.nodes_of_class = xcalloc((size_t)spec->class_count + 1, sizeof *l.nodes_of_class);
    for (int i = 0; i < spec->node_count; i++)
        l.nodes_of_class[spec->nodes[i].class_index]++;
    lint_networks(&l);
    lint_nodes(&l);
    lint_classes(&l);
    lint_power(&l);
    lint_fabric(&l);
    lint_rollout(&l);
    if (spec->ssh_key.kind == SECRET_NONE)
        warn(&l, (struct spec_place){0, 0},
             "no credentials.ssh: stages after the install cannot run");
    free(l.nodes_of_class);
}
