/* clusterd: the daemon. Runs in the foreground, logs to stderr; docs/operation.md. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "daemon/app.h"
#include "store/audit.h"
#include "store/times.h"

enum { EXIT_USAGE = 2, SPEED_MAX = 1000 };

static const char usage[] =
    "usage: clusterd [--config FILE] [--data DIR] [--log-level LEVEL] [--speed X]\n"
    "       clusterd --verify-audit FILE [--audit-head HASH]\n"
    "       clusterd --stage-times FILE\n"
    "\n"
    "Takes the nodes of an applied spec from racked to validated. Runs in the foreground and logs\n"
    "to stderr; talk to it with clusterctl.\n"
    "\n"
    "  --config FILE      the daemon's own settings (" CLUSTERD_SYSCONFDIR "/clusterd.yaml, where\n"
    "                     that exists): state_dir, run_dir, socket, profiles, templates, "
    "artefacts,\n"
    "                     secrets, nodeprobe, kernel, initrd, interface, boot_port, log_level,\n"
    "                     notify\n"
    "  --data DIR         where profiles/ and templates/ are (" CLUSTERD_DATADIR
    "); in a checkout: .\n"
    "  --log-level LEVEL  error, warn, info or debug\n"
    "  --speed X          for rehearsals with clusterd-sim: time passes X times as fast (1)\n"
    "  --verify-audit FILE\n"
    "                     only walk the chain of events in this database; no daemon is needed\n"
    "  --audit-head HASH  with it: this hash must be in the chain\n"
    "  --stage-times FILE print how long stages took, from this database or backup, as JSON\n"
    "  --version, --help\n"
    "\n"
    "SIGTERM and SIGINT end it; work on nodes goes on where it can and is looked at again after "
    "the\n"
    "next start. SIGHUP reads secrets, scripts and artefacts again.\n"
    "Exit codes: 0 ended on request, 1 could not start, 2 bad settings. --verify-audit: 0 intact,\n"
    "1 broken, 2 the file cannot be read.\n";

struct options {
    const char *config, *data, *log_level, *verify, *head, *times;
    double speed;
};

static bool read_speed(const char *text, double *ret)
{
    *ret = strtod(text, NULL);
    if (*ret >= 1 && *ret <= SPEED_MAX)
        return true;
    fprintf(stderr, "clusterd: --speed needs a number from 1 to %d\n", SPEED_MAX);
    return false;
}

static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {{"config", required_argument, NULL, 'c'},
                                          {"data", required_argument, NULL, 'd'},
                                          {"log-level", required_argument, NULL, 'l'},
                                          {"speed", required_argument, NULL, 's'},
                                          {"verify-audit", required_argument, NULL, 'a'},
                                          {"audit-head", required_argument, NULL, 'H'},
                                          {"stage-times", required_argument, NULL, 't'},
                                          {"version", no_argument, NULL, 'V'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    int c;
    while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        switch (c) {
        case 'c':
            o->config = optarg;
            break;
        case 'd':
            o->data = optarg;
            break;
        case 'l':
            o->log_level = optarg;
            break;
        case 's':
            if (!read_speed(optarg, &o->speed))
                return -1;
            break;
        case 'a':
            o->verify = optarg;
            break;
        case 't':
            o->times = optarg;
            break;
        case 'H':
            o->head = optarg;
            break;
        case 'V':
            puts("clusterd " CLUSTERD_VERSION);
            exit(0);
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            return -1;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "clusterd: unexpected argument '%s'\n", argv[optind]);
        return -1;
    }
    return 0;
}

static bool load_config(struct options *o, struct config *config)
{
    struct diags d;
    diags_init(&d);
    if (o->config == NULL && access(CLUSTERD_SYSCONFDIR "/clusterd.yaml", R_OK) == 0)
        o->config = CLUSTERD_SYSCONFDIR "/clusterd.yaml";
    bool ok = config_load(o->config, config, &d);
    diags_sort(&d);
    for (int i = 0; i < d.count; i++)
        fprintf(stderr, "%s:%d:%d: %s\n", d.items[i].file, d.items[i].line, d.items[i].column,
                d.items[i].text);
    diags_done(&d);
    if (ok && o->data != NULL) {
        free(config->templates);
        config->templates = xasprintf("%s/templates", o->data);
    }
    return ok;
}

/* The exit code. */
static int verify_audit(const struct options *o)
{
    struct audit_report report;
    struct err err = {0};
    if (o->head != NULL && !audit_is_hash(o->head)) {
        fputs("clusterd: --audit-head needs 64 lower-case hex digits\n", stderr);
        return EXIT_USAGE;
    }
    if (store_audit_file(o->verify, o->head, &report, &err) < 0) {
        fprintf(stderr, "clusterd: %s\n", err.text);
        return EXIT_USAGE;
    }
    if (report.intact)
        printf("%s; the head is %s\n", report.text, report.end.hash);
    else
        printf("BROKEN: %s\n", report.text);
    return report.intact ? 0 : 1;
}

static int print_times(const char *path)
{
    struct err err = {0};
    json_t *times = store_stage_times(path, &err);
    if (times == NULL) {
        fprintf(stderr, "clusterd: %s\n", err.text);
        return EXIT_USAGE;
    }
    int rc = json_dumpf(times, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(times);
    return rc == 0 ? 0 : 1;
}

static void on_stop(int signum, void *user)
{
    log_info("daemon.stop", "ends on signal %d", signum);
    loop_stop(user);
}

static void on_hup(int signum, void *user)
{
    (void)signum;
    app_refresh(*(struct app **)user);
}

static int run(const struct config *config, const char *data_dir, double speed)
{
    struct err err = {0};
    struct loop *loop = loop_new();
    if (speed != 1)
        loop_set_speed(loop, speed);
    struct app *app = app_new(loop, config, data_dir, &err);
    if (app == NULL || loop_on_signal(loop, SIGTERM, on_stop, loop, &err) < 0 ||
        loop_on_signal(loop, SIGINT, on_stop, loop, &err) < 0 ||
        loop_on_signal(loop, SIGHUP, on_hup, &app, &err) < 0) {
        log_error("daemon.failed", "%s", err.text);
        app_free(app);
        (void)loop_free(loop);
        return err.code == ERR_INVALID ? EXIT_USAGE : 1;
    }
    loop_run(loop);
    bool failed = app_failed(app);
    app_free(app);
    int left = loop_free(loop);
    return failed || left > 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct options o = {.speed = 1};
    struct config config = {0};
    if (parse_options(argc, argv, &o) < 0) {
        fputs("clusterd: see 'clusterd --help'\n", stderr);
        return EXIT_USAGE;
    }
    if (o.times != NULL)
        return print_times(o.times);
    if (o.verify != NULL)
        return verify_audit(&o);
    if (o.head != NULL) {
        fputs("clusterd: --audit-head goes with --verify-audit\n", stderr);
        return EXIT_USAGE;
    }
    if (!load_config(&o, &config))
        return EXIT_USAGE;
    int level = log_level_parse(o.log_level != NULL ? o.log_level : config.log_level);
    if (level < 0) {
        fprintf(stderr, "clusterd: unknown log level; use error, warn, info or debug\n");
        config_done(&config);
        return EXIT_USAGE;
    }
    log_set_level((enum log_level)level);
    (void)signal(SIGPIPE, SIG_IGN);
    int rc = run(&config, o.data != NULL ? o.data : CLUSTERD_DATADIR, o.speed);
    config_done(&config);
    return rc;
}
