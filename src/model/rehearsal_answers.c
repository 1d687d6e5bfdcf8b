/* What scripts print in a rehearsal where their stage measures something: figures that meet the
 * limits, because a simulated machine has none of its own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/rehearsal.h"

enum { LOG_MAX = 64 * 1024 };

/* A machine with two current processors and NVMe. */
static const struct figure {
    const char *name;
    double value;
    const char *unit;
} usual[] = {{"cpu_sha256", 24000, "MB/s"},
             {"memory_copy", 11500, "MB/s"},
             {"disk_write", 1900, "MB/s"},
             {"disk_read", 3200, "MB/s"},
             {"ib_write_bw", 380, "Gb/s"}};

/* A limit is a number, or the variable that holds it; the strictest of the class's nodes. */
static double limit_of(const struct spec *s, int class_index, const json_t *limit, bool is_min)
{
    double found = (double)NAN;
    if (json_is_number(limit))
        return json_number_value(limit);
    const char *variable = json_string_value(limit);
    for (int i = 0; variable != NULL && i < s->node_count; i++) {
        const json_t *v = json_object_get(s->nodes[i].vars, variable);
        const char *text = json_string_value(v);
        if (s->nodes[i].class_index != class_index || v == NULL)
            continue;
        double x = text != NULL ? strtod(text, NULL) : json_number_value(v);
        if (isnan(found) || (is_min ? x > found : x < found))
            found = x;
    }
    return found;
}

static double within(double value, double min, double max)
{
    if (!isnan(min) && value < min * 1.02)
        value = min > 0 ? min * 1.05 : min;
    if (isnan(max) || value <= max)
        return value;
    return !isnan(min) ? (min + max) / 2 : max > 0 ? max * 0.95 : max;
}

static const struct figure *find_usual(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if (strcmp(usual[i].name, name) == 0)
            return &usual[i];
    return NULL;
}

struct writer {
    const struct spec *s;
    int class_index;
    const json_t *limits;
    struct strbuf log;
    json_t *names;
};

static double figure_for(const struct writer *w, const char *name)
{
    const struct figure *f = find_usual(name);
    const json_t *limit = json_object_get(w->limits, name);
    double min = limit_of(w->s, w->class_index, json_object_get(limit, "min"), true);
    double max = limit_of(w->s, w->class_index, json_object_get(limit, "max"), false);
    return within(f != NULL ? f->value : 100, min, max);
}

static void write_node_test(struct writer *w)
{
    const char *name;
    json_t *limit;
    for (size_t i = 0; i < ARRAY_LEN(usual) - 1; i++) {
        strbuf_addf(&w->log, "measure %s %.1f %s\n", usual[i].name, figure_for(w, usual[i].name),
                    usual[i].unit);
        (void)json_array_append_new(w->names, json_string(usual[i].name));
    }
    json_object_foreach((json_t *)w->limits, name, limit)
    {
        const struct figure *f = find_usual(name);
        if (f != NULL && f != &usual[ARRAY_LEN(usual) - 1])
            continue;
        strbuf_addf(&w->log, "measure %s %.1f simulated\n", name, figure_for(w, name));
        (void)json_array_append_new(w->names, json_string(name));
    }
}

/* The end of perftest's table. */
static void write_ib_write_bw(struct writer *w)
{
    double gbs = figure_for(w, "ib_write_bw");
    strbuf_addf(&w->log,
                " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
                " 1048576    20000            %.2f             %.2f               %.6f\n",
                gbs, gbs, gbs * 1e9 / 8 / 1048576 / 1e6);
    (void)json_array_append_new(w->names, json_string("ib_write_bw"));
}

static const struct {
    const char *parser;
    void (*write)(struct writer *w);
} formats[] = {{"node-test", write_node_test}, {"ib-write-bw", write_ib_write_bw}};

static void answer_stage(const struct spec *s, int class_index, const struct stage_def *d,
                         json_t *answers, json_t *figures)
{
    struct writer w = {.s = s, .class_index = class_index, .names = json_array()};
    strbuf_init(&w.log, LOG_MAX);
    strbuf_addf(&w.log, "%s: simulated, nothing was done\n", d->name);
    for (int i = 0; i < d->step_count; i++) {
        w.limits = json_object_get(d->steps[i].params, "limits");
        for (size_t k = 0; k < ARRAY_LEN(formats); k++)
            if (strcmp(d->steps[i].type, "measure") == 0 &&
                strcmp(d->steps[i].what, formats[k].parser) == 0)
                formats[k].write(&w);
    }
    if (json_array_size(w.names) > 0) {
        const char *class_name = s->classes[class_index].name;
        char *path = xasprintf("%s/%s.log", class_name, d->name);
        (void)json_object_set_new(answers, path, json_string(w.log.data));
        (void)json_array_append_new(figures, json_pack("{s:s,s:s,s:O}", "stage", d->name, "class",
                                                       class_name, "names", w.names));
        free(path);
    }
    json_decref(w.names);
    strbuf_done(&w.log);
}

json_t *rehearsal_answers(const struct spec *s, json_t *figures)
{
    json_t *answers = json_object();
    for (int i = 0; i < s->class_count; i++)
        for (int k = 0; k < s->classes[i].profile->stage_count; k++)
            answer_stage(s, i, &s->classes[i].profile->stages[k], answers, figures);
    return answers;
}
