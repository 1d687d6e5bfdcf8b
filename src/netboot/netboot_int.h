/*
 * What the files of netboot share: the object, orders, and the answers' building blocks.
 */
#pragma once

#include <jansson.h>

#include "netboot/artefacts.h"
#include "netboot/dnsmasq.h"
#include "netboot/hosts.h"
#include "netboot/netboot.h"
#include "netboot/pace.h"
#include "netboot/token.h"

struct map;

/* What a token's machine is to do; hangs at token.order. */
struct order {
    char *kernel_args, *image, *format, *disk, *ssh_key;
    int min_disk_gb;
};
void order_free(void *order);

struct netboot {
    struct loop *loop;
    struct netboot_hooks hooks;
    void *user;
    enum netboot_mode mode;
    char *url, *kernel, *initrd, *console, *loader_dir, *template_dir;
    struct hosts *hosts;
    struct tokens *tokens;
    struct artefacts *artefacts;
    struct dnsmasq *dnsmasq;
    struct map *jobs;    /* node -> "reboot" or "poweroff" for its ramdisk; borrowed literals */
    struct map *unknown; /* MACs that asked for a script and are nobody's; values are not used */
    char *start_template, *ramdisk_template, *local_template;
    struct timer tick;
    unsigned ticks;
    struct pace pace; /* of ramdisks that wait */
    bool dirty;       /* this request made a row that must be on disk before its answer */
    /* for dnsmasq */
    char interface[64], network[16], netmask[16], ipv6_prefix[46];
    char *pool_first, *pool_last, *gateway, *dns, *run_dir, *dnsmasq_program;
    int lease_seconds;
};

void nb_event(struct netboot *nb, const char *kind, int64_t node, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Printable ASCII without quotes, cut to size; NULL gives "". */
void nb_clean(char *dst, size_t size, const char *src);
/* False: dnsmasq gives this node another address than the one that asks. */
bool nb_peer_fits(const struct netboot *nb, int64_t node, const char *peer);
/* The decimal of `node` as a key of a map. */
const char *nb_key(int64_t node, char buf[24]);

/* Fills an answer; text is printf-like and gets a newline. */
void answer_text(struct boot_answer *a, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Takes the buffer's text. */
void answer_take(struct boot_answer *a, int status, struct strbuf *text);

/* script.c */
void script_start(struct netboot *nb, struct boot_answer *a);
void script_boot(struct netboot *nb, const struct boot_request *req, struct boot_answer *a);
/* job.c: everything that needs a token */
void job_request(struct netboot *nb, const struct boot_request *req, struct boot_answer *a);

/* report.c: bodies of lines KEY=value */
struct report {
    int percent; /* -1: none */
    char text[1024], host_key[600], image_sha256[DIGEST_HEX_SIZE], boot_id[BOOT_ID_SIZE];
    char disk[128], disk_serial[128], root[128];
};
/* What is too long or has control bytes is left out or cleaned; unknown keys are skipped. */
void report_parse(const char *body, size_t len, struct report *ret);
/* "ssh-ed25519 AAAA...", one line of a known type. */
bool report_host_key_valid(const char *key);
