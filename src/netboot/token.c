#include "netboot/token.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

enum { FINAL_KEPT_MS = 60 * 60 * 1000 }; /* how long a final token answers 410 instead of 401 */

const struct name token_state_names[] = {
    {TOKEN_ARMED, "armed"},   {TOKEN_CLAIMED, "claimed"}, {TOKEN_WRITTEN, "written"},
    {TOKEN_PROVEN, "proven"}, {TOKEN_DEAD, "dead"},       {0, NULL},
};

const struct name token_purpose_names[] = {
    {TOKEN_DISCOVER, "discover"}, {TOKEN_INSTALL, "install"}, {0, NULL}};

const struct name token_event_names[] = {
    {TOKEN_EV_SERVE, "serve"},       {TOKEN_EV_CLAIM, "claim"},         {TOKEN_EV_FACTS, "facts"},
    {TOKEN_EV_PROGRESS, "progress"}, {TOKEN_EV_INSTALLED, "installed"}, {TOKEN_EV_PROOF, "proof"},
    {TOKEN_EV_DISPROOF, "disproof"}, {TOKEN_EV_FAILED, "failed"},       {TOKEN_EV_DISARM, "disarm"},
    {TOKEN_EV_EXPIRE, "expire"},     {TOKEN_EV_RESTART, "restart"},     {0, NULL},
};

/* What is not here is refused. */
const struct token_transition token_transitions[] = {
    {TOKEN_ARMED, TOKEN_EV_SERVE, TOKEN_ARMED},
    {TOKEN_ARMED, TOKEN_EV_CLAIM, TOKEN_CLAIMED},
    {TOKEN_ARMED, TOKEN_EV_FAILED, TOKEN_DEAD},
    {TOKEN_ARMED, TOKEN_EV_DISARM, TOKEN_DEAD},
    {TOKEN_ARMED, TOKEN_EV_EXPIRE, TOKEN_DEAD},
    {TOKEN_ARMED, TOKEN_EV_RESTART, TOKEN_DEAD}, /* its text is gone with the old process */

    {TOKEN_CLAIMED, TOKEN_EV_CLAIM, TOKEN_CLAIMED},
    {TOKEN_CLAIMED, TOKEN_EV_FACTS, TOKEN_CLAIMED},
    {TOKEN_CLAIMED, TOKEN_EV_PROGRESS, TOKEN_CLAIMED},
    {TOKEN_CLAIMED, TOKEN_EV_INSTALLED, TOKEN_WRITTEN},
    {TOKEN_CLAIMED, TOKEN_EV_FAILED, TOKEN_DEAD},
    {TOKEN_CLAIMED, TOKEN_EV_DISARM, TOKEN_DEAD},
    {TOKEN_CLAIMED, TOKEN_EV_EXPIRE, TOKEN_DEAD},
    {TOKEN_CLAIMED, TOKEN_EV_RESTART, TOKEN_CLAIMED},

    {TOKEN_WRITTEN, TOKEN_EV_CLAIM, TOKEN_WRITTEN},
    {TOKEN_WRITTEN, TOKEN_EV_PROGRESS, TOKEN_WRITTEN},
    {TOKEN_WRITTEN, TOKEN_EV_INSTALLED, TOKEN_WRITTEN},
    {TOKEN_WRITTEN, TOKEN_EV_PROOF, TOKEN_PROVEN},
    {TOKEN_WRITTEN, TOKEN_EV_DISPROOF, TOKEN_DEAD},
    {TOKEN_WRITTEN, TOKEN_EV_FAILED, TOKEN_DEAD},
    {TOKEN_WRITTEN, TOKEN_EV_DISARM, TOKEN_DEAD},
    {TOKEN_WRITTEN, TOKEN_EV_EXPIRE, TOKEN_DEAD},
    {TOKEN_WRITTEN, TOKEN_EV_RESTART, TOKEN_WRITTEN},

    {TOKEN_PROVEN, TOKEN_EV_PROOF, TOKEN_PROVEN}, /* the answer was lost */
};
const int token_transition_count = ARRAY_LEN(token_transitions);

struct tokens {
    struct map *by_hash;
    struct map *by_node; /* head of the list of a node's tokens */
    token_change_fn on_change;
    void (*free_order)(void *order);
    void *user;
};

struct tokens *tokens_new(token_change_fn on_change, void (*free_order)(void *order), void *user)
{
    struct tokens *ts = xcalloc(1, sizeof *ts);
    ts->by_hash = map_new();
    ts->by_node = map_new();
    ts->on_change = on_change;
    ts->free_order = free_order;
    ts->user = user;
    return ts;
}

static void drop_order(struct tokens *ts, struct token *t)
{
    if (t->order != NULL && ts->free_order != NULL)
        ts->free_order(t->order);
    t->order = NULL;
}

static void free_token(struct tokens *ts, struct token *t)
{
    drop_order(ts, t);
    mem_wipe_free(t, sizeof *t);
}

static void free_each(const char *key, void *value, void *user)
{
    (void)key;
    free_token(user, value);
}

void tokens_free(struct tokens *ts)
{
    if (ts == NULL)
        return;
    map_each(ts->by_hash, free_each, ts);
    map_free(ts->by_hash);
    map_free(ts->by_node);
    free(ts);
}

size_t tokens_count(const struct tokens *ts)
{
    return map_count(ts->by_hash);
}

/* ---- look-up ---- */

static struct token *node_head(struct tokens *ts, int64_t node)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%lld", (long long)node);
    return map_get(ts->by_node, key);
}

static void set_node_head(struct tokens *ts, int64_t node, struct token *head)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%lld", (long long)node);
    if (head == NULL)
        (void)map_remove(ts->by_node, key);
    else
        (void)map_set(ts->by_node, key, head);
}

static void insert(struct tokens *ts, struct token *t)
{
    (void)map_set(ts->by_hash, t->view.hash, t);
    t->next_of_node = node_head(ts, t->view.node);
    set_node_head(ts, t->view.node, t);
}

static void forget(struct tokens *ts, struct token *t)
{
    struct token *head = node_head(ts, t->view.node), *keep = NULL;
    for (struct token *p = head, *next; p != NULL; p = next) {
        next = p->next_of_node;
        if (p == t)
            continue;
        if (p->handed == t)
            p->handed = NULL;
        p->next_of_node = keep;
        keep = p;
    }
    set_node_head(ts, t->view.node, keep);
    (void)map_remove(ts->by_hash, t->view.hash);
    free_token(ts, t);
}

struct token *token_find(struct tokens *ts, const char *hash)
{
    return map_get(ts->by_hash, hash);
}

struct token *token_find_text(struct tokens *ts, const char *text)
{
    if (text == NULL || strlen(text) != TOKEN_TEXT_SIZE - 1 ||
        strspn(text, "0123456789abcdef") != TOKEN_TEXT_SIZE - 1)
        return NULL;
    char hash[DIGEST_HEX_SIZE];
    digest_hex(text, TOKEN_TEXT_SIZE - 1, hash);
    return token_find(ts, hash);
}

struct token *token_of_node(struct tokens *ts, int64_t node, enum token_purpose purpose,
                            enum token_state state)
{
    for (struct token *t = node_head(ts, node); t != NULL; t = t->next_of_node)
        if (t->view.purpose == purpose && t->view.state == state)
            return t;
    return NULL;
}

/* ---- judging ---- */

static const struct token_transition *transition(enum token_state state, enum token_event ev)
{
    for (int i = 0; i < token_transition_count; i++)
        if (token_transitions[i].state == state && token_transitions[i].event == ev)
            return &token_transitions[i];
    return NULL;
}

static bool is_final(const struct token *t)
{
    return t->view.state == TOKEN_PROVEN || t->view.state == TOKEN_DEAD;
}

static void __attribute__((format(printf, 3, 4)))
refuse(struct token_verdict *v, int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(v->why, sizeof v->why, fmt, ap);
    va_end(ap);
    v->allowed = false;
    v->changes = false;
    v->status = status;
}

/* Whether the request may come from the boot that claimed the token: by boot id where both are
 * known, else by address. */
static bool same_boot(const struct token *t, const struct token_claimer *who)
{
    if (t->view.ramdisk_boot_id[0] != '\0' && who->boot_id[0] != '\0')
        return strcmp(t->view.ramdisk_boot_id, who->boot_id) == 0;
    if (t->peer[0] != '\0' && who->peer[0] != '\0')
        return strcmp(t->peer, who->peer) == 0;
    return true;
}

static void judge_proof(const struct token *t, const struct token_claimer *who,
                        struct token_verdict *v)
{
    if (t->view.state == TOKEN_PROVEN) {
        if (who->boot_id[0] == '\0' || strcmp(who->boot_id, t->view.proof_boot_id) != 0) {
            refuse(v, 410, "the installation was proven by an earlier boot");
            v->replay = true;
        }
        return;
    }
    if (who->boot_id[0] == '\0')
        refuse(v, 409, "the proof has no boot id");
    else if (strcmp(who->boot_id, t->view.ramdisk_boot_id) == 0)
        refuse(v, 409, "the boot that wrote the disk cannot prove that the disk boots");
}

static bool from_ramdisk(enum token_event ev)
{
    return ev == TOKEN_EV_CLAIM || ev == TOKEN_EV_FACTS || ev == TOKEN_EV_PROGRESS ||
           ev == TOKEN_EV_INSTALLED || ev == TOKEN_EV_FAILED;
}

static bool from_node(enum token_event ev)
{
    return ev == TOKEN_EV_SERVE || ev == TOKEN_EV_PROOF || ev == TOKEN_EV_DISPROOF ||
           from_ramdisk(ev);
}

struct token_verdict token_judge(const struct token *t, enum token_event ev,
                                 const struct token_claimer *who, int64_t now)
{
    struct token_verdict v = {.status = 204};
    if (t == NULL) {
        refuse(&v, 401, "the token is not known");
        return v;
    }
    const struct token_transition *row = transition(t->view.state, ev);
    v.next = row != NULL ? row->next : t->view.state;
    if (!is_final(t) && from_node(ev) && now >= t->view.expires_at) {
        refuse(&v, 410, "the token has expired");
    } else if (row == NULL && is_final(t)) {
        refuse(&v, 410, "the token has ended: %.*s", TOKEN_WHY_SIZE - 40,
               t->view.state == TOKEN_PROVEN ? "the installation is proven" : t->view.why_dead);
    } else if (row == NULL) {
        refuse(&v, 409, "'%s' does not fit a token that is %s",
               name_of(token_event_names, (int)ev, "?"),
               name_of(token_state_names, (int)t->view.state, "?"));
    } else if (t->view.purpose != TOKEN_INSTALL &&
               (ev == TOKEN_EV_INSTALLED || ev == TOKEN_EV_PROOF || ev == TOKEN_EV_DISPROOF)) {
        refuse(&v, 409, "the token is for discovery, not for installing");
    } else if (ev == TOKEN_EV_SERVE && t->text[0] == '\0') {
        refuse(&v, 409, "the token cannot be handed out any more");
    } else if (from_ramdisk(ev) && t->view.state != TOKEN_ARMED && !same_boot(t, who)) {
        refuse(&v, 409, "another boot of this machine has claimed the token");
        v.replay = true;
    } else {
        v.allowed = true;
        v.changes = v.next != t->view.state;
        if (ev == TOKEN_EV_PROOF)
            judge_proof(t, who, &v);
    }
    return v;
}

/* ---- changing ---- */

static void changed(struct tokens *ts, struct token *t, int64_t now)
{
    t->view.changed_at = now;
    if (ts->on_change != NULL)
        ts->on_change(&t->view, ts->user);
}

void token_apply(struct tokens *ts, struct token *t, enum token_event ev,
                 const struct token_verdict *v, const struct token_claimer *who, const char *why,
                 int64_t now)
{
    struct token_view *view = &t->view;
    if (!v->allowed)
        return;
    bool same = !v->changes;
    view->state = v->next;
    if (from_ramdisk(ev) && who != NULL) {
        if (view->ramdisk_boot_id[0] == '\0' && who->boot_id[0] != '\0') {
            (void)snprintf(view->ramdisk_boot_id, sizeof view->ramdisk_boot_id, "%s", who->boot_id);
            same = false;
        }
        if (t->peer[0] == '\0')
            (void)snprintf(t->peer, sizeof t->peer, "%s", who->peer);
    }
    if (ev == TOKEN_EV_PROOF && v->changes)
        (void)snprintf(view->proof_boot_id, sizeof view->proof_boot_id, "%s", who->boot_id);
    if (view->state == TOKEN_DEAD && v->changes)
        (void)snprintf(view->why_dead, sizeof view->why_dead, "%s", why != NULL ? why : v->why);
    if (view->state != TOKEN_ARMED && view->state != TOKEN_CLAIMED)
        explicit_bzero(t->text, sizeof t->text);
    if (is_final(t))
        drop_order(ts, t);
    if (!same)
        changed(ts, t, now);
}

static void end(struct tokens *ts, struct token *t, enum token_event ev, const char *why,
                int64_t now)
{
    const struct token_claimer nobody = {"", ""};
    struct token_verdict v = token_judge(t, ev, &nobody, now);
    token_apply(ts, t, ev, &v, NULL, why, now);
}

void token_disarm(struct tokens *ts, const char *hash, const char *why, int64_t now)
{
    struct token *t = token_find(ts, hash);
    if (t != NULL)
        end(ts, t, TOKEN_EV_DISARM, why, now);
}

struct token *token_arm(struct tokens *ts, int64_t node, int64_t attempt,
                        enum token_purpose purpose, const char *image_sha256, int64_t now,
                        int64_t expires_at)
{
    for (struct token *old = node_head(ts, node); old != NULL; old = old->next_of_node) {
        bool unclaimed_discover =
            old->view.purpose == TOKEN_DISCOVER && old->view.state == TOKEN_ARMED;
        if (old->view.purpose == purpose || (purpose == TOKEN_INSTALL && unclaimed_discover))
            end(ts, old, TOKEN_EV_DISARM, "replaced by a newer token", now);
    }
    struct token *t = xcalloc(1, sizeof *t);
    random_hex((TOKEN_TEXT_SIZE - 1) / 2, t->text);
    digest_hex(t->text, TOKEN_TEXT_SIZE - 1, t->view.hash);
    t->view.node = node;
    t->view.attempt = attempt;
    t->view.purpose = purpose;
    t->view.state = TOKEN_ARMED;
    t->view.armed_at = now;
    t->view.expires_at = expires_at;
    (void)snprintf(t->view.image_sha256, sizeof t->view.image_sha256, "%s",
                   image_sha256 != NULL ? image_sha256 : "");
    insert(ts, t);
    changed(ts, t, now);
    return t;
}

struct token *token_restore(struct tokens *ts, const struct token_view *row, int64_t now)
{
    struct token *t = xcalloc(1, sizeof *t);
    t->view = *row;
    t->lost_order = true;
    insert(ts, t);
    end(ts, t, TOKEN_EV_RESTART, "the daemon restarted before a machine claimed it", now);
    if (t->view.state == TOKEN_DEAD)
        return NULL;
    return t;
}

/* ---- time ---- */

struct due {
    struct token **items;
    int count, capacity;
    int64_t now;
    bool forget;
};

static void collect(const char *key, void *value, void *user)
{
    struct token *t = value;
    struct due *d = user;
    (void)key;
    bool due = d->forget ? is_final(t) && d->now - t->view.changed_at >= FINAL_KEPT_MS
                         : !is_final(t) && d->now >= t->view.expires_at;
    if (!due)
        return;
    ARRAY_GROW(d->items, d->count, d->capacity);
    d->items[d->count++] = t;
}

void token_expire(struct tokens *ts, int64_t now)
{
    struct due d = {.now = now};
    map_each(ts->by_hash, collect, &d);
    for (int i = 0; i < d.count; i++)
        end(ts, d.items[i], TOKEN_EV_EXPIRE, "expired", now);
    d.count = 0;
    d.forget = true;
    map_each(ts->by_hash, collect, &d);
    for (int i = 0; i < d.count; i++)
        forget(ts, d.items[i]);
    free(d.items);
}
