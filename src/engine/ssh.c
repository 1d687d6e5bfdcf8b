#include "engine/ssh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/node.h"

enum { KILL_MS = 30000 };

int ssh_target(const struct enode *n, struct remote_target *ret_target, struct err *err)
{
    struct engine *e = n->engine;
    if (e->c.remote_hub == NULL || e->ssh_key == NULL)
        return err_set(err, ERR_UNSUPPORTED, "no SSH key: credentials.ssh.key of the spec %s",
                       e->ssh_key_problem[0] ? e->ssh_key_problem : "is missing");
    if (n->host_key == NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "no host key is known for %s: its install has not reported one", n->name);
    *ret_target = (struct remote_target){.address = n->spec->address,
                                         .port = e->spec->ssh_port,
                                         .user = e->spec->ssh_user,
                                         .host_key = n->host_key,
                                         .key = e->ssh_key,
                                         .lane = node_lane(n)};
    return 0;
}

/* ---- variables ---- */

static void add_var(struct script_vars *v, const char *name, const char *value)
{
    if (v->count == SCRIPT_VARS_MAX)
        return;
    v->names[v->count] = xstrdup(name);
    v->values[v->count] = xstrdup(value != NULL ? value : "");
    v->count++;
}

void script_vars_fill(struct script_vars *v, const struct script *s)
{
    char number[24];
    v->count = 0;
    for (int i = 0; s->stage->vars != NULL && s->stage->vars[i] != NULL; i++) {
        char *text = var_text(json_object_get(s->on->spec->vars, s->stage->vars[i]));
        add_var(v, s->stage->vars[i], text);
        free(text);
    }
    (void)snprintf(number, sizeof number, "%lld", (long long)s->attempt);
    add_var(v, "CLUSTERD_NODE", s->on->name);
    add_var(v, "CLUSTERD_ADDRESS", s->on->spec->address);
    add_var(v, "CLUSTERD_STAGE", s->stage->name);
    add_var(v, "CLUSTERD_ATTEMPT", number);
    if (s->peer != NULL) {
        add_var(v, "CLUSTERD_PEER", s->peer->name);
        add_var(v, "CLUSTERD_PEER_ADDRESS", s->peer->spec->address);
    }
    (void)snprintf(number, sizeof number, "%d", s->rail);
    if (s->rail >= 0)
        add_var(v, "CLUSTERD_RAIL", number);
}

void script_vars_done(struct script_vars *v)
{
    for (int i = 0; i < v->count; i++) {
        free(v->names[i]);
        free(v->values[i]);
    }
    v->count = 0;
}

/* ---- runs ---- */

struct remote_op *node_script_start(struct engine *e, const struct script *s,
                                    void (*on_log)(const char *, size_t, void *), op_done_fn done,
                                    void *user, struct err *err)
{
    struct remote_target target;
    struct engine_file file;
    if (ssh_target(s->on, &target, err) < 0)
        return NULL;
    if (e->c.file == NULL || !e->c.file(s->path, &file, e->c.user)) {
        (void)err_set(err, ERR_NOT_FOUND, "there is no script '%s' in the templates folder",
                      s->path);
        return NULL;
    }
    struct script_vars vars;
    script_vars_fill(&vars, s);
    struct remote_run_spec spec = {.id = s->id,
                                   .script = file.text,
                                   .script_len = file.len,
                                   .names = (const char *const *)vars.names,
                                   .values = (const char *const *)vars.values,
                                   .var_count = vars.count,
                                   .on_log = on_log,
                                   .log_user = user};
    struct remote_op *op = remote_run(e->c.remote_hub, &target, &spec, s->timeout_ms, done, user);
    script_vars_done(&vars);
    return op;
}

void script_last_line(const char *text, size_t len, char *ret, size_t size)
{
    while (len > 0 && (unsigned char)text[len - 1] <= ' ')
        len--;
    size_t from = len;
    while (from > 0 && text[from - 1] != '\n')
        from--;
    if (len == from)
        return;
    size_t n = len - from < size - 1 ? len - from : size - 1;
    for (size_t i = 0; i < n; i++)
        ret[i] = (unsigned char)text[from + i] < ' ' ? ' ' : text[from + i];
    ret[n] = '\0';
}

/* ---- clean-up that nobody waits for ---- */

struct stray {
    struct op *op;
    struct stray *next, **link;
};

static void stray_free(struct stray *s)
{
    *s->link = s->next;
    if (s->next != NULL)
        s->next->link = s->link;
    free(s);
}

static void on_stray(struct op *op, void *user)
{
    op_free(op);
    stray_free(user);
}

void script_kill(const struct enode *on, const char *id)
{
    struct engine *e = on->engine;
    struct remote_target target;
    if (e->stopping || ssh_target(on, &target, NULL) < 0)
        return;
    struct stray *s = xcalloc(1, sizeof *s);
    s->link = &e->strays;
    s->next = e->strays;
    if (s->next != NULL)
        s->next->link = &s->next;
    e->strays = s;
    s->op = &remote_run_kill(e->c.remote_hub, &target, id, KILL_MS, on_stray, s)->op;
}

void strays_abandon(struct engine *e)
{
    while (e->strays != NULL) {
        op_cancel(e->strays->op);
        stray_free(e->strays);
    }
}
