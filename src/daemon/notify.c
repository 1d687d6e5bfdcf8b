#include "daemon/notify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/notify_message.h"
#include "fetch/fetch.h"
#include "store/audit.h"

enum {
    LOOK_MS = 250, /* how often the store is asked whether events came */
    BATCH = 200,   /* events that one turn of the loop reads for a hook */
    SAVE_EVERY = 1000,
    TIMEOUT_MS = 30000,
    ANSWER_MAX = 64 * 1024,
    REQUESTS = 64,
    HTTP_GONE = 410,
};

struct message {
    int64_t id;
    char *kind, *body;
};

struct hook {
    struct notify *n;
    const struct config_hook *c;
    char *secret;                  /* NULL: none, or not read yet */
    struct store_notify_cursor at; /* `hook` is c->name */
    int64_t saved;                 /* at.event_id as it was written last */
    int64_t read;                  /* events up to here were read: those wanted are in the queue */
    int64_t skip_until;            /* events up to here are counted, not sent */
    struct message queue[BATCH];
    int head, count;
    struct fetch_op *op; /* the request in flight */
    bool op_skipped;     /* it tells of skipped events */
    struct timer timer;  /* the next try, or the next turn */
    int64_t next_try;    /* wall, 0: not waiting after a failure */
    int failures;        /* in a row */
    bool gone;           /* the receiver said 410 */
    char error[300];
};

struct notify {
    struct notify_config c;
    struct fetch_hub *hub;
    struct hook *hooks;
    struct timer look;
    int64_t newest; /* the last event on disk, as seen by the last look */
    bool started;
};

static const char agent[] = "User-Agent: clusterd/" CLUSTERD_VERSION;

static void advance(void *user);

/* ---- cursors ---- */

static int64_t newest_on_disk(const struct notify *n)
{
    struct audit_end end;
    store_audit_end(n->c.store, &end);
    return end.id;
}

static void save(struct hook *h)
{
    h->saved = h->at.event_id;
    store_put_notify_cursor(h->n->c.store, &h->at);
}

static void drop_queue(struct hook *h)
{
    for (; h->head < h->count; h->head++) {
        free(h->queue[h->head].kind);
        free(h->queue[h->head].body);
    }
    h->head = h->count = 0;
}

/* Goes on in the next turn of the loop, so that others get theirs. */
static void again(struct hook *h)
{
    timer_set(h->n->c.loop, &h->timer, 0, advance, h);
}

/* ---- reading events ---- */

struct batch {
    struct hook *h;
    const char *cluster;
    int rows;
};

static void take_event(const struct store_event *e, void *user)
{
    struct batch *b = user;
    struct hook *h = b->h;
    b->rows++;
    if (e->id > h->n->newest || e->kind == NULL)
        return;
    h->read = e->id;
    if (!notify_wants(h->c->events, h->c->event_count, e->kind))
        return;
    if (e->id <= h->skip_until)
        h->at.skipped++;
    else
        h->queue[h->count++] =
            (struct message){e->id, xstrdup(e->kind), notify_body(b->cluster, e)};
}

/* The next events, into the empty queue. */
static int read_more(struct hook *h, struct err *err)
{
    struct notify *n = h->n;
    struct batch b = {.h = h, .cluster = n->c.cluster(n->c.user)};
    drop_queue(h);
    if (store_each_event(n->c.store, h->read, 0, BATCH, take_event, &b, err) < 0)
        return -(int)err->code;
    if (b.rows < BATCH)
        h->read = n->newest;
    if (h->count > 0) {
        if (h->at.event_id < h->skip_until)
            h->at.event_id = h->skip_until;
    } else {
        h->at.event_id = h->read;
        if (h->at.event_id - h->saved >= SAVE_EVERY)
            save(h);
    }
    return 0;
}

/* ---- sending ---- */

static void failed(struct hook *h, const char *text)
{
    struct notify *n = h->n;
    uint32_t random;
    char hex[2 * sizeof random + 1], pause_text[CLOCK_TEXT_SIZE];
    random_hex(sizeof random, hex);
    random = (uint32_t)strtoul(hex, NULL, 16);
    int64_t pause = notify_pause(++h->failures, random);
    (void)snprintf(h->error, sizeof h->error, "%s", text);
    h->next_try = loop_wall(n->c.loop) + pause;
    log_warn("notify.failed", "hook %s: %s; tried again in %s", h->c->name, text,
             clock_format_duration(pause, pause_text));
    timer_set(n->c.loop, &h->timer, pause, advance, h);
}

static void delivered(struct hook *h)
{
    if (h->op_skipped) {
        h->at.skipped = 0;
    } else {
        struct message *m = &h->queue[h->head++];
        h->at.delivered_id = m->id;
        h->at.delivered_at = loop_wall(h->n->c.loop);
        h->at.event_id = h->head < h->count ? m->id : h->read;
        free(m->kind);
        free(m->body);
    }
    if (h->failures > 0)
        log_info("notify.delivered", "hook %s: delivers again", h->c->name);
    h->failures = 0;
    h->error[0] = '\0';
    save(h);
}

static void on_answer(struct op *op, void *user)
{
    struct hook *h = user;
    int status = h->op->status;
    struct err err = op->err;
    char text[60];
    op_free(op);
    h->op = NULL;
    /* 2xx counts also when the rest of the answer was too long to be read */
    if (status >= 200 && status < 300 && (err.code == ERR_OK || err.code == ERR_LIMIT)) {
        delivered(h);
        advance(h);
    } else if (status == HTTP_GONE) {
        h->gone = true;
        (void)snprintf(h->error, sizeof h->error,
                       "the receiver answered 410 Gone: nothing is sent until clusterd is started "
                       "again");
        log_warn("notify.gone", "hook %s: %s", h->c->name, h->error);
    } else if (err.code != ERR_OK) {
        failed(h, err.text);
    } else {
        (void)snprintf(text, sizeof text, "the receiver answered %d", status);
        failed(h, text);
    }
}

static int load_secret(struct hook *h, struct err *err)
{
    struct notify *n = h->n;
    if (h->secret != NULL || h->c->secret.kind == SECRET_NONE)
        return 0;
    if (n->c.secret(&h->c->secret, &h->secret, err, n->c.user) < 0)
        return -(int)err->code;
    if (h->secret[0] != '\0')
        return 0;
    free(h->secret);
    h->secret = NULL;
    return err_set(err, ERR_INVALID, "the secret %s is empty", h->c->secret.name);
}

static void drop_secret(struct hook *h)
{
    if (h->secret != NULL)
        mem_wipe_free(h->secret, strlen(h->secret));
    h->secret = NULL;
}

/* Posts the body; never without its signature when the hook has a secret. */
static void post(struct hook *h, const char *prefix, int64_t id, const char *kind, const char *body)
{
    struct notify *n = h->n;
    struct err err = {0};
    char signature[DIGEST_HEX_SIZE];
    if (load_secret(h, &err) < 0) {
        failed(h, err.text);
        return;
    }
    int64_t now = loop_wall(n->c.loop) / 1000;
    char *event cleanup_free = xasprintf("X-Clusterd-Event: %s", kind);
    char *delivery cleanup_free =
        xasprintf("X-Clusterd-Delivery: %s%" PRId64 "-%s", prefix, id, h->c->name);
    char *timestamp cleanup_free = xasprintf("X-Clusterd-Timestamp: %" PRId64, now);
    char *signature_header cleanup_free = NULL;
    if (h->secret != NULL) {
        notify_sign(h->secret, now, body, signature);
        signature_header = xasprintf("X-Clusterd-Signature: sha256=%s", signature);
    }
    const char *headers[] = {"Content-Type: application/json",
                             agent,
                             event,
                             delivery,
                             timestamp,
                             signature_header,
                             NULL};
    struct fetch_request r = {.url = h->c->url,
                              .method = "POST",
                              .body = body,
                              .body_len = strlen(body),
                              .headers = headers,
                              .ca_file = h->c->ca,
                              .max_body = ANSWER_MAX,
                              .keep = true};
    h->op = fetch_start(n->hub, &r, TIMEOUT_MS, on_answer, h);
}

/* ---- what a hook does next ---- */

static void begin_skip(struct hook *h)
{
    h->at.skipped += h->count - h->head;
    drop_queue(h);
    h->at.event_id = h->read;
    h->skip_until = h->n->newest;
    log_warn("notify.skip", "hook %s: more than %d events behind; it skips those up to %" PRId64,
             h->c->name, NOTIFY_MAX_BEHIND, h->skip_until);
    again(h);
}

static void send_skipped(struct hook *h)
{
    struct notify *n = h->n;
    char *body cleanup_free = notify_skipped_body(n->c.cluster(n->c.user), h->at.event_id,
                                                  h->at.skipped, loop_wall(n->c.loop));
    h->op_skipped = true;
    post(h, "skipped-", h->at.event_id, NOTIFY_SKIPPED, body);
}

static void advance(void *user)
{
    struct hook *h = user;
    struct notify *n = h->n;
    struct err err = {0};
    if (h->gone || h->op != NULL || timer_armed(&h->timer))
        return;
    h->next_try = 0;
    bool skipping = h->read < h->skip_until;
    bool nothing_read = h->head == h->count && h->at.skipped == 0 && h->read < n->newest;
    if ((skipping || nothing_read) && read_more(h, &err) < 0) {
        failed(h, err.text);
        return;
    }
    if (skipping && h->read >= h->skip_until)
        save(h);
    bool told = h->at.skipped == 0;
    int64_t first = !told                ? h->at.event_id + 1
                    : h->head < h->count ? h->queue[h->head].id
                                         : n->newest;
    if (h->read < h->skip_until || (told && h->head == h->count && h->read < n->newest))
        again(h);
    else if (n->newest - first > NOTIFY_MAX_BEHIND)
        begin_skip(h);
    else if (!told)
        send_skipped(h);
    else if (h->head < h->count) {
        h->op_skipped = false;
        post(h, "", h->queue[h->head].id, h->queue[h->head].kind, h->queue[h->head].body);
    }
}

static void look(void *user)
{
    struct notify *n = user;
    int64_t newest = newest_on_disk(n);
    bool more = newest != n->newest;
    n->newest = newest;
    for (int i = 0; more && i < n->c.hook_count; i++)
        advance(&n->hooks[i]);
    timer_set(n->c.loop, &n->look, LOOK_MS, look, n);
}

/* ---- life ---- */

static void restore_cursor(const struct store_notify_cursor *row, void *user)
{
    struct notify *n = user;
    for (int i = 0; i < n->c.hook_count; i++) {
        struct hook *h = &n->hooks[i];
        if (strcmp(h->c->name, row->hook) != 0)
            continue;
        h->at = *row;
        h->at.hook = h->c->name;
        if (h->at.event_id > n->newest)
            h->at.event_id = n->newest;
        h->saved = h->read = h->at.event_id;
        return;
    }
    /* a hook that left the settings begins anew when it comes back */
    store_drop_notify_cursor(n->c.store, row->hook);
}

struct notify *notify_new(const struct notify_config *config, struct err *err)
{
    struct notify *n = xcalloc(1, sizeof *n);
    n->c = *config;
    n->hooks = xcalloc((size_t)n->c.hook_count + 1, sizeof *n->hooks);
    n->newest = newest_on_disk(n);
    for (int i = 0; i < n->c.hook_count; i++)
        n->hooks[i] = (struct hook){.n = n, .c = &n->c.hooks[i]};
    n->hub = fetch_hub_new(n->c.loop, REQUESTS, err);
    if (n->hub == NULL || store_each_notify_cursor(n->c.store, restore_cursor, n, err) < 0) {
        notify_free(n);
        return NULL;
    }
    for (int i = 0; i < n->c.hook_count; i++) {
        struct hook *h = &n->hooks[i];
        if (h->at.hook != NULL)
            continue;
        h->at = (struct store_notify_cursor){.hook = h->c->name, .event_id = n->newest};
        h->read = n->newest;
        save(h);
    }
    return n;
}

void notify_start(struct notify *n)
{
    n->started = true;
    n->newest = newest_on_disk(n);
    for (int i = 0; i < n->c.hook_count; i++)
        advance(&n->hooks[i]);
    look(n);
}

void notify_refresh(struct notify *n)
{
    for (int i = 0; i < n->c.hook_count; i++) {
        struct hook *h = &n->hooks[i];
        drop_secret(h);
        timer_cancel(&h->timer);
        if (n->started)
            advance(h);
    }
}

static json_t *time_or_null(int64_t at)
{
    char text[CLOCK_TEXT_SIZE];
    return at != 0 ? json_string(clock_format(at, text)) : json_null();
}

json_t *notify_status(const struct notify *n)
{
    json_t *rows = json_array();
    int64_t newest = newest_on_disk(n);
    for (int i = 0; i < n->c.hook_count; i++) {
        const struct hook *h = &n->hooks[i];
        json_t *last = h->at.delivered_id > 0 ? json_integer(h->at.delivered_id) : json_null();
        json_t *error = h->error[0] != '\0' ? json_string(h->error) : json_null();
        (void)json_array_append_new(
            rows, json_pack("{s:s,s:o,s:o,s:I,s:o,s:o}", "name", h->c->name, "last_delivered", last,
                            "last_delivered_at", time_or_null(h->at.delivered_at), "behind",
                            (json_int_t)(newest - h->at.event_id), "last_error", error,
                            "next_try_at", time_or_null(h->next_try)));
    }
    return rows;
}

void notify_free(struct notify *n)
{
    if (n == NULL)
        return;
    timer_cancel(&n->look);
    for (int i = 0; i < n->c.hook_count; i++) {
        struct hook *h = &n->hooks[i];
        if (h->op != NULL)
            op_cancel(&h->op->op);
        timer_cancel(&h->timer);
        drop_queue(h);
        drop_secret(h);
        if (h->at.hook != NULL && h->at.event_id != h->saved)
            save(h);
    }
    fetch_hub_free(n->hub);
    free(n->hooks);
    free(n);
}
