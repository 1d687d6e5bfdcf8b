/* Who goes when: canaries, the order of the others, waves. The same nodes always give the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/nodeset.h"
#include "engine/rollout_int.h"

/* ---- settings ---- */

static bool read_share(const json_t *value, struct share *ret)
{
    const char *text = json_string_value(value);
    char *end = NULL;
    *ret = (struct share){.value = json_number_value(value)};
    if (text != NULL) {
        ret->value = strtod(text, &end);
        ret->percent = *end == '%';
    }
    return json_is_number(value) || (text != NULL && end != text);
}

void rollout_read_settings(struct rollout *r)
{
    const char *pause = json_string_value(json_object_get(r->settings, "wave_pause"));
    if (pause == NULL || clock_parse_duration(pause, &r->pause_ms, NULL) < 0)
        r->pause_ms = 0;
    r->has_max_failed = read_share(json_object_get(r->settings, "max_failed"), &r->max_failed);
    r->per_rack = (int)json_integer_value(json_object_get(r->settings, "per_rack"));
}

bool share_exceeded(const struct share *share, int count, int total)
{
    double allowed = share->percent ? share->value * total / 100 : share->value;
    return count > allowed + 1e-9;
}

void share_text(const struct share *share, char *buf, size_t size)
{
    (void)snprintf(buf, size, "%g%s", share->value, share->percent ? "%" : "");
}

static int share_of(const struct share *share, int total)
{
    double n = share->percent ? ceil(share->value * total / 100 - 1e-9) : share->value;
    return n < total ? (int)n : total;
}

/* ---- canaries ---- */

struct choice {
    struct rollout *r;
    struct enode **nodes;
    int count;
    bool *chosen;
    int chosen_count;
    int *next_of_class; /* the next node of the same class; count: none */
    int *cursors;       /* three for each class, which only move on */
    bool *rack_used;
};

static void choose(struct choice *c, int i)
{
    c->chosen[i] = true;
    c->chosen_count++;
    c->rack_used[node_lane(c->nodes[i])] = node_lane(c->nodes[i]) > 0;
}

/* Better no canary that cannot start, or that failed already. */
static bool is_hopeful(const struct enode *n)
{
    for (int i = 0; i < n->stage_count; i++)
        if (n->stages[i].status == STAGE_FAILED)
            return false;
    return !node_is_stopped(n);
}

/* First choice: hopeful and in a rack without a canary; then hopeful; then any. */
static bool fits(const struct choice *c, int i, int choice)
{
    return !c->chosen[i] && (choice > 1 || is_hopeful(c->nodes[i])) &&
           (choice > 0 || !c->rack_used[node_lane(c->nodes[i])]);
}

static bool choose_of_class(struct choice *c, int klass)
{
    for (int choice = 0; choice < 3; choice++) {
        int *at = &c->cursors[3 * klass + choice];
        while (*at < c->count && !fits(c, *at, choice))
            *at = c->next_of_class[*at];
        if (*at < c->count) {
            choose(c, *at);
            return true;
        }
    }
    return false;
}

/* A canary that measures with a neighbour needs one that came as far as itself. */
static bool measures_pairs(const struct profile *p)
{
    for (int i = 0; i < p->stage_count; i++)
        for (int j = 0; j < p->stages[i].step_count; j++)
            if (strcmp(p->stages[i].steps[j].type, "group") == 0)
                return true;
    return false;
}

/* Each class in turn, the first time all of them, until there are enough. */
static void choose_count(struct choice *c, int want)
{
    int classes = c->r->engine->spec->class_count;
    int *last = xcalloc((size_t)classes + 1, sizeof *last);
    c->next_of_class = xcalloc((size_t)c->count + 1, sizeof *c->next_of_class);
    c->cursors = xcalloc((size_t)classes * 3 + 1, sizeof *c->cursors);
    for (int i = 0; i < 3 * classes; i++)
        c->cursors[i] = c->count;
    for (int i = 0; i < classes; i++)
        last[i] = -1;
    for (int i = 0; i < c->count; i++) {
        int k = c->nodes[i]->spec->class_index;
        c->next_of_class[i] = c->count;
        if (last[k] >= 0)
            c->next_of_class[last[k]] = i;
        else
            c->cursors[3 * k] = c->cursors[3 * k + 1] = c->cursors[3 * k + 2] = i;
        last[k] = i;
    }
    bool any = want > 0;
    for (int round = 0; any && c->chosen_count < want; round++) {
        any = false;
        for (int k = 0; k < classes && (round == 0 || c->chosen_count < want); k++) {
            any = choose_of_class(c, k) || any;
            if (round == 0 && measures_pairs(c->r->engine->spec->classes[k].profile))
                (void)choose_of_class(c, k);
        }
    }
    free(last);
    free(c->next_of_class);
    free(c->cursors);
}

static void choose_named(struct choice *c, const json_t *names)
{
    struct nodeset *set = nodeset_parse(json_string_value(names), NULL);
    for (int i = 0; set != NULL && i < c->count; i++)
        if (!c->chosen[i] && nodeset_contains(set, c->nodes[i]->name))
            choose(c, i);
    nodeset_free(set);
}

static void choose_canaries(struct choice *c)
{
    const json_t *canary = json_object_get(c->r->settings, "canary");
    c->rack_used = xcalloc((size_t)c->r->engine->spec->rack_count + 2, sizeof *c->rack_used);
    if (json_is_string(canary))
        choose_named(c, canary);
    for (size_t i = 0; i < json_array_size(canary); i++)
        choose_named(c, json_array_get(canary, i));
    if (json_is_integer(canary))
        choose_count(c, (int)json_integer_value(canary));
    free(c->rack_used);
}

/* ---- order ---- */

static void add_member(struct rollout *r, struct enode *n, int wave)
{
    r->members[r->count] = (struct member){.rollout = r,
                                           .node = n,
                                           .node_id = n->id,
                                           .ordinal = r->count,
                                           .wave = wave,
                                           .rack = node_lane(n)};
    r->count++;
}

/* A node of each rack in turn, those of one rack in the order of the spec. */
static void add_others(struct rollout *r, const struct choice *c)
{
    int racks = r->engine->spec->rack_count + 1, left = racks;
    int *head = xcalloc((size_t)racks, sizeof *head), *tail = xcalloc((size_t)racks, sizeof *tail);
    int *next = xcalloc((size_t)c->count + 1, sizeof *next);
    int *ring = xcalloc((size_t)racks, sizeof *ring);
    for (int i = 0; i < racks; i++) {
        head[i] = tail[i] = -1;
        ring[i] = i;
    }
    for (int i = 0; i < c->count; i++) {
        int rack = node_lane(c->nodes[i]);
        next[i] = -1;
        if (c->chosen[i])
            continue;
        *(tail[rack] >= 0 ? &next[tail[rack]] : &head[rack]) = i;
        tail[rack] = i;
    }
    while (left > 0) {
        int kept = 0;
        for (int k = 0; k < left; k++) {
            int at = head[ring[k]];
            if (at < 0)
                continue;
            add_member(r, c->nodes[at], 1);
            head[ring[k]] = next[at];
            ring[kept++] = ring[k];
        }
        left = kept;
    }
    free(head);
    free(tail);
    free(next);
    free(ring);
}

/* ---- waves ---- */

static void add_wave(struct rollout *r, int end)
{
    r->waves[r->wave_count++] = (struct wave){.end = end};
}

static void cut_waves(struct rollout *r, int canaries)
{
    const json_t *list = json_object_get(r->settings, "waves");
    size_t given = json_is_array(list) ? json_array_size(list) : list != NULL;
    r->waves = xcalloc(given + 2, sizeof *r->waves);
    add_wave(r, canaries);
    for (size_t i = 0; i < given; i++) {
        struct share share;
        int before = r->waves[r->wave_count - 1].end;
        if (!read_share(json_is_array(list) ? json_array_get(list, i) : list, &share))
            continue;
        int end = share_of(&share, r->count);
        if (end > before && end < r->count)
            add_wave(r, end);
    }
    if (r->waves[r->wave_count - 1].end < r->count)
        add_wave(r, r->count);
    for (int w = 1; w < r->wave_count; w++)
        for (int i = r->waves[w - 1].end; i < r->waves[w].end; i++)
            r->members[i].wave = w;
}

void rollout_lay_out(struct rollout *r, struct enode **nodes, int count)
{
    struct choice c = {.r = r, .nodes = nodes, .count = count};
    c.chosen = xcalloc((size_t)count + 1, sizeof *c.chosen);
    r->members = xcalloc((size_t)count + 1, sizeof *r->members);
    choose_canaries(&c);
    for (int i = 0; i < count; i++)
        if (c.chosen[i])
            add_member(r, nodes[i], 0);
    int canaries = r->count;
    add_others(r, &c);
    cut_waves(r, canaries);
    free(c.chosen);
    r->engine->rollout_work += count;
}

void rollout_index(struct rollout *r)
{
    r->rack_count = r->engine->spec->rack_count + 1;
    r->racks = xcalloc((size_t)r->rack_count, sizeof *r->racks);
    for (int i = 0; i < r->count; i++) {
        struct member *m = &r->members[i];
        r->counts[m->state]++;
        m->held = m->node != NULL && node_is_stopped(m->node);
        if (member_is_open(m)) {
            r->waves[m->wave].open++;
            r->waves[m->wave].held += m->held;
        }
        if (m->state == MEMBER_WAITING)
            rollout_queue(m);
        r->racks[m->rack].started += m->state == MEMBER_STARTED;
        if (m->state == MEMBER_FAILED && m->failed_round == r->round) {
            r->failures++;
            r->canary_failures += m->wave == 0;
        }
    }
    r->engine->rollout_work += r->count;
}
