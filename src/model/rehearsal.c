/* The rewritten spec and the fleet that fits it. */
#include "model/rehearsal.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* What src/sim/sim.c makes at most of a kind. */
enum { GPUS_MAX = 16, NICS_MAX = 8, HCAS_MAX = 12, DISKS_MAX = 8, CPUS_MAX = 4096 };
/* Where the profile does not say. */
enum { CPUS = 64, MEMORY_MIB = 262144, DISK_GB = 960, DIMMS = 4, PORT_MBPS = 400000 };
enum { ASSUMED_SHARE = 4, ASSUMED_MAX_S = 600 }; /* of a script's deadline */

static void dotted(uint32_t address, char ret[INET_ADDRSTRLEN])
{
    struct in_addr in = {.s_addr = htonl(address)};
    (void)inet_ntop(AF_INET, &in, ret, INET_ADDRSTRLEN);
}

static void set_new(json_t *o, const char *key, json_t *value)
{
    (void)json_object_set_new(o, key, value);
}

static void set_text(json_t *o, const char *key, const char *text)
{
    if (text != NULL)
        set_new(o, key, json_string(text));
}

static void set_number(json_t *o, const char *key, int64_t value)
{
    if (value > 0)
        set_new(o, key, json_integer(value));
}

/* ---- the spec ---- */

static json_t *class_row(const struct spec_class *c)
{
    json_t *row = json_pack("{s:s}", "profile", c->profile->name);
    if (json_object_size(c->vars) > 0)
        set_new(row, "vars", json_deep_copy(c->vars));
    if (c->node_kw > 0)
        set_new(row, "node_kw", json_real(c->node_kw));
    if (c->has_power) {
        json_t *power = json_object();
        set_number(power, "inrush_w", c->power.inrush_w);
        set_number(power, "boot_w", c->power.boot_w);
        set_number(power, "idle_w", c->power.idle_w);
        set_number(power, "burnin_w", c->power.burnin_w);
        set_new(row, "power", power);
    }
    return row;
}

/* Those of the node that are not its class's. */
static json_t *own_vars(const struct spec *s, const struct spec_node *n)
{
    const json_t *class_vars = s->classes[n->class_index].vars;
    json_t *own = json_object(), *value;
    const char *key;
    json_object_foreach(n->vars, key, value)
    {
        if (!json_equal(value, json_object_get(class_vars, key)))
            (void)json_object_set(own, key, value);
    }
    return own;
}

static json_t *node_row(const struct spec *s, int i, int bmc_port)
{
    const struct spec_node *n = &s->nodes[i];
    char bmc[INET_ADDRSTRLEN], address[INET_ADDRSTRLEN];
    dotted(REHEARSAL_BMCS + (uint32_t)i, bmc);
    dotted(REHEARSAL_ADDRESSES + (uint32_t)i, address);
    json_t *row = json_pack("{s:s,s:s,s:s}", "name", n->name, "class",
                            s->classes[n->class_index].name, "address", address);
    if (n->rack_index >= 0)
        set_text(row, "rack", s->racks[n->rack_index].name);
    set_text(row, "unit", n->unit);
    if (n->bmc != NULL) {
        set_text(row, "bmc", bmc);
        set_number(row, "bmc_port", bmc_port);
    }
    if (n->mac_from_bmc) {
        set_text(row, "mac", "from bmc");
    } else if (n->macs != NULL && n->macs[0] != NULL) {
        json_t *macs = json_array();
        for (int k = 0; n->macs[k] != NULL; k++)
            (void)json_array_append_new(macs, json_string(n->macs[k]));
        set_new(row, "mac", macs);
    }
    set_text(row, "serial", n->serial);
    set_text(row, "uuid", n->uuid);
    json_t *vars = own_vars(s, n);
    if (json_object_size(vars) > 0)
        set_new(row, "vars", json_incref(vars));
    json_decref(vars);
    return row;
}

static json_t *limits_of(const struct spec_limits *l)
{
    json_t *o = json_object();
    set_number(o, "installs", l->installs);
    set_number(o, "ssh", l->ssh);
    set_number(o, "power_on_per_rack", l->power_on_per_rack);
    set_number(o, "bmc", l->bmc);
    set_number(o, "per_rack_installs", l->per_rack_installs);
    char gap[32];
    (void)snprintf(gap, sizeof gap, "%dms", (int)l->bmc_gap_ms);
    set_new(o, "bmc_gap", json_string(gap));
    return o;
}

json_t *rehearsal_spec(const struct spec *s, const struct rehearsal *r)
{
    json_t *classes = json_object(), *racks = json_object(), *nodes = json_array();
    for (int i = 0; i < s->class_count; i++)
        set_new(classes, s->classes[i].name, class_row(&s->classes[i]));
    for (int i = 0; i < s->rack_count; i++) {
        json_t *rack = json_object();
        set_text(rack, "feed", s->racks[i].feed);
        set_new(racks, s->racks[i].name, rack);
    }
    for (int i = 0; i < s->node_count; i++)
        (void)json_array_append_new(nodes, node_row(s, i, r->bmc_port));
    json_t *whole = json_pack(
        "{s:s,s:{s:{s:s,s:s,s:s},s:{s:s}},s:{s:{s:s,s:{s:s}},s:{s:s,s:{s:s},s:i}},s:o}", "cluster",
        s->cluster, "networks", "provision", "cidr", "127.128.0.0/9", "head", REHEARSAL_HEAD,
        "mode", "none", "bmc", "cidr", "127.64.0.0/10", "credentials", "bmc", "user",
        REHEARSAL_USER, "password", "file", REHEARSAL_PASSWORD_FILE, "ssh", "user", "root", "key",
        "file", REHEARSAL_KEY_FILE, "port", r->ssh_port, "limits", limits_of(&s->limits));
    const struct {
        const char *key;
        json_t *value;
    } as_written[] = {{"fabric", s->fabric},
                      {"power", s->power},
                      {"rollout", s->rollout},
                      {"targets", s->targets}};
    for (size_t i = 0; i < ARRAY_LEN(as_written); i++)
        if (as_written[i].value != NULL)
            set_new(whole, as_written[i].key, json_deep_copy(as_written[i].value));
    set_new(whole, "classes", classes);
    set_new(whole, "racks", racks);
    set_new(whole, "nodes", nodes);
    return whole;
}

/* ---- the fleet ---- */

static int at_most(json_t *notes, const struct spec_class *c, const char *what, int wanted, int max)
{
    if (wanted > max) {
        char *text = xasprintf("class %s expects %d %s; a simulated machine has at most %d, so its "
                               "nodes stop at inventoried",
                               c->name, wanted, what, max);
        (void)json_array_append_new(notes, json_string(text));
        free(text);
    }
    return wanted > max ? max : wanted > 0 ? wanted : 0;
}

/* Of an RDMA port, in Mb/s: what the spec says of the fabric. */
static int64_t port_mbps(const struct spec *s)
{
    const char *rate = json_string_value(json_object_get(s->fabric, "rate"));
    double gbs = rate != NULL ? strtod(rate, NULL) : 0;
    return gbs > 0 ? (int64_t)(gbs * 1000) : PORT_MBPS;
}

/* What all machines of a class have in common. */
static json_t *shape_of(const struct spec *s, const struct spec_class *c, const struct rehearsal *r,
                        json_t *notes)
{
    const struct bom *b = &c->profile->bom;
    const char *image = json_string_value(json_object_get(c->profile->install, "image"));
    const json_t *known = image != NULL ? json_object_get(r->images, image) : NULL;
    int cpus = at_most(notes, c, "processors", b->cpus > 0 ? b->cpus : CPUS, CPUS_MAX);
    int64_t mib = b->memory_mib > 0 ? b->memory_mib : MEMORY_MIB;
    json_t *o = json_object();
    set_text(o, "answers", c->name);
    set_number(o, "cpus", cpus);
    set_number(o, "cpu_packages", cpus % 2 == 0 ? 2 : 1);
    set_number(o, "memory_mib", (mib + DIMMS - 1) / DIMMS * DIMMS);
    set_number(o, "dimms", DIMMS);
    set_number(o, "gpus", at_most(notes, c, "GPUs", b->gpus, GPUS_MAX));
    set_text(o, "gpu_model", b->gpu_model);
    set_number(o, "nics", at_most(notes, c, "network interfaces", b->nics, NICS_MAX));
    set_number(o, "hcas", at_most(notes, c, "RDMA devices", b->hcas, HCAS_MAX));
    set_number(o, "hca_mbps", port_mbps(s));
    set_number(o, "disks", at_most(notes, c, "disks", b->disks > 0 ? b->disks : 1, DISKS_MAX));
    set_number(o, "disk_gb", b->disk_gb > DISK_GB ? b->disk_gb : DISK_GB);
    set_number(o, "kernel_bytes", r->kernel_bytes);
    set_number(o, "initrd_bytes", r->initrd_bytes);
    set_number(o, "image_bytes", known != NULL ? json_integer_value(known) : r->image_bytes);
    /* 0 where the spec says nothing: no figure is better than one of another machine */
    set_new(o, "watts",
            json_pack("{s:I,s:I,s:I,s:I}", "inrush", (json_int_t)c->power.inrush_w, "boot",
                      (json_int_t)c->power.boot_w, "idle", (json_int_t)c->power.idle_w, "burnin",
                      (json_int_t)c->power.burnin_w));
    return o;
}

static json_t *feeds_of(const struct spec *s, const struct spec_node *n)
{
    json_t *feeds = json_array();
    int f = n->rack_index >= 0 ? s->racks[n->rack_index].feed_index : -1;
    for (int depth = 0; f >= 0 && depth <= FEED_DEPTH_MAX; depth++) {
        (void)json_array_append_new(feeds, json_string(s->feeds[f].name));
        f = s->feeds[f].parent;
    }
    return feeds;
}

static json_t *machine_row(const struct spec *s, int i, const json_t *shape,
                           const struct rehearsal *r)
{
    const struct spec_node *n = &s->nodes[i];
    char bmc[INET_ADDRSTRLEN], address[INET_ADDRSTRLEN], made_up[64];
    dotted(REHEARSAL_BMCS + (uint32_t)i, bmc);
    dotted(REHEARSAL_ADDRESSES + (uint32_t)i, address);
    json_t *row = json_deep_copy(shape), *macs = json_array();
    (void)json_object_update_new(row, json_pack("{s:s,s:s,s:s,s:s,s:s}", "name", n->name, "bmc",
                                                bmc, "address", address, "user", REHEARSAL_USER,
                                                "password", r->password));
    /* what the spec does not say, the machine has all the same */
    (void)snprintf(made_up, sizeof made_up, "REHEARSAL-%05d", i + 1);
    set_text(row, "serial", n->serial != NULL ? n->serial : made_up);
    (void)snprintf(made_up, sizeof made_up, "7e4ea75a-0000-4000-8000-%012x", (unsigned)i + 1);
    set_text(row, "uuid", n->uuid != NULL ? n->uuid : made_up);
    for (int k = 0; n->macs != NULL && n->macs[k] != NULL; k++)
        (void)json_array_append_new(macs, json_string(n->macs[k]));
    if (json_array_size(macs) == 0) {
        (void)snprintf(made_up, sizeof made_up, "02:7e:%02x:%02x:%02x:%02x",
                       (unsigned)i >> 24 & 255, (unsigned)i >> 16 & 255, (unsigned)i >> 8 & 255,
                       (unsigned)i & 255);
        (void)json_array_append_new(macs, json_string(made_up));
    }
    (void)json_object_set(row, "mac", json_array_get(macs, 0));
    int64_t nics = json_integer_value(json_object_get(row, "nics"));
    if (nics < (int64_t)json_array_size(macs))
        set_number(row, "nics", (int64_t)json_array_size(macs));
    set_new(row, "macs", macs);
    set_new(row, "feeds", feeds_of(s, n));
    return row;
}

/* Steps of a stage that run a script. */
static int scripts_of(const struct stage_def *d)
{
    int count = 0;
    for (int i = 0; i < d->step_count; i++)
        count += strcmp(d->steps[i].type, "run") == 0 || strcmp(d->steps[i].type, "group") == 0;
    return count;
}

/* How long a stage's scripts take: as in the history, and what is taken where the simulator has no
 * time of its own either: a share of the deadline. */
static void add_times(const struct profile *p, const struct rehearsal *r, json_t *known,
                      json_t *assumed)
{
    for (int i = 0; i < p->stage_count; i++) {
        const struct stage_def *d = &p->stages[i];
        int scripts = scripts_of(d);
        if (scripts == 0)
            continue;
        double took = json_number_value(json_object_get(r->history, d->name));
        if (took > 0)
            set_new(known, d->name, json_real(took / scripts));
        double share = (double)d->deadline_ms / 1000 / ASSUMED_SHARE;
        set_new(assumed, d->name,
                json_real((share > ASSUMED_MAX_S ? ASSUMED_MAX_S : share) / scripts));
    }
}

json_t *rehearsal_fleet(const struct spec *s, const struct rehearsal *r, json_t *notes)
{
    json_t *nodes = json_array(), *known = json_object(), *assumed = json_object();
    json_t **shapes = xcalloc((size_t)s->class_count + 1, sizeof(json_t *));
    for (int i = 0; i < s->class_count; i++) {
        shapes[i] = shape_of(s, &s->classes[i], r, notes);
        add_times(s->classes[i].profile, r, known, assumed);
    }
    bool other_driver = false;
    for (int i = 0; i < s->node_count; i++) {
        (void)json_array_append_new(nodes, machine_row(s, i, shapes[s->nodes[i].class_index], r));
        other_driver = other_driver || (s->nodes[i].bmc_driver != NULL &&
                                        strcmp(s->nodes[i].bmc_driver, "ipmi") != 0);
    }
    if (other_driver)
        (void)json_array_append_new(
            notes, json_string("every BMC was reached with the driver ipmi, whatever bmc_driver "
                               "says"));
    for (int i = 0; i < s->class_count; i++)
        json_decref(shapes[i]);
    free(shapes);
    return json_pack("{s:f,s:o,s:o,s:o}", "uplink_mb_s", r->uplink_mb_s, "stage_seconds", known,
                     "assumed_seconds", assumed, "nodes", nodes);
}

/* ---- addresses in texts ---- */

/* A loopback address of a machine at `at`: its length, and whose; 0: none. */
static size_t find_machine(const struct spec *s, const char *at, int *ret_node, bool *ret_bmc)
{
    char text[INET_ADDRSTRLEN];
    struct in_addr in;
    size_t len = strspn(at, "0123456789.");
    while (len > 0 && at[len - 1] == '.')
        len--; /* the end of a sentence */
    if (len == 0 || len >= sizeof text)
        return 0;
    memcpy(text, at, len);
    text[len] = '\0';
    if (inet_pton(AF_INET, text, &in) != 1)
        return 0;
    uint32_t address = ntohl(in.s_addr), count = (uint32_t)s->node_count;
    *ret_bmc = address >= REHEARSAL_BMCS && address < REHEARSAL_BMCS + count;
    if (!*ret_bmc && !(address >= REHEARSAL_ADDRESSES && address < REHEARSAL_ADDRESSES + count))
        return 0;
    *ret_node = (int)(address - (*ret_bmc ? REHEARSAL_BMCS : (uint32_t)REHEARSAL_ADDRESSES));
    return len;
}

char *rehearsal_real_names(const struct spec *s, const char *text)
{
    struct strbuf sb;
    strbuf_init(&sb, 1 << 20);
    const char *p = text;
    while (*p != '\0') {
        int i;
        bool bmc, begins = p == text || strchr("0123456789.", p[-1]) == NULL;
        size_t len = begins ? find_machine(s, p, &i, &bmc) : 0;
        if (len == 0) {
            strbuf_addc(&sb, *p++);
            continue;
        }
        p += len;
        const struct spec_node *n = &s->nodes[i];
        strbuf_adds(&sb, bmc && n->bmc != NULL ? n->bmc : n->address);
        if (*p != ':' || p[1] < '0' || p[1] > '9')
            continue;
        p += 1 + strspn(p + 1, "0123456789"); /* the simulator's port says nothing */
        strbuf_addf(&sb, ":%d", bmc ? n->bmc_port : s->ssh_port);
    }
    char *out = strbuf_take(&sb);
    strbuf_done(&sb);
    return out;
}
