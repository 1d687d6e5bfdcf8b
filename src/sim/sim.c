/* The fleet: made up or read from a file, faults, look-up, and the draws that a seed decides. */
#include "sim/sim.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/fsutil.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/nodeset.h"

enum { FLEET_MAX_BYTES = 64 << 20, NODES_MAX = 100000 };

const struct name sim_fault_names[] = {{FAULT_BMC_DEAD, "bmc-dead"},
                                       {FAULT_BMC_SLOW, "bmc-slow"},
                                       {FAULT_POWER_LIES, "power-lies"},
                                       {FAULT_BOOT_IGNORED, "boot-ignored"},
                                       {FAULT_PXE_ALWAYS, "pxe-always"},
                                       {FAULT_BMC_FREEZES, "bmc-freezes"},
                                       {FAULT_BMC_LOCKS, "bmc-locks"},
                                       {FAULT_SSH_DROPS, "ssh-drops"},
                                       {FAULT_REBOOTS_TWICE, "reboots-twice"},
                                       {FAULT_DISK_FULL, "disk-full"},
                                       {FAULT_CLOCK_WRONG, "clock-wrong"},
                                       {FAULT_GPU_MISSING, "gpu-missing"},
                                       {FAULT_SERIAL_CHANGED, "serial-changed"},
                                       {FAULT_BAD_PASSWORD, "bad-password"},
                                       {FAULT_SCRIPT_FAILS, "script-fails"},
                                       {FAULT_INSTALL_FAILS, "install-fails"},
                                       {FAULT_NO_PXE, "no-pxe"},
                                       {FAULT_HANGS, "hangs"},
                                       {FAULT_SLOW_NIC, "slow-nic"},
                                       {0, NULL}};

const struct name sim_phase_names[] = {
    {PHASE_OFF, "off"},         {PHASE_POST, "post"},       {PHASE_PXE, "pxe"},
    {PHASE_RAMDISK, "ramdisk"}, {PHASE_WRITING, "writing"}, {PHASE_BOOTING, "booting"},
    {PHASE_RUNNING, "running"}, {PHASE_NO_OS, "no-os"},     {0, NULL}};

/* ---- look-up and chance ---- */

const char *sim_dotted(uint32_t address, char ret[16])
{
    struct in_addr in = {.s_addr = htonl(address)};
    return inet_ntop(AF_INET, &in, ret, 16);
}

static struct sim_node *by(const struct map *m, uint32_t address)
{
    char key[16];
    return map_get(m, sim_dotted(address, key));
}

struct sim_node *sim_by_bmc(struct sim *s, uint32_t address)
{
    return by(s->by_bmc, address);
}

struct sim_node *sim_by_address(struct sim *s, uint32_t address)
{
    return by(s->by_address, address);
}

struct sim_node *sim_by_name(struct sim *s, const char *name)
{
    return map_get(s->by_name, name);
}

unsigned sim_draw(const struct sim_node *n, const char *question, unsigned below)
{
    char text[256], hex[DIGEST_HEX_SIZE], part[9] = "";
    (void)snprintf(text, sizeof text, "%u %s %s", n->sim->seed, n->name, question);
    digest_hex(text, strlen(text), hex);
    memcpy(part, hex, 8);
    return below == 0 ? 0 : (unsigned)strtoul(part, NULL, 16) % below;
}

int64_t sim_ms(const struct sim *s, int64_t real_ms)
{
    int64_t ms = (int64_t)((double)real_ms / s->speed);
    return ms > 1 ? ms : 1;
}

static void index_nodes(struct sim *s)
{
    char key[16];
    s->by_bmc = map_new();
    s->by_address = map_new();
    s->by_name = map_new();
    for (int i = 0; i < s->node_count; i++) {
        struct sim_node *n = &s->nodes[i];
        n->sim = s;
        n->index = i;
        (void)map_set(s->by_bmc, sim_dotted(n->bmc, key), n);
        (void)map_set(s->by_address, sim_dotted(n->address, key), n);
        (void)map_set(s->by_name, n->name, n);
    }
}

/* ---- machines that are made up ---- */

struct shape {
    int cpus, threads, dimms, gpus, nics, hcas, disks;
    int64_t memory_mib, disk_gb, hca_mbps;
    const char *gpu_model;
};

static struct sim_part *add_part(struct sim_node *n, const char *kind, int64_t size)
{
    if (n->part_count == SIM_PARTS_MAX)
        return &n->parts[SIM_PARTS_MAX - 1];
    struct sim_part *p = &n->parts[n->part_count++];
    *p = (struct sim_part){.size = size};
    (void)snprintf(p->kind, sizeof p->kind, "%s", kind);
    (void)snprintf(p->firmware, sizeof p->firmware, "1.0");
    return p;
}

#define SET(field, ...) (void)snprintf((field), sizeof(field), __VA_ARGS__)

static void add_parts(struct sim_node *n, const struct shape *sh)
{
    struct sim_part *p = add_part(n, "system", 0);
    SET(p->slot, "system");
    SET(p->serial, "%s", n->serial);
    SET(p->model, "SIM-8");
    p = add_part(n, "board", 0);
    SET(p->slot, "board");
    SET(p->serial, "B%s", n->serial);
    SET(p->model, "SIM-BOARD");
    for (int i = 0; i < sh->cpus; i++) {
        p = add_part(n, "cpu", sh->threads / sh->cpus);
        SET(p->slot, "CPU%d", i);
        SET(p->serial, "C%s-%d", n->serial, i);
        SET(p->model, "Simulated CPU");
    }
    for (int i = 0; i < sh->dimms; i++) {
        p = add_part(n, "memory", sh->memory_mib / sh->dimms);
        SET(p->slot, "DIMM_%c%d", 'A' + i / 2, i % 2 + 1);
        SET(p->serial, "M%s-%d", n->serial, i);
        SET(p->model, "SIM-DDR5");
    }
    for (int i = 0; i < sh->disks; i++) {
        p = add_part(n, "disk", sh->disk_gb * 1000000000LL);
        SET(p->slot, "nvme%dn1", i);
        SET(p->serial, "D%s-%d", n->serial, i);
        SET(p->model, "SIM-NVME");
    }
    for (int i = 0; i < sh->nics; i++) {
        p = add_part(n, "nic", 25000);
        SET(p->slot, "eth%d", i);
        if (i == 0)
            SET(p->serial, "%s", n->mac);
        else
            SET(p->serial, "06:%02x:%02x:%02x:%02x:%02x", i, n->index >> 24 & 255,
                n->index >> 16 & 255, n->index >> 8 & 255, n->index & 255);
        SET(p->model, "simnic");
    }
    for (int i = 0; i < sh->gpus; i++) {
        p = add_part(n, "gpu", 81559);
        SET(p->slot, "0000:%02x:00.0", 0x17 + i * 0x10);
        SET(p->serial, "13206%07d%d", n->index, i);
        SET(p->model, "%s", sh->gpu_model);
    }
    for (int i = 0; i < sh->hcas; i++) {
        p = add_part(n, "hca", sh->hca_mbps);
        SET(p->slot, "mlx5_%d", i);
        SET(p->serial, "5c25:7303:%04x:%02x%02x", n->index & 0xffff, n->index >> 16 & 255, i);
        SET(p->model, "SIM-HCA");
    }
}

static void set_defaults(struct sim_node *n)
{
    SET(n->bmc_user, "admin");
    SET(n->bmc_password, "sim-password");
    n->watts = (struct sim_watts){.inrush = 1500, .boot = 1200, .idle = 700, .burnin = 3000};
}

void sim_make_fleet(struct sim *s, int count)
{
    static const struct shape shape = {.cpus = 2,
                                       .threads = 64,
                                       .dimms = 4,
                                       .gpus = 8,
                                       .nics = 2,
                                       .hcas = 2,
                                       .disks = 2,
                                       .memory_mib = 524288,
                                       .disk_gb = 960,
                                       .hca_mbps = 400000,
                                       .gpu_model = "SIM-GPU"};
    s->node_count = count;
    s->nodes = xcalloc((size_t)count + 1, sizeof *s->nodes);
    for (int i = 0; i < count; i++) {
        struct sim_node *n = &s->nodes[i];
        n->index = i;
        SET(n->name, "n%05d", i + 1);
        n->bmc = 0x7f400001u + (uint32_t)i;
        n->address = 0x7f800002u + (uint32_t)i;
        SET(n->serial, "SN-SIM-%05d", i + 1);
        SET(n->uuid, "51a00000-0000-4000-8000-%012x", i + 1);
        SET(n->mac, "02:51:%02x:%02x:%02x:%02x", i >> 24 & 255, i >> 16 & 255, i >> 8 & 255,
            i & 255);
        set_defaults(n);
        add_parts(n, &shape);
    }
    index_nodes(s);
}

void sim_print_spec(const struct sim *s)
{
    printf("# The spec of a made-up fleet of %d machines: clusterd-sim --nodes %d\n"
           "cluster: sim\n"
           "networks:\n"
           "  provision: {cidr: 127.128.0.0/9, head: 127.128.0.1, mode: none}\n"
           "  bmc: {cidr: 127.64.0.0/10}\n"
           "credentials:\n"
           "  bmc: {user: admin, password: {file: bmc.pw}}   # sim-password\n"
           "  ssh: {user: root, key: {file: id_ed25519}, port: %d}\n"
           "classes:\n"
           "  sim: {profile: sim}\n"
           "racks:\n",
           s->node_count, s->node_count, s->ssh_port);
    for (int r = 0; r <= (s->node_count - 1) / 32; r++)
        printf("  r%d: {}\n", r + 1);
    puts("nodes:");
    for (int i = 0; i < s->node_count; i++) {
        const struct sim_node *n = &s->nodes[i];
        char bmc[16], address[16];
        printf("  - {name: %s, class: sim, rack: r%d, unit: \"%d\", bmc: %s, bmc_port: %d, "
               "address: %s, "
               "mac: \"%s\", serial: %s, uuid: \"%s\"}\n",
               n->name, i / 32 + 1, i % 32 + 1, sim_dotted(n->bmc, bmc), s->bmc_port,
               sim_dotted(n->address, address), n->mac, n->serial, n->uuid);
    }
}

/* ---- machines from a file ---- */

static int64_t number(const json_t *row, const char *key, int64_t fallback)
{
    const json_t *v = json_object_get(row, key);
    return json_is_integer(v) ? json_integer_value(v) : fallback;
}

static const char *text(const json_t *row, const char *key, const char *fallback)
{
    const char *v = json_string_value(json_object_get(row, key));
    return v != NULL ? v : fallback;
}

static int read_address(const json_t *row, const char *key, uint32_t *ret, struct err *err)
{
    struct in_addr in;
    const char *t = text(row, key, "");
    if (inet_pton(AF_INET, t, &in) != 1 || (ntohl(in.s_addr) >> 24) != 127)
        return err_set(err, ERR_INVALID, "%s '%s': an address in 127.0.0.0/8 is expected", key, t);
    *ret = ntohl(in.s_addr);
    return 0;
}

static int small(const json_t *row, const char *key, int fallback, int max)
{
    int64_t v = number(row, key, fallback);
    return v < 0 ? 0 : v > max ? max : (int)v;
}

/* The MACs of its interfaces where they were given. */
static void name_nics(struct sim_node *n, const json_t *macs)
{
    for (int i = 0, nic = 0; i < n->part_count; i++) {
        if (strcmp(n->parts[i].kind, "nic") != 0)
            continue;
        const json_t *mac = json_array_get(macs, (size_t)nic++);
        if (json_is_string(mac))
            SET(n->parts[i].serial, "%s", json_string_value(mac));
    }
}

/* What load.c counts. */
static void read_load(struct sim *s, struct sim_node *n, const json_t *row)
{
    const json_t *feed;
    size_t i;
    json_array_foreach(json_object_get(row, "feeds"), i, feed)
    {
        if (json_is_string(feed) && n->feed_count < SIM_FEEDS_MAX)
            n->feeds[n->feed_count++] = sim_feed(s, json_string_value(feed));
    }
    n->stands_for[TRAFFIC_KERNEL] = number(row, "kernel_bytes", 0);
    n->stands_for[TRAFFIC_INITRD] = number(row, "initrd_bytes", 0);
    n->stands_for[TRAFFIC_IMAGE] = number(row, "image_bytes", 0);
}

static int read_node(struct sim_node *n, const json_t *row, struct err *err)
{
    struct shape sh = {.cpus = small(row, "cpu_packages", 2, 4),
                       .dimms = small(row, "dimms", 4, 16),
                       .gpus = small(row, "gpus", 0, SIM_GPUS_MAX),
                       .nics = small(row, "nics", 1, 8),
                       .hcas = small(row, "hcas", 0, 12),
                       .disks = small(row, "disks", 1, 8),
                       .memory_mib = number(row, "memory_mib", 262144),
                       .disk_gb = number(row, "disk_gb", 960),
                       .hca_mbps = number(row, "hca_mbps", 400000),
                       .gpu_model = text(row, "gpu_model", "SIM-GPU")};
    sh.cpus = sh.cpus > 0 ? sh.cpus : 1;
    sh.dimms = sh.dimms > 0 ? sh.dimms : 1;
    sh.threads = small(row, "cpus", 64, 4096);
    SET(n->name, "%s", text(row, "name", ""));
    SET(n->serial, "%s", text(row, "serial", ""));
    SET(n->uuid, "%s", text(row, "uuid", ""));
    SET(n->mac, "%s", text(row, "mac", ""));
    if (n->name[0] == '\0')
        return err_set(err, ERR_INVALID, "a machine without a name");
    if (read_address(row, "bmc", &n->bmc, err) < 0 ||
        read_address(row, "address", &n->address, err) < 0)
        return err_wrap(err, "%s: ", n->name);
    set_defaults(n);
    SET(n->answers, "%s", text(row, "answers", ""));
    SET(n->bmc_user, "%s", text(row, "user", "admin"));
    SET(n->bmc_password, "%s", text(row, "password", "sim-password"));
    const json_t *w = json_object_get(row, "watts");
    n->watts.inrush = small(w, "inrush", n->watts.inrush, 1000000);
    n->watts.boot = small(w, "boot", n->watts.boot, 1000000);
    n->watts.idle = small(w, "idle", n->watts.idle, 1000000);
    n->watts.burnin = small(w, "burnin", n->watts.burnin, 1000000);
    add_parts(n, &sh);
    name_nics(n, json_object_get(row, "macs"));
    return 0;
}

int sim_read_fleet(struct sim *s, const char *path, struct err *err)
{
    char *data = NULL;
    size_t len;
    json_error_t jerr;
    if (fs_read(path, FLEET_MAX_BYTES, &data, &len, err) < 0)
        return -(int)err->code;
    json_t *root = json_loadb(data, len, JSON_REJECT_DUPLICATES, &jerr), *row;
    const json_t *rows = json_object_get(root, "nodes");
    size_t i, count = json_array_size(rows);
    int rc = 0;
    free(data);
    if (count == 0 || count > NODES_MAX)
        rc = err_set(err, ERR_INVALID, "%s:%d: expected {\"nodes\": [1 to %d machines]}%s%s", path,
                     root == NULL ? jerr.line : 1, NODES_MAX, root == NULL ? ": " : "",
                     root == NULL ? jerr.text : "");
    s->nodes = xcalloc(count + 1, sizeof *s->nodes);
    json_array_foreach(rows, i, row)
    {
        if (rc < 0)
            break;
        s->nodes[i].index = (int)i;
        s->node_count = (int)i + 1;
        if (read_node(&s->nodes[i], row, err) < 0)
            rc = err_wrap(err, "%s: machine %zu: ", path, i + 1);
        read_load(s, &s->nodes[i], row);
    }
    s->load.uplink_mb_s = json_number_value(json_object_get(root, "uplink_mb_s"));
    s->stage_seconds = json_incref(json_object_get(root, "stage_seconds"));
    s->assumed_seconds = json_incref(json_object_get(root, "assumed_seconds"));
    json_decref(root);
    index_nodes(s);
    return rc;
}

/* ---- faults ---- */

static void give_fault(struct sim_node *n, enum sim_fault fault, const char *arg, bool on)
{
    n->faults = on ? n->faults | (unsigned)fault : n->faults & ~(unsigned)fault;
    if (!on)
        return;
    if (fault == FAULT_SLOW_NIC)
        n->fault_arg[0] = '\0';
    if (fault == FAULT_BMC_SLOW)
        n->fault_ms = arg != NULL ? atoi(arg) : 1500;
    else if (fault == FAULT_BMC_FREEZES)
        n->fault_rate = arg != NULL ? atoi(arg) : 20;
    else if (arg != NULL)
        SET(n->fault_arg, "%s", arg);
}

int sim_set_fault(struct sim *s, const char *spec, bool on, struct err *err)
{
    const char *eq = strrchr(spec, '=');
    if (eq == NULL)
        return err_set(err, ERR_INVALID, "'%s': expected NODESET=FAULT[:ARGUMENT]", spec);
    char *names cleanup_free = xstrndup(spec, (size_t)(eq - spec));
    char *fault cleanup_free = xstrdup(eq + 1);
    char *arg = strchr(fault, ':');
    if (arg != NULL)
        *arg++ = '\0';
    int id = name_id(sim_fault_names, fault);
    if (id < 0) {
        struct strbuf sb;
        strbuf_init(&sb, 400);
        names_list(sim_fault_names, &sb);
        (void)err_set(err, ERR_INVALID, "there is no fault '%s': %s", fault, sb.data);
        strbuf_done(&sb);
        return -ERR_INVALID;
    }
    struct nodeset *set = nodeset_parse(names, err);
    if (set == NULL)
        return -(int)err->code;
    int rc = 0;
    for (int i = 0; i < nodeset_count(set) && rc == 0; i++) {
        struct sim_node *n = sim_by_name(s, nodeset_at(set, i));
        if (n == NULL)
            rc = err_set(err, ERR_NOT_FOUND, "no machine is called '%s'", nodeset_at(set, i));
        else
            give_fault(n, (enum sim_fault)id, arg, on);
    }
    nodeset_free(set);
    return rc;
}

void sim_free(struct sim *s)
{
    for (int i = 0; i < s->node_count; i++)
        machine_stop(&s->nodes[i]);
    sim_load_done(s);
    json_decref(s->stage_seconds);
    json_decref(s->assumed_seconds);
    map_free(s->by_bmc);
    map_free(s->by_address);
    map_free(s->by_name);
    free(s->nodes);
}
