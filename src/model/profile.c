/* The set of profiles: files to documents, `extends` resolved, stages put in order. */
#include "model/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/profile_parse.h"

static struct raw_profile *find_raw(struct profiles *set, const char *name)
{
    for (int i = 0; i < set->count; i++)
        if (strcmp(set->items[i].name, name) == 0)
            return &set->items[i];
    return NULL;
}

/* ---- stages of a profile: rows of the same name, the nearest profile's first ---- */

static void chain_free(struct stage_chain *c)
{
    free(c->rows);
    *c = (struct stage_chain){0};
}

static int chain_find(const struct raw_profile *p, const char *name)
{
    for (int i = 0; i < p->chain_count; i++)
        if (strcmp(p->chains[i].name, name) == 0)
            return i;
    return -1;
}

static void chain_put_front(struct stage_chain *c, const struct ynode *row)
{
    c->rows = xrealloc(c->rows, (size_t)c->count + 1, sizeof(const struct ynode *));
    memmove(c->rows + 1, c->rows, (size_t)c->count * sizeof(const struct ynode *));
    c->rows[0] = row;
    c->count++;
}

static void note_dropped(struct raw_profile *p, const char *name)
{
    ARRAY_GROW(p->dropped, p->dropped_count, p->dropped_capacity);
    p->dropped[p->dropped_count++] = name;
}

static void inherit_chains(struct raw_profile *p, const struct raw_profile *parent)
{
    for (int i = 0; i < parent->dropped_count; i++)
        note_dropped(p, parent->dropped[i]);
    p->chains = xcalloc((size_t)parent->chain_count + 1, sizeof *p->chains);
    p->chain_count = p->chain_capacity = parent->chain_count;
    for (int i = 0; i < parent->chain_count; i++) {
        p->chains[i].name = parent->chains[i].name;
        p->chains[i].count = parent->chains[i].count;
        p->chains[i].rows = xmemdup(parent->chains[i].rows,
                                    (size_t)parent->chains[i].count * sizeof(const struct ynode *));
    }
    if (p->chain_capacity == 0)
        p->chain_capacity = 1;
}

/* A new stage comes before the last one. */
static void chain_add(struct raw_profile *p, const char *name, const struct ynode *row)
{
    ARRAY_GROW(p->chains, p->chain_count, p->chain_capacity);
    int at = p->chain_count;
    if (at > 0 && strcmp(p->chains[at - 1].name, LAST_STAGE) == 0) {
        p->chains[at] = p->chains[at - 1];
        at--;
    }
    p->chains[at] = (struct stage_chain){.name = name};
    chain_put_front(&p->chains[at], row);
    p->chain_count++;
}

static void take_row(struct raw_profile *p, const struct ynode *row, struct diags *d)
{
    struct raw_stage raw = {0};
    if (!stage_row_check(row, &raw, d))
        return;
    int at = chain_find(p, raw.stage);
    for (int i = 0; at >= 0 && i < p->chains[at].count; i++)
        if (p->chains[at].rows[i]->file == row->file) {
            ynode_error(row, d, "stage '%s' is written twice, first at line %d", raw.stage,
                        p->chains[at].rows[i]->line);
            return;
        }
    if (raw.drop && at < 0) {
        ynode_error(row, d, "there is no stage '%s' to drop", raw.stage);
    } else if (raw.drop) {
        chain_free(&p->chains[at]);
        memmove(&p->chains[at], &p->chains[at + 1],
                (size_t)(p->chain_count - at - 1) * sizeof *p->chains);
        p->chain_count--;
        note_dropped(p, raw.stage);
    } else if (at >= 0) {
        chain_put_front(&p->chains[at], row);
    } else {
        chain_add(p, raw.stage, row);
    }
}

static void take_rows(struct raw_profile *p, const struct ynode *rows, struct diags *d)
{
    for (int i = 0; rows != NULL && i < rows->count; i++) {
        take_row(p, rows->items[i], d);
        if (p->chain_count > STAGES_MAX) {
            ynode_error(rows->items[i], d, "a profile has at most %d stages", STAGES_MAX);
            return;
        }
    }
}

/* ---- resolving ---- */

static void merge_vars(struct raw_profile *p, struct diags *d)
{
    const struct ynode *vars = p->raw.vars;
    for (int i = 0; vars != NULL && i < vars->count; i++) {
        const struct ynode *key = vars->pairs[i].key;
        if (!var_name_ok(key->text))
            ynode_error(key, d, "'%s' cannot be a variable: use lower-case letters, digits and '_'",
                        key->text);
        else if (vars->pairs[i].value->kind != YNODE_SCALAR)
            ynode_error(vars->pairs[i].value, d, "variable '%s' must be text or a number, not %s",
                        key->text, ynode_kind_text(vars->pairs[i].value));
        else
            (void)json_object_set_new(p->vars, key->text, ynode_json(vars->pairs[i].value, true));
    }
}

static bool resolve(struct profiles *set, struct raw_profile *p, struct diags *d);

static bool resolve_parent(struct profiles *set, struct raw_profile *p, struct diags *d)
{
    const struct ynode *at = ynode_get(p->root, "extends");
    struct raw_profile *parent = find_raw(set, p->raw.extends);
    if (parent == NULL) {
        const char **names = xcalloc((size_t)set->count + 1, sizeof *names);
        for (int i = 0; i < set->count; i++)
            names[i] = set->items[i].name;
        schema_unknown(at, d, "profile", p->raw.extends, names, set->count);
        free(names);
        return false;
    }
    if (parent->state == RESOLVING) {
        ynode_error(at, d, "profile '%s' extends itself, by way of '%s'", p->name, p->raw.extends);
        return false;
    }
    if (!resolve(set, parent, d))
        return false;
    p->depth = parent->depth + 1;
    if (p->depth > EXTENDS_MAX) {
        ynode_error(at, d, "more than %d profiles extend each other", EXTENDS_MAX);
        return false;
    }
    inherit_chains(p, parent);
    p->bom = parent->bom;
    p->auto_replace = parent->auto_replace;
    p->vars = json_deep_copy(parent->vars);
    p->install = json_deep_copy(parent->install);
    return true;
}

/* The needs of the last stage are all others, where the profile does not say. */
static void complete_last(struct profile *r)
{
    struct stage_def *last = &r->stages[r->stage_count - 1];
    if (last->needs[0] != NULL || strcmp(last->name, LAST_STAGE) != 0)
        return;
    free(last->needs);
    last->needs = xcalloc((size_t)r->stage_count, sizeof *last->needs);
    for (int i = 0; i + 1 < r->stage_count; i++)
        last->needs[i] = xstrdup(r->stages[i].name);
}

static bool build(struct raw_profile *p, struct diags *d)
{
    int errors = d->errors;
    struct profile *r = &p->result;
    r->name = xstrdup(p->name);
    r->bom = p->bom;
    r->auto_replace = p->auto_replace;
    r->bom.gpu_model = xstrdup(p->bom.gpu_model);
    r->vars = json_deep_copy(p->vars);
    r->install = json_object_size(p->install) > 0 ? json_deep_copy(p->install) : NULL;
    r->stages = xcalloc((size_t)p->chain_count + 1, sizeof *r->stages);
    for (int i = 0; i < p->chain_count; i++)
        if (stage_build(&p->chains[i], &r->stages[r->stage_count], d))
            r->stage_count++;
    if (d->errors > errors)
        return false;
    profile_check(p, d);
    if (d->errors > errors)
        return false;
    complete_last(r);
    return true;
}

static bool resolve(struct profiles *set, struct raw_profile *p, struct diags *d)
{
    if (p->state == RESOLVED)
        return p->ok;
    p->state = RESOLVING;
    p->ok = true;
    if (p->raw.extends != NULL) {
        p->ok = resolve_parent(set, p, d);
    } else {
        p->bom = (struct bom){-1, -1, -1, NULL, -1, -1, -1, -1};
    }
    if (p->vars == NULL)
        p->vars = json_object();
    if (p->install == NULL)
        p->install = json_object();
    if (p->ok) {
        int errors = d->errors;
        merge_vars(p, d);
        hardware_read(p->raw.hardware, &p->bom, d);
        if (p->raw.replacement != NULL)
            p->auto_replace = strcmp(p->raw.replacement, "auto") == 0;
        install_read(p->raw.install, p->install, d);
        take_rows(p, p->raw.stages, d);
        p->ok = d->errors == errors && build(p, d);
    }
    p->state = RESOLVED;
    return p->ok;
}

/* ---- the set ---- */

static void raw_done(struct raw_profile *p)
{
    for (int i = 0; i < p->chain_count; i++)
        chain_free(&p->chains[i]);
    free(p->chains);
    free(p->dropped);
    for (int i = 0; i < p->result.stage_count; i++)
        stage_def_done(&p->result.stages[i]);
    free(p->result.stages);
    free(p->result.name);
    free(p->result.bom.gpu_model);
    json_decref(p->result.vars);
    json_decref(p->result.install);
    json_decref(p->vars);
    json_decref(p->install);
    ydoc_free(p->doc);
}

/* One file, one name: else two files of a folder could hold the same profile. */
static void check_file_name(const struct raw_profile *p, const char *path, struct diags *d)
{
    const char *slash = strrchr(path, '/');
    const char *file = slash != NULL ? slash + 1 : path;
    size_t len = strlen(p->name);
    if (strncmp(file, p->name, len) != 0 || strcmp(file + len, ".yaml") != 0)
        ynode_error(ynode_get(p->root, "profile"), d, "profile '%s' belongs in a file %s.yaml",
                    p->name, p->name);
}

static void add_file(struct profiles *set, const struct bundle_file *f, struct diags *d)
{
    struct raw_profile p = {.doc = ydoc_parse(f->path, f->text, f->len, d)};
    if (p.doc == NULL)
        return;
    p.root = ydoc_root(p.doc);
    if (!profile_file_check(p.root, &p.raw, d)) {
        ydoc_free(p.doc);
        return;
    }
    p.name = p.raw.profile;
    check_file_name(&p, f->path, d);
    struct raw_profile *known = find_raw(set, p.name);
    if (known != NULL) {
        /* a site's own profile takes the place of the shipped one */
        raw_done(known);
        *known = p;
        return;
    }
    ARRAY_GROW(set->items, set->count, set->capacity);
    set->items[set->count++] = p;
}

struct profiles *profiles_parse(const struct bundle *b, struct diags *d)
{
    struct profiles *set = xcalloc(1, sizeof *set);
    for (int i = 0; i < b->count; i++)
        add_file(set, &b->files[i], d);
    for (int i = 0; i < set->count; i++)
        (void)resolve(set, &set->items[i], d);
    return set;
}

void profiles_free(struct profiles *set)
{
    if (set == NULL)
        return;
    for (int i = 0; i < set->count; i++)
        raw_done(&set->items[i]);
    free(set->items);
    free(set);
}

const struct profile *profiles_find(const struct profiles *set, const char *name)
{
    struct raw_profile *p = set != NULL ? find_raw((struct profiles *)set, name) : NULL;
    return p != NULL && p->ok ? &p->result : NULL;
}

int profiles_count(const struct profiles *set)
{
    return set != NULL ? set->count : 0;
}

const struct profile *profiles_at(const struct profiles *set, int index)
{
    if (set == NULL || index < 0 || index >= set->count)
        return NULL;
    return set->items[index].ok ? &set->items[index].result : NULL;
}

const struct stage_def *profile_stage(const struct profile *p, const char *name)
{
    for (int i = 0; i < p->stage_count; i++)
        if (strcmp(p->stages[i].name, name) == 0)
            return &p->stages[i];
    return NULL;
}

const char *profile_lacks(const struct profile *p)
{
    bool wipes = false;
    for (int i = 0; i < p->stage_count; i++)
        wipes = wipes || p->stages[i].wipes;
    if (wipes && json_object_get(p->install, "image") == NULL)
        return "it installs, but its 'install' names no 'image'";
    if (wipes && json_object_get(p->install, "disk") == NULL)
        return "it installs, but its 'install' does not say which 'disk' may be overwritten";
    return NULL;
}
