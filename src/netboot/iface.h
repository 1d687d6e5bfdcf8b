/*
 * Finding the interface of the provisioning network on this machine. Used by netboot_new.
 */
#pragma once

#include "base/err.h"

struct iface {
    char name[64];
    char address[16];     /* of this machine there */
    char network[16];     /* "10.77.0.0" */
    char netmask[16];     /* "255.255.255.0" */
    char ipv6_prefix[46]; /* of a global address that it has there, "fd77::"; "" */
};

/*
 * cidr: "10.77.0.0/24". name and address (NULL allowed) narrow the search; when both are given
 * they are taken as they are, whatever the machine has now. ERR_INVALID, ERR_NOT_FOUND.
 */
int iface_find(const char *cidr, const char *name, const char *address, struct iface *ret,
               struct err *err);
