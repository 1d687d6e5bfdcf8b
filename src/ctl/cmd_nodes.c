/* nodes, show, why, stages, status, pending. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "ctl/ctl.h"

/* GET path?nodes=ARGS; prints the JSON when that is asked for, and then returns NULL with *rc 0. */
static json_t *get_for_args(struct ctl *c, const char *path, int *rc)
{
    char *nodes = joined_args(c, 0);
    char *whole = with_query(path, "nodes", nodes);
    json_t *answer = request(c, "GET", whole, NULL, rc);
    free(whole);
    free(nodes);
    if (answer != NULL && c->json) {
        *rc = print_json(answer);
        json_decref(answer);
        return NULL;
    }
    return answer;
}

int cmd_nodes(struct ctl *c)
{
    static const char *const headers[] = {"NODE", "STATE", "NOW",    "STAGE", "POWER",
                                          "RACK", "SINCE", "DETAIL", NULL};
    int rc = CTL_DONE;
    json_t *answer = get_for_args(c, "/v1/nodes", &rc), *n;
    if (answer == NULL)
        return rc;
    struct table *t = table_new(headers);
    size_t i;
    json_array_foreach(json_object_get(answer, "nodes"), i, n)
    {
        const char *admin = text_of(n, "admin");
        bool held = strcmp(admin, "active") != 0; /* or a swap is suspected */
        bool failed = strcmp(text_of(n, "stage_status"), "failed") == 0;
        bool running = strcmp(text_of(n, "operation"), "running") == 0;
        bool idle = strcmp(text_of(n, "operation"), "idle") == 0;
        table_add(t, text_of(n, "name"));
        table_add(t, text_of(n, "state"));
        table_add(t, held ? admin : failed && !running ? "failed" : text_of(n, "operation"));
        table_add(t, idle ? "" : text_of(n, "stage"));
        table_add(t, text_of(json_object_get(n, "power"), "observed"));
        table_add(t, text_of(n, "rack"));
        table_add(t, short_time(text_of(n, "since")));
        char waived[80] = "";
        if (json_array_size(json_object_get(n, "waived")) > 0)
            (void)snprintf(waived, sizeof waived, "waived: %.50s%s",
                           json_string_value(json_array_get(json_object_get(n, "waived"), 0)),
                           json_array_size(json_object_get(n, "waived")) > 1 ? " and others" : "");
        table_add(t, running ? text_of(n, "step") : idle && !held ? waived : text_of(n, "reason"));
    }
    table_print(t, stdout);
    json_decref(answer);
    return rc;
}

/* ---- show ---- */

static void print_stages(const json_t *stages)
{
    static const char *const headers[] = {"STAGE", "STATUS", "PASSED", "ATTEMPT", "DETAIL", NULL};
    struct table *t = table_new(headers);
    size_t i;
    json_t *s;
    json_array_foreach(stages, i, s)
    {
        char attempt[24] = "";
        if (json_is_integer(json_object_get(s, "attempt")))
            (void)snprintf(attempt, sizeof attempt, "%d",
                           (int)json_integer_value(json_object_get(s, "attempt")));
        const char *reason = text_of(s, "reason");
        table_add(t, text_of(s, "name"));
        table_add(t, text_of(s, "status"));
        table_add(t, short_time(text_of(s, "passed_at")));
        table_add(t, attempt);
        table_add(t, reason[0] ? reason : text_of(s, "proves"));
    }
    table_print(t, stdout);
}

static void print_components(const json_t *rows)
{
    static const char *const headers[] = {"PART",     "SLOT",   "IDENTITY", "MODEL",
                                          "FIRMWARE", "DETAIL", NULL};
    static const char *const keys[] = {"kind", "slot", "identity", "model", "firmware", "detail"};
    struct table *t = table_new(headers);
    size_t i;
    json_t *r;
    json_array_foreach(rows, i, r)
    {
        for (size_t k = 0; k < ARRAY_LEN(keys); k++)
            table_add(t, text_of(r, keys[k]));
    }
    table_print(t, stdout);
}

static void print_measurements(const json_t *rows)
{
    static const char *const headers[] = {"MEASURED", "VALUE", "LIMIT", "VERDICT",
                                          "PEER",     "STAGE", "AT",    NULL};
    struct table *t = table_new(headers);
    size_t i;
    json_t *r;
    json_array_foreach(rows, i, r)
    {
        char value[60], limit[40] = "";
        (void)snprintf(value, sizeof value, "%.4g %s", json_real_value(json_object_get(r, "value")),
                       text_of(r, "unit"));
        if (json_is_real(json_object_get(r, "limit")))
            (void)snprintf(limit, sizeof limit, "%.4g",
                           json_real_value(json_object_get(r, "limit")));
        table_add(t, text_of(r, "name"));
        table_add(t, value);
        table_add(t, limit);
        table_add(t, text_of(r, "verdict"));
        table_add(t, text_of(r, "peer"));
        table_add(t, text_of(r, "stage"));
        table_add(t, short_time(text_of(r, "at")));
    }
    table_print(t, stdout);
}

static void print_attempts(const json_t *rows)
{
    static const char *const headers[] = {"ATTEMPT", "STAGE",  "STATUS", "STARTED",
                                          "ENDED",   "DETAIL", NULL};
    struct table *t = table_new(headers);
    size_t i;
    json_t *r;
    json_array_foreach(rows, i, r)
    {
        char id[24];
        (void)snprintf(id, sizeof id, "%d", (int)json_integer_value(json_object_get(r, "id")));
        const char *error = text_of(r, "error");
        table_add(t, id);
        table_add(t, text_of(r, "stage"));
        table_add(t, text_of(r, "status"));
        table_add(t, short_time(text_of(r, "started_at")));
        table_add(t, short_time(text_of(r, "ended_at")));
        table_add(t, error[0] ? error : text_of(r, "why"));
    }
    table_print(t, stdout);
}

static void print_sweep(const json_t *s)
{
    const char *at = text_of(s, "at"), *next = text_of(s, "next_at");
    if (at[0] != '\0')
        printf("swept %s: %s, %s", short_time(at), text_of(s, "result"), text_of(s, "text"));
    else if (next[0] != '\0')
        printf("not swept yet");
    if (json_is_string(json_object_get(s, "workload")))
        printf("; a workload is running since %s", text_of(s, "workload_since"));
    if (next[0] != '\0')
        printf("; next at %s", short_time(next));
    if (at[0] != '\0' || next[0] != '\0')
        putchar('\n');
}

int cmd_show(struct ctl *c)
{
    int rc = CTL_DONE;
    char *name = clusterd_escape(c->argv[0]);
    char *path = xasprintf("/v1/nodes/%s", name);
    json_t *n = request(c, "GET", path, NULL, &rc);
    free(path);
    free(name);
    if (n == NULL)
        return rc;
    if (c->json) {
        rc = print_json(n);
        json_decref(n);
        return rc;
    }
    printf("%s: %s, %s%s%s\n", text_of(n, "name"), text_of(n, "state"), text_of(n, "operation"),
           text_of(n, "reason")[0] ? ": " : "", text_of(n, "reason"));
    printf("class %s, profile %s, rack %s, address %s, BMC %s, serial %s, power %s\n",
           text_of(n, "class"), text_of(n, "profile"), text_of(n, "rack"), text_of(n, "address"),
           text_of(n, "bmc"), text_of(n, "serial"),
           text_of(json_object_get(n, "power"), "observed"));
    print_sweep(json_object_get(n, "sweep"));
    putchar('\n');
    print_stages(json_object_get(n, "stages"));
    putchar('\n');
    print_components(json_object_get(n, "components"));
    putchar('\n');
    print_measurements(json_object_get(n, "measurements"));
    putchar('\n');
    print_attempts(json_object_get(n, "attempts"));
    json_decref(n);
    return rc;
}

/* ---- why ---- */

static void print_why(const json_t *n)
{
    char age[CLOCK_TEXT_SIZE];
    size_t i;
    json_t *can;
    printf("%s (%s): %s\n", text_of(n, "name"), text_of(n, "state"), text_of(n, "doing"));
    if (text_of(n, "because")[0])
        printf("  because   %s\n", text_of(n, "because"));
    if (text_of(n, "evidence")[0])
        printf(
            "  evidence  %s (%s ago)\n", text_of(n, "evidence"),
            clock_format_duration(json_integer_value(json_object_get(n, "evidence_age_ms")), age));
    if (text_of(n, "next")[0])
        printf("  next      %s%s%s\n", text_of(n, "next"), text_of(n, "next_at")[0] ? ", at " : "",
               short_time(text_of(n, "next_at")));
    json_array_foreach(json_object_get(n, "can"), i, can)
    {
        printf("  %s   %s\n", i == 0 ? "you can" : "       ", json_string_value(can));
    }
}

int cmd_why(struct ctl *c)
{
    enum { FEW = 4 };
    int rc = CTL_DONE;
    json_t *answer = get_for_args(c, "/v1/why", &rc), *row;
    if (answer == NULL)
        return rc;
    json_t *nodes = json_object_get(answer, "nodes");
    size_t i;
    if (json_array_size(nodes) <= FEW) {
        json_array_foreach(nodes, i, row)
        {
            print_why(row);
        }
    } else {
        json_array_foreach(json_object_get(answer, "groups"), i, row)
        {
            printf("%s: %s\n", text_of(row, "nodes"), text_of(row, "because"));
        }
    }
    json_decref(answer);
    return rc;
}

/* ---- stages ---- */

static int print_graph(struct ctl *c)
{
    int rc = CTL_DONE;
    json_t *g = request(c, "GET", "/v1/graph", NULL, &rc), *row;
    if (g == NULL)
        return rc;
    if (c->json) {
        rc = print_json(g);
        json_decref(g);
        return rc;
    }
    size_t i;
    puts("digraph stage {");
    json_array_foreach(json_object_get(g, "states"), i, row)
    {
        printf("    \"%s\" [shape=%s, tooltip=\"%s\"];\n", text_of(row, "name"),
               json_is_true(json_object_get(row, "satisfied")) ? "doublecircle" : "ellipse",
               text_of(row, "meaning"));
    }
    json_array_foreach(json_object_get(g, "transitions"), i, row)
    {
        printf("    \"%s\" -> \"%s\" [label=\"%s\"];\n", text_of(row, "from"), text_of(row, "to"),
               text_of(row, "event"));
    }
    puts("}");
    json_decref(g);
    return rc;
}

int cmd_stages(struct ctl *c)
{
    int rc = CTL_DONE;
    if (opt(c, "graph") != NULL)
        return print_graph(c);
    json_t *answer = get_for_args(c, "/v1/stages", &rc), *n;
    if (answer == NULL)
        return rc;
    size_t i;
    json_array_foreach(json_object_get(answer, "nodes"), i, n)
    {
        printf("%s%s\n", i > 0 ? "\n" : "", text_of(n, "name"));
        print_stages(json_object_get(n, "stages"));
    }
    json_decref(answer);
    return rc;
}

/* ---- status, pending ---- */

static double kw_of(const json_t *feed, const char *key)
{
    return (double)json_integer_value(json_object_get(feed, key)) / 1000;
}

static void print_feeds(const json_t *feeds)
{
    size_t i;
    json_t *f;
    json_array_foreach(feeds, i, f)
    {
        int waiting = (int)json_integer_value(json_object_get(f, "waiting"));
        int unknown = (int)json_integer_value(json_object_get(f, "unknown"));
        printf("feed %-14s %.4g", text_of(f, "name"), kw_of(f, "reserved_w"));
        if (json_is_integer(json_object_get(f, "usable_w")))
            printf(" of %.4g", kw_of(f, "usable_w"));
        printf(" kW reserved, %.4g at most so far", kw_of(f, "peak_reserved_w"));
        if (waiting > 0)
            printf(", %d nodes wait", waiting);
        if (unknown > 0)
            printf(", %d of unknown power counted as idle", unknown);
        putchar('\n');
    }
}

static void print_sweep_counts(const json_t *s)
{
    static const char *const keys[] = {"drifted", "unreachable", "workload", "running"};
    int planned = (int)json_integer_value(json_object_get(s, "planned")), any = planned;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        any += (int)json_integer_value(json_object_get(s, keys[i]));
    if (any == 0)
        return;
    printf("sweeps: %d planned", planned);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        printf(", %d %s", (int)json_integer_value(json_object_get(s, keys[i])),
               strcmp(keys[i], "workload") == 0 ? "with a workload" : keys[i]);
    putchar('\n');
}

static void print_hooks(const json_t *hooks)
{
    size_t i;
    json_t *h;
    json_array_foreach(hooks, i, h)
    {
        printf("hook %-14s %d events behind", text_of(h, "name"),
               (int)json_integer_value(json_object_get(h, "behind")));
        if (text_of(h, "last_error")[0])
            printf(": %s", text_of(h, "last_error"));
        if (text_of(h, "next_try_at")[0])
            printf("; next try at %s", text_of(h, "next_try_at"));
        putchar('\n');
    }
}

int cmd_status(struct ctl *c)
{
    int rc = CTL_DONE;
    json_t *s = request(c, "GET", "/v1/status", NULL, &rc), *value;
    if (s == NULL)
        return rc;
    if (c->json) {
        rc = print_json(s);
        json_decref(s);
        return rc;
    }
    json_t *nodes = json_object_get(s, "nodes");
    const char *word;
    printf("clusterd %s, cluster %s, revision %d\n", text_of(s, "version"),
           text_of(s, "cluster")[0] ? text_of(s, "cluster") : "-",
           (int)json_integer_value(json_object_get(s, "revision")));
    printf("nodes: %d, running %d, failed %d, held %d, in maintenance %d\n",
           (int)json_integer_value(json_object_get(nodes, "total")),
           (int)json_integer_value(json_object_get(nodes, "running")),
           (int)json_integer_value(json_object_get(nodes, "failed")),
           (int)json_integer_value(json_object_get(nodes, "held")),
           (int)json_integer_value(json_object_get(nodes, "maintenance")));
    json_object_foreach(json_object_get(nodes, "by_state"), word, value)
    {
        printf("  %-14s %d\n", word, (int)json_integer_value(value));
    }
    json_t *netboot = json_object_get(s, "netboot");
    if (netboot != NULL && !json_is_null(netboot))
        printf("network boot: DHCP %s%s%s, %d artefacts\n", text_of(netboot, "dhcp"),
               text_of(netboot, "text")[0] ? ": " : "", text_of(netboot, "text"),
               (int)json_integer_value(json_object_get(netboot, "artefacts")));
    print_sweep_counts(json_object_get(s, "sweeps"));
    print_feeds(json_object_get(s, "feeds"));
    print_hooks(json_object_get(s, "hooks"));
    if (text_of(s, "fault")[0])
        printf("FAULT: %s\n", text_of(s, "fault"));
    json_decref(s);
    return rc;
}

int cmd_pending(struct ctl *c)
{
    static const char *const headers[] = {"MAC",   "SERIAL", "UUID",  "ADDRESS",
                                          "FIRST", "LAST",   "TIMES", NULL};
    int rc = CTL_DONE;
    json_t *answer = request(c, "GET", "/v1/pending", NULL, &rc), *p;
    if (answer == NULL)
        return rc;
    if (c->json) {
        rc = print_json(answer);
        json_decref(answer);
        return rc;
    }
    struct table *t = table_new(headers);
    size_t i;
    json_array_foreach(json_object_get(answer, "pending"), i, p)
    {
        char times[24];
        (void)snprintf(times, sizeof times, "%d",
                       (int)json_integer_value(json_object_get(p, "times")));
        table_add(t, text_of(p, "mac"));
        table_add(t, text_of(p, "serial"));
        table_add(t, text_of(p, "uuid"));
        table_add(t, text_of(p, "address"));
        table_add(t, short_time(text_of(p, "first_seen")));
        table_add(t, short_time(text_of(p, "last_seen")));
        table_add(t, times);
    }
    if (table_rows(t) == 0)
        puts("no unknown machine asked to boot");
    else
        table_print(t, stdout);
    json_decref(answer);
    return rc;
}
