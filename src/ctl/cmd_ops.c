/* rerun, hold, maintenance, sweep, release, power; logs, events, console. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "ctl/ctl.h"

enum {
    POWER_PATIENCE_MS = 32 * 60000, /* the daemon answers within 31 min (docs/api.md) */
    SWEEP_PATIENCE_MS = 2 * 3600 * 1000
};

/* POST {nodes: ARGS from `from`, key: value}. */
static json_t *tell(struct ctl *c, const char *path, int from, const char *key, const char *value,
                    int *rc)
{
    char *nodes = joined_args(c, from);
    json_t *body = json_pack("{s:s}", "nodes", nodes);
    free(nodes);
    if (key != NULL)
        (void)json_object_set_new(body, key, json_string(value));
    return request(c, "POST", path, body, rc);
}

static int print_told(struct ctl *c, json_t *answer, int rc)
{
    if (answer == NULL)
        return rc;
    if (c->json)
        rc = print_json(answer);
    else
        printf("%d node%s: %s\n", (int)json_array_size(json_object_get(answer, "nodes")),
               json_array_size(json_object_get(answer, "nodes")) == 1 ? "" : "s",
               text_of(answer, "text"));
    json_decref(answer);
    return rc;
}

int cmd_rerun(struct ctl *c)
{
    int rc = CTL_DONE;
    int64_t timeout = 0;
    struct err err = {0};
    if (opt(c, "stage") == NULL)
        return complain(CTL_INPUT, "rerun needs --stage STAGE");
    if (opt(c, "timeout") != NULL && clock_parse_duration(opt(c, "timeout"), &timeout, &err) < 0)
        return complain(CTL_INPUT, "--timeout: %s", err.text);
    bool wait = opt(c, "wait") != NULL;
    json_int_t after = wait ? last_event(c) : 0;
    if (after < 0)
        return CTL_FAILED;
    json_t *answer = tell(c, "/v1/rerun", 0, "stage", opt(c, "stage"), &rc);
    bool ok = answer != NULL;
    rc = print_told(c, answer, rc);
    if (!ok || !wait)
        return rc;
    char *nodes = joined_args(c, 0);
    rc = wait_for_nodes(c, nodes, after, timeout);
    free(nodes);
    return rc;
}

int cmd_hold(struct ctl *c)
{
    int rc = CTL_DONE;
    if (opt(c, "reason") == NULL)
        return complain(CTL_INPUT, "hold needs --reason TEXT");
    return print_told(c, tell(c, "/v1/hold", 0, "reason", opt(c, "reason"), &rc), rc);
}

int cmd_waive(struct ctl *c)
{
    int rc = CTL_DONE;
    if (opt(c, "stage") == NULL || opt(c, "reason") == NULL)
        return complain(CTL_INPUT, "waive needs --stage STAGE and --reason TEXT");
    char *nodes = joined_args(c, 0);
    json_t *body = json_pack("{s:s,s:s,s:s}", "nodes", nodes, "stage", opt(c, "stage"), "reason",
                             opt(c, "reason"));
    free(nodes);
    json_t *answer = request(c, "POST", "/v1/waive", body, &rc);
    return print_told(c, answer, rc);
}

int cmd_maintenance(struct ctl *c)
{
    int rc = CTL_DONE;
    bool end = opt(c, "end") != NULL;
    if (end && opt(c, "reason") != NULL)
        return complain(CTL_INPUT, "give --reason TEXT or --end, not both");
    if (!end && opt(c, "reason") == NULL)
        return complain(CTL_INPUT, "maintenance needs --reason TEXT");
    json_t *answer = end ? tell(c, "/v1/release", 0, NULL, NULL, &rc)
                         : tell(c, "/v1/maintenance", 0, "reason", opt(c, "reason"), &rc);
    return print_told(c, answer, rc);
}

/* Exit code: 1 when a node drifted, or could not be looked at. */
static int print_sweeps(struct ctl *c, json_t *answer)
{
    static const char *const headers[] = {"NODE", "RESULT", "DETAIL", NULL};
    int rc = CTL_DONE;
    struct table *t = table_new(headers);
    size_t i;
    json_t *n;
    json_array_foreach(json_object_get(answer, "nodes"), i, n)
    {
        const char *result = text_of(n, "result");
        table_add(t, text_of(n, "name"));
        table_add(t, result);
        table_add(t, text_of(n, "text"));
        if (strcmp(result, "clean") != 0 && strcmp(result, "workload") != 0)
            rc = CTL_FAILED;
    }
    if (c->json)
        (void)print_json(answer);
    table_print(t, c->json ? stderr : stdout);
    json_decref(answer);
    return rc;
}

int cmd_sweep(struct ctl *c)
{
    int rc = CTL_DONE;
    if (opt(c, "wait") == NULL) {
        json_t *answer = tell(c, "/v1/sweep", 0, NULL, NULL, &rc);
        return print_told(c, answer, rc);
    }
    char *nodes = joined_args(c, 0);
    json_t *body = json_pack("{s:s,s:b}", "nodes", nodes, "wait", 1);
    free(nodes);
    c->patience_ms = SWEEP_PATIENCE_MS;
    json_t *answer = request(c, "POST", "/v1/sweep", body, &rc);
    return answer != NULL ? print_sweeps(c, answer) : rc;
}

int cmd_release(struct ctl *c)
{
    int rc = CTL_DONE;
    json_t *answer = tell(c, "/v1/release", 0, NULL, NULL, &rc);
    return print_told(c, answer, rc);
}

int cmd_replace(struct ctl *c)
{
    int rc = CTL_DONE;
    size_t i;
    json_t *answer = tell(c, "/v1/replace", 0, NULL, NULL, &rc), *note;
    json_t *notes = json_incref(json_object_get(answer, "notes"));
    rc = print_told(c, answer, rc);
    json_array_foreach(notes, i, note)
    {
        if (!c->json)
            printf("%s\n", json_string_value(note));
    }
    json_decref(notes);
    return rc;
}

int cmd_power(struct ctl *c)
{
    static const char *const headers[] = {"NODE", "POWER", "DETAIL", NULL};
    int rc = CTL_DONE;
    c->patience_ms = POWER_PATIENCE_MS;
    json_t *answer = tell(c, "/v1/power", 1, "action", c->argv[0], &rc), *n;
    if (answer == NULL)
        return rc;
    struct table *t = table_new(headers);
    size_t i;
    json_array_foreach(json_object_get(answer, "nodes"), i, n)
    {
        bool ok = json_is_true(json_object_get(n, "ok"));
        table_add(t, text_of(n, "name"));
        table_add(t, text_of(n, "power"));
        table_add(t, ok ? "ok" : text_of(json_object_get(n, "error"), "text"));
        if (!ok)
            rc = CTL_FAILED;
    }
    if (c->json)
        (void)print_json(answer);
    table_print(t, c->json ? stderr : stdout);
    json_decref(answer);
    return rc;
}

/* ---- logs ---- */

int cmd_logs(struct ctl *c)
{
    int rc = CTL_DONE;
    char *name = clusterd_escape(c->argv[0]);
    char *plain = xasprintf("/v1/logs/%s", name);
    char *staged = with_query(plain, "stage", opt(c, "stage"));
    char *path = with_query(staged, "attempt", opt(c, "attempt"));
    json_t *answer = request(c, "GET", path, NULL, &rc), *e;
    free(path);
    free(staged);
    free(plain);
    free(name);
    if (answer == NULL)
        return rc;
    if (c->json) {
        rc = print_json(answer);
        json_decref(answer);
        return rc;
    }
    json_t *a = json_object_get(answer, "attempt");
    printf("# %s, stage %s, attempt %d: %s%s%s\n", text_of(answer, "node"), text_of(a, "stage"),
           (int)json_integer_value(json_object_get(a, "number")), text_of(a, "status"),
           text_of(a, "error")[0] ? ": " : "", text_of(a, "error"));
    size_t i;
    json_array_foreach(json_object_get(answer, "evidence"), i, e)
    {
        const char *text = text_of(e, "text");
        size_t len = strlen(text);
        printf("# %s, %s\n%s%s", text_of(e, "kind"), short_time(text_of(e, "at")), text,
               len > 0 && text[len - 1] != '\n' ? "\n" : "");
    }
    json_decref(answer);
    return rc;
}

/* ---- events ---- */

void print_event(const json_t *event)
{
    const char *actor = text_of(event, "actor");
    bool person = actor[0] && strcmp(actor, "engine") != 0 && strcmp(actor, "netboot") != 0;
    printf("%s  %-10s %-16s %s%s%s%s%s%s\n", short_time(text_of(event, "at")),
           text_of(event, "node")[0] ? text_of(event, "node") : "-", text_of(event, "kind"),
           text_of(event, "stage"), text_of(event, "stage")[0] ? ": " : "", text_of(event, "text"),
           person ? " (" : "", person ? actor : "", person ? ")" : "");
}

static int on_line(const char *line, size_t len, void *user)
{
    const struct ctl *c = user;
    if (c->json) {
        (void)fwrite(line, 1, len, stdout);
        putchar('\n');
    } else {
        json_t *event = json_loadb(line, len, 0, NULL);
        if (event != NULL)
            print_event(event);
        json_decref(event);
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

int cmd_events(struct ctl *c)
{
    int rc = CTL_DONE;
    struct clusterd_error error = {0};
    char *nodes = joined_args(c, 0);
    char *a = with_query("/v1/events", "nodes", nodes);
    char *b = with_query(a, "limit", opt(c, "limit"));
    char *d = with_query(b, "after", opt(c, "after"));
    if (opt(c, "follow") != NULL) {
        char *path = with_query(d, "follow", "1");
        if (clusterd_follow(client_of(c), path, on_line, c, &error) < 0 && !interrupted)
            rc = complain(error.exit_code, "%s", error.text);
        free(path);
    } else {
        json_t *answer = request(c, "GET", d, NULL, &rc), *e;
        size_t i;
        if (answer != NULL && c->json)
            rc = print_json(answer);
        json_array_foreach(c->json ? NULL : json_object_get(answer, "events"), i, e)
        {
            print_event(e);
        }
        json_decref(answer);
    }
    free(d);
    free(b);
    free(a);
    free(nodes);
    return rc;
}

/* ---- console ---- */

static int on_bytes(const char *data, size_t len, void *user)
{
    (void)user;
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, data, len);
        if (n <= 0)
            return 1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

int cmd_console(struct ctl *c)
{
    struct clusterd_error error = {0};
    char *name = clusterd_escape(c->argv[0]);
    char *path = xasprintf("/v1/console/%s", name);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "console of %s, read only; Ctrl-C ends it\n", c->argv[0]);
    int rc = CTL_DONE;
    if (clusterd_follow_bytes(client_of(c), path, on_bytes, NULL, &error) < 0 && !interrupted)
        rc = complain(error.exit_code, "%s", error.text);
    free(path);
    free(name);
    return rc;
}
