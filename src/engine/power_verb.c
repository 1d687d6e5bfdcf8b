/* The operators' power verb: one action on many nodes, answered when every BMC has answered. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/node.h"
#include "engine/power.h"

struct answer {
    json_t *rows;
    int open;
    char *action, *actor;
    struct engine *engine;
    void (*done)(json_t *result, void *user);
    void *user;
};

struct power_lane {
    struct answer *answer;
    char *name;
    struct op *op;
    struct power_lane *next, **link; /* among the engine's lanes */
};

static void add_row(struct answer *a, const char *name, const char *power, const struct err *err)
{
    json_t *row = json_pack("{s:s,s:s*,s:b}", "name", name, "power", power, "ok",
                            err == NULL || err->code == ERR_OK);
    if (err != NULL && err->code != ERR_OK)
        (void)json_object_set_new(
            row, "error", json_pack("{s:s,s:s}", "code", err_name(err->code), "text", err->text));
    (void)json_array_append_new(a->rows, row);
}

static void finish(struct answer *a)
{
    if (--a->open > 0)
        return;
    a->done(json_pack("{s:o}", "nodes", a->rows), a->user);
    free(a->action);
    free(a->actor);
    free(a);
}

static void lane_free(struct power_lane *lane)
{
    if (lane->link != NULL) {
        *lane->link = lane->next;
        if (lane->next != NULL)
            lane->next->link = lane->link;
    }
    free(lane->name);
    free(lane);
}

static void on_lane(struct op *op, void *user)
{
    struct power_lane *lane = user;
    struct power_op *p = (struct power_op *)(void *)op;
    struct enode *n = engine_find(lane->answer->engine, lane->name);
    add_row(lane->answer, lane->name, p->observed[0] ? p->observed : NULL, &op->err);
    if (n != NULL && strcmp(lane->answer->action, "status") != 0)
        node_event(n, "power.done", NULL, 0, lane->answer->actor, "%s: %s", lane->answer->action,
                   op_ok(op) ? p->observed : op->err.text);
    op_free(op);
    struct answer *a = lane->answer;
    lane_free(lane);
    finish(a);
}

/* An operator may not pull the plug under a stage that owns the power. */
static int owned(const struct enode *n, const char *action, struct err *err)
{
    if (strcmp(action, "status") == 0 || n->attempt == NULL ||
        !n->stages[n->attempt->stage].def->reboots)
        return 0;
    return err_set(err, ERR_BUSY,
                   "stage %s owns the power of %s until it ends; see 'clusterctl why %s'",
                   n->stages[n->attempt->stage].def->name, n->name, n->name);
}

static void start_lane(struct answer *a, struct enode *n)
{
    struct err err = {0};
    struct power_lane *lane = xcalloc(1, sizeof *lane);
    lane->answer = a;
    lane->name = xstrdup(n->name);
    struct power_op *op =
        owned(n, a->action, &err) == 0 ? power_start(n, a->action, on_lane, lane, &err) : NULL;
    if (op != NULL) {
        a->open++;
        lane->op = &op->op;
        lane->link = &a->engine->power_lanes;
        lane->next = a->engine->power_lanes;
        if (lane->next != NULL)
            lane->next->link = &lane->next;
        a->engine->power_lanes = lane;
        if (strcmp(a->action, "status") != 0)
            node_event(n, "power.asked", NULL, 0, a->actor, "%s", a->action);
        return;
    }
    add_row(a, n->name, NULL, &err);
    lane_free(lane);
}

void power_lanes_abandon(struct engine *e)
{
    while (e->power_lanes != NULL) {
        struct power_lane *lane = e->power_lanes;
        struct answer *a = lane->answer;
        op_cancel(lane->op);
        lane_free(lane);
        if (--a->open == 0) {
            json_decref(a->rows);
            free(a->action);
            free(a->actor);
            free(a);
        }
    }
}

int engine_power(struct engine *e, const char *nodeset, const char *action, const char *actor,
                 void (*done)(json_t *result, void *user), void *user, struct err *err)
{
    struct enode **nodes;
    int count;
    if (!power_action_ok(action) || strncmp(action, "boot", 4) == 0)
        return err_set(err, ERR_INVALID,
                       "unknown power action '%s': use on, off, cycle, reset, soft or status",
                       action);
    if (engine_select(e, nodeset, &nodes, &count, err) < 0)
        return -(int)err->code;
    struct answer *a = xcalloc(1, sizeof *a);
    *a = (struct answer){.rows = json_array(),
                         .open = 1,
                         .action = xstrdup(action),
                         .actor = xstrdup(actor),
                         .engine = e,
                         .done = done,
                         .user = user};
    for (int i = 0; i < count; i++)
        start_lane(a, nodes[i]);
    free(nodes);
    finish(a);
    return 0;
}
