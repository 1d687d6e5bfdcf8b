/* clusterd-sim: a fleet of simulated machines; docs/sim.md. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/mem.h"
#include "sim/sim.h"

enum { EXIT_USAGE = 2, FAULTS_MAX = 256 };

static const char usage[] =
    "usage: clusterd-sim (--nodes N | --fleet FILE) [--boot-url URL] [--fault "
    "NODESET=FAULT[:ARG]]...\n"
    "                    [--answers DIR] [--seed N] [--speed X] [--control PATH] [--bmc-port N]\n"
    "                    [--redfish-port N] [--ssh-port N] [--no-redfish] [--print-spec]\n"
    "                    [--log-level LEVEL]\n"
    "\n"
    "Stands for thousands of machines on loopback addresses: BMCs over IPMI (RMCP+) and Redfish,\n"
    "boot ROMs and ramdisks that fetch from clusterd, and SSH servers of the installed systems.\n"
    "Nothing is executed on this host, and no traffic leaves it.\n"
    "\n"
    "  --nodes N        N machines that are made up; --print-spec prints the spec that fits them\n"
    "  --fleet FILE     machines from a JSON file, see docs/sim.md\n"
    "  --boot-url URL   clusterd's boot server; without it nothing boots from the network\n"
    "  --fault F        bmc-dead bmc-slow power-lies boot-ignored pxe-always bmc-freezes "
    "bmc-locks\n"
    "                   ssh-drops reboots-twice disk-full clock-wrong gpu-missing serial-changed\n"
    "                   bad-password script-fails:STAGE install-fails no-pxe hangs slow-nic[:HCA]\n"
    "  --answers DIR    STAGE.log and STAGE.rc: what scripts of a stage print, their exit code\n"
    "  --seed N         decides everything that looks like chance (1)\n"
    "  --speed X        durations of real machines are divided by X (60)\n"
    "  --control PATH   a unix socket to look in and to change things; see docs/sim.md\n"
    "  --version, --help\n"
    "\n"
    "Ends on SIGTERM and SIGINT. Exit codes: 0 ended on request, 1 could not start, 2 bad usage.\n";

struct options {
    int nodes;
    const char *fleet, *control, *log_level;
    const char *faults[FAULTS_MAX];
    int fault_count;
    bool print_spec, no_redfish;
};

enum {
    OPT_NODES = 256,
    OPT_FLEET,
    OPT_BOOT,
    OPT_FAULT,
    OPT_SEED,
    OPT_SPEED,
    OPT_CONTROL,
    OPT_BMC,
    OPT_REDFISH,
    OPT_SSH,
    OPT_ANSWERS,
    OPT_NO_REDFISH,
    OPT_PRINT,
    OPT_LOG,
    OPT_VERSION
};

static int take_option(struct sim *s, struct options *o, int c)
{
    switch (c) {
    case OPT_NODES:
        o->nodes = atoi(optarg);
        return o->nodes > 0 && o->nodes <= 100000 ? 0 : -1;
    case OPT_FLEET:
        o->fleet = optarg;
        return 0;
    case OPT_BOOT:
        s->boot_url = optarg;
        return 0;
    case OPT_FAULT:
        if (o->fault_count == FAULTS_MAX)
            return -1;
        o->faults[o->fault_count++] = optarg;
        return 0;
    case OPT_SEED:
        s->seed = (unsigned)strtoul(optarg, NULL, 10);
        return 0;
    case OPT_SPEED:
        s->speed = atof(optarg);
        return s->speed > 0 ? 0 : -1;
    case OPT_CONTROL:
        o->control = optarg;
        return 0;
    case OPT_BMC:
        s->bmc_port = atoi(optarg);
        return 0;
    case OPT_REDFISH:
        s->redfish_port = atoi(optarg);
        return 0;
    case OPT_SSH:
        s->ssh_port = atoi(optarg);
        return 0;
    case OPT_ANSWERS:
        s->answers_dir = optarg;
        return 0;
    case OPT_NO_REDFISH:
        o->no_redfish = true;
        return 0;
    case OPT_PRINT:
        o->print_spec = true;
        return 0;
    case OPT_LOG:
        o->log_level = optarg;
        return 0;
    case OPT_VERSION:
        puts("clusterd-sim " CLUSTERD_VERSION);
        exit(0);
    case 'h':
        fputs(usage, stdout);
        exit(0);
    default:
        return -1;
    }
}

static int parse_options(int argc, char **argv, struct sim *s, struct options *o)
{
    static const struct option longs[] = {{"nodes", required_argument, NULL, OPT_NODES},
                                          {"fleet", required_argument, NULL, OPT_FLEET},
                                          {"boot-url", required_argument, NULL, OPT_BOOT},
                                          {"fault", required_argument, NULL, OPT_FAULT},
                                          {"seed", required_argument, NULL, OPT_SEED},
                                          {"speed", required_argument, NULL, OPT_SPEED},
                                          {"control", required_argument, NULL, OPT_CONTROL},
                                          {"bmc-port", required_argument, NULL, OPT_BMC},
                                          {"redfish-port", required_argument, NULL, OPT_REDFISH},
                                          {"ssh-port", required_argument, NULL, OPT_SSH},
                                          {"answers", required_argument, NULL, OPT_ANSWERS},
                                          {"no-redfish", no_argument, NULL, OPT_NO_REDFISH},
                                          {"print-spec", no_argument, NULL, OPT_PRINT},
                                          {"log-level", required_argument, NULL, OPT_LOG},
                                          {"version", no_argument, NULL, OPT_VERSION},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    int c;
    while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1)
        if (take_option(s, o, c) < 0)
            return -1;
    return optind == argc && (o->nodes > 0) != (o->fleet != NULL) ? 0 : -1;
}

static const struct {
    int (*start)(struct sim *s, struct err *err);
    void (*stop)(struct sim *s);
    bool optional;
} heads[] = {{pxe_start, pxe_stop, false},
             {ssh_start, ssh_stop, false},
             {ipmi_start, ipmi_stop, false},
             {redfish_start, redfish_stop, true}};

static int start_heads(struct sim *s, const struct options *o, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        if (!(heads[i].optional && o->no_redfish) && heads[i].start(s, err) < 0)
            return -(int)err->code;
    return o->control != NULL ? control_start(s, o->control, err) : 0;
}

static void on_stop(int signum, void *user)
{
    (void)signum;
    loop_stop(user);
}

static int run(struct sim *s, const struct options *o)
{
    struct err err = {0};
    int rc = start_heads(s, o, &err);
    if (rc == 0 && loop_on_signal(s->loop, SIGTERM, on_stop, s->loop, &err) == 0 &&
        loop_on_signal(s->loop, SIGINT, on_stop, s->loop, &err) == 0) {
        log_info("sim.ready", "%d machines; IPMI on UDP port %d, SSH on port %d", s->node_count,
                 s->bmc_port, s->ssh_port);
        loop_run(s->loop);
    } else {
        log_error("sim.failed", "%s", err.text);
    }
    control_stop(s);
    for (size_t i = ARRAY_LEN(heads); i-- > 0;)
        heads[i].stop(s);
    return err.code == ERR_OK ? 0 : 1;
}

/* Thousands of machines hold thousands of descriptors. */
static void raise_file_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r);
    }
}

int main(int argc, char **argv)
{
    struct sim s = {.seed = 1,
                    .speed = 60,
                    .bmc_port = SIM_BMC_PORT,
                    .redfish_port = SIM_REDFISH_PORT,
                    .ssh_port = SIM_SSH_PORT,
                    .times = {.post = 120000,
                              .pxe = 15000,
                              .ramdisk = 20000,
                              .os_boot = 40000,
                              .shutdown = 20000,
                              .ac_ramp = 5000,
                              .image_mb_s = 500}};
    struct options o = {.log_level = "info"};
    struct err err = {0};
    if (parse_options(argc, argv, &s, &o) < 0 || log_level_parse(o.log_level) < 0) {
        fputs("clusterd-sim: see 'clusterd-sim --help'\n", stderr);
        return EXIT_USAGE;
    }
    log_set_level((enum log_level)log_level_parse(o.log_level));
    (void)signal(SIGPIPE, SIG_IGN);
    raise_file_limit();
    s.loop = loop_new();
    int rc = 0;
    if (o.fleet != NULL)
        rc = sim_read_fleet(&s, o.fleet, &err);
    else
        sim_make_fleet(&s, o.nodes);
    for (int i = 0; i < o.fault_count && rc == 0; i++)
        rc = sim_set_fault(&s, o.faults[i], true, &err);
    if (rc < 0)
        fprintf(stderr, "clusterd-sim: %s\n", err.text);
    else if (o.print_spec)
        sim_print_spec(&s);
    rc = rc < 0 ? EXIT_USAGE : o.print_spec ? 0 : run(&s, &o);
    sim_free(&s);
    return loop_free(s.loop) > 0 ? 1 : rc;
}
