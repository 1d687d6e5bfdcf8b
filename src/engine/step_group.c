/*
 * Group steps: several nodes measure with each other. Larger groups are in group.c.
 *
 * `group: pair` is a script on the node and one on a neighbour at the same time, and a measurement
 * between the two. The partner lends itself: it starts nothing else meanwhile. A node that waits
 * for a partner may itself be taken by another one, so that two that wait for each other both get
 * their turn - or, where the profile says that a result counts for both, are both done.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/group.h"
#include "engine/node.h"
#include "engine/ssh.h"
#include "engine/transfer.h"

enum { LOOK_MS = 500, CANDIDATES = 64, PAIR_MS = 5 * 60000 };

struct pair {
    struct group_part part; /* first */
    struct step_run *run;
    int64_t partner; /* node id; 0: none yet */
    struct transfer *transfer;
};

static bool is_pair(const struct step_run *run)
{
    const struct group_part *part = run->priv;
    return part != NULL && part->pair;
}

static struct enode *partner_of(const struct pair *p)
{
    return p->partner != 0 ? engine_find_id(p->run->engine, p->partner) : NULL;
}

static void let_go(struct pair *p)
{
    struct enode *partner = partner_of(p);
    p->partner = 0;
    if (partner != NULL && partner->group_peer == p->run->node->id) {
        partner->group_peer = 0;
        if (!p->run->engine->stopping)
            node_kick(partner, 0);
    }
}

static void pair_stop(struct step_run *run)
{
    struct pair *p = run->priv;
    if (p == NULL)
        return;
    run->priv = NULL;
    transfer_cancel(run->engine, p->transfer);
    let_go(p);
    free(p);
}

/* ---- the measurement ---- */

static json_t *floor_limits(const struct step_run *run)
{
    double value =
        group_floor(run->node, step_param(run, "floor", NULL), step_param(run, "floor_gbs", NULL));
    return isnan(value) ? NULL : json_pack("{s:{s:f}}", "ib_write_bw", "min", value);
}

/* The partner's own pair step, which waits for its turn; NULL: it waits for none. */
static struct step_run *waiting_step(const struct step_run *run, const struct enode *partner)
{
    struct attempt *a = partner->attempt;
    if (a == NULL || !a->step_running || a->sync != NULL || a->run.type != &step_group ||
        !is_pair(&a->run) || ((struct pair *)a->run.priv)->partner != 0)
        return NULL;
    return strcmp(a->run.stage->name, run->stage->name) == 0 && a->run.index == run->index ? &a->run
                                                                                           : NULL;
}

static void on_transfer(const struct transfer_end *end, void *user)
{
    struct step_run *run = user;
    struct pair *p = run->priv;
    struct enode *partner = partner_of(p);
    const char *measure = step_param(run, "measure", "");
    struct err err = end->err;
    p->transfer = NULL;
    if (end->log[0] != '\0')
        step_evidence(run, "log", end->log);
    if (err.code != ERR_OK || partner == NULL) {
        if (partner != NULL)
            group_record_pair(run, partner, NULL, &err);
        step_done(run, &err, NULL);
        return;
    }
    json_t *limits = floor_limits(run);
    bool both = strcmp(step_param(run, "counts_for", "one"), "both") == 0;
    struct step_run *theirs = both ? waiting_step(run, partner) : NULL;
    char *peer = xstrdup(partner->name);
    char *all = measure_judge(run, measure, end->log, limits, peer, &err);
    group_record_pair(run, partner, end->log, &err);
    if (theirs != NULL && err.code == ERR_OK) {
        step_evidence(theirs, "log", end->log);
        measure_finish(theirs, measure, end->log, limits, run->node->name);
    }
    step_done(run, &err, err.code == ERR_OK ? all : NULL);
    free(all);
    json_decref(limits);
    free(peer);
}

static void on_line(const char *line, void *user)
{
    struct step_run *run = user;
    step_note(run, "%s: %s", step_param(run, "client", "?"), line);
}

static void start_scripts(struct step_run *run)
{
    struct pair *p = run->priv;
    struct enode *partner = partner_of(p);
    struct err err = {0};
    char id[48];
    if (partner == NULL) {
        (void)err_set(&err, ERR_BUSY, "the partner left the spec");
        step_done(run, &err, NULL);
        return;
    }
    (void)snprintf(id, sizeof id, "a%lld-s%d", (long long)run->attempt_id, run->index);
    struct transfer_spec spec = {.server = partner->id,
                                 .client = run->node->id,
                                 .stage = run->stage->name,
                                 .attempt = run->attempt_id,
                                 .server_script = step_param(run, "server", ""),
                                 .client_script = step_param(run, "client", ""),
                                 .id = id,
                                 .rail = -1,
                                 .timeout_ms = step_duration(run, "timeout", PAIR_MS)};
    step_note(run, "measuring with %s", partner->name);
    p->transfer = transfer_start(run->engine, &spec, on_line, on_transfer, run, &err);
    if (p->transfer == NULL)
        step_done(run, &err, NULL);
}

/* ---- finding a partner ---- */

/* In its own pair step, still looking. */
static bool is_looking(const struct enode *n)
{
    const struct attempt *a = n->attempt;
    return a != NULL && a->step_running && a->sync == NULL && a->run.type == &step_group &&
           is_pair(&a->run) && ((struct pair *)a->run.priv)->partner == 0;
}

/* NULL when it can be taken now, else what is in the way. */
static const char *unfit(const struct step_run *run, const struct enode *c)
{
    if (c->swap != NULL)
        return "may be another machine";
    if (c->admin != NODE_ACTIVE)
        return c->admin == NODE_HELD ? "is held" : "is in maintenance";
    if (c->group_peer != 0)
        return "is measuring with another node";
    if (c->host_key == NULL)
        return "has no OS of ours yet";
    if (c->sweep.busy)
        return "runs a workload";
    for (int i = 0; run->stage->needs != NULL && run->stage->needs[i] != NULL; i++) {
        int at = node_stage_index(c, run->stage->needs[i]);
        if (at >= 0 && !stage_satisfied(&c->stages[at]))
            return c->stages[at].status == STAGE_FAILED ? "failed at an earlier stage"
                                                        : "has not come so far yet";
    }
    if (c->attempt != NULL && !is_looking(c))
        return "is at work";
    return NULL;
}

static struct enode *find_partner(const struct step_run *run, char *why, size_t size)
{
    struct enode *c = run->node->class_next;
    why[0] = '\0';
    /* neighbours in the spec are neighbours in the rack; a look costs the same in any cluster */
    for (int i = 0; i < CANDIDATES && c != run->node; i++, c = c->class_next) {
        const char *reason = unfit(run, c);
        if (reason == NULL)
            return c;
        if (why[0] == '\0')
            (void)snprintf(why, size, "%s %s", c->name, reason);
    }
    return NULL;
}

static void look(void *user)
{
    struct step_run *run = user;
    struct pair *p = run->priv;
    char why[160];
    if (run->node->group_peer != 0) {
        step_note(run, "lent to a neighbour that measures first");
    } else {
        struct enode *c = find_partner(run, why, sizeof why);
        if (c != NULL) {
            p->partner = c->id;
            c->group_peer = run->node->id;
            (void)json_object_set_new(run->data, "partner", json_string(c->name));
            step_commit(run, start_scripts);
            return;
        }
        step_note(run, "waiting for a partner%s%s", why[0] ? ": " : "", why);
    }
    timer_set(run->engine->loop, &run->timer, LOOK_MS, look, run);
}

static int pair_start(struct step_run *run, struct err *err)
{
    if (run->node->class_next == run->node)
        return err_set(err, ERR_INVALID, "a pair needs a second node of class %s",
                       run->node->klass->name);
    if (transfer_possible(run->node, err) < 0)
        return -(int)err->code;
    struct pair *p = xcalloc(1, sizeof *p);
    p->part.pair = true;
    p->run = run;
    run->priv = p;
    const char *name = json_string_value(json_object_get(run->data, "partner"));
    struct enode *c = run->resumed && name != NULL ? engine_find(run->engine, name) : NULL;
    if (c != NULL && c->group_peer == 0) {
        p->partner = c->id;
        c->group_peer = run->node->id;
        start_scripts(run);
    } else {
        look(run);
    }
    return 0;
}

/* ---- the step ---- */

static int start(struct step_run *run, struct err *err)
{
    return strcmp(run->def->what, "pair") == 0 ? pair_start(run, err) : group_join(run, err);
}

static void stop(struct step_run *run)
{
    if (is_pair(run))
        pair_stop(run);
    else
        group_leave(run);
}

static int64_t extend(struct step_run *run)
{
    return run->priv == NULL || is_pair(run) ? 0 : group_extend(run);
}

const struct step_type step_group = {
    .name = "group", .start = start, .stop = stop, .extend = extend};
