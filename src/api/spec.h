/* Specs: lint, plan, apply, and the revisions that were applied before. Called by routes.c. */
#pragma once

#include "api/http.h"

struct routes;

void lint_post(struct routes *r, struct http_request *req, const char *arg);
void plan_post(struct routes *r, struct http_request *req, const char *arg);
void apply_post(struct routes *r, struct http_request *req, const char *arg);
void revisions_get(struct routes *r, struct http_request *req, const char *arg);
void revision_get(struct routes *r, struct http_request *req, const char *id);
