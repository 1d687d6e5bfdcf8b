/*
 * What the files of the api room share: the routes object and the handlers of each subject.
 */
#pragma once

#include "api/routes.h"

struct follower;
struct keep;

struct routes {
    struct routes_config c;
    struct netboot *netboot;
    struct follower *followers; /* clients that follow the events */
    struct timer follow_timer;
    int64_t followed;   /* the last event id that followers got */
    struct keep *keeps; /* requests that wait for a thread of the store */
};

/* Who asks: the user name behind the unix socket, for events and holds. */
const char *routes_actor(struct http_request *req, char *buf, size_t size);
/* The body as a JSON object; NULL with *err set. */
json_t *routes_body(struct http_request *req, struct err *err);
/* Its text field; NULL where there is none. */
const char *routes_field(const json_t *body, const char *name);
/* Sends `json` (taken) once everything written so far is on disk. */
void routes_commit(struct routes *r, struct http_request *req, json_t *json);
