/* What a plan may draw: the most that the power budget would reserve on each feed while the plan's
 * nodes start and work. O(nodes * depth of the feeds + feeds * classes). */
#include <limits.h>
#include <stdlib.h>

#include "base/mem.h"
#include "engine/budget.h"
#include "engine/plan_int.h"

enum { LOADS = 4 }; /* idle or starting, with or without burn-in */

static bool is_below(const struct spec *spec, int feed, int ancestor)
{
    for (int depth = 0; feed >= 0 && depth <= FEED_DEPTH_MAX; depth++) {
        if (feed == ancestor)
            return true;
        feed = spec->feeds[feed].parent;
    }
    return false;
}

static void count_loads(const struct spec *spec, const uint8_t *loads, int feed,
                        struct budget_group *groups)
{
    for (int i = 0; i < spec->class_count * LOADS; i++) {
        const struct spec_envelope *e = &spec->classes[i / LOADS].power;
        bool starts = (i & PLAN_STARTS) != 0;
        groups[i] = (struct budget_group){.envelope = *e, .burnin = (i & PLAN_BURNS) != 0};
        if (!starts) /* it runs already */
            groups[i].envelope.inrush_w = groups[i].envelope.boot_w = e->idle_w;
    }
    for (int i = 0; i < spec->node_count; i++) {
        const struct spec_node *n = &spec->nodes[i];
        int own = n->rack_index >= 0 ? spec->racks[n->rack_index].feed_index : -1;
        if (is_below(spec, own, feed))
            groups[n->class_index * LOADS + loads[i]].count++;
    }
}

json_t *plan_feeds(const struct spec *spec, const uint8_t *loads)
{
    json_t *rows = json_array();
    int count = spec->class_count * LOADS;
    int at_once = spec->limits.installs > 0 ? spec->limits.installs : INT_MAX;
    struct budget_group *groups = xcalloc((size_t)count + 1, sizeof *groups);
    for (int f = 0; f < spec->feed_count; f++) {
        const struct spec_feed *feed = &spec->feeds[f];
        count_loads(spec, loads, f, groups);
        int64_t peak = budget_peak(groups, count, at_once, feed->usable_w);
        (void)json_array_append_new(rows, json_pack("{s:s,s:f,s:f}", "name", feed->name, "peak_kw",
                                                    (double)peak / 1000, "rated_kw",
                                                    (double)feed->rated_w / 1000));
    }
    free(groups);
    return rows;
}
