/* The end of a measurement: who is at fault, in words, and each member's step ends with its own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/group_int.h"

enum { TOLD_AT_ONCE = 50, NAMES_SHOWN = 4, WHY_MAX = 440, SUMMARY_MAX = 2000 };

static const struct name verdict_names[] = {{VERDICT_OK, "ok"},
                                            {VERDICT_FAULT, "fault"},
                                            {VERDICT_UNCLEAR, "unclear"},
                                            {VERDICT_NONE, "none"},
                                            {0, NULL}};

/* ---- the judgement ---- */

static int severity(enum verdict v)
{
    return v == VERDICT_FAULT ? 3 : v == VERDICT_UNCLEAR ? 2 : v == VERDICT_NONE ? 1 : 0;
}

static bool is_worse(const struct judgement *a, const struct judgement *b)
{
    int x = severity(a->verdict), y = severity(b->verdict);
    return x != y ? x > y : a->median < b->median;
}

static int take_rail(const struct group_run *r, int rail, struct bout *ret)
{
    int count = 0;
    for (int i = 0; i < r->bout_count; i++) {
        const struct group_bout *b = &r->bouts[i];
        if (b->rail == rail || (b->rail < 0 && rail == 0))
            ret[count++] = (struct bout){.a = b->a,
                                         .b = b->b,
                                         .value = b->value,
                                         .outcome = !b->measured ? BOUT_NONE
                                                    : b->bad     ? BOUT_BAD
                                                                 : BOUT_GOOD};
    }
    return count;
}

/* Rail by rail: one slow port is one cable. Of the rails a node's worst one decides. */
void group_run_judge(struct group_run *r)
{
    struct bout *bouts = xcalloc((size_t)r->bout_count + 1, sizeof *bouts);
    struct judgement *of_rail = xcalloc((size_t)r->count + 1, sizeof *of_rail);
    r->verdicts = xcalloc((size_t)r->count + 1, sizeof *r->verdicts);
    r->worst_rail = xcalloc((size_t)r->count + 1, sizeof *r->worst_rail);
    for (int rail = 0; rail < r->rails; rail++) {
        tournament_judge(r->count, bouts, take_rail(r, rail, bouts), of_rail);
        for (int e = 0; e < r->count; e++) {
            if (rail > 0 && !is_worse(&of_rail[e], &r->verdicts[e]))
                continue;
            r->verdicts[e] = of_rail[e];
            r->worst_rail[e] = rail;
        }
    }
    for (int e = 0; e < r->count; e++)
        if (r->entries[e].fault != NULL)
            r->verdicts[e].verdict = VERDICT_FAULT;
    free(bouts);
    free(of_rail);
}

/* ---- in words ---- */

/* The member's bouts of its worst rail: partners' names, and what the bad ones have to tell. */
struct story {
    struct strbuf partners;
    const struct group_bout *bad; /* one of them, with a figure if there is one */
    const char *why;              /* of one without a figure */
    const char *missing;          /* of one that was not measured */
    double limit;
    const char *unit;
    int alone; /* bad pairs with somebody who measured with nobody else */
};

static int pairs_of(const struct group_run *r, int entry)
{
    int n = 0;
    for (int t = 0; t < r->turn_count; t++) {
        int at = r->turns[t * r->count + entry];
        n += at >= 0 && r->bouts[at].measured;
    }
    return n;
}

static void read_story(const struct group_run *r, int entry, struct story *s)
{
    int shown = 0;
    *s = (struct story){.limit = (double)NAN, .unit = ""};
    strbuf_init(&s->partners, 300);
    for (int t = r->worst_rail[entry]; t < r->turn_count; t += r->rails) {
        int at = r->turns[t * r->count + entry];
        if (at < 0)
            continue;
        const struct group_bout *b = &r->bouts[at];
        if (!b->measured) {
            s->missing = b->why != NULL ? b->why : s->missing;
            continue;
        }
        if (b->unit[0] != '\0') {
            s->limit = b->limit;
            s->unit = b->unit;
        }
        int peer = b->a == entry ? b->b : b->a;
        if (shown++ < NAMES_SHOWN)
            strbuf_addf(&s->partners, "%s%s", shown > 1 ? ", " : "", group_entry_name(r, peer));
        if (!b->bad)
            continue;
        s->bad = s->bad == NULL || isnan(s->bad->value) ? b : s->bad;
        s->why = isnan(b->value) ? b->why : s->why;
        s->alone += pairs_of(r, peer) < 2;
    }
    if (shown > NAMES_SHOWN)
        strbuf_addf(&s->partners, " and %d more", shown - NAMES_SHOWN);
}

static void say_bad(struct strbuf *out, const struct judgement *j, const struct story *s)
{
    strbuf_addf(out, "with %d of %d partners (%s) ", j->bad, j->measured, s->partners.data);
    if (!isnan(j->best_bad))
        strbuf_addf(out, "%.4g %s where at least %.4g is asked", j->best_bad, s->unit, s->limit);
    else
        strbuf_addf(out, "no transfer (%.160s)", s->why != NULL ? s->why : "?");
}

/* The caller frees. */
static char *words(const struct group_run *r, int entry)
{
    const struct judgement *j = &r->verdicts[entry];
    const struct group_entry *e = &r->entries[entry];
    struct story s;
    struct strbuf out;
    if (e->fault != NULL)
        return xstrdup(e->fault);
    strbuf_init(&out, WHY_MAX);
    read_story(r, entry, &s);
    if (strcmp(r->key.scope, "rail") == 0 && j->verdict != VERDICT_OK)
        strbuf_addf(&out, "rail %d: ", r->worst_rail[entry]);
    switch (j->verdict) {
    case VERDICT_OK:
        strbuf_addf(&out, "%.4g %s with %d partners (%s)", j->median, s.unit, j->measured,
                    s.partners.data);
        if (j->odd_one >= 0)
            strbuf_addf(&out, "; %.4g %s with %s, and both are fine with others: look at the path",
                        j->best_bad, s.unit, group_entry_name(r, j->odd_one));
        break;
    case VERDICT_FAULT:
        say_bad(&out, j, &s);
        if (!isnan(j->partners))
            strbuf_addf(&out, "; those partners reach %.4g with others", j->partners);
        break;
    case VERDICT_UNCLEAR:
        say_bad(&out, j, &s);
        strbuf_adds(&out, s.alone > 0 && s.alone == j->bad
                              ? "; it measured with nobody else, so it may be either of the two"
                              : "; those partners do no better with others");
        break;
    case VERDICT_NONE:
        strbuf_addf(&out, "not measured with anybody who is not at fault%s%.200s%s",
                    s.missing != NULL ? " (" : "", s.missing != NULL ? s.missing : "",
                    s.missing != NULL ? ")" : "");
        break;
    }
    strbuf_done(&s.partners);
    return strbuf_take(&out);
}

/* ---- telling ---- */

static void tell(struct group_run *r, int entry)
{
    struct group_entry *e = &r->entries[entry];
    if (e->ended)
        return;
    enum verdict v = r->verdicts[entry].verdict;
    char *why = words(r, entry);
    struct err err = {0};
    e->ended = true;
    group_save_member(r, entry,
                      e->gone && e->fault == NULL ? "gone" : name_of(verdict_names, v, ""), why);
    if (e->seat != NULL) {
        if (v != VERDICT_OK)
            (void)err_set(&err, v == VERDICT_NONE ? ERR_BUSY : ERR_FAILED, "%s", why);
        step_done(e->seat->run, &err, v == VERDICT_OK ? why : NULL);
    }
    free(why);
}

static void add_failures(const struct group_run *r, struct strbuf *out)
{
    int shown = 0, passed = 0, measured = 0;
    for (int i = 0; i < r->members; i++) {
        measured += !r->entries[i].gone || r->entries[i].fault != NULL;
        passed += !r->entries[i].gone && r->verdicts[i].verdict == VERDICT_OK;
    }
    strbuf_addf(out, "%d of %d passed", passed, measured);
    for (int i = 0; i < r->count && shown < NAMES_SHOWN; i++) {
        if (r->verdicts[i].verdict != VERDICT_FAULT)
            continue;
        char *why = words(r, i);
        strbuf_addf(out, "; %s: %.300s", group_entry_name(r, i), why);
        free(why);
        shown++;
    }
}

static void close_run(struct group_run *r)
{
    struct strbuf text;
    char name[120];
    strbuf_init(&text, SUMMARY_MAX);
    group_name(&r->key, name, sizeof name);
    strbuf_addf(&text, "%s: ", name);
    add_failures(r, &text);
    if (r->left_out != NULL)
        strbuf_addf(&text, "; %s", r->left_out);
    bool gone = true;
    for (int i = 0; i < r->members; i++)
        gone = gone && r->entries[i].gone;
    group_run_save(r, gone ? "cancelled" : "finished", text.data);
    struct store_event row = {.at = engine_wall(r->engine),
                              .kind = "group.finished",
                              .stage = r->key.stage,
                              .text = text.data,
                              .actor = "engine"};
    (void)store_add_event(r->engine->store, &row);
    strbuf_done(&text);
    group_run_lend(r, false);
    group_run_free(r);
}

void group_run_end(void *group_run)
{
    struct group_run *r = group_run;
    if (r->verdicts == NULL)
        group_run_judge(r);
    for (int i = 0; i < TOLD_AT_ONCE && r->told < r->count; i++, r->told++)
        tell(r, r->told);
    if (r->told < r->count)
        timer_set(r->engine->loop, &r->timer, 1, group_run_end, r);
    else
        close_run(r);
}
