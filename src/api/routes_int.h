/*
 * What the files of the api room share: the routes object and the handlers of each subject.
 */
#pragma once

#include "api/routes.h"

struct follower;

struct routes {
    struct routes_config c;
    struct netboot *netboot;
    struct follower *followers; /* clients that follow the events */
    struct timer follow_timer;
    int64_t followed; /* the last event id that followers got */
};

/* Sends `json` (taken) once everything written so far is on disk. */
void routes_commit(struct routes *r, struct http_request *req, json_t *json);
