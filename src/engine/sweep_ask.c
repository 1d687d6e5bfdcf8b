/* The operators' verb: sweep these nodes now; and what views show of sweeps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/node.h"
#include "engine/view.h"

/* One question about many nodes; it waits at each of them. */
struct ask {
    json_t *rows;
    int open;
    void (*done)(json_t *result, void *user);
    void *user;
};

struct sweep_waiter {
    struct ask *ask;
    struct sweep_waiter *next; /* of the same node */
};

static void add_row(struct ask *a, const char *name, const char *result, const char *text)
{
    (void)json_array_append_new(a->rows, json_pack("{s:s,s:s,s:o}", "name", name, "result", result,
                                                   "text", view_text(text)));
}

static void one_less(struct ask *a, bool tell)
{
    if (--a->open > 0)
        return;
    if (tell)
        a->done(json_pack("{s:o}", "nodes", a->rows), a->user);
    else
        json_decref(a->rows);
    free(a);
}

void sweep_told(struct enode *n, const char *result, const char *text)
{
    struct sweep_waiter *w = n->sweep.waiters;
    n->sweep.waiters = NULL;
    while (w != NULL) {
        struct sweep_waiter *next = w->next;
        add_row(w->ask, n->name, result, text);
        one_less(w->ask, true);
        free(w);
        w = next;
    }
}

void sweeps_done(struct engine *e)
{
    for (int i = 0; i < e->node_count; i++) {
        struct sweep_waiter *w = e->nodes[i]->sweep.waiters;
        e->nodes[i]->sweep.waiters = NULL;
        while (w != NULL) {
            struct sweep_waiter *next = w->next;
            one_less(w->ask, false);
            free(w);
            w = next;
        }
    }
}

static void wait_at(struct enode *n, struct ask *a)
{
    struct sweep_waiter *w = xcalloc(1, sizeof *w);
    w->ask = a;
    w->next = n->sweep.waiters;
    n->sweep.waiters = w;
    a->open++;
}

json_t *engine_sweep(struct engine *e, const char *nodeset, const char *actor,
                     void (*done)(json_t *result, void *user), void *user, struct err *err)
{
    struct enode **nodes;
    int count, begun = 0;
    char text[120];
    if (engine_select(e, nodeset, &nodes, &count, err) < 0)
        return NULL;
    struct ask *a = xcalloc(1, sizeof *a);
    *a = (struct ask){.rows = json_array(), .open = 1, .done = done, .user = user};
    for (int i = 0; i < count; i++) {
        struct enode *n = nodes[i];
        const char *obstacle = sweep_obstacle(n);
        if (obstacle != NULL) {
            add_row(a, n->name, "left out", obstacle);
            continue;
        }
        begun++;
        node_event(n, "sweep.asked", NULL, 0, actor, "asked for");
        if (done != NULL)
            wait_at(n, a);
        else
            add_row(a, n->name, "asked for", NULL);
        sweep_now(n);
    }
    free(nodes);
    (void)snprintf(text, sizeof text, "%d swept as soon as limits allow, %d left out", begun,
                   count - begun);
    json_t *answer = json_pack("{s:O,s:s}", "nodes", a->rows, "text", text);
    one_less(a, done != NULL);
    return answer;
}

/* ---- views ---- */

json_t *sweep_view(const struct enode *n)
{
    const struct sweep *s = &n->sweep;
    if (s->at == 0 && !timer_armed(&s->timer))
        return json_null();
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:b,s:o,s:o,s:i}", "at", view_time(s->at), "result",
                     view_text(s->result), "text", view_text(s->text), "ok_at", view_time(s->ok_at),
                     "next_at", view_time(timer_armed(&s->timer) ? s->next_at : 0), "running",
                     s->op != NULL, "workload", s->busy ? json_string(s->workload) : json_null(),
                     "workload_since", view_time(s->busy ? s->workload_since : 0), "misses",
                     s->misses);
}

json_t *sweeps_view(const struct engine *e)
{
    int running = 0, drifted = 0, busy = 0, unreachable = 0, planned = 0;
    for (int i = 0; i < e->node_count; i++) {
        const struct enode *n = e->nodes[i];
        running += n->sweep.op != NULL;
        drifted += node_drifted(n);
        busy += n->sweep.busy;
        unreachable += n->sweep.misses > 1;
        planned += timer_armed(&n->sweep.timer);
    }
    return json_pack("{s:i,s:i,s:i,s:i,s:i}", "running", running, "planned", planned, "drifted",
                     drifted, "workload", busy, "unreachable", unreachable);
}

void sweep_words(const struct enode *n, char *text, size_t size, char *shared, size_t shared_size)
{
    const struct sweep *s = &n->sweep;
    char at[CLOCK_TEXT_SIZE];
    text[0] = shared[0] = '\0';
    if (s->busy) {
        (void)snprintf(text, size, "; a workload is running since %.19s%s%s: it is not touched",
                       clock_format(s->workload_since, at), s->workload[0] ? ", " : "",
                       s->workload);
        (void)snprintf(shared, shared_size, "; a workload is running: it is not touched");
    } else if (s->misses > 0) {
        (void)snprintf(text, size, "; the sweep of %.19s did not reach it: %.200s",
                       clock_format(s->at, at), s->text);
        (void)snprintf(shared, shared_size, "; sweeps do not reach it");
    } else if (strcmp(s->result, "unknown") == 0) {
        (void)snprintf(text, size, "; the sweep of %.19s saw nothing: %.200s",
                       clock_format(s->at, at), s->text);
        (void)snprintf(shared, shared_size, "; sweeps see nothing of it");
    } else if (s->at > 0) {
        (void)snprintf(text, size, ", and so a sweep saw it at %.19s", clock_format(s->at, at));
    }
}

const char *node_health(const struct enode *n)
{
    for (int i = 0; i < n->stage_count; i++)
        if (n->stages[i].status == STAGE_FAILED)
            return "failed";
    if (node_drifted(n))
        return "drifted";
    return n->sweep.misses > 1 ? "unreachable" : "ok";
}
