/* Why: what a node waits for, the last evidence, what happens next, and what an operator can do. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/nodeset.h"
#include "base/strbuf.h"
#include "engine/power.h"
#include "engine/rollout.h"
#include "engine/swap.h"
#include "engine/view.h"
#include "remote/remote.h"

struct answer {
    const struct enode *n;
    char doing[300], because[600], next[200];
    char shared[600]; /* the cause without what is this node's alone; "": because */
    int64_t next_at;
    json_t *can;
};

static void can(struct answer *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void can(struct answer *a, const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)json_array_append_new(a->can, json_string(text));
}

static void say(char *to, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(char *to, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(to, size, fmt, ap);
    va_end(ap);
}
#define SAY(field, ...) say((field), sizeof(field), __VA_ARGS__)

/* What an SSH operation says of itself right now ("connecting", "refused, trying again"). */
static const char *live_note(const struct attempt *t)
{
    const struct step_run *run = &t->run;
    if (!t->step_running || run->op == NULL || run->type != &step_wait)
        return "";
    return ((const struct remote_op *)(const void *)run->op)->note;
}

static void explain_running(struct answer *a)
{
    const struct enode *n = a->n;
    const struct attempt *t = n->attempt;
    const struct stage_rt *s = &n->stages[t->stage];
    const char *live = live_note(t);
    SAY(a->doing, "%s, attempt %d, step %d of %d: %s%s%s%s", s->def->name, t->number, t->step + 1,
        s->def->step_count, n->doing[0] ? n->doing : "starting", live[0] ? " (" : "", live,
        live[0] ? ")" : "");
    SAY(a->because, "%s", t->why != NULL ? t->why : "");
    SAY(a->next, "the attempt ends by itself at its deadline");
    a->next_at = t->deadline_at;
    can(a, "clusterctl logs %s --stage %s", n->name, s->def->name);
    can(a, "clusterctl console %s", n->name);
}

/* The stage that looks at the machine, where this one only judges what was seen. */
static const struct stage_def *looking_stage(const struct enode *n, const struct stage_rt *s)
{
    for (int i = 0; i < s->def->step_count; i++)
        if (strcmp(s->def->steps[i].type, "check") != 0)
            return NULL;
    for (const struct stage_rt *r = s; r >= n->stages; r--)
        for (int i = 0; i < r->def->step_count; i++)
            if (strcmp(r->def->steps[i].what, "discover") == 0)
                return r->def;
    return NULL;
}

static void suggest_rerun(struct answer *a, const struct stage_rt *s)
{
    const struct stage_def *looks = looking_stage(a->n, s);
    if (looks != NULL)
        can(a, "clusterctl rerun %s --stage %s (looks at the machine again, once it is mended)",
            a->n->name, looks->name);
    else
        can(a, "clusterctl rerun %s --stage %s", a->n->name, s->def->name);
}

static void explain_failed(struct answer *a, const struct stage_rt *s)
{
    const struct enode *n = a->n;
    SAY(a->doing, "stopped at %s", s->def->name);
    SAY(a->because, "%s%s%s%s", s->reason != NULL ? s->reason : "failed",
        s->drift != NULL ? " (" : "", s->drift != NULL ? s->drift : "",
        s->drift != NULL ? ")" : "");
    if (s->fail_code == ERR_AUTH) {
        SAY(a->next, "nothing: the BMC is not asked again until its credential changes");
        can(a,
            "correct the credential (user or password file of the spec), then: clusterctl rerun "
            "%s --stage %s",
            n->name, s->def->name);
    } else {
        SAY(a->next, "nothing until an input changes or an operator asks");
        if (s->def->wipes && s->passed_at > 0)
            can(a, "clusterctl apply SPEC --reinstall %s", n->name);
        else
            suggest_rerun(a, s);
    }
    can(a, "clusterctl logs %s --stage %s", n->name, s->def->name);
    can(a, "clusterctl hold %s --reason TEXT", n->name);
    if (!s->def->wipes && s->def->step_count > 0)
        can(a, "clusterctl waive %s --stage %s --reason TEXT (goes on without the proof)", n->name,
            s->def->name);
}

/* A sweep took its proof; it is proven again by itself, or waits for an operator. */
static void explain_drift(struct answer *a, const struct stage_rt *s)
{
    const struct enode *n = a->n;
    SAY(a->doing, "%s is not what was proven", s->def->name);
    SAY(a->because, "%s", s->drift);
    if (!drift_runs_by_itself(n, s)) {
        SAY(a->next, "nothing by itself: proving %s again %s", s->def->name,
            n->klass->sweep.repair ? "takes other nodes or the disk"
                                   : "may change the node, and sweep.repair is not auto");
    } else if (n->sweep.busy) {
        SAY(a->next, "%s is proven again once no workload runs any more; the next look",
            s->def->name);
        a->next_at = n->sweep.next_at;
    } else if (n->sweep.misses > 0 || strcmp(n->sweep.result, "unknown") == 0) {
        SAY(a->next, "%s is proven again once a sweep sees that no workload runs", s->def->name);
        a->next_at = n->sweep.next_at;
    } else {
        SAY(a->next, "%s is proven again, after a look for a workload", s->def->name);
    }
    can(a, "clusterctl rerun %s --stage %s", n->name, s->def->name);
    can(a, "clusterctl sweep %s --wait (looks again, once it is mended)", n->name);
    can(a, "clusterctl maintenance %s --reason TEXT", n->name);
}

/* A stage that is ready to run but does not, or the predecessor that keeps it. */
static void explain_waiting(struct answer *a)
{
    const struct enode *n = a->n;
    for (int i = 0; i < n->stage_count; i++) {
        const struct stage_rt *s = &n->stages[i];
        if (s->status == STAGE_FAILED && !stage_satisfied(s)) {
            explain_failed(a, s);
            return;
        }
        if (stage_satisfied(s) || !stage_states[s->status].runnable)
            continue;
        if (s->retry_at > engine_wall(n->engine)) {
            SAY(a->doing, "pausing before attempt %d of %s", s->tries + 1, s->def->name);
            SAY(a->because, "%s", s->reason != NULL ? s->reason : "");
            SAY(a->next, "%s is tried again", s->def->name);
            a->next_at = s->retry_at;
            can(a, "clusterctl rerun %s --stage %s", n->name, s->def->name);
            can(a, "clusterctl logs %s --stage %s", n->name, s->def->name);
            return;
        }
        if (n->deferred != NULL && s->status != STAGE_QUEUED) {
            SAY(a->doing, "%s is not current", s->def->name);
            SAY(a->because, "%s", n->deferred);
            SAY(a->next, "nothing until an apply includes it, or somebody asks for it");
            can(a, "clusterctl apply SPEC");
            can(a, "clusterctl rerun %s --stage %s", n->name, s->def->name);
            return;
        }
        if (s->drift != NULL && s->status != STAGE_QUEUED) {
            explain_drift(a, s);
            return;
        }
        struct wait_words words = {.can = a->can};
        if (node_waits(n, &words)) {
            SAY(a->doing, "%s", words.doing);
            SAY(a->because, "%s", words.because);
            SAY(a->next, "%s", words.next);
            a->next_at = words.next_at;
            return;
        }
        SAY(a->doing, "about to start %s", s->def->name);
        SAY(a->because, "%s", s->reason != NULL ? s->reason : "never proven");
        if (n->group_peer != 0) {
            struct enode *peer = engine_find_id(n->engine, n->group_peer);
            SAY(a->doing, "serving %s in a pair test", peer != NULL ? peer->name : "its peer");
        }
        return;
    }
    char words[300], shared[200];
    sweep_words(n, words, sizeof words, shared, sizeof shared);
    SAY(a->doing, "nothing to do");
    SAY(a->because, "every stage is proven%s", words);
    SAY(a->shared, "every stage is proven%s", shared);
    if (timer_armed(&n->sweep.timer)) {
        SAY(a->next, "a sweep looks whether that is still so");
        a->next_at = n->sweep.next_at;
    }
    for (int i = 0; i < n->stage_count; i++) {
        const struct stage_rt *s = &n->stages[i];
        if (s->status == STAGE_WAIVED) {
            SAY(a->because, "every stage is proven, but %s: %s", s->def->name,
                s->reason != NULL ? s->reason : "waived");
            SAY(a->shared, "every stage is proven, but %s is waived", s->def->name);
            can(a, "clusterctl rerun %s --stage %s", n->name, s->def->name);
        }
        if (s->def->wipes && s->status == STAGE_STALE) {
            a->shared[0] = '\0';
            SAY(a->because, "every stage is proven, but %s is not what the spec says now: %s",
                s->def->name, s->reason != NULL ? s->reason : "");
            can(a, "clusterctl apply SPEC --reinstall %s", n->name);
        }
    }
}

/* Whatever it is doing: nothing moves before it may draw the watts. */
static void explain_power(struct answer *a)
{
    char wait[400];
    if (!power_waits(a->n, true, wait, sizeof wait))
        return;
    SAY(a->because, "%s", wait);
    (void)power_waits(a->n, false, a->shared, sizeof a->shared);
    if (a->n->attempt == NULL)
        SAY(a->next, "it goes on by itself as soon as others draw less");
    can(a, "clusterctl status shows the feeds");
}

static json_t *explain(struct answer *a)
{
    const struct enode *n = a->n;
    struct engine *e = n->engine;
    a->can = json_array();
    if (n->attempt != NULL) {
        explain_running(a);
    } else if (n->swap != NULL) {
        SAY(a->doing, "swap suspected: another machine answers in this slot");
        SAY(a->because, "%s", n->swap->reason);
        SAY(a->next, "nothing until somebody says that the other machine is meant");
        can(a, "clusterctl replace %s", n->name);
        can(a, "put the recorded machine back, then: clusterctl release %s", n->name);
    } else if (n->admin != NODE_ACTIVE) {
        SAY(a->doing, "%s by %s", n->admin == NODE_HELD ? "held" : "in maintenance",
            n->hold_by != NULL ? n->hold_by : "?");
        SAY(a->because, "%s", n->hold_reason != NULL ? n->hold_reason : "");
        SAY(a->next, "nothing until it is released");
        can(a, "clusterctl release %s", n->name);
    } else {
        explain_waiting(a);
    }
    explain_power(a);
    if (e->fault[0] != '\0') {
        SAY(a->because, "the database cannot be written: %s", e->fault);
        SAY(a->next, "nothing until the daemon is restarted with a writable database");
    }
    json_t *age = n->last_evidence_at > 0
                      ? json_integer((json_int_t)(engine_wall(e) - n->last_evidence_at))
                      : json_null();
    return json_pack("{s:s,s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:o}", "name", n->name, "state",
                     node_word(n), "doing", a->doing, "because", a->because, "evidence",
                     view_text(n->last_evidence), "evidence_age_ms", age, "next",
                     view_text(a->next), "next_at", view_time(a->next_at), "can", a->can);
}

/* ---- roll-up: nodes with the same cause are one line ---- */

struct group_fold {
    json_t *groups;
};

static void emit_group(const char *cause, void *value, void *user)
{
    struct group_fold *g = user;
    struct strbuf *names = value;
    struct strbuf folded;
    strbuf_init(&folded, 1 << 20);
    struct nodeset *set = nodeset_parse(names->data, NULL);
    if (set != NULL)
        nodeset_fold(set, &folded);
    nodeset_free(set);
    (void)json_array_append_new(
        g->groups,
        json_pack("{s:s,s:s}", "nodes", folded.len ? folded.data : names->data, "because", cause));
    strbuf_done(&folded);
    strbuf_done(names);
    free(names);
}

static void add_to_group(struct map *groups, const struct answer *a)
{
    char cause[1000];
    const char *because = a->shared[0] != '\0' ? a->shared : a->because;
    (void)snprintf(cause, sizeof cause, "%s%s%s", a->doing, because[0] ? ": " : "", because);
    struct strbuf *names = map_get(groups, cause);
    if (names == NULL) {
        names = xcalloc(1, sizeof *names);
        strbuf_init(names, 1 << 22);
        (void)map_set(groups, cause, names);
    }
    strbuf_addf(names, "%s%s", names->len ? "," : "", a->n->name);
}

json_t *engine_view_why(struct engine *e, const char *nodeset, struct err *err)
{
    struct enode **nodes;
    int count;
    if (engine_select(e, nodeset, &nodes, &count, err) < 0)
        return NULL;
    json_t *rows = json_array();
    struct map *groups = map_new();
    for (int i = 0; i < count; i++) {
        struct answer a = {.n = nodes[i]};
        (void)json_array_append_new(rows, explain(&a));
        add_to_group(groups, &a);
    }
    free(nodes);
    struct group_fold fold = {.groups = json_array()};
    map_each(groups, emit_group, &fold);
    map_free(groups);
    return json_pack("{s:o,s:o}", "nodes", rows, "groups", fold.groups);
}
