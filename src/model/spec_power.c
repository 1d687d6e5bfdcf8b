/* Power feeds, what a node of a class draws, and whether the one can carry the other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/spec_read.h"

enum { INRUSH_WINDOW_MS = 5000, BOOT_TIMEOUT_MS = 600000 };

static bool share_ok(const struct ynode *value, struct strbuf *why)
{
    char *end;
    double number = strtod(value->text, &end);
    if (value->text[0] >= '0' && value->text[0] <= '9' && strchr(value->text, 'x') == NULL &&
        strcmp(end, "%") == 0 && number <= 90)
        return true;
    strbuf_adds(why, "must be a share of the rating from 0% to 90%, such as 10%");
    return false;
}

static bool window_ok(const struct ynode *value, struct strbuf *why)
{
    int64_t ms;
    if (clock_parse_duration(value->text, &ms, NULL) == 0 && ms >= 100 && ms <= 24 * 3600000LL)
        return true;
    strbuf_adds(why, "must be from 100ms to 24h");
    return false;
}

/* ---- feeds ---- */

struct raw_feed {
    double rated_kw, ramp_kw;
    const char *reserve;
    const struct ynode *parent;
};

static void read_feed(struct reader *r, const struct ynode *key, const struct ynode *map,
                      const struct ynode **ret_parent)
{
    static const struct field rows[] = {{.key = "rated_kw",
                                         .type = FIELD_NUMBER,
                                         .offset = offsetof(struct raw_feed, rated_kw),
                                         .min = 0.001,
                                         .max = 100000,
                                         .help = "what the feed can carry"},
                                        {.key = "ramp_kw_per_min",
                                         .type = FIELD_NUMBER,
                                         .offset = offsetof(struct raw_feed, ramp_kw),
                                         .min = 0.001,
                                         .max = 100000,
                                         .help = "how fast its load may grow"},
                                        {.key = "reserve",
                                         .type = FIELD_TEXT,
                                         .offset = offsetof(struct raw_feed, reserve),
                                         .check = share_ok,
                                         .help = "the share of the rating that is left free: 10%"},
                                        {.key = "parent",
                                         .type = FIELD_SCALAR,
                                         .offset = offsetof(struct raw_feed, parent),
                                         .help = "the feed that feeds it"},
                                        {0}};
    struct raw_feed raw = {0};
    if (!ynode_is_null(map))
        (void)schema_read(rows, map, "a feed", &raw, r->d);
    double share = raw.reserve != NULL ? strtod(raw.reserve, NULL) / 100 : 0;
    *ret_parent = raw.parent;
    struct spec *s = r->spec;
    s->feeds[s->feed_count++] =
        (struct spec_feed){.at = place_of(key),
                           .name = xstrdup(key->text),
                           .rated_w = llround(raw.rated_kw * 1000),
                           .usable_w = llround(floor(raw.rated_kw * 1000 * (1 - share) + 1e-6)),
                           .ramp_w_per_min = llround(raw.ramp_kw * 1000),
                           .parent = -1};
}

int spec_find_feed(const struct spec *s, const char *name)
{
    for (int i = 0; i < s->feed_count; i++)
        if (strcmp(s->feeds[i].name, name) == 0)
            return i;
    return -1;
}

int read_feed_name(struct reader *r, const struct ynode *at)
{
    const struct spec *s = r->spec;
    int found = spec_find_feed(s, at->text);
    if (found >= 0 || r->feeds_unknown)
        return found;
    const char **known = xcalloc((size_t)s->feed_count + 1, sizeof *known);
    for (int i = 0; i < s->feed_count; i++)
        known[i] = s->feeds[i].name;
    if (s->feed_count == 0)
        ynode_error(at, r->d, "unknown feed '%.80s': feeds are written under 'power.feeds'",
                    at->text);
    else
        schema_unknown(at, r->d, "feed", at->text, known, s->feed_count);
    free(known);
    return -1;
}

/* Parents make a tree: every walk upwards ends, after FEED_DEPTH_MAX steps at most. */
static void check_tree(struct reader *r, const struct ynode **parents)
{
    struct spec *s = r->spec;
    for (int i = 0; i < s->feed_count; i++)
        if (parents[i] != NULL)
            s->feeds[i].parent = read_feed_name(r, parents[i]);
    for (int i = 0; i < s->feed_count; i++) {
        int depth = 0, at = s->feeds[i].parent;
        while (at >= 0 && at != i && depth++ < FEED_DEPTH_MAX)
            at = s->feeds[at].parent;
        if (at < 0)
            continue;
        if (at == i)
            ynode_error(parents[i], r->d, "feed '%s' would feed itself: 'parent' must make a tree",
                        s->feeds[i].name);
        else
            ynode_error(parents[i], r->d, "feed '%s' has more than %d feeds above it, or a circle",
                        s->feeds[i].name, FEED_DEPTH_MAX);
        s->feeds[i].parent = -1;
    }
}

json_t *read_power(struct reader *r, const struct ynode *map)
{
    struct raw {
        const struct ynode *feeds;
        int64_t inrush_ms, boot_ms;
    } raw = {NULL, INRUSH_WINDOW_MS, BOOT_TIMEOUT_MS};
    static const struct field rows[] = {{.key = "feeds",
                                         .type = FIELD_MAP,
                                         .offset = offsetof(struct raw, feeds),
                                         .help = "power feeds by name"},
                                        {.key = "inrush_window",
                                         .type = FIELD_DURATION,
                                         .offset = offsetof(struct raw, inrush_ms),
                                         .check = window_ok,
                                         .help = "for how long a node draws its inrush: 5s"},
                                        {.key = "boot_timeout",
                                         .type = FIELD_DURATION,
                                         .offset = offsetof(struct raw, boot_ms),
                                         .check = window_ok,
                                         .help = "when a boot that nobody watches is over: 10m"},
                                        {0}};
    struct spec *s = r->spec;
    if (map != NULL && !schema_read(rows, map, "'power'", &raw, r->d))
        r->feeds_unknown = raw.feeds == NULL;
    s->inrush_ms = raw.inrush_ms;
    s->boot_ms = raw.boot_ms;
    int count = raw.feeds != NULL ? raw.feeds->count : 0;
    const struct ynode **parents = xcalloc((size_t)count + 1, sizeof(const struct ynode *));
    s->feeds = xcalloc((size_t)count + 1, sizeof *s->feeds);
    for (int i = 0; i < count; i++)
        read_feed(r, raw.feeds->pairs[i].key, raw.feeds->pairs[i].value, &parents[i]);
    check_tree(r, parents);
    free(parents);
    return map != NULL ? ynode_json(map, false) : NULL;
}

/* ---- classes ---- */

#define WATTS(key_, help_)                                                                         \
    {                                                                                              \
        .key = #key_, .type = FIELD_INT, .offset = offsetof(struct spec_envelope, key_), .min = 1, \
        .max = 1000000, .help = help_                                                              \
    }

/* What is not given is node_kw, or else the most of what is given: too much rather than too little.
 */
void read_envelope(struct reader *r, const struct ynode *map, struct spec_class *c)
{
    static const struct field rows[] = {WATTS(inrush_w, "W in the seconds after power-on"),
                                        WATTS(boot_w, "W while it boots"),
                                        WATTS(idle_w, "W while it is on and has nothing to do"),
                                        WATTS(burnin_w, "W under full load"),
                                        {0}};
    struct spec_envelope *e = &c->power;
    if (map != NULL) {
        (void)schema_read(rows, map, "a class's 'power'", e, r->d);
        c->has_power = true;
    }
    int64_t *watts[] = {&e->inrush_w, &e->boot_w, &e->idle_w, &e->burnin_w};
    int64_t rest = llround(c->node_kw * 1000);
    for (size_t i = 0; rest == 0 && i < ARRAY_LEN(watts); i++)
        for (size_t j = 0; j < ARRAY_LEN(watts); j++)
            rest = *watts[j] > rest ? *watts[j] : rest;
    for (size_t i = 0; i < ARRAY_LEN(watts); i++)
        if (*watts[i] == 0)
            *watts[i] = rest;
}

/* ---- whether a node can be switched on at all ---- */

static bool burns_in(const struct spec_class *c)
{
    for (int i = 0; c->profile != NULL && i < c->profile->stage_count; i++)
        if (c->profile->stages[i].burnin)
            return true;
    return false;
}

/* The most that one node of the class asks for at once, and the key that says so. */
static int64_t largest_step(const struct spec_class *c, const char **ret_key)
{
    const struct spec_envelope *e = &c->power;
    const struct {
        const char *key;
        int64_t watts;
    } rows[] = {{"inrush_w", e->inrush_w},
                {"boot_w", e->boot_w},
                {"idle_w", e->idle_w},
                {"burnin_w", burns_in(c) ? e->burnin_w : 0}};
    int64_t most = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].watts > most) {
            most = rows[i].watts;
            *ret_key = rows[i].key;
        }
    return most;
}

static void check_step(struct reader *r, const struct spec_class *c, int feed)
{
    const struct spec *s = r->spec;
    const char *key = "";
    int64_t most = largest_step(c, &key);
    for (; feed >= 0; feed = s->feeds[feed].parent) {
        const struct spec_feed *f = &s->feeds[feed];
        if (f->rated_w == 0 || most <= f->usable_w)
            continue;
        diags_add(r->d, DIAG_ERROR, s->file, c->at.line, c->at.column,
                  "class '%s': one node takes %lld W (%s%s), and feed '%s' carries %lld W at most"
                  "%s: it could never be switched on; correct the class's 'power' or the feed",
                  c->name, (long long)most, key, c->has_power ? "" : ", from node_kw", f->name,
                  (long long)f->usable_w, f->usable_w < f->rated_w ? " (less its reserve)" : "");
        return;
    }
}

void check_power(struct reader *r)
{
    const struct spec *s = r->spec;
    size_t feeds = (size_t)s->feed_count;
    bool *seen = xcalloc((size_t)s->class_count * feeds + 1, sizeof *seen);
    for (int i = 0; i < s->node_count && feeds > 0; i++) {
        const struct spec_node *n = &s->nodes[i];
        int feed = n->rack_index >= 0 ? s->racks[n->rack_index].feed_index : -1;
        if (feed < 0 || n->class_index < 0)
            continue;
        bool *pair = &seen[(size_t)n->class_index * feeds + (size_t)feed];
        if (!*pair)
            check_step(r, &s->classes[n->class_index], feed);
        *pair = true;
    }
    free(seen);
}
