/* rollout status, pause, resume, cancel. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ctl/ctl.h"

static int count_of(const json_t *row, const char *state)
{
    return (int)json_integer_value(json_object_get(json_object_get(row, "counts"), state));
}

static bool is_open(const json_t *row)
{
    return text_of(row, "ended_at")[0] == '\0';
}

static json_int_t id_of(const json_t *row)
{
    return json_integer_value(json_object_get(row, "id"));
}

static void add_number(struct table *t, int number)
{
    char *text = xasprintf("%d", number);
    table_add(t, text);
    free(text);
}

static void add_row(struct table *t, const json_t *row)
{
    static const char *const states[] = {"waiting", "started", "done", "failed"};
    int waves = (int)json_array_size(json_object_get(row, "waves"));
    const json_t *last =
        waves > 0 ? json_array_get(json_object_get(row, "waves"), (size_t)waves - 1) : NULL;
    char *wave = xasprintf("%d/%d", (int)json_integer_value(json_object_get(row, "wave")),
                           (int)json_integer_value(json_object_get(last, "wave")));
    add_number(t, (int)id_of(row));
    table_add(t, text_of(row, "status"));
    table_add(t, is_open(row) ? wave : "");
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        add_number(t, count_of(row, states[i]));
    table_add(t, short_time(text_of(row, "at")));
    table_add(t, text_of(row, "cause"));
    free(wave);
}

/* What stands behind the row of one that is under way. */
static void print_details(const json_t *row)
{
    static const char *const states[] = {"waiting", "started"};
    size_t i;
    json_t *group;
    printf("\nrollout %lld: %s%s%s\n", (long long)id_of(row), text_of(row, "status"),
           text_of(row, "reason")[0] ? ": " : "", text_of(row, "reason"));
    for (i = 0; i < ARRAY_LEN(states); i++)
        if (count_of(row, states[i]) > 0)
            printf("  %s: %s\n", states[i], text_of(json_object_get(row, "nodes"), states[i]));
    if (text_of(row, "wave_at")[0])
        printf("  the next wave begins at %s\n", short_time(text_of(row, "wave_at")));
    json_array_foreach(json_object_get(row, "failed"), i, group)
    {
        printf("  failed: %s: %s\n", text_of(group, "nodes"), text_of(group, "because"));
    }
    if (strcmp(text_of(row, "status"), "stopped") == 0)
        printf("  mend what failed, then: clusterctl rollout resume %lld (or cancel %lld)\n",
               (long long)id_of(row), (long long)id_of(row));
}

static int show(struct ctl *c, const json_t *rows, json_int_t id)
{
    static const char *const headers[] = {"ID",   "STATUS", "WAVE",  "WAITING", "STARTED",
                                          "DONE", "FAILED", "BEGAN", "CAUSE",   NULL};
    struct table *t = c->json ? NULL : table_new(headers);
    json_t *kept = json_array(), *row;
    bool stopped = false;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        if (id > 0 && id_of(row) != id)
            continue;
        if (t != NULL)
            add_row(t, row);
        (void)json_array_append(kept, row);
        stopped = stopped || strcmp(text_of(row, "status"), "stopped") == 0;
    }
    bool none = id > 0 && json_array_size(kept) == 0;
    if (t == NULL) {
        json_t *out = json_pack("{s:O}", "rollouts", kept);
        (void)print_json(out);
        json_decref(out);
    } else {
        table_print(t, none ? stderr : stdout);
    }
    json_array_foreach(c->json ? NULL : kept, i, row)
    {
        if (is_open(row))
            print_details(row);
    }
    json_decref(kept);
    if (none)
        return complain(4, "rollout %lld is neither under way nor among the last that ended",
                        (long long)id);
    return stopped ? CTL_FAILED : CTL_DONE;
}

static int status(struct ctl *c, json_int_t id)
{
    int rc = CTL_DONE;
    json_t *answer = request(c, "GET", "/v1/rollouts", NULL, &rc);
    if (answer == NULL)
        return rc;
    rc = show(c, json_object_get(answer, "rollouts"), id);
    json_decref(answer);
    return rc;
}

int cmd_rollout(struct ctl *c)
{
    static const char *const verbs[] = {"status", "pause", "resume", "cancel"};
    const char *verb = c->argv[0];
    json_int_t id = 0;
    int rc = CTL_DONE;
    bool known = false;
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        known = known || strcmp(verb, verbs[i]) == 0;
    if (!known)
        return complain(CTL_INPUT, "'rollout %s' is unknown: use status, pause, resume or cancel",
                        verb);
    if (c->argc > 1) {
        char *end;
        id = strtoll(c->argv[1], &end, 10);
        if (*end != '\0' || id <= 0)
            return complain(CTL_INPUT, "'%s' is no number of a rollout", c->argv[1]);
    }
    if (strcmp(verb, "status") == 0)
        return status(c, id);
    json_t *body = json_pack("{s:s}", "verb", verb);
    if (id > 0)
        (void)json_object_set_new(body, "id", json_integer(id));
    json_t *answer = request(c, "POST", "/v1/rollout", body, &rc);
    if (answer == NULL)
        return rc;
    if (c->json)
        rc = print_json(answer);
    else
        printf("rollout %lld: %s\n", (long long)id_of(answer), text_of(answer, "text"));
    json_decref(answer);
    return rc;
}
