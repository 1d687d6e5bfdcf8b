/* nodeprobe: prints what this machine is made of as JSON. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe/probe.h"

static const char usage[] =
    "usage: nodeprobe [--root DIR] [--compact]\n"
    "\n"
    "Prints the hardware of this machine as one JSON object: system, board, cpu, memory, disks,\n"
    "nics, gpus, hcas. Run it as root: serial numbers are hidden from others. RDMA devices are "
    "read\n"
    "through libibverbs and NVIDIA GPUs through NVML, where these libraries are installed.\n"
    "\n"
    "  --root DIR  read /sys and /proc below DIR (a recorded machine) instead of this one\n"
    "  --compact   on one line\n"
    "  --version, --help\n"
    "\n"
    "Exit codes: 0 printed, 1 could not print, 2 bad options.\n";

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"root", required_argument, NULL, 'r'},
                                          {"compact", no_argument, NULL, 'c'},
                                          {"version", no_argument, NULL, 'V'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    struct probe p = {.root = ""};
    size_t flags = JSON_INDENT(2);
    int c;
    while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        switch (c) {
        case 'r':
            p.root = optarg;
            break;
        case 'c':
            flags = JSON_COMPACT;
            break;
        case 'V':
            puts("nodeprobe " CLUSTERD_VERSION);
            return 0;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            fputs("nodeprobe: see 'nodeprobe --help'\n", stderr);
            return 2;
        }
    }
    p.out = json_pack("{s:i,s:s}", "schema", PROBE_SCHEMA, "tool", "nodeprobe " CLUSTERD_VERSION);
    p.problems = json_array();
    probe_system(&p);
    probe_cpu(&p);
    probe_memory(&p);
    probe_disks(&p);
    probe_nics(&p);
    probe_gpus(&p);
    probe_hcas(&p);
    probe_psus(&p);
    (void)json_object_set_new(p.out, "problems", p.problems);
    int rc = json_dumpf(p.out, stdout, flags) < 0 || putchar('\n') == EOF || fflush(stdout) != 0;
    json_decref(p.out);
    return rc;
}
