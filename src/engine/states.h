/*
 * The two tables of the stage machine: statuses, and the transitions between them. Nothing else
 * decides what may follow what; `clusterctl stages --graph` and the tests walk them.
 */
#pragma once

#include <stdbool.h>

#include "base/names.h"

enum stage_status {
    STAGE_PENDING, /* never proven, not yet tried */
    STAGE_QUEUED,  /* asked for (rerun, reinstall, retry): runs as soon as it can */
    STAGE_RUNNING, /* an attempt is in work */
    STAGE_PASSED,  /* proven; current while its inputs stay what they were */
    STAGE_FAILED,  /* tried as often as allowed; waits for a change or an operator */
    STAGE_STALE,   /* was proven or tried, and its inputs changed since */
    STAGE_SKIPPED, /* does not apply to this node, with a reason */
    STAGE_WAIVED,  /* an operator vouches for it */
    STAGE_STATUS_COUNT
};

enum stage_event {
    STAGE_EV_START,      /* an attempt was journalled */
    STAGE_EV_SUCCESS,    /* the attempt's steps all passed */
    STAGE_EV_FAILURE,    /* the attempt failed and no further one is allowed */
    STAGE_EV_RETRY,      /* the attempt failed, another one is due after a pause */
    STAGE_EV_DEADLINE,   /* the attempt's deadline came and no further one is allowed */
    STAGE_EV_CANCEL,     /* the attempt was cancelled (spec changed, node removed) */
    STAGE_EV_INVALIDATE, /* an input changed */
    STAGE_EV_RERUN,      /* an operator asked for it */
    STAGE_EV_SKIP,       /* it does not apply */
    STAGE_EV_WAIVE,      /* an operator vouches for it */
    STAGE_EV_COUNT
};

struct stage_state_row {
    enum stage_status id;
    const char *name;
    bool satisfied; /* later stages may build on it */
    bool runnable;  /* the scheduler may start an attempt */
    const char *meaning;
};

struct stage_transition {
    enum stage_status from;
    enum stage_event event;
    enum stage_status to;
};

extern const struct stage_state_row stage_states[STAGE_STATUS_COUNT];
extern const struct stage_transition stage_transitions[];
extern const int stage_transition_count;
extern const struct name stage_event_names[];

const char *stage_status_name(enum stage_status status);
/* -1 for an unknown name. */
int stage_status_from_name(const char *name);
/* The status that follows, or -1 when the table has no such row. */
int stage_next(enum stage_status from, enum stage_event event);
