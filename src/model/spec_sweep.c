/* `sweep`: when proven nodes are looked at again. Of the cluster, and of a class over that. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/spec_read.h"

enum { EVERY_MS = 6 * 3600 * 1000, AT_ONCE = 8, AT_ONCE_MAX = 1000, TEXT_MAX = 1000 };
static const int64_t day_ms = 24 * 3600 * 1000;
static const char marker[] = "/run/clusterd/workload";

struct raw_sweep {
    int64_t every, at_once;
    int repair;
    const char *file, *command;
};

enum { REPAIR_NONE, REPAIR_AUTO };
static const struct name repairs[] = {{REPAIR_NONE, "none"}, {REPAIR_AUTO, "auto"}, {0, NULL}};

static bool every_ok(const struct ynode *value, struct strbuf *why)
{
    int64_t ms;
    if (clock_parse_duration(value->text, &ms, NULL) == 0 && ms >= 1000 && ms <= 90 * day_ms)
        return true;
    strbuf_adds(why, "must be a time from 1s to 90d, such as 6h");
    return false;
}

static bool file_ok(const struct ynode *value, struct strbuf *why)
{
    const char *t = value->text;
    bool ok = t[0] == '/' && t[1] != '\0' && strlen(t) <= 255;
    for (; ok && *t != '\0'; t++)
        ok = (unsigned char)*t > ' ' && *t != 0x7f;
    if (!ok)
        strbuf_adds(why, "must be an absolute path on the nodes");
    return ok;
}

static bool command_ok(const struct ynode *value, struct strbuf *why)
{
    if (value->text[0] != '\0' && strlen(value->text) <= TEXT_MAX)
        return true;
    strbuf_addf(why, "must be a command for /bin/sh, of at most %d characters", TEXT_MAX);
    return false;
}

#define ROW(key_, type_, member_, ...)                                                             \
    {                                                                                              \
        .key = key_, .type = type_, .offset = offsetof(struct raw_sweep, member_), __VA_ARGS__     \
    }

static const struct field rows[] = {
    ROW("every", FIELD_DURATION, every, .check = every_ok, .help = "how often: 6h"),
    ROW("at_once", FIELD_INT, at_once, .min = 1, .max = AT_ONCE_MAX, .help = "sweeps at once"),
    ROW("repair", FIELD_ENUM, repair, .names = repairs, .help = "none or auto"),
    ROW("workload_file", FIELD_TEXT, file, .check = file_ok,
        .help = "is there while a workload runs"),
    ROW("workload_command", FIELD_TEXT, command, .check = command_ok,
        .help = "exit code 0 while a workload runs"),
    {0}};

void sweep_defaults(struct spec_sweep *s)
{
    *s = (struct spec_sweep){
        .on = true, .every_ms = EVERY_MS, .at_once = AT_ONCE, .marker = xstrdup(marker)};
}

void sweep_copy(struct spec_sweep *to, const struct spec_sweep *from)
{
    *to = *from;
    to->marker = xstrdup(from->marker);
    to->command = xstrdup(from->command);
}

void sweep_done(struct spec_sweep *s)
{
    free(s->marker);
    free(s->command);
}

static void set_text(char **text, const char *value)
{
    char *copy = xstrdup(value);
    free(*text);
    *text = copy;
}

static void take_workload(struct reader *r, const struct ynode *at, const struct raw_sweep *raw,
                          struct spec_sweep *s)
{
    if (raw->file != NULL && raw->command != NULL) {
        ynode_error(at, r->d, "give 'workload_file' or 'workload_command', not both");
    } else if (raw->file != NULL) {
        set_text(&s->marker, raw->file);
        set_text(&s->command, NULL);
    } else if (raw->command != NULL) {
        set_text(&s->command, raw->command);
    }
}

void read_sweep(struct reader *r, const struct ynode *at, bool of_class, struct spec_sweep *s)
{
    const char *what = of_class ? "a class's 'sweep'" : "'sweep'";
    bool word = false;
    if (at == NULL)
        return;
    if (at->kind == YNODE_SCALAR &&
        (ynode_bool(at, &word) || strcmp(at->text, "off") == 0 || strcmp(at->text, "on") == 0)) {
        s->on = word || strcmp(at->text, "on") == 0;
        return;
    }
    if (at->kind != YNODE_MAP) {
        ynode_error(at, r->d, "%s must be a mapping such as {every: 6h}, or on, or off", what);
        return;
    }
    struct raw_sweep raw = {s->every_ms, s->at_once, s->repair ? REPAIR_AUTO : REPAIR_NONE, NULL,
                            NULL};
    if (!schema_read(rows, at, what, &raw, r->d))
        return;
    const struct ynode *at_once = ynode_get(at, "at_once");
    if (of_class && at_once != NULL)
        ynode_error(at_once, r->d,
                    "'at_once' counts in the whole cluster: it belongs to the "
                    "spec's own 'sweep'");
    s->on = true;
    s->every_ms = raw.every;
    s->at_once = (int)raw.at_once;
    s->repair = raw.repair == REPAIR_AUTO;
    take_workload(r, at, &raw, s);
}
