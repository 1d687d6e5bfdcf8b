/* Netboot as its callers see it: scripts, jobs, reports and files, with the hooks that follow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "netboot/netboot.h"

#define MAC "52:54:00:77:00:01"
#define URL "http://10.77.0.1:8080"
#define RAMDISK "11111111-0000-4000-8000-000000000001"
#define DISK "22222222-0000-4000-8000-000000000002"
#define KEY "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPZ0000000000000000000000000000000000000000"

static char dir[] = "/tmp/netboot_test.XXXXXX";
static struct loop *loop;
static struct netboot *nb;
static struct token_view rows[16]; /* the database */
static int row_count;
static char heard[4096]; /* what the hooks were told, a line each */
static char image_sha[DIGEST_HEX_SIZE];

static void hear(const char *fmt, ...)
{
    va_list ap;
    size_t n = strlen(heard);
    va_start(ap, fmt);
    (void)vsnprintf(heard + n, sizeof heard - n, fmt, ap);
    va_end(ap);
}

static void on_token(const struct token_view *t, void *user)
{
    (void)user;
    int i = 0;
    while (i < row_count && strcmp(rows[i].hash, t->hash) != 0)
        i++;
    assert_true(i < (int)ARRAY_LEN(rows));
    rows[i] = *t;
    row_count = i == row_count ? i + 1 : row_count;
}
static void on_claimed(int64_t node, int64_t attempt, const char *purpose, void *user)
{
    (void)user;
    hear("claimed %d %d %s\n", (int)node, (int)attempt, purpose);
}
static void on_facts(int64_t node, int64_t attempt, const char *json, void *user)
{
    (void)user;
    hear("facts %d %d %s\n", (int)node, (int)attempt, json);
}
static void on_progress(int64_t node, int64_t attempt, int percent, const char *text, void *user)
{
    (void)user;
    hear("progress %d %d %d %s\n", (int)node, (int)attempt, percent, text);
}
static void on_installed(int64_t node, int64_t attempt, const char *key, const char *text,
                         void *user)
{
    (void)user;
    (void)text;
    hear("installed %d %d %.11s\n", (int)node, (int)attempt, key);
}
static void on_proof(int64_t node, int64_t attempt, const char *boot_id, const char *text,
                     void *user)
{
    (void)user;
    (void)text;
    hear("proof %d %d %s\n", (int)node, (int)attempt, boot_id);
}
static void on_failed(int64_t node, int64_t attempt, const char *text, void *user)
{
    (void)user;
    hear("failed %d %d %s\n", (int)node, (int)attempt, text);
}
static void on_unknown(const char *mac, const char *uuid, const char *serial, const char *address,
                       const char *platform, void *user)
{
    (void)user;
    hear("unknown %s %s %s %s %s\n", mac, uuid, serial, address, platform);
}
static void on_event(const char *kind, int64_t node, const char *text, void *user)
{
    (void)user;
    (void)text;
    if (strncmp(kind, "artefact.", 9) != 0)
        hear("event %s %d\n", kind, (int)node);
}

static void open_netboot(enum netboot_mode mode)
{
    struct err err = {0};
    char *artefacts cleanup_free = xasprintf("%s/artefacts", dir);
    char *run cleanup_free = xasprintf("%s/run", dir);
    struct netboot_config c = {
        .loop = loop,
        .cidr = "127.0.0.0/8",
        .interface = "lo",
        .address = "127.0.0.1",
        .url = URL,
        .mode = mode,
        .run_dir = run,
        .template_dir = "templates/boot",
        .artefact_dir = artefacts,
        .dnsmasq = "/nonexistent/dnsmasq",
        .hooks = {.token = on_token,
                  .claimed = on_claimed,
                  .facts = on_facts,
                  .progress = on_progress,
                  .installed = on_installed,
                  .proof = on_proof,
                  .failed = on_failed,
                  .unknown = on_unknown,
                  .event = on_event},
    };
    nb = netboot_new(&c, &err);
    if (nb == NULL)
        fail_msg("%s", err.text);
}

static void start_netboot(void)
{
    struct err err = {0};
    static const char *const macs[] = {"52-54-00-77-00-01", NULL};
    struct netboot_host h = {
        .node = 1, .name = "lab1", .address = "10.77.0.11", .macs = macs, .serial = "SN-1"};
    if (netboot_start(nb, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(netboot_host_put(nb, &h, &err), 0);
    for (int i = 0; i < 100 && netboot_artefact(nb, "os.raw.zst", image_sha, NULL) < 0; i++)
        loop_run_for(loop, 20);
    struct netboot_status s;
    netboot_status(nb, &s);
    for (int i = 0; i < 100 && s.artefacts_hashing > 0; i++) {
        loop_run_for(loop, 20);
        netboot_status(nb, &s);
    }
    assert_int_equal(s.artefacts, 3);
}

static void write_artefact(const char *name, const char *text)
{
    char *path cleanup_free = xasprintf("%s/artefacts/%s", dir, name);
    assert_int_equal(fs_write_atomic(path, text, strlen(text), 0644, NULL), 0);
}

static int setup(void **state)
{
    (void)state;
    char *artefacts cleanup_free = NULL;
    strcpy(dir, "/tmp/netboot_test.XXXXXX");
    assert_non_null(mkdtemp(dir));
    artefacts = xasprintf("%s/artefacts", dir);
    assert_int_equal(fs_mkdirs(artefacts, 0755, NULL), 0);
    write_artefact("vmlinuz", "kernel");
    write_artefact("initrd", "initrd");
    write_artefact("os.raw.zst", "image");
    loop = loop_new();
    row_count = 0;
    open_netboot(NETBOOT_DHCP_NONE);
    start_netboot();
    heard[0] = '\0';
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char *rm cleanup_free = xasprintf("rm -rf %s", dir);
    netboot_free(nb);
    loop_run_for(loop, 20);
    return loop_free(loop) + system(rm);
}

/* ---- a machine ---- */

static struct boot_answer got;
static char text[20000];
static const char *peer = "10.77.0.11";

struct asked {
    const char *query, *token, *boot_id;
};

/* "mac=...&serial=..." without encoding */
static const char *arg(const char *name, void *ctx)
{
    static char value[200];
    const struct asked *a = ctx;
    size_t n = strlen(name);
    for (const char *p = a->query; p != NULL; p = strchr(p, '&')) {
        p += *p == '&';
        if (strncmp(p, name, n) == 0 && p[n] == '=') {
            (void)snprintf(value, sizeof value, "%.*s", (int)strcspn(p + n + 1, "&"), p + n + 1);
            return value;
        }
    }
    return NULL;
}

static const char *header(const char *name, void *ctx)
{
    const struct asked *a = ctx;
    if (strcasecmp(name, "x-clusterd-boot-id") == 0)
        return a->boot_id;
    return strcasecmp(name, "x-clusterd-token") == 0 ? a->token : NULL;
}

static int ask(const char *method, const char *path, const char *query, const char *token,
               const char *body)
{
    struct asked a = {query, token, NULL};
    struct boot_request r = {.method = method,
                             .path = path,
                             .arg = arg,
                             .header = header,
                             .ctx = &a,
                             .peer = peer,
                             .body = body,
                             .body_len = body != NULL ? strlen(body) : 0};
    boot_answer_done(&got);
    heard[0] = '\0';
    netboot_request(nb, &r, &got);
    (void)snprintf(text, sizeof text, "%s", got.text != NULL ? got.text : "");
    return got.status;
}

static void arm(enum token_purpose purpose, char hash[DIGEST_HEX_SIZE])
{
    struct err err = {0};
    struct netboot_order o = {.node = 1,
                              .attempt = 7,
                              .purpose = purpose,
                              .expires_in_ms = 60000,
                              .image = "os.raw.zst",
                              .disk = "largest",
                              .min_disk_gb = 1,
                              .ssh_key = "ssh-ed25519 AAAA it's"};
    if (netboot_arm(nb, &o, hash, &err) < 0)
        fail_msg("%s", err.text);
}

static void boot_token(char ret[TOKEN_TEXT_SIZE])
{
    assert_int_equal(
        ask("GET", "/boot/script", "mac=" MAC "&serial=SN-1&platform=pcbios", NULL, NULL), 200);
    const char *p = strstr(text, "clusterd.token=");
    assert_non_null(p);
    (void)snprintf(ret, TOKEN_TEXT_SIZE, "%.64s", p + 15);
}

static void expect(const char *needle)
{
    if (strstr(text, needle) == NULL)
        fail_msg("no '%s' in: %s", needle, text);
}

static void expect_local(void)
{
    expect("#!ipxe\n");
    expect("sanboot --no-describe --drive 0x80 || exit");
    assert_null(strstr(text, "clusterd.token"));
    assert_null(strstr(text, "kernel"));
}

static void test_scripts(void **state)
{
    (void)state;
    char hash[DIGEST_HEX_SIZE], token[TOKEN_TEXT_SIZE];
    assert_int_equal(ask("GET", "/boot/start.ipxe", NULL, NULL, NULL), 200);
    expect("chain --replace --autofree " URL "/boot/script?mac=${netX/mac}&uuid=${uuid}");
    /* unarmed */
    assert_int_equal(ask("GET", "/boot/script", "mac=" MAC "&platform=pcbios", NULL, NULL), 200);
    expect_local();
    assert_string_equal(heard, "event boot.local 1\n");
    assert_false(got.commit_first);
    /* UEFI without and with a loader for the disk */
    (void)ask("GET", "/boot/script", "mac=" MAC "&platform=efi", NULL, NULL);
    expect("exit 1\n");
    assert_null(strstr(text, "chain"));
    assert_null(strstr(text, "sanboot"));
    /* unknown, with a serial that tries to be more than one */
    arm(TOKEN_INSTALL, hash);
    assert_int_equal(ask("GET", "/boot/script",
                         "mac=52:54:00:77:00:99&uuid=u&serial=S\n'x&platform=pcbios", NULL, NULL),
                     200);
    expect_local();
    assert_string_equal(heard, "unknown 52:54:00:77:00:99 u S??x 10.77.0.11 pcbios\n");
    (void)ask("GET", "/boot/script", "mac=nonsense&platform=pcbios", NULL, NULL);
    expect_local();
    assert_string_equal(heard, "");
    /* another machine's serial */
    (void)ask("GET", "/boot/script", "mac=" MAC "&serial=SN-2&platform=pcbios", NULL, NULL);
    expect_local();
    assert_string_equal(heard, "event boot.refused 1\n");
    /* armed */
    boot_token(token);
    expect("console=ttyS0,115200 clusterd.url=" URL " clusterd.token=");
    expect("BOOTIF=01-52-54-00-77-00-01 || goto failed\n");
    expect("initrd=initrd ");
    expect("\nboot || goto failed\n");
    /* claimed */
    assert_int_equal(ask("GET", "/boot/job", NULL, token, NULL), 200);
    (void)ask("GET", "/boot/script", "mac=" MAC "&platform=pcbios", NULL, NULL);
    expect_local();
    /* the end of the order */
    arm(TOKEN_INSTALL, hash);
    boot_token(token);
    netboot_disarm(nb, hash, "test");
    (void)ask("GET", "/boot/script", "mac=" MAC "&platform=pcbios", NULL, NULL);
    expect_local();
    assert_int_equal(ask("GET", "/boot/job", NULL, token, NULL), 410);
    assert_int_equal(ask("GET", "/boot/job", NULL, NULL, NULL), 401);
    assert_int_equal(ask("GET", "/boot/job", NULL, hash, NULL), 401);
}

static void test_local_efi(void **state)
{
    (void)state;
    char sha[DIGEST_HEX_SIZE];
    write_artefact("local-disk.efi", "grub");
    netboot_rescan(nb);
    assert_int_equal(netboot_artefact(nb, "local-disk.efi", sha, NULL), -ERR_BUSY);
    for (int i = 0; i < 100 && netboot_artefact(nb, "local-disk.efi", sha, NULL) < 0; i++)
        loop_run_for(loop, 20);
    (void)ask("GET", "/boot/script", "mac=" MAC "&platform=efi", NULL, NULL);
    char *want cleanup_free =
        xasprintf("chain " URL "/artefact/%s/local-disk.efi ||\nexit 1\n", sha);
    expect(want);
}

static void report(const char *token, const char *path, int status, const char *fmt, ...)
{
    char body[2000];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(body, sizeof body, fmt, ap);
    va_end(ap);
    int s = ask("POST", path, NULL, token, body);
    if (s != status)
        fail_msg("%s: %d instead of %d: %s", path, s, status, text);
}

#define INSTALLED "host_key=" KEY "\nimage_sha256=%s\ndisk=/dev/vda\nboot_id=" RAMDISK "\n"
#define PROOF "boot_id=" DISK "\nimage_sha256=%s\nhost_key=" KEY "\nroot=/dev/vda3\n"

static void test_install(void **state)
{
    (void)state;
    char hash[DIGEST_HEX_SIZE], token[TOKEN_TEXT_SIZE], sha[DIGEST_HEX_SIZE];
    memcpy(sha, image_sha, sizeof sha);
    arm(TOKEN_INSTALL, hash);
    boot_token(token);
    assert_int_equal(ask("GET", "/boot/job", NULL, token, NULL), 200);
    assert_string_equal(heard, "claimed 1 7 install\n");
    assert_true(got.commit_first);
    expect("JOB='install'\n");
    expect("ATTEMPT='7'\nHOSTNAME='lab1'\nADDRESS='10.77.0.11'\n");
    expect("IMAGE_FORMAT='raw.zst'\nDISK='largest'\nMIN_DISK_GB='1'\n");
    expect("SSH_KEY='ssh-ed25519 AAAA it'\\''s'\n");
    char *url cleanup_free = xasprintf("IMAGE_URL='" URL "/artefact/%s/os.raw.zst'\n", sha);
    expect(url);
    /* told again, for the answer may have been lost; not to another address */
    assert_int_equal(ask("GET", "/boot/job", NULL, token, NULL), 200);
    assert_string_equal(heard, "");
    assert_false(got.commit_first);
    peer = "10.77.0.66";
    assert_int_equal(ask("GET", "/boot/job", NULL, token, NULL), 409);
    assert_string_equal(heard, "event token.replay 1\n");
    peer = "10.77.0.11";
    report(token, "/boot/progress", 204, "percent=12\ntext=writing\x01\n");
    assert_string_equal(heard, "progress 1 7 12 writing\n");
    report(token, "/boot/progress", 204, "percent=13\n"); /* too soon: not passed on */
    assert_string_equal(heard, "");
    report(token, "/boot/proof", 409, PROOF, sha); /* nothing is written yet */
    report(token, "/boot/installed", 409, "image_sha256=%s\nboot_id=" RAMDISK "\n", sha);
    report(token, "/boot/installed", 204, INSTALLED, sha);
    assert_string_equal(heard, "installed 1 7 ssh-ed25519\n");
    assert_true(got.commit_first);
    report(token, "/boot/installed", 204, INSTALLED, sha); /* again, unchanged */
    assert_string_equal(heard, "");
    assert_int_equal(ask("GET", "/boot/job", NULL, token, NULL), 200);
    expect("JOB='reboot'\n");
    report(token, "/boot/proof", 204, PROOF, sha);
    assert_string_equal(heard, "proof 1 7 " DISK "\n");
    assert_true(got.commit_first);
    report(token, "/boot/proof", 204, PROOF, sha);
    assert_string_equal(heard, "");
    struct token_view v;
    assert_true(netboot_token(nb, hash, &v));
    assert_int_equal(v.state, TOKEN_PROVEN);
    netboot_disarm(nb, hash, "harmless");
    assert_true(netboot_token(nb, hash, &v));
    assert_int_equal(v.state, TOKEN_PROVEN);
}

/* What a machine says against its order ends the order. */
static void test_contradictions(void **state)
{
    (void)state;
    static const struct {
        const char *installed, *proof; /* NULL proof: the first is the wrong one */
        int status;
        const char *heard;
    } table[] = {
        {"host_key=" KEY "\nimage_sha256=00%.62s\nboot_id=" RAMDISK "\n", NULL, 409, "failed 1 7 "},
        {INSTALLED, "boot_id=" DISK "\nimage_sha256=00%.62s\nhost_key=" KEY "\n", 410,
         "failed 1 7 the system that booted comes from another image\n"},
        {INSTALLED, "boot_id=" DISK "\nimage_sha256=%s\nhost_key=ssh-ed25519 B\n", 410,
         "failed 1 7 the system that booted has another host key"},
        {INSTALLED, "boot_id=" DISK "\nimage_sha256=%s\nhost_key=" KEY "\nroot=/dev/ram0\n", 410,
         "failed 1 7 the system that booted does not run from a disk"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char hash[DIGEST_HEX_SIZE], token[TOKEN_TEXT_SIZE], body[2000];
        struct token_view v;
        arm(TOKEN_INSTALL, hash);
        boot_token(token);
        (void)ask("GET", "/boot/job", NULL, token, NULL);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(body, sizeof body, table[i].installed, image_sha);
        int status = ask("POST", "/boot/installed", NULL, token, body);
        if (table[i].proof != NULL) {
            assert_int_equal(status, 204);
            (void)snprintf(body, sizeof body, table[i].proof, image_sha);
            status = ask("POST", "/boot/proof", NULL, token, body);
        }
#pragma GCC diagnostic pop
        if (status != table[i].status || strstr(heard, table[i].heard) == NULL)
            fail_msg("row %d: %d, %s", (int)i, status, heard);
        assert_true(got.commit_first);
        assert_true(netboot_token(nb, hash, &v));
        assert_int_equal(v.state, TOKEN_DEAD);
    }
}

static void test_discover_then_install(void **state)
{
    (void)state;
    char hash[DIGEST_HEX_SIZE], token[TOKEN_TEXT_SIZE], install[DIGEST_HEX_SIZE], big[40];
    assert_int_equal(netboot_ramdisk_order(nb, 1, "reboot", NULL), -ERR_NOT_FOUND);
    arm(TOKEN_DISCOVER, hash);
    boot_token(token);
    assert_false(netboot_ramdisk_alive(nb, 1));
    assert_int_equal(ask("GET", "/boot/job", NULL, token, NULL), 200);
    assert_string_equal(heard, "claimed 1 7 discover\n");
    expect("JOB='discover'\n");
    report(token, "/boot/facts", 400, "not json");
    report(token, "/boot/facts", 400, "[1]");
    assert_false(netboot_ramdisk_alive(nb, 1));
    report(token, "/boot/facts", 204, "{\"a\": 1}");
    assert_string_equal(heard, "facts 1 7 {\"a\": 1}\n");
    assert_true(got.commit_first);
    assert_true(netboot_ramdisk_alive(nb, 1));
    (void)ask("GET", "/boot/job", NULL, token, NULL);
    expect("JOB='wait'\n");
    expect("SECONDS_TO_WAIT='2'\n");
    assert_int_equal(netboot_ramdisk_order(nb, 1, "dance", NULL), -ERR_INVALID);
    assert_int_equal(netboot_ramdisk_order(nb, 1, "poweroff", NULL), 0);
    (void)ask("GET", "/boot/job", NULL, token, NULL);
    expect("JOB='poweroff'\n");
    assert_int_equal(netboot_ramdisk_order(nb, 1, NULL, NULL), 0);
    /* the running ramdisk takes the install without a reboot, under a new token */
    arm(TOKEN_INSTALL, install);
    struct token_view v;
    assert_false(netboot_is_handed(nb, install));
    (void)ask("GET", "/boot/job", NULL, token, NULL);
    expect("JOB='wait'\n");
    expect("SECONDS_TO_WAIT='0'\n");
    assert_true(netboot_is_handed(nb, install));
    (void)snprintf(big, sizeof big, "TOKEN='%.30s", token);
    assert_null(strstr(text, big));
    char next[TOKEN_TEXT_SIZE];
    (void)snprintf(next, sizeof next, "%.64s", strstr(text, "TOKEN='") + 7);
    /* the answer was lost: the old token gets the same again; nothing is claimed by telling it */
    (void)ask("GET", "/boot/job", NULL, token, NULL);
    expect(next);
    assert_string_equal(heard, "");
    assert_true(netboot_token(nb, install, &v) && v.state == TOKEN_ARMED);
    (void)ask("GET", "/boot/job", NULL, next, NULL);
    expect("JOB='install'\n");
    assert_string_equal(heard, "claimed 1 7 install\n");
    assert_false(netboot_ramdisk_alive(nb, 1));
    report(next, "/boot/failed", 204, "text=no disk\nlog\nlog\n");
    assert_string_equal(heard, "event token.dead 1\nfailed 1 7 no disk\n");
    assert_int_equal(ask("GET", "/boot/job", NULL, next, NULL), 410);
}

static void test_restart(void **state)
{
    (void)state;
    char hash[DIGEST_HEX_SIZE], token[TOKEN_TEXT_SIZE];
    struct err err = {0};
    struct netboot_order o = {.node = 1,
                              .attempt = 7,
                              .purpose = TOKEN_INSTALL,
                              .expires_in_ms = 60000,
                              .image = "os.raw.zst",
                              .disk = "largest"};
    arm(TOKEN_INSTALL, hash);
    boot_token(token);
    (void)ask("GET", "/boot/job", NULL, token, NULL);
    netboot_free(nb);
    open_netboot(NETBOOT_DHCP_NONE);
    for (int i = 0, n = row_count; i < n; i++)
        if (rows[i].state < TOKEN_PROVEN)
            netboot_restore_token(nb, &rows[i]);
    start_netboot();
    /* it waits until the engine has said again what the order was */
    assert_int_equal(ask("GET", "/boot/job", NULL, token, NULL), 200);
    expect("JOB='wait'\n");
    assert_int_equal(netboot_resume(nb, hash, &o, &err), 0);
    assert_int_equal(ask("GET", "/boot/job", NULL, token, NULL), 200);
    expect("JOB='install'\n");
    expect(token);
    report(token, "/boot/installed", 204, INSTALLED, image_sha);
    report(token, "/boot/proof", 204, PROOF, image_sha);
    /* an armed one dies, for its text is gone */
    arm(TOKEN_INSTALL, hash);
    boot_token(token);
    netboot_free(nb);
    open_netboot(NETBOOT_DHCP_NONE);
    for (int i = 0, n = row_count; i < n; i++)
        if (rows[i].state < TOKEN_PROVEN)
            netboot_restore_token(nb, &rows[i]);
    start_netboot();
    assert_int_equal(ask("GET", "/boot/job", NULL, token, NULL), 410);
    (void)ask("GET", "/boot/script", "mac=" MAC "&platform=pcbios", NULL, NULL);
    expect_local();
}

static void test_image_changed(void **state)
{
    (void)state;
    char hash[DIGEST_HEX_SIZE], token[TOKEN_TEXT_SIZE], sha[DIGEST_HEX_SIZE];
    memcpy(sha, image_sha, sizeof sha);
    arm(TOKEN_INSTALL, hash);
    boot_token(token);
    write_artefact("os.raw.zst", "another image");
    netboot_rescan(nb);
    for (int i = 0; i < 100 && netboot_artefact(nb, "os.raw.zst", image_sha, NULL) < 0; i++)
        loop_run_for(loop, 20);
    assert_string_not_equal(sha, image_sha);
    assert_int_equal(ask("GET", "/boot/job", NULL, token, NULL), 410);
    assert_non_null(strstr(heard, "failed 1 7 image os.raw.zst changed"));
}

static void test_address(void **state)
{
    (void)state;
    char hash[DIGEST_HEX_SIZE], token[TOKEN_TEXT_SIZE];
    netboot_free(nb);
    open_netboot(NETBOOT_DHCP_AUTHORITATIVE);
    start_netboot();
    arm(TOKEN_INSTALL, hash);
    /* where we give the addresses, another address is another machine */
    peer = "10.77.0.66";
    (void)ask("GET", "/boot/script", "mac=" MAC "&platform=pcbios", NULL, NULL);
    expect_local();
    peer = "10.77.0.11";
    boot_token(token);
    peer = "10.77.0.66";
    assert_int_equal(ask("GET", "/boot/job", NULL, token, NULL), 409);
    peer = "10.77.0.11";
    assert_int_equal(ask("GET", "/boot/job", NULL, token, NULL), 200);
    /* a dnsmasq that does not start is told, not fatal */
    loop_run_for(loop, 700);
    struct netboot_status s;
    netboot_status(nb, &s);
    assert_string_equal(s.dhcp, "down");
    assert_int_equal(s.dhcp_restarts, 1);
    assert_non_null(strstr(heard, "event dhcp.down 0"));
}

static void test_files(void **state)
{
    (void)state;
    char *path cleanup_free = xasprintf("/artefact/%s/os.raw.zst", image_sha);
    char *wrong cleanup_free = xasprintf("/artefact/%s/vmlinuz", image_sha);
    assert_int_equal(ask("GET", path, NULL, NULL, NULL), 200);
    assert_string_equal(got.etag, image_sha);
    assert_int_equal(got.file_size, 5);
    assert_true(got.immutable);
    assert_int_equal(ask("HEAD", path, NULL, NULL, NULL), 200);
    assert_int_equal(ask("GET", wrong, NULL, NULL, NULL), 404);
    assert_int_equal(ask("GET", "/artefact/", NULL, NULL, NULL), 404);
    assert_int_equal(ask("GET", "/artefact/../../etc/passwd", NULL, NULL, NULL), 404);
    assert_int_equal(ask("GET", "/boot/loader/../../../etc/passwd", NULL, NULL, NULL), 404);
    assert_int_equal(ask("POST", path, NULL, NULL, "x"), 405);
    assert_string_equal(got.allow, "GET, HEAD");
    assert_int_equal(ask("GET", "/boot/facts", NULL, NULL, NULL), 405);
    assert_string_equal(got.allow, "POST");
    assert_int_equal(ask("GET", "/boot/nothing", NULL, NULL, NULL), 404);
    assert_int_equal(ask("GET", "/", NULL, NULL, NULL), 404);
    /* replaced in place: the old address no longer answers, before the next look */
    write_artefact("os.raw.zst", "changed");
    assert_int_equal(ask("GET", path, NULL, NULL, NULL), 404);
}

static void test_orders(void **state)
{
    (void)state;
    static const struct {
        struct netboot_order o;
        int rc;
    } table[] = {
        {{.node = 9, .expires_in_ms = 1}, -ERR_NOT_FOUND},
        {{.node = 1}, -ERR_INVALID},
        {{.node = 1, .expires_in_ms = 1, .kernel_args = "quiet"}, 0},
        {{.node = 1, .expires_in_ms = 1, .kernel_args = "a\nboot"}, -ERR_INVALID},
        {{.node = 1, .expires_in_ms = 1, .kernel_args = "a || shell"}, -ERR_INVALID},
        {{.node = 1, .expires_in_ms = 1, .kernel_args = "${net0/mac}"}, -ERR_INVALID},
        {{.node = 1, .expires_in_ms = 1, .purpose = TOKEN_INSTALL}, -ERR_INVALID},
        {{.node = 1, .expires_in_ms = 1, .purpose = TOKEN_INSTALL, .image = "os.raw.zst"},
         -ERR_INVALID},
        {{.node = 1,
          .expires_in_ms = 1,
          .purpose = TOKEN_INSTALL,
          .image = "no",
          .disk = "largest"},
         -ERR_NOT_FOUND},
        {{.node = 1,
          .expires_in_ms = 1,
          .purpose = TOKEN_INSTALL,
          .image = "os.raw.zst",
          .disk = "sda"},
         -ERR_INVALID},
        {{.node = 1,
          .expires_in_ms = 1,
          .purpose = TOKEN_INSTALL,
          .image = "os.raw.zst",
          .disk = "/dev/../mem"},
         -ERR_INVALID},
        {{.node = 1,
          .expires_in_ms = 1,
          .purpose = TOKEN_INSTALL,
          .image = "os.raw.zst",
          .disk = "serial=ABC-1",
          .format = "qcow2"},
         -ERR_INVALID},
        {{.node = 1,
          .expires_in_ms = 1,
          .purpose = TOKEN_INSTALL,
          .image = "os.raw.zst",
          .disk = "/dev/disk/by-id/x",
          .ssh_key = "a\nb"},
         -ERR_INVALID},
        {{.node = 1,
          .expires_in_ms = 1,
          .purpose = TOKEN_INSTALL,
          .image = "os.raw.zst",
          .disk = "serial=ABC-1"},
         0},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char hash[DIGEST_HEX_SIZE];
        struct err err = {0};
        int rc = netboot_arm(nb, &table[i].o, hash, &err);
        if (rc != table[i].rc)
            fail_msg("row %d: %d: %s", (int)i, rc, err.text);
    }
    netboot_host_remove(nb, 1);
    for (int i = 0; i < row_count; i++)
        assert_int_equal(rows[i].state, TOKEN_DEAD);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_scripts),
        T(test_local_efi),
        T(test_install),
        T(test_contradictions),
        T(test_discover_then_install),
        T(test_restart),
        T(test_image_changed),
        T(test_address),
        T(test_files),
        T(test_orders),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    boot_answer_done(&got);
    return rc;
}
