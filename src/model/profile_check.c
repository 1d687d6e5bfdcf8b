/* What must hold between the stages of a profile, and their order. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/profile_parse.h"

static int stage_index(const struct profile *p, const char *name)
{
    for (int i = 0; i < p->stage_count; i++)
        if (strcmp(p->stages[i].name, name) == 0)
            return i;
    return -1;
}

static void step_error(const struct step_def *step, struct diags *d, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void step_error(const struct step_def *step, struct diags *d, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    diags_add(d, DIAG_ERROR, step->file, step->line, step->column, "%s", text);
}

/* Where `word` was written in the list `key` of a stage: the nearest profile that has the key. */
static const struct ynode *word_at(const struct raw_profile *p, const char *stage, const char *key,
                                   const char *word)
{
    const struct stage_chain *c = p->chains;
    while (strcmp(c->name, stage) != 0)
        c++;
    const struct ynode *list = NULL;
    for (int i = 0; i < c->count && list == NULL; i++)
        list = ynode_get(c->rows[i], key);
    for (int i = 0; list != NULL && list->kind == YNODE_LIST && i < list->count; i++)
        if (strcmp(list->items[i]->text, word) == 0)
            return list->items[i];
    return list != NULL ? list : c->rows[0];
}

static bool is_dropped(const struct raw_profile *p, const char *name)
{
    for (int i = 0; i < p->dropped_count; i++)
        if (strcmp(p->dropped[i], name) == 0)
            return true;
    return false;
}

/* The order after a stage that was dropped means nothing any more. */
static void forget_dropped(const struct raw_profile *p, char **after)
{
    int kept = 0;
    for (int i = 0; after[i] != NULL; i++) {
        if (stage_index(&p->result, after[i]) < 0 && is_dropped(p, after[i]))
            free(after[i]);
        else
            after[kept++] = after[i];
    }
    after[kept] = NULL;
}

static void check_stage_names(const struct raw_profile *p, const struct stage_def *s, char **names,
                              const char *key, struct diags *d)
{
    const struct profile *r = &p->result;
    for (int i = 0; names[i] != NULL; i++) {
        const struct ynode *at = word_at(p, s->name, key, names[i]);
        if (strcmp(names[i], s->name) == 0) {
            ynode_error(at, d, "stage '%s': '%s' names the stage itself", s->name, key);
        } else if (strcmp(names[i], LAST_STAGE) == 0) {
            ynode_error(at, d, "stage '%s': nothing comes after '" LAST_STAGE "'", s->name);
        } else if (stage_index(r, names[i]) >= 0) {
            continue;
        } else if (is_dropped(p, names[i])) {
            ynode_error(at, d, "stage '%s' needs '%s', which profile '%s' drops", s->name, names[i],
                        p->name);
        } else {
            const char *known[STAGES_MAX];
            for (int k = 0; k < r->stage_count; k++)
                known[k] = r->stages[k].name;
            schema_unknown(at, d, "stage", names[i], known, r->stage_count);
        }
    }
}

static void check_vars(const struct raw_profile *p, const struct stage_def *s, struct diags *d)
{
    for (int i = 0; s->vars[i] != NULL; i++)
        if (json_object_get(p->vars, s->vars[i]) == NULL)
            ynode_error(word_at(p, s->name, "vars", s->vars[i]), d,
                        "stage '%s': the profile's 'vars' do not declare '%s'", s->name,
                        s->vars[i]);
}

/* A limit that names a variable: it must be declared, with a number. */
static void check_limit_var(const struct raw_profile *p, const struct step_def *step,
                            const char *name, struct diags *d)
{
    const json_t *value = json_object_get(p->vars, name);
    const char *text = json_string_value(value);
    if (value == NULL) {
        step_error(step, d, "step '%s: %s': the profile's 'vars' do not declare '%s'", step->type,
                   step->what, name);
        return;
    }
    char *end = NULL;
    double number = text != NULL ? strtod(text, &end) : (double)NAN;
    if (end == text || (end != NULL && *end != '\0') || !isfinite(number))
        step_error(step, d, "step '%s: %s': variable '%s' is a limit, so its default is a number",
                   step->type, step->what, name);
}

static void check_limits(const struct raw_profile *p, const struct step_def *step, struct diags *d)
{
    const char *name, *bound;
    json_t *limit, *value;
    json_object_foreach(json_object_get(step->params, "limits"), name, limit)
    {
        json_object_foreach(limit, bound, value)
        {
            if (json_is_string(value))
                check_limit_var(p, step, json_string_value(value), d);
        }
    }
    const char *variable = json_string_value(json_object_get(step->params, "floor"));
    if (variable != NULL)
        check_limit_var(p, step, variable, d);
    const char *version = json_string_value(json_object_get(step->params, "version"));
    if (version != NULL && json_object_get(p->vars, version) == NULL)
        step_error(step, d, "step '%s: %s': the profile's 'vars' do not declare '%s'", step->type,
                   step->what, version);
}

/* Who waits for its group until the deadline has no time left to measure. */
static void check_group(const struct stage_def *s, const struct step_def *step, struct diags *d)
{
    const char *text = json_string_value(json_object_get(step->params, "gather"));
    int64_t gather = 0;
    if (text != NULL && clock_parse_duration(text, &gather, NULL) == 0 && gather >= s->deadline_ms)
        step_error(step, d,
                   "step '%s: %s' gathers its members for %s, and the stage's deadline is no later",
                   step->type, step->what, text);
}

static void check_steps(const struct raw_profile *p, const struct stage_def *s, struct diags *d)
{
    bool printed = false;
    for (int i = 0; i < s->step_count; i++) {
        const struct step_def *step = &s->steps[i];
        const char *text = json_string_value(json_object_get(step->params, "timeout"));
        int64_t timeout = 0;
        if (text != NULL && clock_parse_duration(text, &timeout, NULL) == 0 &&
            timeout > s->deadline_ms)
            step_error(step, d, "step '%s: %s' may take %s, longer than the stage's deadline",
                       step->type, step->what, text);
        if (strcmp(step->type, "measure") == 0 && !printed)
            step_error(step, d, "'measure: %s' reads what a 'run' step before it printed",
                       step->what);
        if (strcmp(step->type, "netboot") == 0 && strcmp(step->what, "install") == 0 && !s->wipes)
            step_error(step, d, "stage '%s' installs, so it needs 'wipes: true'", s->name);
        printed = printed || strcmp(step->type, "run") == 0;
        check_limits(p, step, d);
        check_group(s, step, d);
    }
}

static void check_stage(const struct raw_profile *p, const struct stage_def *s, struct diags *d)
{
    forget_dropped(p, s->after);
    check_stage_names(p, s, s->after, "after", d);
    check_stage_names(p, s, s->needs, "needs", d);
    check_vars(p, s, d);
    check_steps(p, s, d);
}

static bool ready(const struct profile *p, const bool *placed, char **names)
{
    for (int i = 0; names[i] != NULL; i++) {
        int at = stage_index(p, names[i]);
        if (at >= 0 && !placed[at])
            return false;
    }
    return true;
}

/* The first in order of writing whose predecessors are placed; -1: a circle. */
static int next_stage(const struct profile *p, const bool *placed, int placed_count)
{
    for (int i = 0; i < p->stage_count; i++) {
        bool last = strcmp(p->stages[i].name, LAST_STAGE) == 0;
        if (!placed[i] && (!last || placed_count == p->stage_count - 1) &&
            ready(p, placed, p->stages[i].after) && ready(p, placed, p->stages[i].needs))
            return i;
    }
    return -1;
}

/*
 * Follows the stages that are not placed until one comes again: that one is on a circle. Each of
 * them has a predecessor of the kind, or it would have been placed; the last stage is nobody's.
 */
static void say_circle(const struct raw_profile *p, const bool *placed, struct diags *d)
{
    const struct profile *r = &p->result;
    int path[STAGES_MAX + 1], len = 0, at = 0, again = -1;
    while (placed[at] || strcmp(r->stages[at].name, LAST_STAGE) == 0)
        at++;
    while (again < 0) {
        char **lists[] = {r->stages[at].needs, r->stages[at].after};
        int next = -1;
        path[len++] = at;
        for (int k = 0; k < 2; k++)
            for (int i = 0; next < 0 && lists[k][i] != NULL; i++)
                if (!placed[stage_index(r, lists[k][i])])
                    next = stage_index(r, lists[k][i]);
        if (next < 0)
            return;
        for (int i = 0; i < len; i++)
            if (path[i] == next)
                again = i;
        at = next;
    }
    struct strbuf text;
    strbuf_init(&text, 400);
    for (int i = again; i < len; i++)
        strbuf_addf(&text, "%s -> ", r->stages[path[i]].name);
    strbuf_adds(&text, r->stages[at].name);
    diags_add(d, DIAG_ERROR, r->stages[at].file, r->stages[at].line, r->stages[at].column,
              "'after' and 'needs' form a circle: %s", text.data);
    strbuf_done(&text);
}

static void sort_stages(struct raw_profile *raw, struct diags *d)
{
    struct profile *p = &raw->result;
    bool placed[STAGES_MAX + 1] = {false};
    struct stage_def *sorted = xcalloc((size_t)p->stage_count + 1, sizeof *sorted);
    int count = 0, at;
    while (count < p->stage_count && (at = next_stage(p, placed, count)) >= 0) {
        placed[at] = true;
        sorted[count++] = p->stages[at];
    }
    if (count == p->stage_count)
        memcpy(p->stages, sorted, (size_t)count * sizeof *sorted);
    else
        say_circle(raw, placed, d);
    free(sorted);
}

/* They all go into the one connection of a sweep. */
static void check_swept_scripts(const struct profile *p, struct diags *d)
{
    int count = 0;
    for (int i = 0; i < p->stage_count; i++)
        for (int j = 0; j < p->stages[i].step_count; j++) {
            const struct step_def *step = &p->stages[i].steps[j];
            if (step->sweep && strcmp(step->type, "run") == 0 && ++count == SWEPT_SCRIPTS_MAX + 1)
                step_error(step, d, "more than %d scripts of the profile have 'sweep: true'",
                           SWEPT_SCRIPTS_MAX);
        }
}

void profile_check(struct raw_profile *p, struct diags *d)
{
    struct profile *r = &p->result;
    int errors = d->errors;
    check_swept_scripts(r, d);
    for (int i = 0; i < r->stage_count; i++)
        check_stage(p, &r->stages[i], d);
    if (d->errors == errors)
        sort_stages(p, d);
    if (d->errors > errors)
        return;
    if (r->stage_count == 0 || strcmp(r->stages[0].name, FIRST_STAGE) != 0)
        ynode_error(p->root, d, "profile '%s': the first stage must be '" FIRST_STAGE "'", p->name);
    else if (strcmp(r->stages[r->stage_count - 1].name, LAST_STAGE) != 0)
        ynode_error(p->root, d, "profile '%s': the last stage must be '" LAST_STAGE "'", p->name);
}
