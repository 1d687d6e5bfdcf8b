/*
 * Hosts: which MAC, and which address, belongs to which node. Used by decision, dnsmasq, netboot.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MAC_SIZE 18 /* "52:54:00:77:00:01" and NUL */
enum { HOST_MACS_MAX = 32 };

struct host {
    int64_t node;
    char name[64];
    char address[16];
    char serial[65]; /* "" : not checked */
    char (*macs)[MAC_SIZE];
    int mac_count;
};

struct hosts;
struct hosts *hosts_new(void);
void hosts_free(struct hosts *hs);
size_t hosts_count(const struct hosts *hs);

/*
 * Adds or replaces the node's host. ERR_INVALID for what is no MAC, address or host name,
 * ERR_CONFLICT when another node has one of the MACs or the address; then nothing was changed.
 * *ret_changed: differs from before in what DHCP needs to know; *ret_new: there was none.
 */
int hosts_put(struct hosts *hs, const struct host *h, bool *ret_new, bool *ret_changed,
              struct err *err);
void hosts_remove(struct hosts *hs, int64_t node);
struct host *hosts_of_node(const struct hosts *hs, int64_t node);
struct host *hosts_of_mac(const struct hosts *hs, const char *mac); /* normal form */
struct host *hosts_of_address(const struct hosts *hs, const char *address);
void hosts_each(const struct hosts *hs, void (*fn)(const struct host *h, void *user), void *user);

/* "52-54-00-77-00-01", any case, ':' or '-', to lower case with ':'. */
int mac_parse(const char *text, char ret[MAC_SIZE], struct err *err);
/* A host name of letters, digits, '-' and '.', at most 63 bytes, beginning with letter or digit. */
bool host_name_valid(const char *name);
