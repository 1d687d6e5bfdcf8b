/*
 * What a sweep asks of a node, in one command: is a workload running - that first, and where one
 * is, nothing more - and what nodeprobe sees.
 *
 * The answer is lines, after whatever a login shell prints:
 *   clusterd-sweep workload SECONDS TEXT   (seconds since 1970 of the marker; 0: not known)
 *   clusterd-sweep unknown TEXT
 *   clusterd-sweep no-probe
 *   clusterd-sweep facts, nodeprobe's output, clusterd-sweep end EXIT_CODE
 *   clusterd-sweep run EXIT_CODE LINE      (of each script, in order, the last line of its output)
 *   clusterd-sweep over
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "remote/internal.h"
#include "remote/programs.h"

#define MARK "\nclusterd-sweep "

enum { INPUT_MAX = 1 << 20 };

/* clang-format off */
/* A folder counts by its oldest file. nodeprobe stands behind everything else on the node. */
const char sweep_program[] =
"PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
"say() { printf 'clusterd-sweep %s\\n' \"$1\"; }\n"
"line() { printf '%s' \"$1\" | head -n 1 | cut -c 1-190; }\n"
"found=\n"
"printf '\\n'\n"
"if [ -n \"$2\" ]; then\n"
"    limit=\n"
"    command -v timeout >/dev/null && limit='timeout 20'\n"
"    text=$($limit sh -c \"$2\" 2>&1 </dev/null)\n"
"    rc=$?\n"
"    case $rc in\n"
"    0) say \"workload 0 $(line \"$text\")\"; exit 0 ;;\n"
"    1) ;;\n"
"    *) say \"unknown exit code $rc: $(line \"$text\")\"; exit 0 ;;\n"
"    esac\n"
"else\n"
"    since=\n"
"    for f in \"$1\" \"$1\"/*; do\n"
"        [ -e \"$f\" ] && ! [ -d \"$f\" ] || continue\n"
"        t=$(stat -c %Y \"$f\" 2>/dev/null) || continue\n"
"        if [ -z \"$since\" ] || [ \"$t\" -lt \"$since\" ]; then\n"
"            since=$t found=$f\n"
"        fi\n"
"    done\n"
"    if [ -n \"$found\" ]; then\n"
"        say \"workload $since $(line \"$(head -c 400 \"$found\" 2>/dev/null)\")\"\n"
"        exit 0\n"
"    fi\n"
"fi\n"
"sum=$(sha256sum <\"$3\" 2>/dev/null)\n"
"if [ \"${sum%% *}\" != \"$4\" ]; then say no-probe; exit 0; fi\n"
"say facts\n"
"if command -v nice >/dev/null; then nice -n 19 \"$3\"; else \"$3\"; fi\n"
"rc=$?\n"
"printf '\\n'\n"
"say \"end $rc\"\n"
"lengths=$5\n"
"[ -n \"$lengths\" ] || { say over; exit 0; }\n"
"umask 077\n"
"t=/var/lib/clusterd/sweep.$$\n"
"trap 'rm -rf \"$t\"' EXIT\n"
"mkdir -p \"$t\" && cat >\"$t/input\" || exit 1\n"
"limit=\n"
"command -v timeout >/dev/null && limit='timeout 30'\n"
"at=1\n"
"set -- $lengths\n"
"while [ $# -ge 2 ]; do\n"
"    tail -c \"+$at\" \"$t/input\" | head -c \"$1\" >\"$t/env\"\n"
"    tail -c \"+$((at + $1))\" \"$t/input\" | head -c \"$2\" >\"$t/script\"\n"
"    at=$((at + $1 + $2))\n"
"    shift 2\n"
"    IFS= read -r first <\"$t/script\"\n"
"    case $first in\n"
"    '#!'*) with=${first#??} ;;\n"
"    *) with=/bin/sh ;;\n"
"    esac\n"
"    (\n"
"        umask 022\n"
"        . \"$t/env\" && cd / && exec $limit $with \"$t/script\"\n"
"    ) >\"$t/log\" 2>&1 </dev/null\n"
"    rc=$?\n"
"    say \"run $rc $(tail -n 1 \"$t/log\" | cut -c 1-190)\"\n"
"done\n"
"say over\n";
/* clang-format on */

/* "export NAME='value'" lines; the caller wipes and frees. */
static void add_variables(struct strbuf *out, const struct remote_run_spec *script)
{
    for (int i = 0; i < script->var_count; i++) {
        strbuf_addf(out, "export %s=", script->names[i]);
        shell_quote(out, script->values[i]);
        strbuf_addc(out, '\n');
    }
}

struct remote_op *remote_sweep(struct remote_hub *hub, const struct remote_target *target,
                               const struct remote_sweep *sweep, int64_t timeout_ms,
                               op_done_fn done, void *user)
{
    struct strbuf command, input, lengths;
    strbuf_init(&command, COMMAND_TEXT_MAX);
    strbuf_init(&input, INPUT_MAX);
    strbuf_init(&lengths, 400);
    for (int i = 0; i < sweep->script_count; i++) {
        size_t before = input.len;
        add_variables(&input, &sweep->scripts[i]);
        strbuf_addf(&lengths, "%s%zu %zu", i ? " " : "", input.len - before,
                    sweep->scripts[i].script_len);
        strbuf_add(&input, sweep->scripts[i].script, sweep->scripts[i].script_len);
    }
    const char *args[] = {sweep->marker, sweep->command != NULL ? sweep->command : "",
                          sweep->nodeprobe, sweep->sha256, lengths.len > 0 ? lengths.data : ""};
    command_format(&command, sweep_program, args, (int)ARRAY_LEN(args));
    struct remote_op *op =
        remote_exec(hub, target, command.data, input.data, input.len, timeout_ms, done, user);
    if (input.capacity > 0)
        explicit_bzero(input.data, input.capacity); /* variables can be secret */
    strbuf_done(&input);
    strbuf_done(&lengths);
    strbuf_done(&command);
    return op;
}

/* ---- the answer ---- */

/* It comes from the node: nothing of it may move a terminal's cursor. */
static void keep_text(const char *from, char *to, size_t size)
{
    size_t n = 0;
    for (; *from != '\0' && *from != '\n' && n + 1 < size; from++)
        to[n++] = (unsigned char)*from < ' ' || *from == 0x7f ? ' ' : *from;
    while (n > 0 && to[n - 1] == ' ')
        n--;
    to[n] = '\0';
}

static int cut_short(struct err *err)
{
    return err_set(err, ERR_INVALID, "the answer of the sweep was cut short");
}

static int parse_scripts(const char *at, struct remote_sweep_answer *a, struct err *err)
{
    for (; strncmp(at, MARK "run ", sizeof MARK "run " - 1) == 0; a->script_count++) {
        char *text;
        long code = strtol(at + sizeof MARK "run " - 1, &text, 10);
        const char *end = strchr(text, '\n');
        if (end == NULL || a->script_count == SWEEP_SCRIPTS_MAX || code < 0 || code > 255)
            return cut_short(err);
        a->scripts[a->script_count].exit_code = (int)code;
        keep_text(*text == ' ' ? text + 1 : text, a->scripts[a->script_count].line,
                  sizeof a->scripts[0].line);
        at = end;
    }
    return strncmp(at, MARK "over\n", sizeof MARK "over\n" - 1) == 0 ? 0 : cut_short(err);
}

static int parse_facts(const char *facts, struct remote_sweep_answer *a, struct err *err)
{
    const char *end = NULL;
    for (const char *p = strstr(facts, MARK "end "); p != NULL; p = strstr(p + 1, MARK "end "))
        end = p;
    const char *line = end != NULL ? strchr(end + 1, '\n') : NULL;
    if (line == NULL || !isdigit((unsigned char)end[sizeof MARK "end " - 1]))
        return cut_short(err);
    a->verdict = SWEEP_FACTS;
    a->facts = facts;
    a->facts_len = (size_t)(end - facts);
    a->exit_code = (int)strtol(end + sizeof MARK "end " - 1, NULL, 10);
    return parse_scripts(line, a, err);
}

int remote_sweep_parse(const char *out, size_t len, struct remote_sweep_answer *ret,
                       struct err *err)
{
    const char *at = out != NULL && strlen(out) == len ? strstr(out, MARK) : NULL;
    struct remote_sweep_answer a = {0};
    int rc = 0;
    if (at == NULL || strchr(at + 1, '\n') == NULL)
        return err_set(err, ERR_INVALID, "the sweep was not answered in its own words");
    at += sizeof MARK - 1;
    if (strncmp(at, "workload ", 9) == 0) {
        char *text;
        a.verdict = SWEEP_WORKLOAD;
        long long seconds = strtoll(at + 9, &text, 10);
        a.since = seconds > 0 && seconds < INT64_MAX / 1000 ? (int64_t)seconds * 1000 : 0;
        keep_text(*text == ' ' ? text + 1 : text, a.text, sizeof a.text);
    } else if (strncmp(at, "unknown ", 8) == 0) {
        a.verdict = SWEEP_UNKNOWN;
        keep_text(at + 8, a.text, sizeof a.text);
    } else if (strncmp(at, "no-probe\n", 9) == 0) {
        a.verdict = SWEEP_NO_PROBE;
    } else if (strncmp(at, "facts\n", 6) == 0) {
        rc = parse_facts(at + 6, &a, err);
    } else {
        rc = err_set(err, ERR_INVALID, "the sweep was not answered in its own words");
    }
    if (rc == 0)
        *ret = a;
    return rc;
}
