/* One parser for each tool; the table at the end names them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/names.h"
#include "checks/checks.h"

enum { LINE_MAX_BYTES = 512, WORDS_MAX = 16 };

/* The next line of the text, cut at LINE_MAX_BYTES; false at the end. */
static bool next_line(const char **text, size_t *left, char line[LINE_MAX_BYTES])
{
    if (*left == 0)
        return false;
    const char *end = memchr(*text, '\n', *left);
    size_t len = end != NULL ? (size_t)(end - *text) : *left;
    size_t n = len < LINE_MAX_BYTES - 1 ? len : LINE_MAX_BYTES - 1;
    for (size_t i = 0; i < n; i++)
        line[i] = (*text)[i] != '\0' ? (*text)[i] : ' ';
    line[n] = '\0';
    len += end != NULL;
    *text += len;
    *left -= len;
    return true;
}

static int split(char *line, char *words[WORDS_MAX])
{
    int count = 0;
    char *save = NULL;
    for (char *w = strtok_r(line, " \t\r", &save); w != NULL && count < WORDS_MAX;
         w = strtok_r(NULL, " \t\r", &save))
        words[count++] = w;
    return count;
}

static bool number(const char *word, double *ret)
{
    char *end;
    *ret = strtod(word, &end);
    return end != word && *end == '\0' && isfinite(*ret);
}

static int add(struct values *v, const char *name, double value, const char *unit, struct err *err)
{
    if (v->count == CHECKS_MAX_VALUES)
        return err_set(err, ERR_LIMIT, "more than %d measured values", CHECKS_MAX_VALUES);
    struct value *x = &v->items[v->count++];
    (void)snprintf(x->name, sizeof x->name, "%s", name);
    (void)snprintf(x->unit, sizeof x->unit, "%s", unit);
    x->value = value;
    return 0;
}

/* ---- node-test: "measure NAME VALUE UNIT" among other lines ---- */

static int parse_node_test(const char *text, size_t len, struct values *ret, struct err *err)
{
    char line[LINE_MAX_BYTES], *words[WORDS_MAX];
    while (next_line(&text, &len, line)) {
        double value;
        if (strncmp(line, "measure ", 8) != 0)
            continue;
        int count = split(line, words);
        if (count != 4 || !number(words[2], &value) ||
            strlen(words[1]) >= sizeof ret->items[0].name ||
            strlen(words[3]) >= sizeof ret->items[0].unit)
            return err_set(err, ERR_INVALID,
                           "a line that begins with 'measure' is not 'measure NAME VALUE UNIT'");
        if (add(ret, words[1], value, words[3], err) < 0)
            return -(int)ERR_LIMIT;
    }
    return 0;
}

/*
 * ib_write_bw of perftest 4 and later: a header "#bytes #iterations BW peak[Gb/sec] BW
 * average[Gb/sec] MsgRate[Mpps]" (MB/sec without --report_gbits, MiB/sec with some versions), then
 * a row for each message size; the last row counts.
 */
static int parse_ib_write_bw(const char *text, size_t len, struct values *ret, struct err *err)
{
    char line[LINE_MAX_BYTES], *words[WORDS_MAX];
    double to_gbits = 0, average = NAN;
    while (next_line(&text, &len, line)) {
        if (strstr(line, "#bytes") != NULL && strstr(line, "BW average") != NULL) {
            to_gbits = strstr(line, "average[Gb/sec]") != NULL    ? 1
                       : strstr(line, "average[MB/sec]") != NULL  ? 8.0 / 1000
                       : strstr(line, "average[MiB/sec]") != NULL ? 8.0 * 1048576 / 1e9
                                                                  : 0;
            continue;
        }
        double bytes, iterations, peak, row;
        if (to_gbits > 0 && split(line, words) == 5 && number(words[0], &bytes) &&
            number(words[1], &iterations) && number(words[2], &peak) && number(words[3], &row))
            average = row * to_gbits;
    }
    if (isnan(average))
        return 0;
    if (average < 0)
        return err_set(err, ERR_INVALID, "ib_write_bw reports a negative bandwidth");
    return add(ret, "ib_write_bw", average, "Gb/s", err);
}

static const struct {
    const char *name;
    int (*parse)(const char *text, size_t len, struct values *ret, struct err *err);
} parsers[] = {{"node-test", parse_node_test}, {"ib-write-bw", parse_ib_write_bw}};

int checks_parse(const char *parser, const char *text, size_t len, struct values *ret,
                 struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(parsers); i++) {
        if (strcmp(parsers[i].name, parser) != 0)
            continue;
        ret->count = 0;
        int rc = parsers[i].parse(text, len, ret, err);
        if (rc == 0 && ret->count == 0)
            return err_set(err, ERR_INVALID, "no figure of %s is in the output", parser);
        return rc;
    }
    return err_set(err, ERR_UNSUPPORTED, "this version has no parser '%s'", parser);
}

const char *checks_judge(const struct value *v, const json_t *limits, double *ret_limit)
{
    const json_t *limit = json_object_get(limits, v->name);
    const json_t *min = json_object_get(limit, "min"), *max = json_object_get(limit, "max");
    *ret_limit = (double)NAN;
    if (json_is_number(max)) {
        *ret_limit = json_number_value(max);
        if (v->value > *ret_limit)
            return "high";
    }
    if (json_is_number(min)) {
        *ret_limit = json_number_value(min);
        return v->value < *ret_limit ? "low" : "ok";
    }
    return json_is_number(max) ? "ok" : "info";
}
