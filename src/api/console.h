/* The serial console of a node over its BMC, as a stream of bytes. Called by routes.c. */
#pragma once

#include "api/routes_int.h"

void console_get(struct routes *r, struct http_request *req, const char *node);
