/* networks.provision and networks.bmc, and the addresses of nodes that were given none. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/spec_read.h"

struct raw_network {
    const struct ynode *cidr, *dhcp, *head;
    int mode;
};

bool ipv4_read(const char *text, uint32_t *ret)
{
    struct in_addr in;
    if (inet_pton(AF_INET, text, &in) != 1)
        return false;
    *ret = ntohl(in.s_addr);
    return true;
}

static void ipv4_text(uint32_t addr, char buf[INET_ADDRSTRLEN])
{
    struct in_addr in = {.s_addr = htonl(addr)};
    (void)inet_ntop(AF_INET, &in, buf, INET_ADDRSTRLEN);
}

static uint32_t mask_of(int prefix)
{
    return prefix == 0 ? 0 : 0xffffffffU << (32 - prefix);
}

bool network_holds(const struct spec_network *net, uint32_t addr)
{
    return net->set && (addr & mask_of(net->prefix)) == (net->addr & mask_of(net->prefix));
}

uint32_t network_broadcast(const struct spec_network *net)
{
    return net->addr | ~mask_of(net->prefix);
}

/* The network's first and last address belong to no machine. */
static bool is_machine(const struct spec_network *net, uint32_t addr)
{
    return network_holds(net, addr) && addr != net->addr && addr != network_broadcast(net);
}

static void read_cidr(const struct ynode *n, struct spec_network *net, struct diags *d)
{
    char addr[INET_ADDRSTRLEN] = "";
    const char *slash = strchr(n->text, '/');
    char *end = NULL;
    bool digits = slash != NULL && slash[1] >= '0' && slash[1] <= '9';
    long prefix = digits ? strtol(slash + 1, &end, 10) : -1;
    if (slash != NULL && (size_t)(slash - n->text) < sizeof addr)
        memcpy(addr, n->text, (size_t)(slash - n->text));
    if (!digits || *end != '\0' || !ipv4_read(addr, &net->addr)) {
        ynode_error(n, d, "'%.80s' is no IPv4 network: write one such as 10.10.0.0/22", n->text);
        return;
    }
    if (prefix < 8 || prefix > 30) {
        ynode_error(n, d, "the network '%.80s' must have a prefix from /8 to /30", n->text);
        return;
    }
    net->prefix = (int)prefix;
    if ((net->addr & ~mask_of(net->prefix)) != 0) {
        char right[INET_ADDRSTRLEN];
        ipv4_text(net->addr & mask_of(net->prefix), right);
        ynode_error(n, d, "'%s' has bits beyond its prefix; did you mean '%s/%d'?", n->text, right,
                    net->prefix);
        return;
    }
    net->cidr = xstrdup(n->text);
    net->set = true;
    net->head = net->addr + 1;
}

static void read_pool(const struct ynode *n, struct spec_network *net, struct diags *d)
{
    char first[INET_ADDRSTRLEN] = "";
    const char *dash = strchr(n->text, '-');
    if (dash != NULL && (size_t)(dash - n->text) < sizeof first)
        memcpy(first, n->text, (size_t)(dash - n->text));
    if (dash == NULL || !ipv4_read(first, &net->dhcp_first) ||
        !ipv4_read(dash + 1, &net->dhcp_last)) {
        ynode_error(n, d, "'%.80s' is no range: write one such as 10.10.3.0-10.10.3.250", n->text);
        net->dhcp_first = net->dhcp_last = 0;
        return;
    }
    if (net->dhcp_last < net->dhcp_first)
        ynode_error(n, d, "the range '%s' ends before it begins", n->text);
    else if (net->set &&
             (!network_holds(net, net->dhcp_first) || !network_holds(net, net->dhcp_last)))
        ynode_error(n, d, "the range '%s' is not inside %s", n->text, net->cidr);
    else if (net->set && (!is_machine(net, net->dhcp_first) || !is_machine(net, net->dhcp_last)))
        ynode_error(n, d,
                    "the range '%s' holds the first or the last address of %s, which no "
                    "machine may have",
                    n->text, net->cidr);
}

#define NETWORK_CIDR                                                                               \
    {                                                                                              \
        .key = "cidr", .type = FIELD_SCALAR, .required = true,                                     \
        .offset = offsetof(struct raw_network, cidr), .help = "the network: 10.10.0.0/22"          \
    }

static const struct name modes[] = {
    {DHCP_AUTHORITATIVE, "authoritative"}, {DHCP_PROXY, "proxy"}, {DHCP_NONE, "none"}, {0, NULL}};

static void read_network(const struct ynode *map, const struct field *rows, const char *what,
                         struct spec_network *net, struct diags *d)
{
    struct raw_network raw = {0};
    if (map == NULL)
        return;
    (void)schema_read(rows, map, what, &raw, d);
    net->at = place_of(map);
    net->mode = raw.mode;
    if (raw.cidr != NULL)
        read_cidr(raw.cidr, net, d);
    if (raw.dhcp != NULL)
        read_pool(raw.dhcp, net, d);
    if (raw.head == NULL)
        return;
    if (!ipv4_read(raw.head->text, &net->head))
        ynode_error(raw.head, d, "'%.80s' is no IPv4 address", raw.head->text);
    else if (net->set && !is_machine(net, net->head))
        ynode_error(raw.head, d, "'%s' is no machine's address inside %s", raw.head->text,
                    net->cidr);
}

void read_networks(struct reader *r, const struct ynode *networks)
{
    struct raw {
        const struct ynode *provision, *bmc;
    } raw = {0};
    static const struct field rows[] = {{.key = "provision",
                                         .type = FIELD_MAP,
                                         .offset = offsetof(struct raw, provision),
                                         .help = "where nodes boot"},
                                        {.key = "bmc",
                                         .type = FIELD_MAP,
                                         .offset = offsetof(struct raw, bmc),
                                         .help = "where BMCs are"},
                                        {0}};
    static const struct field provision_rows[] = {
        NETWORK_CIDR,
        {.key = "dhcp",
         .type = FIELD_SCALAR,
         .offset = offsetof(struct raw_network, dhcp),
         .help = "FIRST-LAST of the addresses for unknown machines"},
        {.key = "mode",
         .type = FIELD_ENUM,
         .offset = offsetof(struct raw_network, mode),
         .names = modes,
         .fallback = "authoritative",
         .help = "who gives addresses"},
        {.key = "head",
         .type = FIELD_SCALAR,
         .offset = offsetof(struct raw_network, head),
         .help = "the head node's own address"},
        {0}};
    static const struct field bmc_rows[] = {NETWORK_CIDR, {0}};
    if (networks == NULL)
        return;
    (void)schema_read(rows, networks, "'networks'", &raw, r->d);
    read_network(raw.provision, provision_rows, "'networks.provision'", &r->spec->provision, r->d);
    read_network(raw.bmc, bmc_rows, "'networks.bmc'", &r->spec->bmc, r->d);
    r->spec->bmc.mode = DHCP_NONE;
}

/* ---- addresses ---- */

static bool is_free(struct reader *r, uint32_t addr)
{
    const struct spec_network *net = &r->spec->provision;
    char text[INET_ADDRSTRLEN];
    if (addr == net->head)
        return false;
    ipv4_text(addr, text);
    return map_get(r->taken[NODE_ADDRESS], text) == NULL && map_get(r->bmc_hosts, text) == NULL;
}

/* The first free address from `next` on, or the broadcast address. */
static uint32_t next_free(struct reader *r, uint32_t next)
{
    const struct spec_network *net = &r->spec->provision;
    uint32_t end = network_broadcast(net);
    while (next < end) {
        if (net->dhcp_first != 0 && next >= net->dhcp_first && next <= net->dhcp_last)
            next = net->dhcp_last < end ? net->dhcp_last + 1 : end;
        else if (is_free(r, next))
            break;
        else
            next++;
    }
    return next;
}

void assign_addresses(struct reader *r)
{
    const struct spec_network *net = &r->spec->provision;
    if (!net->set || net->dhcp_last < net->dhcp_first)
        return;
    uint32_t next = net->addr + 1;
    int missing = 0;
    const struct spec_node *first = NULL;
    for (int i = 0; i < r->spec->node_count; i++) {
        struct spec_node *n = &r->spec->nodes[i];
        if (n->address != NULL)
            continue;
        next = next_free(r, next);
        if (next >= network_broadcast(net)) {
            first = missing++ == 0 ? n : first;
            continue;
        }
        char text[INET_ADDRSTRLEN];
        ipv4_text(next++, text);
        n->address = xstrdup(text);
    }
    if (missing > 0)
        diags_add(r->d, DIAG_ERROR, first->file, first->line, first->column,
                  "no address is left in %s for '%s' (and %d more): make the network larger or "
                  "its DHCP range smaller",
                  net->cidr, first->name, missing - 1);
}
