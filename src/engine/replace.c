/* What operators do about a machine that was swapped, and what they are shown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "engine/swap.h"
#include "engine/view.h"
#include "model/fingerprint.h"
#include "model/parts.h"

/* ---- verbs ---- */

static void add_note(json_t *notes, const char *node, const char *fmt, const char *a, const char *b)
{
    char text[400];
    int len = snprintf(text, sizeof text, "%s: ", node);
    (void)snprintf(text + len, sizeof text - (size_t)len, fmt, a, b);
    (void)json_array_append_new(notes, json_string(text));
}

static bool has_part(const struct enode *n, const char *kind, const char *identity)
{
    for (int i = 0; i < hardware_count(n->hardware); i++) {
        const struct component *c = hardware_at(n->hardware, i);
        if (strcmp(c->kind, kind) == 0 && strcasecmp(c->identity, identity) == 0)
            return true;
    }
    return false;
}

/* What the operator has to do yet: the spec names the old machine, or its disks went with it. */
static void what_is_left(const struct enode *n, json_t *notes)
{
    struct machine_id id = hardware_machine(n->hardware);
    const char *serial = n->spec->serial, *uuid = n->spec->uuid;
    if (serial != NULL && id.serial[0] && strcasecmp(serial, id.serial) != 0)
        add_note(notes, n->name, "the spec says serial %s, the machine says %s: correct the spec",
                 serial, id.serial);
    if (uuid != NULL && id.uuid[0] && strcasecmp(uuid, id.uuid) != 0)
        add_note(notes, n->name, "the spec says uuid %s, the machine says %s: correct the spec",
                 uuid, id.uuid);
    for (int i = 0; n->spec->macs != NULL && n->spec->macs[i] != NULL; i++)
        if (!has_part(n, "nic", n->spec->macs[i]))
            add_note(notes, n->name, "the spec says mac %s, which the machine lacks: %s",
                     n->spec->macs[i], "correct the spec");
    for (int i = 0; i < n->stage_count; i++)
        if (n->stages[i].def->wipes && n->disks_gone)
            add_note(notes, n->name,
                     "no disk of the last install is in it: clusterctl apply SPEC --reinstall %s%s",
                     n->name, "");
}

static void replace_node(struct enode *n, const char *actor, json_t *notes)
{
    struct node_swap *swap = n->swap;
    struct enode *owner = swap_owner(n, swap->hw);
    n->swap = NULL;
    store_drop_swap(n->engine->store, n->id);
    node_event(n, "machine.replaced", NULL, 0, actor, "%s", swap->reason);
    if (owner != NULL)
        node_event(owner, "machine.moved", NULL, 0, actor, "its machine (%s) is in %s now",
                   hardware_machine_word(swap->hw), n->name);
    hardware_set_bmc(swap->hw, n->bmc_identity);
    node_record_machine(n, swap->hw, swap->probe, swap->at);
    swap->hw = NULL; /* taken */
    swap_free(swap);
    what_is_left(n, notes);
    node_save(n);
    node_kick(n, 0);
}

json_t *engine_replace(struct engine *e, const char *nodeset, const char *actor, struct err *err)
{
    struct enode **nodes;
    int count;
    if (engine_select(e, nodeset, &nodes, &count, err) < 0)
        return NULL;
    for (int i = 0; i < count; i++)
        if (nodes[i]->swap == NULL) {
            (void)err_set(err, ERR_CONFLICT,
                          "no other machine than the recorded one was seen in %s: let it boot from "
                          "the network or ask for 'clusterctl rerun %s --stage identified', and "
                          "see 'clusterctl why %s'",
                          nodes[i]->name, nodes[i]->name, nodes[i]->name);
            free(nodes);
            return NULL;
        }
    json_t *names = json_array(), *notes = json_array();
    for (int i = 0; i < count; i++) {
        replace_node(nodes[i], actor, notes);
        (void)json_array_append_new(names, json_string(nodes[i]->name));
    }
    free(nodes);
    return json_pack("{s:o,s:s,s:o}", "nodes", names, "text",
                     "bound; what rests on the machine is proven again", "notes", notes);
}

int swap_looking_stage(const struct enode *n)
{
    for (int i = 0; i < n->stage_count; i++)
        for (int j = 0; j < n->stages[i].def->step_count; j++) {
            const struct step_def *step = &n->stages[i].def->steps[j];
            if (strcmp(step->type, "probe") == 0 ||
                (strcmp(step->type, "netboot") == 0 && strcmp(step->what, "discover") == 0))
                return i;
        }
    return -1;
}

void swap_dismiss(struct enode *n, const char *actor)
{
    int stage = swap_looking_stage(n);
    store_drop_swap(n->engine->store, n->id);
    swap_free(n->swap);
    n->swap = NULL;
    node_event(n, "swap.dismissed", NULL, 0, actor, "the recorded machine is expected; %s",
               stage >= 0 ? "it is looked at again" : "no stage looks at it");
    if (stage >= 0)
        node_queue(n, stage, "the recorded machine is expected");
    node_save(n);
    node_kick(n, 0);
}

/* ---- disks ---- */

static bool has_disk(const struct enode *n, const char *value)
{
    for (int i = 0; i < hardware_count(n->hardware); i++) {
        const struct component *c = hardware_at(n->hardware, i);
        if (strcmp(c->kind, "disk") == 0 && strcmp(c->value, value) == 0)
            return true;
    }
    return false;
}

static bool disks_gone(const struct enode *n, int stage)
{
    size_t i;
    json_t *row, *proof = stage_proof(n, stage);
    int count = 0;
    bool stands = n->hardware == NULL;
    json_array_foreach(proof, i, row)
    {
        const char *type = json_string_value(json_array_get(row, 0));
        const char *kind = json_string_value(json_array_get(row, 1));
        if (strcmp(type, "hardware") != 0 || strcmp(kind, "disk") != 0)
            continue;
        count++;
        stands = stands || has_disk(n, json_string_value(json_array_get(row, 2)));
    }
    json_decref(proof);
    return count > 0 && !stands;
}

void swap_judge_disks(struct enode *n, int stage)
{
    const struct stage_rt *s = &n->stages[stage];
    if (s->def->wipes)
        n->disks_gone = s->passed_at > 0 && s->status != STAGE_RUNNING && disks_gone(n, stage);
}

/* ---- what is shown ---- */

json_t *swap_machine_view(const struct enode *n)
{
    if (n->hardware == NULL)
        return json_null();
    struct machine_id id = hardware_machine(n->hardware);
    return json_pack("{s:o,s:o,s:o}", "serial", view_text(id.serial), "uuid", view_text(id.uuid),
                     "board", view_text(id.board));
}

json_t *swap_view(const struct enode *n)
{
    const struct node_swap *s = n->swap;
    if (s == NULL)
        return json_null();
    struct machine_id id = hardware_machine(s->hw);
    return json_pack("{s:s,s:o,s:i,s:{s:o,s:o,s:o}}", "reason", s->reason, "at", view_time(s->at),
                     "components", hardware_count(s->hw), "machine", "serial", view_text(id.serial),
                     "uuid", view_text(id.uuid), "board", view_text(id.board));
}

static void add_place(const struct store_place *r, void *user)
{
    size_t i;
    json_t *o;
    json_array_foreach((json_t *)user, i, o)
    {
        const char *kind = json_string_value(json_object_get(o, "kind"));
        const char *slot = json_string_value(json_object_get(o, "slot"));
        if (kind == NULL || slot == NULL || strcmp(kind, r->kind) != 0 ||
            strcmp(slot, r->slot) != 0)
            continue;
        json_t *list = json_object_get(o, "before");
        if (list == NULL) {
            list = json_array();
            (void)json_object_set_new(o, "before", list);
        }
        (void)json_array_append_new(
            list, json_pack("{s:s,s:o,s:o,s:o,s:o}", "node", r->node, "slot",
                            view_text(r->node_slot), "machine", view_text(r->machine), "from",
                            view_time(r->first_seen), "to", view_time(r->removed_at)));
    }
}

void swap_add_history(const struct enode *n, json_t *rows)
{
    (void)store_each_earlier_place(n->engine->store, n->id, add_place, rows, NULL);
}

/* ---- start ---- */

static void load_swap(const struct store_swap *row, void *user)
{
    struct enode *n = engine_find_id(user, row->node_id);
    struct hardware *hw = NULL;
    if (n == NULL || row->probe == NULL ||
        hardware_parse(row->probe, strlen(row->probe), &hw, NULL) < 0)
        return;
    swap_free(n->swap);
    n->swap = xcalloc(1, sizeof *n->swap);
    *n->swap = (struct node_swap){.hw = hw,
                                  .probe = xstrdup(row->probe),
                                  .reason = xstrdup(row->reason != NULL ? row->reason : "?"),
                                  .at = row->at};
}

int swap_load(struct engine *e, struct err *err)
{
    if (store_each_swap(e->store, load_swap, e, err) < 0)
        return -(int)err->code;
    /* only a change of disks makes that stage stale */
    for (int i = 0; i < e->node_count; i++)
        for (int j = 0; j < e->nodes[i]->stage_count; j++)
            if (e->nodes[i]->stages[j].status == STAGE_STALE)
                swap_judge_disks(e->nodes[i], j);
    return 0;
}
