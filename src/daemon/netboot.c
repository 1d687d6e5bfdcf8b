/* The network boot side: comes with the spec's provisioning network, reports to engine and store.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "daemon/app_int.h"

static void on_token(const struct token_view *t, void *user)
{
    struct app *app = user;
    struct store_token row = {
        .hash = t->hash,
        .node_id = t->node,
        .attempt_id = t->attempt,
        .purpose = name_of(token_purpose_names, (int)t->purpose, "?"),
        .state = name_of(token_state_names, (int)t->state, "?"),
        .image_sha256 = t->image_sha256[0] ? t->image_sha256 : NULL,
        .ramdisk_boot_id = t->ramdisk_boot_id[0] ? t->ramdisk_boot_id : NULL,
        .proof_boot_id = t->proof_boot_id[0] ? t->proof_boot_id : NULL,
        .armed_at = t->armed_at,
        .expires_at = t->expires_at,
        .changed_at = t->changed_at,
        .why_dead = t->why_dead[0] ? t->why_dead : NULL,
    };
    store_put_token(app->store, &row);
}

static void on_artefact(const char *path, int64_t size, int64_t mtime_ns, const char *sha256,
                        void *user)
{
    struct app *app = user;
    struct store_artefact row = {
        .path = path, .size = size, .mtime_ns = mtime_ns, .sha256 = sha256};
    store_put_artefact(app->store, &row);
}

static void on_claimed(int64_t node, int64_t attempt, const char *purpose, void *user)
{
    engine_on_claimed(((struct app *)user)->engine, node, attempt, purpose);
}
static void on_facts(int64_t node, int64_t attempt, const char *json, void *user)
{
    engine_on_facts(((struct app *)user)->engine, node, attempt, json);
}
static void on_progress(int64_t node, int64_t attempt, int percent, const char *text, void *user)
{
    engine_on_progress(((struct app *)user)->engine, node, attempt, percent, text);
}
static void on_installed(int64_t node, int64_t attempt, const char *host_key, const char *text,
                         void *user)
{
    engine_on_installed(((struct app *)user)->engine, node, attempt, host_key, text);
}
static void on_proof(int64_t node, int64_t attempt, const char *boot_id, const char *text,
                     void *user)
{
    engine_on_proof(((struct app *)user)->engine, node, attempt, boot_id, text);
}
static void on_failed(int64_t node, int64_t attempt, const char *text, void *user)
{
    engine_on_install_failed(((struct app *)user)->engine, node, attempt, text);
}

struct pending_known {
    const char *mac;
    int64_t first_seen, times;
};

static void find_pending(const struct store_pending *row, void *user)
{
    struct pending_known *k = user;
    if (strcmp(row->mac, k->mac) == 0) {
        k->first_seen = row->first_seen;
        k->times = row->times;
    }
}

static void on_unknown(const char *mac, const char *uuid, const char *serial, const char *address,
                       const char *platform, void *user)
{
    struct app *app = user;
    int64_t now = loop_wall(app->loop);
    struct pending_known known = {.mac = mac, .first_seen = now};
    (void)store_each_pending(app->store, find_pending, &known, NULL);
    struct store_pending row = {.mac = mac,
                                .uuid = uuid[0] ? uuid : NULL,
                                .serial = serial[0] ? serial : NULL,
                                .address = address[0] ? address : NULL,
                                .platform = platform[0] ? platform : NULL,
                                .note = "no node has this MAC; it was told to boot from its disk",
                                .first_seen = known.first_seen,
                                .last_seen = now,
                                .times = known.times + 1,
                                .status = "pending"};
    store_put_pending(app->store, &row);
    if (known.times == 0) {
        struct store_event event = {
            .at = now, .kind = "boot.unknown", .text = mac, .actor = "netboot"};
        (void)store_add_event(app->store, &event);
    }
    log_info("boot.unknown", "%s (serial %s) asked for a boot script", mac,
             serial[0] ? serial : "?");
}

static void on_event(const char *kind, int64_t node, const char *text, void *user)
{
    struct app *app = user;
    const char *name = engine_node_name(app->engine, node);
    struct store_event row = {.at = loop_wall(app->loop),
                              .node_id = node,
                              .node = name,
                              .kind = kind,
                              .text = text,
                              .actor = "netboot"};
    (void)store_add_event(app->store, &row);
    log_info(kind, "%s%s%s", name != NULL ? name : "", name != NULL ? ": " : "", text);
    bool local = strcmp(kind, "boot.local") == 0;
    if (local || strcmp(kind, "boot.ramdisk") == 0)
        engine_on_boot_asked(app->engine, node, local, text);
}

static void restore_token(const struct store_token *row, void *user)
{
    struct app *app = user;
    struct token_view v = {.node = row->node_id,
                           .attempt = row->attempt_id,
                           .purpose =
                               (enum token_purpose)name_id(token_purpose_names, row->purpose),
                           .state = (enum token_state)name_id(token_state_names, row->state),
                           .armed_at = row->armed_at,
                           .expires_at = row->expires_at,
                           .changed_at = row->changed_at};
    (void)snprintf(v.hash, sizeof v.hash, "%s", row->hash);
    (void)snprintf(v.image_sha256, sizeof v.image_sha256, "%s",
                   row->image_sha256 != NULL ? row->image_sha256 : "");
    (void)snprintf(v.ramdisk_boot_id, sizeof v.ramdisk_boot_id, "%s",
                   row->ramdisk_boot_id != NULL ? row->ramdisk_boot_id : "");
    (void)snprintf(v.why_dead, sizeof v.why_dead, "%s", row->why_dead != NULL ? row->why_dead : "");
    (void)snprintf(v.proof_boot_id, sizeof v.proof_boot_id, "%s",
                   row->proof_boot_id != NULL ? row->proof_boot_id : "");
    netboot_restore_token(app->netboot, &v);
}

static void restore_artefact(const struct store_artefact *row, void *user)
{
    netboot_remember_artefact(((struct app *)user)->netboot, row->path, row->size, row->mtime_ns,
                              row->sha256);
}

static const char *ip_text(uint32_t addr, char buf[INET_ADDRSTRLEN])
{
    struct in_addr in = {.s_addr = htonl(addr)};
    return addr != 0 ? inet_ntop(AF_INET, &in, buf, INET_ADDRSTRLEN) : NULL;
}

static enum netboot_mode mode_of(const struct spec_network *net)
{
    switch (net->mode) {
    case DHCP_AUTHORITATIVE:
        return NETBOOT_DHCP_AUTHORITATIVE;
    case DHCP_PROXY:
        return NETBOOT_DHCP_PROXY;
    default:
        return NETBOOT_DHCP_NONE;
    }
}

static int start_netboot(struct app *app, const struct spec *spec, struct err *err)
{
    char first[INET_ADDRSTRLEN], last[INET_ADDRSTRLEN], head[INET_ADDRSTRLEN];
    const struct spec_network *net = &spec->provision;
    char *run_dir cleanup_free = xasprintf("%s/netboot", app->config->run_dir);
    char *template_dir cleanup_free = xasprintf("%s/boot", app->config->templates);
    struct netboot_config c = {
        .loop = app->loop,
        .cidr = net->cidr,
        .interface = app->config->interface,
        .address = ip_text(net->head, head),
        .port = app->config->boot_port,
        .mode = mode_of(net),
        .pool_first = ip_text(net->dhcp_first, first),
        .pool_last = ip_text(net->dhcp_last, last),
        .run_dir = run_dir,
        .template_dir = template_dir,
        .artefact_dir = app->config->artefacts,
        .kernel = app->config->kernel,
        .initrd = app->config->initrd,
        .hooks = {.token = on_token,
                  .artefact = on_artefact,
                  .claimed = on_claimed,
                  .facts = on_facts,
                  .progress = on_progress,
                  .installed = on_installed,
                  .proof = on_proof,
                  .failed = on_failed,
                  .unknown = on_unknown,
                  .event = on_event},
        .user = app,
    };
    app->netboot = netboot_new(&c, err);
    if (app->netboot == NULL || store_each_live_token(app->store, restore_token, app, err) < 0 ||
        store_each_artefact(app->store, restore_artefact, app, err) < 0 ||
        netboot_start(app->netboot, err) < 0)
        return -(int)err->code;
    return 0;
}

static void fail_open(struct app *app, const struct err *err)
{
    log_error("netboot.off", "network boot does not work: %s", err->text);
    on_event("netboot.off", 0, err->text, app);
    app_netboot_stop(app);
}

void app_netboot_open(struct app *app)
{
    char head[INET_ADDRSTRLEN];
    struct err err = {0};
    if (app->netboot == NULL || app->boot != NULL)
        return;
    struct http_listen listen = {.address = ip_text(app->netboot_head, head),
                                 .port = app->config->boot_port,
                                 .handle = routes_boot,
                                 .user = app->routes,
                                 .max_body = NETBOOT_MAX_BODY};
    app->boot = http_server_new(app->loop);
    if (http_listen(app->boot, &listen, NULL, &err) < 0) {
        fail_open(app, &err);
        return;
    }
    log_info("netboot.on", "boot server at %s", netboot_url(app->netboot));
    routes_set_netboot(app->routes, app->netboot);
    engine_set_netboot(app->engine, app->netboot);
}

void app_netboot_stop(struct app *app)
{
    routes_set_netboot(app->routes, NULL);
    engine_set_netboot(app->engine, NULL);
    http_server_free(app->boot);
    netboot_free(app->netboot);
    app->boot = NULL;
    app->netboot = NULL;
    free(app->netboot_key);
    app->netboot_key = NULL;
}

void app_netboot_apply(struct app *app, const struct spec *spec)
{
    const struct spec_network *net = &spec->provision;
    char *key = net->set ? xasprintf("%s %u %u %u %d", net->cidr, net->head, net->dhcp_first,
                                     net->dhcp_last, (int)net->mode)
                         : NULL;
    if (app->netboot != NULL && key != NULL && strcmp(key, app->netboot_key) == 0) {
        free(key);
        return;
    }
    app_netboot_stop(app);
    app->netboot_key = key;
    if (key == NULL)
        return;
    struct err err = {0};
    app->netboot_head = net->head;
    if (start_netboot(app, spec, &err) < 0)
        fail_open(app, &err);
}

bool app_artefact(const char *name, char sha256[65], void *user)
{
    struct app *app = user;
    return app->netboot != NULL && netboot_artefact(app->netboot, name, sha256, NULL) == 0;
}
