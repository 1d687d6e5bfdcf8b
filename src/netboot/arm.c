/* Orders: arming, resuming and disarming tokens, and what a waiting ramdisk is told. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "netboot/netboot_int.h"

enum { RAMDISK_LATE_MS = 8 * 1000 };

static bool printable(const char *text, size_t max)
{
    size_t len = strlen(text);
    if (len > max)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ' || (unsigned char)text[i] >= 0x7f)
            return false;
    return true;
}

/* In an iPXE script these would be more than arguments. */
static bool script_safe(const char *text)
{
    return printable(text, 1000) && strpbrk(text, "$#'\"\\") == NULL &&
           strstr(text, "||") == NULL && strstr(text, "&&") == NULL;
}

static bool disk_rule_valid(const char *disk)
{
    const char *value = NULL;
    if (strcmp(disk, "largest") == 0 || strcmp(disk, "smallest") == 0)
        return true;
    if (strncmp(disk, "serial=", 7) == 0)
        value = disk + 7;
    else if (strncmp(disk, "/dev/", 5) == 0 && strstr(disk, "..") == NULL)
        value = disk + 5;
    if (value == NULL || value[0] == '\0' || strlen(value) > 100)
        return false;
    for (; *value != '\0'; value++)
        if (!isalnum((unsigned char)*value) && strchr("._:/+-", *value) == NULL)
            return false;
    return true;
}

static const char *format_of(const struct netboot_order *o)
{
    if (o->format != NULL)
        return o->format;
    const char *dot = strrchr(o->image, '.');
    if (dot != NULL && strcmp(dot, ".zst") == 0)
        return "raw.zst";
    if (dot != NULL && strcmp(dot, ".gz") == 0)
        return "raw.gz";
    return "raw";
}

static int check_order(const struct netboot *nb, const struct netboot_order *o, struct err *err)
{
    if (hosts_of_node(nb->hosts, o->node) == NULL)
        return err_set(err, ERR_NOT_FOUND, "no host is known for node %lld", (long long)o->node);
    if (o->expires_in_ms <= 0)
        return err_set(err, ERR_INVALID, "a token needs time to live");
    if (o->kernel_args != NULL && !script_safe(o->kernel_args))
        return err_set(err, ERR_INVALID, "these kernel arguments do not fit into a boot script");
    if (o->purpose != TOKEN_INSTALL)
        return 0;
    if (o->image == NULL || o->disk == NULL)
        return err_set(err, ERR_INVALID, "an install needs an image and a disk");
    if (!disk_rule_valid(o->disk))
        return err_set(err, ERR_INVALID,
                       "disk '%.80s' is none of largest, smallest, serial=..., /dev/...", o->disk);
    if (o->ssh_key != NULL && !printable(o->ssh_key, 2000))
        return err_set(err, ERR_INVALID, "the SSH key is not one line of text");
    const char *format = format_of(o);
    if (strcmp(format, "raw") != 0 && strcmp(format, "raw.zst") != 0 &&
        strcmp(format, "raw.gz") != 0)
        return err_set(err, ERR_INVALID, "image format '%.40s' is none of raw, raw.zst, raw.gz",
                       format);
    return 0;
}

static struct order *make_order(const struct netboot_order *o)
{
    struct order *mine = xcalloc(1, sizeof *mine);
    mine->kernel_args = xstrdup(o->kernel_args);
    if (o->purpose == TOKEN_INSTALL) {
        mine->image = xstrdup(o->image);
        mine->format = xstrdup(format_of(o));
        mine->disk = xstrdup(o->disk);
        mine->ssh_key = xstrdup(o->ssh_key);
        mine->min_disk_gb = o->min_disk_gb;
    }
    return mine;
}

int netboot_arm(struct netboot *nb, const struct netboot_order *order,
                char ret_hash[DIGEST_HEX_SIZE], struct err *err)
{
    char sha256[DIGEST_HEX_SIZE] = "", key[24];
    const struct artefact *needed;
    int rc = check_order(nb, order, err);
    if (rc < 0 || (rc = artefacts_find(nb->artefacts, nb->kernel, &needed, err)) < 0 ||
        (rc = artefacts_find(nb->artefacts, nb->initrd, &needed, err)) < 0)
        return rc;
    if (order->purpose == TOKEN_INSTALL &&
        (rc = netboot_artefact(nb, order->image, sha256, err)) < 0)
        return rc;
    int64_t now = loop_wall(nb->loop);
    struct token *t = token_arm(nb->tokens, order->node, order->attempt, order->purpose,
                                sha256[0] != '\0' ? sha256 : NULL, now, now + order->expires_in_ms);
    t->order = make_order(order);
    (void)map_remove(nb->jobs, nb_key(order->node, key));
    memcpy(ret_hash, t->view.hash, DIGEST_HEX_SIZE);
    return 0;
}

int netboot_resume(struct netboot *nb, const char *hash, const struct netboot_order *order,
                   struct err *err)
{
    char sha256[DIGEST_HEX_SIZE];
    struct token *t = token_find(nb->tokens, hash);
    if (t == NULL || t->view.purpose != TOKEN_INSTALL || t->view.node != order->node ||
        order->purpose != TOKEN_INSTALL ||
        (t->view.state != TOKEN_CLAIMED && t->view.state != TOKEN_WRITTEN))
        return err_set(err, ERR_NOT_FOUND, "no claimed install token %.12s", hash);
    int rc = check_order(nb, order, err);
    if (rc < 0 || (rc = netboot_artefact(nb, order->image, sha256, err)) < 0)
        return rc;
    if (strcmp(sha256, t->view.image_sha256) != 0)
        return err_set(err, ERR_CONFLICT, "image %.80s is not what it was when it was ordered",
                       order->image);
    order_free(t->order);
    t->order = make_order(order);
    t->lost_order = false;
    return 0;
}

void netboot_disarm(struct netboot *nb, const char *hash, const char *why)
{
    token_disarm(nb->tokens, hash, why, loop_wall(nb->loop));
}

bool netboot_token(struct netboot *nb, const char *hash, struct token_view *ret)
{
    const struct token *t = token_find(nb->tokens, hash);
    if (t != NULL)
        *ret = t->view;
    return t != NULL;
}

static struct token *ramdisk_of(struct netboot *nb, int64_t node)
{
    return token_of_node(nb->tokens, node, TOKEN_DISCOVER, TOKEN_CLAIMED);
}

bool netboot_ramdisk_alive(struct netboot *nb, int64_t node)
{
    const struct token *t = ramdisk_of(nb, node);
    /* one that was handed an install goes on with that token and does not come back to this one */
    return t != NULL && t->facts && t->handed == NULL && t->seen_at != 0 &&
           loop_now(nb->loop) - t->seen_at <= t->pause_s * 1000 + RAMDISK_LATE_MS &&
           loop_wall(nb->loop) < t->view.expires_at;
}

bool netboot_is_handed(struct netboot *nb, const char *hash)
{
    const struct token *t = token_find(nb->tokens, hash);
    const struct token *ramdisk = t != NULL ? ramdisk_of(nb, t->view.node) : NULL;
    return ramdisk != NULL && ramdisk->handed == t;
}

int netboot_ramdisk_order(struct netboot *nb, int64_t node, const char *job, struct err *err)
{
    static const char *const jobs[] = {"reboot", "poweroff"};
    char key[24];
    if (ramdisk_of(nb, node) == NULL)
        return err_set(err, ERR_NOT_FOUND, "no ramdisk runs on this node");
    if (job == NULL) {
        (void)map_remove(nb->jobs, nb_key(node, key));
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(jobs); i++)
        if (strcmp(jobs[i], job) == 0) {
            (void)map_set(nb->jobs, nb_key(node, key), (void *)(uintptr_t)jobs[i]);
            return 0;
        }
    return err_set(err, ERR_INVALID, "'%.40s' is none of reboot, poweroff", job);
}
