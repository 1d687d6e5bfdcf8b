/* What a sweep saw against what was proven: exactly the stages that say otherwise are demoted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "engine/swap.h"

enum { TEXT_MAX = 3000 };

/* ---- what may happen by itself ---- */

bool stage_only_looks(const struct stage_def *def)
{
    static const struct {
        const char *type, *what; /* NULL: all of them */
    } harmless[] = {
        {"check", NULL}, {"probe", NULL}, {"wait", NULL}, {"bmc", "verify"}, {"bmc", "identity"}};
    if (def->wipes || def->reboots || def->burnin)
        return false;
    for (int i = 0; i < def->step_count; i++) {
        bool ok = strcmp(def->steps[i].type, "run") == 0 && def->steps[i].sweep;
        for (size_t j = 0; j < ARRAY_LEN(harmless) && !ok; j++)
            ok = strcmp(def->steps[i].type, harmless[j].type) == 0 &&
                 (harmless[j].what == NULL || strcmp(def->steps[i].what, harmless[j].what) == 0);
        if (!ok)
            return false;
    }
    return true;
}

/* It takes other nodes along, on which something may run. */
static bool needs_neighbours(const struct stage_def *def)
{
    for (int i = 0; i < def->step_count; i++)
        if (strcmp(def->steps[i].type, "group") == 0)
            return true;
    return false;
}

bool drift_runs_by_itself(const struct enode *n, const struct stage_rt *s)
{
    if (s->drift == NULL || s->status == STAGE_QUEUED)
        return true;
    return !s->def->wipes &&
           (stage_only_looks(s->def) || (n->klass->sweep.repair && !needs_neighbours(s->def)));
}

static bool needs_a_look(const struct enode *n, const struct stage_rt *s)
{
    return s->drift != NULL && s->status != STAGE_QUEUED &&
           n->sweep.free_until <= engine_wall(n->engine);
}

bool drift_is_barred(struct enode *n, const struct stage_rt *s)
{
    static const char *const blind[] = {"workload", "unreachable", "unknown"};
    const struct sweep *w = &n->sweep;
    if (!needs_a_look(n, s) || w->next_at <= engine_wall(n->engine))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(blind); i++)
        if (strcmp(w->result, blind[i]) == 0) {
            sweep_later(n);
            return true;
        }
    return false;
}

bool drift_admits(struct enode *n, const struct stage_rt *s)
{
    if (!needs_a_look(n, s))
        return true;
    sweep_now(n);
    return false;
}

bool drift_waits(const struct enode *n)
{
    for (int i = 0; i < n->stage_count; i++) {
        const struct stage_rt *s = &n->stages[i];
        if (s->status == STAGE_STALE && !stage_satisfied(s) && !drift_runs_by_itself(n, s))
            return true;
    }
    return false;
}

bool node_drifted(const struct enode *n)
{
    for (int i = 0; i < n->stage_count; i++)
        if (n->stages[i].drift != NULL)
            return true;
    return false;
}

/* ---- demotion ---- */

static void mark(struct enode *n, int stage, const char *words)
{
    struct stage_rt *s = &n->stages[stage];
    char *copy = xstrdup(words);
    free(s->drift);
    s->drift = copy;
    stage_save(n, stage);
    node_event(n, "drift.found", s->def->name, 0, "sweep", "%s", words);
}

/* "2026-12-03 13:41:59 a sweep found: WHAT (proven 2026-12-01 06:50:31)" */
static void words_of(const struct enode *n, int64_t proven_at, const char *what, struct strbuf *out)
{
    char now[CLOCK_TEXT_SIZE], then[CLOCK_TEXT_SIZE];
    strbuf_addf(out, "%.19s a sweep found: %s", clock_format(engine_wall(n->engine), now), what);
    if (proven_at > 0)
        strbuf_addf(out, " (proven %.19s)", clock_format(proven_at, then));
}

/* Looks at all inputs again. `origin` NULL: a sweep saw them change, and `wrong` is what the
 * stages' checks say; else it follows from that stage. */
static int refresh(struct enode *n, const char *origin, char **wrong)
{
    enum stage_status *before = xcalloc((size_t)n->stage_count + 1, sizeof *before);
    int count = 0;
    for (int i = 0; i < n->stage_count; i++)
        before[i] = n->stages[i].status;
    node_refresh(n);
    for (int i = 0; i < n->stage_count; i++) {
        struct stage_rt *s = &n->stages[i];
        const char *reason = s->reason != NULL ? s->reason : "it changed";
        struct strbuf words;
        if (s->status != STAGE_STALE || before[i] == STAGE_STALE)
            continue;
        strbuf_init(&words, TEXT_MAX);
        if (origin == NULL)
            words_of(n, s->passed_at, reason, &words);
        else
            strbuf_addf(&words, "%s follows from the drift of %s: %s", s->def->name, origin,
                        reason);
        if (wrong != NULL && wrong[i] != NULL) {
            strbuf_addf(&words, "; %s", wrong[i]);
            s->passed_at = 0;
        }
        mark(n, i, words.data);
        strbuf_done(&words);
        count++;
    }
    free(before);
    return count;
}

void drift_spread(struct enode *n, const char *stage)
{
    (void)refresh(n, stage, NULL);
}

/* A failed proof is no proof: without the time of a pass, nothing but a new proof brings it back.
 */
static void demote(struct enode *n, int stage, const char *what)
{
    struct stage_rt *s = &n->stages[stage];
    struct strbuf words;
    strbuf_init(&words, TEXT_MAX);
    words_of(n, s->passed_at, what, &words);
    s->passed_at = 0;
    s->tries = 0;
    s->retry_at = 0;
    (void)stage_post(n, stage, STAGE_EV_INVALIDATE, what);
    mark(n, stage, words.data);
    strbuf_done(&words);
}

/* ---- the stages' checks ---- */

/* The checks of a stage that a sweep does, too: 1 all as they should be, 0 not, negative: there are
 * none, or they told nothing. `fresh`: its scripts, too, as they ended in this sweep. `text` says
 * what was seen, or only what is wrong. */
static int judge(const struct enode *n, const struct stage_def *def, const struct hardware *hw,
                 bool fresh, struct strbuf *text)
{
    int verdict = -1;
    struct strbuf said;
    strbuf_init(&said, TEXT_MAX);
    for (int i = 0; i < def->step_count; i++) {
        const struct step_def *step = &def->steps[i];
        struct strbuf seen;
        const char *complaint = "";
        if (def->wipes || !step->sweep || strcmp(step->type, "check") != 0)
            continue;
        strbuf_init(&seen, TEXT_MAX);
        int rc = check_judge(n, hw, step, &seen, &complaint, NULL);
        if (rc == 0 && verdict != 0)
            strbuf_reset(text);
        if (rc >= 0 && (rc == 0 || verdict != 0))
            strbuf_addf(text, "%s%s%s%s", text->len > 0 ? "; " : "", rc == 0 ? complaint : "",
                        rc == 0 ? ": " : "", seen.data);
        if (rc >= 0 && verdict != 0)
            verdict = rc;
        strbuf_done(&seen);
    }
    int scripts = fresh ? sweep_scripts_judge(n, def, &said) : SCRIPTS_NONE;
    if (scripts == SCRIPTS_WRONG) {
        if (verdict != 0)
            strbuf_reset(text);
        strbuf_addf(text, "%s%s", text->len > 0 ? "; " : "", said.data);
    }
    strbuf_done(&said);
    return scripts == SCRIPTS_NONE || verdict == 0 ? verdict : scripts;
}

static void add_before(const struct enode *n, const struct stage_def *def,
                       const struct hardware *last, struct strbuf *text)
{
    struct strbuf was;
    strbuf_init(&was, TEXT_MAX);
    if (last != NULL && judge(n, def, last, false, &was) >= 0 && strcmp(was.data, text->data) != 0)
        strbuf_addf(text, "; before: %s", was.data);
    strbuf_done(&was);
}

/* What the checks of each passed stage say against hw; NULL where they say nothing bad. With what
 * they said of the last look (NULL: there was none): "what is; before: what was". */
static char **judge_all(const struct enode *n, const struct hardware *hw,
                        const struct hardware *last)
{
    char **said = xcalloc((size_t)n->stage_count + 1, sizeof *said);
    for (int i = 0; i < n->stage_count; i++) {
        struct strbuf text;
        if (n->stages[i].status != STAGE_PASSED)
            continue;
        strbuf_init(&text, TEXT_MAX);
        if (judge(n, n->stages[i].def, hw, true, &text) == 0) {
            add_before(n, n->stages[i].def, last, &text);
            said[i] = strbuf_take(&text);
        }
        strbuf_done(&text);
    }
    return said;
}

static void free_all(char **texts, int count)
{
    for (int i = 0; i < count; i++)
        free(texts[i]);
    free(texts);
}

/* A stage that failed after drift, and whose checks are well again, may prove it. */
static void mended(struct enode *n, int stage)
{
    struct stage_rt *s = &n->stages[stage];
    char now[CLOCK_TEXT_SIZE], text[120];
    (void)snprintf(text, sizeof text, "%.19s a sweep found it as it should be again",
                   clock_format(engine_wall(n->engine), now));
    s->tries = 0;
    s->retry_at = 0;
    (void)stage_post(n, stage, STAGE_EV_INVALIDATE, text);
    node_event(n, "drift.mended", s->def->name, 0, "sweep", "%s", text);
}

static void look_for_mended(struct enode *n, const struct hardware *hw)
{
    for (int i = 0; i < n->stage_count; i++) {
        const struct stage_rt *s = &n->stages[i];
        struct strbuf text;
        if (s->status != STAGE_FAILED || s->drift == NULL || !stage_only_looks(s->def))
            continue;
        strbuf_init(&text, TEXT_MAX);
        if (judge(n, s->def, hw, true, &text) == 1)
            mended(n, i);
        strbuf_done(&text);
    }
}

static void tell_result(struct enode *n, int found)
{
    struct sweep *w = &n->sweep;
    bool drifted = node_drifted(n);
    char problem[200];
    size_t len;
    sweep_scripts_problem(n, problem, sizeof problem);
    (void)snprintf(w->result, sizeof w->result, "%s", drifted ? "drift" : "clean");
    if (!drifted) {
        (void)snprintf(w->text, sizeof w->text, "%d components, as they were proven%s",
                       hardware_count(n->hardware), problem);
        return;
    }
    (void)snprintf(w->text, sizeof w->text, "%s:", found > 0 ? "found" : "still");
    for (int i = 0; i < n->stage_count; i++) {
        len = strlen(w->text);
        if (n->stages[i].drift != NULL)
            (void)snprintf(w->text + len, sizeof w->text - len, " %s", n->stages[i].def->name);
    }
}

static void tell_swap(struct enode *n)
{
    (void)snprintf(n->sweep.result, sizeof n->sweep.result, "swap");
    (void)snprintf(n->sweep.text, sizeof n->sweep.text, "another machine answers: %.300s",
                   n->swap->reason);
}

static void compare(struct enode *n, const struct hardware *last)
{
    struct hardware *hw = node_facts(n);
    char **wrong = judge_all(n, hw, last);
    int found = refresh(n, NULL, wrong);
    for (int i = 0; i < n->stage_count; i++)
        if (wrong[i] != NULL && n->stages[i].status == STAGE_PASSED) {
            demote(n, i, wrong[i]);
            found++;
        }
    free_all(wrong, n->stage_count);
    look_for_mended(n, hw);
    tell_result(n, found);
    hardware_free(hw);
}

void sweep_compare(struct enode *n, struct hardware *hw)
{
    struct hardware *last = node_facts(n);
    node_adopt_hardware(n, hw, engine_wall(n->engine));
    if (n->swap != NULL)
        tell_swap(n); /* it says nothing about the recorded one */
    else
        compare(n, last);
    hardware_free(last);
    n->last_evidence_at = engine_wall(n->engine);
    (void)snprintf(n->last_evidence, sizeof n->last_evidence, "a sweep: %.200s", n->sweep.text);
}

void sweep_refused(struct enode *n, const struct err *err)
{
    for (int i = 0; i < n->stage_count; i++) {
        const struct stage_def *def = n->stages[i].def;
        bool logs_in = false;
        for (int j = 0; j < def->step_count; j++)
            logs_in = logs_in || (strcmp(def->steps[j].type, "wait") == 0 &&
                                  strcmp(def->steps[j].what, "ssh") == 0);
        if (logs_in && n->stages[i].status == STAGE_PASSED && !def->wipes)
            demote(n, i, err->text);
    }
}
