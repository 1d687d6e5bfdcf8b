/*
 * Read-only views of the store: events (also followed live), logs of attempts, pending machines.
 */
#pragma once

#include "api/http.h"

struct routes;

void events_get(struct routes *r, struct http_request *req, const char *arg);
void logs_get(struct routes *r, struct http_request *req, const char *node);
void pending_get(struct routes *r, struct http_request *req, const char *arg);
/* Ends all followers. */
void events_stop(struct routes *r);
