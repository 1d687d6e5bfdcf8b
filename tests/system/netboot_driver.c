/*
 * netboot and its HTTP side without the daemon, for netboot.t:
 *   netboot_driver CIDR ADDRESS PORT RUN_DIR ARTEFACT_DIR POOL_FIRST POOL_LAST
 * Commands on stdin: "host NODE NAME ADDRESS MAC", "gone NODE", "arm NODE install|discover",
 * "disarm", "status". What the hooks are told goes to stdout.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/routes_int.h"
#include "base/strbuf.h"

static struct loop *loop;
static struct netboot *nb;
static char hash[DIGEST_HEX_SIZE];

static void __attribute__((format(printf, 1, 2))) out(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vprintf(fmt, ap);
    va_end(ap);
    (void)putchar('\n');
    (void)fflush(stdout);
}

static void on_claimed(int64_t node, int64_t attempt, const char *purpose, void *user)
{
    (void)attempt;
    (void)user;
    out("claimed %d %s", (int)node, purpose);
}
static void on_facts(int64_t node, int64_t attempt, const char *json, void *user)
{
    (void)attempt;
    (void)user;
    out("facts %d %zu", (int)node, strlen(json));
}
static void on_proof(int64_t node, int64_t attempt, const char *boot_id, const char *text,
                     void *user)
{
    (void)attempt;
    (void)text;
    (void)user;
    out("proof %d %s", (int)node, boot_id);
}
static void on_unknown(const char *mac, const char *uuid, const char *serial, const char *address,
                       const char *platform, void *user)
{
    (void)uuid;
    (void)user;
    out("unknown %s %s %s %s", mac, serial, address, platform);
}
static void on_dhcp(const char *mac, const char *address, int64_t node, void *user)
{
    (void)user;
    out("dhcp %s %s %d", mac, address, (int)node);
}
static void on_event(const char *kind, int64_t node, const char *text, void *user)
{
    (void)user;
    out("event %s %d %s", kind, (int)node, text);
}

static void command(const char *line)
{
    struct err err = {0};
    char name[64], address[32], mac[32], what[32];
    int node, rc = 0;
    if (sscanf(line, "host %d %63s %31s %31s", &node, name, address, mac) == 4) {
        const char *const macs[] = {mac, NULL};
        struct netboot_host h = {.node = node, .name = name, .address = address, .macs = macs};
        rc = netboot_host_put(nb, &h, &err);
    } else if (sscanf(line, "gone %d", &node) == 1) {
        netboot_host_remove(nb, node);
    } else if (sscanf(line, "arm %d %31s", &node, what) == 2) {
        bool install = strcmp(what, "install") == 0;
        struct netboot_order o = {.node = node,
                                  .attempt = 1,
                                  .purpose = install ? TOKEN_INSTALL : TOKEN_DISCOVER,
                                  .expires_in_ms = 60000,
                                  .image = "os.raw.zst",
                                  .disk = "largest"};
        rc = netboot_arm(nb, &o, hash, &err);
    } else if (strcmp(line, "disarm") == 0) {
        netboot_disarm(nb, hash, "asked for");
    } else if (strcmp(line, "status") == 0) {
        struct netboot_status s;
        netboot_status(nb, &s);
        out("status dhcp=%s restarts=%d hosts=%d artefacts=%d hashing=%d text=%s", s.dhcp,
            s.dhcp_restarts, s.hosts, s.artefacts, s.artefacts_hashing, s.dhcp_text);
    } else {
        out("what? %s", line);
    }
    out("%s %s", rc < 0 ? "failed" : "done", rc < 0 ? err.text : line);
}

static void on_input(int fd, int events, void *user)
{
    static struct strbuf buf = {.max = 4096};
    char chunk[512], *nl;
    (void)events;
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n <= 0) {
        watch_stop(user);
        loop_stop(loop);
        return;
    }
    if (buf.data == NULL)
        strbuf_init(&buf, 4096);
    strbuf_add(&buf, chunk, (size_t)n);
    while ((nl = strchr(buf.data, '\n')) != NULL) {
        *nl = '\0';
        command(buf.data);
        strbuf_consume(&buf, (size_t)(nl - buf.data) + 1);
    }
}

static int die(const struct err *err)
{
    (void)fprintf(stderr, "netboot_driver: %s\n", err->text);
    return 1;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct watch input = {0};
    struct routes routes = {0};
    if (argc != 8) {
        (void)fprintf(stderr, "usage: CIDR ADDRESS PORT RUN_DIR ARTEFACT_DIR FIRST LAST\n");
        return 2;
    }
    loop = loop_new();
    struct netboot_config c = {
        .loop = loop,
        .cidr = argv[1],
        .address = argv[2],
        .port = atoi(argv[3]),
        .mode = NETBOOT_DHCP_AUTHORITATIVE,
        .run_dir = argv[4],
        .artefact_dir = argv[5],
        .pool_first = argv[6],
        .pool_last = argv[7],
        .template_dir = "templates/boot",
        .hooks = {.claimed = on_claimed,
                  .facts = on_facts,
                  .proof = on_proof,
                  .unknown = on_unknown,
                  .dhcp = on_dhcp,
                  .event = on_event},
    };
    struct http_listen listen = {.address = argv[2],
                                 .port = c.port,
                                 .handle = routes_boot,
                                 .user = &routes,
                                 .max_body = NETBOOT_MAX_BODY};
    struct http_server *http = http_server_new(loop);
    if (store_open(loop, ":memory:", &routes.c.store, &err) < 0 ||
        (nb = netboot_new(&c, &err)) == NULL || netboot_start(nb, &err) < 0 ||
        http_listen(http, &listen, NULL, &err) < 0 ||
        watch_set(loop, &input, 0, WATCH_READ, on_input, &input, &err) < 0)
        return die(&err);
    routes.netboot = nb;
    loop_run(loop);
    http_server_free(http);
    netboot_free(nb);
    store_close(routes.c.store);
    loop_run_for(loop, 200);
    out("ended, %d sources left", loop_free(loop));
    return 0;
}
