/* Steps that reach into the node over SSH: wait, run, copy, probe, measure. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "checks/checks.h"
#include "engine/node.h"
#include "engine/ssh.h"

enum { WAIT_MS = 10 * 60000, RUN_MS = 30 * 60000, COPY_MS = 5 * 60000, PROBE_MS = 2 * 60000 };

static struct remote_op *result_of(struct op *op)
{
    return (struct remote_op *)(void *)op;
}

/* ---- wait: ssh ---- */

static void on_waited(struct op *op, void *user)
{
    struct step_run *run = user;
    char text[120];
    (void)snprintf(text, sizeof text,
                   "logged in with the host key that the install reported; boot id %s",
                   result_of(op)->boot_id);
    if (op_ok(op))
        watts_settled(run->node);
    step_done(run, &op->err, op_ok(op) ? text : NULL);
}

static int wait_start(struct step_run *run, struct err *err)
{
    struct remote_target target;
    if (ssh_target(run->node, &target, err) < 0)
        return -(int)err->code;
    step_note(run, "waiting for SSH on %s", target.address);
    run->op = &remote_wait(run->engine->c.remote_hub, &target,
                           step_duration(run, "timeout", WAIT_MS), on_waited, run)
                   ->op;
    return 0;
}

const struct step_type step_wait = {.name = "wait", .start = wait_start};

/* ---- run: SCRIPT ---- */

static void run_id(const struct step_run *run, char *ret, size_t size)
{
    (void)snprintf(ret, size, "a%lld-s%d", (long long)run->attempt_id, run->index);
}

static void on_run_log(const char *data, size_t len, void *user)
{
    struct step_run *run = user;
    char line[160] = "";
    script_last_line(data, len, line, sizeof line);
    if (line[0] != '\0')
        step_note(run, "%s: %s", run->def->what, line);
}

static void keep_log(struct step_run *run, const struct strbuf *log)
{
    struct attempt *a = run->node->attempt;
    step_evidence(run, "log", log->data);
    free(a->log);
    a->log = xstrdup(log->data);
}

static void on_run_done(struct op *op, void *user)
{
    struct step_run *run = user;
    struct remote_op *r = result_of(op);
    char line[240] = "";
    struct err err = op->err;
    script_last_line(r->out.data, r->out.len, line, sizeof line);
    if (r->out.len > 0)
        keep_log(run, &r->out);
    if (err.code == ERR_FAILED && r->exit_code > 0)
        (void)err_set(&err, ERR_FAILED, "%s ended with exit code %d: %s", run->def->what,
                      r->exit_code, line[0] ? line : "it printed nothing");
    if (err.code == ERR_OK || err.code == ERR_FAILED)
        run->priv = run; /* it ended by itself: nothing is left to kill */
    step_done(run, &err, err.code == ERR_OK ? (line[0] ? line : "exit code 0") : NULL);
}

static int run_start(struct step_run *run, struct err *err)
{
    char id[64];
    run_id(run, id, sizeof id);
    struct script script = {.stage = run->stage,
                            .attempt = run->attempt_id,
                            .on = run->node,
                            .path = run->def->what,
                            .id = id,
                            .rail = -1,
                            .timeout_ms = step_duration(run, "timeout", RUN_MS)};
    struct remote_op *op =
        node_script_start(run->engine, &script, on_run_log, on_run_done, run, err);
    if (op == NULL)
        return -(int)err->code;
    run->op = &op->op;
    step_note(run, "%s %s", run->resumed ? "attaching to" : "starting", run->def->what);
    return 0;
}

static void run_stop(struct step_run *run)
{
    char id[64];
    run_id(run, id, sizeof id);
    bool over = run->priv != NULL || run->op == NULL;
    run->priv = NULL;
    if (!over)
        script_kill(run->node, id);
}

const struct step_type step_run_script = {.name = "run", .start = run_start, .stop = run_stop};

/* ---- copy: FILE ---- */

static void on_copied(struct op *op, void *user)
{
    struct step_run *run = user;
    step_done(run, &op->err, step_param(run, "to", NULL));
}

static int copy_start(struct step_run *run, struct err *err)
{
    struct remote_target target;
    const struct engine_config *c = &run->engine->c;
    if (ssh_target(run->node, &target, err) < 0)
        return -(int)err->code;
    char *from = strcmp(run->def->what, "nodeprobe") == 0
                     ? xstrdup(c->nodeprobe_path)
                     : xasprintf("%s/%s", c->templates_dir, run->def->what);
    int mode = (int)strtol(step_param(run, "mode", "0644"), NULL, 8);
    step_note(run, "copying %s", run->def->what);
    run->op = &remote_upload(c->remote_hub, &target, from, step_param(run, "to", ""), mode,
                             step_duration(run, "timeout", COPY_MS), on_copied, run)
                   ->op;
    free(from);
    return 0;
}

const struct step_type step_copy = {.name = "copy", .start = copy_start};

/* ---- probe: node ---- */

static void on_probed(struct op *op, void *user)
{
    struct step_run *run = user;
    struct remote_op *r = result_of(op);
    struct err err = op->err;
    struct hardware *hw = NULL;
    if (err.code == ERR_FAILED)
        (void)err_set(&err, ERR_FAILED, "nodeprobe ended with exit code %d: %.200s", r->exit_code,
                      r->err_out.data);
    if (err.code == ERR_OK)
        (void)hardware_parse(r->out.data, r->out.len, &hw, &err);
    if (hw == NULL) {
        step_done(run, &err, NULL);
        return;
    }
    char text[80];
    (void)snprintf(text, sizeof text, "%d components", hardware_count(hw));
    step_evidence(run, "probe", r->out.data);
    node_adopt_hardware(run->node, hw, engine_wall(run->engine));
    step_done(run, NULL, text);
}

static void on_probe_there(struct op *op, void *user)
{
    struct step_run *run = user;
    struct remote_target target;
    struct err err = op->err;
    if (err.code == ERR_OK)
        (void)ssh_target(run->node, &target, &err);
    if (err.code != ERR_OK) {
        step_done(run, &err, NULL);
        return;
    }
    run->op = NULL;
    op_free(op);
    step_note(run, "reading the machine's parts");
    run->op = &remote_exec(run->engine->c.remote_hub, &target, NODEPROBE_ON_NODE, NULL, 0,
                           step_duration(run, "timeout", PROBE_MS), on_probed, run)
                   ->op;
}

static int probe_start(struct step_run *run, struct err *err)
{
    struct remote_target target;
    if (ssh_target(run->node, &target, err) < 0)
        return -(int)err->code;
    step_note(run, "copying nodeprobe");
    run->op = &remote_upload(run->engine->c.remote_hub, &target, run->engine->c.nodeprobe_path,
                             NODEPROBE_ON_NODE, 0755, COPY_MS, on_probe_there, run)
                   ->op;
    return 0;
}

const struct step_type step_probe = {.name = "probe", .start = probe_start};

/* ---- measure: PARSER ---- */

/* Limits may name variables: {memory_copy: {min: memory_floor}}. The caller json_decref()s. */
static json_t *resolve_limits(const struct step_run *run)
{
    const json_t *vars = run->node->spec->vars;
    json_t *out = json_deep_copy(json_object_get(run->def->params, "limits"));
    const char *name, *bound;
    json_t *limit, *value;
    json_object_foreach(out, name, limit)
    {
        void *tmp;
        json_object_foreach_safe(limit, tmp, bound, value)
        {
            if (!json_is_string(value))
                continue;
            char *text = var_text(json_object_get(vars, json_string_value(value)));
            char *end;
            double number = strtod(text, &end);
            if (text[0] != '\0' && *end == '\0')
                (void)json_object_set_new(limit, bound, json_real(number));
            else
                (void)json_object_del(limit, bound);
            free(text);
        }
    }
    return out;
}

char *measure_judge(struct step_run *run, const char *parser, const char *log, const json_t *limits,
                    const char *peer, struct err *err)
{
    struct values *values = xcalloc(1, sizeof *values);
    struct strbuf all, bad;
    strbuf_init(&all, 380);
    strbuf_init(&bad, 380);
    (void)checks_parse(parser, log, strlen(log), values, err);
    for (int i = 0; err->code == ERR_OK && i < values->count; i++) {
        const struct value *v = &values->items[i];
        double limit;
        const char *verdict = checks_judge(v, limits, &limit);
        step_measure(run, v->name, v->value, v->unit, peer, limit, verdict);
        strbuf_addf(&all, "%s%s %.4g %s", i ? ", " : "", v->name, v->value, v->unit);
        if (strcmp(verdict, "low") == 0 || strcmp(verdict, "high") == 0)
            strbuf_addf(&bad, "%s%s %.4g %s is %s %.4g", bad.len ? "; " : "", v->name, v->value,
                        v->unit, verdict[0] == 'l' ? "below" : "above", limit);
    }
    if (err->code == ERR_OK && bad.len > 0)
        (void)err_set(err, ERR_FAILED, "%s", bad.data);
    strbuf_done(&bad);
    free(values);
    return strbuf_take(&all);
}

void measure_finish(struct step_run *run, const char *parser, const char *log, const json_t *limits,
                    const char *peer)
{
    struct err err = {0};
    char *all = measure_judge(run, parser, log, limits, peer, &err);
    step_done(run, &err, err.code == ERR_OK ? all : NULL);
    free(all);
}

static int measure_start(struct step_run *run, struct err *err)
{
    const char *log = run->node->attempt->log;
    if (log == NULL)
        return err_set(err, ERR_INVALID,
                       "'measure: %s' comes before any script of this stage printed something",
                       run->def->what);
    json_t *limits = resolve_limits(run);
    measure_finish(run, run->def->what, log, limits, NULL);
    json_decref(limits);
    return 0;
}

const struct step_type step_measure_type = {.name = "measure", .start = measure_start};
