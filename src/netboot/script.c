/* The boot decision: which iPXE script a machine gets. From its disk, unless a live token says
 * otherwise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "netboot/netboot_int.h"
#include "text/template.h"

enum { SCRIPT_MAX = 16 << 10, UNKNOWN_MAX = 4096 };

static const char last_resort[] = "#!ipxe\nexit 1\n";

/* Always an answer of 200: a machine that got an error would sit at a prompt. Takes `data`. */
static void render(struct netboot *nb, const char *name, const char *text, json_t *data,
                   struct boot_answer *a)
{
    struct strbuf out;
    struct err err = {0};
    const struct template_options options = {.file = name, .strict = true};
    strbuf_init(&out, SCRIPT_MAX);
    if (data == NULL || text == NULL)
        (void)err_set(&err, ERR_INTERNAL, "%s: no template or no values", name);
    else if (template_render(text, strlen(text), data, &options, &out, &err) == 0 &&
             !strbuf_ok(&out))
        (void)err_set(&err, ERR_LIMIT, "%s: the script is too long", name);
    if (err.code != ERR_OK) {
        nb_event(nb, "boot.template", 0, "%s", err.text);
        strbuf_reset(&out);
        strbuf_adds(&out, last_resort);
    }
    json_decref(data);
    answer_take(a, 200, &out);
    strbuf_done(&out);
}

void script_start(struct netboot *nb, struct boot_answer *a)
{
    render(nb, "start.ipxe.mustache", nb->start_template, json_pack("{s:s}", "url", nb->url), a);
}

/* ---- what the machine says of itself ---- */

struct asker {
    char mac[MAC_SIZE]; /* "" when it is none */
    char uuid[64], serial[65], platform[16], arch[16];
    const char *peer;
};

static void read_asker(const struct boot_request *req, struct asker *who)
{
    memset(who, 0, sizeof *who);
    (void)mac_parse(req->arg("mac", req->ctx), who->mac, NULL);
    nb_clean(who->uuid, sizeof who->uuid, req->arg("uuid", req->ctx));
    nb_clean(who->serial, sizeof who->serial, req->arg("serial", req->ctx));
    nb_clean(who->platform, sizeof who->platform, req->arg("platform", req->ctx));
    nb_clean(who->arch, sizeof who->arch, req->arg("arch", req->ctx));
    who->peer = req->peer != NULL ? req->peer : "";
}

/* ---- from the disk ---- */

static void boot_local(struct netboot *nb, const struct asker *who, const char *reason,
                       struct boot_answer *a)
{
    const struct artefact *loader = NULL;
    bool efi = strcmp(who->platform, "efi") == 0;
    const char *name = strcmp(who->arch, "arm64") == 0 ? "local-disk-arm64.efi" : "local-disk.efi";
    json_t *data = json_pack("{s:s,s:s,s:b}", "url", nb->url, "reason", reason, "bios", !efi);
    /* as a UEFI application `exit` leads to the firmware's next entry, and not all have the disk
     * there: a loader that looks for a bootable disk is surer */
    if (efi && artefacts_find(nb->artefacts, name, &loader, NULL) == 0)
        (void)json_object_set_new(
            data, "loader", json_pack("{s:s,s:s}", "name", loader->name, "sha256", loader->sha256));
    else
        (void)json_object_set_new(data, "loader", json_false());
    render(nb, "local.ipxe.mustache", nb->local_template, data, a);
}

static void boot_unknown(struct netboot *nb, const struct asker *who, struct boot_answer *a)
{
    bool seen = map_get(nb->unknown, who->mac) != NULL;
    /* MACs are free to invent: beyond the maximum new ones are no longer told */
    if (seen || map_count(nb->unknown) < UNKNOWN_MAX) {
        if (!seen)
            (void)map_set(nb->unknown, who->mac, nb);
        if (nb->hooks.unknown != NULL)
            nb->hooks.unknown(who->mac, who->uuid, who->serial, who->peer, who->platform, nb->user);
    }
    boot_local(nb, who, "no node has this MAC", a);
}

/* ---- the ramdisk ---- */

static struct token *armed_token(struct netboot *nb, int64_t node)
{
    struct token *t = token_of_node(nb->tokens, node, TOKEN_INSTALL, TOKEN_ARMED);
    return t != NULL ? t : token_of_node(nb->tokens, node, TOKEN_DISCOVER, TOKEN_ARMED);
}

static void boot_ramdisk(struct netboot *nb, const struct asker *who, const struct host *h,
                         struct token *t, struct boot_answer *a)
{
    const struct artefact *kernel, *initrd;
    const struct order *order = t->order;
    struct err err = {0};
    char bootif[MAC_SIZE];
    if (artefacts_find(nb->artefacts, nb->kernel, &kernel, &err) < 0 ||
        artefacts_find(nb->artefacts, nb->initrd, &initrd, &err) < 0) {
        nb_event(nb, "boot.refused", h->node, "the ramdisk cannot be served: %s", err.text);
        boot_local(nb, who, "the ramdisk is not available", a);
        return;
    }
    for (size_t i = 0; i < sizeof bootif; i++)
        bootif[i] = who->mac[i] == ':' ? '-' : who->mac[i];
    json_t *data = json_pack(
        "{s:s,s:s,s:s,s:s,s:s,s:s,s:{s:s,s:s},s:{s:s,s:s}}", "url", nb->url, "node", h->name,
        "purpose", name_of(token_purpose_names, (int)t->view.purpose, "?"), "console", nb->console,
        "token", t->text, "bootif", bootif, "kernel", "name", kernel->name, "sha256",
        kernel->sha256, "initrd", "name", initrd->name, "sha256", initrd->sha256);
    (void)json_object_set_new(data, "args",
                              order != NULL && order->kernel_args != NULL
                                  ? json_string(order->kernel_args)
                                  : json_false());
    render(nb, "ramdisk.ipxe.mustache", nb->ramdisk_template, data, a);
    nb_event(nb, "boot.ramdisk", h->node, "%s (%s) got the boot script for: %s", who->mac,
             who->peer, name_of(token_purpose_names, (int)t->view.purpose, "?"));
}

void script_boot(struct netboot *nb, const struct boot_request *req, struct boot_answer *a)
{
    struct asker who;
    read_asker(req, &who);
    const struct host *h = who.mac[0] != '\0' ? hosts_of_mac(nb->hosts, who.mac) : NULL;
    if (h == NULL && who.mac[0] != '\0') {
        boot_unknown(nb, &who, a);
        return;
    }
    if (h == NULL) {
        boot_local(nb, &who, "the machine did not say its MAC", a);
        return;
    }
    struct token *t = armed_token(nb, h->node);
    if (t == NULL) {
        nb_event(nb, "boot.local", h->node, "%s boots from its disk", who.mac);
        boot_local(nb, &who, "nothing is ordered for this machine", a);
        return;
    }
    const struct token_claimer claimer = {"", who.peer};
    struct token_verdict v = token_judge(t, TOKEN_EV_SERVE, &claimer, loop_wall(nb->loop));
    if (v.allowed && h->serial[0] != '\0' && who.serial[0] != '\0' &&
        strcasecmp(h->serial, who.serial) != 0) {
        v.allowed = false;
        (void)snprintf(v.why, sizeof v.why, "its serial number is %.50s, expected is %.50s",
                       who.serial, h->serial);
    }
    if (v.allowed && !nb_peer_fits(nb, h->node, who.peer)) {
        v.allowed = false;
        (void)snprintf(v.why, sizeof v.why, "%s asks with this machine's MAC, whose address is %s",
                       who.peer, h->address);
    }
    if (!v.allowed) {
        nb_event(nb, "boot.refused", h->node, "%s gets no token: %s", who.mac, v.why);
        boot_local(nb, &who, "the ramdisk is refused", a);
        return;
    }
    boot_ramdisk(nb, &who, h, t, a);
}
