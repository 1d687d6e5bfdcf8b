/* nodeset and render: what needs no daemon. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "base/nodeset.h"
#include "ctl/ctl.h"
#include "text/template.h"

enum { INPUT_MAX = 16 << 20, PARTIALS_MAX = 256 };

/* Standard input, at most INPUT_MAX bytes. NULL after complaining. */
static char *read_input(void)
{
    struct strbuf sb;
    char piece[65536];
    size_t n;
    strbuf_init(&sb, INPUT_MAX);
    while ((n = fread(piece, 1, sizeof piece, stdin)) > 0)
        strbuf_add(&sb, piece, n);
    bool ok = strbuf_ok(&sb) && !ferror(stdin);
    char *text = strbuf_take(&sb);
    strbuf_done(&sb);
    if (ok)
        return text;
    (void)complain(CTL_INPUT, "standard input cannot be read, or has more than %d bytes",
                   INPUT_MAX);
    free(text);
    return NULL;
}

/* ---- nodeset ---- */

/* Words of standard input become one expression. */
static char *words_to_expression(char *text)
{
    struct strbuf sb;
    char *save = NULL;
    strbuf_init(&sb, INPUT_MAX);
    for (char *w = strtok_r(text, " \t\r\n", &save); w != NULL;
         w = strtok_r(NULL, " \t\r\n", &save))
        strbuf_addf(&sb, "%s%s", sb.len ? "," : "", w);
    char *out = strbuf_take(&sb);
    strbuf_done(&sb);
    return out;
}

static void print_separated(const struct nodeset *set, const char *separator)
{
    for (int i = 0; i < nodeset_count(set); i++) {
        if (i > 0)
            fputs(separator, stdout);
        fputs(nodeset_at(set, i), stdout);
    }
    putchar('\n');
}

static void print_set(struct ctl *c, const struct nodeset *set)
{
    struct strbuf folded;
    strbuf_init(&folded, INPUT_MAX);
    nodeset_fold(set, &folded);
    const char *separator = opt(c, "separator") != NULL ? opt(c, "separator") : " ";
    if (c->json) {
        json_t *names = json_array();
        for (int i = 0; i < nodeset_count(set); i++)
            (void)json_array_append_new(names, json_string(nodeset_at(set, i)));
        json_t *o = json_pack("{s:s,s:i,s:o}", "folded", folded.data, "count", nodeset_count(set),
                              "nodes", names);
        (void)print_json(o);
        json_decref(o);
    } else if (opt(c, "count") != NULL) {
        printf("%d\n", nodeset_count(set));
    } else if (opt(c, "fold") != NULL) {
        printf("%s\n", folded.data);
    } else {
        print_separated(set, strcmp(separator, "\\n") == 0 ? "\n" : separator);
    }
    strbuf_done(&folded);
}

int cmd_nodeset(struct ctl *c)
{
    struct err err = {0};
    char *expression;
    if (c->argc > 0) {
        expression = joined_args(c, 0);
    } else {
        char *input = read_input();
        if (input == NULL)
            return CTL_INPUT;
        expression = words_to_expression(input);
        free(input);
    }
    struct nodeset *set = nodeset_parse(expression, &err);
    free(expression);
    if (set == NULL)
        return complain(CTL_INPUT, "%s", err.text);
    print_set(c, set);
    nodeset_free(set);
    return CTL_DONE;
}

/* ---- render ---- */

struct partials {
    char *dir;
    char *texts[PARTIALS_MAX];
    char *names[PARTIALS_MAX];
    int count;
};

static const char *find_partial(const char *name, void *user)
{
    struct partials *p = user;
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->names[i], name) == 0)
            return p->texts[i];
    char *with_end = xasprintf("%s.mustache", name), *path = NULL, *text = NULL;
    size_t len;
    bool found = false;
    if (fs_join(p->dir, with_end, &path, NULL) == 0)
        found = fs_read(path, TEMPLATE_MAX_BYTES, &text, &len, NULL) == 0;
    free(path);
    path = NULL;
    if (!found && fs_join(p->dir, name, &path, NULL) == 0)
        found = fs_read(path, TEMPLATE_MAX_BYTES, &text, &len, NULL) == 0;
    free(path);
    free(with_end);
    if (!found || p->count == PARTIALS_MAX) {
        free(found ? text : NULL);
        return NULL;
    }
    p->names[p->count] = xstrdup(name);
    p->texts[p->count] = text;
    return p->texts[p->count++];
}

static json_t *render_values(struct ctl *c, int *rc)
{
    json_error_t jerr;
    const char *node = opt(c, "node"), *data = opt(c, "data");
    if ((node == NULL) == (data == NULL)) {
        *rc = complain(CTL_INPUT, "render needs --node NODE or --data FILE");
        return NULL;
    }
    if (node != NULL) {
        char *name = clusterd_escape(node);
        char *path = xasprintf("/v1/vars/%s", name);
        json_t *answer = request(c, "GET", path, NULL, rc);
        free(path);
        free(name);
        return answer;
    }
    char *text = NULL;
    size_t len;
    struct err err = {0};
    if (strcmp(data, "-") == 0) {
        text = read_input();
    } else if (fs_read(data, INPUT_MAX, &text, &len, &err) < 0) {
        (void)complain(CTL_INPUT, "%s", err.text);
        text = NULL;
    }
    *rc = CTL_INPUT;
    if (text == NULL)
        return NULL;
    json_t *value = json_loads(text, JSON_DECODE_ANY, &jerr);
    free(text);
    if (value == NULL)
        *rc = complain(CTL_INPUT, "%s:%d:%d: %s", data, jerr.line, jerr.column, jerr.text);
    return value;
}

int cmd_render(struct ctl *c)
{
    int rc = CTL_DONE;
    char *text;
    size_t len;
    struct err err = {0};
    if (fs_read(c->argv[0], TEMPLATE_MAX_BYTES, &text, &len, &err) < 0)
        return complain(CTL_INPUT, "%s", err.text);
    json_t *values = render_values(c, &rc);
    if (values == NULL) {
        free(text);
        return rc;
    }
    struct partials partials = {.dir = fs_dirname(c->argv[0])};
    struct template_options o = {.file = c->argv[0],
                                 .strict = opt(c, "strict") != NULL || opt(c, "node") != NULL,
                                 .partial = find_partial,
                                 .user = &partials};
    struct strbuf out;
    strbuf_init(&out, INPUT_MAX);
    rc = CTL_DONE;
    if (template_render(text, len, values, &o, &out, &err) < 0)
        rc = complain(CTL_INPUT, "%s", err.text);
    else
        (void)fwrite(out.data, 1, out.len, stdout);
    strbuf_done(&out);
    for (int i = 0; i < partials.count; i++) {
        free(partials.names[i]);
        free(partials.texts[i]);
    }
    free(partials.dir);
    json_decref(values);
    free(text);
    return rc;
}
