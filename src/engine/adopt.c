/* Nodes come, change and go with the spec; what is observed of a machine is adopted here, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "bmc/bmc.h"
#include "engine/machines.h"
#include "engine/power.h"
#include "engine/rollout.h"
#include "engine/swap.h"
#include "model/fingerprint.h"
#include "netboot/netboot.h"
#include "remote/remote.h"

struct enode *node_new(struct engine *e, const char *name)
{
    struct enode *n = xcalloc(1, sizeof *n);
    n->engine = e;
    n->name = xstrdup(name);
    n->created_at = engine_wall(e);
    (void)snprintf(n->boot_intent, sizeof n->boot_intent, "disk");
    return n;
}

static void stage_done(struct stage_rt *s)
{
    free(s->fingerprint);
    json_decref(s->inputs);
    free(s->reason);
    free(s->drift);
}

void node_free(struct enode *n)
{
    if (n == NULL)
        return;
    attempt_abandon(n);
    if (n->power_op != NULL) {
        struct err gone = {0};
        (void)err_set(&gone, ERR_CANCELLED, "%s left the spec", n->name);
        op_finish(&n->power_op->op, &gone);
    }
    watts_node_done(n);
    timer_cancel(&n->timer);
    sweep_forget(n);
    rollout_forget(n);
    limit_release(&n->place);
    timer_cancel(&n->swap_timer);
    swap_free(n->swap);
    for (int i = 0; i < n->stage_count; i++)
        stage_done(&n->stages[i]);
    free(n->stages);
    if (n->bmc != NULL)
        bmc_close(n->bmc);
    machines_leave(n);
    hardware_free(n->hardware);
    json_decref(n->bmc_identity);
    free(n->host_key);
    free(n->hold_reason);
    free(n->deferred);
    free(n->hold_by);
    free(n->name);
    free(n);
}

/* The profile's stages in order; what is known of a stage of the same name stays with it. */
static void bind_stages(struct enode *n, const struct profile *p)
{
    struct stage_rt *stages = xcalloc((size_t)p->stage_count + 1, sizeof *stages);
    bool *kept = xcalloc((size_t)n->stage_count + 1, sizeof *kept);
    for (int i = 0; i < p->stage_count; i++) {
        stages[i].changed_at = engine_wall(n->engine);
        for (int j = 0; j < n->stage_count; j++)
            if (!kept[j] && strcmp(n->stages[j].def->name, p->stages[i].name) == 0) {
                stages[i] = n->stages[j];
                kept[j] = true;
            }
        stages[i].def = &p->stages[i];
    }
    for (int j = 0; j < n->stage_count; j++) {
        if (kept[j])
            continue;
        if (n->id != 0)
            store_drop_stage(n->engine->store, n->id, n->stages[j].def->name);
        stage_done(&n->stages[j]);
    }
    free(kept);
    free(n->stages);
    n->stages = stages;
    n->stage_count = p->stage_count;
}

void node_bind(struct enode *n, const struct spec_node *spec, const struct spec_class *klass,
               const char *rack)
{
    const char *running = n->attempt != NULL ? n->stages[n->attempt->stage].def->name : NULL;
    char *name = xstrdup(running);
    n->spec = spec;
    n->klass = klass;
    n->rack = rack;
    bind_stages(n, klass->profile);
    if (name != NULL)
        attempt_rebind(n, node_stage_index(n, name));
    free(name);
}

void node_refresh_bmc(struct enode *n)
{
    struct engine *e = n->engine;
    if (e->c.bmc_hub == NULL || n->spec->bmc == NULL)
        return;
    char *password = NULL;
    char id[65] = "";
    struct err err = {0};
    if (n->spec->bmc_password.kind != SECRET_NONE &&
        e->c.secret(&n->spec->bmc_password, &password, &err, e->c.user) < 0) {
        node_event(n, "secret.missing", NULL, 0, "engine", "%s", err.text);
        password = xstrdup("");
    }
    char *both = xasprintf("%s\n%s\n%s", n->spec->bmc, n->spec->bmc_user, password ? password : "");
    e->c.secret_id(both, id, e->c.user);
    mem_wipe_free(both, strlen(both));
    if (n->bmc == NULL || strcmp(id, n->credential_id) != 0) {
        memcpy(n->credential_id, id, sizeof id);
        node_open_bmc(n, password ? password : "");
    }
    if (password != NULL)
        mem_wipe_free(password, strlen(password));
}

void node_open_bmc(struct enode *n, const char *password)
{
    struct err err = {0};
    struct bmc *old = n->bmc;
    n->bmc = NULL;
    bmc_close(old);
    struct bmc_target target = {.address = n->spec->bmc,
                                .port = n->spec->bmc_port,
                                .driver = n->spec->bmc_driver,
                                .user = n->spec->bmc_user,
                                .password = password,
                                .credential_id = n->credential_id,
                                .lane = node_lane(n)};
    if (bmc_open(n->engine->c.bmc_hub, &target, &n->bmc, &err) < 0)
        node_event(n, "bmc.unusable", NULL, 0, "engine", "%s", err.text);
}

struct bmc *engine_bmc(struct engine *e, const char *name, struct err *err)
{
    struct enode *n = engine_find(e, name);
    if (n == NULL)
        (void)err_set(err, ERR_NOT_FOUND, "no node is called '%s'", name);
    else if (n->bmc == NULL)
        (void)err_set(err, ERR_UNSUPPORTED, "%s has no BMC in the spec", name);
    return n != NULL ? n->bmc : NULL;
}

/* ---- what was observed of the machine ---- */

bool node_is_installed(const struct enode *n)
{
    for (int i = 0; i < n->stage_count; i++) {
        const struct stage_rt *s = &n->stages[i];
        if (s->def->wipes)
            return stage_satisfied(s) && s->passed_at > 0 && s->status != STAGE_QUEUED &&
                   n->host_key != NULL && !n->disks_gone;
    }
    return false;
}

bool node_is_stopped(const struct enode *n)
{
    return n->admin != NODE_ACTIVE || n->swap != NULL;
}

const char *node_admin_word(const struct enode *n)
{
    return n->swap != NULL ? "swap-suspected" : node_admin_name(n);
}

void node_adopt_hardware(struct enode *n, struct hardware *hw, int64_t at)
{
    char *json = NULL;
    if (swap_holds_back(n, hw, at, &json))
        return;
    node_record_machine(n, hw, json, at);
    free(json);
}

void node_keep_parts(struct enode *n, struct hardware *hw)
{
    machines_leave(n);
    hardware_free(n->hardware);
    hardware_slim(hw);
    n->hardware = hw;
    machines_enter(n);
}

struct hardware *node_facts(const struct enode *n)
{
    struct hardware *hw = NULL;
    char *text = n->hardware != NULL ? store_machine_probe(n->engine->store, n->id) : NULL;
    if (text != NULL && hardware_parse(text, strlen(text), &hw, NULL) == 0)
        hardware_set_bmc(hw, n->bmc_identity);
    free(text);
    return hw;
}

void node_record_machine(struct enode *n, struct hardware *hw, const char *json, int64_t at)
{
    int count = hardware_count(hw);
    struct store_component *rows = xcalloc((size_t)count + 1, sizeof *rows);
    for (int i = 0; i < count; i++) {
        const struct component *c = hardware_at(hw, i);
        rows[i] = (struct store_component){.node_id = n->id,
                                           .kind = c->kind,
                                           .slot = c->slot,
                                           .identity = c->identity,
                                           .model = c->model,
                                           .firmware = c->firmware,
                                           .detail = c->detail,
                                           .machine = hardware_machine_word(hw),
                                           .seen_at = at};
    }
    store_put_machine(n->engine->store, n->id, json, rows, count, at);
    free(rows);
    node_keep_parts(n, hw);
    n->probed_at = at;
    for (int i = 0; i < n->stage_count; i++)
        swap_judge_disks(n, i);
}

/* ---- network boot ---- */

void node_publish_boot(struct enode *n)
{
    struct err err = {0};
    struct netboot_host host = {.node = n->id,
                                .name = n->name,
                                .address = n->spec->address,
                                .macs = (const char *const *)n->spec->macs,
                                .serial = n->spec->serial};
    static const char *const none[] = {NULL};
    if (host.macs == NULL)
        host.macs = none;
    if (n->engine->netboot != NULL && n->spec->address != NULL &&
        netboot_host_put(n->engine->netboot, &host, &err) < 0)
        node_event(n, "boot.unpublished", NULL, 0, "engine", "%s", err.text);
}

void node_unpublish_boot(struct enode *n)
{
    if (n->engine->netboot != NULL)
        netboot_host_remove(n->engine->netboot, n->id);
}

/* ---- limits and keys that come with a spec ---- */

void engine_bind_racks(struct engine *e)
{
    for (int i = 0; i < e->rack_count; i++)
        limit_done(&e->rack_power[i]);
    free(e->rack_power);
    e->rack_count = e->spec->rack_count;
    e->rack_power = xcalloc((size_t)e->rack_count + 1, sizeof *e->rack_power);
    for (int i = 0; i < e->rack_count; i++)
        limit_init(&e->rack_power[i], e->loop, e->spec->racks[i].name,
                   e->spec->limits.power_on_per_rack);
}

int node_lane(const struct enode *n)
{
    return n->spec->rack_index + 1;
}

struct limit *node_rack_limit(struct enode *n)
{
    int at = n->spec->rack_index;
    return at >= 0 && at < n->engine->rack_count ? &n->engine->rack_power[at] : NULL;
}

void engine_load_key(struct engine *e)
{
    struct err err = {0};
    struct remote_key *key = NULL;
    if (e->c.remote_hub == NULL || e->spec == NULL)
        return;
    e->ssh_key_problem[0] = '\0';
    if (e->spec->ssh_key.kind != SECRET_FILE) {
        (void)snprintf(e->ssh_key_problem, sizeof e->ssh_key_problem, "must name a file");
        return;
    }
    char *path = e->c.secret_path(&e->spec->ssh_key, e->c.user);
    if (remote_key_load(path, &key, &err) < 0) {
        (void)snprintf(e->ssh_key_problem, sizeof e->ssh_key_problem, "cannot be used: %.250s",
                       err.text);
        log_error("ssh.key", "%s", err.text);
    } else if (e->ssh_key != NULL &&
               strcmp(remote_key_public(e->ssh_key), remote_key_public(key)) == 0) {
        remote_key_free(key);
    } else {
        /* operations in flight may still use the old one: it stays until the end */
        ARRAY_GROW(e->ssh_keys, e->ssh_key_count, e->ssh_key_capacity);
        e->ssh_keys[e->ssh_key_count++] = key;
        e->ssh_key = key;
    }
    free(path);
}
