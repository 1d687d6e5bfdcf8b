/*
 * Logins and sessions of the Redfish head (DSP0266, 13.3 "Authentication"), the lock-out and the
 * wrong password among the faults. IPMI's logins are counted by its own head: the two services of
 * one BMC lock separately here.
 */
#include <microhttpd.h>
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "sim/redfish_int.h"

bool rf_locked(const struct rf_call *c)
{
    return sim_has(c->node, FAULT_BMC_LOCKS) && loop_now(c->sim->loop) < c->bmc->locked_until;
}

static void note_bad_login(struct rf_call *c)
{
    struct rf_bmc *b = c->bmc;
    int64_t now = loop_now(c->sim->loop), span = sim_ms(c->sim, RF_LOCK_MS);
    memmove(&b->bad[1], &b->bad[0], sizeof b->bad - sizeof b->bad[0]);
    b->bad[0] = now;
    if (b->bad[RF_BAD_LOGINS - 1] == 0 || now - b->bad[RF_BAD_LOGINS - 1] > span)
        return;
    b->locked_until = now + span;
    memset(b->bad, 0, sizeof b->bad);
}

/* Counts the attempt; while the account is locked the right password does not help. */
static bool login(struct rf_call *c, const char *user, const char *password)
{
    const struct sim_node *n = c->node;
    if (!rf_locked(c) && !sim_has(n, FAULT_BAD_PASSWORD) && strcmp(user, n->bmc_user) == 0 &&
        strcmp(password, n->bmc_password) == 0) {
        c->node->count.bmc_logins++;
        memset(c->bmc->bad, 0, sizeof c->bmc->bad);
        return true;
    }
    c->node->count.bmc_bad_logins++;
    if (!rf_locked(c) && strcmp(user, n->bmc_user) == 0) /* an unknown user locks nobody out */
        note_bad_login(c);
    rf_refuse(c, MHD_HTTP_UNAUTHORIZED, RF_UNAUTHORIZED, c->path, "wrong user name or password",
              NULL);
    return false;
}

static void end_session(struct rf_session *s)
{
    memset(s, 0, sizeof *s);
}

/* Forgets the sessions that nobody used for too long. */
static void expire(struct rf_call *c)
{
    int64_t now = loop_now(c->sim->loop);
    for (int i = 0; i < RF_SESSIONS_MAX; i++) {
        struct rf_session *s = &c->bmc->sessions[i];
        if (s->id[0] != '\0' && now - s->used > RF_SESSION_S * INT64_C(1000))
            end_session(s);
    }
}

bool rf_authenticate(struct rf_call *c)
{
    expire(c);
    if (c->token != NULL) {
        for (int i = 0; i < RF_SESSIONS_MAX; i++) {
            struct rf_session *s = &c->bmc->sessions[i];
            if (s->id[0] != '\0' && strcmp(s->token, c->token) == 0) {
                s->used = loop_now(c->sim->loop);
                return true;
            }
        }
        rf_refuse(c, MHD_HTTP_UNAUTHORIZED, RF_NO_VALID_SESSION, NULL, NULL, NULL);
        return false;
    }
    if (c->user != NULL && c->password != NULL)
        return login(c, c->user, c->password);
    rf_refuse(c, MHD_HTTP_UNAUTHORIZED, RF_UNAUTHORIZED, c->path, "no credentials were sent", NULL);
    return false;
}

static struct rf_session *by_id(struct rf_call *c, const char *id)
{
    for (int i = 0; i < RF_SESSIONS_MAX; i++)
        if (c->bmc->sessions[i].id[0] != '\0' && strcmp(c->bmc->sessions[i].id, id) == 0)
            return &c->bmc->sessions[i];
    return NULL;
}

static json_t *session_json(const struct rf_call *c, const struct rf_session *s)
{
    char when[CLOCK_TEXT_SIZE], path[96];
    (void)clock_format(s->created_wall, when);
    when[10] = 'T'; /* ISO 8601, as DSP0266 9.6 has it: date, T, time, offset */
    when[19] = '\0';
    (void)snprintf(path, sizeof path, RF_ROOT "/SessionService/Sessions/%s", s->id);
    json_t *created = json_sprintf("%s+00:00", when);
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:o}", "@odata.id", path, "@odata.type",
                     "#Session.v1_5_0.Session", "Id", s->id, "Name", "User session", "UserName",
                     c->node->bmc_user, "SessionType", "Redfish", "ClientOriginIPAddress",
                     s->origin, "CreatedTime", created);
}

json_t *rf_get_sessions(struct rf_call *c)
{
    const char *ids[RF_SESSIONS_MAX];
    int count = 0;
    for (int i = 0; i < RF_SESSIONS_MAX; i++)
        if (c->bmc->sessions[i].id[0] != '\0')
            ids[count++] = c->bmc->sessions[i].id;
    return rf_collection(c, "SessionCollection", "Sessions", ids, count);
}

json_t *rf_get_session(struct rf_call *c)
{
    const struct rf_session *s = by_id(c, c->member);
    return s != NULL ? session_json(c, s) : NULL;
}

static const char *text_of(struct rf_call *c, const json_t *body, const char *property)
{
    const json_t *v = json_object_get(body, property);
    if (json_is_string(v))
        return json_string_value(v);
    if (v == NULL)
        rf_refuse(c, MHD_HTTP_BAD_REQUEST, RF_PROPERTY_MISSING, property, NULL, NULL);
    else
        rf_refuse(c, MHD_HTTP_BAD_REQUEST, RF_PROPERTY_VALUE_TYPE, "(hidden)", property, NULL);
    return NULL;
}

static struct rf_session *new_session(struct rf_call *c)
{
    struct rf_session *s = NULL;
    for (int i = 0; i < RF_SESSIONS_MAX && s == NULL; i++)
        if (c->bmc->sessions[i].id[0] == '\0')
            s = &c->bmc->sessions[i];
    if (s == NULL) {
        rf_refuse(c, MHD_HTTP_SERVICE_UNAVAILABLE, RF_SESSION_LIMIT, NULL, NULL, NULL);
        return NULL;
    }
    random_hex((sizeof s->id - 1) / 2, s->id);
    random_hex((sizeof s->token - 1) / 2, s->token);
    (void)snprintf(s->origin, sizeof s->origin, "%s", c->origin);
    s->created_wall = loop_wall(c->sim->loop);
    s->used = loop_now(c->sim->loop);
    return s;
}

void rf_post_session(struct rf_call *c)
{
    json_t *body = rf_body(c);
    if (body == NULL)
        return;
    expire(c);
    const char *user = text_of(c, body, "UserName");
    const char *password = user != NULL ? text_of(c, body, "Password") : NULL;
    struct rf_session *s = NULL;
    if (password != NULL && login(c, user, password))
        s = new_session(c);
    json_decref(body);
    if (s == NULL)
        return;
    c->status = MHD_HTTP_CREATED;
    c->answer = session_json(c, s);
    (void)snprintf(c->location, sizeof c->location, RF_ROOT "/SessionService/Sessions/%s", s->id);
    memcpy(c->new_token, s->token, sizeof c->new_token);
}

void rf_delete_session(struct rf_call *c)
{
    struct rf_session *s = by_id(c, c->member);
    if (s == NULL) {
        rf_refuse(c, MHD_HTTP_NOT_FOUND, RF_RESOURCE_MISSING, c->path, NULL, NULL);
        return;
    }
    end_session(s);
    c->status = MHD_HTTP_NO_CONTENT;
}
