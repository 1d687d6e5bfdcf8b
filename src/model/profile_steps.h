/*
 * The vocabulary of steps: which types profiles may use, what follows each and which parameters it
 * takes. One table; the engine has one step_type for each row. Used by the profile parser only.
 */
#pragma once

#include "model/profile.h"
#include "text/diag.h"
#include "text/yaml.h"

/*
 * Reads one step (`{run: tuned/tune.sh, timeout: 5m}`) into *ret_step, which the caller releases
 * with step_def_done. False when anything is wrong with it; `d` says what.
 */
bool step_read(const struct ynode *map, struct step_def *ret_step, struct diags *d);
void step_def_done(struct step_def *step);

/* A path below a known folder: relative, no empty, "." or ".." parts, printable. */
bool path_is_inside(const char *path);
/* "75%" as 75; 0 for anything else, and for 0%. */
int share_percent(const char *text);
/* A name that reaches scripts as a variable: lower-case letters, digits and _, no digit first. */
bool var_name_ok(const char *name);
