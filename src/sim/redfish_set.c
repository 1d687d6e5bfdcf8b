/*
 * What a Redfish client can change: the boot override of the system, its power, a restart of the
 * BMC. A request with one wrong property changes nothing at all; DSP0266 (7.7 "PATCH") would allow
 * to carry out the rest.
 */
#include <microhttpd.h>
#include <string.h>

#include "sim/redfish_int.h"

const char *const rf_reset_types[] = {
    "On", "ForceOff", "GracefulShutdown", "ForceRestart", "GracefulRestart", "PowerCycle", NULL};
const char *const rf_boot_targets[] = {"None", "Pxe", "Hdd", "UefiHttp", NULL};
const char *const rf_boot_enabled[] = {"Disabled", "Once", "Continuous", NULL};
const char *const rf_boot_modes[] = {"Legacy", "UEFI", NULL};
const char *const rf_manager_reset_types[] = {"GracefulRestart", "ForceRestart", NULL};

/* ---- boot override ---- */

/* The three properties as indices into the lists above. */
struct boot_choice {
    int target, enabled, mode;
};
enum { TARGET_NONE, TARGET_PXE, TARGET_HDD, TARGET_HTTP };
enum { BOOT_DISABLED, BOOT_ONCE, BOOT_CONTINUOUS };
enum { MODE_LEGACY, MODE_UEFI };

static struct boot_choice boot_now(const struct rf_call *c)
{
    const struct sim_node *n = c->node;
    struct boot_choice now = {TARGET_NONE, BOOT_DISABLED,
                              n->override_efi ? MODE_UEFI : MODE_LEGACY};
    if (n->override == SIM_BOOT_DEFAULT)
        return now;
    now.enabled = n->override_once ? BOOT_ONCE : BOOT_CONTINUOUS;
    if (n->override == SIM_BOOT_DISK)
        now.target = TARGET_HDD;
    else
        now.target = c->bmc->http_boot && n->override_efi ? TARGET_HTTP : TARGET_PXE;
    return now;
}

static json_t *strings(const char *const *list)
{
    json_t *a = json_array();
    for (; *list != NULL; list++)
        json_array_append_new(a, json_string(*list));
    return a;
}

json_t *rf_boot(const struct rf_call *c)
{
    struct boot_choice b = boot_now(c);
    return json_pack("{s:s,s:o,s:s,s:o,s:s,s:o}", "BootSourceOverrideEnabled",
                     rf_boot_enabled[b.enabled],
                     "BootSourceOverrideEnabled@Redfish.AllowableValues", strings(rf_boot_enabled),
                     "BootSourceOverrideTarget", rf_boot_targets[b.target],
                     "BootSourceOverrideTarget@Redfish.AllowableValues", strings(rf_boot_targets),
                     "BootSourceOverrideMode", rf_boot_modes[b.mode],
                     "BootSourceOverrideMode@Redfish.AllowableValues", strings(rf_boot_modes));
}

static int index_of(const char *const *list, const char *value)
{
    for (int i = 0; list[i] != NULL; i++)
        if (strcmp(list[i], value) == 0)
            return i;
    return -1;
}

/* Reads one property into *ret; or the answer says what is wrong with it. */
static bool read_choice(struct rf_call *c, const char *name, const json_t *value,
                        const char *const *list, int *ret)
{
    if (!json_is_string(value)) {
        char *shown = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        rf_refuse(c, MHD_HTTP_BAD_REQUEST, RF_PROPERTY_VALUE_TYPE, shown, name, NULL);
        free(shown);
        return false;
    }
    int i = index_of(list, json_string_value(value));
    if (i < 0) {
        rf_refuse(c, MHD_HTTP_BAD_REQUEST, RF_PROPERTY_VALUE_NOT_LISTED, json_string_value(value),
                  name, NULL);
        return false;
    }
    *ret = i;
    return true;
}

static bool read_boot(struct rf_call *c, json_t *boot, struct boot_choice *want)
{
    const char *key;
    json_t *v;
    json_object_foreach(boot, key, v)
    {
        bool ok;
        if (strcmp(key, "BootSourceOverrideTarget") == 0) {
            ok = read_choice(c, key, v, rf_boot_targets, &want->target);
        } else if (strcmp(key, "BootSourceOverrideEnabled") == 0) {
            ok = read_choice(c, key, v, rf_boot_enabled, &want->enabled);
        } else if (strcmp(key, "BootSourceOverrideMode") == 0) {
            ok = read_choice(c, key, v, rf_boot_modes, &want->mode);
        } else {
            rf_refuse(c, MHD_HTTP_BAD_REQUEST, RF_PROPERTY_UNKNOWN, key, NULL, NULL);
            ok = false;
        }
        if (!ok)
            return false;
    }
    return true;
}

/* Fills in what the request left out; false and an answer when it contradicts itself. */
static bool settle_boot(struct rf_call *c, struct boot_choice *want)
{
    struct boot_choice now = boot_now(c);
    bool mode_given = want->mode >= 0;
    if (!mode_given)
        want->mode = now.mode;
    if (want->target < 0)
        want->target = want->enabled == BOOT_DISABLED ? TARGET_NONE : now.target;
    /* a target alone, while no override is in force, is taken as "once": the cautious reading */
    if (want->enabled < 0)
        want->enabled = now.enabled == BOOT_DISABLED ? BOOT_ONCE : now.enabled;
    if (want->target != TARGET_HTTP || want->mode == MODE_UEFI)
        return true;
    if (mode_given) {
        rf_refuse(c, MHD_HTTP_BAD_REQUEST, RF_PROPERTY_VALUE_CONFLICT, "BootSourceOverrideTarget",
                  "BootSourceOverrideMode", NULL);
        return false;
    }
    want->mode = MODE_UEFI;
    return true;
}

static void set_boot(struct rf_call *c, const struct boot_choice *want)
{
    static const enum sim_boot devices[] = {SIM_BOOT_DEFAULT, SIM_BOOT_PXE, SIM_BOOT_DISK,
                                            SIM_BOOT_PXE};
    enum sim_boot device =
        want->enabled == BOOT_DISABLED ? SIM_BOOT_DEFAULT : devices[want->target];
    c->bmc->http_boot = want->target == TARGET_HTTP;
    machine_set_boot(c->node, device, want->mode == MODE_UEFI, want->enabled != BOOT_CONTINUOUS);
}

static bool known_property(const char *key)
{
    /* what GET shows besides Boot; only for telling "read-only" from "unknown" */
    static const char *const shown[] = {
        "Id",           "Name",     "Manufacturer", "Model",       "SerialNumber", "UUID",
        "BiosVersion",  "HostName", "PowerState",   "SystemType",  "Status",       "Links",
        "BootProgress", "Actions",  "@odata.id",    "@odata.type", "@odata.etag",  NULL};
    return index_of(shown, key) >= 0;
}

static bool patch_is_boot_only(struct rf_call *c, json_t *body)
{
    const char *key;
    json_t *v;
    if (json_object_size(body) == 0) {
        rf_refuse(c, MHD_HTTP_BAD_REQUEST, RF_EMPTY_JSON, NULL, NULL, NULL);
        return false;
    }
    json_object_foreach(body, key, v)
    {
        if (strcmp(key, "Boot") == 0 && json_is_object(v))
            continue;
        if (strcmp(key, "Boot") == 0)
            rf_refuse(c, MHD_HTTP_BAD_REQUEST, RF_PROPERTY_VALUE_TYPE, "", key, NULL);
        else
            rf_refuse(c, MHD_HTTP_BAD_REQUEST,
                      known_property(key) ? RF_PROPERTY_NOT_WRITABLE : RF_PROPERTY_UNKNOWN, key,
                      NULL, NULL);
        return false;
    }
    return true;
}

void rf_patch_system(struct rf_call *c)
{
    json_t *body = rf_body(c);
    if (body == NULL)
        return;
    struct boot_choice want = {-1, -1, -1};
    if (patch_is_boot_only(c, body) && read_boot(c, json_object_get(body, "Boot"), &want) &&
        settle_boot(c, &want)) {
        set_boot(c, &want);
        c->status = MHD_HTTP_NO_CONTENT;
    }
    json_decref(body);
}

/* ---- actions ---- */

/* The only parameter of both resets: its index in `types`, or -1 and an answer. */
static int read_reset(struct rf_call *c, const char *action, const char *const *types)
{
    json_t *body = rf_body(c);
    if (body == NULL)
        return -1;
    const char *key;
    json_t *v;
    int type = -1;
    bool bad = false;
    json_object_foreach(body, key, v)
    {
        if (strcmp(key, "ResetType") != 0) {
            rf_refuse(c, MHD_HTTP_BAD_REQUEST, RF_ACTION_PARAMETER_UNKNOWN, action, key, NULL);
            bad = true;
        }
    }
    v = json_object_get(body, "ResetType");
    if (!bad && v == NULL) {
        rf_refuse(c, MHD_HTTP_BAD_REQUEST, RF_ACTION_PARAMETER_MISSING, action, "ResetType", NULL);
    } else if (!bad) {
        const char *value = json_is_string(v) ? json_string_value(v) : "(no text)";
        type = index_of(types, value);
        if (type < 0)
            rf_refuse(c, MHD_HTTP_BAD_REQUEST, RF_ACTION_PARAMETER_NOT_LISTED, value, "ResetType",
                      action);
    }
    json_decref(body);
    return type;
}

void rf_reset_system(struct rf_call *c)
{
    /* in the order of rf_reset_types. A restart asked for gently is a hard one: the machine knows
     * only "off gently". */
    static const enum sim_power orders[] = {SIM_POWER_ON,    SIM_POWER_OFF,   SIM_POWER_SOFT,
                                            SIM_POWER_RESET, SIM_POWER_RESET, SIM_POWER_CYCLE};
    int type = read_reset(c, "ComputerSystem.Reset", rf_reset_types);
    if (type < 0)
        return;
    machine_power(c->node, orders[type]);
    c->status = MHD_HTTP_NO_CONTENT;
}

void rf_reset_manager(struct rf_call *c)
{
    if (read_reset(c, "Manager.Reset", rf_manager_reset_types) < 0)
        return;
    /* the answer still goes out; then the BMC is away, and its sessions are gone */
    memset(c->bmc->sessions, 0, sizeof c->bmc->sessions);
    c->bmc->absent_until = loop_now(c->sim->loop) + sim_ms(c->sim, RF_RESET_MS);
    c->status = MHD_HTTP_NO_CONTENT;
}
