/*
 * The fleet simulator: many machines in one process, each with a BMC, a boot ROM, a disk and an
 * installed system, speaking the real protocols on loopback addresses.
 *
 * main.c reads the fleet and the faults and opens the heads: ipmi.c and redfish.c (BMCs), pxe.c
 * (boot ROM, ramdisk, first boot), ssh.c (the installed system), control.c (tests and rehearsals
 * look in and change things). machine.c is the machine itself: power, boot, disk; only it changes a
 * machine's phase. load.c adds up what the fleet asks of networks and feeds. Durations are those of
 * real machines divided by `speed`. The same fleet, faults and seed give the same machines and the
 * same decisions.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/names.h"
#include "base/strbuf.h"
#include "loop/loop.h"

enum {
    SIM_GPUS_MAX = 16,
    SIM_PARTS_MAX = 64,
    SIM_BMC_PORT = 6230, /* defaults of --bmc-port, --redfish-port, --ssh-port */
    SIM_REDFISH_PORT = 6443,
    SIM_SSH_PORT = 6222,
};

/* What is wrong with a machine: bits of sim_node.faults. Names in sim_fault_names (sim.c). */
enum sim_fault {
    FAULT_BMC_DEAD = 1 << 0,   /* the BMC never answers */
    FAULT_BMC_SLOW = 1 << 1,   /* each answer takes fault_ms (default 1500) */
    FAULT_POWER_LIES = 1 << 2, /* the BMC says OK to power commands and shows the opposite state */
    FAULT_BOOT_IGNORED = 1 << 3, /* the one-time boot device is accepted, shown, and not honoured */
    FAULT_PXE_ALWAYS = 1 << 4,   /* boots from the network first whatever was asked for */
    FAULT_BMC_FREEZES =
        1 << 5, /* above fault_rate requests in a second (default 20) it is silent for 30 s */
    FAULT_BMC_LOCKS = 1 << 6, /* 3 bad logins within 5 min lock the account for 5 min */
    FAULT_SSH_DROPS = 1 << 7, /* the first run of each stage loses its connection in the middle */
    FAULT_REBOOTS_TWICE =
        1 << 8,               /* after the first boot from disk it restarts once more by itself */
    FAULT_DISK_FULL = 1 << 9, /* nothing can be written below /var/lib of the installed system */
    FAULT_CLOCK_WRONG = 1 << 10,    /* the system's clock is a day behind */
    FAULT_GPU_MISSING = 1 << 11,    /* the last GPU is not on the bus */
    FAULT_SERIAL_CHANGED = 1 << 12, /* serial, UUID and board are another machine's */
    FAULT_BAD_PASSWORD = 1 << 13,   /* the BMC's password is not the one in the fleet */
    FAULT_SCRIPT_FAILS = 1 << 14,   /* scripts of stage fault_arg end with exit code 1 */
    FAULT_INSTALL_FAILS = 1 << 15,  /* the ramdisk reports that the disk takes no data */
    FAULT_NO_PXE = 1 << 16,         /* the boot ROM never asks: cable out */
    FAULT_HANGS = 1 << 17,          /* the installed system never comes up after the install */
    FAULT_SLOW_NIC = 1 << 18,       /* HCA fault_arg (without one: each) carries a tenth */
};

/* One part of a machine, as nodeprobe would tell of it. */
struct sim_part {
    char kind[12];   /* system, board, cpu, memory, disk, nic, gpu, hca, psu */
    char slot[24];   /* "cpu0", "DIMM_A1", "nvme0n1", "eth0", "0000:17:00.0", "mlx5_0" */
    char serial[56]; /* serial, MAC or GUID */
    char model[64];
    char firmware[24];
    int64_t size; /* MiB of memory, bytes of a disk, Mb/s of a port */
    bool down;    /* of an HCA's port; gbs 0: as fast as it was made */
    int gbs;
};

enum sim_phase {
    PHASE_OFF,
    PHASE_POST,    /* firmware runs its tests */
    PHASE_PXE,     /* asks for a boot script */
    PHASE_RAMDISK, /* the ramdisk is up and asks for jobs */
    PHASE_WRITING, /* the ramdisk writes an image */
    PHASE_BOOTING, /* the system on the disk starts */
    PHASE_RUNNING, /* SSH answers */
    PHASE_NO_OS,   /* booted from a disk that holds nothing */
};

/* What is fetched to boot and to install. */
enum sim_traffic { TRAFFIC_KERNEL, TRAFFIC_INITRD, TRAFFIC_IMAGE, TRAFFIC_KINDS };
enum { SIM_FEEDS_MAX = 17 }; /* a rack's own and those above */

/* A download under way, load.c. Zeroed: none. */
struct sim_transfer {
    struct sim *sim;
    struct sim_transfer *next, **link;
    double left; /* bytes */
    timer_fn fn;
    void *user;
};

struct sim_sessions {
    int open, peak;
};

struct sim_load {
    struct sim_transfer *transfers;
    int transfer_count;
    struct timer timer;
    int64_t advanced_at;
    double uplink_mb_s; /* of the head node; 0: without limit */
    double peak_mb_s;
    struct {
        int64_t fetches, bytes;
    } traffic[TRAFFIC_KINDS];
    struct sim_feed {
        char *name;
        double now, peak; /* W */
    } * feeds;
    int feed_count, feed_capacity;
    struct sim_sessions bmc, ssh;
    json_t *scripts; /* {STAGE: {runs, seconds, source}} of what was answered */
};

enum sim_boot { SIM_BOOT_DEFAULT, SIM_BOOT_PXE, SIM_BOOT_DISK };
enum sim_power { SIM_POWER_OFF, SIM_POWER_ON, SIM_POWER_CYCLE, SIM_POWER_RESET, SIM_POWER_SOFT };

/* A scripted run on the installed system: what ssh.c knows of a run id. */
struct sim_run;

struct sim_node {
    struct sim *sim;
    int index;
    char name[64];
    uint32_t bmc, address; /* host byte order, both in 127.0.0.0/8 */
    char serial[32], uuid[37], mac[18];
    char bmc_user[17], bmc_password[21];
    struct sim_part parts[SIM_PARTS_MAX];
    int part_count;

    struct sim_watts {
        int inrush, boot, idle, burnin; /* what it draws in each state */
    } watts;
    int feeds[SIM_FEEDS_MAX], feed_count; /* into sim.load.feeds */
    int64_t stands_for[TRAFFIC_KINDS]; /* bytes that are counted for what it fetches; 0: its own */
    char answers[64];                  /* a folder of answers_dir for machines such as this */
    bool burning;                      /* ssh.c: a script works it hard */
    double watts_counted;              /* its share of sim.watts_now */
    struct timer inrush;

    char driver[24];     /* of the GPUs */
    char workload[120];  /* what the marker file says; workload_at 0: there is none */
    int64_t workload_at; /* wall ms */

    unsigned faults;
    int fault_ms, fault_rate;
    char fault_arg[40];

    /* machine.c */
    enum sim_phase phase;
    bool on;                          /* the truth; what the BMC shows is machine_power_shown() */
    int64_t phase_since, power_since; /* loop_now() */
    enum sim_boot override;
    bool override_efi, override_once;
    struct timer timer;
    char boot_id[37]; /* of the boot in work */
    int boots;        /* how often it was started */
    bool rebooted_once;

    /* the disk, written by pxe.c */
    bool installed, proof_due;
    char image_sha256[65], token[80], report_url[64], ssh_key[200];
    int installs; /* images written to their end */

    void *pxe;  /* owned by pxe.c, freed by pxe_stop() */
    void *ipmi; /* owned by ipmi.c */
    void *ssh;  /* owned by ssh.c: host key, runs, connections */

    /* counters for control.c; each head counts its own */
    struct {
        int64_t bmc_requests, bmc_logins, bmc_bad_logins, bmc_closes /* IPMI sessions ended */,
            power_ons, power_offs, ssh_logins, ssh_commands, runs_started,
            runs_doubled /* the same run id begun twice: must stay 0 */, boot_bytes;
    } count;
};

struct sim {
    struct loop *loop;
    struct sim_node *nodes;
    int node_count;
    struct map *by_bmc, *by_address; /* dotted quad -> struct sim_node */
    struct map *by_name;
    unsigned seed;
    double speed;         /* 1: as slow as life */
    const char *boot_url; /* "http://127.0.0.1:8080" of clusterd; NULL: no network boot */
    int bmc_port, redfish_port, ssh_port;
    const char *answers_dir; /* STAGE.log, STAGE.rc instead of ssh_answers.c's own; NULL: none */
    struct {
        int64_t post, pxe, ramdisk, os_boot, shutdown, ac_ramp; /* ms at speed 1 */
        double image_mb_s;
    } times;
    double watts_now, watts_peak; /* of all machines; machine.c keeps them */
    int64_t peak_at;              /* loop_now() */
    struct sim_load load;
    /* {STAGE: seconds that a script takes}: instead of those of ssh_answers.c, and for stages that
     * are not known there. NULL: none */
    json_t *stage_seconds, *assumed_seconds;
    void *ipmi, *redfish, *pxe, *ssh, *control; /* the heads' own state */
};

/* ---- sim.c ---- */

extern const struct name sim_fault_names[]; /* "bmc-dead", ... */
extern const struct name sim_phase_names[];

/* N machines that are made up: n0001 ..., BMCs from 127.64.0.1, addresses from 127.128.0.2 on, two
 * disks, two NICs, eight GPUs. */
void sim_make_fleet(struct sim *s, int count);
/* The machines of a fleet file (docs/sim.md). */
int sim_read_fleet(struct sim *s, const char *path, struct err *err);
/* The spec that fits a made-up fleet, as YAML. */
void sim_print_spec(const struct sim *s);
/* "NODESET=FAULT[:ARG]" */
int sim_set_fault(struct sim *s, const char *text, bool on, struct err *err);
void sim_free(struct sim *s);
const char *sim_dotted(uint32_t address, char ret[16]);
struct sim_node *sim_by_bmc(struct sim *s, uint32_t address);
struct sim_node *sim_by_address(struct sim *s, uint32_t address);
struct sim_node *sim_by_name(struct sim *s, const char *name);
/* A number that depends on the seed, the node and the question only: 0 .. below-1. */
unsigned sim_draw(const struct sim_node *n, const char *question, unsigned below);
/* A duration of real life as this simulation takes it, at least 1 ms. */
int64_t sim_ms(const struct sim *s, int64_t real_ms);
static inline bool sim_has(const struct sim_node *n, enum sim_fault f)
{
    return (n->faults & (unsigned)f) != 0;
}

/* ---- load.c ---- */

/* A machine has fetched `received` bytes: fn(user) when a real one would have them all. */
void sim_transfer_start(struct sim_node *n, struct sim_transfer *t, enum sim_traffic kind,
                        int64_t received, timer_fn fn, void *user);
void sim_transfer_stop(struct sim_transfer *t);
/* The index of a feed; new where it is not known. */
int sim_feed(struct sim *s, const char *name);
/* The node draws so much more. */
void sim_feeds_add(struct sim_node *n, double watts);
void sim_count_open(struct sim_sessions *c, int change);
/* A script of this stage was answered; `source`: where its duration comes from. */
void sim_count_script(struct sim *s, const char *stage, double seconds, const char *source);
/* The socket, not yet bound, hears nobody but this host. */
void sim_loopback_only(int fd);
/* The peaks and sums of all that, docs/sim.md. */
json_t *sim_load_report(const struct sim *s);
void sim_load_done(struct sim *s);

/* ---- machine.c ---- */

/* Carries out what a BMC was asked for. FAULT_POWER_LIES changes only what is shown. */
void machine_power(struct sim_node *n, enum sim_power what);
bool machine_power_shown(const struct sim_node *n);
void machine_set_boot(struct sim_node *n, enum sim_boot device, bool efi, bool once);
/* What the machine draws now, in watts. */
double machine_watts(const struct sim_node *n);
/* The installed system answers SSH. */
static inline bool machine_is_running(const struct sim_node *n)
{
    return n->phase == PHASE_RUNNING;
}
/* pxe.c tells: the next phase of a network boot (PXE -> RAMDISK -> WRITING), or that this boot goes
 * on from the disk, or that the machine restarts. */
void machine_enter(struct sim_node *n, enum sim_phase phase);
void machine_boot_disk(struct sim_node *n);
void machine_reboot(struct sim_node *n);
/* nodeprobe's JSON (docs/nodeprobe.md) for the machine as it is now. The caller json_decref()s. */
json_t *machine_facts(const struct sim_node *n);
/* Brings the sum of all machines' watts up to date after something of the node changed. */
void machine_count_watts(struct sim_node *n);
void machine_stop(struct sim_node *n);

/* ---- the heads: each opens its sockets, and its stop frees everything, timers included ---- */

int ipmi_start(struct sim *s, struct err *err);
void ipmi_stop(struct sim *s);
int redfish_start(struct sim *s, struct err *err);
void redfish_stop(struct sim *s);
int ssh_start(struct sim *s, struct err *err);
void ssh_stop(struct sim *s);
/* The machine went down or came up: connections end, running scripts die. */
void ssh_machine_down(struct sim_node *n);
/* What was asked over SSH since the simulator started or the log was cleared, one a line; of the
 * last 64 KiB. */
const char *ssh_said(struct sim_node *n);
void ssh_said_clear(struct sim_node *n);
/* "ssh-ed25519 AAAA...": the host key that an install of this node makes. Deterministic. */
void ssh_host_key(struct sim_node *n, char *ret, size_t size);
int pxe_start(struct sim *s, struct err *err);
void pxe_stop(struct sim *s);
/* Asks for the boot script of this node and follows it. */
void pxe_boot(struct sim_node *n);
/* The installed system's first boot after an install: reports the proof. */
void pxe_first_boot(struct sim_node *n);
/* Power was cut: whatever is in flight for the node ends without a word. */
void pxe_machine_down(struct sim_node *n);
int control_start(struct sim *s, const char *path, struct err *err);
void control_stop(struct sim *s);
