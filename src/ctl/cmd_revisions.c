/* history, diff, rollback: the specs that were applied before. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ctl/ctl.h"
#include "text/diff.h"

enum { DIFF_MAX = 64 << 20 };

/* ---- history ---- */

/* The next older row with the same files; 0: none of those listed. */
static json_int_t same_as(const json_t *rows, size_t at)
{
    const char *sha = text_of(json_array_get(rows, at), "sha256");
    for (size_t i = at + 1; i < json_array_size(rows); i++)
        if (sha[0] != '\0' && strcmp(text_of(json_array_get(rows, i), "sha256"), sha) == 0)
            return json_integer_value(json_object_get(json_array_get(rows, i), "id"));
    return 0;
}

int cmd_history(struct ctl *c)
{
    static const char *const headers[] = {"REVISION", "WHEN", "AUTHOR", "SUMMARY", NULL};
    int rc = CTL_DONE;
    char *path = with_query("/v1/revisions", "limit", opt(c, "limit"));
    json_t *answer = request(c, "GET", path, NULL, &rc), *row;
    free(path);
    if (answer == NULL)
        return rc;
    if (c->json) {
        rc = print_json(answer);
        json_decref(answer);
        return rc;
    }
    const json_t *rows = json_object_get(answer, "revisions");
    if (json_array_size(rows) == 0) {
        puts("no spec was ever applied");
        json_decref(answer);
        return rc;
    }
    struct table *t = table_new(headers);
    size_t i;
    json_array_foreach(rows, i, row)
    {
        char id[24], as[40] = "";
        json_int_t same = same_as(rows, i);
        (void)snprintf(id, sizeof id, "%lld",
                       (long long)json_integer_value(json_object_get(row, "id")));
        if (same != 0)
            (void)snprintf(as, sizeof as, "as revision %lld; ", (long long)same);
        char *summary = xasprintf("%s%s", as, text_of(row, "summary"));
        table_add(t, id);
        table_add(t, short_time(text_of(row, "at")));
        table_add(t, text_of(row, "author"));
        table_add(t, summary);
        free(summary);
    }
    table_print(t, stdout);
    json_decref(answer);
    return rc;
}

/* ---- diff ---- */

/* "3"; 0 after complaining. */
static json_int_t revision_arg(const char *text)
{
    char *end;
    errno = 0;
    long long id = strtoll(text, &end, 10);
    if (errno == 0 && *end == '\0' && id >= 1)
        return id;
    (void)complain(CTL_INPUT, "'%s' is no revision: a number of clusterctl history is needed",
                   text);
    return 0;
}

static json_t *get_revision(struct ctl *c, json_int_t id, int *rc)
{
    char *path = xasprintf("/v1/revisions/%lld", (long long)id);
    json_t *revision = request(c, "GET", path, NULL, rc);
    free(path);
    return revision;
}

static json_int_t newest_revision(struct ctl *c, int *rc)
{
    json_t *answer = request(c, "GET", "/v1/revisions?limit=1", NULL, rc);
    json_t *row = json_array_get(json_object_get(answer, "revisions"), 0);
    json_int_t id = json_integer_value(json_object_get(row, "id"));
    if (answer != NULL && id == 0)
        *rc = complain(4, "no spec was ever applied");
    json_decref(answer);
    return id;
}

/* The file of that path among `files`; the first one, the spec, answers to any name. */
static json_t *find_file(const json_t *files, const char *path, bool spec)
{
    size_t i;
    json_t *file;
    if (spec)
        return json_array_get(files, 0);
    json_array_foreach(files, i, file)
    {
        if (i > 0 && strcmp(text_of(file, "path"), path) == 0)
            return file;
    }
    return NULL;
}

struct comparison {
    const json_t *from, *to; /* revisions */
    json_t *rows;            /* {path, change, diff} */
    struct err err;
};

/* "path<TAB>revision 3, 2026-12-01 06:50:31": patch(1) takes the name up to the tab. */
static char *label(const json_t *file, const json_t *revision)
{
    return file == NULL ? xstrdup("/dev/null")
                        : xasprintf("%s\trevision %lld, %.19s", text_of(file, "path"),
                                    (long long)json_integer_value(json_object_get(revision, "id")),
                                    text_of(revision, "at"));
}

static struct diff_text text_with(const json_t *file, const char *name)
{
    const json_t *text = json_object_get(file, "text");
    if (text == NULL)
        return (struct diff_text){.name = name, .text = ""};
    return (struct diff_text){
        .name = name, .text = json_string_value(text), .len = json_string_length(text)};
}

static void compare_files(struct comparison *x, const json_t *a, const json_t *b)
{
    struct strbuf out;
    strbuf_init(&out, DIFF_MAX);
    char *from_name = label(a, x->from), *to_name = label(b, x->to);
    struct diff_text from = text_with(a, from_name), to = text_with(b, to_name);
    if (diff_unified(&from, &to, &out, &x->err) == 0 && !strbuf_ok(&out))
        (void)err_set(&x->err, ERR_LIMIT, "the difference has more than %d MiB", DIFF_MAX >> 20);
    if (x->err.code == ERR_OK && (out.len > 0 || a == NULL || b == NULL))
        (void)json_array_append_new(
            x->rows, json_pack("{s:s,s:s,s:s%}", "path", text_of(b != NULL ? b : a, "path"),
                               "change", a == NULL ? "added" : (b == NULL ? "removed" : "changed"),
                               "diff", out.data, out.len));
    strbuf_done(&out);
    free(from_name);
    free(to_name);
}

static void compare(struct comparison *x)
{
    const json_t *was = json_object_get(x->from, "files"), *is = json_object_get(x->to, "files");
    size_t i;
    json_t *file;
    json_array_foreach(is, i, file)
    {
        compare_files(x, find_file(was, text_of(file, "path"), i == 0), file);
    }
    json_array_foreach(was, i, file)
    {
        if (find_file(is, text_of(file, "path"), i == 0) == NULL)
            compare_files(x, file, NULL);
    }
}

static int print_comparison(struct ctl *c, const struct comparison *x)
{
    size_t i;
    json_t *row;
    if (x->err.code != ERR_OK)
        return complain(CTL_FAILED, "%s", x->err.text);
    if (c->json) {
        json_t *out = json_pack("{s:O,s:O,s:O}", "from", json_object_get(x->from, "id"), "to",
                                json_object_get(x->to, "id"), "files", x->rows);
        (void)print_json(out);
        json_decref(out);
    } else {
        json_array_foreach(x->rows, i, row)
        {
            const json_t *diff = json_object_get(row, "diff");
            (void)fwrite(json_string_value(diff), 1, json_string_length(diff), stdout);
        }
    }
    return opt(c, "exit-code") != NULL && json_array_size(x->rows) > 0 ? CTL_PENDING : CTL_DONE;
}

int cmd_diff(struct ctl *c)
{
    int rc = CTL_DONE;
    json_int_t from = revision_arg(c->argv[0]);
    if (from == 0)
        return CTL_INPUT;
    json_int_t to = c->argc > 1 ? revision_arg(c->argv[1]) : newest_revision(c, &rc);
    if (to == 0)
        return rc != CTL_DONE ? rc : CTL_INPUT;
    json_t *was = get_revision(c, from, &rc), *is = was != NULL ? get_revision(c, to, &rc) : NULL;
    if (is != NULL) {
        struct comparison x = {.from = was, .to = is, .rows = json_array()};
        compare(&x);
        rc = print_comparison(c, &x);
        json_decref(x.rows);
    }
    json_decref(was);
    json_decref(is);
    return rc;
}

/* ---- rollback ---- */

/* The plan of going back, shown. NULL after setting *rc. */
static json_t *show_plan(struct ctl *c, const json_t *body, int *rc)
{
    bool only = opt(c, "dry-run") != NULL;
    json_t *plan = request(c, "POST", "/v1/plan", json_deep_copy(body), rc);
    if (plan == NULL)
        return NULL;
    if (only)
        (void)print_problems(stderr, json_object_get(plan, "warnings"));
    if (!c->json)
        print_plan(plan);
    else if (only)
        (void)print_json(plan);
    if (text_of(plan, "refused")[0] == '\0')
        return plan;
    (void)fflush(stdout); /* the plan comes first */
    *rc = complain(5, "%s", text_of(plan, "refused"));
    json_decref(plan);
    return NULL;
}

int cmd_rollback(struct ctl *c)
{
    int rc = CTL_DONE;
    json_int_t id = revision_arg(c->argv[0]);
    if (id == 0)
        return CTL_INPUT;
    json_t *body = json_pack("{s:I}", "revision", id);
    add_order(c, body);
    json_t *plan = show_plan(c, body, &rc);
    if (plan == NULL) {
        json_decref(body);
        return rc;
    }
    const char *hash = text_of(plan, "hash");
    if (opt(c, "dry-run") == NULL) {
        const char *wanted = opt(c, "plan") != NULL ? opt(c, "plan") : hash;
        (void)json_object_set_new(body, "plan", json_string(wanted));
        rc = apply_body(c, body);
    } else {
        json_decref(body);
        if (!c->json)
            printf("plan %.12s; carry it out with: clusterctl rollback %lld --plan %s\n", hash,
                   (long long)id, hash);
    }
    json_decref(plan);
    return rc;
}
