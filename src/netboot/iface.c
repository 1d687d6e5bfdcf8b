#include "netboot/iface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int parse_cidr(const char *cidr, uint32_t *ret_network, uint32_t *ret_mask, struct err *err)
{
    char text[32], *end = NULL;
    struct in_addr addr;
    const char *slash = cidr != NULL ? strchr(cidr, '/') : NULL;
    if (slash == NULL || (size_t)(slash - cidr) >= sizeof text)
        return err_set(err, ERR_INVALID, "'%.40s' is not a network", cidr != NULL ? cidr : "");
    (void)snprintf(text, sizeof text, "%.*s", (int)(slash - cidr), cidr);
    long bits = strtol(slash + 1, &end, 10);
    if (inet_pton(AF_INET, text, &addr) != 1 || end == slash + 1 || *end != '\0' || bits < 1 ||
        bits > 30)
        return err_set(err, ERR_INVALID, "'%.40s' is not a network", cidr);
    *ret_mask = 0xffffffffu << (32 - bits);
    *ret_network = ntohl(addr.s_addr) & *ret_mask;
    return 0;
}

static void ip_text(uint32_t addr, char ret[16])
{
    struct in_addr in = {.s_addr = htonl(addr)};
    (void)inet_ntop(AF_INET, &in, ret, 16);
}

/* The first global /64 (or site's own fc00::/7) of the interface. */
static void find_prefix(const struct ifaddrs *list, struct iface *ret)
{
    for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET6 || i->ifa_netmask == NULL ||
            strcmp(i->ifa_name, ret->name) != 0)
            continue;
        struct sockaddr_in6 sa, mask;
        memcpy(&sa, i->ifa_addr, sizeof sa);
        memcpy(&mask, i->ifa_netmask, sizeof mask);
        const unsigned char *m = mask.sin6_addr.s6_addr;
        if (IN6_IS_ADDR_LINKLOCAL(&sa.sin6_addr) || IN6_IS_ADDR_LOOPBACK(&sa.sin6_addr) ||
            m[7] != 0xff || m[8] != 0)
            continue;
        memset(sa.sin6_addr.s6_addr + 8, 0, 8);
        (void)inet_ntop(AF_INET6, &sa.sin6_addr, ret->ipv6_prefix, sizeof ret->ipv6_prefix);
        return;
    }
}

int iface_find(const char *cidr, const char *name, const char *address, struct iface *ret,
               struct err *err)
{
    uint32_t network = 0, mask = 0;
    struct ifaddrs *list = NULL;
    memset(ret, 0, sizeof *ret);
    int rc = parse_cidr(cidr, &network, &mask, err);
    if (rc < 0)
        return rc;
    ip_text(network, ret->network);
    ip_text(mask, ret->netmask);
    if (getifaddrs(&list) < 0)
        return err_sys(err, errno, "getifaddrs");
    if (name != NULL && address != NULL) {
        (void)snprintf(ret->name, sizeof ret->name, "%s", name);
        (void)snprintf(ret->address, sizeof ret->address, "%s", address);
    }
    for (const struct ifaddrs *i = list; i != NULL && ret->name[0] == '\0'; i = i->ifa_next) {
        struct sockaddr_in sa;
        char text[16];
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET)
            continue;
        memcpy(&sa, i->ifa_addr, sizeof sa);
        ip_text(ntohl(sa.sin_addr.s_addr), text);
        if ((ntohl(sa.sin_addr.s_addr) & mask) != network ||
            (name != NULL && strcmp(name, i->ifa_name) != 0) ||
            (address != NULL && strcmp(address, text) != 0))
            continue;
        (void)snprintf(ret->name, sizeof ret->name, "%s", i->ifa_name);
        memcpy(ret->address, text, sizeof ret->address);
    }
    if (ret->name[0] != '\0')
        find_prefix(list, ret);
    freeifaddrs(list);
    if (ret->name[0] == '\0')
        return err_set(err, ERR_NOT_FOUND, "no interface%s%s of this machine has %s%s in %s",
                       name != NULL ? " " : "", name != NULL ? name : "",
                       address != NULL ? "address " : "an address", address != NULL ? address : "",
                       cidr);
    return 0;
}
