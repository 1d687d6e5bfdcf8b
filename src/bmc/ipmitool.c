/*
 * The ipmitool driver: one child per command (ipmitool 1.8.19), for machines that only it can talk
 * to. The password goes through descriptor 3, never through argv or the environment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bmc/driver.h"
#include "loop/child.h"

enum { CHILD_MS = 60000, OUTPUT_MAX = 64 * 1024, WORDS_MAX = 8 };

static void run(struct request *r);

static const char *const *words_of(const struct request *r)
{
    static const char *const info[] = {"mc", "info", NULL};
    static const char *const guid[] = {"mc", "guid", NULL};
    static const char *const fru[] = {"fru", "print", "0", NULL};
    static const char *const status[] = {"chassis", "power", "status", NULL};
    static const char *const actions[][4] = {
        [BMC_POWER_OFF] = {"chassis", "power", "off", NULL},
        [BMC_POWER_ON] = {"chassis", "power", "on", NULL},
        [BMC_POWER_CYCLE] = {"chassis", "power", "cycle", NULL},
        [BMC_POWER_RESET] = {"chassis", "power", "reset", NULL},
        [BMC_POWER_SOFT] = {"chassis", "power", "soft", NULL}};
    static const char *const boot_get[] = {"chassis", "bootparam", "get", "5", NULL};
    static const char *const devices[][4] = {
        [BMC_BOOT_NONE] = {"chassis", "bootdev", "none", NULL},
        [BMC_BOOT_PXE] = {"chassis", "bootdev", "pxe", NULL},
        [BMC_BOOT_DISK] = {"chassis", "bootdev", "disk", NULL}};
    switch (r->kind) {
    case REQ_IDENTITY:
        return r->step == 0 ? info : r->step == 1 ? guid : fru;
    case REQ_POWER_GET:
        return status;
    case REQ_POWER_SET:
        return actions[r->action];
    case REQ_BOOT_GET:
        return boot_get;
    case REQ_BOOT_SET:
        return devices[r->pub.device];
    default:
        return info;
    }
}

/* The text after "KEY", blanks and ':' on the line that begins with KEY; false: no such line. */
static bool value_of(const char *output, const char *key, char *ret, size_t size)
{
    size_t key_len = strlen(key);
    for (const char *line = output; *line != '\0';) {
        const char *p = line + strspn(line, " \t");
        size_t len = strcspn(line, "\n");
        const char *end = line + len;
        if (strncmp(p, key, key_len) == 0) {
            const char *v = p + key_len;
            v += strspn(v, " \t");
            if (*v == ':') {
                v++;
                v += strspn(v, " \t");
                size_t n = v < end ? (size_t)(end - v) : 0;
                while (n > 0 && (unsigned char)v[n - 1] <= ' ')
                    n--;
                (void)snprintf(ret, size, "%.*s", (int)n, v);
                return n > 0;
            }
        }
        line = *end == '\n' ? end + 1 : end;
    }
    return false;
}

static void take_info(struct request *r, const char *out)
{
    char firmware[32] = "?", ipmi[16] = "?", id[16];
    (void)value_of(out, "Firmware Revision", firmware, sizeof firmware);
    (void)value_of(out, "IPMI Version", ipmi, sizeof ipmi);
    if (r->kind == REQ_VERIFY) {
        (void)snprintf(r->pub.text, sizeof r->pub.text,
                       "IPMI %s, ipmitool, privilege ADMINISTRATOR, firmware %s", ipmi, firmware);
        return;
    }
    json_t *bmc = json_pack("{s:s,s:s}", "firmware", firmware, "ipmi", ipmi);
    static const struct {
        const char *key, *name;
    } numbers[] = {{"Device ID", "device_id"},
                   {"Device Revision", "revision"},
                   {"Manufacturer ID", "manufacturer_id"},
                   {"Product ID", "product_id"}};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (value_of(out, numbers[i].key, id, sizeof id))
            (void)json_object_set_new(bmc, numbers[i].name, json_integer(atoi(id)));
    (void)json_object_set_new(r->pub.result, "bmc", bmc);
}

static void take_fru(struct request *r, const char *out)
{
    static const struct {
        const char *key, *name;
    } fields[] = {{"Product Manufacturer", "manufacturer"}, {"Product Name", "product"},
                  {"Product Part Number", "part"},          {"Product Serial", "serial"},
                  {"Chassis Serial", "chassis_serial"},     {"Board Mfg", "board_manufacturer"},
                  {"Board Product", "board_product"},       {"Board Serial", "board_serial"}};
    json_t *fru = json_object();
    char text[128];
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (value_of(out, fields[i].key, text, sizeof text))
            (void)json_object_set_new(fru, fields[i].name, json_string(text));
    (void)json_object_set_new(r->pub.result, "fru", fru);
}

/* True: another command follows. */
static bool take(struct request *r, const char *out)
{
    char text[64];
    switch (r->kind) {
    case REQ_VERIFY:
        take_info(r, out);
        return false;
    case REQ_IDENTITY:
        if (r->step == 0)
            take_info(r, out);
        else if (r->step == 1 && value_of(out, "System GUID", text, sizeof text))
            (void)json_object_set_new(r->pub.result, "guid", json_string(text));
        else if (r->step == 2)
            take_fru(r, out);
        return r->step++ < 2;
    case REQ_POWER_GET:
        r->pub.on = strstr(out, "Chassis Power is on") != NULL;
        return false;
    case REQ_BOOT_GET:
        r->pub.efi = strstr(out, "BIOS EFI boot") != NULL;
        r->pub.device = strstr(out, "Force PXE") != NULL                            ? BMC_BOOT_PXE
                        : strstr(out, "Force Boot from default Hard-Drive") != NULL ? BMC_BOOT_DISK
                                                                                    : BMC_BOOT_NONE;
        return false;
    default:
        return false;
    }
}

/* What ipmitool says when it fails (lanplus of 1.8.19 with -v). */
static void classify(const struct request *r, const struct child *c, struct err *err)
{
    static const struct {
        const char *says;
        enum err_code code;
        const char *means;
    } rows[] = {
        {"unauthorized name", ERR_AUTH, "does not know the user"},
        {"RAKP 2 HMAC is invalid", ERR_AUTH, "refused the password"},
        {"RAKP 2 message indicates an error : unauthorized name", ERR_AUTH,
         "does not know the user"},
        {"invalid integrity check value", ERR_AUTH, "refused the password"},
        {"insufficient resources", ERR_BUSY, "has no room for another session"},
        {"Set Session Privilege Level to ADMINISTRATOR failed", ERR_DENIED,
         "gives the user no administrator privilege"},
        {"Insufficient privilege level", ERR_DENIED, "gives the user no administrator privilege"},
        {"unauthorized role or privilege level requested", ERR_DENIED,
         "gives the user no administrator privilege"},
        {"no matching cipher suite", ERR_UNSUPPORTED, "does not know the cipher suite"},
        {"Unable to establish IPMI v2 / RMCP+ session", ERR_TIMEOUT, "does not answer"}};
    const char *out = c->err_out.data;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strstr(out, rows[i].says) != NULL) {
            (void)err_set(err, rows[i].code, "the BMC at %s %s (user '%s', by ipmitool)",
                          r->bmc->label, rows[i].means, r->bmc->user);
            return;
        }
    size_t n = strcspn(out, "\n");
    (void)err_set(err, ERR_FAILED, "ipmitool for %s ended with exit code %d: %.*s", r->bmc->label,
                  c->exit_code, (int)(n < 200 ? n : 200), out);
}

static void on_child(struct op *op, void *user)
{
    struct request *r = user;
    struct child *c = (struct child *)(void *)op;
    struct err err = op->err;
    r->child = NULL;
    bool optional = r->kind == REQ_IDENTITY && r->step > 0;
    if (err.code == ERR_FAILED && optional)
        err_clear(&err);
    else if (err.code == ERR_FAILED)
        classify(r, c, &err);
    bool more = err.code == ERR_OK && take(r, c->out.data);
    op_free(op);
    if (more)
        run(r);
    else
        request_done(r, &err);
}

static void run(struct request *r)
{
    char port[8], suite[8];
    struct err err = {0};
    (void)snprintf(port, sizeof port, "%d", r->bmc->port);
    (void)snprintf(suite, sizeof suite, "%d", r->bmc->cipher_suite != 0 ? r->bmc->cipher_suite : 3);
    const char *argv[24 + WORDS_MAX] = {
        "ipmitool", "-v",         "-I", "lanplus",   "-H", r->bmc->address, "-p", port,
        "-U",       r->bmc->user, "-f", "/dev/fd/3", "-C", suite,           "-L", "ADMINISTRATOR",
        "-N",       "1",          "-R", "2"};
    int n = 20;
    for (const char *const *w = words_of(r); *w != NULL; w++)
        argv[n++] = *w;
    if (r->kind == REQ_BOOT_SET && r->pub.efi)
        argv[n++] = "options=efiboot";
    struct child_spec spec = {.argv = argv,
                              .secret = r->bmc->password,
                              .secret_len = strlen(r->bmc->password),
                              .max_output = OUTPUT_MAX};
    struct child *c = child_start(r->bmc->hub->c.loop, &spec, CHILD_MS, on_child, r, &err);
    if (c == NULL)
        request_done(r, &err);
    else
        r->child = &c->op;
}

static void ipmitool_cancel(struct request *r)
{
    op_cancel(r->child);
    r->child = NULL;
}

static bool ipmitool_knows(const struct request *r)
{
    return r->kind != REQ_READ && r->kind != REQ_CHANGE;
}

const struct bmc_driver bmc_driver_ipmitool = {.name = "ipmitool",
                                               .port = 623,
                                               .look = LOOK_RMCP,
                                               .child = true,
                                               .knows = ipmitool_knows,
                                               .start = run,
                                               .cancel = ipmitool_cancel};
