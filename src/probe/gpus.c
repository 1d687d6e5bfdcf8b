/*
 * GPUs: what PCI shows, with and without a driver, and what NVML adds where NVIDIA's driver runs.
 * NVML is loaded when it is there; the few types that are needed are declared here after NVIDIA's
 * API reference for the R535 to R580 drivers.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "probe/probe.h"

/* PCI vendor and base class, PCI Code and ID Assignment 1.11: 03 display, 12 accelerators. A BMC's
 * or a virtual machine's VGA is no GPU: only vendors that make them are looked for. */
static bool is_gpu(unsigned vendor, unsigned class)
{
    unsigned base = class >> 16, sub = class >> 8;
    switch (vendor) {
    case 0x10de: /* NVIDIA */
        return base == 0x03;
    case 0x1002: /* AMD */
        return sub == 0x0302 || sub == 0x0380 || base == 0x12;
    case 0x1da3: /* Intel Gaudi */
        return base == 0x12;
    default:
        return false;
    }
}

static unsigned hex_of(char *text)
{
    unsigned value = text != NULL ? (unsigned)strtoul(text, NULL, 16) : 0;
    free(text);
    return value;
}

static void add_pci_gpu(struct probe *p, json_t *rows, const char *bdf)
{
    unsigned vendor = hex_of(probe_read(p, "/sys/bus/pci/devices/%s/vendor", bdf));
    unsigned class = hex_of(probe_read(p, "/sys/bus/pci/devices/%s/class", bdf));
    if (!is_gpu(vendor, class))
        return;
    unsigned device = hex_of(probe_read(p, "/sys/bus/pci/devices/%s/device", bdf));
    char id[16];
    (void)snprintf(id, sizeof id, "%04x:%04x", vendor, device);
    json_t *o = json_pack("{s:s,s:s}", "pci", bdf, "pci_id", id);
    probe_set_text(o, "driver", probe_link_name(p, "/sys/bus/pci/devices/%s/driver", bdf));
    probe_set_text(o, "link_speed",
                   probe_read(p, "/sys/bus/pci/devices/%s/current_link_speed", bdf));
    probe_set_int(o, "link_width",
                  probe_read(p, "/sys/bus/pci/devices/%s/current_link_width", bdf));
    probe_set_text(o, "max_link_speed",
                   probe_read(p, "/sys/bus/pci/devices/%s/max_link_speed", bdf));
    probe_set_int(o, "max_link_width",
                  probe_read(p, "/sys/bus/pci/devices/%s/max_link_width", bdf));
    probe_set_int(o, "numa_node", probe_read(p, "/sys/bus/pci/devices/%s/numa_node", bdf));
    (void)json_array_append_new(rows, o);
}

/* ---- NVML ---- */

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};
struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml {
    void *lib;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *count);
    int (*handle)(unsigned index, void **device);
    int (*name)(void *device, char *text, unsigned size);
    int (*serial)(void *device, char *text, unsigned size);
    int (*uuid)(void *device, char *text, unsigned size);
    int (*vbios)(void *device, char *text, unsigned size);
    int (*pci)(void *device, struct nvml_pci *info);
    int (*memory)(void *device, struct nvml_memory *info);
    int (*driver)(char *text, unsigned size);
};

static bool nvml_load(struct nvml *v)
{
    v->lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (v->lib == NULL)
        return false;
    const struct {
        const char *name;
        void *to;
    } symbols[] = {{"nvmlInit_v2", &v->init},
                   {"nvmlShutdown", &v->shutdown},
                   {"nvmlDeviceGetCount_v2", &v->count},
                   {"nvmlDeviceGetHandleByIndex_v2", &v->handle},
                   {"nvmlDeviceGetName", &v->name},
                   {"nvmlDeviceGetSerial", &v->serial},
                   {"nvmlDeviceGetUUID", &v->uuid},
                   {"nvmlDeviceGetVbiosVersion", &v->vbios},
                   {"nvmlDeviceGetPciInfo_v3", &v->pci},
                   {"nvmlDeviceGetMemoryInfo", &v->memory},
                   {"nvmlSystemGetDriverVersion", &v->driver}};
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
        void *symbol = dlsym(v->lib, symbols[i].name);
        if (symbol == NULL)
            return false;
        memcpy(symbols[i].to, &symbol, sizeof symbol);
    }
    return true;
}

static json_t *row_of(json_t *rows, const struct nvml_pci *pci)
{
    char bdf[24];
    (void)snprintf(bdf, sizeof bdf, "%04x:%02x:%02x.0", pci->domain, pci->bus, pci->device);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "pci")), bdf) == 0)
            return row;
    }
    return NULL;
}

static void set_by(json_t *o, const char *key, void *device,
                   int (*get)(void *device, char *text, unsigned size))
{
    char text[100] = "";
    if (get(device, text, sizeof text - 1) == 0)
        probe_set_text(o, key, xstrdup(text));
}

static void add_nvml(struct probe *p, json_t *rows, const struct nvml *v)
{
    unsigned count = 0;
    char driver[100] = "";
    if (v->driver(driver, sizeof driver - 1) == 0)
        probe_set_text(p->out, "nvidia_driver", xstrdup(driver));
    int rc = v->count(&count);
    if (rc != 0)
        probe_problem(p, "NVML cannot count the GPUs (error %d)", rc);
    for (unsigned i = 0; rc == 0 && i < count; i++) {
        void *device = NULL;
        struct nvml_pci pci = {0};
        struct nvml_memory memory = {0};
        if (v->handle(i, &device) != 0 || v->pci(device, &pci) != 0) {
            probe_problem(p, "NVML cannot open GPU %u", i);
            continue;
        }
        json_t *o = row_of(rows, &pci);
        if (o == NULL) {
            probe_problem(p, "NVML shows a GPU at %.31s that PCI does not", pci.bus_id);
            continue;
        }
        set_by(o, "model", device, v->name);
        set_by(o, "serial", device, v->serial);
        set_by(o, "uuid", device, v->uuid);
        set_by(o, "vbios", device, v->vbios);
        if (v->memory(device, &memory) == 0)
            (void)json_object_set_new(o, "memory_mib",
                                      json_integer((json_int_t)(memory.total >> 20)));
    }
}

void probe_gpus(struct probe *p)
{
    json_t *rows = json_array();
    struct nvml v = {0};
    char **names = probe_list(p, "/sys/bus/pci/devices");
    for (int i = 0; names[i] != NULL; i++)
        add_pci_gpu(p, rows, names[i]);
    probe_list_free(names);
    (void)json_object_set_new(p->out, "gpus", rows);
    if (p->root[0] != '\0' || json_array_size(rows) == 0 || !nvml_load(&v))
        return;
    int rc = v.init();
    if (rc != 0) {
        probe_problem(p, "NVML does not start (error %d): see dmesg for Xid and NVRM lines", rc);
    } else {
        add_nvml(p, rows, &v);
        (void)v.shutdown();
    }
    (void)dlclose(v.lib);
}
