/* The stage machine: picks a node's next stage, journals the attempt, walks its steps, records the
 * end. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "engine/node.h"
#include "engine/rollout.h"
#include "engine/swap.h"
#include "model/fingerprint.h"

enum {
    BACKOFF_MAX_MS = 30 * 60 * 1000,
    PEER_MS = 30000,             /* real time that an attempt has at least; timer_set_least() */
    RESUME_GRACE_MS = 60 * 1000, /* a restarted daemon gives an attempt at least this long */
    REASON_MAX = 4096,
};

/* ---- small queries ---- */

int node_stage_index(const struct enode *n, const char *name)
{
    for (int i = 0; i < n->stage_count; i++)
        if (strcmp(n->stages[i].def->name, name) == 0)
            return i;
    return -1;
}

/* An OS that was proven once stays what later stages build on, until somebody asks for a new one.
 */
static bool stands_without_wiping(const struct stage_rt *s)
{
    return s->def->wipes && s->passed_at > 0 &&
           (s->status == STAGE_STALE || s->status == STAGE_FAILED);
}

bool stage_satisfied(const struct stage_rt *s)
{
    return stage_states[s->status].satisfied || stands_without_wiping(s);
}

static bool names_ready(const struct enode *n, char **names)
{
    for (int i = 0; names != NULL && names[i] != NULL; i++) {
        int at = node_stage_index(n, names[i]);
        if (at >= 0 && !stage_satisfied(&n->stages[at]))
            return false;
    }
    return true;
}

bool node_stages_ready(const struct enode *n, int stage)
{
    const struct stage_def *def = n->stages[stage].def;
    return names_ready(n, def->after) && names_ready(n, def->needs);
}

const char *node_word(const struct enode *n)
{
    const char *word = "unproven";
    for (int i = 0; i < n->stage_count; i++) {
        const struct stage_rt *s = &n->stages[i];
        if (!stage_satisfied(s))
            break;
        if (s->status != STAGE_SKIPPED)
            word = s->def->name;
    }
    return word;
}

const char *node_operation(const struct enode *n)
{
    if (n->attempt != NULL)
        return "running";
    bool unproven = false, queued = false;
    for (int i = 0; i < n->stage_count; i++) {
        const struct stage_rt *s = &n->stages[i];
        if (stage_states[s->status].runnable && s->retry_at > engine_wall(n->engine))
            return "backoff";
        unproven = unproven || !stage_satisfied(s);
        queued = queued || s->status == STAGE_QUEUED;
    }
    if (n->deferred != NULL && unproven && !queued)
        return "deferred";
    if (unproven && !queued && drift_waits(n))
        return "drifted";
    return unproven ? "waiting" : "idle";
}

/* ---- records ---- */

void node_event(struct enode *n, const char *kind, const char *stage, int64_t attempt,
                const char *actor, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct store_event row = {.at = engine_wall(n->engine),
                              .node_id = n->id,
                              .node = n->name,
                              .kind = kind,
                              .stage = stage,
                              .attempt_id = attempt,
                              .text = text,
                              .actor = actor};
    (void)store_add_event(n->engine->store, &row);
    log_info(kind, "%s%s%s: %s", n->name, stage ? " " : "", stage ? stage : "", text);
}

void stage_save(struct enode *n, int stage)
{
    struct stage_rt *s = &n->stages[stage];
    char *inputs = s->inputs != NULL ? json_dumps(s->inputs, JSON_COMPACT) : NULL;
    struct store_stage row = {.node_id = n->id,
                              .name = s->def->name,
                              .ordinal = stage,
                              .status = stage_status_name(s->status),
                              .fingerprint = s->fingerprint,
                              .inputs = inputs,
                              .reason = s->reason,
                              .attempt_id = s->attempt_id,
                              .passed_at = s->passed_at,
                              .changed_at = s->changed_at,
                              .drift = s->drift};
    store_put_stage(n->engine->store, &row);
    free(inputs);
    if (s->def->wipes)
        swap_judge_disks(n, stage);
    json_decref(s->inputs);
    s->inputs = NULL;
}

json_t *stage_proof(const struct enode *n, int stage)
{
    const struct stage_rt *s = &n->stages[stage];
    if (s->inputs != NULL)
        return json_incref(s->inputs);
    char *text = store_stage_inputs(n->engine->store, n->id, s->def->name);
    json_t *inputs = text != NULL ? json_loads(text, 0, NULL) : NULL;
    free(text);
    return inputs;
}

bool stage_post(struct enode *n, int stage, enum stage_event event, const char *reason)
{
    struct stage_rt *s = &n->stages[stage];
    int next = stage_next(s->status, event);
    if (next < 0) {
        log_warn("stage.unexpected", "%s %s: '%s' means nothing while %s", n->name, s->def->name,
                 name_of(stage_event_names, (int)event, "?"), stage_status_name(s->status));
        return false;
    }
    s->status = (enum stage_status)next;
    s->changed_at = engine_wall(n->engine);
    char *copy = xstrdup(reason);
    free(s->reason);
    s->reason = copy;
    if (event == STAGE_EV_SUCCESS || event == STAGE_EV_RERUN || event == STAGE_EV_SKIP ||
        event == STAGE_EV_WAIVE) {
        free(s->drift); /* proven, or an operator's now */
        s->drift = NULL;
    }
    stage_save(n, stage);
    return true;
}

static void save_attempt(const struct enode *n, struct attempt *a, const char *status,
                         const struct err *err, int64_t retry_at)
{
    bool ended = strcmp(status, "running") != 0;
    struct store_attempt row = {
        .id = a->id,
        .node_id = n->id,
        .stage = n->stages[a->stage].def->name,
        .number = a->number,
        .status = status,
        .fingerprint = a->fingerprint,
        .why = a->why,
        .step = a->step,
        .started_at = a->started_at,
        .deadline_at = a->deadline_at,
        .ended_at = ended ? engine_wall(n->engine) : 0,
        .error_code = err != NULL && err->code != ERR_OK ? err_name(err->code) : NULL,
        .error = err != NULL && err->code != ERR_OK ? err->text : NULL,
        .retry_at = retry_at,
    };
    a->id = store_put_attempt(n->engine->store, &row);
}

static void save_step(struct attempt *a, const char *status, const char *result)
{
    struct step_run *run = &a->run;
    char *data = json_dumps(run->data, JSON_COMPACT);
    bool ended = strcmp(status, "running") != 0;
    struct store_step row = {.attempt_id = a->id,
                             .index = run->index,
                             .type = run->def->type,
                             .what = run->def->what,
                             .status = status,
                             .data = data,
                             .result = result,
                             .started_at = run->started_at,
                             .ended_at = ended ? engine_wall(run->engine) : 0};
    store_put_step(run->engine->store, &row);
    free(a->step_data[run->index]);
    a->step_data[run->index] = data;
}

/* ---- attempts ---- */

static void attempt_free(struct enode *n)
{
    struct attempt *a = n->attempt;
    watts_stage_over(n);
    n->attempt = NULL;
    limit_release(&n->place);
    timer_cancel(&a->deadline);
    op_cancel(a->sync);
    for (int i = 0; i < n->stages[a->stage].def->step_count; i++)
        free(a->step_data[i]);
    free(a->step_data);
    free(a->why);
    free(a->fingerprint);
    json_decref(a->inputs);
    json_decref(a->run.data);
    free(a->log);
    free(a);
    n->doing[0] = '\0';
}

/* Ends whatever the step has in flight. Afterwards nothing of it calls back. */
static void stop_step(struct attempt *a)
{
    struct step_run *run = &a->run;
    if (!a->step_running)
        return;
    a->step_running = false;
    if (run->type != NULL && run->type->stop != NULL)
        run->type->stop(run);
    else if (run->type == NULL)
        free(run->priv); /* an outcome that nobody will read */
    op_cancel(run->op);
    op_cancel(run->commit_op);
    timer_cancel(&run->timer);
    limit_release(&run->ticket);
    run->op = run->commit_op = NULL;
    run->priv = NULL;
}

static void set_proof(struct stage_rt *s, char *fingerprint, json_t *inputs)
{
    free(s->fingerprint);
    json_decref(s->inputs);
    s->fingerprint = fingerprint;
    s->inputs = inputs;
}

static void attempt_passed(struct enode *n)
{
    struct attempt *a = n->attempt;
    struct stage_rt *s = &n->stages[a->stage];
    bool drifted = s->drift != NULL;
    json_t *inputs = a->superseded ? json_incref(a->inputs)
                                   : stage_inputs(n->engine, n, n->spec, n->klass, s->def);
    char *fp = xcalloc(1, DIGEST_HEX_SIZE);
    inputs_fingerprint(inputs, fp);
    set_proof(s, fp, inputs);
    s->passed_at = engine_wall(n->engine);
    s->attempt_id = a->id;
    s->tries = 0;
    s->retry_at = 0;
    s->fail_code = ERR_OK;
    char took[CLOCK_TEXT_SIZE];
    (void)clock_format_duration(s->passed_at - a->started_at, took);
    history_add(n->engine, s->def->name, s->passed_at - a->started_at);
    (void)stage_post(n, a->stage, STAGE_EV_SUCCESS, NULL);
    save_attempt(n, a, "passed", NULL, 0);
    node_event(n, "stage.passed", s->def->name, a->id, "engine", "proven in %s", took);
    attempt_free(n);
    if (drifted)
        drift_spread(n, s->def->name);
    node_save(n);
    node_kick(n, 0);
}

static int64_t backoff_ms(struct engine *e, const struct stage_def *def, int tries)
{
    int64_t ms = def->backoff_ms > 0 ? def->backoff_ms : 10000;
    for (int i = 1; i < tries && ms < BACKOFF_MAX_MS; i++)
        ms *= 2;
    if (ms > BACKOFF_MAX_MS)
        ms = BACKOFF_MAX_MS;
    return ms + (int64_t)engine_random(e, (unsigned)(ms / 4 + 1));
}

static void attempt_failed(struct enode *n, const struct err *err, bool deadline)
{
    struct attempt *a = n->attempt;
    struct stage_rt *s = &n->stages[a->stage];
    stop_step(a);
    s->attempt_id = a->id;
    s->fail_code = err->code;
    bool retry = (deadline || err_retryable(err->code)) && s->tries <= s->def->retries;
    s->retry_at = retry ? engine_wall(n->engine) + backoff_ms(n->engine, s->def, s->tries) : 0;
    /* A failed proof is no proof. An OS on a disk that nobody has touched stays proven. */
    if (!(s->def->wipes && s->passed_at > 0)) {
        set_proof(s, xstrdup(a->fingerprint), json_incref(a->inputs));
        s->passed_at = 0;
    }
    enum stage_event event =
        retry ? STAGE_EV_RETRY : (deadline ? STAGE_EV_DEADLINE : STAGE_EV_FAILURE);
    (void)stage_post(n, a->stage, event, err->text);
    save_attempt(n, a, "failed", err, s->retry_at);
    char pause[CLOCK_TEXT_SIZE] = "";
    if (retry)
        (void)clock_format_duration(s->retry_at - engine_wall(n->engine), pause);
    node_event(n, retry ? "attempt.failed" : "stage.failed", s->def->name, a->id, "engine",
               "%s%s%s%s", err->text, retry ? " (next attempt in " : "", pause, retry ? ")" : "");
    attempt_free(n);
    if (s->drift != NULL)
        drift_spread(n, s->def->name);
    node_save(n);
    if (!retry)
        rollout_failed(n);
    node_kick(n, 0);
}

static void on_attempt_deadline(void *user)
{
    struct enode *n = user;
    struct attempt *a = n->attempt;
    char limit[CLOCK_TEXT_SIZE];
    struct err err = {0};
    const struct step_type *type = a->step_running && a->sync == NULL ? a->run.type : NULL;
    int64_t more = type != NULL && type->extend != NULL ? type->extend(&a->run) : 0;
    if (more > 0) {
        attempt_postpone(n, engine_wall(n->engine) + more - a->deadline_at);
        return;
    }
    (void)err_set(&err, ERR_TIMEOUT, "the deadline of %s passed%s%s",
                  clock_format_duration(a->deadline_at - a->started_at, limit),
                  n->doing[0] ? " while: " : "", n->doing);
    if (a->step_running)
        save_step(a, "failed", err.text);
    attempt_failed(n, &err, true);
}

void attempt_postpone(struct enode *n, int64_t ms)
{
    struct attempt *a = n->attempt;
    if (a == NULL)
        return;
    a->deadline_at += ms;
    timer_set(n->engine->loop, &a->deadline, a->deadline_at - engine_wall(n->engine),
              on_attempt_deadline, n);
    save_attempt(n, a, "running", NULL, 0);
}

void attempt_cancel(struct enode *n, const char *reason)
{
    struct attempt *a = n->attempt;
    if (a == NULL)
        return;
    struct err err = {0};
    (void)err_set(&err, ERR_CANCELLED, "%s", reason);
    if (a->step_running)
        save_step(a, "cancelled", reason);
    stop_step(a);
    struct stage_rt *s = &n->stages[a->stage];
    s->tries = 0;
    s->attempt_id = a->id;
    (void)stage_post(n, a->stage, STAGE_EV_CANCEL, reason);
    save_attempt(n, a, "cancelled", &err, 0);
    node_event(n, "attempt.cancelled", s->def->name, a->id, "engine", "%s", reason);
    attempt_free(n);
}

void attempt_abandon(struct enode *n)
{
    if (n->attempt == NULL)
        return;
    stop_step(n->attempt);
    attempt_free(n);
}

void attempt_rebind(struct enode *n, int stage)
{
    struct attempt *a = n->attempt;
    if (a == NULL || stage < 0)
        return;
    const struct stage_def *def = n->stages[stage].def;
    a->stage = stage;
    if (a->step < def->step_count) {
        a->run.stage = def;
        a->run.def = &def->steps[a->step];
    }
}

/* ---- steps ---- */

static const struct step_type *find_type(struct engine *e, const char *name)
{
    static const struct step_type *const builtin[] = {
        &step_bmc,   &step_netboot, &step_wait,         &step_run_script, &step_copy,
        &step_probe, &step_check,   &step_measure_type, &step_group,      NULL};
    const struct step_type *const *types = e->c.step_types != NULL ? e->c.step_types : builtin;
    for (int i = 0; types[i] != NULL; i++)
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    return NULL;
}

static void prepare_step(struct enode *n, const char *data)
{
    struct attempt *a = n->attempt;
    const struct stage_def *def = n->stages[a->stage].def;
    json_decref(a->run.data);
    a->run = (struct step_run){.engine = n->engine,
                               .node = n,
                               .stage = def,
                               .def = &def->steps[a->step],
                               .index = a->step,
                               .attempt_id = a->id,
                               .started_at = engine_wall(n->engine)};
    a->run.type = find_type(n->engine, a->run.def->type);
    a->run.data = data != NULL ? json_loads(data, 0, NULL) : NULL;
    if (!json_is_object(a->run.data)) {
        json_decref(a->run.data);
        a->run.data = json_object();
    }
    a->step_running = true;
    step_note(&a->run, "%s: %s", a->run.def->type, a->run.def->what);
}

static void start_step(struct enode *n)
{
    struct step_run *run = &n->attempt->run;
    struct err err = {0};
    int rc = run->type != NULL
                 ? run->type->start(run, &err)
                 : err_set(&err, ERR_UNSUPPORTED, "this build has no step '%s'", run->def->type);
    if (rc < 0)
        step_done(run, &err, NULL);
}

static void on_sync(struct op *op, void *user)
{
    struct enode *n = user;
    struct attempt *a = n->attempt;
    a->sync = NULL;
    struct err err = op->err;
    op_free(op);
    if (err.code != ERR_OK) {
        /* Nothing may happen that is not written down first. */
        (void)snprintf(n->engine->fault, sizeof n->engine->fault, "%s", err.text);
        log_error("store.failed", "%s: no further work is started", err.text);
        stop_step(a);
        return;
    }
    if (a->step_running)
        start_step(n);
    else
        attempt_passed(n);
}

static void begin_step(struct enode *n)
{
    struct attempt *a = n->attempt;
    if (a->step < n->stages[a->stage].def->step_count) {
        prepare_step(n, NULL);
        save_step(a, "running", NULL);
    }
    save_attempt(n, a, "running", NULL, 0);
    a->sync = store_sync(n->engine->store, on_sync, n);
}

struct step_outcome {
    struct err err;
    char result[sizeof(((struct err *)0)->text)];
};

static void finish_step(void *user)
{
    struct step_run *run = user;
    struct enode *n = run->node;
    struct attempt *a = n->attempt;
    struct step_outcome *out = run->priv;
    run->priv = NULL;
    run->type = NULL; /* stopped already */
    struct err err = out->err;
    char result[sizeof out->result];
    memcpy(result, out->result, sizeof result);
    free(out);
    stop_step(a);
    n->last_evidence_at = engine_wall(n->engine);
    (void)snprintf(n->last_evidence, sizeof n->last_evidence, "%s", result);
    save_step(a, err.code == ERR_OK ? "passed" : "failed", result);
    if (err.code != ERR_OK) {
        attempt_failed(n, &err, false);
        return;
    }
    a->step++;
    begin_step(n);
}

void step_done(struct step_run *run, const struct err *err, const char *result)
{
    if (run->type == NULL && run->priv != NULL)
        return; /* over already */
    struct step_outcome *out = xcalloc(1, sizeof *out);
    if (err != NULL)
        out->err = *err;
    const char *text = result != NULL ? result : out->err.text;
    (void)snprintf(out->result, sizeof out->result, "%s", text);
    if (run->type != NULL && run->type->stop != NULL)
        run->type->stop(run);
    op_cancel(run->op);
    op_cancel(run->commit_op);
    run->op = run->commit_op = NULL;
    run->type = NULL; /* no more events for it */
    run->priv = out;
    timer_set(run->engine->loop, &run->timer, 0, finish_step, run);
}

static void on_step_commit(struct op *op, void *user)
{
    struct step_run *run = user;
    run->commit_op = NULL;
    struct err err = op->err;
    op_free(op);
    if (err.code != ERR_OK)
        step_done(run, &err, NULL);
    else
        run->committed(run);
}

void step_commit(struct step_run *run, void (*next)(struct step_run *run))
{
    save_step(run->node->attempt, "running", NULL);
    run->committed = next;
    op_cancel(run->commit_op);
    run->commit_op = store_sync(run->engine->store, on_step_commit, run);
}

void attempt_step_event(struct enode *n, int64_t attempt, const char *event, const char *text)
{
    struct attempt *a = n->attempt;
    if (a == NULL || a->id != attempt || !a->step_running || a->sync != NULL)
        return;
    if (a->run.type != NULL && a->run.type->event != NULL)
        a->run.type->event(&a->run, event, text);
}

/* ---- start and resume ---- */

static struct attempt *attempt_new(struct enode *n, int stage)
{
    struct attempt *a = xcalloc(1, sizeof *a);
    a->stage = stage;
    a->step_data = xcalloc((size_t)n->stages[stage].def->step_count + 1, sizeof *a->step_data);
    n->attempt = a;
    return a;
}

static void attempt_start(struct enode *n, int stage, const char *why)
{
    struct stage_rt *s = &n->stages[stage];
    sweep_stop(n, "a stage is running");
    struct attempt *a = attempt_new(n, stage);
    a->number = ++s->tries;
    a->started_at = engine_wall(n->engine);
    int64_t limit = s->def->deadline_ms > 0 ? s->def->deadline_ms : 600000;
    a->deadline_at = a->started_at + limit;
    a->why = xstrdup(why);
    a->inputs = stage_inputs(n->engine, n, n->spec, n->klass, s->def);
    a->fingerprint = xcalloc(1, DIGEST_HEX_SIZE);
    inputs_fingerprint(a->inputs, a->fingerprint);
    s->retry_at = 0;
    save_attempt(n, a, "running", NULL, 0);
    s->attempt_id = a->id;
    (void)stage_post(n, stage, STAGE_EV_START, why);
    node_save(n);
    node_event(n, "attempt.started", s->def->name, a->id, "engine", "attempt %d: %s", a->number,
               why);
    timer_set_least(n->engine->loop, &a->deadline, limit, PEER_MS, on_attempt_deadline, n);
    begin_step(n);
}

static void load_step(const struct store_step *row, void *user)
{
    struct enode *n = user;
    struct attempt *a = n->attempt;
    int count = n->stages[a->stage].def->step_count;
    if (row->index >= 0 && row->index < count && row->data != NULL) {
        free(a->step_data[row->index]);
        a->step_data[row->index] = xstrdup(row->data);
    }
}

static void load_log(const struct store_evidence *row, void *user)
{
    struct attempt *a = user;
    if (row->kind != NULL && strcmp(row->kind, "log") == 0) {
        free(a->log);
        a->log = xstrdup(row->text);
    }
}

static void resume_step(void *user)
{
    struct enode *n = user;
    timer_cancel(&n->timer);
    if (n->attempt != NULL)
        start_step(n);
    else
        node_kick(n, 0); /* it was cancelled meanwhile */
}

int attempt_resume(struct enode *n, const struct store_attempt *row, struct err *err)
{
    int stage = node_stage_index(n, row->stage);
    if (stage < 0)
        return err_set(err, ERR_NOT_FOUND, "stage %s is no longer in the profile", row->stage);
    struct stage_rt *s = &n->stages[stage];
    struct attempt *a = attempt_new(n, stage);
    a->id = row->id;
    a->number = row->number;
    s->tries = row->number;
    a->step = row->step;
    a->started_at = row->started_at;
    a->deadline_at = row->deadline_at;
    a->why = xstrdup(row->why);
    a->inputs = stage_inputs(n->engine, n, n->spec, n->klass, s->def);
    a->fingerprint = xstrdup(row->fingerprint != NULL ? row->fingerprint : "");
    s->status = STAGE_RUNNING;
    node_keep_place(n, stage);
    if (store_each_step(n->engine->store, a->id, load_step, n, err) < 0 ||
        store_each_evidence(n->engine->store, a->id, load_log, a, err) < 0)
        return -(int)err->code;
    int64_t left = a->deadline_at - engine_wall(n->engine);
    if (left < RESUME_GRACE_MS) {
        left = RESUME_GRACE_MS;
        a->deadline_at = engine_wall(n->engine) + left;
    }
    timer_set(n->engine->loop, &a->deadline, left, on_attempt_deadline, n);
    node_event(n, "attempt.resumed", s->def->name, a->id, "engine",
               "the daemon was restarted; looking at what became of step %d", a->step + 1);
    if (a->step >= s->def->step_count) {
        a->sync = store_sync(n->engine->store, on_sync, n);
        return 0;
    }
    prepare_step(n, a->step_data[a->step]);
    a->run.resumed = true;
    timer_set(n->engine->loop, &n->timer, 0, resume_step, n);
    return 0;
}

/* ---- what next ---- */

static void refresh_stage(struct enode *n, int i)
{
    struct stage_rt *s = &n->stages[i];
    char buf[200];
    const char *skip = stage_skip_reason(n->klass, s->def, buf, sizeof buf);
    if (skip != NULL) {
        if (s->status != STAGE_SKIPPED && stage_next(s->status, STAGE_EV_SKIP) >= 0 &&
            stage_post(n, i, STAGE_EV_SKIP, skip))
            node_event(n, "stage.skipped", s->def->name, 0, "engine", "%s", skip);
        return;
    }
    if (s->status == STAGE_SKIPPED)
        (void)stage_post(n, i, STAGE_EV_INVALIDATE, "it applies now");
    bool judged = s->status == STAGE_PASSED || s->status == STAGE_FAILED ||
                  s->status == STAGE_WAIVED || (s->status == STAGE_STALE && s->passed_at > 0);
    if (!judged || s->fingerprint == NULL)
        return;
    json_t *now = stage_inputs(n->engine, n, n->spec, n->klass, s->def);
    char hex[DIGEST_HEX_SIZE];
    inputs_fingerprint(now, hex);
    bool same = strcmp(hex, s->fingerprint) == 0;
    if (same && s->status == STAGE_STALE) {
        (void)stage_post(n, i, STAGE_EV_SUCCESS, NULL);
        node_event(n, "stage.passed", s->def->name, 0, "engine", "the change was taken back");
    } else if (!same && s->status != STAGE_STALE) {
        struct strbuf why;
        strbuf_init(&why, REASON_MAX);
        json_t *then = stage_proof(n, i);
        inputs_explain(then, now, &why);
        json_decref(then);
        s->tries = 0;
        s->fail_code = ERR_OK;
        (void)stage_post(n, i, STAGE_EV_INVALIDATE, why.data);
        node_event(n, "stage.stale", s->def->name, 0, "engine", "%s", why.data);
        strbuf_done(&why);
    }
    json_decref(now);
}

void node_refresh(struct enode *n)
{
    for (int i = 0; i < n->stage_count; i++)
        refresh_stage(n, i);
}

/* A stage that overwrites a disk runs by itself only where no OS was ever proven, and nothing runs
 * by itself that the last apply left out, or that drifted and would change the node. */
static bool may_run(const struct enode *n, const struct stage_rt *s)
{
    return s->status == STAGE_QUEUED ||
           (n->deferred == NULL && (!s->def->wipes || s->passed_at == 0) &&
            drift_runs_by_itself(n, s));
}

static void look(void *user)
{
    struct enode *n = user;
    struct engine *e = n->engine;
    if (n->attempt != NULL || e->stopping || e->fault[0] != '\0')
        return;
    node_refresh(n);
    node_save(n);
    if (node_is_stopped(n) || n->group_peer != 0) {
        watts_unadmit(n);
        (void)node_admits(n, -1);
        return;
    }
    int64_t now = engine_wall(e), next = 0;
    for (int i = 0; i < n->stage_count; i++) {
        struct stage_rt *s = &n->stages[i];
        if (!stage_states[s->status].runnable || !may_run(n, s) || !node_stages_ready(n, i))
            continue;
        if (s->retry_at > now) {
            next = next == 0 || s->retry_at < next ? s->retry_at : next;
            continue;
        }
        if (drift_is_barred(n, s))
            continue;
        if (!node_admits(n, i)) {
            watts_unadmit(n);
            return; /* it is kicked when it may */
        }
        if (!watts_admit(n, i))
            return; /* it is kicked when it has its watts */
        if (!drift_admits(n, s))
            return; /* it is kicked when it was looked at */
        char *why = xstrdup(s->reason != NULL ? s->reason : "never proven");
        attempt_start(n, i, why);
        free(why);
        return;
    }
    watts_unadmit(n);
    (void)node_admits(n, -1);
    if (next > 0)
        node_kick(n, next - now);
    else
        rollout_settled(n);
    if (n->attempt == NULL)
        sweep_settled(n);
}

void node_kick(struct enode *n, int64_t delay_ms)
{
    if (n->attempt == NULL)
        timer_set(n->engine->loop, &n->timer, delay_ms, look, n);
}
