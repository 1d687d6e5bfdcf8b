/* Credentials, classes and racks of a spec. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/profile_parse.h"
#include "model/spec_read.h"

/* ---- secrets and credentials ---- */

bool read_secret(const struct ynode *n, const char *what, struct secret_ref *ret, struct diags *d)
{
    static const char *const kinds[] = {"file", "env"};
    if (n->kind != YNODE_MAP && !ynode_is_null(n)) {
        ynode_error(n, d,
                    "%s is never written into a spec: put it into a file and write {file: NAME}, "
                    "or name a variable of the daemon's environment with {env: NAME}",
                    what);
        return false;
    }
    if (n->kind == YNODE_MAP && n->count == 1 && strcmp(n->pairs[0].key->text, "sealed") == 0) {
        ynode_error(n->pairs[0].key, d, "'sealed' secrets are not supported yet: use {file: NAME}");
        return false;
    }
    if (n->kind != YNODE_MAP || n->count != 1 || n->pairs[0].value->kind != YNODE_SCALAR ||
        ynode_is_null(n->pairs[0].value) || n->pairs[0].value->text[0] == '\0') {
        ynode_error(n, d, "%s is written as {file: NAME} or {env: NAME}", what);
        return false;
    }
    const char *kind = n->pairs[0].key->text;
    if (strcmp(kind, "file") != 0 && strcmp(kind, "env") != 0) {
        schema_unknown(n->pairs[0].key, d, "kind of secret", kind, kinds, 2);
        return false;
    }
    free(ret->name);
    ret->kind = kind[0] == 'f' ? SECRET_FILE : SECRET_ENV;
    ret->name = xstrdup(n->pairs[0].value->text);
    return true;
}

struct raw_credential {
    const struct ynode *user, *password, *key, *port;
};

static void read_bmc_credential(struct reader *r, const struct ynode *map)
{
    static const struct field rows[] = {{.key = "user",
                                         .type = FIELD_SCALAR,
                                         .required = true,
                                         .offset = offsetof(struct raw_credential, user),
                                         .help = "the BMCs' user"},
                                        {.key = "password",
                                         .type = FIELD_ANY,
                                         .required = true,
                                         .offset = offsetof(struct raw_credential, password),
                                         .help = "{file: NAME}"},
                                        {0}};
    struct raw_credential raw = {0};
    if (!schema_read(rows, map, "'credentials.bmc'", &raw, r->d))
        r->no_credentials_said = true;
    if (raw.user != NULL) {
        r->bmc_user = xstrdup(raw.user->text);
        if (strlen(raw.user->text) > IPMI_USER_MAX)
            ynode_error(raw.user, r->d, "IPMI user names have at most %d characters",
                        IPMI_USER_MAX);
    }
    if (raw.password != NULL &&
        !read_secret(raw.password, "a BMC's password", &r->bmc_password, r->d))
        r->no_credentials_said = true;
}

static void read_ssh_credential(struct reader *r, const struct ynode *map)
{
    static const struct field rows[] = {{.key = "user",
                                         .type = FIELD_SCALAR,
                                         .offset = offsetof(struct raw_credential, user),
                                         .help = "who logs in on nodes"},
                                        {.key = "key",
                                         .type = FIELD_ANY,
                                         .required = true,
                                         .offset = offsetof(struct raw_credential, key),
                                         .help = "{file: NAME}"},
                                        {.key = "port",
                                         .type = FIELD_SCALAR,
                                         .offset = offsetof(struct raw_credential, port),
                                         .help = "22"},
                                        {0}};
    struct raw_credential raw = {0};
    (void)schema_read(rows, map, "'credentials.ssh'", &raw, r->d);
    if (raw.port != NULL && !port_read(raw.port->text, &r->spec->ssh_port))
        ynode_error(raw.port, r->d, "'%s' is no TCP port: 1 to 65535", raw.port->text);
    if (raw.user != NULL) {
        free(r->spec->ssh_user);
        r->spec->ssh_user = xstrdup(raw.user->text);
    }
    if (raw.key != NULL && read_secret(raw.key, "an SSH key", &r->spec->ssh_key, r->d) &&
        r->spec->ssh_key.kind == SECRET_ENV)
        ynode_error(raw.key, r->d, "an SSH key must be a file: {file: NAME}");
}

void read_credentials(struct reader *r, const struct ynode *map)
{
    struct raw {
        const struct ynode *bmc, *ssh;
    } raw = {0};
    static const struct field rows[] = {{.key = "bmc",
                                         .type = FIELD_MAP,
                                         .offset = offsetof(struct raw, bmc),
                                         .help = "{user, password}"},
                                        {.key = "ssh",
                                         .type = FIELD_MAP,
                                         .offset = offsetof(struct raw, ssh),
                                         .help = "{user, key}"},
                                        {0}};
    if (map == NULL)
        return;
    if (!schema_read(rows, map, "'credentials'", &raw, r->d) && raw.bmc == NULL)
        r->no_credentials_said = true;
    if (raw.bmc != NULL)
        read_bmc_credential(r, raw.bmc);
    if (raw.ssh != NULL)
        read_ssh_credential(r, raw.ssh);
}

/* ---- classes ---- */

void merge_vars_checked(const struct ynode *map, json_t *vars, struct diags *d)
{
    for (int i = 0; map != NULL && i < map->count; i++) {
        const struct ynode *key = map->pairs[i].key;
        if (json_object_get(vars, key->text) != NULL) {
            (void)json_object_set_new(vars, key->text, ynode_json(map->pairs[i].value, true));
            continue;
        }
        const char **known = xcalloc(json_object_size(vars) + 1, sizeof *known);
        const char *name;
        json_t *value;
        int count = 0;
        json_object_foreach(vars, name, value)
        {
            known[count++] = name;
        }
        schema_unknown(key, d, "variable", key->text, known, count);
        free(known);
    }
}

static const struct profile *class_profile(struct reader *r, const struct ynode *at)
{
    const struct profile *p = profiles_find(r->profiles, at->text);
    if (p == NULL) {
        int n = profiles_count(r->profiles), count = 0;
        const char **known = xcalloc((size_t)n + 1, sizeof *known);
        for (int i = 0; i < n; i++)
            if (profiles_at(r->profiles, i) != NULL)
                known[count++] = profiles_at(r->profiles, i)->name;
        schema_unknown(at, r->d, "profile", at->text, known, count);
        free(known);
        return NULL;
    }
    const char *lacks = profile_lacks(p);
    if (lacks != NULL) {
        ynode_error(at, r->d, "profile '%s' is not complete: %s; extend it", p->name, lacks);
        return NULL;
    }
    return p;
}

static bool plain_name(struct reader *r, const struct ynode *key, const char *kind)
{
    size_t len = strlen(key->text);
    if (len > 0 && len <= SPEC_NAME_MAX &&
        strspn(key->text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
            len)
        return true;
    ynode_error(key, r->d,
                "'%.80s' is no name of a %s: letters, digits, '-', '_' and '.', at most %d",
                key->text, kind, SPEC_NAME_MAX);
    return false;
}

static void read_class(struct reader *r, const struct ynode *key, const struct ynode *map)
{
    struct raw {
        const struct ynode *profile, *vars, *power, *sweep;
        const char *replacement;
        double node_kw;
    } raw = {0};
    static const struct field rows[] = {{.key = "profile",
                                         .type = FIELD_SCALAR,
                                         .required = true,
                                         .offset = offsetof(struct raw, profile),
                                         .help = "the profile's name"},
                                        {.key = "vars",
                                         .type = FIELD_MAP,
                                         .offset = offsetof(struct raw, vars),
                                         .help = "variables"},
                                        {.key = "node_kw",
                                         .type = FIELD_NUMBER,
                                         .offset = offsetof(struct raw, node_kw),
                                         .min = 0.001,
                                         .max = 1000,
                                         .help = "what one node draws at most"},
                                        {.key = "replacement",
                                         .type = FIELD_TEXT,
                                         .offset = offsetof(struct raw, replacement),
                                         .check = replacement_ok,
                                         .help = "of the machine by another: ask or auto"},
                                        {.key = "power",
                                         .type = FIELD_MAP,
                                         .offset = offsetof(struct raw, power),
                                         .help = "{inrush_w, boot_w, idle_w, burnin_w}"},
                                        {.key = "sweep",
                                         .type = FIELD_ANY,
                                         .offset = offsetof(struct raw, sweep),
                                         .help = "looks for drift"},
                                        {0}};
    struct spec *s = r->spec;
    (void)plain_name(r, key, "class");
    ARRAY_GROW(s->classes, s->class_count, r->class_capacity);
    struct spec_class *c = &s->classes[s->class_count++];
    *c = (struct spec_class){.name = xstrdup(key->text), .at = place_of(key)};
    (void)map_set(r->class_ids, c->name, (void *)(intptr_t)s->class_count);
    (void)schema_read(rows, map, "a class", &raw, r->d);
    c->node_kw = raw.node_kw;
    read_envelope(r, raw.power, c);
    sweep_copy(&c->sweep, &s->sweep);
    read_sweep(r, raw.sweep, true, &c->sweep);
    c->profile = raw.profile != NULL ? class_profile(r, raw.profile) : NULL;
    if (c->profile == NULL)
        return;
    c->auto_replace =
        raw.replacement != NULL ? strcmp(raw.replacement, "auto") == 0 : c->profile->auto_replace;
    c->vars = json_deep_copy(c->profile->vars);
    merge_vars_checked(raw.vars, c->vars, r->d);
}

void read_classes(struct reader *r, const struct ynode *map)
{
    for (int i = 0; map != NULL && i < map->count; i++)
        read_class(r, map->pairs[i].key, map->pairs[i].value);
}

/* ---- racks ---- */

static void read_rack(struct reader *r, const struct ynode *key, const struct ynode *map)
{
    struct raw {
        const struct ynode *feed;
    } raw = {0};
    static const struct field rows[] = {{.key = "feed",
                                         .type = FIELD_SCALAR,
                                         .offset = offsetof(struct raw, feed),
                                         .help = "a feed of power.feeds"},
                                        {0}};
    struct spec *s = r->spec;
    (void)plain_name(r, key, "rack");
    ARRAY_GROW(s->racks, s->rack_count, r->rack_capacity);
    struct spec_rack *rack = &s->racks[s->rack_count++];
    *rack = (struct spec_rack){.name = xstrdup(key->text), .at = place_of(key), .feed_index = -1};
    (void)map_set(r->rack_ids, rack->name, (void *)(intptr_t)s->rack_count);
    if (ynode_is_null(map))
        return; /* `r1:` alone */
    (void)schema_read(rows, map, "a rack", &raw, r->d);
    if (raw.feed == NULL)
        return;
    rack->feed = xstrdup(raw.feed->text);
    rack->feed_index = read_feed_name(r, raw.feed);
}

void read_racks(struct reader *r, const struct ynode *map)
{
    for (int i = 0; map != NULL && i < map->count; i++)
        read_rack(r, map->pairs[i].key, map->pairs[i].value);
}
