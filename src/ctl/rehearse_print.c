/* The summary of a rehearsal for people. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "ctl/rehearse.h"

enum { BUSY_PERCENT = 80 };

static double num(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

/* "1h12m", "40s", "-" for null. Borrowed static, two at a time. */
static const char *time_of(const json_t *o, const char *key)
{
    static char texts[4][CLOCK_TEXT_SIZE];
    static unsigned next;
    char *text = texts[next++ % 4];
    if (!json_is_number(json_object_get(o, key)))
        return "-";
    double seconds = num(o, key);
    return clock_format_duration(
        seconds < 1 ? (int64_t)(seconds * 1000) : (int64_t)(seconds + 0.5) * 1000, text);
}

static const char *bytes_text(double bytes, char buf[32])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t u = 0;
    while (bytes >= 1000 && u + 1 < ARRAY_LEN(units)) {
        bytes /= 1000;
        u++;
    }
    (void)snprintf(buf, 32, bytes >= 100 || u == 0 ? "%.0f %s" : "%.1f %s", bytes, units[u]);
    return buf;
}

static void print_head(const json_t *s)
{
    const json_t *course = json_object_get(s, "course");
    printf("Rehearsal of %s: cluster %s, %d nodes, on simulated machines.\n", text_of(s, "spec"),
           text_of(s, "cluster"), (int)num(s, "nodes"));
    printf("%d validated, %d failed, %d held", (int)num(s, "validated"), (int)num(s, "failed"),
           (int)num(s, "held"));
    int rest = (int)(num(s, "nodes") - num(s, "validated") - num(s, "failed") - num(s, "held"));
    if (rest > 0)
        printf(", %d %s", rest,
               strcmp(text_of(s, "result"), "stalled") == 0
                   ? "wait for what does not come (nothing moved for 15 simulated minutes)"
                   : "still under way when the time was over");
    bool over = strcmp(text_of(s, "result"), "timeout") == 0;
    printf("; %s %s (simulated in %s, %g times as fast).\n",
           over ? "that is how it stood after" : "it would take", time_of(course, "simulated_s"),
           time_of(course, "real_s"), num(course, "speed"));
    double cpu = num(json_object_get(course, "cpu_s"), "clusterd-sim") +
                 num(json_object_get(course, "cpu_s"), "clusterd");
    bool busy = cpu * 100 > num(course, "real_s") * BUSY_PERCENT ||
                num(course, "load") > 2 * num(course, "processors");
    if (busy)
        printf("This computer was busy (%.0f s of processor time for it, load %.1f on %d "
               "processors): times are longer than they would be; a lower --speed is more exact.\n",
               cpu, num(course, "load"), (int)num(course, "processors"));
}

static void print_timeline(const json_t *s)
{
    static const char *const headers[] = {"STAGE",    "NODES",   "FIRST START", "MEDIAN",
                                          "LAST END", "RETRIES", "FAILED",      NULL};
    struct table *t = table_new(headers);
    size_t i;
    json_t *row;
    char text[24];
    json_array_foreach(json_object_get(s, "timeline"), i, row)
    {
        static const char *const counts[] = {"retries", "failed"};
        table_add(t, text_of(row, "stage"));
        (void)snprintf(text, sizeof text, "%d", (int)num(row, "nodes"));
        table_add(t, text);
        table_add(t, time_of(row, "first_start_s"));
        table_add(t, num(row, "skipped") > 0 && num(row, "passed") == 0 ? "skipped"
                                                                        : time_of(row, "median_s"));
        table_add(t, time_of(row, "last_end_s"));
        for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
            (void)snprintf(text, sizeof text, "%d", (int)num(row, counts[k]));
            table_add(t, num(row, counts[k]) > 0 ? text : "");
        }
    }
    putchar('\n');
    table_print(t, stdout);
}

static void print_power(const json_t *s)
{
    const json_t *power = json_object_get(s, "power");
    const json_t *silent = json_object_get(power, "classes_without_power");
    size_t i;
    json_t *feed, *name;
    printf("\nPower: at most %.1f kW in all\n", num(power, "peak_kw"));
    json_array_foreach(json_object_get(power, "feeds"), i, feed)
    {
        printf("  feed %s: drew at most %.1f kW", text_of(feed, "name"), num(feed, "peak_kw"));
        if (num(feed, "rated_kw") > 0)
            printf(" of %.1f kW", num(feed, "rated_kw"));
        printf("; the budget reserved at most %.1f kW", num(feed, "reserved_kw"));
        if (num(feed, "rated_kw") > num(feed, "usable_kw"))
            printf(" of the %.1f kW less the reserve", num(feed, "usable_kw"));
        putchar('\n');
    }
    json_array_foreach(silent, i, name)
    {
        printf("  class %s has neither power nor node_kw: its nodes count nothing\n",
               json_string_value(name));
    }
}

static void print_boot(const json_t *s)
{
    const json_t *boot = json_object_get(s, "boot");
    size_t i;
    json_t *file;
    char text[32], each[32];
    double rate = num(boot, "peak_mb_s");
    printf("\nBoot traffic: %s, at most %.0f MB/s (%.1f Gbit/s)",
           bytes_text(num(boot, "bytes"), text), rate, rate * 8 / 1000);
    if (num(boot, "uplink_mb_s") > 0)
        printf(" over an uplink of %.0f MB/s\n", num(boot, "uplink_mb_s"));
    else
        printf(" if the head node's uplink carries that (--uplink)\n");
    json_array_foreach(json_object_get(boot, "files"), i, file)
    {
        const json_t *kind = json_object_get(boot, text_of(file, "kind"));
        printf("  %s %s: %s%s", text_of(file, "kind"), text_of(file, "file"),
               bytes_text(num(file, "bytes"), each),
               json_is_true(json_object_get(file, "assumed")) ? " (assumed: no such artefact here)"
                                                              : "");
        if (strcmp(text_of(file, "kind"), "image") != 0)
            printf(", fetches: %d", (int)num(kind, "fetches"));
        putchar('\n');
    }
    const json_t *kind = json_object_get(boot, "image");
    printf("  images in all: %s, fetches: %d\n", bytes_text(num(kind, "bytes"), text),
           (int)num(kind, "fetches"));
    const json_t *c = json_object_get(s, "connections");
    printf("\nConnections: at most %d sessions with BMCs and %d with nodes over SSH at once; %d "
           "requests to BMCs\n",
           (int)num(c, "bmc_sessions_peak"), (int)num(c, "ssh_peak"), (int)num(c, "bmc_requests"));
}

static void print_causes(const json_t *s)
{
    const json_t *causes = json_object_get(s, "causes");
    size_t i;
    json_t *row;
    if (json_array_size(causes) > 0)
        printf("\nNot validated:\n");
    json_array_foreach(causes, i, row)
    {
        printf("  %s", text_of(row, "nodes"));
        if (num(row, "count") > 1)
            printf(" (%d)", (int)num(row, "count"));
        printf(": %s\n", text_of(row, "because"));
        if (text_of(row, "evidence")[0] != '\0')
            printf("    last seen: %s\n", text_of(row, "evidence"));
    }
}

static void print_texts(const char *title, const json_t *texts)
{
    size_t i;
    json_t *text;
    if (json_array_size(texts) > 0)
        printf("\n%s:\n", title);
    json_array_foreach(texts, i, text)
    {
        printf("  %s\n", json_string_value(text));
    }
}

static void print_made_up(const json_t *s)
{
    static const struct {
        const char *source, *text;
    } sources[] = {{"given", "as in the history"},
                   {"usual", "the simulator's guess"},
                   {"assumed", "assumed: a quarter of its deadline, at most 10 min"}};
    const json_t *made_up = json_object_get(s, "made_up");
    const char *stage;
    size_t i, k;
    json_t *row, *name;
    printf("\nSimulated, says nothing about your hardware:\n"
           "  firmware, boot, disks and sensors behave as the simulator has them; no script ran\n");
    json_object_foreach(json_object_get(made_up, "scripts"), stage, row)
    {
        const char *source = text_of(row, "source");
        for (k = 0; k < ARRAY_LEN(sources); k++)
            if (strcmp(sources[k].source, source) == 0)
                source = sources[k].text;
        printf("  %s: scripts answered by the simulator: %d, %s each (%s)\n", stage,
               (int)num(row, "runs"), time_of(row, "seconds"), source);
    }
    json_array_foreach(json_object_get(made_up, "figures"), i, row)
    {
        printf("  %s of class %s: the figures were made to meet the limits:", text_of(row, "stage"),
               text_of(row, "class"));
        json_array_foreach(json_object_get(row, "names"), k, name)
        {
            printf("%s %s", k > 0 ? "," : "", json_string_value(name));
        }
        putchar('\n');
    }
}

void rehearse_print(const json_t *s)
{
    print_head(s);
    print_timeline(s);
    print_power(s);
    print_boot(s);
    print_causes(s);
    print_texts("Faults that were asked for", json_object_get(s, "faults"));
    print_texts("Not rehearsed as it is", json_object_get(s, "notes"));
    print_made_up(s);
    const json_t *warnings = json_object_get(s, "warnings");
    if (json_array_size(warnings) > 0)
        printf("\nWarnings of lint:\n");
    (void)print_problems(stdout, warnings);
}
