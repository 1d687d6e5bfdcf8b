/* What was seen in a slot against what is recorded: parts that were swapped, and other machines. */
#include "engine/swap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "engine/machines.h"
#include "model/fingerprint.h"
#include "model/parts.h"

enum { REASON_MAX = 600, SHARING_MAX = 64 };

void swap_free(struct node_swap *swap)
{
    if (swap == NULL)
        return;
    hardware_free(swap->hw);
    free(swap->probe);
    free(swap->reason);
    free(swap);
}

/* ---- whose machine ---- */

struct enode *swap_owner(const struct enode *n, const struct hardware *hw)
{
    struct enode *near[SHARING_MAX];
    int count = machines_sharing(n, hw, near, SHARING_MAX);
    for (int i = 0; i < count; i++)
        if (hardware_same_machine(near[i]->hardware, hw))
            return near[i];
    return NULL;
}

static bool same_text(const char *a, const char *b)
{
    return a != NULL && b != NULL && a[0] != '\0' && strcasecmp(a, b) == 0;
}

/* The node to which the spec gives this serial or UUID, other than n. */
static const struct spec_node *spec_owner(const struct enode *n, const struct machine_id *id)
{
    const struct spec *spec = n->engine->spec;
    for (int i = 0; spec != NULL && i < spec->node_count; i++) {
        const struct spec_node *s = &spec->nodes[i];
        if (s != n->spec && (same_text(s->serial, id->serial) || same_text(s->uuid, id->uuid)))
            return s;
    }
    return NULL;
}

void swap_name_owner(const struct enode *n, const struct hardware *hw, struct strbuf *text)
{
    struct machine_id id = hardware_machine(hw);
    const struct enode *owner = swap_owner(n, hw);
    const struct spec_node *named = owner == NULL ? spec_owner(n, &id) : NULL;
    const char *word = id.serial[0] ? id.serial : id.uuid[0] ? id.uuid : id.board;
    const char *what = id.serial[0] ? "serial" : id.uuid[0] ? "uuid" : "board";
    const char *comma = text->len > 0 ? "; " : "";
    if (owner != NULL)
        strbuf_addf(text, "%sthis is the machine of %s (%s %s)", comma, owner->name, what, word);
    else if (named != NULL)
        strbuf_addf(text, "%sthe spec gives this machine to %s (%s %s)", comma, named->name, what,
                    word);
}

int swap_shared_identifiers(const struct enode *n, const struct hardware *hw, struct strbuf *text)
{
    struct machine_id id = hardware_machine(hw);
    bool serial = false, uuid = false;
    struct enode *near[SHARING_MAX];
    int count = machines_sharing(n, hw, near, SHARING_MAX);
    for (int i = 0; i < count; i++) {
        const struct enode *o = near[i];
        if (hardware_same_machine(o->hardware, hw))
            continue;
        struct machine_id other = hardware_machine(o->hardware);
        if (!serial && same_text(id.serial, other.serial) &&
            same_text(id.serial, n->spec->serial)) {
            serial = true;
            strbuf_addf(text, "; the machine of %s has the same serial, which does not count then",
                        o->name);
        }
        if (!uuid && same_text(id.uuid, other.uuid) && same_text(id.uuid, n->spec->uuid)) {
            uuid = true;
            strbuf_addf(text, "; the machine of %s has the same uuid, which does not count then",
                        o->name);
        }
    }
    return serial + uuid;
}

/* ---- another machine ---- */

static bool differ(const char *a, const char *b)
{
    return a[0] != '\0' && b[0] != '\0' && strcasecmp(a, b) != 0;
}

/* The serial, the UUID or the board changed: the machine is another one, or has another heart. */
static bool machine_changed(const struct hardware *old, const struct hardware *new)
{
    struct machine_id a = hardware_machine(old), b = hardware_machine(new);
    return differ(a.serial, b.serial) || differ(a.uuid, b.uuid) || differ(a.board, b.board);
}

static void one_change(const char *what, const char *a, const char *b, struct strbuf *text)
{
    if (differ(a, b))
        strbuf_addf(text, "%s%s %s -> %s", text->len ? "; " : "", what, a, b);
}

static void machine_words(const struct hardware *old, const struct hardware *new,
                          struct strbuf *text)
{
    struct machine_id a = hardware_machine(old), b = hardware_machine(new);
    one_change("system: serial", a.serial, b.serial, text);
    one_change("system: uuid", a.uuid, b.uuid, text);
    one_change("board: serial", a.board, b.board, text);
}

/* The attempt that found it ends: what it does would be done to a machine that nobody named. Not
 * at once, for it may be one of its steps that calls. */
static void end_attempt(void *user)
{
    struct enode *n = user;
    char why[REASON_MAX + 60];
    if (n->swap == NULL || n->attempt == NULL)
        return;
    (void)snprintf(why, sizeof why, "another machine answers in this slot: %s", n->swap->reason);
    attempt_cancel(n, why);
    node_save(n);
    node_kick(n, 0);
}

static void suspect(struct enode *n, struct hardware *hw, const char *json, const char *reason,
                    int64_t at)
{
    bool news = n->swap == NULL || strcmp(n->swap->reason, reason) != 0;
    swap_free(n->swap);
    n->swap = xcalloc(1, sizeof *n->swap);
    *n->swap = (struct node_swap){
        .hw = hw, .probe = xstrdup(json), .reason = xstrndup(reason, REASON_MAX), .at = at};
    struct store_swap row = {
        .node_id = n->id, .at = at, .reason = n->swap->reason, .probe = n->swap->probe};
    store_put_swap(n->engine->store, &row);
    if (news)
        node_event(n, "swap.suspected", NULL, 0, "engine",
                   "%s; nothing is started until 'clusterctl replace %s'", n->swap->reason,
                   n->name);
    node_save(n);
    timer_set(n->engine->loop, &n->swap_timer, 0, end_attempt, n);
}

static void withdraw(struct enode *n)
{
    store_drop_swap(n->engine->store, n->id);
    swap_free(n->swap);
    n->swap = NULL;
}

/* ---- parts ---- */

struct part_events {
    struct enode *n;
    int count;
};

static void on_part(enum part_change what, const char *kind, const char *words, void *user)
{
    static const char *const events[] = {[PART_SWAPPED] = "part.swapped",
                                         [PART_NEW] = "part.added",
                                         [PART_GONE] = "part.gone",
                                         [PART_MOVED] = "part.moved",
                                         [PART_TOLD] = NULL};
    struct part_events *p = user;
    (void)kind;
    if (events[what] == NULL)
        return;
    node_event(p->n, events[what], NULL, 0, "engine", "%s", words);
    p->count++;
}

static json_t *rows_of(const struct hardware *hw)
{
    json_t *rows = inputs_new();
    for (int k = 0; part_kinds[k] != NULL; k++)
        parts_add(rows, hw, part_kinds[k], false);
    return rows;
}

static bool has_kind(const json_t *rows, const char *kind)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (strcmp(json_string_value(json_array_get(row, 1)), kind) == 0)
            return true;
    }
    return false;
}

/* What nobody told before was not put in today: BMCs are asked later, and older probes knew of no
 * power supplies. */
static bool is_first_told(const json_t *before, const char *kind)
{
    return (strcmp(kind, "bmc") == 0 || strcmp(kind, "psu") == 0) && !has_kind(before, kind);
}

static void tell_parts(struct enode *n, const json_t *before, const json_t *after)
{
    struct part_events p = {.n = n};
    for (int k = 0; part_kinds[k] != NULL; k++)
        if (!is_first_told(before, part_kinds[k]))
            parts_diff(before, after, part_kinds[k], on_part, &p);
    if (p.count > 0)
        node_kick(n, 0); /* what names such a part goes stale */
}

static void tell_parts_of(struct enode *n, const struct hardware *hw)
{
    json_t *before = rows_of(n->hardware), *after = rows_of(hw);
    tell_parts(n, before, after);
    json_decref(before);
    json_decref(after);
}

/* ---- a look at the machine ---- */

/* Something was proven of the recorded machine. Else it only was the last one that answered, such
 * as a wrong one that `identified` refused. */
static bool is_bound(const struct enode *n)
{
    int first = swap_looking_stage(n);
    for (int i = first > 0 ? first : 0; i < n->stage_count; i++)
        if (n->stages[i].passed_at > 0)
            return true;
    return false;
}

/* true: somebody must be asked. `text` gets what differs. */
static bool must_ask(struct enode *n, const struct hardware *hw, bool changed, struct strbuf *text)
{
    bool first = n->hardware == NULL; /* the first machine that this slot shows */
    const struct enode *owner = changed || first ? swap_owner(n, hw) : NULL;
    if (!changed && owner == NULL)
        return false;
    if (changed)
        machine_words(n->hardware, hw, text);
    swap_name_owner(n, hw, text);
    /* a machine cannot be in two slots: no policy decides that */
    return owner != NULL || (is_bound(n) && !n->klass->auto_replace);
}

bool swap_holds_back(struct enode *n, struct hardware *hw, int64_t at, char **ret_json)
{
    struct strbuf text;
    bool changed = n->hardware != NULL && machine_changed(n->hardware, hw);
    strbuf_init(&text, REASON_MAX);
    if (must_ask(n, hw, changed, &text)) {
        char *json = hardware_carry_over(hw, NULL);
        suspect(n, hw, json, text.data, at);
        free(json);
        strbuf_done(&text);
        return true;
    }
    struct hardware *last = changed ? NULL : node_facts(n);
    *ret_json = hardware_carry_over(hw, last);
    hardware_free(last);
    hardware_set_bmc(hw, n->bmc_identity);
    if (changed) {
        node_event(n, "machine.replaced", NULL, 0, "engine", "%s: %s",
                   is_bound(n) ? "by policy" : "nothing was proven of the other", text.data);
        node_kick(n, 0);
    } else if (n->hardware != NULL) {
        tell_parts_of(n, hw);
    }
    if (n->swap != NULL) {
        node_event(n, "swap.withdrawn", NULL, 0, "engine", "%s",
                   changed ? "nobody has to be asked" : "the recorded machine is back");
        withdraw(n);
        node_kick(n, 0);
    }
    strbuf_done(&text);
    return false;
}

void swap_adopt_bmc(struct enode *n, json_t *identity)
{
    json_t *before = rows_of(n->hardware);
    json_decref(n->bmc_identity);
    n->bmc_identity = json_incref(identity);
    char *text = json_dumps(identity, JSON_COMPACT);
    if (n->id != 0 && text != NULL)
        store_put_bmc_identity(n->engine->store, n->id, text);
    free(text);
    struct hardware *hw = n->swap == NULL ? node_facts(n) : NULL;
    if (hw != NULL) {
        json_t *after = rows_of(hw);
        node_keep_parts(n, hw);
        tell_parts(n, before, after);
        json_decref(after);
    }
    json_decref(before);
}
