/* --wait: a live table on a terminal, one line per event elsewhere. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "ctl/ctl.h"
#include "ctl/rehearse.h"

enum { POLL_MS = 500, SETTLED_POLLS = 3, LINES_SHOWN = 40, DETAIL_MAX = 70 };

struct progress {
    struct ctl *c;
    const char *nodes;
    json_int_t after;
    bool live;
    int lines; /* drawn last time */
    int validated, failed, held, total;
};

json_int_t last_event(struct ctl *c)
{
    int rc = CTL_DONE;
    json_t *answer = request(c, "GET", "/v1/events?limit=1", NULL, &rc);
    if (answer == NULL)
        return -1;
    json_int_t id = json_integer_value(json_object_get(answer, "last"));
    json_decref(answer);
    return id;
}

static bool print_new_events(struct progress *p)
{
    int rc = CTL_DONE;
    char *path = xasprintf("/v1/events?after=%lld&limit=1000", (long long)p->after);
    char *whole = with_query(path, "nodes", p->nodes);
    json_t *answer = request(p->c, "GET", whole, NULL, &rc), *e;
    free(whole);
    free(path);
    if (answer == NULL)
        return false;
    size_t i;
    json_array_foreach(json_object_get(answer, "events"), i, e)
    {
        if (p->c->json) {
            (void)json_dumpf(e, stdout, JSON_COMPACT);
            putchar('\n');
        } else {
            print_event(e);
        }
    }
    (void)fflush(stdout);
    json_int_t last = json_integer_value(json_object_get(answer, "last"));
    p->after = last > p->after ? last : p->after;
    json_decref(answer);
    return true;
}

/* Its rollout was stopped or cancelled: nothing starts on it by itself. */
static bool is_halted(const json_t *n)
{
    const json_t *rollout = json_object_get(n, "rollout");
    const char *status = text_of(rollout, "status");
    return json_is_true(json_object_get(rollout, "waits")) &&
           (strcmp(status, "stopped") == 0 || strcmp(status, "cancelled") == 0);
}

char node_standing(const json_t *n)
{
    const char *operation = text_of(n, "operation");
    if (strcmp(operation, "running") != 0 && is_halted(n))
        return strcmp(text_of(n, "health"), "failed") == 0 ? 'f' : 'h';
    if (strcmp(operation, "running") == 0 || strcmp(operation, "backoff") == 0)
        return 'r';
    if (strcmp(text_of(n, "admin"), "active") != 0)
        return 'h';
    if (strcmp(operation, "drifted") == 0)
        return 'f'; /* nothing more happens by itself */
    if (strcmp(operation, "deferred") == 0)
        return 'v'; /* the apply left the rest out: it is done */
    if (strcmp(text_of(n, "state"), CLUSTERD_STATE_VALIDATED) == 0 &&
        strcmp(operation, "idle") == 0)
        return 'v';
    return strcmp(text_of(n, "health"), "failed") == 0 ? 'f' : 'r';
}

static void draw(struct progress *p, const json_t *nodes)
{
    static const char *const headers[] = {"NODE", "STATE", "NOW", "STAGE", "DETAIL", NULL};
    struct table *t = table_new(headers);
    size_t i;
    json_t *n;
    json_array_foreach(nodes, i, n)
    {
        char detail[DETAIL_MAX + 1];
        if (i >= LINES_SHOWN)
            break;
        bool running = strcmp(text_of(n, "operation"), "running") == 0;
        (void)snprintf(detail, sizeof detail, "%s", text_of(n, running ? "step" : "reason"));
        bool done = node_standing(n) == 'v';
        table_add(t, text_of(n, "name"));
        table_add(t, text_of(n, "state"));
        table_add(t, node_standing(n) == 'f' ? "failed" : text_of(n, "operation"));
        table_add(t, done ? "" : text_of(n, "stage"));
        table_add(t, done ? "" : detail);
    }
    if (p->lines > 0)
        printf("\033[%dA\033[J", p->lines);
    p->lines = table_rows(t) + 2;
    table_print(t, stdout);
    printf("%d of %d validated, %d failed, %d held\n", p->validated, p->total, p->failed, p->held);
    (void)fflush(stdout);
}

/* False when the daemon could not be asked. */
static bool look(struct progress *p)
{
    int rc = CTL_DONE;
    char *path = with_query("/v1/nodes", "nodes", p->nodes);
    json_t *answer = request(p->c, "GET", path, NULL, &rc), *n;
    free(path);
    if (answer == NULL)
        return false;
    json_t *nodes = json_object_get(answer, "nodes");
    p->validated = p->failed = p->held = 0;
    p->total = (int)json_array_size(nodes);
    size_t i;
    json_array_foreach(nodes, i, n)
    {
        char s = node_standing(n);
        p->validated += s == 'v';
        p->failed += s == 'f';
        p->held += s == 'h';
    }
    if (p->live)
        draw(p, nodes);
    json_decref(answer);
    return true;
}

static void pause_ms(long ms)
{
    struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&ts, NULL);
}

int wait_for_nodes(struct ctl *c, const char *nodes, json_int_t after_event, int64_t timeout_ms)
{
    struct progress p = {
        .c = c, .nodes = nodes, .after = after_event, .live = isatty(STDOUT_FILENO) && !c->json};
    int64_t until = clock_mono_ms() + timeout_ms;
    int settled = 0;
    for (;;) {
        if ((!p.live && !print_new_events(&p)) || !look(&p))
            return CTL_FAILED;
        /* between two stages a node looks settled for a moment */
        settled = p.validated + p.failed + p.held == p.total ? settled + 1 : 0;
        if (settled >= SETTLED_POLLS || (settled > 0 && p.validated == p.total))
            break;
        if (interrupted)
            return complain(CTL_FAILED, "interrupted; the work goes on, see 'clusterctl nodes'");
        if (timeout_ms > 0 && clock_mono_ms() > until)
            return complain(8, "not done within the time given; the work goes on, see "
                               "'clusterctl why'");
        pause_ms(POLL_MS);
    }
    if (!p.live && !print_new_events(&p))
        return CTL_FAILED;
    if (!p.live && !c->json)
        printf("%d of %d validated, %d failed, %d held\n", p.validated, p.total, p.failed, p.held);
    if (p.failed > 0)
        fprintf(stderr, "clusterctl: see 'clusterctl why'\n");
    return p.validated == p.total ? CTL_DONE : CTL_FAILED;
}
