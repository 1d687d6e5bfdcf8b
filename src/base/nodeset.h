/*
 * Nodesets: "gpu[001-128],login1" to names and back, with clustershell's syntax and results.
 * Used by model (spec), engine (selections), ctl.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/strbuf.h"

#define NODESET_MAX 200000 /* names in one set: twenty times the largest cluster that we mean */

struct nodeset;

/* Operators as in clustershell: `,` union, `!` difference, `&` intersection, `^` symmetric
 * difference, from left to right; folded ranges with steps and padding, several dimensions.
 * "@group" is ERR_UNSUPPORTED. Refused although clustershell takes it: numbers below 0, empty
 * ranges, blanks in names, and a range over a change of width behind a digit (n1[8-11] has two
 * readings). Sorted without duplicates, as clustershell sorts. */
struct nodeset *nodeset_parse(const char *text, struct err *err);
void nodeset_free(struct nodeset *set);
int nodeset_count(const struct nodeset *set);
const char *nodeset_at(const struct nodeset *set, int index);       /* borrowed */
bool nodeset_contains(const struct nodeset *set, const char *name); /* O(log n) or better */
/* The short form: "gpu[001-128]". */
void nodeset_fold(const struct nodeset *set, struct strbuf *out);

/*
 * The bracket ranges of a pattern, in the order of writing, without sorting and with duplicates:
 * "10.0.0.[1-4]" or "[1-25/8]" in specs, whose lists are zipped. Text without brackets gives
 * itself once. ERR_LIMIT above `max`. The caller frees with nodeset_pattern_free.
 */
int nodeset_expand_pattern(const char *pattern, int max, char ***ret_names, int *ret_count,
                           struct err *err);
void nodeset_pattern_free(char **names, int count);
