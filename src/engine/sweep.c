/* When nodes are swept, and the one question that a sweep asks. */
#include "engine/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/node.h"
#include "engine/ssh.h"

enum {
    SWEEP_MS = 6 * 60000,  /* of one, with the wait for a session, and scripts */
    BRING_MS = 5 * 60000,  /* to copy nodeprobe */
    AGAIN_MS = 10 * 60000, /* after one that did not reach the node */
    FREE_MS = 5000,        /* so long a look counts, for one stage */
    YIELD_MS = 20000,      /* ordinary work has the sessions */
    OVERDUE_SHARE = 10,    /* after a long stop: what is overdue spreads over this share */
    WORKLOAD_SHARE = 4,    /* a workload is looked for so much more often */
};

static int64_t jitter(struct engine *e, int64_t below)
{
    return (int64_t)engine_random(e, (unsigned)(below < UINT32_MAX ? below : UINT32_MAX));
}

static void save(struct enode *n)
{
    const struct sweep *s = &n->sweep;
    struct store_sweep row = {.node_id = n->id,
                              .at = s->at,
                              .ok_at = s->ok_at,
                              .next_at = s->next_at,
                              .result = s->result,
                              .text = s->text,
                              .workload = s->busy ? s->workload : NULL,
                              .workload_since = s->busy ? s->workload_since : 0,
                              .misses = s->misses};
    store_put_sweep(n->engine->store, &row);
}

/* ---- who can be swept ---- */

/* Proven, or only not any more because of a sweep. */
static const char *unproven_stage(const struct enode *n)
{
    for (int i = 0; i < n->stage_count; i++)
        if (!stage_satisfied(&n->stages[i]) && n->stages[i].drift == NULL)
            return n->stages[i].def->name;
    return NULL;
}

const char *sweep_obstacle(const struct enode *n)
{
    if (n->admin == NODE_MAINTENANCE)
        return "it is in maintenance";
    if (n->admin != NODE_ACTIVE)
        return "it is held";
    if (n->swap != NULL)
        return "it may be another machine";
    if (n->attempt != NULL)
        return "a stage is running";
    if (n->power_op != NULL)
        return "its power is being changed";
    if (n->group_peer != 0)
        return "it serves another node in a test";
    if (!node_is_installed(n))
        return "no OS of ours was proven on it";
    if (unproven_stage(n) != NULL && !node_drifted(n))
        return "it is not validated: its stages look by themselves";
    if (n->engine->stopping || n->engine->fault[0] != '\0')
        return "the daemon starts nothing any more";
    return NULL;
}

/* ---- when ---- */

static void on_due(void *user);

static void arm(struct enode *n)
{
    int64_t in = n->sweep.next_at - engine_wall(n->engine);
    timer_set(n->engine->loop, &n->sweep.timer, in > 0 ? in : 0, on_due, n);
}

static void plan_next(struct enode *n, int64_t in_ms)
{
    n->sweep.next_at =
        engine_wall(n->engine) + in_ms - in_ms / 10 + jitter(n->engine, in_ms / 5 + 1);
}

static bool in_work(const struct sweep *s)
{
    return s->op != NULL || s->place.limit != NULL;
}

void sweep_settled(struct enode *n)
{
    struct sweep *s = &n->sweep;
    int64_t every = n->klass->sweep.every_ms, now = engine_wall(n->engine);
    if (in_work(s) || (timer_armed(&s->timer) && s->asked))
        return;
    if (!n->klass->sweep.on || sweep_obstacle(n) != NULL ||
        (n->engine->c.remote_hub == NULL && n->engine->c.sweep == NULL)) {
        timer_cancel(&s->timer);
        return;
    }
    if (s->next_at == 0 || s->next_at > now + every + every / 10) {
        s->next_at = now + jitter(n->engine, every) + 1;
        timer_cancel(&s->timer);
        save(n);
    }
    if (!timer_armed(&s->timer))
        arm(n);
}

void sweep_now(struct enode *n)
{
    n->sweep.asked = true;
    if (!in_work(&n->sweep))
        timer_set(n->engine->loop, &n->sweep.timer, 0, on_due, n);
}

void sweep_later(struct enode *n)
{
    n->sweep.asked = true;
    if (!in_work(&n->sweep))
        arm(n);
}

/* ---- the end of one ---- */

static void let_go(struct enode *n)
{
    struct sweep *s = &n->sweep;
    op_cancel(s->op);
    s->op = NULL;
    limit_release(&s->place);
    timer_cancel(&s->timer);
    s->brought = false;
    sweep_scripts_drop(s);
}

void sweep_stop(struct enode *n, const char *why)
{
    let_go(n);
    n->sweep.asked = false;
    n->sweep.free_until = 0; /* the next stage takes a look of its own */
    sweep_told(n, "left out", why);
}

void sweep_forget(struct enode *n)
{
    sweep_stop(n, "the node left the spec");
}

static void ended(struct enode *n, const char *result, const char *text)
{
    struct sweep *s = &n->sweep;
    int64_t every = n->klass->sweep.every_ms;
    let_go(n);
    s->asked = false;
    s->at = engine_wall(n->engine);
    if (result != NULL)
        (void)snprintf(s->result, sizeof s->result, "%s", result);
    if (text != NULL)
        (void)snprintf(s->text, sizeof s->text, "%s", text);
    if (s->misses == 1)
        plan_next(n, every / 2 < AGAIN_MS ? every / 2 : AGAIN_MS);
    else
        plan_next(n, s->busy ? every / WORKLOAD_SHARE : every);
    save(n);
    node_save(n);
    sweep_told(n, s->result, s->text);
    node_kick(n, 0); /* what drifted may run; else the next one is planned */
}

static void missed(struct enode *n, const struct err *err)
{
    struct sweep *s = &n->sweep;
    s->misses++;
    if (s->misses == 2)
        node_event(n, "node.unreachable", NULL, 0, "sweep", "two sweeps did not reach it: %s",
                   err->text);
    ended(n, "unreachable", err->text);
}

static void reached(struct enode *n)
{
    if (n->sweep.misses > 1)
        node_event(n, "node.reachable", NULL, 0, "sweep", "a sweep reached it again");
    n->sweep.misses = 0;
}

static void saw_workload(struct enode *n, const struct remote_sweep_answer *a)
{
    struct sweep *s = &n->sweep;
    int64_t since = a->since != 0 ? a->since : engine_wall(n->engine);
    if (!s->busy || a->since != 0)
        s->workload_since = since;
    s->busy = true;
    (void)snprintf(s->workload, sizeof s->workload, "%s", a->text);
    ended(n, "workload", a->text[0] ? a->text : "a workload is running");
}

static void saw_free(struct enode *n)
{
    n->sweep.busy = false;
    n->sweep.workload[0] = '\0';
    n->sweep.workload_since = 0;
    n->sweep.free_until = engine_wall(n->engine) + FREE_MS;
}

/* ---- asking ---- */

static void ask(struct enode *n);

static void on_brought(struct op *op, void *user)
{
    struct enode *n = user;
    struct err err = op->err;
    n->sweep.op = NULL;
    op_free(op);
    if (err.code == ERR_OK)
        ask(n);
    else
        ended(n, "unknown", err.text);
}

/* Missing, or of another version: it would see other things than what was proven with ours. */
static void bring_probe(struct enode *n)
{
    struct engine *e = n->engine;
    struct remote_target target;
    struct err err = {0};
    if (n->sweep.brought || e->c.remote_hub == NULL || ssh_target(n, &target, &err) < 0) {
        ended(n, "unknown", err.code != ERR_OK ? err.text : "nodeprobe cannot be brought to it");
        return;
    }
    n->sweep.brought = true;
    n->sweep.op = &remote_upload(e->c.remote_hub, &target, e->c.nodeprobe_path, NODEPROBE_ON_NODE,
                                 0755, BRING_MS, on_brought, n)
                       ->op;
}

static void take_facts(struct enode *n, const struct remote_sweep_answer *a)
{
    struct hardware *hw = NULL;
    struct err err = {0};
    if (a->exit_code != 0)
        (void)err_set(&err, ERR_FAILED, "nodeprobe ended with exit code %d", a->exit_code);
    else if (sweep_scripts_take(n, a, &err) == 0)
        (void)hardware_parse(a->facts, a->facts_len, &hw, &err);
    if (hw == NULL) {
        ended(n, "unknown", err.text);
        return;
    }
    sweep_compare(n, hw);
    n->sweep.ok_at = engine_wall(n->engine);
    ended(n, NULL, NULL);
}

static void take_answer(struct enode *n, const struct strbuf *out)
{
    struct remote_sweep_answer a;
    struct err err = {0};
    char text[300];
    if (remote_sweep_parse(out->data, out->len, &a, &err) < 0) {
        ended(n, "unknown", err.text);
        return;
    }
    reached(n);
    switch (a.verdict) {
    case SWEEP_WORKLOAD:
        saw_workload(n, &a);
        break;
    case SWEEP_UNKNOWN:
        (void)snprintf(text, sizeof text, "sweep.workload_command cannot tell: %s", a.text);
        ended(n, "unknown", text);
        break;
    case SWEEP_NO_PROBE:
        saw_free(n);
        bring_probe(n);
        break;
    case SWEEP_FACTS:
        saw_free(n);
        take_facts(n, &a);
        break;
    }
}

static void on_answer(struct op *op, void *user)
{
    struct enode *n = user;
    struct err err = op->err;
    n->sweep.op = NULL; /* the sweep may begin another one before this one is freed */
    if (err.code == ERR_OK) {
        take_answer(n, &((struct remote_op *)(void *)op)->out);
    } else if (err.code == ERR_AUTH || err.code == ERR_DENIED) {
        reached(n);
        n->sweep.free_until = engine_wall(n->engine) + FREE_MS; /* nobody can look any closer */
        sweep_refused(n, &err);
        ended(n, "denied", err.text);
    } else if (err.code == ERR_FAILED || err.code == ERR_LIMIT) {
        reached(n);
        ended(n, "unknown", err.text);
    } else {
        missed(n, &err);
    }
    op_free(op);
}

static const char *probe_digest(struct engine *e)
{
    struct err err = {0};
    if (e->nodeprobe_sha[0] == '\0' && e->c.nodeprobe_path != NULL &&
        digest_file(e->c.nodeprobe_path, e->nodeprobe_sha, &err) < 0)
        log_warn("sweep.nodeprobe", "%s", err.text);
    return e->nodeprobe_sha;
}

static void ask(struct enode *n)
{
    struct engine *e = n->engine;
    struct remote_target target;
    struct err err = {0};
    struct remote_sweep what = {.marker = n->klass->sweep.marker,
                                .command = n->klass->sweep.command,
                                .nodeprobe = NODEPROBE_ON_NODE,
                                .sha256 = probe_digest(e)};
    struct script_vars *vars = sweep_scripts_fill(n, &what);
    struct remote_op *op = NULL;
    if (e->c.sweep != NULL)
        op = e->c.sweep(n->name, &what, SWEEP_MS, on_answer, n, e->c.user);
    else if (ssh_target(n, &target, &err) == 0)
        op = remote_sweep(e->c.remote_hub, &target, &what, SWEEP_MS, on_answer, n);
    sweep_scripts_done(n, vars);
    if (op != NULL)
        n->sweep.op = &op->op;
    else
        ended(n, "unknown", err.text);
}

static void on_place(void *user)
{
    struct enode *n = user;
    const char *obstacle = sweep_obstacle(n);
    if (obstacle != NULL)
        sweep_stop(n, obstacle); /* it is planned again once that is over */
    else
        ask(n);
}

static void on_due(void *user)
{
    struct enode *n = user;
    struct engine *e = n->engine;
    const char *obstacle = sweep_obstacle(n);
    if (obstacle != NULL) {
        sweep_stop(n, obstacle);
        return;
    }
    if (!n->sweep.asked && e->c.remote_hub != NULL && remote_hub_waiting(e->c.remote_hub) > 0) {
        timer_set(e->loop, &n->sweep.timer, YIELD_MS + jitter(e, YIELD_MS), on_due, n);
        return;
    }
    limit_take_lane(&e->sweeps, node_lane(n), &n->sweep.place, on_place, n);
}

/* ---- life ---- */

void sweeps_bind(struct engine *e)
{
    limit_set_max(&e->sweeps, e->spec->sweep.at_once);
}

static void load_sweep(const struct store_sweep *row, void *user)
{
    struct enode *n = engine_find_id(user, row->node_id);
    if (n == NULL)
        return;
    struct sweep *s = &n->sweep;
    s->at = row->at;
    s->ok_at = row->ok_at;
    s->next_at = row->next_at;
    s->busy = row->workload != NULL;
    s->workload_since = row->workload_since;
    s->misses = row->misses;
    (void)snprintf(s->result, sizeof s->result, "%s", row->result != NULL ? row->result : "");
    (void)snprintf(s->text, sizeof s->text, "%s", row->text != NULL ? row->text : "");
    (void)snprintf(s->workload, sizeof s->workload, "%s", s->busy ? row->workload : "");
    /* a restart is no reason to look at all of them at once */
    if (s->next_at != 0 && s->next_at < engine_wall(n->engine))
        s->next_at = engine_wall(n->engine) +
                     jitter(n->engine, n->klass->sweep.every_ms / OVERDUE_SHARE + 1);
}

int sweeps_load(struct engine *e, struct err *err)
{
    return store_each_sweep(e->store, load_sweep, e, err);
}
