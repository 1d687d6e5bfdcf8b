#include "engine/transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/node.h"
#include "engine/ssh.h"

enum { HEAD_START_MS = 1000, ID_MAX = 64, SAID_MAX = 240 };

struct transfer {
    struct engine *engine;
    int64_t server_node, client_node, attempt, timeout_ms;
    char *stage, *client_script;
    char server_id[ID_MAX + 1], client_id[ID_MAX + 1];
    int rail;
    struct op *server, *client;
    bool server_over, client_over; /* ended by themselves: nothing is left to kill */
    struct timer head_start;       /* the server needs a moment before the client calls */
    char server_said[SAID_MAX];
    void (*on_line)(const char *line, void *user);
    void (*done)(const struct transfer_end *end, void *user);
    void *user;
};

static const char *name_of_node(const struct transfer *t, int64_t id)
{
    const struct enode *n = engine_find_id(t->engine, id);
    return n != NULL ? n->name : "a node that left the spec";
}

int transfer_possible(const struct enode *n, struct err *err)
{
    struct remote_target target;
    return n->engine->c.transfers != NULL ? 0 : ssh_target(n, &target, err);
}

void transfer_cancel(struct engine *e, struct transfer *t)
{
    if (t == NULL)
        return;
    if (e->c.transfers != NULL) {
        e->c.transfers->cancel(t);
        return;
    }
    /* at shutdown the nodes are gone, and the scripts go on */
    const struct enode *server = e->stopping ? NULL : engine_find_id(e, t->server_node);
    const struct enode *client = e->stopping ? NULL : engine_find_id(e, t->client_node);
    bool called = t->client != NULL;
    timer_cancel(&t->head_start);
    op_cancel(t->server);
    op_cancel(t->client);
    if (!t->server_over && server != NULL)
        script_kill(server, t->server_id);
    if (called && !t->client_over && client != NULL)
        script_kill(client, t->client_id);
    free(t->stage);
    free(t->client_script);
    free(t);
}

static void finish(struct transfer *t, const struct err *err, const char *log, int64_t at_fault)
{
    struct transfer_end end = {.err = *err, .log = log, .at_fault = at_fault};
    void (*done)(const struct transfer_end *, void *) = t->done;
    void *user = t->user;
    char *copy = xstrdup(log != NULL ? log : "");
    end.log = copy;
    transfer_cancel(t->engine, t);
    done(&end, user);
    free(copy);
}

/* Not the script but its node failed: no way there, or it was restarted, or killed the script. */
static bool node_failed(const struct remote_op *r)
{
    return !r->began || (r->op.err.code == ERR_FAILED && r->exit_code < 0);
}

static struct remote_op *result_of(struct op *op)
{
    return (struct remote_op *)(void *)op;
}

/* One side waited in vain, for the other one's node could not even be reached. */
static void no_sign(struct transfer *t, int64_t node, const struct remote_op *r,
                    const struct err *said)
{
    struct err err = {0};
    (void)err_set(&err, ERR_UNREACHABLE, "%s cannot be worked with: %.200s (%s)",
                  name_of_node(t, node), r->note[0] != '\0' ? r->note : "no answer", said->text);
    finish(t, &err, NULL, node);
}

static void on_client(struct op *op, void *user)
{
    struct transfer *t = user;
    struct remote_op *r = result_of(op);
    struct err err = op->err;
    const char *server = name_of_node(t, t->server_node);
    int64_t at_fault = 0;
    t->client_over = err.code == ERR_OK || err.code == ERR_FAILED;
    if (err.code == ERR_OK) {
        finish(t, &err, r->out.data, 0);
        return;
    }
    char line[160] = "it printed nothing";
    script_last_line(r->out.data, r->out.len, line, sizeof line);
    if (err.code == ERR_FAILED && r->exit_code > 0)
        (void)err_set(&err, ERR_FAILED, "%s with %s ended with exit code %d: %s", t->client_script,
                      server, r->exit_code, line);
    struct err first = err;
    if (node_failed(r)) {
        at_fault = t->client_node;
        (void)err_set(&err, first.code, "%s: %s", name_of_node(t, at_fault), first.text);
    } else if (t->server != NULL && !result_of(t->server)->began) {
        no_sign(t, t->server_node, result_of(t->server), &err);
        return;
    } else if (t->server_said[0] != '\0') {
        (void)err_set(&err, first.code, "%s (the other side: %s)", first.text, t->server_said);
    }
    finish(t, &err, r->out.data, at_fault);
}

static void on_client_log(const char *data, size_t len, void *user)
{
    struct transfer *t = user;
    char line[160] = "";
    script_last_line(data, len, line, sizeof line);
    if (line[0] != '\0' && t->on_line != NULL)
        t->on_line(line, t->user);
}

static struct remote_op *start_script(struct transfer *t, int64_t on_id, int64_t peer_id,
                                      const char *path, const char *id,
                                      void (*on_log)(const char *, size_t, void *), op_done_fn done,
                                      struct err *err)
{
    const struct enode *on = engine_find_id(t->engine, on_id);
    const struct enode *peer = engine_find_id(t->engine, peer_id);
    int stage = on != NULL ? node_stage_index(on, t->stage) : -1;
    if (peer == NULL || stage < 0) {
        (void)err_set(err, ERR_BUSY, "the partner left the spec");
        return NULL;
    }
    struct script script = {.stage = on->stages[stage].def,
                            .attempt = t->attempt,
                            .on = on,
                            .peer = peer,
                            .path = path,
                            .id = id,
                            .rail = t->rail,
                            .timeout_ms = t->timeout_ms};
    return node_script_start(t->engine, &script, on_log, done, t, err);
}

static void start_client(void *user)
{
    struct transfer *t = user;
    struct err err = {0};
    struct remote_op *op = start_script(t, t->client_node, t->server_node, t->client_script,
                                        t->client_id, on_client_log, on_client, &err);
    if (op == NULL)
        finish(t, &err, NULL, 0);
    else
        t->client = &op->op;
}

/* A server that ran and ended decides nothing: the client tells success from failure. */
static void on_server(struct op *op, void *user)
{
    struct transfer *t = user;
    struct remote_op *r = result_of(op);
    struct err err = op->err;
    t->server_over = err.code == ERR_OK || err.code == ERR_FAILED;
    if (err.code == ERR_OK || !node_failed(r)) {
        script_last_line(r->out.data, r->out.len, t->server_said, sizeof t->server_said);
        if (err.code == ERR_OK)
            t->server_said[0] = '\0';
        else if (t->server_said[0] == '\0')
            (void)snprintf(t->server_said, sizeof t->server_said, "%.200s", err.text);
        t->server = NULL;
        op_free(op);
        if (err.code != ERR_OK && t->client != NULL && !result_of(t->client)->began)
            no_sign(t, t->client_node, result_of(t->client), &err);
        return;
    }
    struct err first = err;
    (void)err_set(&err, first.code, "%s: %s", name_of_node(t, t->server_node), first.text);
    finish(t, &err, NULL, t->server_node);
}

struct transfer *transfer_start(struct engine *e, const struct transfer_spec *spec,
                                void (*on_line)(const char *line, void *user),
                                void (*done)(const struct transfer_end *end, void *user),
                                void *user, struct err *err)
{
    if (e->c.transfers != NULL)
        return e->c.transfers->start(e, spec, done, user);
    struct transfer *t = xcalloc(1, sizeof *t);
    *t = (struct transfer){.engine = e,
                           .server_node = spec->server,
                           .client_node = spec->client,
                           .attempt = spec->attempt,
                           .timeout_ms = spec->timeout_ms,
                           .stage = xstrdup(spec->stage),
                           .client_script = xstrdup(spec->client_script),
                           .rail = spec->rail,
                           .on_line = on_line,
                           .done = done,
                           .user = user};
    (void)snprintf(t->server_id, sizeof t->server_id, "%s-server", spec->id);
    (void)snprintf(t->client_id, sizeof t->client_id, "%s-client", spec->id);
    struct remote_op *op = start_script(t, t->server_node, t->client_node, spec->server_script,
                                        t->server_id, NULL, on_server, err);
    if (op == NULL) {
        t->server_over = true;
        transfer_cancel(e, t);
        return NULL;
    }
    t->server = &op->op;
    timer_set(e->loop, &t->head_start, HEAD_START_MS, start_client, t);
    return t;
}
