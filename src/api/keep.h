/* Keeping what happened: the chain of events, and copies of the database. */
#pragma once

#include "api/routes.h"

void audit_head_get(struct routes *r, struct http_request *req, const char *arg);
void audit_verify_get(struct routes *r, struct http_request *req, const char *arg);
void backup_post(struct routes *r, struct http_request *req, const char *arg);
/* The requests that still wait hear nothing more. */
void keep_stop(struct routes *r);
