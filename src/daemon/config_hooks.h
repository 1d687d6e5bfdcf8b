/* The rows under `notify` of the daemon's configuration. */
#pragma once

#include "daemon/config.h"
#include "text/yaml.h"

/* `list` NULL: no hooks. False with problems in d; config_hooks_done() is due either way. */
bool config_hooks_read(const struct ynode *list, struct config *ret, struct diags *d);
void config_hooks_done(struct config *c);
