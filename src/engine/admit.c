/* Places among the installs: taken before an attempt begins, so that no deadline runs meanwhile,
 * by racks in turn. */
#include <string.h>

#include "engine/node.h"
#include "engine/rollout.h"

static bool is_install(const struct stage_def *def)
{
    for (int i = 0; i < def->step_count; i++)
        if (strcmp(def->steps[i].type, "netboot") == 0 &&
            strcmp(def->steps[i].what, "install") == 0)
            return true;
    return false;
}

static void on_place(void *user)
{
    node_kick(user, 0);
}

bool node_admits(struct enode *n, int stage)
{
    struct limit *installs = &n->engine->installs;
    bool admitted = stage >= 0 && rollout_admits(n);
    if (!admitted || !is_install(n->stages[stage].def)) {
        limit_release(&n->place);
        return admitted;
    }
    if (n->place.limit == NULL)
        limit_take_lane(installs, node_lane(n), &n->place, on_place, n);
    return n->place.holding;
}

void node_keep_place(struct enode *n, int stage)
{
    if (is_install(n->stages[stage].def))
        limit_force(&n->engine->installs, node_lane(n), &n->place);
}
