/*
 * Mustache (its core specification, version 1.4): tags are parsed into a tree once, the tree is
 * rendered against a stack of JSON values. Whole-line ("standalone") section, comment, partial and
 * delimiter tags take their line with them.
 */
#include "text/template.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { NODES_MAX = 100000, TAG_MAX = 256, DELIMITER_MAX = 16, OUTPUT_STEPS_MAX = 1000000 };

enum kind { TEXT, VARIABLE, SECTION, INVERTED, PARTIAL };

struct node {
    enum kind kind;
    const char *text; /* TEXT: borrowed from the template; others: the name, owned */
    size_t len;
    char *name, *filter;
    char *indent; /* PARTIAL on a line of its own */
    int line, column;
    int end; /* SECTION, INVERTED: index after its last child */
};

struct parser {
    const char *file, *text, *end, *p;
    const char *seen; /* position() has counted to here */
    int line, column;
    char open[DELIMITER_MAX], close[DELIMITER_MAX];
    struct node *nodes;
    int count, capacity;
    int stack[TEMPLATE_MAX_DEPTH];
    int depth;
    struct err *err;
};

static int fail_at(struct err *err, enum err_code code, const char *file, int line, int column,
                   const char *what, const char *name)
{
    return err_set(err, code, "%s:%d:%d: %s%s%s%s", file, line, column, what, name[0] ? " '" : "",
                   name, name[0] ? "'" : "");
}

/* Incremental: tags come in order, so the whole costs one walk over the text. */
static void position(struct parser *ps, const char *at, int *line, int *column)
{
    if (ps->seen == NULL || at < ps->seen) {
        ps->seen = ps->text;
        ps->line = ps->column = 1;
    }
    for (; ps->seen < at; ps->seen++) {
        ps->column = *ps->seen == '\n' ? 1 : ps->column + 1;
        ps->line += *ps->seen == '\n';
    }
    *line = ps->line;
    *column = ps->column;
}

static int fail(struct parser *ps, const char *at, const char *what, const char *name)
{
    int line, column;
    position(ps, at, &line, &column);
    return fail_at(ps->err, ERR_INVALID, ps->file, line, column, what, name);
}

static struct node *add_node(struct parser *ps, enum kind kind, const char *at)
{
    ARRAY_GROW(ps->nodes, ps->count, ps->capacity);
    struct node *n = &ps->nodes[ps->count++];
    *n = (struct node){.kind = kind};
    if (kind != TEXT)
        position(ps, at, &n->line, &n->column);
    return n;
}

static void add_text(struct parser *ps, const char *from, const char *to)
{
    if (to > from) {
        struct node *n = add_node(ps, TEXT, from);
        n->text = from;
        n->len = (size_t)(to - from);
    }
}

static void nodes_free(struct node *nodes, int count)
{
    for (int i = 0; i < count; i++) {
        free(nodes[i].name);
        free(nodes[i].filter);
        free(nodes[i].indent);
    }
    free(nodes);
}

/* ---- parsing ---- */

struct tag {
    char sigil; /* '\0' for a plain variable */
    const char *start, *after;
    char name[TAG_MAX];
};

static const char *find(const char *from, const char *end, const char *what)
{
    return memmem(from, (size_t)(end - from), what, strlen(what));
}

static int read_tag(struct parser *ps, const char *start, struct tag *tag)
{
    const char *p = start + strlen(ps->open), *close;
    bool triple = p < ps->end && *p == '{' && strcmp(ps->open, "{{") == 0;
    bool assign = p < ps->end && *p == '=';
    tag->start = start;
    tag->sigil = '\0';
    while (p < ps->end && isspace((unsigned char)*p))
        p++;
    if (p < ps->end && strchr("#^/!>&={", *p) != NULL) {
        tag->sigil = *p++;
        if (tag->sigil == '{' && !triple)
            return fail(ps, start, "'{' has no meaning with these delimiters", "");
    }
    char ending[DELIMITER_MAX + 2];
    (void)snprintf(ending, sizeof ending, "%s%s", triple ? "}" : assign ? "=" : "", ps->close);
    close = find(p, ps->end, ending);
    if (close == NULL)
        return fail(ps, start, "this tag is never closed", "");
    tag->after = close + strlen(ending);
    const char *last = close;
    while (p < last && isspace((unsigned char)*p))
        p++;
    while (last > p && isspace((unsigned char)last[-1]))
        last--;
    if (tag->sigil == '!')
        last = p;
    if ((size_t)(last - p) >= sizeof tag->name)
        return fail(ps, start, "the name in this tag is too long", "");
    memcpy(tag->name, p, (size_t)(last - p));
    tag->name[last - p] = '\0';
    return 0;
}

/* Whether nothing but blanks shares the lines of the tag: then *ret_line is where its line starts
 * and *ret_next where the next one does. */
static bool standalone(const struct parser *ps, const struct tag *tag, const char **ret_line,
                       const char **ret_next)
{
    const char *line = tag->start, *next = tag->after;
    while (line > ps->text && (line[-1] == ' ' || line[-1] == '\t'))
        line--;
    if (line > ps->text && line[-1] != '\n')
        return false;
    while (next < ps->end && (*next == ' ' || *next == '\t'))
        next++;
    if (next < ps->end && *next == '\r' && next + 1 < ps->end && next[1] == '\n')
        next++;
    if (next < ps->end && *next != '\n')
        return false;
    *ret_line = line;
    *ret_next = next < ps->end ? next + 1 : next;
    return true;
}

static int set_delimiters(struct parser *ps, const struct tag *tag)
{
    char open[DELIMITER_MAX], close[DELIMITER_MAX], rest[2];
    if (sscanf(tag->name, "%15s %15s %1s", open, close, rest) != 2 || strchr(open, '=') != NULL ||
        strchr(close, '=') != NULL)
        return fail(ps, tag->start, "delimiters are written as {{=<% %>=}}, not", tag->name);
    memcpy(ps->open, open, sizeof open);
    memcpy(ps->close, close, sizeof close);
    return 0;
}

static int close_section(struct parser *ps, const struct tag *tag)
{
    if (ps->depth == 0)
        return fail(ps, tag->start, "nothing is open that this could close:", tag->name);
    struct node *open = &ps->nodes[ps->stack[--ps->depth]];
    if (strcmp(open->name, tag->name) != 0) {
        char what[TAG_MAX + 60];
        (void)snprintf(what, sizeof what, "section '%s' of line %d is open here, not", open->name,
                       open->line);
        return fail(ps, tag->start, what, tag->name);
    }
    open->end = ps->count;
    return 0;
}

/* {{name | shell}} */
static int set_name(struct parser *ps, struct node *n, const struct tag *tag)
{
    const char *bar = n->kind == VARIABLE ? strchr(tag->name, '|') : NULL;
    size_t len = bar != NULL ? (size_t)(bar - tag->name) : strlen(tag->name);
    while (len > 0 && isspace((unsigned char)tag->name[len - 1]))
        len--;
    n->name = xstrndup(tag->name, len);
    if (bar != NULL)
        n->filter = xstrdup(bar + 1 + strspn(bar + 1, " \t"));
    if (len == 0 || n->name[strcspn(n->name, " \t\r\n")] != '\0')
        return fail(ps, tag->start, "this is no name:", tag->name);
    return 0;
}

static int add_tag(struct parser *ps, const struct tag *tag, char *indent)
{
    static const struct {
        char sigil;
        enum kind kind;
    } kinds[] = {{'\0', VARIABLE}, {'&', VARIABLE}, {'{', VARIABLE},
                 {'#', SECTION},   {'^', INVERTED}, {'>', PARTIAL}};
    if (tag->sigil == '/')
        return close_section(ps, tag);
    if (tag->sigil == '=')
        return set_delimiters(ps, tag);
    if (ps->count >= NODES_MAX)
        return fail(ps, tag->start, "too many tags", "");
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (kinds[i].sigil != tag->sigil)
            continue;
        struct node *n = add_node(ps, kinds[i].kind, tag->start);
        n->indent = xstrdup(indent);
        if (set_name(ps, n, tag) < 0)
            return -(int)ps->err->code;
        if (n->kind == SECTION || n->kind == INVERTED) {
            if (ps->depth == TEMPLATE_MAX_DEPTH)
                return fail(ps, tag->start, "sections are nested too deep", "");
            ps->stack[ps->depth++] = ps->count - 1;
        }
    }
    return 0;
}

static int parse(struct parser *ps)
{
    ps->p = ps->text;
    for (;;) {
        struct tag tag;
        const char *start = find(ps->p, ps->end, ps->open);
        if (start == NULL)
            break;
        if (read_tag(ps, start, &tag) < 0)
            return -(int)ps->err->code;
        const char *line = start, *next = tag.after;
        char *indent = NULL;
        if (tag.sigil != '\0' && tag.sigil != '&' && tag.sigil != '{' &&
            standalone(ps, &tag, &line, &next) && line >= ps->p) {
            if (tag.sigil == '>')
                indent = xstrndup(line, (size_t)(start - line));
        } else {
            line = start;
            next = tag.after;
        }
        add_text(ps, ps->p, line);
        int rc = tag.sigil == '!' ? 0 : add_tag(ps, &tag, indent);
        free(indent);
        if (rc < 0)
            return rc;
        ps->p = next;
    }
    add_text(ps, ps->p, ps->end);
    if (ps->depth > 0) {
        const struct node *open = &ps->nodes[ps->stack[ps->depth - 1]];
        return fail_at(ps->err, ERR_INVALID, ps->file, open->line, open->column,
                       "this section is never closed:", open->name);
    }
    return 0;
}

/* ---- rendering ---- */

struct render {
    const struct template_options *options;
    const json_t *stack[TEMPLATE_MAX_DEPTH + 1];
    int depth;
    int partials; /* how deep in partials */
    int steps;
    struct strbuf *out;
    struct err *err;
};

static const json_t *member(const json_t *o, const char *name, size_t len)
{
    char key[TAG_MAX];
    if (!json_is_object(o) || len >= sizeof key)
        return NULL;
    memcpy(key, name, len);
    key[len] = '\0';
    return json_object_get(o, key);
}

/* The first part is looked for from the innermost value outwards, further ones only inside it. */
static const json_t *lookup(const struct render *r, const char *name)
{
    if (strcmp(name, ".") == 0)
        return r->stack[r->depth - 1];
    size_t len = strcspn(name, ".");
    const json_t *value = NULL;
    for (int i = r->depth - 1; i >= 0 && value == NULL; i--)
        value = member(r->stack[i], name, len);
    while (value != NULL && name[len] == '.') {
        name += len + 1;
        len = strcspn(name, ".");
        value = member(value, name, len);
    }
    return value;
}

static bool truthy(const json_t *v)
{
    return v != NULL && !json_is_null(v) && !json_is_false(v) &&
           !(json_is_array(v) && json_array_size(v) == 0);
}

static void number_text(double value, char *buf, size_t size)
{
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(buf, size, "%.*g", digits, value);
        if (strtod(buf, NULL) == value)
            break;
    }
}

/* The caller frees. */
static char *value_text(const json_t *v)
{
    char buf[64];
    if (json_is_string(v))
        return xstrdup(json_string_value(v));
    if (v == NULL || json_is_null(v))
        return xstrdup("");
    if (json_is_real(v)) {
        number_text(json_real_value(v), buf, sizeof buf);
        return xstrdup(buf);
    }
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    return text != NULL ? text : xstrdup("");
}

static void quote_shell(const char *text, struct strbuf *out)
{
    strbuf_addc(out, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            strbuf_adds(out, "'\\''");
        else
            strbuf_addc(out, *text);
    }
    strbuf_addc(out, '\'');
}

static void quote_html(const char *text, struct strbuf *out)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            strbuf_adds(out, "&amp;");
            break;
        case '<':
            strbuf_adds(out, "&lt;");
            break;
        case '>':
            strbuf_adds(out, "&gt;");
            break;
        case '"':
            strbuf_adds(out, "&quot;");
            break;
        case '\'':
            strbuf_adds(out, "&#39;");
            break;
        default:
            strbuf_addc(out, *text);
        }
    }
}

/* JSON is YAML, so both quote alike; JSON keeps the type of the value, YAML text stays text. */
static void quote_json(const json_t *v, struct strbuf *out)
{
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    strbuf_adds(out, text != NULL ? text : "null");
    free(text);
}

static void quote_yaml(const char *text, struct strbuf *out)
{
    json_t *s = json_string(text);
    quote_json(s, out);
    json_decref(s);
}

static int fail_node(const struct render *r, const struct node *n, enum err_code code,
                     const char *what, const char *name)
{
    return fail_at(r->err, code, r->options->file, n->line, n->column, what, name);
}

static int render_variable(struct render *r, const struct node *n)
{
    const json_t *v = lookup(r, n->name);
    if (v == NULL && r->options->strict)
        return fail_node(r, n, ERR_NOT_FOUND, "nothing is known by the name", n->name);
    char *text = value_text(v);
    int rc = 0;
    if (n->filter == NULL)
        strbuf_adds(r->out, text);
    else if (strcmp(n->filter, "shell") == 0)
        quote_shell(text, r->out);
    else if (strcmp(n->filter, "json") == 0)
        quote_json(v, r->out);
    else if (strcmp(n->filter, "yaml") == 0)
        quote_yaml(text, r->out);
    else if (strcmp(n->filter, "html") == 0)
        quote_html(text, r->out);
    else
        rc = fail_node(r, n, ERR_INVALID, "there is no filter (known: shell, json, yaml, html)",
                       n->filter);
    free(text);
    return rc;
}

static int render_text(struct render *r, const char *text, size_t len);
static int render_nodes(struct render *r, const struct node *nodes, int from, int to);

static int render_in(struct render *r, const struct node *nodes, int from, int to, const json_t *v)
{
    if (r->depth > TEMPLATE_MAX_DEPTH)
        return fail_node(r, &nodes[from], ERR_LIMIT, "nested too deep", "");
    r->stack[r->depth++] = v;
    int rc = render_nodes(r, nodes, from, to);
    r->depth--;
    return rc;
}

static int render_section(struct render *r, const struct node *nodes, int at)
{
    const struct node *n = &nodes[at];
    const json_t *v = lookup(r, n->name);
    if (v == NULL && r->options->strict)
        return fail_node(r, n, ERR_NOT_FOUND, "nothing is known by the name", n->name);
    if (n->kind == INVERTED)
        return truthy(v) ? 0 : render_nodes(r, nodes, at + 1, n->end);
    if (!truthy(v))
        return 0;
    if (!json_is_array(v))
        return render_in(r, nodes, at + 1, n->end, v);
    size_t i;
    json_t *item;
    int rc = 0;
    json_array_foreach((json_t *)v, i, item)
    {
        if (rc == 0)
            rc = render_in(r, nodes, at + 1, n->end, item);
    }
    return rc;
}

/* The partial's text, each of its lines begun with the blanks that stood before its tag. */
static char *indented(const char *text, const char *indent)
{
    struct strbuf sb;
    strbuf_init(&sb, 2 * TEMPLATE_MAX_BYTES);
    for (bool start = true; *text != '\0'; text++) {
        if (start)
            strbuf_adds(&sb, indent);
        strbuf_addc(&sb, *text);
        start = *text == '\n';
    }
    char *out = strbuf_take(&sb);
    strbuf_done(&sb);
    return out;
}

static int render_partial(struct render *r, const struct node *n)
{
    const struct template_options *o = r->options;
    const char *text = o->partial != NULL ? o->partial(n->name, o->user) : NULL;
    if (text == NULL)
        return o->strict ? fail_node(r, n, ERR_NOT_FOUND, "there is no partial", n->name) : 0;
    if (r->partials == TEMPLATE_MAX_DEPTH)
        return fail_node(r, n, ERR_LIMIT, "partials are nested too deep:", n->name);
    char *whole = indented(text, n->indent != NULL ? n->indent : "");
    struct template_options inner = *o;
    inner.file = n->name;
    r->options = &inner;
    r->partials++;
    int rc = render_text(r, whole, strlen(whole));
    r->partials--;
    r->options = o;
    free(whole);
    return rc;
}

static int render_nodes(struct render *r, const struct node *nodes, int from, int to)
{
    int rc = 0;
    for (int i = from; i < to && rc == 0; i++) {
        const struct node *n = &nodes[i];
        if (++r->steps > OUTPUT_STEPS_MAX || !strbuf_ok(r->out))
            return err_set(r->err, ERR_LIMIT, "%s: the result is too large", r->options->file);
        switch (n->kind) {
        case TEXT:
            strbuf_add(r->out, n->text, n->len);
            break;
        case VARIABLE:
            rc = render_variable(r, n);
            break;
        case SECTION:
        case INVERTED:
            rc = render_section(r, nodes, i);
            i = n->end - 1;
            break;
        case PARTIAL:
            rc = render_partial(r, n);
            break;
        }
    }
    return rc;
}

static int render_text(struct render *r, const char *text, size_t len)
{
    struct parser ps = {.file = r->options->file,
                        .text = text,
                        .end = text + len,
                        .open = "{{",
                        .close = "}}",
                        .err = r->err};
    int rc = parse(&ps);
    if (rc == 0)
        rc = render_nodes(r, ps.nodes, 0, ps.count);
    nodes_free(ps.nodes, ps.count);
    return rc;
}

int template_render(const char *text, size_t len, const json_t *data,
                    const struct template_options *options, struct strbuf *out, struct err *err)
{
    struct err local = {0};
    struct template_options o = *options;
    struct render r = {.options = &o, .out = out, .err = err != NULL ? err : &local};
    if (o.file == NULL)
        o.file = "template";
    if (len > TEMPLATE_MAX_BYTES || memchr(text, '\0', len) != NULL)
        return err_set(r.err, ERR_LIMIT, "%s: more than %u bytes, or no text", o.file,
                       TEMPLATE_MAX_BYTES);
    r.stack[r.depth++] = data;
    int rc = render_text(&r, text, len);
    if (rc == 0 && !strbuf_ok(out))
        rc = err_set(r.err, ERR_LIMIT, "%s: the result is too large", o.file);
    return rc;
}
