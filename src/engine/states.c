#include "engine/states.h"

#include <string.h>

#include "base/mem.h"

const struct stage_state_row stage_states[STAGE_STATUS_COUNT] = {
    {STAGE_PENDING, "pending", false, true, "never proven, not yet tried"},
    {STAGE_QUEUED, "queued", false, true, "asked for; runs as soon as it can"},
    {STAGE_RUNNING, "running", false, false, "an attempt is in work"},
    {STAGE_PASSED, "passed", true, false, "proven by observation"},
    {STAGE_FAILED, "failed", false, false, "failed; waits for a change or an operator"},
    {STAGE_STALE, "stale", false, true, "its inputs changed since it was proven"},
    {STAGE_SKIPPED, "skipped", true, false, "does not apply to this node"},
    {STAGE_WAIVED, "waived", true, false, "an operator vouches for it"},
};

const struct stage_transition stage_transitions[] = {
    {STAGE_PENDING, STAGE_EV_START, STAGE_RUNNING},
    {STAGE_PENDING, STAGE_EV_SKIP, STAGE_SKIPPED},
    {STAGE_PENDING, STAGE_EV_RERUN, STAGE_QUEUED},
    {STAGE_PENDING, STAGE_EV_WAIVE, STAGE_WAIVED},
    {STAGE_QUEUED, STAGE_EV_START, STAGE_RUNNING},
    {STAGE_QUEUED, STAGE_EV_SKIP, STAGE_SKIPPED},
    {STAGE_QUEUED, STAGE_EV_CANCEL, STAGE_STALE},
    {STAGE_QUEUED, STAGE_EV_WAIVE, STAGE_WAIVED},
    {STAGE_STALE, STAGE_EV_START, STAGE_RUNNING},
    {STAGE_STALE, STAGE_EV_SKIP, STAGE_SKIPPED},
    {STAGE_STALE, STAGE_EV_RERUN, STAGE_QUEUED},
    {STAGE_STALE, STAGE_EV_WAIVE, STAGE_WAIVED},
    {STAGE_STALE, STAGE_EV_SUCCESS, STAGE_PASSED}, /* the change was taken back: proven as before */
    {STAGE_RUNNING, STAGE_EV_SUCCESS, STAGE_PASSED},
    {STAGE_RUNNING, STAGE_EV_FAILURE, STAGE_FAILED},
    {STAGE_RUNNING, STAGE_EV_DEADLINE, STAGE_FAILED},
    {STAGE_RUNNING, STAGE_EV_RETRY, STAGE_QUEUED},
    {STAGE_RUNNING, STAGE_EV_CANCEL, STAGE_STALE},
    {STAGE_PASSED, STAGE_EV_INVALIDATE, STAGE_STALE},
    {STAGE_PASSED, STAGE_EV_RERUN, STAGE_QUEUED},
    {STAGE_PASSED, STAGE_EV_SKIP, STAGE_SKIPPED},
    {STAGE_FAILED, STAGE_EV_INVALIDATE, STAGE_STALE},
    {STAGE_FAILED, STAGE_EV_RERUN, STAGE_QUEUED},
    {STAGE_FAILED, STAGE_EV_SKIP, STAGE_SKIPPED},
    {STAGE_FAILED, STAGE_EV_WAIVE, STAGE_WAIVED},
    {STAGE_SKIPPED, STAGE_EV_INVALIDATE, STAGE_STALE},
    {STAGE_WAIVED, STAGE_EV_RERUN, STAGE_QUEUED},
    {STAGE_WAIVED, STAGE_EV_INVALIDATE, STAGE_STALE},
    {STAGE_WAIVED, STAGE_EV_SKIP, STAGE_SKIPPED},
};

const int stage_transition_count = (int)ARRAY_LEN(stage_transitions);

const struct name stage_event_names[] = {
    {STAGE_EV_START, "start"},
    {STAGE_EV_SUCCESS, "success"},
    {STAGE_EV_FAILURE, "failure"},
    {STAGE_EV_RETRY, "retry"},
    {STAGE_EV_DEADLINE, "deadline"},
    {STAGE_EV_CANCEL, "cancel"},
    {STAGE_EV_INVALIDATE, "invalidate"},
    {STAGE_EV_RERUN, "rerun"},
    {STAGE_EV_SKIP, "skip"},
    {STAGE_EV_WAIVE, "waive"},
    {0, NULL},
};

const char *stage_status_name(enum stage_status status)
{
    return status < STAGE_STATUS_COUNT ? stage_states[status].name : "?";
}

int stage_status_from_name(const char *name)
{
    for (int i = 0; name != NULL && i < STAGE_STATUS_COUNT; i++)
        if (strcmp(stage_states[i].name, name) == 0)
            return i;
    return -1;
}

int stage_next(enum stage_status from, enum stage_event event)
{
    for (int i = 0; i < stage_transition_count; i++)
        if (stage_transitions[i].from == from && stage_transitions[i].event == event)
            return (int)stage_transitions[i].to;
    return -1;
}
