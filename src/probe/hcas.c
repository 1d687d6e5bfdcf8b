/*
 * RDMA devices and their ports through libibverbs, which is loaded when it is there: the program
 * runs on machines without it. Device functions whose header versions are inline are called
 * through their exported symbols (rdma-core's ABI IBVERBS_1.1).
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "probe/probe.h"

struct verbs {
    void *lib;
    struct ibv_device **(*get_device_list)(int *count);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *device);
    __be64 (*get_device_guid)(struct ibv_device *device);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
    int (*query_port)(struct ibv_context *context, uint8_t port, void *attr);
    int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
};

static bool verbs_load(struct verbs *v)
{
    v->lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    if (v->lib == NULL)
        return false;
    const struct {
        const char *name;
        void *to;
    } symbols[] = {{"ibv_get_device_list", &v->get_device_list},
                   {"ibv_free_device_list", &v->free_device_list},
                   {"ibv_get_device_name", &v->get_device_name},
                   {"ibv_get_device_guid", &v->get_device_guid},
                   {"ibv_open_device", &v->open_device},
                   {"ibv_close_device", &v->close_device},
                   {"ibv_query_device", &v->query_device},
                   {"ibv_query_port", &v->query_port},
                   {"ibv_query_gid", &v->query_gid}};
    for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
        void *symbol = dlsym(v->lib, symbols[i].name);
        if (symbol == NULL)
            return false;
        memcpy(symbols[i].to, &symbol, sizeof symbol);
    }
    return true;
}

static const char *state_name(enum ibv_port_state state)
{
    switch (state) {
    case IBV_PORT_DOWN:
        return "DOWN";
    case IBV_PORT_INIT:
        return "INIT";
    case IBV_PORT_ARMED:
        return "ARMED";
    case IBV_PORT_ACTIVE:
        return "ACTIVE";
    case IBV_PORT_ACTIVE_DEFER:
        return "ACTIVE_DEFER";
    default:
        return "NOP";
    }
}

/* 5: LinkUp, ... (InfiniBand Architecture 1.4, PortInfo:PortPhysicalState) */
static const char *phys_name(int state)
{
    static const char *const names[] = {"",         "Sleep",  "Polling",       "Disabled",
                                        "Training", "LinkUp", "ErrorRecovery", "PhyTest"};
    return state > 0 && state < (int)ARRAY_LEN(names) ? names[state] : "unknown";
}

static json_t *gid_row(const struct verbs *v, struct ibv_context *ctx, int port)
{
    union ibv_gid gid;
    char text[40] = "";
    if (v->query_gid(ctx, (uint8_t)port, 0, &gid) != 0)
        return json_null();
    for (int i = 0; i < 16; i += 2)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%02x%02x", i ? ":" : "",
                       gid.raw[i], gid.raw[i + 1]);
    return json_string(text);
}

static void add_port(struct probe *p, const struct verbs *v, struct ibv_context *ctx, json_t *rows,
                     const char *device, int port)
{
    struct ibv_port_attr attr = {0};
    if (v->query_port(ctx, (uint8_t)port, &attr) != 0) {
        probe_problem(p, "%s port %d cannot be queried", device, port);
        return;
    }
    json_t *o = json_pack(
        "{s:i,s:s,s:s,s:s,s:i,s:i}", "port", port, "state", state_name(attr.state), "phys_state",
        phys_name(attr.phys_state), "link_layer",
        attr.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand", "lid", attr.lid,
        "active_mtu", attr.active_mtu >= 1 && attr.active_mtu <= 5 ? 128 << attr.active_mtu : 0);
    /* "400 Gb/sec (4X NDR)": the kernel knows rates that this library's header may not */
    probe_set_text(o, "rate",
                   probe_read(p, "/sys/class/infiniband/%s/ports/%d/rate", device, port));
    probe_set_text(
        o, "netdev",
        probe_read(p, "/sys/class/infiniband/%s/ports/%d/gid_attrs/ndevs/0", device, port));
    (void)json_object_set_new(o, "gid0", gid_row(v, ctx, port));
    (void)json_array_append_new(rows, o);
}

static void add_hca(struct probe *p, const struct verbs *v, json_t *rows, struct ibv_device *device)
{
    const char *name = v->get_device_name(device);
    struct ibv_device_attr attr = {0};
    struct ibv_context *ctx = v->open_device(device);
    if (ctx == NULL || v->query_device(ctx, &attr) != 0) {
        probe_problem(p, "RDMA device %s cannot be opened", name);
        if (ctx != NULL)
            (void)v->close_device(ctx);
        return;
    }
    unsigned char guid[8];
    __be64 raw = v->get_device_guid(device);
    memcpy(guid, &raw, sizeof guid);
    char text[24];
    (void)snprintf(text, sizeof text, "%02x%02x:%02x%02x:%02x%02x:%02x%02x", guid[0], guid[1],
                   guid[2], guid[3], guid[4], guid[5], guid[6], guid[7]);
    json_t *o = json_pack("{s:s,s:s}", "name", name, "node_guid", text);
    probe_set_text(o, "firmware", xstrndup(attr.fw_ver, sizeof attr.fw_ver));
    probe_set_text(o, "board_id", probe_read(p, "/sys/class/infiniband/%s/board_id", name));
    probe_set_text(o, "model", probe_read(p, "/sys/class/infiniband/%s/hca_type", name));
    probe_set_text(o, "pci", probe_link_name(p, "/sys/class/infiniband/%s/device", name));
    json_t *ports = json_array();
    for (int i = 1; i <= attr.phys_port_cnt; i++)
        add_port(p, v, ctx, ports, name, i);
    (void)json_object_set_new(o, "ports", ports);
    (void)json_array_append_new(rows, o);
    (void)v->close_device(ctx);
}

void probe_hcas(struct probe *p)
{
    json_t *rows = json_array();
    struct verbs v = {0};
    (void)json_object_set_new(p->out, "hcas", rows);
    if (p->root[0] != '\0')
        return; /* a recorded tree has no devices to open */
    if (!verbs_load(&v)) {
        if (probe_exists(p, "/sys/class/infiniband"))
            probe_problem(p, "the kernel has RDMA devices but libibverbs.so.1 is missing");
        return;
    }
    int count = 0;
    struct ibv_device **list = v.get_device_list(&count);
    for (int i = 0; list != NULL && i < count; i++)
        add_hca(p, &v, rows, list[i]);
    if (list != NULL)
        v.free_device_list(list);
    (void)dlclose(v.lib);
}
