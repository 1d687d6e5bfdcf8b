/*
 * SSH of the installed systems: one listening socket for all machines, which are told apart by the
 * address that was called. Host keys follow from seed and name.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "sim/ssh_int.h"

enum {
    ACCEPTS_MAX = 16, /* in one turn of the loop */
    FULL_PAUSE_MS = 100,
    KEY_MAX = 384 /* bytes of a private key: it has 290 */
};

struct sim_ssh {
    struct sim *sim;
    int fd;
    struct watch watch;
    struct timer pause;
    ssh_bind bind;
    bool told_full;
};

/* ---- shells ---- */

static void free_file(const char *path, void *value, void *user)
{
    (void)path;
    (void)user;
    free(value);
}

static void files_free(struct sim_shell *sh)
{
    map_each(sh->files, free_file, NULL);
    map_free(sh->files);
}

struct sim_shell *sim_shell_of(struct sim_node *n)
{
    struct sim_shell *sh = n->ssh;
    if (sh == NULL) {
        sh = n->ssh = xcalloc(1, sizeof *sh);
        sh->node = n;
        sh->installs = n->installs;
        sh->files = map_new();
        strbuf_init(&sh->log, 1 << 20);
    }
    if (sh->installs != n->installs) {
        sh->installs = n->installs; /* which hides the runs of the disk as it was */
        files_free(sh);
        sh->files = map_new();
    }
    return sh;
}

static void shell_free(struct sim_node *n)
{
    struct sim_shell *sh = n->ssh;
    if (sh == NULL)
        return;
    while (sh->logins != NULL)
        sim_login_close(sh->logins, true);
    sim_runs_free(sh);
    files_free(sh);
    ssh_key_free(sh->key);
    free(sh->dropped);
    strbuf_done(&sh->log);
    free(sh);
    n->ssh = NULL;
}

/* ---- host keys ---- */

/* RFC 4251 section 5: a string is its length, then its bytes. */
static unsigned char *put_string(unsigned char *p, const void *data, size_t len)
{
    *p++ = 0;
    *p++ = 0;
    *p++ = (unsigned char)(len >> 8);
    *p++ = (unsigned char)len;
    memcpy(p, data, len);
    return p + len;
}

static unsigned char *put_public(unsigned char *p, const unsigned char public[32])
{
    return put_string(put_string(p, "ssh-ed25519", 11), public, 32);
}

/*
 * OpenSSH's private key (its PROTOCOL.key): magic, cipher, kdf, kdf options, count, public key, and
 * the private part: a number twice, the key, a comment, and padding 1, 2, 3 ... to a block of 8.
 */
static size_t put_private(unsigned char *p, const unsigned char seed[32],
                          const unsigned char public[32])
{
    static const char magic[] = "openssh-key-v1"; /* with its NUL */
    unsigned char blob[64] = {0}, body[192] = {0}, both[64], *end = body + 8;
    const unsigned char *start = p;
    memcpy(both, seed, 32);
    memcpy(both + 32, public, 32);
    end = put_public(end, public);
    end = put_string(put_string(end, both, sizeof both), "", 0);
    for (unsigned char pad = 1; (end - body) % 8 != 0; pad++)
        *end++ = pad;
    memcpy(p, magic, sizeof magic);
    p = put_string(put_string(put_string(p + sizeof magic, "none", 4), "none", 4), "", 0);
    memcpy(p, "\0\0\0\1", 4);
    size_t blob_len = (size_t)(put_public(blob, public) - blob);
    p = put_string(p + 4, blob, blob_len);
    p = put_string(p, body, (size_t)(end - body));
    return (size_t)(p - start);
}

/* ed25519 (RFC 8032 section 5.1.5) from 32 bytes that only seed and name decide. */
static ssh_key make_key(const struct sim_node *n)
{
    unsigned char seed[SHA256_DIGEST_LENGTH], public[32], raw[KEY_MAX];
    unsigned char base64[KEY_MAX / 3 * 4 + 5];
    ssh_key key = NULL;
    char *text = xasprintf("clusterd-sim host key %u %s", n->sim->seed, n->name);
    (void)SHA256((const unsigned char *)text, strlen(text), seed);
    free(text);
    ed25519_public(seed, public);
    (void)EVP_EncodeBlock(base64, raw, (int)put_private(raw, seed, public));
    text = xasprintf("-----BEGIN OPENSSH PRIVATE KEY-----\n%s\n-----END OPENSSH PRIVATE KEY-----\n",
                     (const char *)base64);
    if (ssh_pki_import_privkey_base64(text, NULL, NULL, NULL, &key) != SSH_OK)
        key = NULL;
    free(text);
    return key;
}

static struct sim_shell *shell_with_key(struct sim_node *n)
{
    struct sim_shell *sh = sim_shell_of(n);
    if (sh->key == NULL)
        sh->key = make_key(n);
    return sh;
}

void ssh_host_key(struct sim_node *n, char *ret, size_t size)
{
    char *text = NULL;
    const struct sim_shell *sh = shell_with_key(n);
    ret[0] = '\0';
    if (sh->key == NULL || ssh_pki_export_pubkey_base64(sh->key, &text) != SSH_OK)
        return;
    (void)snprintf(ret, size, "ssh-ed25519 %s", text);
    ssh_string_free_char(text);
}

/* ---- listening ---- */

static void on_incoming(int fd, int events, void *user);

static void listen_again(void *user)
{
    struct sim_ssh *h = user;
    struct err err = {0};
    if (watch_set(h->sim->loop, &h->watch, h->fd, WATCH_READ, on_incoming, h, &err) < 0)
        log_error("sim.ssh", "%s", err.text);
}

/* As many connections as the process may have: the others wait in the kernel. */
static void pause_listening(struct sim_ssh *h, int sys)
{
    if (!h->told_full)
        log_warn("sim.ssh", "no more connections can be taken (%s): raise ulimit -n",
                 strerror(sys));
    h->told_full = true;
    watch_stop(&h->watch);
    timer_set(h->sim->loop, &h->pause, FULL_PAUSE_MS, listen_again, h);
}

/* Whose address was called. */
static struct sim_node *called(const struct sim_ssh *h, int fd)
{
    struct sockaddr_in addr;
    socklen_t len = sizeof addr;
    if (getsockname(fd, (struct sockaddr *)&addr, &len) < 0 || addr.sin_family != AF_INET)
        return NULL;
    return sim_by_address(h->sim, ntohl(addr.sin_addr.s_addr));
}

static void refuse(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    (void)close(fd);
}

static void on_incoming(int fd, int events, void *user)
{
    struct sim_ssh *h = user;
    int on = 1;
    (void)events;
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        int c = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (c < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                pause_listening(h, errno);
            return;
        }
        struct sim_node *n = called(h, c);
        if (n == NULL || !machine_is_running(n)) {
            refuse(c);
            continue;
        }
        (void)setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        sim_login_open(h->bind, shell_with_key(n), c);
    }
}

static int open_socket(const struct sim *s, struct err *err)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->ssh_port)};
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        sim_loopback_only(fd);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(fd, (const struct sockaddr *)&addr, sizeof addr) < 0 || listen(fd, SOMAXCONN) < 0) {
        int sys = errno;
        if (fd >= 0)
            (void)close(fd);
        return err_sys(err, sys, "SSH of the machines, port %d", s->ssh_port);
    }
    return fd;
}

int ssh_start(struct sim *s, struct err *err)
{
    bool no = false;
    int fd = open_socket(s, err);
    if (fd < 0)
        return fd;
    struct sim_ssh *h = s->ssh = xcalloc(1, sizeof *h);
    h->sim = s;
    h->fd = fd;
    h->bind = ssh_bind_new();
    /* nothing of this host's own configuration */
    if (h->bind == NULL ||
        ssh_bind_options_set(h->bind, SSH_BIND_OPTIONS_PROCESS_CONFIG, &no) < 0) {
        ssh_stop(s);
        return err_set(err, ERR_INTERNAL, "libssh cannot make a server");
    }
    if (watch_set(s->loop, &h->watch, fd, WATCH_READ, on_incoming, h, err) < 0) {
        ssh_stop(s);
        return -(int)err->code;
    }
    return 0;
}

void ssh_stop(struct sim *s)
{
    struct sim_ssh *h = s->ssh;
    for (int i = 0; i < s->node_count; i++)
        shell_free(&s->nodes[i]);
    if (h == NULL)
        return;
    timer_cancel(&h->pause);
    watch_stop(&h->watch);
    (void)close(h->fd);
    if (h->bind != NULL)
        ssh_bind_free(h->bind);
    free(h);
    s->ssh = NULL;
}

void ssh_machine_down(struct sim_node *n)
{
    n->workload_at = 0; /* /run is gone with it */
    struct sim_shell *sh = n->ssh;
    if (sh == NULL)
        return;
    while (sh->logins != NULL)
        sim_login_close(sh->logins, true);
    sim_runs_machine_down(sh);
}
