/* A spec as a whole: its top level, its life, and finding nodes by name. */
#include "model/spec.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/spec_read.h"

struct raw_spec {
    const struct ynode *cluster, *networks, *fabric, *power, *credentials, *classes, *racks, *nodes,
        *limits, *rollout, *sweep, *targets;
};

static bool name_ok(const struct ynode *value, struct strbuf *why)
{
    size_t len = strlen(value->text);
    if (len <= SPEC_NAME_MAX && strspn(value->text, "abcdefghijklmnopqrstuvwxyz"
                                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                    "0123456789-_.") == len)
        return true;
    strbuf_adds(why, "must be a name of letters, digits, '-', '_' and '.', at most 63");
    return false;
}

#define TOP(name_, type_, required_, help_)                                                        \
    {                                                                                              \
        .key = #name_, .type = type_, .required = required_,                                       \
        .offset = offsetof(struct raw_spec, name_), .help = help_                                  \
    }

static const struct field top_rows[] = {{.key = "cluster",
                                         .type = FIELD_SCALAR,
                                         .required = true,
                                         .offset = offsetof(struct raw_spec, cluster),
                                         .check = name_ok,
                                         .help = "the cluster's name"},
                                        TOP(networks, FIELD_MAP, false, "provision and bmc"),
                                        TOP(fabric, FIELD_MAP, false, "the RDMA fabric"),
                                        TOP(power, FIELD_MAP, false, "power feeds"),
                                        TOP(credentials, FIELD_MAP, false, "bmc and ssh"),
                                        TOP(classes, FIELD_MAP, true, "kinds of nodes"),
                                        TOP(racks, FIELD_MAP, false, "racks"),
                                        TOP(nodes, FIELD_LIST, true, "the nodes"),
                                        TOP(limits, FIELD_MAP, false, "how much at once"),
                                        TOP(rollout, FIELD_MAP, false, "how changes spread"),
                                        TOP(sweep, FIELD_ANY, false, "looks for drift"),
                                        TOP(targets, FIELD_MAP, false, "what must be reached"),
                                        {0}};

void cell_error(const struct cell *c, struct diags *d, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        abort();
    va_end(ap);
    diags_add(d, DIAG_ERROR, c->file, c->line, c->column, "%s", text);
    free(text);
}

struct known {
    const char **names;
    int count;
};

static void collect(const char *key, void *value, void *user)
{
    struct known *k = user;
    (void)value;
    k->names[k->count++] = key;
}

void cell_unknown(const struct cell *c, struct diags *d, const char *kind, const struct map *known)
{
    struct known k = {.names = xcalloc(map_count(known) + 1, sizeof(const char *))};
    const struct ynode at = {.file = c->file, .line = c->line, .column = c->column};
    map_each(known, collect, &k);
    schema_unknown(&at, d, kind, c->text, k.names, k.count);
    free(k.names);
}

struct spec_place place_of(const struct ynode *n)
{
    return n != NULL ? (struct spec_place){n->line, n->column} : (struct spec_place){0, 0};
}

/* ---- reading ---- */

static void reader_init(struct reader *r)
{
    r->spec->ssh_user = xstrdup("root");
    r->spec->ssh_port = 22;
    sweep_defaults(&r->spec->sweep);
    r->spec->file = xstrdup(r->bundle->files[0].path);
    r->values_left = SPEC_VALUES_MAX;
    r->class_ids = map_new();
    r->rack_ids = map_new();
    r->bmc_hosts = map_new();
    for (int i = 0; i < NODE_FIELDS; i++)
        r->taken[i] = map_new();
}

static void reader_done(struct reader *r)
{
    for (int i = 0; i < NODE_FIELDS; i++)
        map_free(r->taken[i]);
    map_free(r->bmc_hosts);
    map_free(r->class_ids);
    map_free(r->rack_ids);
    free(r->bmc_user);
    free(r->bmc_password.name);
}

static void read_spec(struct reader *r, const struct ynode *root)
{
    struct raw_spec raw = {0};
    struct spec *s = r->spec;
    /* The sections are read although the top has an error: everything is said in one run. */
    bool ok = schema_read(top_rows, root, "a spec", &raw, r->d);
    if (root->kind != YNODE_MAP)
        return;
    s->cluster = raw.cluster != NULL ? xstrdup(raw.cluster->text) : NULL;
    r->classes_unknown = !ok && raw.classes == NULL;
    r->racks_unknown = !ok && raw.racks == NULL;
    r->feeds_unknown = !ok && raw.power == NULL;
    r->no_credentials_said = !ok && raw.credentials == NULL;
    s->fabric_at = place_of(raw.fabric);
    s->power_at = place_of(raw.power);
    read_networks(r, raw.networks);
    read_credentials(r, raw.credentials);
    s->power = read_power(r, raw.power);
    s->fabric = read_fabric(r, raw.fabric);
    s->rollout = read_rollout(r, raw.rollout);
    s->targets = read_targets(r, raw.targets);
    read_limits(r, raw.limits);
    read_sweep(r, raw.sweep, false, &s->sweep);
    read_classes(r, raw.classes);
    read_racks(r, raw.racks);
    read_nodes(r, raw.nodes);
    check_power(r);
    assign_addresses(r);
}

struct spec *spec_parse(const struct bundle *b, const struct profiles *profiles, struct diags *d)
{
    int errors = d->errors;
    if (b->count == 0) {
        diags_add(d, DIAG_ERROR, "spec", 0, 0, "no spec was given");
        return NULL;
    }
    struct ydoc *doc = ydoc_parse(b->files[0].path, b->files[0].text, b->files[0].len, d);
    if (doc == NULL)
        return NULL;
    struct reader r = {
        .spec = xcalloc(1, sizeof(struct spec)), .bundle = b, .profiles = profiles, .d = d};
    reader_init(&r);
    read_spec(&r, ydoc_root(doc));
    reader_done(&r);
    ydoc_free(doc);
    if (d->errors == errors)
        return r.spec;
    spec_free(r.spec);
    return NULL;
}

/* ---- life ---- */

static void node_done(struct spec_node *n)
{
    for (int i = 0; n->macs != NULL && n->macs[i] != NULL; i++)
        free(n->macs[i]);
    free(n->macs);
    char *texts[] = {
        n->name,    n->unit,   n->bmc,  n->bmc_driver, n->bmc_user, n->bmc_password.name,
        n->address, n->serial, n->uuid, n->file};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        free(texts[i]);
    json_decref(n->vars);
}

void spec_free(struct spec *spec)
{
    if (spec == NULL)
        return;
    for (int i = 0; i < spec->node_count; i++)
        node_done(&spec->nodes[i]);
    for (int i = 0; i < spec->class_count; i++) {
        free(spec->classes[i].name);
        json_decref(spec->classes[i].vars);
        sweep_done(&spec->classes[i].sweep);
    }
    for (int i = 0; i < spec->rack_count; i++) {
        free(spec->racks[i].name);
        free(spec->racks[i].feed);
    }
    for (int i = 0; i < spec->feed_count; i++)
        free(spec->feeds[i].name);
    free(spec->feeds);
    sweep_done(&spec->sweep);
    free(spec->nodes);
    free(spec->classes);
    free(spec->racks);
    free(spec->file);
    free(spec->cluster);
    free(spec->provision.cidr);
    free(spec->bmc.cidr);
    free(spec->ssh_user);
    free(spec->ssh_key.name);
    json_decref(spec->fabric);
    json_decref(spec->power);
    json_decref(spec->targets);
    json_decref(spec->rollout);
    map_free(spec->by_name);
    free(spec);
}

int spec_find_node(const struct spec *spec, const char *name)
{
    struct spec *s = (struct spec *)spec;
    if (s->by_name == NULL) {
        s->by_name = map_new();
        for (int i = 0; i < s->node_count; i++)
            (void)map_set(s->by_name, s->nodes[i].name, &s->nodes[i]);
    }
    const struct spec_node *n = map_get(s->by_name, name);
    return n != NULL ? (int)(n - s->nodes) : -1;
}

/* ---- further files ---- */

char **spec_wants(const struct bundle *b)
{
    char **paths = xcalloc(1, sizeof *paths);
    int count = 0, capacity = 1;
    struct diags d;
    if (b->count == 0)
        return paths;
    diags_init(&d);
    struct map *seen = map_new();
    struct ydoc *doc = ydoc_parse(b->files[0].path, b->files[0].text, b->files[0].len, &d);
    const struct ynode *nodes = doc != NULL ? ynode_get(ydoc_root(doc), "nodes") : NULL;
    for (int i = 0; nodes != NULL && nodes->kind == YNODE_LIST && i < nodes->count; i++) {
        const struct ynode *from = ynode_get(nodes->items[i], "from");
        if (from == NULL || from->kind != YNODE_SCALAR || ynode_is_null(from) ||
            map_get(seen, from->text) != NULL || bundle_find(b, from->text) != NULL)
            continue;
        (void)map_set(seen, from->text, (void *)from);
        ARRAY_GROW(paths, count, capacity);
        paths[count++] = xstrdup(from->text);
    }
    ARRAY_GROW(paths, count, capacity);
    paths[count] = NULL;
    map_free(seen);
    ydoc_free(doc);
    diags_done(&d);
    return paths;
}

void spec_wants_free(char **paths)
{
    for (int i = 0; paths != NULL && paths[i] != NULL; i++)
        free(paths[i]);
    free(paths);
}
