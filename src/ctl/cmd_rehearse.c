/* rehearse: the course of a rehearsal. docs/rehearse.md says what it is worth. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/nodeset.h"
#include "ctl/rehearse.h"

enum {
    READY_MS = 30000,
    POLL_MS = 400,
    POLL_NODES = 2, /* nodes that make a poll a millisecond longer: the answer costs both sides */
    SETTLED_POLLS = 3,
    SAY_MS = 5000, /* between lines where there is no terminal */
    SPEED_MAX = 1000,
    SPEED_USUAL = 60,
    SPEED_LEAST = 5,
    NODES_AND_SPEED = 20000, /* their product: what two processors do with some room to spare */
    TIMEOUT_MS = 30 * 60000,
    TIMED_OUT = 8,
    STALLED = 1000, /* no exit code: nothing moves any more, and some nodes wait */
    STILL_SIMULATED_MS = 15 * 60000,
    STILL_MS = 3000,
    ROW_MAX = 16 << 20,
    ARGUMENTS_MAX = 2 * GIVEN_MAX + 32
};

static void pause_ms(long ms)
{
    struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&ts, NULL);
}

json_t *rehearse_ask(struct rehearse *r, const char *method, const char *path, json_t *body,
                     int *ret_code)
{
    struct clusterd_error error = {0};
    json_t *answer = NULL;
    int rc = clusterd_call(client_of(&r->inner), method, path, body, &answer, &error);
    json_decref(body);
    if (rc == 0)
        return answer;
    *ret_code = error.exit_code;
    if (!interrupted) { /* that is said once, at the end */
        const json_t *whole = clusterd_last_error(client_of(&r->inner));
        (void)print_problems(stderr, json_object_get(json_object_get(whole, "error"), "problems"));
        (void)complain(error.exit_code, "%s", error.text);
    }
    return NULL;
}

/* ---- the spec ---- */

static bool read_profiles(const struct ctl *c, struct bundle *b)
{
    static const char site_dir[] = CLUSTERD_SYSCONFDIR "/profiles";
    const char *site = opt(c, "profiles");
    char *dir = data_path(NULL, "profiles");
    bool ok = load_profiles(dir, b);
    free(dir);
    if (ok && site != NULL)
        return load_profiles(site, b);
    /* a site need not have profiles of its own */
    return ok && (access(site_dir, R_OK) != 0 || load_profiles(site_dir, b));
}

/* The same as `lint`: all problems, and a spec only where none is an error. */
static int read_spec(struct rehearse *r)
{
    struct bundle files, profiles;
    struct diags d;
    struct err err = {0};
    json_t *body = load_spec(r->c->argv[0]);
    if (body == NULL)
        return CTL_INPUT;
    bundle_init(&files);
    bundle_init(&profiles);
    diags_init(&d);
    int rc = CTL_INPUT;
    if (bundle_from_json(&files, json_object_get(body, "files"), &err) < 0) {
        (void)complain(CTL_INPUT, "%s", err.text);
    } else if (read_profiles(r->c, &profiles)) {
        r->profiles = profiles_parse(&profiles, &d);
        r->spec = spec_parse(&files, r->profiles, &d);
        if (r->spec != NULL)
            spec_lint(r->spec, &d);
        diags_sort(&d);
        r->warnings = diags_json(&d);
        rc = d.errors == 0 && r->spec != NULL ? CTL_DONE : CTL_INPUT;
        if (rc != CTL_DONE)
            (void)print_problems(stderr, json_object_get(r->warnings, "problems"));
    }
    diags_done(&d);
    bundle_done(&files);
    bundle_done(&profiles);
    json_decref(body);
    return rc;
}

/* How many nodes are meant; 0 after complaining. */
static int count_nodes(const struct rehearse *r)
{
    struct err err = {0};
    const char *limit = opt(r->c, "limit");
    int count = r->spec->node_count;
    if (limit != NULL) {
        struct nodeset *set = nodeset_parse(limit, &err);
        if (set == NULL) {
            (void)complain(CTL_INPUT, "--limit: %s", err.text);
            return 0;
        }
        count = 0;
        for (int i = 0; i < nodeset_count(set); i++)
            count += spec_find_node(r->spec, nodeset_at(set, i)) >= 0;
        nodeset_free(set);
    }
    if (count == 0)
        (void)complain(CTL_INPUT, "no node of the spec is meant");
    return count;
}

static bool read_number(const struct ctl *c, const char *name, double min, double max, double *ret)
{
    char *end;
    const char *text = opt(c, name);
    if (text == NULL)
        return true;
    double x = strtod(text, &end);
    if (end == text || *end != '\0' || !(x >= min && x <= max)) {
        (void)complain(CTL_INPUT, "--%s: a number from %g to %g is expected, not '%s'", name, min,
                       max, text);
        return false;
    }
    *ret = x;
    return true;
}

/* The more machines, the more work in the same real time: a slower clock keeps the times true. */
static double usual_speed(int nodes)
{
    double speed = (double)NODES_AND_SPEED / nodes;
    speed = speed > SPEED_USUAL ? SPEED_USUAL : speed;
    return speed < SPEED_LEAST ? SPEED_LEAST : speed;
}

static int read_options(struct rehearse *r)
{
    double seed = 1, gbits = 0;
    int count = count_nodes(r);
    r->speed = usual_speed(count > 0 ? count : 1);
    if (count == 0 || !read_number(r->c, "speed", 1, SPEED_MAX, &r->speed) ||
        !read_number(r->c, "seed", 0, 4294967295.0, &seed) ||
        !read_number(r->c, "uplink", 0.001, 100000, &gbits))
        return CTL_INPUT;
    r->uplink_mb_s = gbits * 1000 / 8;
    r->seed = opt(r->c, "seed") != NULL ? opt(r->c, "seed") : "1";
    return CTL_DONE;
}

/* The daemon's program reads its own databases. */
static int read_history(struct rehearse *r)
{
    const char *file = opt(r->c, "history");
    if (file == NULL)
        return CTL_DONE;
    char *path = host_find("clusterd");
    char *argv[] = {path, (char *)"--stage-times", (char *)file, NULL};
    char *text = path != NULL ? host_output(argv) : NULL;
    r->history = text != NULL ? json_loads(text, 0, NULL) : NULL;
    free(text);
    free(path);
    return r->history != NULL ? CTL_DONE : complain(CTL_INPUT, "--history %s: not usable", file);
}

/* ---- the two programs ---- */

static int wait_for(struct rehearse *r, const char *name, bool (*ready)(struct rehearse *r))
{
    int64_t until = clock_mono_ms() + READY_MS;
    while (!ready(r)) {
        if (interrupted)
            return CTL_FAILED;
        if (!host_runs(&r->host, name)) {
            host_say_log(&r->host, name);
            return complain(CTL_INPUT, "%s did not start", name);
        }
        if (clock_mono_ms() > until)
            return complain(CTL_FAILED, "%s did not answer within %d s", name, READY_MS / 1000);
        pause_ms(20);
    }
    return CTL_DONE;
}

static bool sim_ready(struct rehearse *r)
{
    json_t *answer = host_ask_sim(&r->host, "totals");
    json_decref(answer);
    return answer != NULL;
}

static bool daemon_ready(struct rehearse *r)
{
    return clusterd_call(client_of(&r->inner), "GET", "/v1/status", NULL, NULL, NULL) == 0;
}

static int start_sim(struct rehearse *r)
{
    char *argv[ARGUMENTS_MAX], *path = host_find("clusterd-sim");
    if (path == NULL)
        return CTL_FAILED;
    char *own[] = {host_path(&r->host, "fleet.json"),
                   host_path(&r->host, "answers"),
                   host_path(&r->host, "sim.sock"),
                   xasprintf("http://" REHEARSAL_HEAD ":%d", r->port + PORT_BOOT),
                   xasprintf("%d", r->port + PORT_BMC),
                   xasprintf("%d", r->port + PORT_SSH),
                   xasprintf("%g", r->speed)};
    const char *const fixed[] = {path,          "--no-redfish", "--fleet",    own[0],
                                 "--answers",   own[1],         "--control",  own[2],
                                 "--boot-url",  own[3],         "--bmc-port", own[4],
                                 "--ssh-port",  own[5],         "--speed",    own[6],
                                 "--log-level", "warn",         "--seed",     r->seed};
    int n = 0;
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        argv[n++] = (char *)fixed[i];
    const char *fault;
    for (int i = 0; (fault = opt_nth(r->c, "fault", i)) != NULL; i++) {
        argv[n++] = (char *)"--fault";
        argv[n++] = (char *)fault;
    }
    argv[n] = NULL;
    int rc = host_start(&r->host, "clusterd-sim", argv);
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        free(own[i]);
    free(path);
    return rc == CTL_DONE ? wait_for(r, "clusterd-sim", sim_ready) : rc;
}

static int start_daemon(struct rehearse *r)
{
    char *path = host_find("clusterd");
    if (path == NULL)
        return CTL_FAILED;
    char *config = host_path(&r->host, "clusterd.yaml"), *data = host_path(&r->host, "data");
    char *speed = xasprintf("%g", r->speed);
    char *argv[] = {path, (char *)"--config", config, (char *)"--data",
                    data, (char *)"--speed",  speed,  NULL};
    int rc = host_start(&r->host, "clusterd", argv);
    free(speed);
    free(data);
    free(config);
    free(path);
    return rc == CTL_DONE ? wait_for(r, "clusterd", daemon_ready) : rc;
}

static int apply(struct rehearse *r)
{
    int rc = CTL_DONE;
    char *path = host_path(&r->host, "spec.yaml");
    json_t *body = load_spec(path);
    free(path);
    if (body == NULL)
        return CTL_INPUT;
    if (opt(r->c, "limit") != NULL)
        (void)json_object_set_new(body, "limit", json_string(opt(r->c, "limit")));
    r->started_at = clock_mono_ms();
    json_t *plan = rehearse_ask(r, "POST", "/v1/apply", body, &rc);
    json_decref(plan);
    return plan != NULL ? CTL_DONE : rc;
}

/* ---- waiting ---- */

/* Whether a waiting node says when it goes on. */
static bool has_a_time(struct rehearse *r)
{
    int rc = CTL_DONE;
    char *path = with_query("/v1/why", "nodes", opt(r->c, "limit"));
    json_t *answer = rehearse_ask(r, "GET", path, NULL, &rc), *row;
    size_t i;
    bool found = false;
    free(path);
    json_array_foreach(json_object_get(answer, "nodes"), i, row)
    {
        found = found || json_is_string(json_object_get(row, "next_at"));
    }
    json_decref(answer);
    return found;
}

/* Nothing runs, and no node has changed for long enough: what is waited for will not come. */
static bool is_stalled(struct rehearse *r)
{
    int64_t still = clock_mono_ms() - r->still_since;
    if (r->moving || still < STILL_MS || (double)still * r->speed < STILL_SIMULATED_MS)
        return false;
    r->still_since = clock_mono_ms();
    return !has_a_time(r);
}

/* Notes whether anything changed since the last look. */
static void compare_look(struct rehearse *r)
{
    struct strbuf sb;
    char hex[DIGEST_HEX_SIZE];
    size_t i;
    json_t *n;
    strbuf_init(&sb, ROW_MAX);
    r->moving = false;
    json_array_foreach(r->nodes, i, n)
    {
        const char *operation = text_of(n, "operation");
        r->moving =
            r->moving || strcmp(operation, "running") == 0 || strcmp(operation, "backoff") == 0;
        strbuf_addf(&sb, "%s %s %s\n", text_of(n, "stage"), text_of(n, "stage_status"), operation);
    }
    digest_hex(sb.data != NULL ? sb.data : "", sb.len, hex);
    strbuf_done(&sb);
    if (r->moving || strcmp(hex, r->last_look) != 0)
        r->still_since = clock_mono_ms();
    memcpy(r->last_look, hex, sizeof hex);
}

static bool look(struct rehearse *r)
{
    int rc = CTL_DONE;
    char *path = with_query("/v1/nodes", "nodes", opt(r->c, "limit"));
    json_t *answer = rehearse_ask(r, "GET", path, NULL, &rc), *n;
    size_t i;
    free(path);
    if (answer == NULL)
        return false;
    json_decref(r->nodes);
    r->nodes = json_incref(json_object_get(answer, "nodes"));
    json_decref(answer);
    r->total = (int)json_array_size(r->nodes);
    r->validated = r->failed = r->held = 0;
    json_array_foreach(r->nodes, i, n)
    {
        char s = node_standing(n);
        r->validated += s == 'v';
        r->failed += s == 'f';
        r->held += s == 'h';
    }
    compare_look(r);
    return true;
}

static void say(const struct rehearse *r, int64_t *said_at)
{
    char took[CLOCK_TEXT_SIZE];
    int64_t now = clock_mono_ms();
    bool live = isatty(STDERR_FILENO);
    if (!live && now - *said_at < SAY_MS)
        return;
    *said_at = now;
    (void)clock_format_duration((int64_t)((double)(now - r->started_at) * r->speed), took);
    fprintf(stderr, "%srehearsal, %s: %d of %d validated, %d failed, %d held%s",
            live ? "\r\033[K" : "", took, r->validated, r->total, r->failed, r->held,
            live ? "" : "\n");
}

/* Exit code, or STALLED; CTL_DONE also when some failed. */
static int follow(struct rehearse *r)
{
    int64_t timeout = TIMEOUT_MS, said_at = clock_mono_ms();
    int settled = 0, rc = CTL_DONE;
    struct err err = {0};
    if (opt(r->c, "timeout") != NULL &&
        clock_parse_duration(opt(r->c, "timeout"), &timeout, &err) < 0)
        return complain(CTL_INPUT, "--timeout: %s", err.text);
    while (settled < SETTLED_POLLS) {
        if (interrupted)
            return CTL_FAILED;
        if (!host_runs(&r->host, "clusterd") || !host_runs(&r->host, "clusterd-sim") || !look(r)) {
            if (interrupted)
                return CTL_FAILED;
            host_say_log(&r->host, "clusterd");
            host_say_log(&r->host, "clusterd-sim");
            return complain(CTL_FAILED, "the rehearsal's own programs ended or do not answer");
        }
        say(r, &said_at);
        settled = r->validated + r->failed + r->held == r->total ? settled + 1 : 0;
        if (r->validated == r->total)
            break;
        if (is_stalled(r)) {
            rc = STALLED;
            break;
        }
        if (settled == 0 && clock_mono_ms() - r->started_at > timeout) {
            rc = TIMED_OUT;
            break;
        }
        pause_ms(POLL_MS + r->total / POLL_NODES);
    }
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    r->took_s = (double)(clock_mono_ms() - r->started_at) / 1000;
    return rc;
}

/* ---- all together ---- */

static int finish(struct rehearse *r, int rc)
{
    bool all = r->validated == r->total;
    json_t *summary = rehearse_summary(r, rc == TIMED_OUT ? "timeout"
                                          : rc == STALLED ? "stalled"
                                          : all           ? "validated"
                                                          : "failed");
    if (summary == NULL)
        return CTL_FAILED;
    if (r->host.keep) {
        char *text = json_dumps(summary, JSON_INDENT(2));
        (void)host_write(&r->host, "summary.json", text, strlen(text));
        free(text);
    }
    if (r->c->json)
        (void)print_json(summary);
    else
        rehearse_print(summary);
    json_decref(summary);
    if (r->host.keep)
        fprintf(stderr, "clusterctl: kept in %s\n", r->host.dir);
    return rc == TIMED_OUT ? rc : all ? CTL_DONE : CTL_FAILED;
}

static int play(struct rehearse *r)
{
    r->port = host_free_ports(PORTS);
    if (r->port == 0)
        return CTL_FAILED;
    char *socket = host_path(&r->host, "api.sock");
    r->inner = (struct ctl){.socket = socket};
    int rc = rehearse_write(r);
    if (rc == CTL_DONE)
        rc = start_sim(r);
    if (rc == CTL_DONE)
        rc = start_daemon(r);
    if (rc == CTL_DONE)
        rc = apply(r);
    if (rc == CTL_DONE)
        rc = follow(r);
    if (rc == CTL_DONE || rc == TIMED_OUT || rc == STALLED)
        rc = finish(r, rc);
    clusterd_close(r->inner.client);
    free(socket);
    return rc;
}

int cmd_rehearse(struct ctl *c)
{
    struct rehearse r = {.c = c, .notes = json_array(), .figures = json_array()};
    int rc = read_spec(&r);
    if (rc == CTL_DONE)
        rc = read_options(&r);
    if (rc == CTL_DONE)
        rc = read_history(&r);
    if (rc == CTL_DONE)
        rc = host_open(&r.host, opt(c, "keep"));
    if (rc == CTL_DONE) {
        rc = play(&r);
        host_close(&r.host);
        if (interrupted)
            rc = complain(CTL_FAILED,
                          opt(c, "keep") != NULL ? "interrupted" : "interrupted; nothing is left");
    }
    spec_free(r.spec);
    profiles_free(r.profiles);
    json_t *const values[] = {r.warnings, r.notes, r.figures, r.history, r.sizes, r.nodes};
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        json_decref(values[i]);
    return rc;
}
