/* `rollout`: which nodes go first, how many after them, and how many failures stop it. Kept as
 * written; the engine reads it when a rollout begins. */
#include <stdlib.h>
#include <string.h>

#include "base/nodeset.h"
#include "model/spec_read.h"

/* Members are written by the readers of rows and not looked at: the checked text is what is kept.
 */
struct raw_rollout {
    int64_t whole;
    const char *text;
    const struct ynode *any;
};

static bool share_text_ok(const char *text)
{
    char *end;
    double number = strtod(text, &end);
    return text[0] >= '0' && text[0] <= '9' && strchr(text, 'x') == NULL &&
           ((strcmp(end, "%") == 0 && number <= 100) || (*end == '\0' && number <= SPEC_NODES_MAX));
}

static bool share_ok(const struct ynode *value, struct strbuf *why)
{
    if (share_text_ok(value->text))
        return true;
    strbuf_adds(why, "must be a number of nodes or a share of them, such as 5%");
    return false;
}

static bool waves_ok(const struct ynode *value, struct strbuf *why)
{
    if (value->kind != YNODE_LIST)
        return share_ok(value, why);
    for (int i = 0; i < value->count; i++)
        if (!share_text_ok(value->items[i]->text)) {
            strbuf_addf(why,
                        "must list numbers of nodes or shares of them, such as [1, 5%%, 100%%], "
                        "not '%s'",
                        value->items[i]->text);
            return false;
        }
    return true;
}

static bool names_ok(const char *text)
{
    struct nodeset *set = nodeset_parse(text, NULL);
    bool ok = set != NULL && nodeset_count(set) > 0;
    nodeset_free(set);
    return ok;
}

static bool is_count(const char *text)
{
    return text[0] != '\0' && strspn(text, "0123456789") == strlen(text);
}

static bool canary_ok(const struct ynode *value, struct strbuf *why)
{
    bool ok = value->kind == YNODE_LIST && value->count > 0;
    if (value->kind == YNODE_SCALAR)
        ok = is_count(value->text) ? strtoll(value->text, NULL, 10) <= SPEC_NODES_MAX
                                   : value->text[0] != '-' && names_ok(value->text);
    for (int i = 0; value->kind == YNODE_LIST && i < value->count; i++)
        ok = ok && value->items[i]->kind == YNODE_SCALAR && !is_count(value->items[i]->text) &&
             names_ok(value->items[i]->text);
    if (!ok)
        strbuf_adds(why, "must be a number of nodes, or names: gpu[001-002]");
    return ok;
}

json_t *read_rollout(struct reader *r, const struct ynode *map)
{
    static const struct field rows[] = {{.key = "canary",
                                         .type = FIELD_ANY,
                                         .offset = offsetof(struct raw_rollout, any),
                                         .check = canary_ok,
                                         .help = "nodes that go first: how many, or which"},
                                        {.key = "waves",
                                         .type = FIELD_TEXTS,
                                         .offset = offsetof(struct raw_rollout, any),
                                         .check = waves_ok,
                                         .help = "how far each wave goes: [1, 5%, 100%]"},
                                        {.key = "wave_pause",
                                         .type = FIELD_DURATION,
                                         .offset = offsetof(struct raw_rollout, whole),
                                         .help = "between waves: 10m"},
                                        {.key = "max_failed",
                                         .type = FIELD_TEXT,
                                         .offset = offsetof(struct raw_rollout, text),
                                         .check = share_ok,
                                         .help = "failures that stop a rollout"},
                                        {.key = "per_rack",
                                         .type = FIELD_INT,
                                         .offset = offsetof(struct raw_rollout, whole),
                                         .min = 1,
                                         .max = SPEC_NODES_MAX,
                                         .help = "nodes of one rack at once"},
                                        {0}};
    struct raw_rollout raw = {0};
    if (map == NULL || !schema_read(rows, map, "'rollout'", &raw, r->d))
        return NULL;
    return ynode_json(map, false);
}
