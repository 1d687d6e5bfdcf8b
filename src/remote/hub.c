#include "remote/internal.h"

#include <stdlib.h>

#include "base/mem.h"

/* How long the handshakes may keep the loop in one go. */
enum { TURN_BUDGET_MS = 4 };

struct remote_hub *remote_hub_new(struct loop *loop, int max_sessions, struct err *err)
{
    if (libssh2_init(0) != 0) {
        (void)err_set(err, ERR_INTERNAL, "libssh2 could not be initialised");
        return NULL;
    }
    struct remote_hub *hub = xcalloc(1, sizeof *hub);
    hub->loop = loop;
    limit_init(&hub->sessions, loop, "ssh", max_sessions);
    return hub;
}

void remote_hub_free(struct remote_hub *hub)
{
    if (hub == NULL)
        return;
    timer_cancel(&hub->turn);
    limit_done(&hub->sessions);
    free(hub);
    libssh2_exit();
}

void remote_hub_set_max(struct remote_hub *hub, int max_sessions)
{
    limit_set_max(&hub->sessions, max_sessions);
}

static void take_turns(void *user)
{
    struct remote_hub *hub = user;
    int64_t started = loop_now(hub->loop);
    while (hub->turn_head != NULL) {
        struct session *s = hub->turn_head;
        hub_leave_turn(hub, s);
        session_take_turn(s);
        if (loop_now(hub->loop) - started >= TURN_BUDGET_MS)
            break;
    }
    /* not 0: everything else in the loop comes first */
    if (hub->turn_head != NULL)
        timer_set(hub->loop, &hub->turn, 1, take_turns, hub);
}

int remote_hub_waiting(const struct remote_hub *hub)
{
    return hub->sessions.waiting;
}

void hub_queue_turn(struct remote_hub *hub, struct session *s)
{
    if (s->in_turn)
        return;
    s->in_turn = true;
    s->turn_prev = hub->turn_tail;
    s->turn_next = NULL;
    *(hub->turn_tail != NULL ? &hub->turn_tail->turn_next : &hub->turn_head) = s;
    hub->turn_tail = s;
    if (!timer_armed(&hub->turn))
        timer_set(hub->loop, &hub->turn, 0, take_turns, hub);
}

void hub_leave_turn(struct remote_hub *hub, struct session *s)
{
    if (!s->in_turn)
        return;
    s->in_turn = false;
    *(s->turn_prev != NULL ? &s->turn_prev->turn_next : &hub->turn_head) = s->turn_next;
    *(s->turn_next != NULL ? &s->turn_next->turn_prev : &hub->turn_tail) = s->turn_prev;
    s->turn_next = s->turn_prev = NULL;
}
