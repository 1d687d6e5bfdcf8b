/*
 * Small pieces of JSON that the views share. Private to the engine and the api's store views.
 */
#pragma once

#include <jansson.h>

#include "store/store.h"

json_t *view_time(int64_t wall_ms);  /* text, or null for 0 */
json_t *view_text(const char *text); /* text, or null for NULL and "" */
json_t *view_attempt(const struct store_attempt *r);
