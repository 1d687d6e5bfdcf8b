/*
 * Netboot: what a machine that asks the network gets, from its first DHCP packet to the proof that
 * it runs the installed system. The daemon builds one, the engine arms and disarms, the api hands
 * over the HTTP requests of booting machines.
 *
 *   nb = netboot_new(config);
 *   netboot_restore_token(nb, row)..., netboot_remember_artefact(nb, ...)...   from the database
 *   netboot_start(nb, err);
 *   netboot_host_put(nb, host)...                                              engine
 *   netboot_arm(nb, order, hash, err) -> commit -> power on; ... netboot_disarm(nb, hash, why)
 *   netboot_request(nb, request, answer) -> commit if answer.commit_first -> send       api
 *
 * A machine boots from its disk unless a live token of its node says otherwise. The room knows no
 * database: rows leave through the hooks `token` and `artefact`, inside the call that makes the
 * change, and the caller of netboot_arm/netboot_request commits (store_sync) before anything that
 * the world can see: before power is switched on, before the answer is sent. When that commit
 * fails, the answer must not be sent (503 instead).
 *
 * All strings in structs handed in are borrowed for the call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "loop/loop.h"
#include "netboot/token.h"

struct netboot;

enum netboot_mode {
    NETBOOT_DHCP_NONE,          /* the site's DHCP server names our URL itself */
    NETBOOT_DHCP_AUTHORITATIVE, /* dnsmasq gives addresses and boot files */
    NETBOOT_DHCP_PROXY          /* dnsmasq gives boot files, another server addresses */
};

/* What netboot tells. Each runs inside the call or event that caused it; NULL: not wanted. */
struct netboot_hooks {
    /* Rows to persist. */
    void (*token)(const struct token_view *t, void *user);
    void (*artefact)(const char *path, int64_t size, int64_t mtime_ns, const char *sha256,
                     void *user);
    /* Reports of machines; they return before the machine gets its answer. */
    void (*claimed)(int64_t node, int64_t attempt, const char *purpose, void *user);
    void (*facts)(int64_t node, int64_t attempt, const char *json, void *user);
    void (*progress)(int64_t node, int64_t attempt, int percent, const char *text, void *user);
    void (*installed)(int64_t node, int64_t attempt, const char *host_key, const char *text,
                      void *user);
    void (*proof)(int64_t node, int64_t attempt, const char *boot_id, const char *text, void *user);
    void (*failed)(int64_t node, int64_t attempt, const char *text, void *user);
    /* A machine that no node names asked for a boot script. Strings are clean; "" = not said. */
    void (*unknown)(const char *mac, const char *uuid, const char *serial, const char *address,
                    const char *platform, void *user);
    /* A DHCP address was given. node 0: unknown machine. */
    void (*dhcp)(const char *mac, const char *address, int64_t node, void *user);
    /* Everything else worth an event or a log line: kind is "boot.local", "boot.ramdisk",
     * "boot.refused", "token.dead", "dhcp.up", "dhcp.down", "dhcp.pool_empty", "dhcp.error",
     * "artefact.new", "artefact.gone", ... node 0: about no node. */
    void (*event)(const char *kind, int64_t node, const char *text, void *user);
};

struct netboot_config {
    struct loop *loop;
    const char *cidr;      /* of the provisioning network, "10.77.0.0/24" */
    const char *interface; /* NULL: the one that has an address in cidr */
    const char *address;   /* of this head there; NULL: that address */
    int port;              /* of the boot HTTP listener */
    const char *url;       /* NULL: http://ADDRESS:PORT; no '/' at the end */
    enum netboot_mode mode;
    const char *pool_first, *pool_last; /* addresses for unknown machines; NULL: none */
    const char *gateway, *dns;          /* told to machines; NULL: none */
    int lease_seconds;                  /* 0: 3600 */
    const char *run_dir;                /* for generated files; made if missing */
    const char *loader_dir;             /* undionly.kpxe, snponly.efi; NULL: /usr/lib/ipxe */
    const char *template_dir;           /* holds start.ipxe.mustache, ...: DATADIR/templates/boot */
    const char *artefact_dir;
    const char *kernel, *initrd; /* artefact names; NULL: "vmlinuz", "initrd" */
    const char *console;         /* NULL: "ttyS0,115200" */
    const char *dnsmasq;         /* program; NULL: "dnsmasq" */
    struct netboot_hooks hooks;
    void *user; /* for the hooks */
};

struct netboot *netboot_new(const struct netboot_config *config, struct err *err);
/* Ends dnsmasq and forgets the tokens (the database keeps them). NULL allowed. */
void netboot_free(struct netboot *nb);
/* Before netboot_start: rows of the database. */
void netboot_restore_token(struct netboot *nb, const struct token_view *row);
void netboot_remember_artefact(struct netboot *nb, const char *path, int64_t size, int64_t mtime_ns,
                               const char *sha256);
/*
 * Loads the templates, begins to index the artefacts and starts dnsmasq a moment later, so that
 * hosts put meanwhile are in its first reading. A dnsmasq that does not start is no error here: it
 * is tried again for ever, with events, and netboot_status() says why.
 */
int netboot_start(struct netboot *nb, struct err *err);
const char *netboot_url(const struct netboot *nb);

/* ---- hosts: which MACs belong to which node ---- */

struct netboot_host {
    int64_t node;
    const char *name;        /* host name */
    const char *address;     /* IPv4 */
    const char *const *macs; /* NULL-terminated, any case, ':' or '-'; may be empty */
    /* NULL: not checked; else a machine that says another one is not given a token. */
    const char *serial;
};
/* Adds or changes. A MAC that another node has is ERR_CONFLICT, and nothing is changed. */
int netboot_host_put(struct netboot *nb, const struct netboot_host *host, struct err *err);
/* Its tokens die too. Unknown: no effect. */
void netboot_host_remove(struct netboot *nb, int64_t node);

/* ---- tokens ---- */

struct netboot_order {
    int64_t node, attempt;
    enum token_purpose purpose;
    int64_t expires_in_ms;
    const char *kernel_args; /* added to the ramdisk's command line; NULL: none */
    /* install only */
    const char *image;  /* artefact name */
    const char *format; /* NULL: from the name: "raw.zst", "raw.gz", "raw" */
    const char *disk;   /* "largest", "smallest", "serial=XYZ" or "/dev/..." */
    int min_disk_gb;
    const char *ssh_key; /* authorized_keys line */
};
/*
 * Arms a token. When the node's ramdisk is alive (netboot_ramdisk_alive) it gets the install at its
 * next poll, without a reboot. ERR_NOT_FOUND: no such node, image, kernel or initrd; ERR_BUSY: the
 * artefact is still being hashed, ask again.
 */
int netboot_arm(struct netboot *nb, const struct netboot_order *order,
                char ret_hash[DIGEST_HEX_SIZE], struct err *err);
/*
 * After a restart: gives a claimed install token its order again, so that a ramdisk which lost the
 * answer can be told once more. Optional. ERR_CONFLICT when the image's digest changed.
 */
int netboot_resume(struct netboot *nb, const char *hash, const struct netboot_order *order,
                   struct err *err);
/* On every exit of the attempt. Harmless for unknown, proven and dead ones. */
void netboot_disarm(struct netboot *nb, const char *hash, const char *why);
/* False when it is not known (any more). */
bool netboot_token(struct netboot *nb, const char *hash, struct token_view *ret);
/* A ramdisk with a claimed discover token, that has sent its facts, is not 8 s late with its next
 * question. */
bool netboot_ramdisk_alive(struct netboot *nb, int64_t node);
/* The text of this install token was told to the node's running ramdisk, which claims it next. */
bool netboot_is_handed(struct netboot *nb, const char *hash);
/* What the node's waiting ramdisk is told at its next poll: "reboot" or "poweroff"; NULL: wait. */
int netboot_ramdisk_order(struct netboot *nb, int64_t node, const char *job, struct err *err);

/* ---- artefacts ---- */

/* SHA-256 by name. ERR_NOT_FOUND, or ERR_BUSY while it is being hashed. */
int netboot_artefact(struct netboot *nb, const char *name, char ret_sha256[DIGEST_HEX_SIZE],
                     struct err *err);
/* Looks at the directory now (it is looked at every 5 s anyway). */
void netboot_rescan(struct netboot *nb);

/* ---- HTTP: everything below /boot/ and /artefact/ ---- */

#define NETBOOT_MAX_BODY (1 << 20)

struct boot_request {
    const char *method; /* GET, HEAD, POST */
    const char *path;   /* decoded, without the query */
    /* Decoded query parameter or request header (any case); NULL when absent. */
    const char *(*arg)(const char *name, void *ctx);
    const char *(*header)(const char *name, void *ctx);
    void *ctx;
    const char *peer; /* numeric address */
    const char *body; /* NUL-terminated; may be NULL */
    size_t body_len;
};

struct boot_answer {
    int status;
    const char *content_type; /* static; NULL: none */
    char *text;               /* body, or NULL; freed by boot_answer_done */
    size_t len;
    /* Instead of text: a file to send with Range and this ETag (http_respond_file). Freed too. */
    char *file;
    int64_t file_size;
    char etag[DIGEST_HEX_SIZE];
    bool immutable;    /* may be cached for ever; else Cache-Control: no-store */
    bool commit_first; /* store_sync() must succeed before the answer is sent; else send 503 */
    const char *allow; /* for 405: value of the Allow header; else NULL */
};
/* Always fills *ret. HEAD is treated as GET; the caller leaves the body out. */
void netboot_request(struct netboot *nb, const struct boot_request *req, struct boot_answer *ret);
void boot_answer_done(struct boot_answer *a);

/* ---- looking in ---- */

struct netboot_status {
    const char *dhcp;    /* "off", "starting", "up", "down" */
    char dhcp_text[240]; /* why it is down, or the interface it serves */
    int dhcp_restarts;
    int hosts, tokens, artefacts, artefacts_hashing, unknown_machines;
};
void netboot_status(struct netboot *nb, struct netboot_status *ret);
