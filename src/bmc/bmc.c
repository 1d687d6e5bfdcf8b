/* The hub, BMCs that come and go, the lock-out breaker, and what can be asked of a BMC. */
#include "bmc/bmc.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/names.h"
#include "bmc/driver.h"

enum { MAX_OPS = 256, WAIT_MS = 10 * 60000 /* for its turn */ };

const struct name bmc_what_names[] = {{BMC_SENSORS, "sensors"},
                                      {BMC_WATTS, "watts"},
                                      {BMC_SEL, "sel"},
                                      {BMC_FRU, "fru"},
                                      {BMC_USERS, "users"},
                                      {BMC_NETWORK, "network"},
                                      {BMC_AC_LOSS, "ac-loss"},
                                      {BMC_FIRMWARE, "firmware"},
                                      {BMC_BIOS, "bios"},
                                      {BMC_LED, "led"},
                                      {0, NULL}};
const struct name bmc_ac_loss_names[] = {
    {BMC_AC_OFF, "off"}, {BMC_AC_LAST, "last"}, {BMC_AC_ON, "on"}, {0, NULL}};

struct lock {
    char *credential_id, *reason;
};

static void lock_free(struct lock *l)
{
    if (l == NULL)
        return;
    free(l->credential_id);
    free(l->reason);
    free(l);
}

/* ---- hub ---- */

struct bmc_hub *bmc_hub_new(const struct bmc_hub_config *config, struct err *err)
{
    struct bmc_hub *hub = xcalloc(1, sizeof *hub);
    hub->c = *config;
    if (config->drivers == NULL) {
        if (wire_new(config->loop, &hub->wire, err) < 0) {
            free(hub);
            return NULL;
        }
        wire_on_other(hub->wire, probe_packet, hub);
    }
    int max = config->max_ops > 0 ? config->max_ops : MAX_OPS;
    limit_init(&hub->ops, config->loop, "bmc", max);
    limit_init(&hub->silent, config->loop, "bmc-silent", max);
    hub->locks = map_new();
    hub->looks = map_new();
    hub->dice = (unsigned)loop_wall(config->loop);
    return hub;
}

static void free_lock(const char *key, void *value, void *user)
{
    (void)key;
    (void)user;
    lock_free(value);
}

void bmc_hub_free(struct bmc_hub *hub)
{
    if (hub == NULL)
        return;
    map_each(hub->locks, free_lock, NULL);
    map_free(hub->locks);
    map_free(hub->looks);
    limit_done(&hub->ops);
    limit_done(&hub->silent);
    wire_free(hub->wire);
    free(hub);
}

void bmc_hub_set_max(struct bmc_hub *hub, int max_ops)
{
    limit_set_max(&hub->ops, max_ops);
    limit_set_max(&hub->silent, max_ops);
}

void bmc_hub_set_gap(struct bmc_hub *hub, int64_t gap_ms)
{
    hub->gap_ms = gap_ms;
}

void bmc_hub_remember_lock(struct bmc_hub *hub, const char *address, const char *credential_id,
                           const char *reason)
{
    struct lock *l = xcalloc(1, sizeof *l);
    l->credential_id = xstrdup(credential_id);
    l->reason = xstrdup(reason);
    lock_free(map_set(hub->locks, address, l));
}

static void tell(struct bmc *b, const char *reason)
{
    if (b->hub->c.on_lock != NULL)
        b->hub->c.on_lock(b->address, b->credential_id, reason, b->hub->c.user);
}

void bmc_unlock(struct bmc *bmc)
{
    if (bmc->lock_reason == NULL)
        return;
    free(bmc->lock_reason);
    bmc->lock_reason = NULL;
    lock_free(map_remove(bmc->hub->locks, bmc->address));
    tell(bmc, NULL);
}

void bmc_refused(struct bmc *b, const struct err *err)
{
    free(b->lock_reason);
    b->lock_reason = xstrdup(err->text);
    bmc_hub_remember_lock(b->hub, b->address, b->credential_id, err->text);
    tell(b, err->text);
}

/* ---- one BMC ---- */

void bmc_label(const struct sockaddr_in *address, char label[64])
{
    char host[INET_ADDRSTRLEN];
    (void)inet_ntop(AF_INET, &address->sin_addr, host, sizeof host);
    (void)snprintf(label, 64, "%s:%d", host, ntohs(address->sin_port));
}

static const struct bmc_driver *find_driver(const struct bmc_hub *hub, const char *name)
{
    static const struct bmc_driver *const builtin[] = {&bmc_driver_ipmi, &bmc_driver_ipmitool,
                                                       NULL};
    const struct bmc_driver *const *drivers = hub->c.drivers != NULL ? hub->c.drivers : builtin;
    for (int i = 0; drivers[i] != NULL; i++)
        if (name == NULL || strcmp(drivers[i]->name, name) == 0)
            return drivers[i];
    return NULL;
}

static int check_target(const struct bmc_target *t, const struct bmc_driver *driver,
                        struct sockaddr_in *ret, struct err *err)
{
    *ret = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)(t->port > 0 ? t->port : driver->port))};
    if (inet_pton(AF_INET, t->address, &ret->sin_addr) != 1)
        return err_set(err, ERR_INVALID, "'%s' is no IPv4 address of a BMC", t->address);
    if (t->user != NULL && strlen(t->user) > RMCP_USER_MAX)
        return err_set(err, ERR_INVALID, "the BMC's user name is longer than %d bytes",
                       RMCP_USER_MAX);
    if (t->password != NULL && strlen(t->password) > RMCP_PASSWORD_MAX)
        return err_set(err, ERR_INVALID,
                       "the BMC's password is longer than the %d bytes that IPMI 2.0 allows",
                       RMCP_PASSWORD_MAX);
    if (t->cipher_suite != 0 && cipher_suite_find(t->cipher_suite) == NULL)
        return err_set(err, ERR_UNSUPPORTED, "cipher suite %d is not supported (3 and 17 are)",
                       t->cipher_suite);
    return 0;
}

int bmc_open(struct bmc_hub *hub, const struct bmc_target *target, struct bmc **ret_bmc,
             struct err *err)
{
    struct sockaddr_in addr;
    const struct bmc_driver *driver = find_driver(hub, target->driver);
    if (driver == NULL)
        return err_set(err, ERR_INVALID, "unknown BMC driver '%s'", target->driver);
    if (check_target(target, driver, &addr, err) < 0)
        return -(int)err->code;
    struct bmc *b = xcalloc(1, sizeof *b);
    b->hub = hub;
    b->driver = driver;
    b->address = xstrdup(target->address);
    b->port = ntohs(addr.sin_port);
    b->sockaddr = addr;
    b->user = xstrdup(target->user != NULL ? target->user : "");
    b->password = xstrdup(target->password != NULL ? target->password : "");
    b->credential_id = xstrdup(target->credential_id != NULL ? target->credential_id : "");
    b->cipher_suite = target->cipher_suite;
    b->lane = target->lane;
    bmc_label(&addr, b->label);
    gate_open(b);
    const struct lock *known = map_get(hub->locks, b->address);
    if (known != NULL) {
        b->lock_reason = xstrdup(known->reason);
        if (strcmp(known->credential_id, b->credential_id) != 0)
            bmc_unlock(b);
    }
    if (driver->open != NULL)
        driver->open(b);
    hub->open++;
    b->next = hub->bmcs;
    if (b->next != NULL)
        b->next->prev = b;
    hub->bmcs = b;
    *ret_bmc = b;
    return 0;
}

void bmc_close(struct bmc *bmc)
{
    if (bmc == NULL)
        return;
    struct err gone = {0};
    (void)err_set(&gone, ERR_CANCELLED, "the BMC at %s is no longer in use", bmc->label);
    gate_close(bmc, &gone);
    if (bmc->driver->close != NULL)
        bmc->driver->close(bmc);
    bmc->hub->open--;
    *(bmc->prev != NULL ? &bmc->prev->next : &bmc->hub->bmcs) = bmc->next;
    if (bmc->next != NULL)
        bmc->next->prev = bmc->prev;
    free(bmc->address);
    free(bmc->user);
    mem_wipe_free(bmc->password, strlen(bmc->password));
    free(bmc->credential_id);
    free(bmc->lock_reason);
    free(bmc);
}

const char *bmc_locked(const struct bmc *bmc)
{
    return bmc->lock_reason;
}

/* ---- requests ---- */

static struct request *ask(struct bmc *b, enum request_kind kind, int64_t timeout_ms,
                           op_done_fn done, void *user)
{
    struct request *r = xcalloc(1, sizeof *r);
    op_init(&r->pub.op, &request_type, b->hub->c.loop, timeout_ms + WAIT_MS, done, user);
    r->bmc = b;
    r->kind = kind;
    r->timeout_ms = timeout_ms;
    gate_enter(b, r);
    return r;
}

struct bmc_op *bmc_verify(struct bmc *bmc, int64_t timeout_ms, op_done_fn done, void *user)
{
    return &ask(bmc, REQ_VERIFY, timeout_ms, done, user)->pub;
}

struct bmc_op *bmc_identity(struct bmc *bmc, int64_t timeout_ms, op_done_fn done, void *user)
{
    struct request *r = ask(bmc, REQ_IDENTITY, timeout_ms, done, user);
    r->pub.result = json_object();
    return &r->pub;
}

struct bmc_op *bmc_power_get(struct bmc *bmc, int64_t timeout_ms, op_done_fn done, void *user)
{
    return &ask(bmc, REQ_POWER_GET, timeout_ms, done, user)->pub;
}

struct bmc_op *bmc_power_set(struct bmc *bmc, enum bmc_power_action action, int64_t timeout_ms,
                             op_done_fn done, void *user)
{
    struct request *r = ask(bmc, REQ_POWER_SET, timeout_ms, done, user);
    r->action = action;
    return &r->pub;
}

struct bmc_op *bmc_boot_get(struct bmc *bmc, int64_t timeout_ms, op_done_fn done, void *user)
{
    return &ask(bmc, REQ_BOOT_GET, timeout_ms, done, user)->pub;
}

struct bmc_op *bmc_boot_set(struct bmc *bmc, enum bmc_boot_device device, bool efi,
                            int64_t timeout_ms, op_done_fn done, void *user)
{
    struct request *r = ask(bmc, REQ_BOOT_SET, timeout_ms, done, user);
    r->pub.device = device;
    r->pub.efi = efi;
    return &r->pub;
}

struct bmc_op *bmc_read(struct bmc *bmc, enum bmc_what what, int64_t timeout_ms, op_done_fn done,
                        void *user)
{
    struct request *r = ask(bmc, REQ_READ, timeout_ms, done, user);
    r->what = what;
    return &r->pub;
}

struct bmc_op *bmc_change(struct bmc *bmc, const struct bmc_change *change, int64_t timeout_ms,
                          op_done_fn done, void *user)
{
    struct request *r = ask(bmc, REQ_CHANGE, timeout_ms, done, user);
    r->change = *change;
    r->change.user = change->user != NULL ? xstrdup(change->user) : NULL;
    r->change.password = change->password != NULL ? xstrdup(change->password) : NULL;
    return &r->pub;
}
