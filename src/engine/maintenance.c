/* Maintenance: somebody works on the machine. Nothing is started, swept or switched on it by
 * itself, and what was running is called off. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/node.h"
#include "engine/rollout.h"

static const struct name admin_names[] = {
    {NODE_ACTIVE, "active"}, {NODE_HELD, "held"}, {NODE_MAINTENANCE, "maintenance"}, {0, NULL}};

const char *node_admin_name(const struct enode *n)
{
    return name_of(admin_names, (int)n->admin, "active");
}

enum node_admin node_admin_from_name(const char *name)
{
    int id = name != NULL ? name_id(admin_names, name) : -1;
    return id >= 0 ? (enum node_admin)id : NODE_ACTIVE;
}

/* A disk half written and a machine half switched over are worse than waiting. */
static int check_idle(const struct enode *n, struct err *err)
{
    const struct attempt *a = n->attempt;
    const struct stage_def *def = a != NULL ? n->stages[a->stage].def : NULL;
    if (def != NULL && (def->wipes || def->reboots))
        return err_set(err, ERR_BUSY,
                       "%s is running on %s and has its %s: wait for its end, or hold the node "
                       "first ('clusterctl hold'), so that nothing follows",
                       def->name, n->name, def->wipes ? "disk" : "power");
    if (n->power_op != NULL)
        return err_set(err, ERR_BUSY, "the power of %s is being changed: try again when it is over",
                       n->name);
    return 0;
}

static void enter(struct enode *n, const char *reason, const char *actor)
{
    char why[460];
    (void)snprintf(why, sizeof why, "maintenance: %.440s", reason);
    n->admin = NODE_MAINTENANCE;
    free(n->hold_reason);
    free(n->hold_by);
    n->hold_reason = xstrndup(reason, 400);
    n->hold_by = xstrdup(actor);
    n->hold_at = engine_wall(n->engine);
    sweep_stop(n, "it is in maintenance");
    attempt_cancel(n, why);
    node_event(n, "node.maintenance", NULL, 0, actor, "%s", n->hold_reason);
    node_save(n);
    rollout_held(n, true);
    node_kick(n, 0); /* gives back the places that it had taken */
}

json_t *engine_maintenance(struct engine *e, const char *nodeset, const char *reason,
                           const char *actor, struct err *err)
{
    struct enode **nodes;
    int count;
    if (reason == NULL || reason[0] == '\0') {
        (void)err_set(err, ERR_INVALID, "maintenance needs a reason: --reason TEXT");
        return NULL;
    }
    if (engine_select(e, nodeset, &nodes, &count, err) < 0)
        return NULL;
    for (int i = 0; i < count; i++)
        if (check_idle(nodes[i], err) < 0) {
            free(nodes);
            return NULL;
        }
    json_t *names = json_array();
    for (int i = 0; i < count; i++) {
        enter(nodes[i], reason, actor);
        (void)json_array_append_new(names, json_string(nodes[i]->name));
    }
    free(nodes);
    return json_pack("{s:o,s:s}", "nodes", names, "text",
                     "in maintenance: nothing is done to them until they are released");
}
