/* What a ramdisk, and the system that it installed, asks and reports. Every request carries its
 * token in a header; token.c judges, this file reads bodies, checks them and tells the hooks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "netboot/netboot_int.h"

enum { JOB_MAX = 8 << 10, PROGRESS_GAP_MS = 900, POLL_SECONDS = 2 /* of who has work */ };

struct call {
    struct netboot *nb;
    const struct boot_request *req;
    struct boot_answer *a;
    struct token *t;
    struct token_claimer who;
    char boot_id[BOOT_ID_SIZE];
    struct report report;
    int64_t now;
};

static int64_t node_of(const struct call *c)
{
    return c->t->view.node;
}

/* ---- judging ---- */

static void refused(struct call *c, const struct token_verdict *v)
{
    answer_text(c->a, v->status, "%s", v->why);
    if (c->t != NULL)
        nb_event(c->nb, v->replay ? "token.replay" : "boot.refused", node_of(c), "%s from %s: %s",
                 c->req->path, c->who.peer, v->why);
}

/* Judges and, when allowed, applies. `why`: kept if the token dies by it. */
static bool pass(struct call *c, enum token_event ev, const char *why, struct token_verdict *ret)
{
    *ret = token_judge(c->t, ev, &c->who, c->now);
    if (!ret->allowed) {
        refused(c, ret);
        return false;
    }
    token_apply(c->nb->tokens, c->t, ev, ret, &c->who, why, c->now);
    c->t->seen_at = loop_now(c->nb->loop);
    return true;
}

/* The machine's own word stands against the order: the token dies, the attempt has failed. */
static void contradiction(struct call *c, enum token_event ev, int status, const char *why)
{
    struct token_verdict v = token_judge(c->t, ev, &c->who, c->now);
    int64_t node = node_of(c), attempt = c->t->view.attempt;
    if (v.allowed)
        token_apply(c->nb->tokens, c->t, ev, &v, &c->who, why, c->now);
    answer_text(c->a, status, "%s", why);
    c->nb->dirty = true;
    if (c->nb->hooks.failed != NULL)
        c->nb->hooks.failed(node, attempt, why, c->nb->user);
}

/* ---- the job ---- */

static void add(struct strbuf *out, const char *key, const char *value)
{
    strbuf_addf(out, "%s='", key);
    for (; *value != '\0'; value++) {
        if (*value == '\'')
            strbuf_adds(out, "'\\''");
        else if ((unsigned char)*value >= ' ')
            strbuf_addc(out, *value);
    }
    strbuf_adds(out, "'\n");
}

static void add_number(struct strbuf *out, const char *key, int64_t value)
{
    strbuf_addf(out, "%s='%lld'\n", key, (long long)value);
}

static void begin(struct strbuf *out, const char *job, const char *token, int seconds)
{
    strbuf_init(out, JOB_MAX);
    add(out, "JOB", job);
    add(out, "TOKEN", token);
    add_number(out, "SECONDS_TO_WAIT", seconds);
}

static void answer_job(struct call *c, struct strbuf *out)
{
    if (strbuf_ok(out))
        answer_take(c->a, 200, out);
    else
        answer_text(c->a, 500, "the job is too long");
    c->a->content_type = "text/plain";
    strbuf_done(out);
}

static void simple_job(struct call *c, const char *job, const char *token, int seconds)
{
    struct strbuf out;
    begin(&out, job, token, seconds);
    answer_job(c, &out);
}

static void wait_job(struct call *c, const char *text)
{
    c->t->pause_s = pace_next(&c->nb->pace, loop_now(c->nb->loop));
    simple_job(c, "wait", text, (int)c->t->pause_s);
}

static void install_job(struct call *c, const char *text)
{
    const struct order *o = c->t->order;
    const struct host *h = hosts_of_node(c->nb->hosts, node_of(c));
    const struct artefact *image = NULL;
    if (o == NULL || h == NULL) { /* after a restart, until netboot_resume */
        wait_job(c, text);
        return;
    }
    if (artefacts_find(c->nb->artefacts, o->image, &image, NULL) < 0 ||
        strcmp(image->sha256, c->t->view.image_sha256) != 0) {
        char why[TOKEN_WHY_SIZE];
        (void)snprintf(why, sizeof why, "image %.60s changed after the install was ordered",
                       o->image);
        contradiction(c, TOKEN_EV_FAILED, 410, why);
        return;
    }
    struct strbuf out;
    begin(&out, "install", text, POLL_SECONDS);
    add_number(&out, "ATTEMPT", c->t->view.attempt);
    add(&out, "HOSTNAME", h->name);
    add(&out, "ADDRESS", h->address);
    strbuf_addf(&out, "IMAGE_URL='%s/artefact/%s/%s'\n", c->nb->url, image->sha256, image->name);
    add(&out, "IMAGE_SHA256", image->sha256);
    add(&out, "IMAGE_FORMAT", o->format);
    add(&out, "DISK", o->disk);
    add_number(&out, "MIN_DISK_GB", o->min_disk_gb);
    add(&out, "SSH_KEY", o->ssh_key != NULL ? o->ssh_key : "");
    add(&out, "REPORT_URL", c->nb->url);
    answer_job(c, &out);
}

/* Claims c->t; true when it may be told its job. */
static bool claim(struct call *c)
{
    struct token_verdict v = token_judge(c->t, TOKEN_EV_CLAIM, &c->who, c->now);
    if (v.allowed && v.changes && !nb_peer_fits(c->nb, node_of(c), c->who.peer)) {
        v.allowed = false;
        v.status = 409;
        v.replay = true;
        (void)snprintf(v.why, sizeof v.why, "the token belongs to another address than %s",
                       c->who.peer);
        refused(c, &v);
        return false;
    }
    if (!pass(c, TOKEN_EV_CLAIM, NULL, &v))
        return false;
    if (v.changes && c->nb->hooks.claimed != NULL)
        c->nb->hooks.claimed(node_of(c), c->t->view.attempt,
                             name_of(token_purpose_names, (int)c->t->view.purpose, "?"),
                             c->nb->user);
    return true;
}

static void give_install(struct call *c, const char *text)
{
    if (!claim(c))
        return;
    if (c->t->view.state == TOKEN_WRITTEN) /* the answer to its report was lost */
        simple_job(c, "reboot", text, POLL_SECONDS);
    else
        install_job(c, text);
}

static void discover_job(struct call *c, const char *text)
{
    struct token *t = c->t;
    char key[24];
    /* Only the text is handed over, as often as it takes: the ramdisk claims with it itself.
     * Claiming for it here would leave it without its token when this answer is lost in a crash. */
    if (t->handed == NULL && t->facts)
        t->handed = token_of_node(c->nb->tokens, node_of(c), TOKEN_INSTALL, TOKEN_ARMED);
    if (t->handed != NULL && t->handed->view.state == TOKEN_ARMED && t->handed->text[0] != '\0') {
        simple_job(c, "wait", t->handed->text, 0);
        return;
    }
    const char *order = map_get(c->nb->jobs, nb_key(node_of(c), key));
    if (order != NULL)
        simple_job(c, order, text, POLL_SECONDS);
    else if (t->facts)
        wait_job(c, text);
    else
        simple_job(c, "discover", text, POLL_SECONDS);
}

static void get_job(struct call *c)
{
    const char *text = c->req->header("X-Clusterd-Token", c->req->ctx);
    if (c->t->view.purpose == TOKEN_INSTALL)
        give_install(c, text);
    else if (claim(c))
        discover_job(c, text);
}

/* ---- reports of the ramdisk ---- */

static void post_facts(struct call *c)
{
    struct token_verdict v;
    json_error_t jerr;
    json_t *facts = json_loadb(c->req->body != NULL ? c->req->body : "", c->req->body_len,
                               JSON_REJECT_DUPLICATES, &jerr);
    bool ok = json_is_object(facts);
    json_decref(facts);
    if (!ok) {
        answer_text(c->a, 400, "the facts are not a JSON object (line %d)", jerr.line);
        return;
    }
    if (!pass(c, TOKEN_EV_FACTS, NULL, &v))
        return;
    c->t->facts = true;
    c->nb->dirty = true;
    if (c->nb->hooks.facts != NULL)
        c->nb->hooks.facts(node_of(c), c->t->view.attempt, c->req->body, c->nb->user);
    c->a->status = 204;
}

static void post_progress(struct call *c)
{
    struct token_verdict v;
    int64_t now = loop_now(c->nb->loop);
    if (!pass(c, TOKEN_EV_PROGRESS, NULL, &v))
        return;
    c->a->status = 204;
    if (c->t->progress_at != 0 && now - c->t->progress_at < PROGRESS_GAP_MS)
        return;
    c->t->progress_at = now;
    if (c->nb->hooks.progress != NULL)
        c->nb->hooks.progress(node_of(c), c->t->view.attempt,
                              c->report.percent >= 0 ? c->report.percent : 0, c->report.text,
                              c->nb->user);
}

static void post_installed(struct call *c)
{
    const struct report *r = &c->report;
    struct token *t = c->t;
    struct token_verdict v = token_judge(t, TOKEN_EV_INSTALLED, &c->who, c->now);
    if (!v.allowed) {
        refused(c, &v);
        return;
    }
    if (!report_host_key_valid(r->host_key) || c->who.boot_id[0] == '\0') {
        answer_text(c->a, 409, "the report lacks a valid %s",
                    c->who.boot_id[0] == '\0' ? "boot_id" : "host_key");
        return;
    }
    if (strcmp(r->image_sha256, t->view.image_sha256) != 0) {
        char why[TOKEN_WHY_SIZE];
        (void)snprintf(why, sizeof why, "the machine wrote an image with digest %.16s, not %.16s",
                       r->image_sha256[0] != '\0' ? r->image_sha256 : "(none)",
                       t->view.image_sha256);
        contradiction(c, TOKEN_EV_FAILED, 409, why);
        return;
    }
    if (t->host_key[0] != '\0' && strcmp(t->host_key, r->host_key) != 0) {
        answer_text(c->a, 409, "another host key was reported before");
        return;
    }
    if (!pass(c, TOKEN_EV_INSTALLED, NULL, &v))
        return;
    (void)snprintf(t->host_key, sizeof t->host_key, "%s", r->host_key);
    c->a->status = 204;
    if (!v.changes)
        return;
    char text[400];
    (void)snprintf(text, sizeof text, "image %.12s is on %.120s (serial %.120s)", r->image_sha256,
                   r->disk[0] ? r->disk : "?", r->disk_serial[0] ? r->disk_serial : "?");
    if (c->nb->hooks.installed != NULL)
        c->nb->hooks.installed(node_of(c), t->view.attempt, r->host_key, text, c->nb->user);
}

/* Only the start of the line and the tail of the log, cleaned: people read it. */
static void post_failed(struct call *c)
{
    struct token_verdict v;
    const char *text = c->report.text[0] != '\0' ? c->report.text : "no reason was given";
    int64_t node = node_of(c), attempt = c->t->view.attempt;
    if (!pass(c, TOKEN_EV_FAILED, text, &v))
        return;
    c->a->status = 204;
    c->nb->dirty = true;
    if (c->nb->hooks.failed != NULL)
        c->nb->hooks.failed(node, attempt, text, c->nb->user);
}

/* ---- the installed system ---- */

static bool in_memory(const char *root)
{
    static const char *const kinds[] = {"/dev/ram", "rootfs", "tmpfs", "overlay"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strncmp(root, kinds[i], strlen(kinds[i])) == 0)
            return true;
    return false;
}

static void post_proof(struct call *c)
{
    const struct report *r = &c->report;
    struct token *t = c->t;
    struct token_verdict v = token_judge(t, TOKEN_EV_PROOF, &c->who, c->now);
    const char *wrong = NULL;
    if (!v.allowed) {
        refused(c, &v);
        return;
    }
    if (strcmp(r->image_sha256, t->view.image_sha256) != 0)
        wrong = "the system that booted comes from another image";
    else if (t->host_key[0] != '\0' && strcmp(t->host_key, r->host_key) != 0)
        wrong = "the system that booted has another host key than the installed one";
    else if (in_memory(r->root))
        wrong = "the system that booted does not run from a disk";
    if (wrong != NULL && v.changes) {
        contradiction(c, TOKEN_EV_DISPROOF, 410, wrong);
        return;
    }
    if (!pass(c, TOKEN_EV_PROOF, NULL, &v))
        return;
    c->a->status = 204;
    if (!v.changes)
        return;
    char text[300];
    (void)snprintf(text, sizeof text, "image %.12s booted from %.120s", t->view.image_sha256,
                   r->root[0] ? r->root : "its disk");
    if (c->nb->hooks.proof != NULL)
        c->nb->hooks.proof(node_of(c), t->view.attempt, r->boot_id, text, c->nb->user);
}

/* ---- the table ---- */

static const struct {
    const char *path, *method;
    void (*handle)(struct call *c);
    bool report; /* the body is lines KEY=value */
} calls[] = {
    {"/boot/job", "GET", get_job, false},
    {"/boot/facts", "POST", post_facts, false},
    {"/boot/progress", "POST", post_progress, true},
    {"/boot/installed", "POST", post_installed, true},
    {"/boot/failed", "POST", post_failed, true},
    {"/boot/proof", "POST", post_proof, true},
};

static void read_claimer(struct call *c)
{
    const char *id = c->req->header("X-Clusterd-Boot-Id", c->req->ctx);
    if (id != NULL && strlen(id) < sizeof c->boot_id && id[strspn(id, "0123456789abcdef-")] == '\0')
        (void)snprintf(c->boot_id, sizeof c->boot_id, "%s", id);
    if (c->report.boot_id[0] != '\0')
        memcpy(c->boot_id, c->report.boot_id, sizeof c->boot_id);
    c->who.boot_id = c->boot_id;
    c->who.peer = c->req->peer != NULL ? c->req->peer : "";
}

void job_request(struct netboot *nb, const struct boot_request *req, struct boot_answer *a)
{
    struct call c = {.nb = nb, .req = req, .a = a, .now = loop_wall(nb->loop)};
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        if (strcmp(calls[i].path, req->path) != 0)
            continue;
        if (strcmp(calls[i].method, req->method) != 0) {
            answer_text(a, 405, "%s goes with %s", req->path, calls[i].method);
            a->allow = calls[i].method;
            return;
        }
        c.t = token_find_text(nb->tokens, req->header("X-Clusterd-Token", req->ctx));
        if (c.t == NULL) {
            answer_text(a, 401, "the token is not known");
            return;
        }
        report_parse(calls[i].report && req->body != NULL ? req->body : "",
                     calls[i].report && req->body != NULL ? req->body_len : 0, &c.report);
        read_claimer(&c);
        calls[i].handle(&c);
        return;
    }
    answer_text(a, 404, "there is no %s", req->path);
}
