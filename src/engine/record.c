/* A node's row in the store. */
#include "base/strbuf.h"
#include "engine/node.h"

static void join_macs(const struct enode *n, struct strbuf *sb)
{
    for (int i = 0; n->spec->macs != NULL && n->spec->macs[i] != NULL; i++)
        strbuf_addf(sb, "%s%s", i ? "," : "", n->spec->macs[i]);
}

static void save_node(struct enode *n, int64_t removed_at)
{
    struct strbuf macs;
    strbuf_init(&macs, 4096);
    join_macs(n, &macs);
    struct store_node row = {
        .id = n->id,
        .name = n->name,
        .revision = n->engine->revision,
        .class_name = n->klass->name,
        .profile = n->klass->profile->name,
        .rack = n->rack,
        .unit = n->spec->unit,
        .bmc = n->spec->bmc,
        .address = n->spec->address,
        .serial = n->spec->serial,
        .uuid = n->spec->uuid,
        .macs = macs.data,
        .state = node_word(n),
        .operation = node_operation(n),
        .admin = node_admin_name(n),
        .hold_reason = n->hold_reason,
        .hold_by = n->hold_by,
        .hold_at = n->hold_at,
        .deferred = n->deferred,
        .power_desired = n->power_desired[0] ? n->power_desired : "unknown",
        .power_observed = n->power_observed[0] ? n->power_observed : "unknown",
        .power_at = n->power_at,
        .boot_intent = n->boot_intent[0] ? n->boot_intent : "disk",
        .health = node_health(n),
        .created_at = n->created_at,
        .removed_at = removed_at,
    };
    n->id = store_put_node(n->engine->store, &row);
    strbuf_done(&macs);
}

void node_save(struct enode *n)
{
    save_node(n, 0);
}

void node_save_removed(struct enode *n)
{
    save_node(n, engine_wall(n->engine));
}
