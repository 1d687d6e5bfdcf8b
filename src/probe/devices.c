/* Disks and network interfaces, from sysfs and ethtool. */
#include <linux/ethtool.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "probe/probe.h"

/* ---- disks ---- */

static bool is_virtual_disk(const char *name)
{
    static const char *const prefixes[] = {"loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd"};
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* SCSI unit serial number page (SPC-4, 7.8.14): four bytes of header, then ASCII. */
static char *scsi_serial(const struct probe *p, const char *name)
{
    size_t len;
    unsigned char *page = probe_bytes(p, 256, &len, "/sys/block/%s/device/vpd_pg80", name);
    char *serial = page != NULL && len > 4 ? xstrndup((char *)page + 4, len - 4) : NULL;
    free(page);
    if (serial == NULL)
        return NULL;
    char *trimmed = xstrdup(serial + strspn(serial, " "));
    free(serial);
    return trimmed;
}

static const char *transport_of(const struct probe *p, const char *name)
{
    if (strncmp(name, "nvme", 4) == 0)
        return "nvme";
    if (strncmp(name, "vd", 2) == 0)
        return "virtio";
    if (strncmp(name, "mmcblk", 6) == 0)
        return "mmc";
    return probe_exists(p, "/sys/block/%s/device/vpd_pg80", name) ? "scsi" : "unknown";
}

static void add_disk(struct probe *p, json_t *rows, const char *name)
{
    char *sectors = probe_read(p, "/sys/block/%s/size", name);
    long long bytes = sectors != NULL ? strtoll(sectors, NULL, 10) * 512 : 0;
    free(sectors);
    if (bytes <= 0)
        return; /* an empty card reader */
    json_t *o = json_pack("{s:s,s:I,s:s}", "name", name, "bytes", (json_int_t)bytes, "transport",
                          transport_of(p, name));
    char *serial = probe_read(p, "/sys/block/%s/serial", name);
    if (serial == NULL)
        serial = probe_read(p, "/sys/block/%s/device/serial", name);
    if (serial == NULL)
        serial = scsi_serial(p, name);
    probe_set_text(o, "serial", serial);
    probe_set_text(o, "model", probe_read(p, "/sys/block/%s/device/model", name));
    char *wwid = probe_read(p, "/sys/block/%s/wwid", name);
    probe_set_text(o, "wwid",
                   wwid != NULL ? wwid : probe_read(p, "/sys/block/%s/device/wwid", name));
    char *firmware = probe_read(p, "/sys/block/%s/device/firmware_rev", name);
    probe_set_text(o, "firmware",
                   firmware != NULL ? firmware : probe_read(p, "/sys/block/%s/device/rev", name));
    probe_set_int(o, "rotational", probe_read(p, "/sys/block/%s/queue/rotational", name));
    probe_set_int(o, "removable", probe_read(p, "/sys/block/%s/removable", name));
    (void)json_array_append_new(rows, o);
}

void probe_disks(struct probe *p)
{
    json_t *rows = json_array();
    char **names = probe_list(p, "/sys/block");
    for (int i = 0; names[i] != NULL; i++)
        if (!is_virtual_disk(names[i]))
            add_disk(p, rows, names[i]);
    probe_list_free(names);
    (void)json_object_set_new(p->out, "disks", rows);
}

/* ---- network interfaces ---- */

static bool ethtool(int fd, const char *name, void *cmd)
{
    struct ifreq ifr = {0};
    (void)snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", name);
    ifr.ifr_data = cmd;
    return ioctl(fd, SIOCETHTOOL, &ifr) == 0;
}

/* The MAC that the hardware was born with: bonding and bridges change the other one. */
static char *permanent_mac(int fd, const char *name)
{
    struct {
        struct ethtool_perm_addr head;
        unsigned char addr[32];
    } req = {.head = {.cmd = ETHTOOL_GPERMADDR, .size = 32}};
    if (fd < 0 || !ethtool(fd, name, &req) || req.head.size == 0 || req.head.size > 32)
        return NULL;
    bool any = false;
    char text[3 * 32 + 1] = "";
    for (unsigned i = 0; i < req.head.size; i++) {
        size_t len = strlen(text);
        (void)snprintf(text + len, sizeof text - len, "%s%02x", i > 0 ? ":" : "", req.addr[i]);
        any = any || req.addr[i] != 0;
    }
    return any ? xstrdup(text) : NULL;
}

static void add_driver(int fd, json_t *o, const char *name)
{
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
    if (fd < 0 || !ethtool(fd, name, &info))
        return;
    probe_set_text(o, "driver", xstrndup(info.driver, sizeof info.driver));
    probe_set_text(o, "firmware", xstrndup(info.fw_version, sizeof info.fw_version));
}

static void add_nic(struct probe *p, json_t *rows, int fd, const char *name)
{
    json_t *o = json_pack("{s:s}", "name", name);
    char *mac = probe_read(p, "/sys/class/net/%s/address", name);
    char *born = permanent_mac(fd, name);
    probe_set_text(o, "permanent_mac", born != NULL ? born : xstrdup(mac));
    probe_set_text(o, "mac", mac);
    char *type = probe_read(p, "/sys/class/net/%s/type", name);
    (void)json_object_set_new(
        o, "link_layer",
        json_string(type != NULL && atoi(type) == ARPHRD_INFINIBAND ? "infiniband" : "ethernet"));
    free(type);
    probe_set_text(o, "pci", probe_link_name(p, "/sys/class/net/%s/device", name));
    add_driver(fd, o, name);
    probe_set_text(o, "state", probe_read(p, "/sys/class/net/%s/operstate", name));
    char *speed = probe_read(p, "/sys/class/net/%s/speed", name);
    if (speed != NULL && atoi(speed) > 0)
        probe_set_int(o, "speed_mbps", speed);
    else
        free(speed);
    (void)json_array_append_new(rows, o);
}

void probe_nics(struct probe *p)
{
    json_t *rows = json_array();
    int fd = p->root[0] == '\0' ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    char **names = probe_list(p, "/sys/class/net");
    for (int i = 0; names[i] != NULL; i++)
        if (probe_exists(p, "/sys/class/net/%s/device", names[i]))
            add_nic(p, rows, fd, names[i]);
    probe_list_free(names);
    if (fd >= 0)
        (void)close(fd);
    (void)json_object_set_new(p->out, "nics", rows);
}
