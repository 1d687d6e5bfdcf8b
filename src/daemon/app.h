/*
 * The daemon put together: builds the rooms in order, passes their reports on, and takes them
 * apart. The only place where rooms are wired to each other.
 */
#pragma once

#include "daemon/config.h"
#include "loop/loop.h"

struct app;

/* data_dir: where profiles/ and templates/ of this version are. */
struct app *app_new(struct loop *loop, const struct config *config, const char *data_dir,
                    struct err *err);
/* Reads secrets, scripts and artefacts again and looks at every node. */
void app_refresh(struct app *app);
/* It could not load what the store knows, and stopped the loop. */
bool app_failed(const struct app *app);
void app_free(struct app *app); /* NULL allowed */
