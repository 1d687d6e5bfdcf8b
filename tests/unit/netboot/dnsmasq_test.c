/* dnsmasq's texts: configuration, host lines, and the log as dnsmasq 2.90 writes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "netboot/dnsmasq.h"

static const struct {
    const char *line;
    int kind; /* -1: of no interest */
    const char *mac, *address;
} lines[] = {
    {"dnsmasq: started, version 2.90 DNS disabled", DNSMASQ_UP, "", ""},
    {"dnsmasq[4711]: started, version 2.90 DNS disabled", DNSMASQ_UP, "", ""},
    {"dnsmasq: compile time options: IPv6 GNU-getopt DBus", -1, "", ""},
    {"dnsmasq-dhcp: DHCP, IP range 10.77.0.50 -- 10.77.0.99, lease time 1h", -1, "", ""},
    {"dnsmasq-dhcp: DHCPDISCOVER(br0) 52:54:00:77:00:01 ", -1, "", ""},
    {"dnsmasq-dhcp: DHCPOFFER(br0) 10.77.0.11 52:54:00:77:00:01 ", -1, "", ""},
    {"dnsmasq-dhcp: DHCPACK(br0) 10.77.0.11 52:54:00:77:00:01 lab1", DNSMASQ_ACK,
     "52:54:00:77:00:01", "10.77.0.11"},
    {"dnsmasq-dhcp[99]: 268694824 DHCPACK(br0) 10.77.0.55 52:54:00:77:00:09 ", DNSMASQ_ACK,
     "52:54:00:77:00:09", "10.77.0.55"},
    {"dnsmasq-dhcp: DHCPDISCOVER(br0) 52:54:00:77:00:09 no address available", DNSMASQ_NO_ADDRESS,
     "52:54:00:77:00:09", ""},
    {"dnsmasq-dhcp: DHCPDISCOVER(br0) 10.77.0.9 52:54:00:77:00:09 no address available",
     DNSMASQ_NO_ADDRESS, "52:54:00:77:00:09", ""},
    {"dnsmasq: failed to create listening socket for 10.77.0.1: Address already in use",
     DNSMASQ_ERROR, "", ""},
    {"dnsmasq: unknown interface br9", DNSMASQ_ERROR, "", ""},
    {"dnsmasq-tftp: file /run/x/tftp/nothing not found for 10.77.0.50", DNSMASQ_ERROR, "", ""},
    {"dnsmasq: duplicate dhcp-host IP address 10.77.0.11 at line 1 of /run/x/hosts.d/1", -1, "",
     ""},
    {"dnsmasq-tftp: sent /run/x/tftp/undionly.kpxe to 10.77.0.50", -1, "", ""},
    /* made up by somebody on the network, or cut */
    {"dnsmasq-dhcp: DHCPACK(br0) 10.77.0.11", -1, "", ""},
    {"dnsmasq-dhcp: DHCPACK(br0) 10.77.0.11 not-a-mac", -1, "", ""},
    {"dnsmasq-dhcp: DHCPACK(br0 10.77.0.11 52:54:00:77:00:01", -1, "", ""},
    {"dnsmasq-dhcp: DHCPACK(", -1, "", ""},
    {"other: DHCPACK(br0) 10.77.0.11 52:54:00:77:00:01 lab1", -1, "", ""},
    {"dnsmasq", -1, "", ""},
    {"", -1, "", ""},
};

static void test_lines(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        struct dnsmasq_event e;
        bool got = dnsmasq_parse_line(lines[i].line, &e);
        if (got != (lines[i].kind >= 0) || (got && (int)e.kind != lines[i].kind))
            fail_msg("%s: %d, kind %d", lines[i].line, got, (int)e.kind);
        if (got) {
            assert_string_equal(e.mac, lines[i].mac);
            assert_string_equal(e.address, lines[i].address);
        }
    }
}

static struct dnsmasq_config config(void)
{
    return (struct dnsmasq_config){.run_dir = "/run/x",
                                   .interface = "br0",
                                   .network = "10.77.0.0",
                                   .netmask = "255.255.255.0",
                                   .pool_first = "10.77.0.50",
                                   .pool_last = "10.77.0.99",
                                   .gateway = "10.77.0.1",
                                   .dns = "10.77.0.1",
                                   .ipv6_prefix = "fd77::",
                                   .lease_seconds = 3600,
                                   .url = "http://10.77.0.1:8080"};
}

static void contains(const struct dnsmasq_config *c, bool want, const char *line)
{
    struct strbuf out;
    struct err err = {0};
    strbuf_init(&out, 1 << 16);
    assert_int_equal(dnsmasq_render(c, &out, &err), 0);
    char *nl cleanup_free = xasprintf("\n%s\n", line);
    if ((strstr(out.data, nl) != NULL) != want)
        fail_msg("'%s' %s in:\n%s", line, want ? "is not" : "is", out.data);
    strbuf_done(&out);
}

static void test_render(void **state)
{
    (void)state;
    struct dnsmasq_config c = config();
    contains(&c, true, "interface=br0");
    contains(&c, true, "no-ping");
    contains(&c, true, "dhcp-authoritative");
    contains(&c, true, "dhcp-range=10.77.0.50,10.77.0.99,255.255.255.0,3600");
    contains(&c, true, "dhcp-option-force=tag:ipxe,encap:175,176,1b");
    contains(&c, true, "dhcp-boot=tag:ipxe,http://10.77.0.1:8080/boot/start.ipxe");
    contains(&c, true, "dhcp-boot=tag:bios,tag:!ipxe,undionly.kpxe");
    contains(&c, true, "dhcp-range=fd77::,ra-only,64,3600");
    c.pool_first = c.pool_last = c.ipv6_prefix = c.gateway = NULL;
    contains(&c, true, "dhcp-range=10.77.0.0,static,255.255.255.0,3600");
    contains(&c, true, "dhcp-option=option:router");
    contains(&c, false, "enable-ra");
    c.proxy = true;
    contains(&c, true, "dhcp-range=10.77.0.0,proxy,255.255.255.0");
    contains(&c, false, "dhcp-authoritative");
}

static void test_injection(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "x\ndhcp-script=/bin/sh", "x\r", "a b", "a,b", "a#b", "\"a", "a\\", ""};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        for (int field = 0; field < 11; field++) {
            struct dnsmasq_config c = config();
            const char **const fields[] = {&c.run_dir,     &c.interface, &c.network, &c.netmask,
                                           &c.pool_first,  &c.pool_last, &c.gateway, &c.dns,
                                           &c.ipv6_prefix, &c.url,       &c.user};
            struct strbuf out;
            *fields[field] = bad[i];
            strbuf_init(&out, 1 << 16);
            assert_int_equal(dnsmasq_render(&c, &out, NULL), -ERR_INVALID);
            assert_int_equal(out.len, 0);
            strbuf_done(&out);
        }
}

static void test_host(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int macs;
        const char *want;
    } rows[] = {
        {"gpu001", 1, "52:54:00:77:00:01,id:*,set:known,10.77.0.11,gpu001\n"},
        {"gpu001.site", 2,
         "52:54:00:77:00:01,52:54:00:77:00:02,id:*,set:known,10.77.0.11,gpu001\n"},
        {"12h", 1, "52:54:00:77:00:01,id:*,set:known,10.77.0.11\n"}, /* not a lease time */
        {"45", 1, "52:54:00:77:00:01,id:*,set:known,10.77.0.11\n"},
        {"ignore", 1, "52:54:00:77:00:01,id:*,set:known,10.77.0.11\n"},
        {"gpu001", 0, ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char macs[2][MAC_SIZE] = {"52:54:00:77:00:01", "52:54:00:77:00:02"};
        struct host h = {
            .node = 1, .address = "10.77.0.11", .macs = macs, .mac_count = rows[i].macs};
        struct strbuf out;
        (void)snprintf(h.name, sizeof h.name, "%s", rows[i].name);
        strbuf_init(&out, 4096);
        dnsmasq_render_host(&h, &out);
        assert_string_equal(out.data, rows[i].want);
        strbuf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_render),
                                       cmocka_unit_test(test_injection),
                                       cmocka_unit_test(test_host)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
