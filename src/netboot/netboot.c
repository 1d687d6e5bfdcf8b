#include "netboot/netboot.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fsutil.h"
#include "base/map.h"
#include "base/mem.h"
#include "netboot/iface.h"
#include "netboot/netboot_int.h"

enum {
    TICK_MS = 1000,
    SCAN_EVERY = 5, /* ticks */
    DHCP_DELAY_MS = 500,
    TEMPLATE_MAX = 64 << 10,
    LEASE_SECONDS = 3600,
};

/* ---- small things that the other files use ---- */

void nb_event(struct netboot *nb, const char *kind, int64_t node, const char *fmt, ...)
{
    char text[480];
    va_list ap;
    if (nb->hooks.event == NULL)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    nb->hooks.event(kind, node, text, nb->user);
}

void nb_clean(char *dst, size_t size, const char *src)
{
    size_t n = 0;
    for (; src != NULL && *src != '\0' && n + 1 < size; src++) {
        unsigned char c = (unsigned char)*src;
        dst[n++] = (char)(c < ' ' || c >= 0x7f || c == '"' || c == '\'' ? '?' : c);
    }
    dst[n] = '\0';
}

bool nb_peer_fits(const struct netboot *nb, int64_t node, const char *peer)
{
    const struct host *h = hosts_of_node(nb->hosts, node);
    return nb->mode != NETBOOT_DHCP_AUTHORITATIVE || h == NULL || strcmp(h->address, peer) == 0;
}

const char *nb_key(int64_t node, char buf[24])
{
    (void)snprintf(buf, 24, "%lld", (long long)node);
    return buf;
}

void answer_text(struct boot_answer *a, int status, const char *fmt, ...)
{
    struct strbuf text;
    va_list ap;
    strbuf_init(&text, 1024);
    va_start(ap, fmt);
    strbuf_vaddf(&text, fmt, ap);
    va_end(ap);
    strbuf_addc(&text, '\n');
    answer_take(a, status, &text);
    strbuf_done(&text);
}

void answer_take(struct boot_answer *a, int status, struct strbuf *text)
{
    free(a->text);
    a->status = status;
    a->content_type = "text/plain";
    a->len = text->len;
    a->text = strbuf_take(text);
}

void boot_answer_done(struct boot_answer *a)
{
    if (a->text != NULL)
        mem_wipe_free(a->text, a->len); /* may hold a token */
    free(a->file);
    a->text = a->file = NULL;
}

void order_free(void *order)
{
    struct order *o = order;
    if (o == NULL)
        return;
    free(o->kernel_args);
    free(o->image);
    free(o->format);
    free(o->disk);
    free(o->ssh_key);
    free(o);
}

/* ---- what the parts below tell ---- */

static void on_token(const struct token_view *t, void *user)
{
    struct netboot *nb = user;
    nb->dirty = true;
    if (nb->hooks.token != NULL)
        nb->hooks.token(t, nb->user);
    if (t->state == TOKEN_DEAD)
        nb_event(nb, "token.dead", t->node, "the token to %s has ended: %s",
                 name_of(token_purpose_names, (int)t->purpose, "?"), t->why_dead);
}

static void on_hashed(const struct artefact *a, void *user)
{
    struct netboot *nb = user;
    if (nb->hooks.artefact != NULL)
        nb->hooks.artefact(a->path, a->size, a->mtime_ns, a->sha256, nb->user);
}

static void on_artefact_event(const char *kind, const char *text, void *user)
{
    nb_event(user, kind, 0, "%s", text);
}

static void on_dnsmasq(const struct dnsmasq_event *e, void *user)
{
    struct netboot *nb = user;
    const struct host *h = e->mac[0] != '\0' ? hosts_of_mac(nb->hosts, e->mac) : NULL;
    switch (e->kind) {
    case DNSMASQ_UP:
        nb_event(nb, "dhcp.up", 0, "DHCP and TFTP are served on %s", nb->interface);
        break;
    case DNSMASQ_DOWN:
        nb_event(nb, "dhcp.down", 0, "%s", e->text);
        break;
    case DNSMASQ_ACK:
        if (nb->hooks.dhcp != NULL)
            nb->hooks.dhcp(e->mac, e->address, h != NULL ? h->node : 0, nb->user);
        break;
    case DNSMASQ_NO_ADDRESS:
        nb_event(nb, "dhcp.pool_empty", h != NULL ? h->node : 0, "%s asked for an address: %s",
                 e->mac, e->text);
        break;
    case DNSMASQ_ERROR:
        nb_event(nb, "dhcp.error", 0, "%s", e->text);
        break;
    }
}

/* ---- life ---- */

static int check_url(const char *url, struct err *err)
{
    size_t len = strlen(url);
    if (strncmp(url, "http://", 7) != 0 || len > 200 || url[len - 1] == '/')
        return err_set(err, ERR_INVALID, "'%.100s' is no URL of a boot server", url);
    for (const char *p = url; *p != '\0'; p++)
        if (*p <= ' ' || *p >= 0x7f || strchr("$'\"|&#,{}", *p) != NULL)
            return err_set(err, ERR_INVALID,
                           "the boot server's URL has a character that boot "
                           "scripts cannot carry");
    return 0;
}

static char *copy_or(const char *value, const char *otherwise)
{
    return xstrdup(value != NULL ? value : otherwise);
}

static int set_network(struct netboot *nb, const struct netboot_config *c, struct err *err)
{
    struct iface i;
    bool needed = c->mode != NETBOOT_DHCP_NONE || (c->url == NULL && c->address == NULL);
    int rc = iface_find(c->cidr, c->interface, c->address, &i, err);
    if (rc < 0 && needed)
        return rc;
    if (rc == 0) {
        memcpy(nb->interface, i.name, sizeof nb->interface);
        memcpy(nb->network, i.network, sizeof nb->network);
        memcpy(nb->netmask, i.netmask, sizeof nb->netmask);
        memcpy(nb->ipv6_prefix, i.ipv6_prefix, sizeof nb->ipv6_prefix);
    }
    nb->url = c->url != NULL ? xstrdup(c->url)
                             : xasprintf("http://%s:%d", rc == 0 ? i.address : c->address, c->port);
    return check_url(nb->url, err);
}

struct netboot *netboot_new(const struct netboot_config *c, struct err *err)
{
    struct netboot *nb = xcalloc(1, sizeof *nb);
    nb->loop = c->loop;
    nb->hooks = c->hooks;
    nb->user = c->user;
    nb->mode = c->mode;
    nb->kernel = copy_or(c->kernel, "vmlinuz");
    nb->initrd = copy_or(c->initrd, "initrd");
    nb->console = copy_or(c->console, "ttyS0,115200");
    nb->loader_dir = copy_or(c->loader_dir, "/usr/lib/ipxe");
    nb->template_dir = xstrdup(c->template_dir);
    nb->run_dir = xstrdup(c->run_dir);
    nb->pool_first = xstrdup(c->pool_first);
    nb->pool_last = xstrdup(c->pool_last);
    nb->gateway = xstrdup(c->gateway);
    nb->dns = xstrdup(c->dns);
    nb->dnsmasq_program = copy_or(c->dnsmasq, "dnsmasq");
    nb->lease_seconds = c->lease_seconds > 0 ? c->lease_seconds : LEASE_SECONDS;
    nb->hosts = hosts_new();
    nb->tokens = tokens_new(on_token, order_free, nb);
    nb->jobs = map_new();
    nb->unknown = map_new();
    const struct artefacts_hooks hooks = {on_hashed, on_artefact_event, nb};
    nb->artefacts = artefacts_new(c->loop, c->artefact_dir, &hooks);
    if (set_network(nb, c, err) < 0) {
        netboot_free(nb);
        return NULL;
    }
    return nb;
}

void netboot_free(struct netboot *nb)
{
    if (nb == NULL)
        return;
    timer_cancel(&nb->tick);
    dnsmasq_free(nb->dnsmasq);
    artefacts_free(nb->artefacts);
    tokens_free(nb->tokens);
    hosts_free(nb->hosts);
    map_free(nb->jobs);
    map_free(nb->unknown);
    char *const strings[] = {nb->url,
                             nb->kernel,
                             nb->initrd,
                             nb->console,
                             nb->loader_dir,
                             nb->template_dir,
                             nb->run_dir,
                             nb->pool_first,
                             nb->pool_last,
                             nb->gateway,
                             nb->dns,
                             nb->dnsmasq_program,
                             nb->start_template,
                             nb->ramdisk_template,
                             nb->local_template};
    for (size_t i = 0; i < ARRAY_LEN(strings); i++)
        free(strings[i]);
    free(nb);
}

void netboot_restore_token(struct netboot *nb, const struct token_view *row)
{
    (void)token_restore(nb->tokens, row, loop_wall(nb->loop));
}

void netboot_remember_artefact(struct netboot *nb, const char *path, int64_t size, int64_t mtime_ns,
                               const char *sha256)
{
    artefacts_remember(nb->artefacts, path, size, mtime_ns, sha256);
}

static void on_tick(void *user)
{
    struct netboot *nb = user;
    token_expire(nb->tokens, loop_wall(nb->loop));
    if (++nb->ticks % SCAN_EVERY == 0)
        artefacts_scan(nb->artefacts);
    timer_set(nb->loop, &nb->tick, TICK_MS, on_tick, nb);
}

static int load_template(struct netboot *nb, const char *name, char **ret, struct err *err)
{
    size_t len;
    char *path cleanup_free = xasprintf("%s/%s", nb->template_dir, name);
    return fs_read(path, TEMPLATE_MAX, ret, &len, err);
}

static int start_dnsmasq(struct netboot *nb, struct err *err)
{
    struct dnsmasq_config c = {
        .loop = nb->loop,
        .program = nb->dnsmasq_program,
        .run_dir = nb->run_dir,
        .interface = nb->interface,
        .network = nb->network,
        .netmask = nb->netmask,
        .proxy = nb->mode == NETBOOT_DHCP_PROXY,
        .pool_first = nb->pool_first,
        .pool_last = nb->pool_last,
        .gateway = nb->gateway,
        .dns = nb->dns,
        .ipv6_prefix = nb->ipv6_prefix[0] != '\0' ? nb->ipv6_prefix : NULL,
        .lease_seconds = nb->lease_seconds,
        .url = nb->url,
        .loader_dir = nb->loader_dir,
        .on_event = on_dnsmasq,
        .event_user = nb,
    };
    return dnsmasq_start(&c, DHCP_DELAY_MS, &nb->dnsmasq, err);
}

int netboot_start(struct netboot *nb, struct err *err)
{
    int rc;
    if ((rc = load_template(nb, "start.ipxe.mustache", &nb->start_template, err)) < 0 ||
        (rc = load_template(nb, "ramdisk.ipxe.mustache", &nb->ramdisk_template, err)) < 0 ||
        (rc = load_template(nb, "local.ipxe.mustache", &nb->local_template, err)) < 0)
        return rc;
    if (nb->mode != NETBOOT_DHCP_NONE && (rc = start_dnsmasq(nb, err)) < 0)
        return rc;
    artefacts_scan(nb->artefacts);
    timer_set(nb->loop, &nb->tick, TICK_MS, on_tick, nb);
    return 0;
}

const char *netboot_url(const struct netboot *nb)
{
    return nb->url;
}

/* ---- hosts ---- */

int netboot_host_put(struct netboot *nb, const struct netboot_host *host, struct err *err)
{
    char macs[HOST_MACS_MAX][MAC_SIZE];
    struct host h = {.node = host->node, .macs = macs};
    bool is_new, changed;
    if (strlen(host->name) >= sizeof h.name || strlen(host->address) >= sizeof h.address)
        return err_set(err, ERR_INVALID, "'%.80s' or '%.80s' is too long for a host", host->name,
                       host->address);
    (void)snprintf(h.name, sizeof h.name, "%s", host->name);
    (void)snprintf(h.address, sizeof h.address, "%s", host->address);
    nb_clean(h.serial, sizeof h.serial, host->serial);
    for (int i = 0; host->macs != NULL && host->macs[i] != NULL; i++) {
        if (i == HOST_MACS_MAX)
            return err_set(err, ERR_LIMIT, "%s: more than %d MAC addresses", h.name, HOST_MACS_MAX);
        if (mac_parse(host->macs[i], macs[i], err) < 0)
            return err_wrap(err, "%s: '%.40s': ", h.name, host->macs[i]);
        h.mac_count++;
    }
    int rc = hosts_put(nb->hosts, &h, &is_new, &changed, err);
    if (rc < 0)
        return rc;
    for (int i = 0; i < h.mac_count; i++)
        (void)map_remove(nb->unknown, macs[i]);
    if (nb->dnsmasq != NULL && (is_new || changed))
        return dnsmasq_put_host(nb->dnsmasq, &h, !is_new, err);
    return 0;
}

void netboot_host_remove(struct netboot *nb, int64_t node)
{
    static const enum token_state live[] = {TOKEN_ARMED, TOKEN_CLAIMED, TOKEN_WRITTEN};
    char key[24];
    if (hosts_of_node(nb->hosts, node) == NULL)
        return;
    for (size_t i = 0; i < ARRAY_LEN(live); i++)
        for (int p = TOKEN_DISCOVER; p <= TOKEN_INSTALL; p++) {
            struct token *t = token_of_node(nb->tokens, node, (enum token_purpose)p, live[i]);
            if (t != NULL)
                token_disarm(nb->tokens, t->view.hash, "the node is gone", loop_wall(nb->loop));
        }
    (void)map_remove(nb->jobs, nb_key(node, key));
    hosts_remove(nb->hosts, node);
    if (nb->dnsmasq != NULL)
        dnsmasq_remove_host(nb->dnsmasq, node);
}

/* ---- artefacts ---- */

int netboot_artefact(struct netboot *nb, const char *name, char ret_sha256[DIGEST_HEX_SIZE],
                     struct err *err)
{
    const struct artefact *a;
    int rc = artefacts_find(nb->artefacts, name, &a, err);
    if (rc == 0)
        memcpy(ret_sha256, a->sha256, DIGEST_HEX_SIZE);
    return rc;
}

void netboot_rescan(struct netboot *nb)
{
    artefacts_scan(nb->artefacts);
}

/* ---- HTTP ---- */

static void send_file(struct boot_answer *a, const char *path, const char *etag)
{
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode)) {
        answer_text(a, 404, "the file is gone");
        return;
    }
    a->status = 200;
    a->content_type = "application/octet-stream";
    a->file = xstrdup(path);
    a->file_size = st.st_size;
    (void)snprintf(a->etag, sizeof a->etag, "%s", etag);
}

/* "/artefact/<sha256>/<name>" */
static void get_artefact(struct netboot *nb, const char *rest, struct boot_answer *a)
{
    char sha256[DIGEST_HEX_SIZE];
    const struct artefact *found = NULL;
    if (strcspn(rest, "/") == DIGEST_HEX_SIZE - 1 && rest[DIGEST_HEX_SIZE - 1] == '/') {
        memcpy(sha256, rest, DIGEST_HEX_SIZE - 1);
        sha256[DIGEST_HEX_SIZE - 1] = '\0';
        found = artefacts_open(nb->artefacts, sha256, rest + DIGEST_HEX_SIZE);
    }
    if (found == NULL) {
        answer_text(a, 404, "there is no such artefact");
        return;
    }
    send_file(a, found->path, found->sha256);
    a->immutable = a->status == 200;
}

/* For firmware that boots over HTTP; TFTP has the same files. */
static void get_loader(struct netboot *nb, const char *name, struct boot_answer *a)
{
    static const char *const names[] = {"snponly.efi", "snponly-arm64.efi", "ipxe.efi",
                                        "ipxe-arm64.efi", "undionly.kpxe"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0) {
            char *path cleanup_free = xasprintf("%s/%s", nb->loader_dir, name);
            send_file(a, path, "");
            return;
        }
    answer_text(a, 404, "there is no such loader");
}

static bool begins(const char *text, const char *prefix, const char **ret_rest)
{
    size_t n = strlen(prefix);
    *ret_rest = text + n;
    return strncmp(text, prefix, n) == 0;
}

static void get_only(struct boot_answer *a)
{
    answer_text(a, 405, "only GET and HEAD are possible here");
    a->allow = "GET, HEAD";
}

void netboot_request(struct netboot *nb, const struct boot_request *req, struct boot_answer *ret)
{
    const char *rest;
    struct boot_request r = *req;
    memset(ret, 0, sizeof *ret);
    nb->dirty = false;
    if (strcmp(r.method, "HEAD") == 0)
        r.method = "GET";
    bool get = strcmp(r.method, "GET") == 0;
    bool open = begins(r.path, "/artefact/", &rest) || begins(r.path, "/boot/loader/", &rest) ||
                strcmp(r.path, "/boot/start.ipxe") == 0 || strcmp(r.path, "/boot/script") == 0;
    if (open && !get)
        get_only(ret);
    else if (r.body_len > NETBOOT_MAX_BODY)
        answer_text(ret, 413, "the body is larger than %d bytes", NETBOOT_MAX_BODY);
    else if (begins(r.path, "/artefact/", &rest))
        get_artefact(nb, rest, ret);
    else if (begins(r.path, "/boot/loader/", &rest))
        get_loader(nb, rest, ret);
    else if (strcmp(r.path, "/boot/start.ipxe") == 0)
        script_start(nb, ret);
    else if (strcmp(r.path, "/boot/script") == 0)
        script_boot(nb, &r, ret);
    else
        job_request(nb, &r, ret);
    ret->commit_first = nb->dirty;
}

/* ---- looking in ---- */

void netboot_status(struct netboot *nb, struct netboot_status *ret)
{
    const char *text = "";
    int pid;
    memset(ret, 0, sizeof *ret);
    ret->dhcp = "off";
    if (nb->dnsmasq != NULL)
        ret->dhcp = dnsmasq_state(nb->dnsmasq, &text, &ret->dhcp_restarts, &pid);
    (void)snprintf(ret->dhcp_text, sizeof ret->dhcp_text, "%s", text);
    ret->hosts = (int)hosts_count(nb->hosts);
    ret->tokens = (int)tokens_count(nb->tokens);
    ret->artefacts = artefacts_count(nb->artefacts, &ret->artefacts_hashing);
    ret->unknown_machines = (int)map_count(nb->unknown);
}
