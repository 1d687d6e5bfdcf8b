/*
 * The inventory as Redfish shows it: processors (GPUs among them), memory, network, storage,
 * firmware, power and temperatures. All from the machine's parts and its watts; temperatures and
 * fans follow from the watts and mean nothing more.
 */
#include <string.h>

#include "base/mem.h"
#include "sim/redfish_int.h"

/* What may stand in a path; a slot like "0000:17:00.0" does (RFC 3986, 3.3). */
static void member_id(const struct sim_part *p, char id[sizeof p->slot])
{
    size_t i = 0;
    for (; p->slot[i] != '\0' && i + 1 < sizeof p->slot; i++) {
        char ch = p->slot[i];
        bool plain = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                     (ch >= '0' && ch <= '9') || strchr("._:-", ch) != NULL;
        id[i] = plain ? ch : '_';
    }
    id[i] = '\0';
}

const struct sim_part *rf_part(const struct sim_node *n, const char *kind, int nth)
{
    for (int i = 0; i < n->part_count; i++)
        if (strcmp(n->parts[i].kind, kind) == 0 && nth-- == 0)
            return &n->parts[i];
    return NULL;
}

/* A GPU that fell off the bus is not seen by the BMC either. */
static bool is_gone(const struct sim_node *n, const struct sim_part *p)
{
    const struct sim_part *last = NULL, *gpu;
    if (!sim_has(n, FAULT_GPU_MISSING) || strcmp(p->kind, "gpu") != 0)
        return false;
    for (int i = 0; (gpu = rf_part(n, "gpu", i)) != NULL; i++)
        last = gpu;
    return p == last;
}

static bool is_kind(const struct sim_part *p, const char *kind, const char *or_kind)
{
    return strcmp(p->kind, kind) == 0 || (or_kind != NULL && strcmp(p->kind, or_kind) == 0);
}

/* The part that c->member names, of one of the two kinds (the second may be NULL). */
static const struct sim_part *find_part(const struct rf_call *c, const char *kind,
                                        const char *or_kind)
{
    const struct sim_node *n = c->node;
    for (int i = 0; i < n->part_count; i++) {
        char id[sizeof n->parts[0].slot];
        member_id(&n->parts[i], id);
        if (is_kind(&n->parts[i], kind, or_kind) && !is_gone(n, &n->parts[i]) &&
            strcmp(id, c->member) == 0)
            return &n->parts[i];
    }
    return NULL;
}

static json_t *collect(const struct rf_call *c, const char *type, const char *name,
                       const char *kind, const char *or_kind)
{
    const struct sim_node *n = c->node;
    char ids[SIM_PARTS_MAX][sizeof n->parts[0].slot];
    const char *members[SIM_PARTS_MAX];
    int count = 0;
    for (int i = 0; i < n->part_count; i++) {
        if (!is_kind(&n->parts[i], kind, or_kind) || is_gone(n, &n->parts[i]))
            continue;
        member_id(&n->parts[i], ids[count]);
        members[count] = ids[count];
        count++;
    }
    return rf_collection(c, type, name, members, count);
}

/* NULL for "": Redfish says null for what is not known. */
static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? json_string(text) : json_null();
}

static json_t *part_resource(const struct rf_call *c, const struct sim_part *p, const char *type,
                             const char *name)
{
    json_t *r = rf_resource(c, type, name);
    json_object_set_new(r, "Model", text_or_null(p->model));
    json_object_set_new(r, "SerialNumber", text_or_null(p->serial));
    json_object_set_new(r, "Status", rf_status("Enabled"));
    return r;
}

/* ---- processors and memory ---- */

void rf_add_summaries(const struct sim_node *n, json_t *system)
{
    int cpus = 0;
    int64_t mib = 0;
    for (int i = 0; i < n->part_count; i++) {
        cpus += strcmp(n->parts[i].kind, "cpu") == 0;
        mib += strcmp(n->parts[i].kind, "memory") == 0 ? n->parts[i].size : 0;
    }
    const struct sim_part *cpu = rf_part(n, "cpu", 0);
    json_object_set_new(system, "ProcessorSummary",
                        json_pack("{s:i,s:o,s:o}", "Count", cpus, "Model",
                                  text_or_null(cpu != NULL ? cpu->model : ""), "Status",
                                  rf_status("Enabled")));
    json_object_set_new(system, "MemorySummary",
                        json_pack("{s:f,s:o}", "TotalSystemMemoryGiB", (double)mib / 1024, "Status",
                                  rf_status("Enabled")));
}

json_t *rf_get_processors(struct rf_call *c)
{
    return collect(c, "ProcessorCollection", "Processors", "cpu", "gpu");
}

json_t *rf_get_processor(struct rf_call *c)
{
    const struct sim_part *p = find_part(c, "cpu", "gpu");
    if (p == NULL)
        return NULL;
    bool gpu = strcmp(p->kind, "gpu") == 0;
    json_t *r = part_resource(c, p, "Processor.v1_13_0", gpu ? "GPU" : "Processor");
    json_object_set_new(r, "ProcessorType", json_string(gpu ? "GPU" : "CPU"));
    json_object_set_new(r, "Socket", json_string(p->slot));
    if (!gpu)
        json_object_set_new(r, "TotalThreads", json_integer(p->size));
    json_object_set_new(r, "FirmwareVersion", text_or_null(p->firmware));
    return r;
}

json_t *rf_get_memory(struct rf_call *c)
{
    return collect(c, "MemoryCollection", "Memory", "memory", NULL);
}

json_t *rf_get_dimm(struct rf_call *c)
{
    const struct sim_part *p = find_part(c, "memory", NULL);
    if (p == NULL)
        return NULL;
    json_t *r = part_resource(c, p, "Memory.v1_12_0", p->slot);
    json_object_del(r, "Model"); /* Memory has PartNumber instead */
    json_object_set_new(r, "PartNumber", text_or_null(p->model));
    json_object_set_new(r, "DeviceLocator", json_string(p->slot));
    json_object_set_new(r, "MemoryType", json_string("DRAM"));
    json_object_set_new(r, "CapacityMiB", json_integer(p->size));
    return r;
}

/* ---- network ---- */

json_t *rf_get_interfaces(struct rf_call *c)
{
    return collect(c, "EthernetInterfaceCollection", "Ethernet interfaces", "nic", NULL);
}

json_t *rf_get_interface(struct rf_call *c)
{
    const struct sim_part *p = find_part(c, "nic", NULL);
    if (p == NULL)
        return NULL;
    json_t *r = rf_resource(c, "EthernetInterface.v1_6_4", "Ethernet interface");
    json_object_set_new(r, "MACAddress", text_or_null(p->serial));
    json_object_set_new(r, "PermanentMACAddress", text_or_null(p->serial));
    json_object_set_new(r, "SpeedMbps", json_integer(p->size));
    json_object_set_new(r, "LinkStatus",
                        json_string(machine_power_shown(c->node) ? "LinkUp" : "NoLink"));
    json_object_set_new(r, "InterfaceEnabled", json_true());
    json_object_set_new(r, "Status", rf_status("Enabled"));
    return r;
}

json_t *rf_get_adapters(struct rf_call *c)
{
    return collect(c, "NetworkAdapterCollection", "Network adapters", "hca", NULL);
}

json_t *rf_get_adapter(struct rf_call *c)
{
    const struct sim_part *p = find_part(c, "hca", NULL);
    if (p == NULL)
        return NULL;
    json_t *r = part_resource(c, p, "NetworkAdapter.v1_5_0", "InfiniBand adapter");
    json_object_set_new(r, "Controllers",
                        json_pack("[{s:o}]", "FirmwarePackageVersion", text_or_null(p->firmware)));
    return r;
}

/* ---- storage: one controller with all disks ---- */

json_t *rf_get_storages(struct rf_call *c)
{
    const char *const one[] = {"1"};
    return rf_collection(c, "StorageCollection", "Storage", one, 1);
}

json_t *rf_get_storage(struct rf_call *c)
{
    json_t *r = rf_resource(c, "Storage.v1_10_1", "Disks");
    json_t *drives = json_array();
    const struct sim_part *p;
    int count = 0;
    for (; (p = rf_part(c->node, "disk", count)) != NULL; count++) {
        char id[sizeof p->slot];
        member_id(p, id);
        json_array_append_new(
            drives, json_pack("{s:o}", "@odata.id", json_sprintf("%s/Drives/%s", c->path, id)));
    }
    json_object_set_new(r, "Drives", drives);
    json_object_set_new(r, "Drives@odata.count", json_integer(count));
    json_object_set_new(r, "Status", rf_status("Enabled"));
    return r;
}

json_t *rf_get_drive(struct rf_call *c)
{
    const struct sim_part *p = find_part(c, "disk", NULL);
    if (p == NULL)
        return NULL;
    bool nvme = strncmp(p->slot, "nvme", 4) == 0;
    json_t *r = part_resource(c, p, "Drive.v1_13_0", p->slot);
    json_object_set_new(r, "CapacityBytes", json_integer(p->size));
    json_object_set_new(r, "Revision", text_or_null(p->firmware));
    json_object_set_new(r, "Protocol", json_string(nvme ? "NVMe" : "SATA"));
    return r;
}

/* ---- firmware: every part that says a version ---- */

static void firmware_id(const struct sim_part *p, char *id, size_t size)
{
    char slot[sizeof p->slot];
    member_id(p, slot);
    (void)snprintf(id, size, "%s-%s", p->kind, slot[0] != '\0' ? slot : "1");
}

json_t *rf_get_firmwares(struct rf_call *c)
{
    const struct sim_node *n = c->node;
    char ids[SIM_PARTS_MAX][64];
    const char *members[SIM_PARTS_MAX];
    int count = 0;
    for (int i = 0; i < n->part_count; i++) {
        if (n->parts[i].firmware[0] == '\0' || is_gone(n, &n->parts[i]))
            continue;
        firmware_id(&n->parts[i], ids[count], sizeof ids[0]);
        members[count] = ids[count];
        count++;
    }
    return rf_collection(c, "SoftwareInventoryCollection", "Firmware", members, count);
}

json_t *rf_get_firmware(struct rf_call *c)
{
    const struct sim_node *n = c->node;
    for (int i = 0; i < n->part_count; i++) {
        const struct sim_part *p = &n->parts[i];
        char id[64];
        firmware_id(p, id, sizeof id);
        if (p->firmware[0] == '\0' || is_gone(n, p) || strcmp(id, c->member) != 0)
            continue;
        json_t *r = rf_resource(c, "SoftwareInventory.v1_4_0", id);
        json_object_set_new(r, "Version", json_string(p->firmware));
        json_object_set_new(r, "Updateable", json_false());
        json_object_set_new(r, "Status", rf_status("Enabled"));
        return r;
    }
    return NULL;
}

/* ---- power and temperatures ---- */

static json_t *sub_resource(const struct rf_call *c, const char *list, int nth, const char *name)
{
    json_t *r = json_object();
    json_object_set_new(r, "@odata.id", json_sprintf("%s#/%s/%d", c->path, list, nth));
    json_object_set_new(r, "MemberId", json_sprintf("%d", nth));
    json_object_set_new(r, "Name", json_string(name));
    json_object_set_new(r, "Status", rf_status("Enabled"));
    return r;
}

json_t *rf_get_power(struct rf_call *c)
{
    json_t *r = rf_resource(c, "Power.v1_7_1", "Power");
    json_t *control = sub_resource(c, "PowerControl", 0, "System power");
    json_t *supplies = json_array();
    const struct sim_part *p;
    json_object_set_new(control, "PowerConsumedWatts",
                        json_integer((json_int_t)(machine_watts(c->node) + 0.5)));
    for (int i = 0; (p = rf_part(c->node, "psu", i)) != NULL; i++) {
        json_t *psu = sub_resource(c, "PowerSupplies", i, p->slot);
        json_object_set_new(psu, "Model", text_or_null(p->model));
        json_object_set_new(psu, "SerialNumber", text_or_null(p->serial));
        json_object_set_new(psu, "FirmwareVersion", text_or_null(p->firmware));
        json_array_append_new(supplies, psu);
    }
    json_object_set_new(r, "PowerControl", json_pack("[o]", control));
    json_object_set_new(r, "PowerSupplies", supplies);
    return r;
}

static void add_temperature(const struct rf_call *c, json_t *list, const char *name,
                            const char *context, double celsius)
{
    json_t *t = sub_resource(c, "Temperatures", (int)json_array_size(list), name);
    json_object_set_new(t, "ReadingCelsius", json_integer((json_int_t)(celsius + 0.5)));
    json_object_set_new(t, "PhysicalContext", json_string(context));
    json_array_append_new(list, t);
}

json_t *rf_get_thermal(struct rf_call *c)
{
    enum { FANS = 6, FAN_IDLE_RPM = 4000, FAN_TOP_RPM = 18000 };
    json_t *r = rf_resource(c, "Thermal.v1_7_1", "Thermal");
    json_t *temperatures = json_array(), *fans = json_array();
    bool on = machine_power_shown(c->node);
    double load = machine_watts(c->node) / 10000; /* a full GPU server draws about 10 kW */
    const struct sim_part *p;
    if (load > 1)
        load = 1;
    add_temperature(c, temperatures, "Inlet", "Intake", 22);
    for (int i = 0; on && (p = rf_part(c->node, "cpu", i)) != NULL; i++)
        add_temperature(c, temperatures, p->slot, "CPU", 34 + 40 * load);
    for (int i = 0; on && (p = rf_part(c->node, "gpu", i)) != NULL; i++)
        if (!is_gone(c->node, p))
            add_temperature(c, temperatures, p->slot, "GPU", 30 + 40 * load);
    for (int i = 0; i < FANS; i++) {
        json_t *fan = sub_resource(c, "Fans", i, "Fan");
        json_object_set_new(
            fan, "Reading",
            json_integer(on ? FAN_IDLE_RPM + (int)(load * (FAN_TOP_RPM - FAN_IDLE_RPM)) : 0));
        json_object_set_new(fan, "ReadingUnits", json_string("RPM"));
        json_array_append_new(fans, fan);
    }
    json_object_set_new(r, "Temperatures", temperatures);
    json_object_set_new(r, "Fans", fans);
    return r;
}
