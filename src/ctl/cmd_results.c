/* results: what nodes reached with each other in group steps. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ctl/ctl.h"

static void add_figure(struct table *t, const json_t *row, const char *key, const char *unit)
{
    char text[60] = "";
    const json_t *value = json_object_get(row, key);
    if (json_is_number(value))
        (void)snprintf(text, sizeof text, "%.4g%s%s", json_number_value(value), unit[0] ? " " : "",
                       unit);
    table_add(t, text);
}

static void add_pair(struct table *t, const char *node, const json_t *run, const json_t *p)
{
    char rail[16] = "";
    if (json_is_integer(json_object_get(p, "rail")))
        (void)snprintf(rail, sizeof rail, "%d",
                       (int)json_integer_value(json_object_get(p, "rail")));
    table_add(t, node);
    table_add(t, text_of(p, "peer"));
    table_add(t, rail);
    add_figure(t, p, "value", text_of(p, "unit"));
    add_figure(t, p, "floor", "");
    add_figure(t, p, "previous", "");
    table_add(t, text_of(p, "verdict"));
    table_add(t, text_of(run, "stage"));
    table_add(t, text_of(run, "scope"));
    table_add(t, short_time(text_of(p, "at")));
    table_add(t, text_of(p, "why"));
}

static void add_runs(struct table *t, const json_t *n)
{
    size_t i, j;
    json_t *run, *pair;
    json_array_foreach(json_object_get(n, "results"), i, run)
    {
        json_array_foreach(json_object_get(run, "pairs"), j, pair)
        {
            add_pair(t, text_of(n, "node"), run, pair);
        }
    }
}

static void print_verdicts(const json_t *n)
{
    size_t i;
    json_t *run;
    json_array_foreach(json_object_get(n, "results"), i, run)
    {
        const char *verdict = text_of(run, "verdict"), *why = text_of(run, "why");
        printf("%s: %s, %s%s%s: %s%s%s\n", text_of(n, "node"), text_of(run, "stage"),
               text_of(run, "scope"), text_of(run, "rack")[0] ? " " : "", text_of(run, "rack"),
               verdict, why[0] ? ": " : "", why);
    }
}

int cmd_results(struct ctl *c)
{
    static const char *const headers[] = {"NODE",  "PEER",   "RAIL",    "MEASURED",
                                          "FLOOR", "BEFORE", "VERDICT", "STAGE",
                                          "SCOPE", "AT",     "DETAIL",  NULL};
    int rc = CTL_DONE;
    char *nodes = joined_args(c, 0);
    char *of_nodes = with_query("/v1/results", "nodes", nodes);
    char *path = with_query(of_nodes, "stage", opt(c, "stage"));
    json_t *answer = request(c, "GET", path, NULL, &rc), *n;
    free(path);
    free(of_nodes);
    free(nodes);
    if (answer == NULL)
        return rc;
    if (c->json) {
        rc = print_json(answer);
        json_decref(answer);
        return rc;
    }
    struct table *t = table_new(headers);
    size_t i;
    json_array_foreach(json_object_get(answer, "nodes"), i, n)
    {
        add_runs(t, n);
    }
    bool any = table_rows(t) > 0;
    table_print(t, stdout);
    if (any)
        putchar('\n');
    json_array_foreach(json_object_get(answer, "nodes"), i, n)
    {
        print_verdicts(n);
    }
    json_decref(answer);
    return rc;
}
