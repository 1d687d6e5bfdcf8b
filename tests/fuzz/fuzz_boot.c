/* What booting machines and dnsmasq say: report bodies, boot scripts' queries, log lines, MACs. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "netboot/netboot_int.h"

static const char *value;

static const char *arg(const char *name, void *ctx)
{
    (void)ctx;
    return strcmp(name, "mac") == 0 && value[0] == 'k' ? "52:54:00:77:00:01" : value;
}

static const char *header(const char *name, void *ctx)
{
    (void)ctx;
    return strcmp(name, "X-Clusterd-Token") == 0 ? ctx : value;
}

static struct netboot *make(void)
{
    static const char *const macs[] = {"52:54:00:77:00:01", NULL};
    struct netboot_config c = {.loop = loop_new_virtual(1000000),
                               .cidr = "127.0.0.0/8",
                               .address = "127.0.0.1",
                               .interface = "lo",
                               .url = "http://127.0.0.1:1",
                               .mode = NETBOOT_DHCP_NONE,
                               .run_dir = "/nonexistent",
                               .template_dir = "templates/boot",
                               .artefact_dir = "/nonexistent"};
    struct netboot_host h = {.node = 1, .name = "n", .address = "10.0.0.1", .macs = macs};
    struct netboot *nb = netboot_new(&c, NULL);
    if (nb == NULL || netboot_start(nb, NULL) < 0 || netboot_host_put(nb, &h, NULL) < 0)
        abort();
    return nb;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {"/boot/script",   "/boot/job",   "/boot/facts",
                                        "/boot/progress", "/boot/proof", "/boot/installed",
                                        "/boot/failed",   NULL};
    static struct netboot *nb;
    struct dnsmasq_event event;
    struct report report;
    if (size == 0)
        return 0;
    if (nb == NULL)
        nb = make();
    const char *path = paths[data[0] % ARRAY_LEN(paths)];
    char *text = xstrndup((const char *)data + 1, size - 1);
    value = text;
    (void)dnsmasq_parse_line(text, &event);
    char *exact = xmemdup(data, size); /* without a NUL behind */
    report_parse(exact, size, &report);
    (void)report_host_key_valid(report.host_key);
    free(exact);
    struct token *t = token_arm(nb->tokens, 1, 1, TOKEN_INSTALL, NULL, 0, INT64_MAX);
    char token[TOKEN_TEXT_SIZE];
    memcpy(token, t->text, sizeof token);
    struct boot_request r = {.method = "GET",
                             .path = "/boot/job",
                             .arg = arg,
                             .header = header,
                             .ctx = token,
                             .peer = "10.0.0.1"};
    struct boot_answer a;
    netboot_request(nb, &r, &a);
    boot_answer_done(&a);
    r.path = path != NULL ? path : text;
    r.method = path != NULL && path == paths[0] ? "GET" : "POST";
    r.body = text;
    r.body_len = strlen(text);
    netboot_request(nb, &r, &a);
    if (path == paths[0] && (a.status != 200 || strncmp(a.text, "#!ipxe\n", 7) != 0))
        abort(); /* always a script */
    boot_answer_done(&a);
    token_disarm(nb->tokens, t->view.hash, "end", 0);
    token_expire(nb->tokens, INT64_MAX - 1); /* forgets the ended ones */
    free(text);
    return 0;
}
