/*
 * `netboot: discover` and `netboot: install`: arm a token, make the machine boot from the network,
 * and wait for what it reports. The token is committed before the power is touched; on every exit
 * but success it is disarmed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/node.h"
#include "engine/power.h"
#include "netboot/netboot.h"
#include "remote/remote.h"

enum {
    INSTALLS_PER_DAY = 4,
    DAY_MS = 24 * 3600 * 1000,
    TOKEN_GRACE_MS = 60 * 1000, /* a token outlives its attempt's deadline by this at most */
    ARM_RETRY_MS = 1000,        /* while an artefact is being hashed */
};

static bool is_install(const struct step_run *run)
{
    return strcmp(run->def->what, "install") == 0;
}

static const char *token_of(const struct step_run *run)
{
    return json_string_value(json_object_get(run->data, "token"));
}

static void set_intent(struct enode *n, const char *intent)
{
    (void)snprintf(n->boot_intent, sizeof n->boot_intent, "%s", intent);
    node_save(n);
}

static const char *install_text(const struct step_run *run, const char *key)
{
    return json_string_value(json_object_get(run->node->klass->profile->install, key));
}

static void fill_order(struct step_run *run, struct netboot_order *order)
{
    const struct enode *n = run->node;
    int64_t left = n->attempt->deadline_at - engine_wall(run->engine);
    *order = (struct netboot_order){.node = n->id,
                                    .attempt = run->attempt_id,
                                    .purpose = TOKEN_DISCOVER,
                                    .expires_in_ms = (left > 0 ? left : 0) + TOKEN_GRACE_MS};
    if (!is_install(run))
        return;
    order->purpose = TOKEN_INSTALL;
    order->image = install_text(run, "image");
    order->disk = install_text(run, "disk");
    order->min_disk_gb = (int)n->klass->profile->bom.disk_gb;
    order->ssh_key = run->engine->ssh_key != NULL ? remote_key_public(run->engine->ssh_key) : NULL;
}

/* ---- waiting for the machine ---- */

/* The running ramdisk may take the order at any poll, also between arming and a BMC's answer: from
 * then on it writes, and its power is not to be touched. */
static bool is_taken(const struct step_run *run)
{
    struct token_view view;
    struct netboot *nb = run->engine->netboot;
    return netboot_token(nb, token_of(run), &view) &&
           (view.state != TOKEN_ARMED || netboot_is_handed(nb, view.hash));
}

static void start_over(struct step_run *run);

static void wait_for_machine(struct step_run *run)
{
    if (json_object_get(run->data, "restarted") != NULL) {
        start_over(run);
        return;
    }
    (void)json_object_set_new(run->data, "phase", json_string("wait"));
    if (is_taken(run))
        step_note(run, "the ramdisk on %s is at work", run->node->name);
    else
        step_note(run,
                  "waiting for %s to boot from the network: no boot script was asked for since "
                  "(boot order, cable, NIC, or a BMC that forgets the one-time boot)",
                  run->node->name);
    watts_started(run->node,
                  true); /* where no power was touched: the ramdisk restarts the machine */
}

static void on_pxe_set(struct step_run *run)
{
    if (is_taken(run))
        wait_for_machine(run);
    else
        step_power(run, "boot", wait_for_machine);
}

static void boot_machine(struct step_run *run)
{
    if (is_taken(run) ||
        (is_install(run) && netboot_ramdisk_alive(run->engine->netboot, run->node->id))) {
        wait_for_machine(run);
        step_note(run, "the ramdisk that runs on %s takes the order", run->node->name);
        return;
    }
    step_power(run, "boot-pxe", on_pxe_set);
}

static void arm(void *user)
{
    struct step_run *run = user;
    struct netboot_order order;
    char hash[DIGEST_HEX_SIZE];
    struct err err = {0};
    fill_order(run, &order);
    int rc = netboot_arm(run->engine->netboot, &order, hash, &err);
    if (rc == -ERR_BUSY) {
        step_note(run, "waiting: %s", err.text);
        timer_set(run->engine->loop, &run->timer, ARM_RETRY_MS, arm, run);
        return;
    }
    if (rc < 0) {
        step_done(run, &err, NULL);
        return;
    }
    (void)json_object_set_new(run->data, "token", json_string(hash));
    (void)json_object_set_new(run->data, "phase", json_string("armed"));
    set_intent(run->node, "netboot");
    node_event(run->node, "boot.armed", run->stage->name, run->attempt_id, "engine",
               "one network boot is allowed, for: %s", run->def->what);
    step_commit(run, boot_machine);
}

static void on_watts(void *user, const struct err *err)
{
    struct step_run *run = user;
    if (run->type == NULL)
        return; /* over already */
    if (err->code != ERR_OK)
        step_done(run, err, NULL);
    else
        arm(run);
}

/* Before the token: it would age while the node waits for its watts. */
static void reserve(struct step_run *run)
{
    struct err err = {0};
    bool alive = is_install(run) && netboot_ramdisk_alive(run->engine->netboot, run->node->id);
    step_note(run, "taking watts to %s %s", alive ? "restart" : "switch on", run->node->name);
    if (watts_take(run->node, alive ? LOAD_BOOT : LOAD_INRUSH, true, on_watts, run, &err) < 0)
        step_done(run, &err, NULL);
}

/*
 * The machine took the order and then asked for a boot script again: its ramdisk is gone, for
 * somebody pressed reset, or it claimed in the moment in which its power was cut (a daemon that was
 * killed arms anew and restarts a machine that is on its way to the ramdisk). Waiting for it would
 * last until the deadline. A discovery starts over; of an install nobody knows how far it came.
 */
static void start_over(struct step_run *run)
{
    struct err err = {0};
    (void)json_object_del(run->data, "restarted");
    if (is_install(run)) {
        (void)err_set(&err, ERR_UNREACHABLE, "%s restarted in the middle of the install",
                      run->node->name);
        step_done(run, &err, NULL);
        return;
    }
    netboot_disarm(run->engine->netboot, token_of(run), "the machine restarted");
    reserve(run);
}

static void on_local_boot(struct step_run *run, const char *text)
{
    struct token_view view;
    step_note(run, "%s", text);
    if (!netboot_token(run->engine->netboot, token_of(run), &view) || view.state != TOKEN_CLAIMED)
        return;
    if (run->op != NULL) /* a power action is in work: it ends first */
        (void)json_object_set_new(run->data, "restarted", json_true());
    else
        start_over(run);
}

static void begin_install(struct step_run *run)
{
    int count = 0;
    struct err err = {0};
    int64_t since = engine_wall(run->engine) - DAY_MS;
    if (store_count_installs(run->engine->store, run->node->id, since, &count, &err) < 0) {
        step_done(run, &err, NULL);
    } else if (count >= INSTALLS_PER_DAY) {
        (void)err_set(&err, ERR_LIMIT, "installed %d times within a day; held", count);
        json_decref(engine_hold(run->engine, run->node->name, err.text, "engine", NULL));
        step_done(run, &err, NULL);
    } else {
        reserve(run);
    }
}

/* ---- start, also after a restart ---- */

static int resume(struct step_run *run, struct err *err)
{
    struct token_view view;
    const char *hash = token_of(run);
    bool known = netboot_token(run->engine->netboot, hash, &view);
    if (known && view.state == TOKEN_PROVEN) {
        step_done(run, NULL, "the installed system proved itself while the daemon was down");
        return 0;
    }
    if (!is_install(run) && run->node->probed_at >= run->started_at) {
        step_done(run, NULL, "the machine reported its parts");
        return 0;
    }
    if (known && (view.state == TOKEN_CLAIMED || view.state == TOKEN_WRITTEN)) {
        struct netboot_order order;
        fill_order(run, &order);
        if (is_install(run))
            (void)netboot_resume(run->engine->netboot, hash, &order, NULL);
        wait_for_machine(run);
        return 0;
    }
    if (known && view.ramdisk_boot_id[0] != '\0')
        return err_set(err, ERR_FAILED, "the install was given up: %s", view.why_dead);
    /* armed but never taken: the machine did not touch its disk, so it is armed anew */
    if (is_install(run))
        begin_install(run);
    else
        reserve(run);
    return 0;
}

static int start(struct step_run *run, struct err *err)
{
    struct enode *n = run->node;
    if (!is_install(run) && node_is_installed(n)) {
        /* never reboot an installed node to look at it */
        run->type = &step_probe;
        return step_probe.start(run, err);
    }
    if (run->engine->netboot == NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "network boot is off: the spec has no networks.provision with an address "
                       "of this machine");
    if (is_install(run) && run->engine->ssh_key == NULL)
        return err_set(
            err, ERR_UNSUPPORTED, "an installed node could not be reached: credentials.ssh.key %s",
            run->engine->ssh_key_problem[0] ? run->engine->ssh_key_problem : "is missing");
    if (n->spec->macs == NULL || n->spec->macs[0] == NULL)
        return err_set(err, ERR_INVALID, "no MAC address is known for %s", n->name);
    if (run->resumed && token_of(run) != NULL)
        return resume(run, err);
    if (!is_install(run)) {
        reserve(run);
        return 0;
    }
    begin_install(run);
    return 0;
}

static void stop(struct step_run *run)
{
    const char *hash = token_of(run);
    if (run->node->power_op == NULL)
        watts_cancel(run->node); /* it waits no longer; what is reserved goes with the attempt */
    if (hash != NULL && run->engine->netboot != NULL && !run->engine->stopping &&
        json_object_get(run->data, "keep") == NULL)
        netboot_disarm(run->engine->netboot, hash, "the attempt ended");
    if (!run->engine->stopping)
        set_intent(run->node, "disk");
}

static void event(struct step_run *run, const char *event, const char *text)
{
    struct err err = {0};
    if (strcmp(event, "asked") == 0) {
        step_note(run, "%s", text);
    } else if (strcmp(event, "local") == 0) {
        on_local_boot(run, text);
    } else if (strcmp(event, "claimed") == 0) {
        step_note(run, "the ramdisk is up");
        node_event(run->node, "boot.ramdisk", run->stage->name, run->attempt_id, "engine",
                   "the machine runs the ramdisk: %s", run->def->what);
    } else if (strcmp(event, "progress") == 0) {
        step_note(run, "%s", text);
    } else if (strcmp(event, "failed") == 0) {
        (void)err_set(&err, ERR_FAILED, "the machine reports: %s", text);
        step_done(run, &err, NULL);
    } else if (strcmp(event, "facts") == 0 && !is_install(run)) {
        /* the ramdisk stays and asks for more: its token lives until it expires or is used up */
        (void)json_object_set_new(run->data, "keep", json_true());
        watts_settled(run->node);
        step_done(run, NULL, "the machine reported its parts");
    } else if (strcmp(event, "installed") == 0) {
        step_note(run, "the image is on the disk; waiting for the first boot from it");
        node_event(run->node, "install.written", run->stage->name, run->attempt_id, "engine", "%s",
                   text);
        set_intent(run->node, "disk");
    } else if (strcmp(event, "proof") == 0 && is_install(run)) {
        watts_settled(run->node);
        step_done(run, NULL, text);
    }
}

const struct step_type step_netboot = {
    .name = "netboot", .start = start, .stop = stop, .event = event};
