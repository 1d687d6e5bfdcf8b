#include "loop/work.h"

#include <stdlib.h>
#include <uv.h>

#include "base/mem.h"

struct work {
    uv_work_t req;
    void (*run)(void *user);
    void (*done)(void *user);
    void *user;
};

static void on_run(uv_work_t *req)
{
    struct work *w = container_of(req, struct work, req);
    w->run(w->user);
}

static void on_done(uv_work_t *req, int status)
{
    struct work *w = container_of(req, struct work, req);
    (void)status; /* jobs are never cancelled */
    w->done(w->user);
    free(w);
}

int work_submit(struct loop *loop, void (*run)(void *user), void (*done)(void *user), void *user,
                struct err *err)
{
    struct work *w = xcalloc(1, sizeof *w);
    w->run = run;
    w->done = done;
    w->user = user;
    int rc = uv_queue_work(loop_uv(loop), &w->req, on_run, on_done);
    if (rc < 0) {
        free(w);
        return err_sys(err, -rc, "starting a worker");
    }
    return 0;
}
