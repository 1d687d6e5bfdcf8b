/* A machine: power, firmware, which device it boots, and what it is made of. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/log.h"
#include "base/mem.h"
#include "sim/sim.h"

/* ---- power drawn ---- */

double machine_watts(const struct sim_node *n)
{
    if (!n->on)
        return 0;
    int64_t age = loop_now(n->sim->loop) - n->power_since;
    if (age < sim_ms(n->sim, n->sim->times.ac_ramp))
        return n->watts.inrush;
    if (n->phase != PHASE_RUNNING)
        return n->watts.boot;
    return n->burning ? n->watts.burnin : n->watts.idle;
}

void machine_count_watts(struct sim_node *n)
{
    struct sim *s = n->sim;
    double now = machine_watts(n);
    s->watts_now += now - n->watts_counted;
    sim_feeds_add(n, now - n->watts_counted);
    n->watts_counted = now;
    if (s->watts_now > s->watts_peak) {
        s->watts_peak = s->watts_now;
        s->peak_at = loop_now(s->loop);
    }
}

static void on_inrush_over(void *user)
{
    machine_count_watts(user);
}

/* ---- phases ---- */

static void enter(struct sim_node *n, enum sim_phase phase)
{
    n->phase = phase;
    n->phase_since = loop_now(n->sim->loop);
    machine_count_watts(n);
    log_debug("sim.phase", "%s: %s", n->name, name_of(sim_phase_names, (int)phase, "?"));
}

void machine_enter(struct sim_node *n, enum sim_phase phase)
{
    enter(n, phase);
}

static void heads_down(struct sim_node *n)
{
    timer_cancel(&n->timer);
    n->burning = false;
    pxe_machine_down(n);
    ssh_machine_down(n);
}

static void new_boot_id(struct sim_node *n)
{
    char hex[DIGEST_HEX_SIZE], text[128];
    (void)snprintf(text, sizeof text, "%u %s boot %d", n->sim->seed, n->name, n->boots);
    digest_hex(text, strlen(text), hex);
    (void)snprintf(n->boot_id, sizeof n->boot_id, "%.8s-%.4s-4%.3s-a%.3s-%.12s", hex, hex + 8,
                   hex + 12, hex + 15, hex + 18);
}

static void on_os_up(void *user)
{
    struct sim_node *n = user;
    if (sim_has(n, FAULT_HANGS))
        return; /* the kernel panicked, and nobody sees it */
    if (sim_has(n, FAULT_REBOOTS_TWICE) && n->proof_due && !n->rebooted_once) {
        n->rebooted_once = true;
        machine_reboot(n);
        return;
    }
    enter(n, PHASE_RUNNING);
    if (n->proof_due)
        pxe_first_boot(n);
}

void machine_boot_disk(struct sim_node *n)
{
    if (!n->installed) {
        enter(n, PHASE_NO_OS);
        return;
    }
    enter(n, PHASE_BOOTING);
    timer_set(n->sim->loop, &n->timer, sim_ms(n->sim, n->sim->times.os_boot), on_os_up, n);
}

static void on_pxe(void *user)
{
    struct sim_node *n = user;
    if (sim_has(n, FAULT_NO_PXE) || n->sim->boot_url == NULL)
        machine_boot_disk(n);
    else
        pxe_boot(n);
}

/* The firmware is through: which device? */
static void on_post_over(void *user)
{
    struct sim_node *n = user;
    enum sim_boot device = n->override;
    if (n->override_once)
        n->override = SIM_BOOT_DEFAULT;
    if (sim_has(n, FAULT_BOOT_IGNORED))
        device = SIM_BOOT_DEFAULT;
    if (device == SIM_BOOT_DEFAULT)
        device = n->installed ? SIM_BOOT_DISK : SIM_BOOT_PXE;
    if (sim_has(n, FAULT_PXE_ALWAYS))
        device = SIM_BOOT_PXE;
    if (device == SIM_BOOT_DISK) {
        machine_boot_disk(n);
        return;
    }
    enter(n, PHASE_PXE);
    timer_set(n->sim->loop, &n->timer, sim_ms(n->sim, n->sim->times.pxe), on_pxe, n);
}

static void start(struct sim_node *n)
{
    n->boots++;
    new_boot_id(n);
    enter(n, PHASE_POST);
    timer_set(n->sim->loop, &n->timer, sim_ms(n->sim, n->sim->times.post), on_post_over, n);
}

void machine_reboot(struct sim_node *n)
{
    if (!n->on)
        return;
    heads_down(n);
    start(n);
}

static void power_on(struct sim_node *n)
{
    if (n->on)
        return;
    n->on = true;
    n->count.power_ons++;
    n->power_since = loop_now(n->sim->loop);
    timer_set(n->sim->loop, &n->inrush, sim_ms(n->sim, n->sim->times.ac_ramp), on_inrush_over, n);
    start(n);
}

static void power_off(struct sim_node *n)
{
    if (!n->on)
        return;
    n->on = false;
    n->count.power_offs++;
    heads_down(n);
    timer_cancel(&n->inrush);
    enter(n, PHASE_OFF);
}

static void on_shut_down(void *user)
{
    power_off(user);
}

void machine_power(struct sim_node *n, enum sim_power what)
{
    switch (what) {
    case SIM_POWER_ON:
        power_on(n);
        break;
    case SIM_POWER_OFF:
        power_off(n);
        break;
    case SIM_POWER_CYCLE:
        if (n->on) {
            power_off(n);
            power_on(n);
        }
        break;
    case SIM_POWER_RESET:
        machine_reboot(n);
        break;
    case SIM_POWER_SOFT: /* only a running system hears the button */
        if (n->phase == PHASE_RUNNING)
            timer_set(n->sim->loop, &n->timer, sim_ms(n->sim, n->sim->times.shutdown), on_shut_down,
                      n);
        break;
    }
}

bool machine_power_shown(const struct sim_node *n)
{
    return sim_has(n, FAULT_POWER_LIES) ? !n->on : n->on;
}

void machine_set_boot(struct sim_node *n, enum sim_boot device, bool efi, bool once)
{
    n->override = device;
    n->override_efi = efi;
    n->override_once = once;
}

void machine_stop(struct sim_node *n)
{
    timer_cancel(&n->timer);
    timer_cancel(&n->inrush);
}

/* ---- what nodeprobe would print ---- */

static const struct sim_part *part_of(const struct sim_node *n, const char *kind)
{
    for (int i = 0; i < n->part_count; i++)
        if (strcmp(n->parts[i].kind, kind) == 0)
            return &n->parts[i];
    return NULL;
}

static json_t *system_facts(const struct sim_node *n)
{
    const char *serial = sim_has(n, FAULT_SERIAL_CHANGED) ? "SN-OTHER-MACHINE" : n->serial;
    const char *uuid =
        sim_has(n, FAULT_SERIAL_CHANGED) ? "0dd00000-0000-4000-8000-00000000dead" : n->uuid;
    const struct sim_part *p = part_of(n, "system");
    return json_pack("{s:s,s:s,s:s,s:s,s:s}", "vendor", "Simulated", "product",
                     p != NULL ? p->model : "machine", "serial", serial, "uuid", uuid,
                     "bios_version", p != NULL ? p->firmware : "1.0");
}

static json_t *board_facts(const struct sim_node *n)
{
    const struct sim_part *p = part_of(n, "board");
    if (p == NULL)
        return json_object();
    return json_pack("{s:s,s:s,s:s}", "vendor", "Simulated", "product", p->model, "serial",
                     sim_has(n, FAULT_SERIAL_CHANGED) ? "BOARD-OTHER" : p->serial);
}

static json_t *cpu_facts(const struct sim_node *n)
{
    json_t *packages = json_array();
    const struct sim_part *first = NULL;
    int64_t threads = 0;
    for (int i = 0; i < n->part_count; i++) {
        const struct sim_part *p = &n->parts[i];
        if (strcmp(p->kind, "cpu") != 0)
            continue;
        first = first != NULL ? first : p;
        threads += p->size;
        (void)json_array_append_new(packages,
                                    json_pack("{s:s,s:s}", "slot", p->slot, "serial", p->serial));
    }
    size_t count = json_array_size(packages);
    return json_pack("{s:I,s:I,s:I,s:s,s:s,s:o}", "sockets", (json_int_t)count, "cores",
                     (json_int_t)(threads / 2), "threads", (json_int_t)threads, "model",
                     first != NULL ? first->model : "?", "microcode",
                     first != NULL ? first->firmware : "", "packages", packages);
}

static json_t *memory_facts(const struct sim_node *n)
{
    json_t *dimms = json_array();
    int64_t total = 0;
    for (int i = 0; i < n->part_count; i++) {
        const struct sim_part *p = &n->parts[i];
        if (strcmp(p->kind, "memory") != 0)
            continue;
        total += p->size;
        (void)json_array_append_new(dimms, json_pack("{s:s,s:s,s:s,s:I}", "slot", p->slot, "serial",
                                                     p->serial, "part", p->model, "size_mib",
                                                     (json_int_t)p->size));
    }
    return json_pack("{s:I,s:o}", "total_mib", (json_int_t)total, "dimms", dimms);
}

static json_t *part_facts(const struct sim_part *p)
{
    if (strcmp(p->kind, "disk") == 0)
        return json_pack("{s:s,s:I,s:s,s:s,s:s,s:s}", "name", p->slot, "bytes", (json_int_t)p->size,
                         "transport", "nvme", "serial", p->serial, "model", p->model, "firmware",
                         p->firmware);
    if (strcmp(p->kind, "nic") == 0)
        return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:I}", "name", p->slot, "permanent_mac",
                         p->serial, "mac", p->serial, "link_layer", "ethernet", "driver", p->model,
                         "state", "up", "firmware", p->firmware, "speed_mbps", (json_int_t)p->size);
    if (strcmp(p->kind, "gpu") == 0)
        return json_pack("{s:s,s:s,s:s,s:s,s:s,s:I,s:s,s:i}", "pci", p->slot, "pci_id", "10de:2330",
                         "serial", p->serial, "model", p->model, "vbios", p->firmware, "memory_mib",
                         (json_int_t)p->size, "link_speed", "32.0 GT/s", "link_width", 16);
    char rate[24];
    (void)snprintf(rate, sizeof rate, "%d Gb/s", p->gbs > 0 ? p->gbs : (int)(p->size / 1000));
    return json_pack("{s:s,s:s,s:s,s:s,s:[{s:i,s:s,s:s,s:s}]}", "name", p->slot, "node_guid",
                     p->serial, "model", p->model, "firmware", p->firmware, "ports", "port", 1,
                     "state", p->down ? "DOWN" : "ACTIVE", "rate", rate, "link_layer",
                     "InfiniBand");
}

static json_t *parts_facts(const struct sim_node *n, const char *kind)
{
    json_t *list = json_array();
    for (int i = 0; i < n->part_count; i++)
        if (strcmp(n->parts[i].kind, kind) == 0)
            (void)json_array_append_new(list, part_facts(&n->parts[i]));
    size_t count = json_array_size(list);
    if (strcmp(kind, "gpu") == 0 && sim_has(n, FAULT_GPU_MISSING) && count > 0)
        (void)json_array_remove(list, count - 1);
    return list;
}

json_t *machine_facts(const struct sim_node *n)
{
    json_t *facts =
        json_pack("{s:i,s:s,s:s,s:s,s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:[]}", "schema", 1,
                  "tool", "clusterd-sim " CLUSTERD_VERSION, "kernel", "simulated", "arch", "x86_64",
                  "hostname", n->name, "boot_id", n->boot_id, "firmware", "bios", "system",
                  system_facts(n), "board", board_facts(n), "cpu", cpu_facts(n), "memory",
                  memory_facts(n), "disks", parts_facts(n, "disk"), "nics", parts_facts(n, "nic"),
                  "gpus", parts_facts(n, "gpu"), "hcas", parts_facts(n, "hca"), "problems");
    if (part_of(n, "gpu") != NULL)
        (void)json_object_set_new(facts, "nvidia_driver",
                                  json_string(n->driver[0] ? n->driver : "580.95.05"));
    return facts;
}
