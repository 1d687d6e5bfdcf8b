#include "model/profile_steps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "text/schema.h"

enum param_kind {
    PARAM_TIME,   /* "5m" */
    PARAM_PATH,   /* a file under templates/ */
    PARAM_TARGET, /* an absolute path on the node */
    PARAM_MODE,   /* octal file mode */
    PARAM_COUNT,
    PARAM_NUMBER,
    PARAM_VAR,    /* the name of a variable of the profile */
    PARAM_PARSER, /* a word of parsers[] */
    PARAM_SWEEP,  /* true or false: of the step itself, not among its parameters */
    PARAM_SHARE,  /* "75%" */
    PARAM_BOTH,   /* the words one, both */
    PARAM_LIMITS, /* {NAME: {min: NUMBER or variable, max: ...}} */
};

struct param_row {
    const char *name;
    enum param_kind kind;
    bool required;
};

struct step_row {
    const char *type;
    const char *const *whats; /* the words that may follow; NULL: a path below templates/ */
    const struct param_row *params;
};

static const char *const parsers[] = {"node-test", "ib-write-bw", NULL};

static const struct param_row timeout_only[] = {{"timeout", PARAM_TIME, false}, {0}};
static const struct param_row copy_params[] = {
    {"to", PARAM_TARGET, true}, {"mode", PARAM_MODE, false}, {"timeout", PARAM_TIME, false}, {0}};
static const struct param_row run_params[] = {
    {"timeout", PARAM_TIME, false}, {"sweep", PARAM_SWEEP, false}, {0}};
static const struct param_row check_params[] = {{"count", PARAM_COUNT, false},
                                                {"rate_gbs", PARAM_NUMBER, false},
                                                {"version", PARAM_VAR, false},
                                                {"sweep", PARAM_SWEEP, false},
                                                {0}};
static const struct param_row measure_params[] = {{"limits", PARAM_LIMITS, false}, {0}};
static const struct param_row group_params[] = {
    {"server", PARAM_PATH, true},      {"client", PARAM_PATH, true},
    {"measure", PARAM_PARSER, true},   {"floor_gbs", PARAM_NUMBER, false},
    {"floor", PARAM_VAR, false},       {"timeout", PARAM_TIME, false},
    {"counts_for", PARAM_BOTH, false}, {"rounds", PARAM_COUNT, false},
    {"gather", PARAM_TIME, false},     {"quorum", PARAM_SHARE, false},
    {"at_once", PARAM_COUNT, false},   {0}};

static const struct step_row steps[] = {
    {"bmc",
     (const char *const[]){"verify", "identity", "power-on", "power-off", "power-cycle", "boot-pxe",
                           "boot-disk", NULL},
     timeout_only},
    {"netboot", (const char *const[]){"discover", "install", NULL}, timeout_only},
    {"wait", (const char *const[]){"ssh", NULL}, timeout_only},
    {"run", NULL, run_params},
    {"copy", NULL, copy_params},
    {"probe", (const char *const[]){"node", NULL}, timeout_only},
    {"check", (const char *const[]){"identity", "bom", "hcas", "driver", NULL}, check_params},
    {"measure", parsers, measure_params},
    {"group", (const char *const[]){"pair", "rail", "rack", "cluster", NULL}, group_params},
};

static int word_count(const char *const *words)
{
    int n = 0;
    while (words[n] != NULL)
        n++;
    return n;
}

static bool has_word(const char *const *words, const char *word)
{
    for (; *words != NULL; words++)
        if (strcmp(*words, word) == 0)
            return true;
    return false;
}

bool path_is_inside(const char *path)
{
    if (path[0] == '\0' || path[0] == '/' || strlen(path) > 255)
        return false;
    for (const char *p = path; *p != '\0'; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f || *p == '\\')
            return false;
    for (const char *part = path; part != NULL;) {
        size_t len = strcspn(part, "/");
        if (len == 0 || (len == 1 && part[0] == '.') ||
            (len == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part = part[len] == '/' ? part + len + 1 : NULL;
    }
    return true;
}

bool var_name_ok(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= 64 && (name[0] < '0' || name[0] > '9') &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == len;
}

int share_percent(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    int value = digits > 0 && digits <= 3 && strcmp(text + digits, "%") == 0 ? atoi(text) : 0;
    return value <= 100 ? value : 0;
}

static bool limit_ok(const struct ynode *limit, struct diags *d)
{
    double min = -HUGE_VAL, max = HUGE_VAL;
    if (limit->kind != YNODE_MAP || limit->count == 0) {
        ynode_error(limit, d, "a limit is written as {min: NUMBER}, {max: NUMBER} or both");
        return false;
    }
    for (int i = 0; i < limit->count; i++) {
        const struct ynode *key = limit->pairs[i].key, *value = limit->pairs[i].value;
        static const char *const known[] = {"min", "max"};
        double number;
        if (strcmp(key->text, "min") != 0 && strcmp(key->text, "max") != 0) {
            schema_unknown(key, d, "key", key->text, known, 2);
            return false;
        }
        if (value->kind != YNODE_SCALAR ||
            (!ynode_number(value, &number) && !var_name_ok(value->text))) {
            ynode_error(value, d, "'%s' must be a number or the name of a variable", key->text);
            return false;
        }
        if (ynode_number(value, &number))
            *(strcmp(key->text, "min") == 0 ? &min : &max) = number;
    }
    if (min > max) {
        ynode_error(limit, d, "'min' is above 'max', so nothing could pass");
        return false;
    }
    return true;
}

static bool limits_ok(const struct ynode *v, struct diags *d)
{
    if (v->kind != YNODE_MAP) {
        ynode_error(v, d, "'limits' must be a mapping of measured names, not %s",
                    ynode_kind_text(v));
        return false;
    }
    bool ok = true;
    for (int i = 0; i < v->count; i++)
        ok = limit_ok(v->pairs[i].value, d) && ok;
    return ok;
}

/* NULL when the text fits, else what it must be. */
static const char *scalar_problem(enum param_kind kind, const struct ynode *v)
{
    int64_t whole;
    double number;
    switch (kind) {
    case PARAM_TIME:
        return clock_parse_duration(v->text, &whole, NULL) == 0 && whole > 0
                   ? NULL
                   : "a time with its unit, such as 90s, 10m or 2h";
    case PARAM_PATH:
        return path_is_inside(v->text) ? NULL : "a path below templates/, without '..'";
    case PARAM_TARGET:
        return v->text[0] == '/' && path_is_inside(v->text + 1) ? NULL
                                                                : "an absolute path on the node";
    case PARAM_MODE:
        return strlen(v->text) >= 3 && strlen(v->text) <= 4 &&
                       v->text[strspn(v->text, "01234567")] == '\0'
                   ? NULL
                   : "a file mode in octal, such as \"0755\"";
    case PARAM_COUNT:
        return ynode_int(v, &whole) && whole > 0 && whole < 10000 ? NULL : "a count from 1";
    case PARAM_NUMBER:
        return ynode_number(v, &number) && number >= 0 ? NULL : "a number from 0";
    case PARAM_SHARE:
        return share_percent(v->text) > 0 ? NULL : "a share of the group, 1% to 100%";
    case PARAM_BOTH:
        return strcmp(v->text, "one") == 0 || strcmp(v->text, "both") == 0
                   ? NULL
                   : "'one' (who measured) or 'both' (its partner, too)";
    case PARAM_VAR:
        return var_name_ok(v->text) ? NULL : "the name of a variable";
    default:
        return NULL;
    }
}

static bool read_param(const struct step_row *row, const struct ynode *key, const struct ynode *v,
                       struct step_def *step, struct diags *d)
{
    const struct param_row *param = row->params;
    while (param->name != NULL && strcmp(param->name, key->text) != 0)
        param++;
    if (param->name == NULL) {
        const char *known[16];
        int count = 0;
        for (param = row->params; param->name != NULL; param++)
            known[count++] = param->name;
        char kind[64];
        snprintf(kind, sizeof kind, "parameter of '%s'", row->type);
        schema_unknown(key, d, kind, key->text, known, count);
        return false;
    }
    if (param->kind == PARAM_LIMITS) {
        if (!limits_ok(v, d))
            return false;
        (void)json_object_set_new(step->params, key->text, ynode_json(v, false));
        return true;
    }
    if (v->kind != YNODE_SCALAR) {
        ynode_error(v, d, "'%s' must be text, not %s", key->text, ynode_kind_text(v));
        return false;
    }
    if (param->kind == PARAM_SWEEP) {
        if (!ynode_bool(v, &step->sweep)) {
            ynode_error(v, d, "'sweep' must be true or false");
            return false;
        }
        return true;
    }
    if (param->kind == PARAM_PARSER && !has_word(parsers, v->text)) {
        schema_unknown(v, d, "parser", v->text, parsers, word_count(parsers));
        return false;
    }
    const char *problem = scalar_problem(param->kind, v);
    if (problem != NULL) {
        ynode_error(v, d, "'%s' must be %s", key->text, problem);
        return false;
    }
    (void)json_object_set_new(step->params, key->text, json_string(v->text));
    return true;
}

static const struct step_row *find_type(const char *word)
{
    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        if (strcmp(steps[i].type, word) == 0)
            return &steps[i];
    return NULL;
}

/* The first key says the type: later ones may have names of types (`measure` of a group). */
static const struct step_row *read_type(const struct ynode *map, struct diags *d)
{
    if (map->kind != YNODE_MAP || map->count == 0) {
        ynode_error(map, d, "a step is a mapping that begins with its type, such as {run: FILE}");
        return NULL;
    }
    const struct ynode *key = map->pairs[0].key;
    const struct step_row *row = find_type(key->text);
    if (row == NULL) {
        const char *known[ARRAY_LEN(steps)];
        for (size_t i = 0; i < ARRAY_LEN(steps); i++)
            known[i] = steps[i].type;
        schema_unknown(key, d, "step", key->text, known, (int)ARRAY_LEN(steps));
    }
    return row;
}

static bool read_what(const struct step_row *row, const struct ynode *v, struct diags *d)
{
    if (v->kind != YNODE_SCALAR || ynode_is_null(v)) {
        ynode_error(v, d, "'%s' must be followed by %s, not %s", row->type,
                    row->whats != NULL ? "a word" : "a path below templates/", ynode_kind_text(v));
        return false;
    }
    if (row->whats != NULL && !has_word(row->whats, v->text)) {
        char kind[64];
        snprintf(kind, sizeof kind, "word after '%s'", row->type);
        schema_unknown(v, d, kind, v->text, row->whats, word_count(row->whats));
        return false;
    }
    if (row->whats == NULL && !path_is_inside(v->text)) {
        ynode_error(v, d, "'%s' must be a path below templates/, without '..'", row->type);
        return false;
    }
    return true;
}

/* A pair and a larger group have each their own parameters. */
static bool group_ok(const struct ynode *map, const struct step_def *step, struct diags *d)
{
    static const char *const of_groups[] = {"rounds", "gather", "quorum", "at_once"};
    bool pair = strcmp(step->what, "pair") == 0, ok = true;
    for (size_t i = 0; pair && i < ARRAY_LEN(of_groups); i++) {
        const struct ynode *v = ynode_get(map, of_groups[i]);
        if (v != NULL) {
            ynode_error(v, d, "'%s' is for group: rail, rack or cluster; a pair has no rounds",
                        of_groups[i]);
            ok = false;
        }
    }
    const struct ynode *both = ynode_get(map, "counts_for");
    if (!pair && both != NULL) {
        ynode_error(both, d,
                    "'counts_for' is for group: pair; in a larger group each result "
                    "counts for both");
        ok = false;
    }
    return ok;
}

bool step_read(const struct ynode *map, struct step_def *ret_step, struct diags *d)
{
    const struct step_row *row = read_type(map, d);
    if (row == NULL)
        return false;
    const struct ynode *what = map->pairs[0].value;
    bool ok = read_what(row, what, d);
    struct step_def step = {.type = xstrdup(row->type),
                            .what = xstrdup(what->kind == YNODE_SCALAR ? what->text : ""),
                            .params = json_object(),
                            .sweep = strcmp(row->type, "check") == 0,
                            .file = xstrdup(map->file),
                            .line = map->line,
                            .column = map->column};
    for (int i = 1; i < map->count; i++)
        ok = read_param(row, map->pairs[i].key, map->pairs[i].value, &step, d) && ok;
    for (const struct param_row *p = row->params; p->name != NULL; p++) {
        if (p->required && ynode_get(map, p->name) == NULL) {
            ynode_error(map, d, "step '%s: %s' needs the parameter '%s'", step.type, step.what,
                        p->name);
            ok = false;
        }
    }
    const struct ynode *variable = ynode_get(map, "floor");
    if (variable != NULL && ynode_get(map, "floor_gbs") != NULL) {
        ynode_error(variable, d, "give 'floor' (a variable) or 'floor_gbs' (a number), not both");
        ok = false;
    }
    if (strcmp(step.type, "group") == 0)
        ok = group_ok(map, &step, d) && ok;
    if (!ok) {
        step_def_done(&step);
        return false;
    }
    *ret_step = step;
    return true;
}

void step_def_done(struct step_def *step)
{
    free(step->type);
    free(step->what);
    free(step->file);
    json_decref(step->params);
    *step = (struct step_def){0};
}
