#include "daemon/notify_message.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { PAUSE_FIRST_MS = 1000, PAUSE_MAX_MS = 10 * 60000 };

/* Goes back to the last star only, so it takes at most glob * text steps. */
static bool glob_matches(const char *glob, const char *text)
{
    const char *star = NULL, *rest = NULL;
    while (*text != '\0') {
        if (*glob == '*') {
            star = glob++;
            rest = text;
        } else if (*glob == '?' || *glob == *text) {
            glob++;
            text++;
        } else if (star != NULL) {
            glob = star + 1;
            text = ++rest;
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0';
}

bool notify_wants(char *const *globs, int count, const char *kind)
{
    for (int i = 0; i < count; i++)
        if (glob_matches(globs[i], kind))
            return true;
    return false;
}

/* Null for NULL and "", as in the API. Text that is no UTF-8 (a tool's output) is said to be so. */
static json_t *text_json(const char *text)
{
    if (text == NULL || text[0] == '\0')
        return json_null();
    json_t *json = json_string(text);
    return json != NULL ? json : json_string("(text that is not UTF-8)");
}

static json_t *time_json(int64_t at)
{
    char text[CLOCK_TEXT_SIZE];
    return at != 0 ? json_string(clock_format(at, text)) : json_null();
}

static json_t *event_json(const char *cluster, const struct store_event *e)
{
    return json_pack("{s:o,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "cluster", text_json(cluster), "id",
                     (json_int_t)e->id, "at", time_json(e->at), "node", text_json(e->node), "kind",
                     text_json(e->kind), "stage", text_json(e->stage), "attempt",
                     e->attempt_id > 0 ? json_integer(e->attempt_id) : json_null(), "text",
                     text_json(e->text), "actor", text_json(e->actor));
}

static char *dump(json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}

char *notify_body(const char *cluster, const struct store_event *e)
{
    return dump(event_json(cluster, e));
}

char *notify_skipped_body(const char *cluster, int64_t id, int64_t count, int64_t at)
{
    char text[160];
    (void)snprintf(text, sizeof text,
                   "%" PRId64 " events were skipped, since this hook was too far behind; "
                   "the API has them",
                   count);
    struct store_event e = {
        .id = id, .at = at, .kind = NOTIFY_SKIPPED, .text = text, .actor = "notify"};
    json_t *json = event_json(cluster, &e);
    (void)json_object_set_new(json, "skipped", json_integer(count));
    return dump(json);
}

void notify_sign(const char *secret, int64_t timestamp, const char *body, char hex[DIGEST_HEX_SIZE])
{
    char *signed_text cleanup_free = xasprintf("%" PRId64 ".%s", timestamp, body);
    digest_hmac_hex(secret, strlen(secret), signed_text, strlen(signed_text), hex);
}

int64_t notify_pause(int failures, uint32_t random)
{
    int64_t pause = PAUSE_FIRST_MS;
    while (--failures > 0 && pause < PAUSE_MAX_MS)
        pause *= 2;
    if (pause > PAUSE_MAX_MS)
        pause = PAUSE_MAX_MS;
    return pause - (int64_t)(random % (uint32_t)(pause / 2 + 1));
}
