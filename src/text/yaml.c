#include "text/yaml.h"

#include <string.h>
#include <yaml.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/names.h"

/*
 * Built on libyaml's events rather than its document calls: those search anchors linearly and have
 * no limits, so a small file could keep them busy for minutes.
 */

enum { SMALL_MAP = 16, BLOCK_NODES = 256 };

static const char TOO_DEEP[] = "nested too deeply: at most 64 levels";

struct block {
    struct block *next;
    int used;
    struct ynode nodes[BLOCK_NODES];
};

struct ydoc {
    char *file;
    struct block *blocks;
    struct ynode *root;
};

struct anchor {
    struct anchor *next; /* all of them, also those that were declared again */
    struct ynode *node;
    int64_t weight; /* nodes within, aliases counted as copies; 0 while it is still open */
    int height;     /* levels within; 0: a scalar */
};

/* A list or map that is being filled. */
struct frame {
    struct ynode *node;
    int capacity;
    struct ynode *key; /* map: the key that waits for its value */
    struct map *seen;  /* map: keys so far, once there are many */
    struct anchor *anchor;
    int64_t start; /* `expanded` when it was opened */
    int height;    /* levels so far, its own included */
    struct ynode **merges;
    int merge_count, merge_capacity;
};

struct reader {
    yaml_parser_t parser;
    struct ydoc *doc;
    struct diags *d;
    struct frame frames[YDOC_MAX_DEPTH];
    int depth;
    int nodes;
    int64_t expanded;
    struct map *anchors; /* by name: the latest */
    struct anchor *all_anchors;
    bool failed;
};

static void fail(struct reader *r, yaml_mark_t mark, const char *text)
{
    diags_add(r->d, DIAG_ERROR, r->doc->file, (int)mark.line + 1, (int)mark.column + 1, "%s", text);
    r->failed = true;
}

static struct ynode *new_node(struct reader *r, enum ynode_kind kind, yaml_mark_t mark)
{
    if (++r->nodes > YDOC_MAX_NODES || ++r->expanded > YDOC_MAX_EXPANDED) {
        fail(r, mark,
             "the file is too large: it has more than 500000 values, or 1000000 with its "
             "aliases written out");
        return NULL;
    }
    struct block *b = r->doc->blocks;
    if (b == NULL || b->used == BLOCK_NODES) {
        b = xcalloc(1, sizeof *b);
        b->next = r->doc->blocks;
        r->doc->blocks = b;
    }
    struct ynode *n = &b->nodes[b->used++];
    *n = (struct ynode){.kind = kind,
                        .file = r->doc->file,
                        .line = (int)mark.line + 1,
                        .column = (int)mark.column + 1};
    return n;
}

/* ---- anchors and aliases ---- */

static struct anchor *declare(struct reader *r, const yaml_char_t *name, struct ynode *node)
{
    if (name == NULL)
        return NULL;
    struct anchor *a = xcalloc(1, sizeof *a);
    a->node = node;
    a->next = r->all_anchors;
    r->all_anchors = a;
    /* An anchor may be declared again; from there on the new one counts. */
    map_set(r->anchors, (const char *)name, a);
    return a;
}

/* What the innermost open list or map holds is `height` levels high. */
static void heighten(struct reader *r, int height)
{
    if (r->depth > 0 && r->frames[r->depth - 1].height < height + 1)
        r->frames[r->depth - 1].height = height + 1;
}

static struct ynode *resolve(struct reader *r, const yaml_event_t *event)
{
    const char *name = (const char *)event->data.alias.anchor;
    const struct anchor *a = map_get(r->anchors, name);
    char text[160];
    if (a == NULL) {
        snprintf(text, sizeof text, "no anchor '&%.60s' was written before this alias", name);
        fail(r, event->start_mark, text);
        return NULL;
    }
    if (a->weight == 0) {
        snprintf(text, sizeof text, "the alias '*%.60s' stands inside its own anchor", name);
        fail(r, event->start_mark, text);
        return NULL;
    }
    if (a->weight > YDOC_MAX_EXPANDED - r->expanded) {
        fail(r, event->start_mark,
             "the file is too large: with its aliases written out it has more than 1000000 values");
        return NULL;
    }
    /* readers of the tree recurse: chained aliases may not take them deeper than plain nesting */
    if (r->depth + a->height > YDOC_MAX_DEPTH) {
        fail(r, event->start_mark, TOO_DEEP);
        return NULL;
    }
    r->expanded += a->weight;
    heighten(r, a->height);
    return a->node;
}

/* ---- maps ---- */

static const struct ynode *seen_key(const struct frame *f, const char *key)
{
    if (f->seen != NULL)
        return map_get(f->seen, key);
    for (int i = 0; i < f->node->count; i++)
        if (strcmp(f->node->pairs[i].key->text, key) == 0)
            return f->node->pairs[i].key;
    return NULL;
}

static void add_pair(struct frame *f, struct ynode *key, struct ynode *value)
{
    struct ynode *n = f->node;
    ARRAY_GROW(n->pairs, n->count, f->capacity);
    n->pairs[n->count++] = (struct ypair){key, value};
    if (f->seen == NULL && n->count > SMALL_MAP) {
        f->seen = map_new();
        for (int i = 0; i < n->count; i++)
            map_set(f->seen, n->pairs[i].key->text, n->pairs[i].key);
    } else if (f->seen != NULL) {
        map_set(f->seen, key->text, key);
    }
}

static void merge_one(struct reader *r, struct frame *f, const struct ynode *from)
{
    if (from->kind != YNODE_MAP) {
        ynode_error(from, r->d, "'<<' merges mappings, this is %s", ynode_kind_text(from));
        return;
    }
    for (int i = 0; i < from->count; i++)
        if (seen_key(f, from->pairs[i].key->text) == NULL)
            add_pair(f, from->pairs[i].key, from->pairs[i].value);
}

/* At the end of the map: what was written wins over what is merged, earlier merges over later. */
static void apply_merges(struct reader *r, struct frame *f)
{
    for (int m = 0; m < f->merge_count; m++) {
        const struct ynode *value = f->merges[m];
        if (value->kind != YNODE_LIST) {
            merge_one(r, f, value);
            continue;
        }
        for (int i = 0; i < value->count; i++)
            merge_one(r, f, value->items[i]);
    }
    free(f->merges);
    f->merges = NULL;
}

static void take_key(struct reader *r, struct frame *f, struct ynode *n)
{
    if (n->kind != YNODE_SCALAR) {
        ynode_error(n, r->d, "a key must be a plain word, not %s", ynode_kind_text(n));
        r->failed = true;
        return;
    }
    f->key = n;
}

static void take_value(struct reader *r, struct frame *f, struct ynode *n)
{
    struct ynode *key = f->key;
    f->key = NULL;
    if (!key->quoted && strcmp(key->text, "<<") == 0) {
        ARRAY_GROW(f->merges, f->merge_count, f->merge_capacity);
        f->merges[f->merge_count++] = n;
        return;
    }
    const struct ynode *before = seen_key(f, key->text);
    if (before != NULL) {
        ynode_error(key, r->d, "the key '%.60s' is given twice, first in line %d", key->text,
                    before->line);
        return;
    }
    add_pair(f, key, n);
}

static void attach(struct reader *r, struct ynode *n)
{
    if (r->depth == 0) {
        r->doc->root = n;
        return;
    }
    struct frame *f = &r->frames[r->depth - 1];
    if (f->node->kind == YNODE_LIST) {
        ARRAY_GROW(f->node->items, f->node->count, f->capacity);
        f->node->items[f->node->count++] = n;
    } else if (f->key == NULL) {
        take_key(r, f, n);
    } else {
        take_value(r, f, n);
    }
}

/* ---- events ---- */

static void open_frame(struct reader *r, const yaml_event_t *event, enum ynode_kind kind,
                       const yaml_char_t *anchor)
{
    if (r->depth == YDOC_MAX_DEPTH) {
        fail(r, event->start_mark, TOO_DEEP);
        return;
    }
    int64_t start = r->expanded;
    struct ynode *n = new_node(r, kind, event->start_mark);
    if (n == NULL)
        return;
    attach(r, n);
    r->frames[r->depth++] =
        (struct frame){.node = n, .anchor = declare(r, anchor, n), .start = start, .height = 1};
}

static void close_frame(struct reader *r)
{
    struct frame *f = &r->frames[--r->depth];
    if (f->node->kind == YNODE_MAP)
        apply_merges(r, f);
    map_free(f->seen);
    if (f->anchor != NULL) {
        f->anchor->weight = r->expanded - f->start;
        f->anchor->height = f->height;
    }
    heighten(r, f->height);
}

static void scalar(struct reader *r, const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    if (memchr(value, '\0', event->data.scalar.length) != NULL) {
        fail(r, event->start_mark, "text may not hold a NUL character");
        return;
    }
    struct ynode *n = new_node(r, YNODE_SCALAR, event->start_mark);
    if (n == NULL)
        return;
    n->text = xstrdup(value);
    n->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    struct anchor *a = declare(r, event->data.scalar.anchor, n);
    if (a != NULL)
        a->weight = 1;
    attach(r, n);
}

static void handle(struct reader *r, const yaml_event_t *event)
{
    struct ynode *n;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (r->doc->root != NULL)
            fail(r, event->start_mark, "a second document starts here: a file holds one");
        break;
    case YAML_ALIAS_EVENT:
        n = resolve(r, event);
        if (n != NULL)
            attach(r, n);
        break;
    case YAML_SCALAR_EVENT:
        scalar(r, event);
        break;
    case YAML_SEQUENCE_START_EVENT:
        open_frame(r, event, YNODE_LIST, event->data.sequence_start.anchor);
        break;
    case YAML_MAPPING_START_EVENT:
        open_frame(r, event, YNODE_MAP, event->data.mapping_start.anchor);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        close_frame(r);
        break;
    default:
        break;
    }
}

/* The position of a byte, for errors of libyaml's reader, which knows no lines. */
static yaml_mark_t mark_at(const char *text, size_t len, size_t offset)
{
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < len && i < offset; i++) {
        if (text[i] == '\n') {
            mark.line++;
            mark.column = 0;
        } else if (((unsigned char)text[i] & 0xC0) != 0x80) {
            mark.column++;
        }
    }
    return mark;
}

static bool is_tab(const char *text, size_t len, yaml_mark_t mark)
{
    const char *end = text + len;
    for (size_t line = 0; line < mark.line; line++) {
        text = memchr(text, '\n', (size_t)(end - text));
        if (text == NULL)
            return false;
        text++;
    }
    /* Columns count characters: step over the continuation bytes of UTF-8. */
    for (size_t column = 0; text < end; text++) {
        if (((unsigned char)*text & 0xC0) == 0x80)
            continue;
        if (column++ == mark.column)
            return *text == '\t';
    }
    return false;
}

static void syntax_error(struct reader *r, const char *text, size_t len)
{
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem != NULL ? p->problem : "not understood";
    char line[320];
    if (p->error == YAML_READER_ERROR) {
        snprintf(line, sizeof line, "not valid UTF-8 text: %s", problem);
        fail(r, mark_at(text, len, p->problem_offset), line);
        return;
    }
    yaml_mark_t mark = p->problem_mark;
    if (is_tab(text, len, mark))
        snprintf(line, sizeof line, "a tab cannot indent YAML: use spaces");
    else if (p->context != NULL && p->context_mark.line != mark.line)
        snprintf(line, sizeof line, "YAML syntax: %s (%s that began in line %zu)", problem,
                 p->context, p->context_mark.line + 1);
    else if (p->context != NULL)
        snprintf(line, sizeof line, "YAML syntax: %s (%s)", problem, p->context);
    else
        snprintf(line, sizeof line, "YAML syntax: %s", problem);
    fail(r, mark, line);
}

static void read_events(struct reader *r, const char *text, size_t len)
{
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)text, len);
    bool end = false;
    while (!end && !r->failed) {
        yaml_event_t event;
        if (!yaml_parser_parse(&r->parser, &event)) {
            syntax_error(r, text, len);
            return;
        }
        end = event.type == YAML_STREAM_END_EVENT;
        handle(r, &event);
        yaml_event_delete(&event);
    }
    if (end && r->doc->root == NULL)
        diags_add(r->d, DIAG_ERROR, r->doc->file, 0, 0, "the file is empty");
}

struct ydoc *ydoc_parse(const char *file, const char *text, size_t len, struct diags *d)
{
    if (len > YDOC_MAX_BYTES) {
        diags_add(d, DIAG_ERROR, file, 0, 0, "the file is too large: %zu bytes, at most %u", len,
                  YDOC_MAX_BYTES);
        return NULL;
    }
    struct ydoc *doc = xcalloc(1, sizeof *doc);
    doc->file = xstrdup(file);
    struct reader *r = xcalloc(1, sizeof *r);
    r->doc = doc;
    r->d = d;
    if (!yaml_parser_initialize(&r->parser))
        abort(); /* out of memory */
    r->anchors = map_new();
    read_events(r, text, len);
    while (r->depth > 0) { /* only after a failure */
        struct frame *f = &r->frames[--r->depth];
        map_free(f->seen);
        free(f->merges);
    }
    bool ok = !r->failed && doc->root != NULL;
    map_free(r->anchors);
    while (r->all_anchors != NULL) {
        struct anchor *a = r->all_anchors;
        r->all_anchors = a->next;
        free(a);
    }
    yaml_parser_delete(&r->parser);
    free(r);
    if (!ok) {
        ydoc_free(doc);
        return NULL;
    }
    return doc;
}

void ydoc_free(struct ydoc *doc)
{
    if (doc == NULL)
        return;
    while (doc->blocks != NULL) {
        struct block *b = doc->blocks;
        doc->blocks = b->next;
        for (int i = 0; i < b->used; i++) {
            free(b->nodes[i].text);
            free(b->nodes[i].items);
            free(b->nodes[i].pairs);
        }
        free(b);
    }
    free(doc->file);
    free(doc);
}

const struct ynode *ydoc_root(const struct ydoc *doc)
{
    return doc->root;
}
