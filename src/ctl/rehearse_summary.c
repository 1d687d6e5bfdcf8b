/* What came out of a rehearsal, as JSON: docs/rehearse.md has its keys. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/nodeset.h"
#include "ctl/rehearse.h"

enum { EVENTS_PAGE = 1000, NAMES_MAX = 4 << 20 };

/* ---- stages in time ---- */

/* The events of the private daemon, from the first on; NULL after complaining. */
static struct timeline *read_timeline(struct rehearse *r)
{
    struct timeline *t = NULL;
    json_int_t after = 0, last = 0;
    do {
        int rc = CTL_DONE;
        char *path = xasprintf("/v1/events?after=%lld&limit=%d", (long long)after, EVENTS_PAGE);
        json_t *answer = rehearse_ask(r, "GET", path, NULL, &rc);
        free(path);
        if (answer == NULL)
            break;
        const json_t *events = json_object_get(answer, "events");
        const json_t *first = json_array_get(events, 0);
        int64_t start = 0;
        if (t == NULL && first != NULL && clock_parse(text_of(first, "at"), &start, NULL) == 0)
            t = timeline_new(start);
        if (t != NULL)
            timeline_add(t, events);
        size_t count = json_array_size(events);
        last = after;
        if (count > 0)
            after = json_integer_value(json_object_get(json_array_get(events, count - 1), "id"));
        json_decref(answer);
    } while (after > last);
    return t;
}

/* ---- why nodes are where they are ---- */

/* Names of the nodes that are not validated, folded; NULL: none. */
static char *left_behind(const struct rehearse *r)
{
    struct strbuf names, folded;
    size_t i;
    json_t *n;
    strbuf_init(&names, NAMES_MAX);
    strbuf_init(&folded, NAMES_MAX);
    json_array_foreach(r->nodes, i, n)
    {
        if (node_standing(n) != 'v')
            strbuf_addf(&names, "%s%s", names.len > 0 ? "," : "", text_of(n, "name"));
    }
    struct nodeset *set = names.len > 0 ? nodeset_parse(names.data, NULL) : NULL;
    if (set != NULL)
        nodeset_fold(set, &folded);
    nodeset_free(set);
    char *text = set != NULL ? strbuf_take(&folded) : NULL;
    strbuf_done(&names);
    strbuf_done(&folded);
    return text;
}

/* What was seen last of the only node of a group, where that says more than the cause; else NULL.
 */
static const char *evidence_of(const json_t *rows, const char *name, const char *because)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        const char *seen = text_of(row, "evidence");
        if (strcmp(text_of(row, "name"), name) == 0)
            return seen[0] != '\0' && strstr(because, seen) == NULL ? seen : NULL;
    }
    return NULL;
}

/* [{nodes, count, because, evidence}], with the user's own addresses. */
static json_t *causes_of(struct rehearse *r)
{
    int rc = CTL_DONE;
    json_t *rows = json_array(), *group;
    size_t i;
    char *names = left_behind(r);
    if (names == NULL)
        return rows;
    char *path = with_query("/v1/why", "nodes", names);
    json_t *answer = rehearse_ask(r, "GET", path, NULL, &rc);
    free(path);
    free(names);
    json_array_foreach(json_object_get(answer, "groups"), i, group)
    {
        struct nodeset *set = nodeset_parse(text_of(group, "nodes"), NULL);
        const char *seen = evidence_of(json_object_get(answer, "nodes"), text_of(group, "nodes"),
                                       text_of(group, "because"));
        char *because = rehearsal_real_names(r->spec, text_of(group, "because"));
        char *evidence = seen != NULL ? rehearsal_real_names(r->spec, seen) : NULL;
        (void)json_array_append_new(rows, json_pack("{s:s,s:i,s:s,s:s?}", "nodes",
                                                    text_of(group, "nodes"), "count",
                                                    set != NULL ? nodeset_count(set) : 0, "because",
                                                    because, "evidence", evidence));
        free(evidence);
        free(because);
        nodeset_free(set);
    }
    json_decref(answer);
    return rows;
}

/* ---- power ---- */

static const json_t *named(const json_t *rows, const char *name)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (strcmp(text_of(row, "name"), name) == 0)
            return row;
    }
    return NULL;
}

static json_t *power_of(const struct rehearse *r, const json_t *load, const json_t *status)
{
    json_t *feeds = json_array(), *silent = json_array();
    for (int i = 0; i < r->spec->feed_count; i++) {
        const struct spec_feed *f = &r->spec->feeds[i];
        const json_t *drawn = named(json_object_get(load, "feeds"), f->name);
        const json_t *budget = named(json_object_get(status, "feeds"), f->name);
        (void)json_array_append_new(
            feeds,
            json_pack("{s:s,s:f,s:f,s:f,s:f}", "name", f->name, "rated_kw",
                      (double)f->rated_w / 1000, "usable_kw", (double)f->usable_w / 1000, "peak_kw",
                      json_number_value(json_object_get(drawn, "peak_watts")) / 1000, "reserved_kw",
                      json_number_value(json_object_get(budget, "peak_reserved_w")) / 1000));
    }
    for (int i = 0; i < r->spec->class_count; i++) {
        const struct spec_envelope *p = &r->spec->classes[i].power;
        if (p->inrush_w == 0 && p->boot_w == 0 && p->idle_w == 0 && p->burnin_w == 0)
            (void)json_array_append_new(silent, json_string(r->spec->classes[i].name));
    }
    return json_pack("{s:f,s:o,s:o}", "peak_kw",
                     json_number_value(json_object_get(load, "peak_watts")) / 1000, "feeds", feeds,
                     "classes_without_power", silent);
}

/* ---- the rest ---- */

static json_t *traffic_of(const struct rehearse *r, const json_t *load, const json_t *totals)
{
    json_t *boot = json_deep_copy(json_object_get(load, "boot"));
    if (boot == NULL)
        boot = json_object();
    (void)json_object_set(boot, "bytes", json_object_get(totals, "boot_bytes"));
    (void)json_object_set(boot, "files", r->sizes);
    (void)json_object_set_new(boot, "uplink_mb_s",
                              r->uplink_mb_s > 0 ? json_real(r->uplink_mb_s) : json_null());
    return boot;
}

static json_t *connections_of(const json_t *load, const json_t *totals)
{
    json_t *o = json_object();
    static const char *const peaks[] = {"bmc_sessions_peak", "ssh_peak"};
    static const char *const sums[] = {"bmc_requests", "bmc_logins", "boots", "installs"};
    for (size_t i = 0; i < ARRAY_LEN(peaks); i++)
        (void)json_object_set(o, peaks[i], json_object_get(load, peaks[i]));
    for (size_t i = 0; i < ARRAY_LEN(sums); i++)
        (void)json_object_set(o, sums[i], json_object_get(totals, sums[i]));
    return o;
}

static json_t *faults_of(const struct ctl *c)
{
    json_t *rows = json_array();
    const char *fault;
    for (int i = 0; (fault = opt_nth(c, "fault", i)) != NULL; i++)
        (void)json_array_append_new(rows, json_string(fault));
    return rows;
}

/* Also processor seconds: a busy computer makes the times longer than they would be. */
static json_t *course_of(struct rehearse *r, const struct timeline *t)
{
    json_t *cpu = json_object();
    host_stop(&r->host);
    for (int i = 0; i < HOST_PROGRAMS; i++)
        (void)json_object_set_new(cpu, r->host.programs[i].name,
                                  json_real(r->host.programs[i].cpu_s));
    double load = 0;
    (void)getloadavg(&load, 1);
    return json_pack("{s:f,s:f,s:f,s:o,s:f,s:i}", "speed", r->speed, "simulated_s",
                     t != NULL ? timeline_length(t) : 0.0, "real_s", r->took_s, "cpu_s", cpu,
                     "load", load, "processors", (int)sysconf(_SC_NPROCESSORS_ONLN));
}

json_t *rehearse_summary(struct rehearse *r, const char *result)
{
    int rc = CTL_DONE;
    struct timeline *t = read_timeline(r);
    json_t *status = rehearse_ask(r, "GET", "/v1/status", NULL, &rc);
    json_t *load = host_ask_sim(&r->host, "load"), *totals = host_ask_sim(&r->host, "totals");
    json_t *summary = NULL;
    if (t == NULL || status == NULL || load == NULL || totals == NULL) {
        if (!interrupted)
            (void)complain(CTL_FAILED, "the rehearsal's own programs do not answer any more");
    } else {
        json_t *causes = causes_of(r);
        json_t *made_up = json_pack("{s:O,s:O}", "scripts", json_object_get(load, "scripts"),
                                    "figures", r->figures);
        summary = json_pack(
            "{s:s,s:s,s:s,s:i,s:i,s:i,s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:O,s:O,s:o}", "spec",
            r->c->argv[0], "cluster", r->spec->cluster, "result", result, "nodes", r->total,
            "validated", r->validated, "failed", r->failed, "held", r->held, "timeline",
            timeline_json(t), "power", power_of(r, load, status), "boot",
            traffic_of(r, load, totals), "connections", connections_of(load, totals), "causes",
            causes, "faults", faults_of(r->c), "made_up", made_up, "warnings",
            json_object_get(r->warnings, "problems"), "notes", r->notes, "course", course_of(r, t));
    }
    json_decref(totals);
    json_decref(load);
    json_decref(status);
    timeline_free(t);
    return summary;
}
