#include "netboot/hosts.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

struct hosts {
    struct map *by_node; /* owns */
    struct map *by_mac;
    struct map *by_address;
};

struct hosts *hosts_new(void)
{
    struct hosts *hs = xcalloc(1, sizeof *hs);
    hs->by_node = map_new();
    hs->by_mac = map_new();
    hs->by_address = map_new();
    return hs;
}

static void free_host(const char *key, void *value, void *user)
{
    struct host *h = value;
    (void)key;
    (void)user;
    free(h->macs);
    free(h);
}

void hosts_free(struct hosts *hs)
{
    if (hs == NULL)
        return;
    map_each(hs->by_node, free_host, NULL);
    map_free(hs->by_node);
    map_free(hs->by_mac);
    map_free(hs->by_address);
    free(hs);
}

size_t hosts_count(const struct hosts *hs)
{
    return map_count(hs->by_node);
}

int mac_parse(const char *text, char ret[MAC_SIZE], struct err *err)
{
    char out[MAC_SIZE] = "";
    bool ok = text != NULL && strlen(text) == MAC_SIZE - 1;
    for (int i = 0; ok && i < MAC_SIZE - 1; i++) {
        unsigned char c = (unsigned char)text[i];
        if (i % 3 == 2) {
            ok = (c == ':' || c == '-') && c == (unsigned char)text[2];
            out[i] = ':';
        } else {
            ok = isxdigit(c);
            out[i] = (char)tolower(c);
        }
    }
    if (!ok)
        return err_set(err, ERR_INVALID, "not a MAC address");
    memcpy(ret, out, MAC_SIZE);
    return 0;
}

bool host_name_valid(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > 63 || !isalnum((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '-' && name[i] != '.')
            return false;
    return true;
}

static const char *node_key(int64_t node, char buf[24])
{
    (void)snprintf(buf, 24, "%lld", (long long)node);
    return buf;
}

struct host *hosts_of_node(const struct hosts *hs, int64_t node)
{
    char key[24];
    return map_get(hs->by_node, node_key(node, key));
}

struct host *hosts_of_mac(const struct hosts *hs, const char *mac)
{
    return map_get(hs->by_mac, mac);
}

struct host *hosts_of_address(const struct hosts *hs, const char *address)
{
    return map_get(hs->by_address, address);
}

static int check(const struct hosts *hs, const struct host *h, struct err *err)
{
    struct in_addr addr;
    if (!host_name_valid(h->name))
        return err_set(err, ERR_INVALID, "'%s' is not a host name", h->name);
    if (inet_pton(AF_INET, h->address, &addr) != 1)
        return err_set(err, ERR_INVALID, "%s: '%s' is not an IPv4 address", h->name, h->address);
    if (h->mac_count > HOST_MACS_MAX)
        return err_set(err, ERR_LIMIT, "%s: more than %d MAC addresses", h->name, HOST_MACS_MAX);
    const struct host *other = hosts_of_address(hs, h->address);
    if (other != NULL && other->node != h->node)
        return err_set(err, ERR_CONFLICT, "%s: address %s belongs to %s", h->name, h->address,
                       other->name);
    for (int i = 0; i < h->mac_count; i++) {
        other = hosts_of_mac(hs, h->macs[i]);
        if (other != NULL && other->node != h->node)
            return err_set(err, ERR_CONFLICT, "%s: MAC %s belongs to %s", h->name, h->macs[i],
                           other->name);
    }
    return 0;
}

static bool same_for_dhcp(const struct host *a, const struct host *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->address, b->address) == 0 &&
           a->mac_count == b->mac_count &&
           (a->mac_count == 0 || memcmp(a->macs, b->macs, (size_t)a->mac_count * MAC_SIZE) == 0);
}

static void unlink_host(struct hosts *hs, struct host *h)
{
    for (int i = 0; i < h->mac_count; i++)
        if (map_get(hs->by_mac, h->macs[i]) == h)
            (void)map_remove(hs->by_mac, h->macs[i]);
    (void)map_remove(hs->by_address, h->address);
    free(h->macs);
    h->macs = NULL;
}

int hosts_put(struct hosts *hs, const struct host *h, bool *ret_new, bool *ret_changed,
              struct err *err)
{
    int rc = check(hs, h, err);
    if (rc < 0)
        return rc;
    char key[24];
    struct host *mine = map_get(hs->by_node, node_key(h->node, key));
    *ret_new = mine == NULL;
    *ret_changed = mine == NULL || !same_for_dhcp(mine, h);
    if (mine == NULL) {
        mine = xcalloc(1, sizeof *mine);
        (void)map_set(hs->by_node, key, mine);
    } else {
        unlink_host(hs, mine);
    }
    *mine = *h;
    mine->macs = NULL;
    if (h->mac_count > 0)
        mine->macs = xmemdup(h->macs, (size_t)h->mac_count * MAC_SIZE);
    for (int i = 0; i < mine->mac_count; i++)
        (void)map_set(hs->by_mac, mine->macs[i], mine);
    (void)map_set(hs->by_address, mine->address, mine);
    return 0;
}

void hosts_remove(struct hosts *hs, int64_t node)
{
    char key[24];
    struct host *h = map_remove(hs->by_node, node_key(node, key));
    if (h == NULL)
        return;
    unlink_host(hs, h);
    free(h);
}

struct each {
    void (*fn)(const struct host *h, void *user);
    void *user;
};

static void each_host(const char *key, void *value, void *user)
{
    struct each *e = user;
    (void)key;
    e->fn(value, e->user);
}

void hosts_each(const struct hosts *hs, void (*fn)(const struct host *h, void *user), void *user)
{
    struct each e = {fn, user};
    map_each(hs->by_node, each_host, &e);
}
