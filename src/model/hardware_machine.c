/* The machine as a whole: which one it is, whatever was changed in it. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "model/hardware_int.h"
#include "model/parts.h"

static const char *text_at(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text != NULL ? text : "";
}

static const char *real_at(const struct hardware *hw, const char *group, const char *key)
{
    const char *text = text_at(json_object_get(hw->root, group), key);
    return serial_is_junk(text) ? "" : text;
}

void hardware_find_machine(struct hardware *hw)
{
    hw->id = (struct machine_id){.serial = real_at(hw, "system", "serial"),
                                 .uuid = real_at(hw, "system", "uuid"),
                                 .board = real_at(hw, "board", "serial")};
}

struct machine_id hardware_machine(const struct hardware *hw)
{
    static const struct machine_id none = {"", "", ""};
    return hw != NULL ? hw->id : none;
}

const char *hardware_machine_word(const struct hardware *hw)
{
    struct machine_id id = hardware_machine(hw);
    return id.serial[0] ? id.serial : id.uuid[0] ? id.uuid : id.board;
}

static const char *mac_at(const struct hardware *hw, int i)
{
    const struct component *c = &hw->items[i];
    return strcmp(c->kind, "nic") == 0 && !serial_is_junk(c->first) ? c->first : NULL;
}

/* 1: they share an interface; -1: both have some, and none in common; 0: nothing is known. */
static int compare_interfaces(const struct hardware *a, const struct hardware *b)
{
    bool a_any = false, b_any = false;
    for (int i = 0; i < a->count; i++) {
        const char *x = mac_at(a, i);
        a_any = a_any || x != NULL;
        for (int j = 0; j < b->count; j++) {
            const char *y = mac_at(b, j);
            b_any = b_any || y != NULL;
            if (x != NULL && y != NULL && strcasecmp(x, y) == 0)
                return 1;
        }
    }
    return a_any && b_any ? -1 : 0;
}

static int compare_texts(const char *a, const char *b)
{
    return a[0] == '\0' || b[0] == '\0' ? 0 : strcasecmp(a, b) == 0 ? 1 : -1;
}

void hardware_each_identifier(const struct hardware *hw,
                              void (*fn)(const char *kind, const char *text, void *user),
                              void *user)
{
    const struct machine_id id = hw->id;
    const char *const rows[][2] = {{"serial", id.serial}, {"uuid", id.uuid}, {"board", id.board}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i][1][0] != '\0')
            fn(rows[i][0], rows[i][1], user);
    for (int i = 0; i < hw->count; i++)
        if (mac_at(hw, i) != NULL)
            fn("mac", mac_at(hw, i), user);
}

bool hardware_same_machine(const struct hardware *a, const struct hardware *b)
{
    struct machine_id x = hardware_machine(a), y = hardware_machine(b);
    int sum = compare_texts(x.serial, y.serial) + compare_texts(x.uuid, y.uuid) +
              compare_texts(x.board, y.board) + compare_interfaces(a, b);
    return sum > 0;
}

/* ---- only the parts ---- */

/* The texts of a part that may live in the facts; its kind and the labels are literals. */
enum { PART_TEXTS = 9 };

static void texts_of(struct component *c, const char **ret[PART_TEXTS])
{
    const char **all[PART_TEXTS] = {&c->slot,  &c->identity, &c->model, &c->firmware, &c->detail,
                                    &c->place, &c->value,    &c->first, &c->second};
    memcpy(ret, all, sizeof all);
}

/* Moves a text to the blob at *at; NULL `at`: only says how much it takes. */
static size_t move_text(const char **text, char **at)
{
    size_t size = *text == NULL || (*text)[0] == '\0' ? 0 : strlen(*text) + 1;
    if (at == NULL)
        return size;
    if (size == 0) {
        *text = *text != NULL ? "" : NULL;
        return 0;
    }
    memcpy(*at, *text, size);
    *text = *at;
    *at += size;
    return size;
}

static size_t move_texts(struct hardware *hw, char **at)
{
    const char **id[] = {&hw->id.serial, &hw->id.uuid, &hw->id.board};
    const char **texts[PART_TEXTS];
    size_t sum = 0;
    for (size_t i = 0; i < ARRAY_LEN(id); i++)
        sum += move_text(id[i], at);
    for (int i = 0; i < hw->count; i++) {
        texts_of(&hw->items[i], texts);
        for (int j = 0; j < PART_TEXTS; j++)
            sum += move_text(texts[j], at);
    }
    return sum;
}

void hardware_slim(struct hardware *hw)
{
    if (hw->root == NULL)
        return;
    char *blob = xcalloc(1, move_texts(hw, NULL) + 1), *at = blob;
    (void)move_texts(hw, &at);
    hardware_drop_facts(hw);
    hw->blob = blob;
    hw->items = xrealloc(hw->items, (size_t)hw->count + 1, sizeof *hw->items);
    hw->capacity = hw->count + 1;
}

/* ---- what this look could not see ---- */

static bool agree(const json_t *a, const json_t *b, const char *const *keys)
{
    for (; *keys != NULL; keys++)
        if (strcmp(text_at(a, *keys), text_at(b, *keys)) != 0)
            return false;
    return true;
}

static bool has_any(const json_t *o, const char *const *keys)
{
    for (; *keys != NULL; keys++)
        if (!serial_is_junk(text_at(o, *keys)))
            return true;
    return false;
}

static void take_over(json_t *to, const json_t *from, const char *const *keys)
{
    for (; *keys != NULL; keys++) {
        json_t *value = json_object_get(from, *keys);
        if (value != NULL && json_object_get(to, *keys) == NULL)
            (void)json_object_set(to, *keys, value);
    }
}

static void carry_gpus(json_t *gpus, const json_t *last)
{
    static const char *const who[] = {"serial", "uuid", NULL};
    static const char *const where[] = {"pci", "pci_id", NULL};
    static const char *const what[] = {"serial", "uuid", "model", "vbios", "memory_mib", NULL};
    size_t i, j;
    json_t *now, *then;
    json_array_foreach(gpus, i, now)
    {
        if (has_any(now, who))
            continue;
        json_array_foreach(last, j, then)
        {
            if (agree(now, then, where))
                take_over(now, then, what);
        }
    }
}

static void carry_group(json_t *now, const json_t *then, const char *const *same,
                        const char *const *keys)
{
    if (!has_any(now, keys) && agree(now, then, same))
        take_over(now, then, keys);
}

char *hardware_carry_over(struct hardware *hw, const struct hardware *last)
{
    static const char *const system_same[] = {"vendor", "product", NULL};
    static const char *const system_keys[] = {"serial", "uuid", NULL};
    static const char *const board_same[] = {"vendor", "product", NULL};
    static const char *const board_keys[] = {"serial", NULL};
    if (last != NULL) {
        carry_group(json_object_get(hw->root, "system"), json_object_get(last->root, "system"),
                    system_same, system_keys);
        carry_group(json_object_get(hw->root, "board"), json_object_get(last->root, "board"),
                    board_same, board_keys);
        carry_gpus(json_object_get(hw->root, "gpus"), json_object_get(last->root, "gpus"));
        hardware_build(hw);
    }
    return json_dumps(hw->root, JSON_COMPACT);
}
