/*
 * The routes of a BMC's Redfish service and the resources that are not inventory. The shapes are
 * those of common BMCs; property names and types are DMTF's schemas (DSP8010). What is not in the
 * table does not exist: docs/sim.md says what that leaves out.
 */
#include <microhttpd.h>
#include <string.h>

#include "base/digest.h"
#include "sim/redfish_int.h"

#define SYSTEM RF_ROOT "/Systems/1"
#define MANAGER RF_ROOT "/Managers/1"

/* ---- building ---- */

json_t *rf_link(const char *path)
{
    return json_pack("{s:o}", "@odata.id", json_sprintf(RF_ROOT "%s", path));
}

json_t *rf_status(const char *state)
{
    return json_pack("{s:s,s:s}", "State", state, "Health", "OK");
}

json_t *rf_resource(const struct rf_call *c, const char *type, const char *name)
{
    const char *id = strrchr(c->path, '/');
    const char *dot = strchr(type, '.'); /* "Chassis.v1_16_0" is "#Chassis.v1_16_0.Chassis" */
    int base = dot != NULL ? (int)(dot - type) : (int)strlen(type);
    return json_pack("{s:s,s:o,s:s,s:s}", "@odata.id", c->path, "@odata.type",
                     json_sprintf("#%s.%.*s", type, base, type), "Id", id != NULL ? id + 1 : "",
                     "Name", name);
}

json_t *rf_collection(const struct rf_call *c, const char *type, const char *name,
                      const char *const *members, int count)
{
    json_t *r = rf_resource(c, type, name);
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(
            list, json_pack("{s:o}", "@odata.id", json_sprintf("%s/%s", c->path, members[i])));
    json_object_del(r, "Id"); /* a collection has none */
    json_object_set_new(r, "Members", list);
    json_object_set_new(r, "Members@odata.count", json_integer(count));
    return r;
}

static void set_links(json_t *r, const char *const *names, const char *base)
{
    for (; *names != NULL; names++)
        json_object_set_new(r, *names,
                            json_pack("{s:o}", "@odata.id", json_sprintf("%s/%s", base, *names)));
}

static json_t *action(const char *target, const char *const *types)
{
    json_t *list = json_array();
    for (; *types != NULL; types++)
        json_array_append_new(list, json_string(*types));
    return json_pack("{s:s,s:o}", "target", target, "ResetType@Redfish.AllowableValues", list);
}

/* ---- root and services ---- */

static json_t *get_versions(struct rf_call *c)
{
    (void)c;
    return json_pack("{s:s}", "v1", RF_ROOT "/"); /* DSP0266, 6.2 */
}

static json_t *get_root(struct rf_call *c)
{
    static const char *const names[] = {
        "Systems",        "Chassis",       "Managers",   "SessionService",
        "AccountService", "UpdateService", "Registries", NULL};
    json_t *r = rf_resource(c, "ServiceRoot.v1_14_0", "Root Service");
    json_object_set_new(r, "Id", json_string("RootService"));
    json_object_set_new(r, "RedfishVersion", json_string("1.15.0"));
    json_object_set_new(r, "UUID", json_string(c->node->uuid));
    json_object_set_new(r, "Vendor", json_string("Simulated"));
    json_object_set_new(r, "Product", json_string("clusterd-sim"));
    set_links(r, names, RF_ROOT);
    json_object_set_new(r, "Tasks", rf_link("/TaskService"));
    json_object_set_new(r, "Links",
                        json_pack("{s:o}", "Sessions", rf_link("/SessionService/Sessions")));
    json_object_set_new(r, "ProtocolFeaturesSupported",
                        json_pack("{s:b,s:b,s:b,s:b}", "ExcerptQuery", 0, "FilterQuery", 0,
                                  "OnlyMemberQuery", 0, "SelectQuery", 0));
    return r;
}

static json_t *get_odata(struct rf_call *c)
{
    static const char *const names[] = {"Systems",        "Chassis",        "Managers",
                                        "SessionService", "AccountService", "UpdateService",
                                        "TaskService",    "Registries",     NULL};
    json_t *value =
        json_pack("[{s:s,s:s,s:s}]", "name", "Service", "kind", "Singleton", "url", RF_ROOT "/");
    (void)c;
    for (int i = 0; names[i] != NULL; i++)
        json_array_append_new(value,
                              json_pack("{s:s,s:s,s:o}", "name", names[i], "kind", "Singleton",
                                        "url", json_sprintf(RF_ROOT "/%s", names[i])));
    return json_pack("{s:s,s:o}", "@odata.context", RF_ROOT "/$metadata", "value", value);
}

/* The smallest document that OData CSDL 4.0 (3.1 to 3.3) accepts: the schemas live at DMTF. */
static json_t *get_metadata(struct rf_call *c)
{
#define REFERENCE(name)                                                                            \
    "<edmx:Reference Uri=\"http://redfish.dmtf.org/schemas/v1/" name "_v1.xml\">"                  \
    "<edmx:Include Namespace=\"" name "\"/></edmx:Reference>"
    c->xml =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<edmx:Edmx xmlns:edmx=\"http://docs.oasis-open.org/odata/ns/edmx\" "
        "Version=\"4.0\">" REFERENCE("ServiceRoot") REFERENCE("ComputerSystemCollection")
            REFERENCE("ComputerSystem") REFERENCE("ChassisCollection") REFERENCE("Chassis")
                REFERENCE("ManagerCollection") REFERENCE("Manager") REFERENCE("Power")
                    REFERENCE("Thermal") REFERENCE("Processor") REFERENCE("Memory")
                        REFERENCE("EthernetInterface") REFERENCE("Storage") REFERENCE("Drive")
                            REFERENCE("NetworkAdapter") REFERENCE("SoftwareInventory") REFERENCE(
                                "SessionService") REFERENCE("Session") REFERENCE("AccountService")
                                REFERENCE("ManagerAccount") REFERENCE("Role")
                                    REFERENCE("UpdateService") REFERENCE("TaskService") REFERENCE(
                                        "MessageRegistryFile") "<edmx:DataServices><Schema "
                                                               "xmlns=\"http://docs.oasis-open.org/"
                                                               "odata/ns/edm\" "
                                                               "Namespace=\"Service\"><"
                                                               "EntityContainer Name=\"Service\" "
                                                               "Extends=\"ServiceRoot.v1_14_0."
                                                               "ServiceContainer\"/></Schema></"
                                                               "edmx:DataServices>"
                                                               "</edmx:Edmx>\n";
    return NULL;
#undef REFERENCE
}

static json_t *get_session_service(struct rf_call *c)
{
    static const char *const names[] = {"Sessions", NULL};
    json_t *r = rf_resource(c, "SessionService.v1_1_8", "Session Service");
    json_object_set_new(r, "ServiceEnabled", json_true());
    json_object_set_new(r, "SessionTimeout", json_integer(RF_SESSION_S));
    json_object_set_new(r, "Status", rf_status("Enabled"));
    set_links(r, names, c->path);
    return r;
}

static json_t *get_account_service(struct rf_call *c)
{
    static const char *const names[] = {"Accounts", "Roles", NULL};
    bool locks = sim_has(c->node, FAULT_BMC_LOCKS);
    json_t *r = rf_resource(c, "AccountService.v1_11_0", "Account Service");
    json_object_set_new(r, "ServiceEnabled", json_true());
    json_object_set_new(r, "AccountLockoutThreshold", json_integer(locks ? RF_BAD_LOGINS : 0));
    json_object_set_new(r, "AccountLockoutDuration", json_integer(locks ? RF_LOCK_MS / 1000 : 0));
    json_object_set_new(r, "Status", rf_status("Enabled"));
    set_links(r, names, c->path);
    return r;
}

static json_t *get_accounts(struct rf_call *c)
{
    const char *const one[] = {"1"};
    return rf_collection(c, "ManagerAccountCollection", "Accounts", one, 1);
}

static json_t *get_account(struct rf_call *c)
{
    json_t *r = rf_resource(c, "ManagerAccount.v1_9_0", "User Account");
    json_object_set_new(r, "UserName", json_string(c->node->bmc_user));
    json_object_set_new(r, "Password", json_null());
    json_object_set_new(r, "RoleId", json_string("Administrator"));
    json_object_set_new(r, "Enabled", json_true());
    json_object_set_new(r, "Locked", json_boolean(rf_locked(c)));
    json_object_set_new(r, "Links",
                        json_pack("{s:o}", "Role", rf_link("/AccountService/Roles/Administrator")));
    return r;
}

static json_t *get_roles(struct rf_call *c)
{
    const char *const one[] = {"Administrator"};
    return rf_collection(c, "RoleCollection", "Roles", one, 1);
}

static json_t *get_role(struct rf_call *c)
{
    json_t *r = rf_resource(c, "Role.v1_3_1", "Administrator");
    json_object_set_new(r, "RoleId", json_string("Administrator"));
    json_object_set_new(r, "IsPredefined", json_true());
    json_object_set_new(r, "AssignedPrivileges",
                        json_pack("[s,s,s,s,s]", "Login", "ConfigureManager", "ConfigureUsers",
                                  "ConfigureSelf", "ConfigureComponents"));
    return r;
}

static json_t *get_update_service(struct rf_call *c)
{
    static const char *const names[] = {"FirmwareInventory", NULL};
    json_t *r = rf_resource(c, "UpdateService.v1_11_0", "Update Service");
    json_object_set_new(r, "ServiceEnabled", json_false()); /* it shows versions, no more */
    set_links(r, names, c->path);
    return r;
}

static json_t *get_task_service(struct rf_call *c)
{
    static const char *const names[] = {"Tasks", NULL};
    json_t *r = rf_resource(c, "TaskService.v1_2_0", "Task Service");
    json_object_set_new(r, "ServiceEnabled", json_true());
    set_links(r, names, c->path);
    return r;
}

static json_t *get_tasks(struct rf_call *c)
{
    return rf_collection(c, "TaskCollection", "Tasks", NULL, 0);
}

static json_t *get_registries(struct rf_call *c)
{
    const char *const one[] = {"Base"};
    return rf_collection(c, "MessageRegistryFileCollection", "Registries", one, 1);
}

static json_t *get_registry(struct rf_call *c)
{
    json_t *r = rf_resource(c, "MessageRegistryFile.v1_1_3", "Base Message Registry");
    json_object_set_new(r, "Registry", json_string("Base.1.15"));
    json_object_set_new(r, "Languages", json_pack("[s]", "en"));
    json_object_set_new(r, "Location",
                        json_pack("[{s:s,s:s}]", "Language", "en", "PublicationUri",
                                  "https://redfish.dmtf.org/registries/Base.1.15.0.json"));
    return r;
}

/* ---- system, chassis, manager ---- */

static json_t *get_systems(struct rf_call *c)
{
    const char *const one[] = {"1"};
    return rf_collection(c, "ComputerSystemCollection", "Systems", one, 1);
}

/* How far the boot is, as far as a BMC can see (ComputerSystem.v1_13_0, BootProgress). */
static const char *boot_progress(const struct sim_node *n)
{
    static const char *const words[] = {
        [PHASE_OFF] = "None",
        [PHASE_POST] = "PrimaryProcessorInitializationStarted",
        [PHASE_PXE] = "SystemHardwareInitializationComplete",
        [PHASE_RAMDISK] = "OSRunning",
        [PHASE_WRITING] = "OSRunning",
        [PHASE_BOOTING] = "OSBootStarted",
        [PHASE_RUNNING] = "OSRunning",
        [PHASE_NO_OS] = "SystemHardwareInitializationComplete",
    };
    return machine_power_shown(n) ? words[n->phase] : "None";
}

static const char *fact(const json_t *facts, const char *key)
{
    const char *v = json_string_value(json_object_get(facts, key));
    return v != NULL ? v : "";
}

static json_t *get_system(struct rf_call *c)
{
    static const char *const names[] = {"Processors", "Memory", "EthernetInterfaces", "Storage",
                                        NULL};
    bool on = machine_power_shown(c->node);
    /* identity comes from where nodeprobe's does: a swapped board shows the same in both */
    json_t *facts = machine_facts(c->node);
    const json_t *system = json_object_get(facts, "system");
    json_t *r = rf_resource(c, "ComputerSystem.v1_16_0", "System");
    json_object_set_new(r, "SystemType", json_string("Physical"));
    json_object_set_new(r, "Manufacturer", json_string(fact(system, "vendor")));
    json_object_set_new(r, "Model", json_string(fact(system, "product")));
    json_object_set_new(r, "SerialNumber", json_string(fact(system, "serial")));
    json_object_set_new(r, "UUID", json_string(fact(system, "uuid")));
    json_object_set_new(r, "BiosVersion", json_string(fact(system, "bios_version")));
    json_decref(facts);
    json_object_set_new(r, "PowerState", json_string(on ? "On" : "Off"));
    json_object_set_new(r, "Status", rf_status(on ? "Enabled" : "StandbyOffline"));
    json_object_set_new(r, "BootProgress", json_pack("{s:s}", "LastState", boot_progress(c->node)));
    json_object_set_new(r, "Boot", rf_boot(c));
    rf_add_summaries(c->node, r);
    set_links(r, names, c->path);
    json_object_set_new(r, "Links",
                        json_pack("{s:[o],s:[o]}", "Chassis", rf_link("/Chassis/1"), "ManagedBy",
                                  rf_link("/Managers/1")));
    json_object_set_new(r, "Actions",
                        json_pack("{s:o}", "#ComputerSystem.Reset",
                                  action(SYSTEM "/Actions/ComputerSystem.Reset", rf_reset_types)));
    return r;
}

static json_t *get_chassis_list(struct rf_call *c)
{
    const char *const one[] = {"1"};
    return rf_collection(c, "ChassisCollection", "Chassis", one, 1);
}

static json_t *get_chassis(struct rf_call *c)
{
    static const char *const names[] = {"Power", "Thermal", "NetworkAdapters", NULL};
    bool on = machine_power_shown(c->node);
    json_t *facts = machine_facts(c->node);
    const json_t *board = json_object_get(facts, "board");
    json_t *r = rf_resource(c, "Chassis.v1_16_0", "Chassis");
    json_object_set_new(r, "ChassisType", json_string("RackMount"));
    json_object_set_new(r, "Manufacturer", json_string("Simulated"));
    json_object_set_new(r, "Model", json_string(fact(board, "product")));
    json_object_set_new(r, "SerialNumber", json_string(fact(board, "serial")));
    json_decref(facts);
    json_object_set_new(r, "PowerState", json_string(on ? "On" : "Off"));
    json_object_set_new(r, "Status", rf_status("Enabled"));
    set_links(r, names, c->path);
    json_object_set_new(r, "Links",
                        json_pack("{s:[o],s:[o]}", "ComputerSystems", rf_link("/Systems/1"),
                                  "ManagedBy", rf_link("/Managers/1")));
    return r;
}

static json_t *get_managers(struct rf_call *c)
{
    const char *const one[] = {"1"};
    return rf_collection(c, "ManagerCollection", "Managers", one, 1);
}

static json_t *get_manager(struct rf_call *c)
{
    static const char *const names[] = {"EthernetInterfaces", NULL};
    json_t *r = rf_resource(c, "Manager.v1_12_0", "Manager");
    json_object_set_new(r, "ManagerType", json_string("BMC"));
    json_object_set_new(r, "Model", json_string("clusterd-sim"));
    json_object_set_new(r, "FirmwareVersion", json_string(CLUSTERD_VERSION));
    json_object_set_new(r, "PowerState", json_string("On"));
    json_object_set_new(r, "Status", rf_status("Enabled"));
    set_links(r, names, c->path);
    json_object_set_new(r, "Links",
                        json_pack("{s:[o],s:[o]}", "ManagerForServers", rf_link("/Systems/1"),
                                  "ManagerForChassis", rf_link("/Chassis/1")));
    json_object_set_new(
        r, "Actions",
        json_pack("{s:o}", "#Manager.Reset",
                  action(MANAGER "/Actions/Manager.Reset", rf_manager_reset_types)));
    return r;
}

static json_t *get_manager_interfaces(struct rf_call *c)
{
    const char *const one[] = {"eth0"};
    return rf_collection(c, "EthernetInterfaceCollection", "Interfaces of the BMC", one, 1);
}

static json_t *get_manager_interface(struct rf_call *c)
{
    uint32_t a = c->node->bmc;
    char dotted[16];
    json_t *r = rf_resource(c, "EthernetInterface.v1_6_4", "Interface of the BMC");
    json_object_set_new(r, "InterfaceEnabled", json_true());
    json_object_set_new(r, "LinkStatus", json_string("LinkUp"));
    /* made from the address: locally administered, one for each BMC */
    json_object_set_new(
        r, "MACAddress",
        json_sprintf("02:bc:%02x:%02x:%02x:%02x", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255));
    json_object_set_new(
        r, "IPv4Addresses",
        json_pack("[{s:s,s:s}]", "Address", sim_dotted(a, dotted), "AddressOrigin", "Static"));
    json_object_set_new(r, "Status", rf_status("Enabled"));
    return r;
}

/* ---- routes ---- */

static const struct route {
    const char *path;                  /* below /redfish; "*" is one segment */
    json_t *(*get)(struct rf_call *c); /* NULL: there is no such member */
    void (*patch)(struct rf_call *c), (*post)(struct rf_call *c), (*remove)(struct rf_call *c);
    bool open, open_post; /* without credentials: DSP0266, 13.3.1 */
} routes[] = {
    {"", .get = get_versions, .open = true},
    {"/v1", .get = get_root, .open = true},
    {"/v1/odata", .get = get_odata, .open = true},
    {"/v1/$metadata", .get = get_metadata, .open = true},
    {"/v1/SessionService", .get = get_session_service},
    {"/v1/SessionService/Sessions", .get = rf_get_sessions, .post = rf_post_session,
     .open_post = true},
    {"/v1/SessionService/Sessions/Members", .post = rf_post_session, .open_post = true},
    {"/v1/SessionService/Sessions/*", .get = rf_get_session, .remove = rf_delete_session},
    {"/v1/AccountService", .get = get_account_service},
    {"/v1/AccountService/Accounts", .get = get_accounts},
    {"/v1/AccountService/Accounts/1", .get = get_account},
    {"/v1/AccountService/Roles", .get = get_roles},
    {"/v1/AccountService/Roles/Administrator", .get = get_role},
    {"/v1/UpdateService", .get = get_update_service},
    {"/v1/UpdateService/FirmwareInventory", .get = rf_get_firmwares},
    {"/v1/UpdateService/FirmwareInventory/*", .get = rf_get_firmware},
    {"/v1/TaskService", .get = get_task_service},
    {"/v1/TaskService/Tasks", .get = get_tasks},
    {"/v1/Registries", .get = get_registries},
    {"/v1/Registries/Base", .get = get_registry},
    {"/v1/Systems", .get = get_systems},
    {"/v1/Systems/1", .get = get_system, .patch = rf_patch_system},
    {"/v1/Systems/1/Actions/ComputerSystem.Reset", .post = rf_reset_system},
    {"/v1/Systems/1/Processors", .get = rf_get_processors},
    {"/v1/Systems/1/Processors/*", .get = rf_get_processor},
    {"/v1/Systems/1/Memory", .get = rf_get_memory},
    {"/v1/Systems/1/Memory/*", .get = rf_get_dimm},
    {"/v1/Systems/1/EthernetInterfaces", .get = rf_get_interfaces},
    {"/v1/Systems/1/EthernetInterfaces/*", .get = rf_get_interface},
    {"/v1/Systems/1/Storage", .get = rf_get_storages},
    {"/v1/Systems/1/Storage/1", .get = rf_get_storage},
    {"/v1/Systems/1/Storage/1/Drives/*", .get = rf_get_drive},
    {"/v1/Chassis", .get = get_chassis_list},
    {"/v1/Chassis/1", .get = get_chassis},
    {"/v1/Chassis/1/Power", .get = rf_get_power},
    {"/v1/Chassis/1/Thermal", .get = rf_get_thermal},
    {"/v1/Chassis/1/NetworkAdapters", .get = rf_get_adapters},
    {"/v1/Chassis/1/NetworkAdapters/*", .get = rf_get_adapter},
    {"/v1/Managers", .get = get_managers},
    {"/v1/Managers/1", .get = get_manager},
    {"/v1/Managers/1/Actions/Manager.Reset", .post = rf_reset_manager},
    {"/v1/Managers/1/EthernetInterfaces", .get = get_manager_interfaces},
    {"/v1/Managers/1/EthernetInterfaces/eth0", .get = get_manager_interface},
};

static bool matches(const char *pattern, struct rf_call *c, const char *path)
{
    size_t len = strlen(pattern);
    if (len == 0 || pattern[len - 1] != '*')
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, len - 1) != 0)
        return false;
    const char *member = path + len - 1;
    if (member[0] == '\0' || strchr(member, '/') != NULL || strlen(member) >= sizeof c->member)
        return false;
    (void)snprintf(c->member, sizeof c->member, "%s", member);
    return true;
}

static const struct route *find_route(struct rf_call *c)
{
    static const char prefix[] = "/redfish";
    if (strncmp(c->path, prefix, sizeof prefix - 1) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (matches(routes[i].path, c, c->path + sizeof prefix - 1))
            return &routes[i];
    return NULL;
}

static void set_allow(struct rf_call *c, const struct route *r)
{
    (void)snprintf(c->allow, sizeof c->allow, "%s%s%s%s", r->get != NULL ? ", GET, HEAD" : "",
                   r->patch != NULL ? ", PATCH" : "", r->post != NULL ? ", POST" : "",
                   r->remove != NULL ? ", DELETE" : "");
    memmove(c->allow, c->allow + 2, strlen(c->allow + 2) + 1);
}

static void set_etag(struct rf_call *c, const json_t *resource)
{
    char hex[DIGEST_HEX_SIZE];
    char *text = json_dumps(resource, JSON_COMPACT | JSON_SORT_KEYS);
    digest_hex(text, strlen(text), hex);
    free(text);
    (void)snprintf(c->etag, sizeof c->etag, "\"%.16s\"", hex);
}

/* One of the tags of an If-Match or If-None-Match header is ours (RFC 7232, 3.1 and 3.2). A client
 * may send a weak one back: DSP0266 (6.5) lets services use either. */
static bool names_etag(const char *header, const char *etag)
{
    return strcmp(header, "*") == 0 || strstr(header, etag) != NULL;
}

static void answer_get(struct rf_call *c, json_t *resource)
{
    if (resource != NULL) {
        set_etag(c, resource);
        if (json_object_get(resource, "@odata.id") != NULL) /* the two root documents are none */
            json_object_set_new(resource, "@odata.etag", json_string(c->etag));
        if (c->if_none_match != NULL && names_etag(c->if_none_match, c->etag)) {
            json_decref(resource);
            c->status = MHD_HTTP_NOT_MODIFIED;
            return;
        }
    }
    c->status = MHD_HTTP_OK;
    c->answer = resource;
}

static void answer_patch(struct rf_call *c, const struct route *r, const json_t *resource)
{
    if (c->if_match != NULL) {
        set_etag(c, resource);
        if (!names_etag(c->if_match, c->etag)) {
            rf_refuse(c, MHD_HTTP_PRECONDITION_FAILED, RF_PRECONDITION_FAILED, NULL, NULL, NULL);
            return;
        }
        c->etag[0] = '\0'; /* it is another one after the change */
    }
    r->patch(c);
}

void rf_handle(struct rf_call *c)
{
    const struct route *r = find_route(c);
    bool get = strcmp(c->method, "GET") == 0 || strcmp(c->method, "HEAD") == 0;
    bool post = strcmp(c->method, "POST") == 0;
    bool open = r != NULL && ((r->open && get) || (r->open_post && post));
    if (!open && !rf_authenticate(c))
        return;
    json_t *resource = r != NULL && r->get != NULL ? r->get(c) : NULL;
    if (r == NULL || (r->get != NULL && resource == NULL && c->xml == NULL)) {
        rf_refuse(c, MHD_HTTP_NOT_FOUND, RF_RESOURCE_MISSING, c->path, NULL, NULL);
        return;
    }
    set_allow(c, r);
    if (get && r->get != NULL) {
        answer_get(c, resource);
        return;
    }
    if (strcmp(c->method, "PATCH") == 0 && r->patch != NULL)
        answer_patch(c, r, resource);
    else if (post && r->post != NULL)
        r->post(c);
    else if (strcmp(c->method, "DELETE") == 0 && r->remove != NULL)
        r->remove(c);
    else
        rf_refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, RF_METHOD_NOT_ALLOWED, NULL, NULL, NULL);
    json_decref(resource);
}
