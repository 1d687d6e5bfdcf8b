/* Scripts of profiles that only look (`run: SCRIPT, sweep: true`): a sweep brings and runs them in
 * its one connection, after the question for a workload. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "engine/node.h"
#include "engine/ssh.h"

enum {
    NOT_RUN = 124
}; /* timeout(1), and what a shell says of what it could not run, or of a signal */

void sweep_scripts_drop(struct sweep *s)
{
    for (int i = 0; i < s->script_count; i++) {
        free(s->scripts[i].stage);
        free(s->scripts[i].what);
    }
    free(s->scripts);
    s->scripts = NULL;
    s->script_count = 0;
}

/* Proven, or it failed after drift and can prove itself again. */
static bool is_swept(const struct stage_rt *s)
{
    return !s->def->wipes &&
           (s->status == STAGE_PASSED || (s->status == STAGE_FAILED && s->drift != NULL));
}

static void add_script(struct enode *n, const struct stage_def *def, const struct step_def *step,
                       struct remote_sweep *what, struct script_vars *vars)
{
    struct engine *e = n->engine;
    struct engine_file file;
    struct sweep *s = &n->sweep;
    const struct script script = {.stage = def, .on = n, .path = step->what, .rail = -1};
    if (s->script_count == SWEEP_SCRIPTS_MAX || e->c.file == NULL ||
        !e->c.file(step->what, &file, e->c.user))
        return;
    script_vars_fill(&vars[s->script_count], &script);
    what->scripts[s->script_count] =
        (struct remote_run_spec){.script = file.text,
                                 .script_len = file.len,
                                 .names = (const char *const *)vars[s->script_count].names,
                                 .values = (const char *const *)vars[s->script_count].values,
                                 .var_count = vars[s->script_count].count};
    s->scripts[s->script_count++] =
        (struct sweep_script){.stage = xstrdup(def->name), .what = xstrdup(step->what)};
    what->script_count = s->script_count;
}

struct script_vars *sweep_scripts_fill(struct enode *n, struct remote_sweep *what)
{
    struct script_vars *vars = xcalloc(SWEEP_SCRIPTS_MAX, sizeof *vars);
    sweep_scripts_drop(&n->sweep);
    n->sweep.scripts = xcalloc(SWEEP_SCRIPTS_MAX, sizeof *n->sweep.scripts);
    for (int i = 0; i < n->stage_count; i++) {
        const struct stage_def *def = n->stages[i].def;
        for (int j = 0; is_swept(&n->stages[i]) && j < def->step_count; j++)
            if (def->steps[j].sweep && strcmp(def->steps[j].type, "run") == 0)
                add_script(n, def, &def->steps[j], what, vars);
    }
    return vars;
}

void sweep_scripts_done(struct enode *n, struct script_vars *vars)
{
    for (int i = 0; i < n->sweep.script_count; i++)
        script_vars_done(&vars[i]);
    free(vars);
}

int sweep_scripts_take(struct enode *n, const struct remote_sweep_answer *a, struct err *err)
{
    struct sweep *s = &n->sweep;
    if (a->script_count != s->script_count)
        return err_set(err, ERR_INVALID, "%d of %d scripts of the sweep were run", a->script_count,
                       s->script_count);
    for (int i = 0; i < s->script_count; i++) {
        s->scripts[i].exit_code = a->scripts[i].exit_code;
        (void)snprintf(s->scripts[i].line, sizeof s->scripts[i].line, "%s", a->scripts[i].line);
    }
    return 0;
}

int sweep_scripts_judge(const struct enode *n, const struct stage_def *def, struct strbuf *text)
{
    int verdict = SCRIPTS_NONE;
    for (int i = 0; i < n->sweep.script_count; i++) {
        const struct sweep_script *x = &n->sweep.scripts[i];
        if (strcmp(x->stage, def->name) != 0)
            continue;
        if (x->exit_code > 0 && x->exit_code < NOT_RUN) {
            strbuf_addf(text, "%s%s ended with exit code %d: %s", text->len > 0 ? "; " : "",
                        x->what, x->exit_code, x->line[0] ? x->line : "it printed nothing");
            verdict = SCRIPTS_WRONG;
        } else if (x->exit_code != 0 && verdict != SCRIPTS_WRONG) {
            verdict = SCRIPTS_UNKNOWN;
        } else if (verdict == SCRIPTS_NONE) {
            verdict = SCRIPTS_FINE;
        }
    }
    return verdict;
}

void sweep_scripts_problem(const struct enode *n, char *text, size_t size)
{
    text[0] = '\0';
    for (int i = 0; i < n->sweep.script_count; i++) {
        const struct sweep_script *x = &n->sweep.scripts[i];
        if (x->exit_code >= NOT_RUN)
            (void)snprintf(text, size, "; %s of %s told nothing (exit code %d: %.100s)", x->what,
                           x->stage, x->exit_code, x->line);
    }
}
