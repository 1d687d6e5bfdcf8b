#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "model/hardware_int.h"
#include "model/parts.h"

enum { SCHEMA = 1, COMPONENTS_MAX = 4096, DEPTH_MAX = 8 };

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text != NULL ? text : "";
}

static long long number_of(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static const char *keep(struct hardware *hw, char *text)
{
    ARRAY_GROW(hw->texts, hw->text_count, hw->text_capacity);
    hw->texts[hw->text_count++] = text;
    return text;
}

static void add(struct hardware *hw, struct component c)
{
    if (hw->count == COMPONENTS_MAX)
        return;
    ARRAY_GROW(hw->items, hw->count, hw->capacity);
    hw->items[hw->count++] = c;
}

static const char *real(const char *text)
{
    return serial_is_junk(text) ? "" : text;
}

/* ---- from JSON ---- */

static void add_system(struct hardware *hw)
{
    const json_t *s = json_object_get(hw->root, "system");
    const json_t *b = json_object_get(hw->root, "board");
    add(hw, (struct component){
                .kind = "system",
                .slot = "system",
                .first_label = "serial",
                .first = text_of(s, "serial"),
                .second_label = "uuid",
                .second = text_of(s, "uuid"),
                .model = keep(hw, xasprintf("%s %s", text_of(s, "vendor"), text_of(s, "product"))),
                .firmware = text_of(s, "bios_version"),
                .detail = text_of(hw->root, "firmware")});
    if (json_object_size(b) > 0)
        add(hw, (struct component){.kind = "board",
                                   .slot = "board",
                                   .first_label = "serial",
                                   .first = text_of(b, "serial"),
                                   .model = text_of(b, "product"),
                                   .firmware = "",
                                   .detail = text_of(b, "vendor")});
}

static void add_cpus(struct hardware *hw)
{
    const json_t *cpu = json_object_get(hw->root, "cpu");
    const json_t *packages = json_object_get(cpu, "packages");
    size_t count = json_array_size(packages);
    const char *detail =
        keep(hw, xasprintf("%lld threads, %lld cores, %lld sockets", number_of(cpu, "threads"),
                           number_of(cpu, "cores"), number_of(cpu, "sockets")));
    for (size_t i = 0; i < (count > 0 ? count : 1); i++) {
        const json_t *p = json_array_get(packages, i);
        const char *slot = real(text_of(p, "slot"));
        slot = slot[0] ? slot : keep(hw, xasprintf("cpu%zu", i));
        add(hw, (struct component){.kind = "cpu",
                                   .slot = slot,
                                   .place = slot,
                                   .first_label = "serial",
                                   .first = text_of(p, "serial"),
                                   .model = text_of(cpu, "model"),
                                   .firmware = text_of(cpu, "microcode"),
                                   .detail = detail});
    }
}

static void add_memory(struct hardware *hw)
{
    const json_t *m = json_object_get(hw->root, "memory");
    size_t i;
    json_t *dimm;
    json_array_foreach(json_object_get(m, "dimms"), i, dimm)
    {
        add(hw, (struct component){
                    .kind = "memory",
                    .slot = text_of(dimm, "slot"),
                    .place = text_of(dimm, "slot"),
                    .first_label = "serial",
                    .first = text_of(dimm, "serial"),
                    .model = real(text_of(dimm, "part")),
                    .firmware = "",
                    .detail = keep(hw, xasprintf("%lld MiB", number_of(dimm, "size_mib")))});
    }
    if (i == 0)
        add(hw, (struct component){.kind = "memory",
                                   .slot = "total",
                                   .model = "",
                                   .firmware = "",
                                   .detail =
                                       keep(hw, xasprintf("%lld MiB", number_of(m, "total_mib")))});
}

static void add_disks(struct hardware *hw)
{
    size_t i;
    json_t *d;
    json_array_foreach(json_object_get(hw->root, "disks"), i, d)
    {
        add(hw, (struct component){
                    .kind = "disk",
                    .slot = text_of(d, "name"),
                    .first_label = "serial",
                    .first = text_of(d, "serial"),
                    .second_label = "wwid",
                    .second = text_of(d, "wwid"),
                    .model = text_of(d, "model"),
                    .firmware = text_of(d, "firmware"),
                    .detail = keep(hw, xasprintf("%.1f GB %s", (double)number_of(d, "bytes") / 1e9,
                                                 text_of(d, "transport")))});
    }
}

/* A card is a PCI device; its ports are functions of it, or interfaces of one function. */
static bool same_card(const json_t *a, const json_t *b)
{
    const char *x = text_of(a, "pci"), *y = text_of(b, "pci");
    size_t len = strcspn(x, ".");
    return x[0] != '\0' && len == strcspn(y, ".") && strncmp(x, y, len) == 0;
}

static const char *nic_detail(struct hardware *hw, const json_t *nics, const json_t *n)
{
    size_t i;
    json_t *other;
    int ports = 0, port = 0;
    json_array_foreach(nics, i, other)
    {
        ports += same_card(n, other);
        port = other == n ? ports : port;
    }
    char *text = xasprintf("%s %lld Mb/s %s", text_of(n, "state"), number_of(n, "speed_mbps"),
                           text_of(n, "link_layer"));
    if (ports < 2)
        return keep(hw, text);
    char *more = xasprintf("%s, port %d of %d of the card at %.*s", text, port, ports,
                           (int)strcspn(text_of(n, "pci"), "."), text_of(n, "pci"));
    free(text);
    return keep(hw, more);
}

static void add_nics(struct hardware *hw)
{
    size_t i;
    json_t *n;
    const json_t *nics = json_object_get(hw->root, "nics");
    json_array_foreach(nics, i, n)
    {
        add(hw, (struct component){.kind = "nic",
                                   .slot = text_of(n, "name"),
                                   .place = text_of(n, "pci"),
                                   .first_label = "mac",
                                   .first = text_of(n, "permanent_mac"),
                                   .model = text_of(n, "driver"),
                                   .firmware = text_of(n, "firmware"),
                                   .detail = nic_detail(hw, nics, n)});
    }
}

static void add_gpus(struct hardware *hw)
{
    size_t i;
    json_t *g;
    json_array_foreach(json_object_get(hw->root, "gpus"), i, g)
    {
        const char *model = text_of(g, "model");
        add(hw, (struct component){
                    .kind = "gpu",
                    .slot = text_of(g, "pci"),
                    .place = text_of(g, "pci"),
                    .first_label = "serial",
                    .first = text_of(g, "serial"),
                    .second_label = "uuid",
                    .second = text_of(g, "uuid"),
                    .model = model[0] ? model : text_of(g, "pci_id"),
                    .firmware = text_of(g, "vbios"),
                    .detail =
                        keep(hw, xasprintf("%lld MiB, PCIe %s x%lld", number_of(g, "memory_mib"),
                                           text_of(g, "link_speed"), number_of(g, "link_width")))});
    }
}

static void add_hcas(struct hardware *hw)
{
    size_t i, j;
    json_t *h, *port;
    json_array_foreach(json_object_get(hw->root, "hcas"), i, h)
    {
        struct strbuf sb;
        strbuf_init(&sb, 400);
        json_array_foreach(json_object_get(h, "ports"), j, port)
        {
            strbuf_addf(&sb, "%sport %lld %s %s %s", j ? ", " : "", number_of(port, "port"),
                        text_of(port, "state"), text_of(port, "rate"), text_of(port, "link_layer"));
        }
        add(hw, (struct component){.kind = "hca",
                                   .slot = text_of(h, "name"),
                                   .place = text_of(h, "pci"),
                                   .software = text_of(h, "pci")[0] == '\0',
                                   .first_label = "guid",
                                   .first = text_of(h, "node_guid"),
                                   .model = text_of(h, "model"),
                                   .firmware = text_of(h, "firmware"),
                                   .detail = keep(hw, strbuf_take(&sb))});
        strbuf_done(&sb);
    }
}

static void add_psus(struct hardware *hw, const json_t *list)
{
    size_t i;
    json_t *p;
    json_array_foreach(list, i, p)
    {
        const char *slot = real(text_of(p, "slot"));
        slot = slot[0] ? slot : keep(hw, xasprintf("psu%zu", i));
        add(hw, (struct component){.kind = "psu",
                                   .slot = slot,
                                   .place = slot,
                                   .first_label = "serial",
                                   .first = text_of(p, "serial"),
                                   .model =
                                       keep(hw, xasprintf("%s %s", real(text_of(p, "manufacturer")),
                                                          real(text_of(p, "model")))),
                                   .firmware = text_of(p, "firmware"),
                                   .detail = keep(hw, xasprintf("%lld W", number_of(p, "watts")))});
    }
}

/* ---- what each part is told by ---- */

/* Two parts of a machine with one serial are not told apart by it (boards with several GPUs,
 * namespaces of one NVMe disk, makers who write the same into all). */
static bool is_unique(const struct hardware *hw, const struct component *c, bool second)
{
    const char *text = second ? c->second : c->first;
    for (int i = 0; i < hw->count; i++) {
        const struct component *o = &hw->items[i];
        const char *other = second ? o->second : o->first;
        if (o != c && other != NULL && strcmp(o->kind, c->kind) == 0 &&
            strcasecmp(other, text) == 0)
            return false;
    }
    return true;
}

static char *machine_value(const struct component *c)
{
    const char *serial = real(c->first), *uuid = real(c->second);
    if (serial[0] == '\0' && uuid[0] == '\0')
        return xasprintf("%s %s", c->slot, c->model);
    return xasprintf("%s%s%s%s%s", serial[0] ? "serial " : "", serial,
                     serial[0] && uuid[0] ? ", " : "", uuid[0] ? "uuid " : "", uuid);
}

/* The kernel's own share varies a little with its version: whole GiB do not. */
static char *total_memory(const struct hardware *hw)
{
    long long mib = number_of(json_object_get(hw->root, "memory"), "total_mib");
    return mib >= 4096 ? xasprintf("%lld GiB", (mib + 512) / 1024)
                       : xasprintf("%lld MiB", (mib + 64) / 128 * 128);
}

static char *value_of(const struct hardware *hw, const struct component *c, const char *label)
{
    if (strcmp(c->kind, "system") == 0)
        return machine_value(c);
    if (strcmp(c->kind, "memory") == 0 && strcmp(c->slot, "total") == 0) {
        char *total = total_memory(hw), *value = xasprintf("total %s", total);
        free(total);
        return value;
    }
    /* a DIMM that lost a rank and a processor that lost cores are not what they were */
    const char *amount =
        strcmp(c->kind, "memory") == 0 || strcmp(c->kind, "cpu") == 0 ? c->detail : "";
    const char *comma = amount[0] ? ", " : "";
    if (label != NULL)
        return xasprintf("%s %s%s%s", label, c->identity, comma, amount);
    return xasprintf("%s %s%s%s", c->slot, c->model, comma, amount);
}

static void settle_identities(struct hardware *hw)
{
    for (int i = 0; i < hw->count; i++) {
        struct component *c = &hw->items[i];
        const char *label = NULL;
        c->identity = "";
        c->place = c->place != NULL ? c->place : "";
        if (!serial_is_junk(c->first) && is_unique(hw, c, false)) {
            label = c->first_label;
            c->identity = c->first;
        } else if (!serial_is_junk(c->second) && is_unique(hw, c, true)) {
            label = c->second_label;
            c->identity = c->second;
        }
        c->value = keep(hw, value_of(hw, c, label));
    }
}

/* Lists hold objects, objects hold scalars, one list or object deeper; nothing else. */
static bool shape_ok(const json_t *v, int depth)
{
    const char *key;
    const json_t *item;
    size_t i;
    if (depth > DEPTH_MAX)
        return false;
    if (json_is_object(v)) {
        json_object_foreach((json_t *)v, key, item)
        {
            if (!shape_ok(item, depth + 1))
                return false;
        }
    } else if (json_is_array(v)) {
        if (json_array_size(v) > COMPONENTS_MAX)
            return false;
        json_array_foreach(v, i, item)
        {
            if (!shape_ok(item, depth + 1))
                return false;
        }
    }
    return true;
}

static int check_members(const json_t *root, struct err *err)
{
    static const char *const objects[] = {"system", "board", "cpu", "memory"};
    static const char *const lists[] = {"disks", "nics", "gpus", "hcas"};
    for (size_t i = 0; i < ARRAY_LEN(objects); i++)
        if (!json_is_object(json_object_get(root, objects[i])))
            return err_set(err, ERR_INVALID, "hardware facts: '%s' is missing or no object",
                           objects[i]);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const json_t *list = json_object_get(root, lists[i]), *item;
        size_t j;
        if (!json_is_array(list))
            return err_set(err, ERR_INVALID, "hardware facts: '%s' is missing or no list",
                           lists[i]);
        json_array_foreach(list, j, item)
        {
            if (!json_is_object(item))
                return err_set(err, ERR_INVALID, "hardware facts: an item of '%s' is no object",
                               lists[i]);
        }
    }
    const json_t *psus = json_object_get(root, "psus");
    if (psus != NULL && !json_is_array(psus)) /* later than the others: may be absent */
        return err_set(err, ERR_INVALID, "hardware facts: 'psus' is no list");
    return shape_ok(root, 0)
               ? 0
               : err_set(err, ERR_INVALID, "hardware facts: nested too deep or too long");
}

/* A BMC tells itself apart by its serial or MAC where the driver knows one, else by its GUID
 * (IPMI v2.0, 20.8), which many take from the system's board. */
static void add_bmc(struct hardware *hw)
{
    const json_t *own = json_object_get(hw->bmc, "bmc");
    const char *serial = real(text_of(own, "serial")), *mac = real(text_of(own, "mac"));
    const char *guid = text_of(hw->bmc, "guid");
    const char *model = text_of(own, "model");
    if (hw->bmc == NULL)
        return;
    add(hw,
        (struct component){.kind = "bmc",
                           .slot = "bmc",
                           .first_label = serial[0] ? "serial"
                                          : mac[0]  ? "mac"
                                                    : "guid",
                           .first = serial[0] ? serial
                                    : mac[0]  ? mac
                                              : guid,
                           .model = model[0] ? model
                                             : keep(hw, xasprintf("manufacturer %lld product %lld",
                                                                  number_of(own, "manufacturer_id"),
                                                                  number_of(own, "product_id"))),
                           .firmware = text_of(own, "firmware"),
                           .detail = keep(hw, xasprintf("IPMI %s", text_of(own, "ipmi")))});
}

void hardware_build(struct hardware *hw)
{
    const json_t *psus = json_object_get(hw->root, "psus");
    for (int i = 0; i < hw->text_count; i++)
        free(hw->texts[i]);
    hw->text_count = hw->count = 0;
    add_system(hw);
    add_cpus(hw);
    add_memory(hw);
    add_disks(hw);
    add_nics(hw);
    add_gpus(hw);
    add_hcas(hw);
    add_bmc(hw);
    add_psus(hw, json_array_size(psus) > 0 ? psus : json_object_get(hw->bmc, "psus"));
    settle_identities(hw);
    hardware_find_machine(hw);
}

int hardware_parse(const char *json, size_t len, struct hardware **ret_hw, struct err *err)
{
    json_error_t jerr;
    if (len > HARDWARE_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "hardware facts of %zu bytes: more than %u", len,
                       HARDWARE_MAX_BYTES);
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &jerr);
    if (!json_is_object(root)) {
        json_decref(root);
        return err_set(err, ERR_INVALID, "hardware facts are no JSON object: %s",
                       root == NULL ? jerr.text : "another type");
    }
    int rc = 0;
    if (number_of(root, "schema") != SCHEMA)
        rc = err_set(err, ERR_UNSUPPORTED,
                     "hardware facts of schema %lld; this version reads schema %d",
                     number_of(root, "schema"), SCHEMA);
    else
        rc = check_members(root, err);
    if (rc < 0) {
        json_decref(root);
        return rc;
    }
    struct hardware *hw = xcalloc(1, sizeof *hw);
    hw->root = root;
    hardware_build(hw);
    *ret_hw = hw;
    return 0;
}

void hardware_set_bmc(struct hardware *hw, const json_t *bmc)
{
    if (hw->root == NULL)
        abort(); /* the parts alone cannot be built anew */
    json_decref(hw->bmc);
    hw->bmc = json_deep_copy(bmc);
    hardware_build(hw);
}

void hardware_drop_facts(struct hardware *hw)
{
    for (int i = 0; i < hw->text_count; i++)
        free(hw->texts[i]);
    free(hw->texts);
    hw->texts = NULL;
    hw->text_count = hw->text_capacity = 0;
    json_decref(hw->root);
    json_decref(hw->bmc);
    hw->root = hw->bmc = NULL;
    free(hw->blob);
    hw->blob = NULL;
}

void hardware_free(struct hardware *hw)
{
    if (hw == NULL)
        return;
    hardware_drop_facts(hw);
    free(hw->items);
    free(hw);
}

int hardware_count(const struct hardware *hw)
{
    return hw->count;
}

const struct component *hardware_at(const struct hardware *hw, int index)
{
    return index >= 0 && index < hw->count ? &hw->items[index] : NULL;
}

/* ---- identity ---- */

/* One identifier of the slot against what up to two witnesses say. */
static void compare(const char *what, const char *slot, const char *a_name, const char *a,
                    const char *b_name, const char *b, struct identity_result *r,
                    struct strbuf *text)
{
    bool a_ok = !serial_is_junk(a), b_ok = !serial_is_junk(b);
    if (serial_is_junk(slot) || (!a_ok && !b_ok))
        return;
    bool a_same = a_ok && strcasecmp(a, slot) == 0, b_same = b_ok && strcasecmp(b, slot) == 0;
    strbuf_addf(text, "%s%s %s: ", text->len ? "; " : "", what, slot);
    if ((a_ok && !a_same) || (b_ok && !b_same)) {
        r->contradictions++;
        strbuf_addf(text, "%s says %s", a_ok && !a_same ? a_name : b_name, a_ok && !a_same ? a : b);
        return;
    }
    r->agreements++;
    strbuf_addf(text, "%s%s%s agree%s", a_ok ? a_name : "", a_ok && b_ok ? " and " : "",
                b_ok ? b_name : "", a_ok && b_ok ? "" : "s");
}

static bool has_mac(const struct hardware *hw, const char *mac)
{
    for (int i = 0; i < hw->count; i++)
        if (strcmp(hw->items[i].kind, "nic") == 0 && strcasecmp(hw->items[i].first, mac) == 0)
            return true;
    return false;
}

static void compare_macs(const struct hardware *hw, char *const *macs, struct identity_result *r,
                         struct strbuf *text)
{
    int found = 0, missing = 0;
    const char *first_missing = NULL;
    for (int i = 0; macs != NULL && macs[i] != NULL; i++) {
        if (has_mac(hw, macs[i])) {
            found++;
        } else {
            missing++;
            first_missing = first_missing != NULL ? first_missing : macs[i];
        }
    }
    if (found + missing == 0)
        return;
    strbuf_addf(text, "%smac: ", text->len ? "; " : "");
    if (missing > 0) {
        r->contradictions++;
        strbuf_addf(text, "the machine has no interface %s", first_missing);
    } else {
        r->agreements++;
        strbuf_addf(text, "the machine has %s%s", macs[0], found > 1 ? " and the others" : "");
    }
}

/* The GUID in the byte order that agrees with the slot, where one does. */
static const char *guid_for(const json_t *bmc, const char *uuid)
{
    size_t i;
    json_t *text;
    json_array_foreach(json_object_get(bmc, "guids"), i, text)
    {
        if (uuid != NULL && strcasecmp(json_string_value(text), uuid) == 0)
            return uuid;
    }
    return text_of(bmc, "guid");
}

void hardware_check_identity(const struct hardware *hw, const struct spec_node *slot,
                             const json_t *bmc, struct identity_result *ret, struct strbuf *text)
{
    const json_t *system = hw != NULL ? json_object_get(hw->root, "system") : NULL;
    const json_t *fru = json_object_get(bmc, "fru");
    *ret = (struct identity_result){0};
    /* the FRU's product serial, or the chassis's where vendors put it there */
    const char *fru_serial = text_of(fru, "serial");
    const char *chassis = text_of(fru, "chassis_serial");
    if (serial_is_junk(fru_serial) || (slot->serial != NULL && !serial_is_junk(chassis) &&
                                       strcasecmp(chassis, slot->serial) == 0))
        fru_serial = chassis;
    compare("serial", slot->serial, "DMI", text_of(system, "serial"), "FRU", fru_serial, ret, text);
    compare("uuid", slot->uuid, "DMI", text_of(system, "uuid"), "BMC", guid_for(bmc, slot->uuid),
            ret, text);
    if (hw != NULL)
        compare_macs(hw, slot->macs, ret, text);
}

/* ---- bill of materials ---- */

static int count_kind(const struct hardware *hw, const char *kind)
{
    int count = 0;
    for (int i = 0; i < hw->count; i++)
        count += strcmp(hw->items[i].kind, kind) == 0;
    return count;
}

static void differ(struct strbuf *sb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void differ(struct strbuf *sb, const char *fmt, ...)
{
    va_list ap;
    if (sb->len > 0)
        strbuf_adds(sb, "; ");
    va_start(ap, fmt);
    strbuf_vaddf(sb, fmt, ap);
    va_end(ap);
}

static void check_count(const char *what, int wanted, int found, bool exact, struct strbuf *sb)
{
    if (wanted >= 0 && (exact ? found != wanted : found < wanted))
        differ(sb, "%d %s instead of %s%d", found, what, exact ? "" : "at least ", wanted);
}

static void check_disk_size(const struct hardware *hw, int64_t wanted_gb, struct strbuf *sb)
{
    long long largest = 0;
    size_t i;
    json_t *d;
    json_array_foreach(json_object_get(hw->root, "disks"), i, d)
    {
        if (number_of(d, "bytes") > largest && number_of(d, "removable") == 0)
            largest = number_of(d, "bytes");
    }
    if (wanted_gb > 0 && largest < wanted_gb * 1000000000LL)
        differ(sb, "the largest disk has %.1f GB instead of at least %lld GB",
               (double)largest / 1e9, (long long)wanted_gb);
}

static void check_gpu_models(const struct hardware *hw, const char *wanted, struct strbuf *sb)
{
    for (int i = 0; wanted != NULL && i < hw->count; i++) {
        const struct component *c = &hw->items[i];
        if (strcmp(c->kind, "gpu") == 0 && strcasestr(c->model, wanted) == NULL)
            differ(sb, "GPU %s is a %s instead of a %s", c->slot, c->model, wanted);
    }
}

/* DIMMs say what was built in; what the kernel calls total lacks what firmware keeps. */
static long long memory_mib(const struct hardware *hw)
{
    const json_t *m = json_object_get(hw->root, "memory"), *dimm;
    long long sum = 0;
    size_t i;
    json_array_foreach(json_object_get(m, "dimms"), i, dimm)
    {
        sum += number_of(dimm, "size_mib");
    }
    return sum > 0 ? sum : number_of(m, "total_mib");
}

bool hardware_check_bom(const struct hardware *hw, const struct bom *bom,
                        struct strbuf *differences)
{
    size_t before = differences->len;
    check_count("logical CPUs", bom->cpus,
                (int)number_of(json_object_get(hw->root, "cpu"), "threads"), true, differences);
    if (bom->memory_mib > 0 && memory_mib(hw) < bom->memory_mib)
        differ(differences, "%lld MiB of memory instead of at least %lld MiB", memory_mib(hw),
               (long long)bom->memory_mib);
    check_count("GPUs", bom->gpus, count_kind(hw, "gpu"), true, differences);
    check_gpu_models(hw, bom->gpu_model, differences);
    check_count("network interfaces", bom->nics, count_kind(hw, "nic"), false, differences);
    check_count("disks", bom->disks, count_kind(hw, "disk"), false, differences);
    check_disk_size(hw, bom->disk_gb, differences);
    return differences->len == before;
}

const char *hardware_gpu_driver(const struct hardware *hw)
{
    return text_of(hw->root, "nvidia_driver");
}

int hardware_active_rdma_ports(const struct hardware *hw, double gbs, struct strbuf *text)
{
    int active = 0;
    size_t i, j;
    json_t *h, *port;
    json_array_foreach(json_object_get(hw->root, "hcas"), i, h)
    {
        json_array_foreach(json_object_get(h, "ports"), j, port)
        {
            const char *state = text_of(port, "state");
            /* "400 Gb/sec (4X NDR)", "400 Gb/s" */
            bool fast = gbs <= 0 || strtod(text_of(port, "rate"), NULL) >= gbs;
            active += strcmp(state, "ACTIVE") == 0 && fast;
            strbuf_addf(text, "%s%s port %lld %s, %s", text->len ? "; " : "", text_of(h, "name"),
                        number_of(port, "port"), state, text_of(port, "rate"));
        }
    }
    if (text->len == 0)
        strbuf_adds(text, "the machine has no RDMA device");
    return active;
}
