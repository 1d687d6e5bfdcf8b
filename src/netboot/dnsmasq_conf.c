/* dnsmasq's texts: the configuration and host lines that it reads, the log lines that it writes. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "netboot/dnsmasq.h"

/* ---- configuration ---- */

/* dnsmasq reads a line at a time and splits at commas; it has no quoting that covers everything, so
 * what could be more than one value is refused. */
static int check_value(const char *what, const char *value, struct err *err)
{
    if (value == NULL)
        return 0;
    if (value[0] == '\0' || strlen(value) > 1000)
        return err_set(err, ERR_INVALID, "dnsmasq: %s is empty or too long", what);
    for (const unsigned char *p = (const unsigned char *)value; *p != '\0'; p++)
        if (*p <= ' ' || *p == 0x7f || *p == ',' || *p == '#' || *p == '"' || *p == '\\')
            return err_set(err, ERR_INVALID,
                           "dnsmasq: %s has a character that its configuration cannot carry", what);
    return 0;
}

static int check_config(const struct dnsmasq_config *c, struct err *err)
{
    const struct {
        const char *what, *value;
        bool required;
    } values[] = {
        {"the directory for its files", c->run_dir, true},
        {"the interface", c->interface, true},
        {"the network", c->network, true},
        {"the netmask", c->netmask, true},
        {"the first address of the pool", c->pool_first, c->pool_last != NULL},
        {"the last address of the pool", c->pool_last, c->pool_first != NULL},
        {"the gateway", c->gateway, false},
        {"the name server", c->dns, false},
        {"the IPv6 prefix", c->ipv6_prefix, false},
        {"the URL", c->url, true},
        {"the account", c->user, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        if (values[i].required && values[i].value == NULL)
            return err_set(err, ERR_INVALID, "dnsmasq: %s is missing", values[i].what);
        int rc = check_value(values[i].what, values[i].value, err);
        if (rc < 0)
            return rc;
    }
    if (c->lease_seconds < 120) /* dnsmasq's own minimum */
        return err_set(err, ERR_INVALID, "dnsmasq: leases of %d s are shorter than 120 s",
                       c->lease_seconds);
    return 0;
}

static void render_files(const struct dnsmasq_config *c, struct strbuf *out)
{
    strbuf_addf(out,
                "# written by clusterd; changes are lost\n"
                "port=0\n"
                "keep-in-foreground\n"
                "log-facility=-\n"
                "bind-interfaces\n"
                "interface=%s\n"
                "except-interface=lo\n"
                "pid-file=%s/dnsmasq.pid\n"
                "dhcp-leasefile=%s/leases\n"
                "dhcp-hostsdir=%s/hosts.d\n"
                "enable-tftp\n"
                "tftp-root=%s/tftp\n",
                c->interface, c->run_dir, c->run_dir, c->run_dir, c->run_dir);
    if (c->user != NULL)
        strbuf_addf(out, "user=%s\n", c->user);
}

static void render_addresses(const struct dnsmasq_config *c, struct strbuf *out)
{
    if (c->proxy) {
        strbuf_addf(out, "dhcp-range=%s,proxy,%s\n", c->network, c->netmask);
        return;
    }
    /* no-ping: without it each new address is offered up to 3 s late */
    strbuf_adds(out, "dhcp-authoritative\ndhcp-no-override\nno-ping\n");
    if (c->pool_first != NULL)
        strbuf_addf(out, "dhcp-range=%s,%s,%s,%d\n", c->pool_first, c->pool_last, c->netmask,
                    c->lease_seconds);
    else
        strbuf_addf(out, "dhcp-range=%s,static,%s,%d\n", c->network, c->netmask, c->lease_seconds);
    /* an option without value: not even dnsmasq's own address is told */
    if (c->gateway != NULL)
        strbuf_addf(out, "dhcp-option=option:router,%s\n", c->gateway);
    else
        strbuf_adds(out, "dhcp-option=option:router\n");
    if (c->dns != NULL)
        strbuf_addf(out, "dhcp-option=option:dns-server,%s\n", c->dns);
}

static void render_boot(const struct dnsmasq_config *c, struct strbuf *out)
{
    strbuf_adds(out, "dhcp-match=set:ipxe,175\n"
                     "dhcp-userclass=set:ipxe,iPXE\n"
                     "dhcp-match=set:bios,option:client-arch,0\n"
                     "dhcp-match=set:efi64,option:client-arch,7\n"
                     "dhcp-match=set:efi64,option:client-arch,9\n"
                     "dhcp-match=set:arm64,option:client-arch,11\n"
                     "dhcp-match=set:http64,option:client-arch,16\n"
                     "dhcp-match=set:httparm64,option:client-arch,19\n"
                     /* 175.176 = 1: iPXE does not wait for offers of a proxy */
                     "dhcp-option-force=tag:ipxe,encap:175,176,1b\n");
    if (c->proxy)
        strbuf_adds(out, "pxe-service=tag:!ipxe,x86PC,\"clusterd\",undionly.kpxe\n"
                         "pxe-service=tag:!ipxe,X86-64_EFI,\"clusterd\",snponly.efi\n"
                         "pxe-service=tag:!ipxe,BC_EFI,\"clusterd\",snponly.efi\n"
                         "pxe-service=tag:!ipxe,ARM64_EFI,\"clusterd\",snponly-arm64.efi\n");
    else
        strbuf_adds(out, "dhcp-boot=tag:bios,tag:!ipxe,undionly.kpxe\n"
                         "dhcp-boot=tag:efi64,tag:!ipxe,snponly.efi\n"
                         "dhcp-boot=tag:arm64,tag:!ipxe,snponly-arm64.efi\n");
    /* firmware that boots over HTTP takes only answers that repeat its vendor class */
    strbuf_addf(out,
                "dhcp-option-force=tag:http64,60,HTTPClient\n"
                "dhcp-option-force=tag:httparm64,60,HTTPClient\n"
                "dhcp-boot=tag:http64,tag:!ipxe,%s/boot/loader/snponly.efi\n"
                "dhcp-boot=tag:httparm64,tag:!ipxe,%s/boot/loader/snponly-arm64.efi\n"
                "dhcp-boot=tag:ipxe,%s/boot/start.ipxe\n",
                c->url, c->url, c->url);
}

int dnsmasq_render(const struct dnsmasq_config *c, struct strbuf *out, struct err *err)
{
    int rc = check_config(c, err);
    if (rc < 0)
        return rc;
    render_files(c, out);
    render_addresses(c, out);
    render_boot(c, out);
    /* iPXE waits 13 s for an IPv6 router that does not answer. Lifetime 0: answered, but nobody
     * takes this machine for a way out. */
    if (c->ipv6_prefix != NULL)
        strbuf_addf(out, "enable-ra\nra-param=%s,60,0\ndhcp-range=%s,ra-only,64,%d\n", c->interface,
                    c->ipv6_prefix, c->lease_seconds);
    return strbuf_ok(out) ? 0 : err_set(err, ERR_LIMIT, "dnsmasq: configuration is too long");
}

/* ---- hosts ---- */

/* Words that dnsmasq takes for something else than a name in a host line. */
static bool name_is_safe(const char *name)
{
    size_t digits = strspn(name, "0123456789");
    if (digits > 0 && (name[digits] == '\0' || name[digits + 1] == '\0'))
        return false; /* a lease time: "45", "12h" */
    return strcmp(name, "infinite") != 0 && strcmp(name, "ignore") != 0 &&
           strcmp(name, "deprecated") != 0;
}

void dnsmasq_render_host(const struct host *h, struct strbuf *out)
{
    char name[sizeof h->name];
    if (h->mac_count == 0)
        return;
    for (int i = 0; i < h->mac_count; i++)
        strbuf_addf(out, "%s,", h->macs[i]);
    /* firmware, iPXE, ramdisk and system use different client ids: only the MAC counts */
    strbuf_addf(out, "id:*,set:known,%s", h->address);
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(h->name, "."), h->name);
    if (name_is_safe(name))
        strbuf_addf(out, ",%s", name);
    strbuf_addc(out, '\n');
}

/* ---- log ---- */

static void copy_clean(char *dst, size_t size, const char *src, size_t len)
{
    size_t n = 0;
    for (; n + 1 < size && n < len && src[n] != '\0'; n++)
        dst[n] = (unsigned char)src[n] < ' ' || (unsigned char)src[n] >= 0x7f ? '?' : src[n];
    dst[n] = '\0';
}

/* The next word; NULL at the end. */
static const char *word(const char **p, size_t *ret_len)
{
    const char *start = *p + strspn(*p, " ");
    *ret_len = strcspn(start, " ");
    *p = start + *ret_len;
    return *ret_len > 0 ? start : NULL;
}

static bool take_mac(const char *w, size_t len, char ret[MAC_SIZE])
{
    char text[MAC_SIZE];
    if (w == NULL || len != MAC_SIZE - 1)
        return false;
    (void)snprintf(text, sizeof text, "%.*s", (int)len, w);
    return mac_parse(text, ret, NULL) == 0;
}

/* "DHCPACK(br0) 10.77.0.11 52:54:00:77:00:01 lab1" */
static bool parse_ack(const char *p, struct dnsmasq_event *ret)
{
    size_t alen, mlen;
    const char *address = word(&p, &alen);
    const char *mac = word(&p, &mlen);
    if (address == NULL || alen >= sizeof ret->address ||
        strspn(address, "0123456789abcdef.:") < alen || !take_mac(mac, mlen, ret->mac))
        return false;
    ret->kind = DNSMASQ_ACK;
    copy_clean(ret->address, sizeof ret->address, address, alen);
    return true;
}

/* "DHCPDISCOVER(br0) 52:54:00:77:00:09 no address available"; an address may stand before. */
static bool parse_refusal(const char *p, struct dnsmasq_event *ret)
{
    size_t len;
    const char *end = strstr(p, "no address available");
    if (end == NULL)
        return false;
    for (const char *w; p < end && (w = word(&p, &len)) != NULL;)
        if (take_mac(w, len, ret->mac)) {
            ret->kind = DNSMASQ_NO_ADDRESS;
            return true;
        }
    return false;
}

static bool parse_dhcp(const char *text, struct dnsmasq_event *ret)
{
    size_t digits = strspn(text, "0123456789"); /* a transaction, with log-dhcp */
    if (digits > 0 && text[digits] == ' ')
        text += digits + 1;
    const char *close = strchr(text, ')');
    if (strncmp(text, "DHCP", 4) != 0 || close == NULL)
        return false;
    if (strncmp(text, "DHCPACK(", 8) == 0)
        return parse_ack(close + 1, ret);
    if (strncmp(text, "DHCPDISCOVER(", 13) == 0 || strncmp(text, "DHCPREQUEST(", 12) == 0)
        return parse_refusal(close + 1, ret);
    return false;
}

static bool is_complaint(const char *text)
{
    static const char *const signs[] = {
        "failed to ",        "cannot ", "error",   "not found",  "no address range available",
        "unknown interface", "bad ",    "illegal", "junk found", "duplicate",
    };
    /* a changed host file is read once before the SIGHUP that makes dnsmasq forget the old one */
    if (strstr(text, "duplicate dhcp-host IP address") != NULL)
        return false;
    /* a client's own way to look at a file's size before it fetches it */
    if (strstr(text, "User aborted the transfer") != NULL)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(signs); i++)
        if (strstr(text, signs[i]) != NULL)
            return true;
    return false;
}

bool dnsmasq_parse_line(const char *line, struct dnsmasq_event *ret)
{
    memset(ret, 0, sizeof *ret);
    /* "dnsmasq: ", "dnsmasq-dhcp[123]: ", with or without the time of day before */
    const char *start = strstr(line, "dnsmasq");
    const char *text = start != NULL ? strstr(start, ": ") : NULL;
    if (text == NULL || (size_t)(text - start) != strcspn(start, " :"))
        return false;
    text += 2;
    copy_clean(ret->text, sizeof ret->text, text, strlen(text));
    size_t tag = (size_t)(text - 2 - start);
    if (strncmp(text, "started, version", 16) == 0) {
        ret->kind = DNSMASQ_UP;
        return true;
    }
    if (tag >= 12 && strncmp(start, "dnsmasq-dhcp", 12) == 0 && parse_dhcp(text, ret))
        return true;
    if (is_complaint(text)) {
        ret->kind = DNSMASQ_ERROR;
        return true;
    }
    return false;
}
