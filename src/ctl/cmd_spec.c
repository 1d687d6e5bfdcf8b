/* lint, plan, apply. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "ctl/ctl.h"
#include "ctl/rehearse.h"
#include "model/spec.h"

enum { PROFILE_MAX = 1 << 20 };

bool load_profiles(const char *dir, struct bundle *b)
{
    struct dirent **names;
    int count = scandir(dir, &names, NULL, alphasort);
    bool ok = count >= 0;
    for (int i = 0; i < count; i++) {
        size_t len = strlen(names[i]->d_name);
        if (len > 5 && names[i]->d_name[0] != '.' &&
            strcmp(names[i]->d_name + len - 5, ".yaml") == 0) {
            char *path = xasprintf("%s/%s", dir, names[i]->d_name), *text;
            struct err err = {0};
            if (fs_read(path, PROFILE_MAX, &text, &len, &err) < 0) {
                (void)complain(CTL_INPUT, "%s", err.text);
                ok = false;
            } else {
                bundle_add(b, path, text, len);
                free(text);
            }
            free(path);
        }
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    if (b->count == 0)
        (void)complain(CTL_INPUT, "no profiles in %s: say where they are with --profiles DIR", dir);
    return ok && b->count > 0;
}

json_t *diags_json(const struct diags *d)
{
    json_t *rows = json_array();
    for (int i = 0; i < d->count; i++)
        (void)json_array_append_new(
            rows, json_pack("{s:s,s:i,s:i,s:s,s:s}", "file", d->items[i].file, "line",
                            d->items[i].line, "column", d->items[i].column, "level",
                            d->items[i].level == DIAG_ERROR ? "error" : "warning", "text",
                            d->items[i].text));
    return json_pack("{s:o}", "problems", rows);
}

static int lint(struct ctl *c, const struct bundle *spec_files, const struct bundle *profile_files)
{
    struct diags d;
    diags_init(&d);
    struct profiles *profiles = profiles_parse(profile_files, &d);
    struct spec *spec = spec_parse(spec_files, profiles, &d);
    if (spec != NULL)
        spec_lint(spec, &d);
    diags_sort(&d);
    json_t *problems = diags_json(&d);
    if (c->json)
        (void)print_json(problems);
    else
        (void)print_problems(stdout, json_object_get(problems, "problems"));
    if (!c->json && d.errors == 0 && spec != NULL)
        printf("%s: %d nodes in %d classes, no errors\n", spec_files->files[0].path,
               spec->node_count, spec->class_count);
    int rc = d.errors > 0 ? CTL_INPUT : CTL_DONE;
    json_decref(problems);
    spec_free(spec);
    profiles_free(profiles);
    diags_done(&d);
    return rc;
}

int cmd_lint(struct ctl *c)
{
    struct bundle spec_files, profile_files;
    struct err err = {0};
    json_t *body = load_spec(c->argv[0]);
    if (body == NULL)
        return CTL_INPUT;
    bundle_init(&spec_files);
    bundle_init(&profile_files);
    char *dir = data_path(opt(c, "profiles"), "profiles");
    int rc = CTL_INPUT;
    if (bundle_from_json(&spec_files, json_object_get(body, "files"), &err) < 0)
        (void)complain(CTL_INPUT, "%s", err.text);
    else if (load_profiles(dir, &profile_files))
        rc = lint(c, &spec_files, &profile_files);
    free(dir);
    bundle_done(&spec_files);
    bundle_done(&profile_files);
    json_decref(body);
    return rc;
}

/* ---- plan ---- */

void print_plan(const json_t *plan)
{
    size_t i, k;
    json_t *node, *stage, *note;
    json_array_foreach(json_object_get(plan, "nodes"), i, node)
    {
        const char *action = text_of(node, "action");
        json_t *stages = json_object_get(node, "stages"), *notes = json_object_get(node, "notes");
        bool none = strcmp(action, "none") == 0;
        /* of a node with nothing to do, why its disk stays as it is is worth a word */
        if (json_array_size(stages) == 0 &&
            (strcmp(action, "left out") == 0 || (none && json_array_size(notes) == 0)))
            continue;
        printf("%s: %s\n", text_of(node, "name"), none ? "nothing to do" : action);
        json_array_foreach(stages, k, stage)
        {
            char took[CLOCK_TEXT_SIZE] = "";
            const json_t *seconds = json_object_get(stage, "seconds");
            if (json_is_integer(seconds))
                (void)clock_format_duration(json_integer_value(seconds) * 1000, took);
            printf("  %-14s %s%s%s%s%s%s\n", text_of(stage, "name"), text_of(stage, "why"),
                   json_is_true(json_object_get(stage, "wipes")) ? "  [OVERWRITES THE DISK]" : "",
                   json_is_true(json_object_get(stage, "reboots")) ? "  [reboots]" : "",
                   took[0] ? "  [about " : "", took, took[0] ? "]" : "");
        }
        json_array_foreach(notes, k, note)
        {
            printf("  note: %s\n", json_string_value(note));
        }
    }
    printf("%s\n", text_of(plan, "summary"));
    json_t *feed;
    json_array_foreach(json_object_get(plan, "feeds"), i, feed)
    {
        printf("feed %s: at most %.1f kW", text_of(feed, "name"),
               json_real_value(json_object_get(feed, "peak_kw")));
        double rated = json_real_value(json_object_get(feed, "rated_kw"));
        if (rated > 0)
            printf(" of %.1f kW", rated);
        putchar('\n');
    }
}

void add_order(const struct ctl *c, json_t *body)
{
    static const char *const names[] = {"reinstall", "limit", "only", "from"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (opt(c, names[i]) != NULL)
            (void)json_object_set_new(body, names[i], json_string(opt(c, names[i])));
}

int cmd_plan(struct ctl *c)
{
    int rc = CTL_DONE;
    json_t *body = load_spec(c->argv[0]);
    if (body == NULL)
        return CTL_INPUT;
    add_order(c, body);
    json_t *plan = request(c, "POST", "/v1/plan", body, &rc);
    if (plan == NULL)
        return rc;
    (void)print_problems(stderr, json_object_get(plan, "warnings"));
    if (c->json)
        rc = print_json(plan);
    else
        print_plan(plan);
    if (!c->json)
        printf("plan %.12s; carry it out with: clusterctl apply %s --plan %s\n",
               text_of(plan, "hash"), c->argv[0], text_of(plan, "hash"));
    if (opt(c, "exit-code") != NULL && json_is_true(json_object_get(plan, "changes")))
        rc = CTL_PENDING;
    json_decref(plan);
    return rc;
}

/* ---- apply ---- */

static int read_timeout(const struct ctl *c, int64_t *ret)
{
    struct err err = {0};
    *ret = 0;
    if (opt(c, "timeout") == NULL || clock_parse_duration(opt(c, "timeout"), ret, &err) == 0)
        return CTL_DONE;
    return complain(CTL_INPUT, "--timeout: %s", err.text);
}

int apply_body(struct ctl *c, json_t *body)
{
    int rc = CTL_DONE;
    int64_t timeout;
    bool wait = opt(c, "wait") != NULL;
    if (read_timeout(c, &timeout) != CTL_DONE) {
        json_decref(body);
        return CTL_INPUT;
    }
    json_int_t after = wait ? last_event(c) : 0;
    if (after < 0) {
        json_decref(body);
        return CTL_FAILED;
    }
    json_t *plan = request(c, "POST", "/v1/apply", body, &rc);
    if (plan == NULL)
        return rc;
    (void)print_problems(stderr, json_object_get(plan, "warnings"));
    if (c->json && !wait)
        rc = print_json(plan);
    else if (!c->json)
        printf("revision %d: %s\n", (int)json_integer_value(json_object_get(plan, "revision")),
               text_of(plan, "summary"));
    json_decref(plan);
    return wait ? wait_for_nodes(c, NULL, after, timeout) : rc;
}

int cmd_apply(struct ctl *c)
{
    json_t *body = load_spec(c->argv[0]);
    if (body == NULL)
        return CTL_INPUT;
    add_order(c, body);
    if (opt(c, "plan") != NULL)
        (void)json_object_set_new(body, "plan", json_string(opt(c, "plan")));
    return apply_body(c, body);
}
