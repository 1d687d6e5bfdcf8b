/* Rows of nodes: ranges are expanded and zipped, `from` hands over to a CSV file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/nodeset.h"
#include "model/spec_read.h"

/* ---- ranges ---- */

struct expansion {
    char **texts;
    int count;
};

struct expansions {
    struct expansion fields[NODE_FIELDS];
    struct expansion macs[SPEC_MACS_MAX]; /* `mac` as a list */
    int mac_count;
};

static bool expand(struct reader *r, const struct cell *c, struct expansion *e)
{
    struct err err = {0};
    if (r->values_left <= 0)
        return false; /* said before */
    if (nodeset_expand_pattern(c->text, SPEC_NODES_MAX, &e->texts, &e->count, &err) < 0) {
        /* what it made until then counts too: a spec can hold many of those */
        r->values_left -= err.code == ERR_LIMIT ? SPEC_NODES_MAX : 1;
        cell_error(c, r->d, "%s", err.text);
        return false;
    }
    r->values_left -= e->count;
    if (r->values_left <= 0)
        cell_error(c, r->d, "the spec's ranges make more than %d values", SPEC_VALUES_MAX);
    return r->values_left > 0;
}

static const char *pick(const struct expansion *e, int i)
{
    return e->texts[e->count > 1 ? i : 0];
}

static bool length_ok(struct reader *r, const struct cell *c, const char *what,
                      const struct expansion *e, int wanted)
{
    if (e->count <= 1 || e->count == wanted)
        return true;
    if (wanted == 1)
        cell_error(c, r->d, "'%s' gives %d values, but 'name' gives one", what, e->count);
    else
        cell_error(c, r->d,
                   "'%s' gives %d values, but 'name' gives %d: ranges of a row go side by side",
                   what, e->count, wanted);
    return false;
}

static struct cell cell_of(const struct ynode *n)
{
    return (struct cell){n->text, n->file, n->line, n->column};
}

/* Expands all cells; false when something is wrong, after saying all of it. */
static bool expand_row(struct reader *r, const struct node_row *row, struct expansions *x)
{
    bool ok = true;
    x->mac_count = row->macs != NULL ? row->macs->count : 0;
    if (x->mac_count > SPEC_MACS_MAX) {
        ynode_error(row->macs, r->d, "more than %d MAC addresses", SPEC_MACS_MAX);
        x->mac_count = 0;
        ok = false;
    }
    for (int f = 0; f < NODE_FIELDS; f++)
        if (row->cells[f].text != NULL)
            ok = expand(r, &row->cells[f], &x->fields[f]) && ok;
    int wanted = x->fields[NODE_NAME].count;
    for (int f = 0; f < NODE_FIELDS && wanted > 0; f++)
        if (f != NODE_NAME)
            ok = length_ok(r, &row->cells[f], node_field_names[f], &x->fields[f], wanted) && ok;
    for (int k = 0; k < x->mac_count; k++) {
        struct cell c = cell_of(row->macs->items[k]);
        bool fine = expand(r, &c, &x->macs[k]);
        ok = fine && (wanted == 0 || length_ok(r, &c, "mac", &x->macs[k], wanted)) && ok;
    }
    return ok;
}

static void expansions_done(struct expansions *x)
{
    for (int f = 0; f < NODE_FIELDS; f++)
        nodeset_pattern_free(x->fields[f].texts, x->fields[f].count);
    for (int k = 0; k < x->mac_count; k++)
        nodeset_pattern_free(x->macs[k].texts, x->macs[k].count);
}

/* The MACs of a list, side by side with the names; joined with blanks as one cell. */
static char *join_macs(const struct expansions *x, int i)
{
    struct strbuf sb;
    strbuf_init(&sb, (size_t)64 * 1024);
    for (int k = 0; k < x->mac_count; k++)
        strbuf_addf(&sb, "%s%s", k ? " " : "", pick(&x->macs[k], i));
    char *text = strbuf_take(&sb);
    strbuf_done(&sb);
    return text;
}

static void add_row(struct reader *r, const struct node_row *row)
{
    struct expansions x = {0};
    if (row->cells[NODE_NAME].text == NULL) {
        if (!row->incomplete)
            cell_error(&row->at, r->d, "this node has no 'name'");
        return;
    }
    bool ok = expand_row(r, row, &x);
    for (int i = 0; ok && i < x.fields[NODE_NAME].count; i++) {
        struct node_row one = *row;
        for (int f = 0; f < NODE_FIELDS; f++)
            if (row->cells[f].text != NULL)
                one.cells[f].text = pick(&x.fields[f], i);
        char *joined = x.mac_count > 0 ? join_macs(&x, i) : NULL;
        if (joined != NULL) {
            one.cells[NODE_MAC] = cell_of(row->macs);
            one.cells[NODE_MAC].text = joined;
        }
        add_node(r, &one);
        free(joined);
    }
    expansions_done(&x);
}

/* ---- rows as they are written ---- */

struct raw_row {
    const struct ynode *cells[NODE_FIELDS];
    const struct ynode *vars, *password, *from;
};

/* False when a key was wrong; the others are read all the same. */
static bool read_raw(struct reader *r, const struct ynode *map, struct raw_row *raw)
{
    static const char *const help[NODE_FIELDS] = {"the host name"};
    struct field rows[NODE_FIELDS + 4] = {0};
    for (int f = 0; f < NODE_FIELDS; f++)
        rows[f] = (struct field){.key = node_field_names[f],
                                 .type = f == NODE_MAC ? FIELD_TEXTS : FIELD_SCALAR,
                                 .offset = offsetof(struct raw_row, cells) +
                                           (size_t)f * sizeof(const struct ynode *),
                                 .help = help[f]};
    rows[NODE_FIELDS] =
        (struct field){.key = "vars", .type = FIELD_MAP, .offset = offsetof(struct raw_row, vars)};
    rows[NODE_FIELDS + 1] = (struct field){
        .key = "bmc_password", .type = FIELD_ANY, .offset = offsetof(struct raw_row, password)};
    rows[NODE_FIELDS + 2] = (struct field){
        .key = "from", .type = FIELD_SCALAR, .offset = offsetof(struct raw_row, from)};
    return schema_read(rows, map, "a node", raw, r->d);
}

static void read_row(struct reader *r, const struct ynode *map)
{
    struct raw_row raw = {0};
    struct node_row row = {.at = cell_of(map)};
    if (map->kind != YNODE_MAP) {
        ynode_error(map, r->d, "a node is a mapping such as {name: gpu001, class: ...}, not %s",
                    ynode_kind_text(map));
        return;
    }
    row.incomplete = !read_raw(r, map, &raw);
    for (int f = 0; f < NODE_FIELDS; f++)
        if (raw.cells[f] != NULL && raw.cells[f]->kind == YNODE_SCALAR)
            row.cells[f] = cell_of(raw.cells[f]);
    if (raw.cells[NODE_MAC] != NULL && raw.cells[NODE_MAC]->kind == YNODE_LIST)
        row.macs = raw.cells[NODE_MAC];
    row.vars = raw.vars;
    if (raw.password != NULL && !read_secret(raw.password, "a BMC's password", &row.password, r->d))
        row.incomplete = true;
    memset(r->said, 0, sizeof r->said);
    if (raw.from != NULL)
        read_csv(r, raw.from, &row);
    else
        add_row(r, &row);
    free(row.password.name);
    json_decref(r->row_vars);
    r->row_vars = NULL;
}

void read_nodes(struct reader *r, const struct ynode *nodes)
{
    for (int i = 0; nodes != NULL && i < nodes->count; i++)
        read_row(r, nodes->items[i]);
}
