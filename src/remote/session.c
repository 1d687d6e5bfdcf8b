/*
 * One login, from a name to an authenticated connection, step by step on the loop:
 *
 *   waits -> lookup -> connect -> handshake (then the host key) -> login -> ready
 *
 * Key exchange and signing cost CPU: these two phases only run when the hub gives the turn. The
 * host key is compared before anything is sent that could be of use to a stranger.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/names.h"
#include "remote/internal.h"
#include "remote/lookup.h"

static const struct name phase_names[] = {{SESSION_CLOSED, "closed"},
                                          {SESSION_WAITS, "waiting for a free place"},
                                          {SESSION_LOOKUP, "looking up the name"},
                                          {SESSION_CONNECT, "connecting"},
                                          {SESSION_HANDSHAKE, "exchanging keys"},
                                          {SESSION_LOGIN, "logging in"},
                                          {SESSION_READY, "connected"},
                                          {0, NULL}};

const char *session_phase_name(enum session_phase phase)
{
    return name_of(phase_names, (int)phase, "?");
}

/* ---- ending ---- */

/*
 * libssh2_session_free() would say good-bye to the server, channel by channel, and report EAGAIN:
 * nothing here may wait for that. With the socket shut down it cannot wait, and sshd ends what it
 * started as it does for any lost client. The rare block that stays behind goes with the memory.
 */
static void drop_ssh(struct session *s)
{
    if (s->ssh == NULL)
        return;
    for (int i = 0; i < 50; i++)
        if (libssh2_session_free(s->ssh) != LIBSSH2_ERROR_EAGAIN)
            break;
    s->ssh = NULL;
    ssh_memory_done(&s->memory);
}

static void drop_socket(struct session *s)
{
    watch_stop(&s->watch);
    if (s->fd >= 0)
        (void)shutdown(s->fd, SHUT_RDWR);
    drop_ssh(s);
    if (s->fd >= 0)
        (void)close(s->fd);
    s->fd = -1;
}

void session_close(struct session *s)
{
    if (s->phase == SESSION_CLOSED)
        return;
    timer_cancel(&s->timer);
    hub_leave_turn(s->hub, s);
    lookup_forget(s->lookup);
    s->lookup = NULL;
    drop_socket(s);
    limit_release(&s->ticket);
    s->phase = SESSION_CLOSED;
}

static void fail(struct session *s, const struct err *err)
{
    struct session_owner owner = s->owner;
    struct err copy = *err;
    session_close(s);
    owner.failed(&copy, owner.user);
}

int session_error(struct session *s, const char *what, struct err *err)
{
    char *text = NULL;
    int code = libssh2_session_last_error(s->ssh, &text, NULL, 0);
    enum err_code kind = ERR_PROTOCOL;
    switch (code) {
    case LIBSSH2_ERROR_AUTHENTICATION_FAILED:
    case LIBSSH2_ERROR_PUBLICKEY_UNVERIFIED:
        kind = ERR_AUTH;
        break;
    case LIBSSH2_ERROR_SOCKET_NONE:
    case LIBSSH2_ERROR_BANNER_RECV:
    case LIBSSH2_ERROR_BANNER_SEND:
    case LIBSSH2_ERROR_SOCKET_SEND:
    case LIBSSH2_ERROR_SOCKET_RECV:
    case LIBSSH2_ERROR_SOCKET_DISCONNECT:
    case LIBSSH2_ERROR_SOCKET_TIMEOUT:
    case LIBSSH2_ERROR_TIMEOUT:
        kind = ERR_UNREACHABLE;
        break;
    case LIBSSH2_ERROR_ALLOC:
        kind = ERR_LIMIT;
        break;
    case LIBSSH2_ERROR_CHANNEL_FAILURE:
    case LIBSSH2_ERROR_CHANNEL_REQUEST_DENIED:
    case LIBSSH2_ERROR_REQUEST_DENIED:
    case LIBSSH2_ERROR_METHOD_NONE:
        kind = ERR_UNSUPPORTED;
        break;
    default:
        break;
    }
    return err_set(err, kind, "ssh to %s, %s: %s (%d)", s->target->address, what,
                   text != NULL && *text != '\0' ? text : "no reason given", code);
}

static void fail_ssh(struct session *s, const char *what)
{
    struct err err = {0};
    (void)session_error(s, what, &err);
    fail(s, &err);
}

static void on_deadline(void *user)
{
    struct session *s = user;
    struct err err = {0};
    (void)err_set(&err, ERR_TIMEOUT, "ssh to %s: no answer while %s", s->target->address,
                  session_phase_name(s->phase));
    fail(s, &err);
}

/* ---- ready ---- */

static void on_socket(int fd, int events, void *user);

/* Nobody would read what makes the socket ready, so it must not be watched. A connection that
 * breaks meanwhile shows at the next use. */
void session_idle(struct session *s)
{
    (void)watch_set(s->hub->loop, &s->watch, s->fd, 0, on_socket, s, NULL);
}

static void on_keepalive(void *user)
{
    struct session *s = user;
    int next = 0;
    /* A message in the middle of another one that could not be sent whole would break the stream:
     * only where nothing is under way, which is also the only time when it is of use. */
    if (!s->busy &&
        (libssh2_session_block_directions(s->ssh) & LIBSSH2_SESSION_BLOCK_OUTBOUND) == 0)
        (void)libssh2_keepalive_send(s->ssh, &next);
    s->busy = false;
    timer_set(s->hub->loop, &s->timer, KEEPALIVE_MS, on_keepalive, s);
}

static void on_ready(struct session *s)
{
    s->phase = SESSION_READY;
    s->ready_since = loop_now(s->hub->loop);
    /* libssh2 itself compares with whole seconds since its last message: 1 lets ours through */
    libssh2_keepalive_config(s->ssh, 0, 2);
    timer_set(s->hub->loop, &s->timer, KEEPALIVE_MS, on_keepalive, s);
    session_idle(s);
    s->owner.ready(s->owner.user);
}

static void on_socket(int fd, int events, void *user)
{
    struct session *s = user;
    (void)fd;
    (void)events;
    if (s->phase == SESSION_READY) {
        s->busy = true;
        s->owner.io(s->owner.user);
        return;
    }
    /* until its turn comes it must not be told again */
    session_idle(s);
    hub_queue_turn(s->hub, s);
}

void session_watch(struct session *s, bool always_read)
{
    struct err err = {0};
    int dir = libssh2_session_block_directions(s->ssh);
    int events = always_read ? WATCH_READ : 0;
    if (dir & LIBSSH2_SESSION_BLOCK_INBOUND)
        events |= WATCH_READ;
    if (dir & LIBSSH2_SESSION_BLOCK_OUTBOUND)
        events |= WATCH_WRITE;
    if (events == 0)
        events = WATCH_READ;
    if (watch_set(s->hub->loop, &s->watch, s->fd, events, on_socket, s, &err) < 0)
        fail(s, &err);
}

/* ---- handshake and login ---- */

static int compare_host_key(struct session *s, struct err *err)
{
    unsigned char pinned[KEY_PUBLIC_BLOB];
    char shown_text[KEY_FINGERPRINT_SIZE], pinned_text[KEY_FINGERPRINT_SIZE];
    size_t len = 0;
    int type = 0;
    int rc = host_key_parse(s->target->host_key, pinned, err);
    if (rc < 0)
        return rc;
    const char *shown = libssh2_session_hostkey(s->ssh, &len, &type);
    if (shown != NULL && len == sizeof pinned && memcmp(shown, pinned, len) == 0)
        return 0;
    return err_set(err, ERR_DENIED,
                   "%s showed another host key (%s) than the one recorded for it (%s): this is "
                   "another machine, another installation, or somebody in between",
                   s->target->address,
                   shown != NULL ? key_fingerprint((const unsigned char *)shown, len, shown_text)
                                 : "none",
                   key_fingerprint(pinned, sizeof pinned, pinned_text));
}

static void step_login(struct session *s)
{
    size_t private_len = 0;
    const char *public = remote_key_public(s->target->key);
    const char *private = remote_key_private(s->target->key, &private_len);
    int rc =
        libssh2_userauth_publickey_frommemory(s->ssh, s->target->user, strlen(s->target->user),
                                              public, strlen(public), private, private_len, "");
    if (rc == LIBSSH2_ERROR_EAGAIN)
        session_watch(s, false);
    else if (rc != 0)
        fail_ssh(s, "logging in");
    else
        on_ready(s);
}

static void step_handshake(struct session *s)
{
    int rc = libssh2_session_handshake(s->ssh, s->fd);
    if (rc == LIBSSH2_ERROR_EAGAIN) {
        session_watch(s, false);
        return;
    }
    if (rc == LIBSSH2_ERROR_KEX_FAILURE) {
        struct err err = {0};
        (void)err_set(&err, ERR_UNSUPPORTED,
                      "ssh to %s: no common algorithms; the node needs an ssh-ed25519 host key and "
                      "one of curve25519 or ecdh key exchange, aes-ctr and hmac-sha2",
                      s->target->address);
        fail(s, &err);
        return;
    }
    if (rc != 0) {
        fail_ssh(s, "exchanging keys");
        return;
    }
    struct err err = {0};
    if (compare_host_key(s, &err) < 0) {
        fail(s, &err);
        return;
    }
    s->phase = SESSION_LOGIN;
    hub_queue_turn(s->hub, s);
}

void session_take_turn(struct session *s)
{
    if (s->phase == SESSION_HANDSHAKE)
        step_handshake(s);
    else if (s->phase == SESSION_LOGIN)
        step_login(s);
}

static void start_handshake(struct session *s)
{
    s->ssh = ssh_memory_session(&s->memory);
    if (s->ssh == NULL)
        abort();
    libssh2_session_set_blocking(s->ssh, 0);
    (void)libssh2_session_method_pref(s->ssh, LIBSSH2_METHOD_HOSTKEY, "ssh-ed25519");
    s->phase = SESSION_HANDSHAKE;
    timer_set_least(s->hub->loop, &s->timer, LOGIN_MS, LOGIN_MS, on_deadline, s);
    hub_queue_turn(s->hub, s);
}

/* ---- TCP ---- */

static void connect_next(struct session *s);

static void set_socket_options(int fd)
{
    int on = 1, idle = KEEPALIVE_MS / 1000, interval = 5, count = 3;
    unsigned int dead_ms = DEAD_PEER_MS;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof dead_ms);
}

static void on_connected(int fd, int events, void *user)
{
    struct session *s = user;
    int sys = 0;
    socklen_t len = sizeof sys;
    (void)events;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &len) < 0)
        sys = errno;
    if (sys == EINPROGRESS)
        return;
    if (sys != 0) {
        s->connect_errno = sys;
        connect_next(s);
        return;
    }
    watch_stop(&s->watch);
    start_handshake(s);
}

static int connect_one(struct session *s, const struct lookup_address *a, struct err *err)
{
    s->fd = socket(a->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0)
        return err_sys(err, errno, "socket");
    set_socket_options(s->fd);
    if (connect(s->fd, (const struct sockaddr *)&a->addr, a->len) < 0 && errno != EINPROGRESS)
        return err_sys(err, errno, "connect");
    return watch_set(s->hub->loop, &s->watch, s->fd, WATCH_WRITE, on_connected, s, err);
}

static void connect_next(struct session *s)
{
    struct err err = {0};
    while (s->address_next < s->address_count) {
        const struct lookup_address *a = &s->addresses[s->address_next++];
        drop_socket(s);
        if (connect_one(s, a, &err) == 0)
            return;
        s->connect_errno = err.sys;
    }
    (void)err_set(&err, ERR_UNREACHABLE, "ssh to %s port %d: %s", s->target->address,
                  s->target->port, strerror(s->connect_errno));
    err.sys = s->connect_errno;
    fail(s, &err);
}

static void on_lookup(const struct lookup_address *addresses, int count, const struct err *err,
                      void *user)
{
    struct session *s = user;
    s->lookup = NULL;
    if (count == 0) {
        fail(s, err);
        return;
    }
    memcpy(s->addresses, addresses, (size_t)count * sizeof *addresses);
    s->address_count = count;
    s->address_next = 0;
    s->phase = SESSION_CONNECT;
    timer_set_least(s->hub->loop, &s->timer, CONNECT_MS, CONNECT_MS, on_deadline, s);
    connect_next(s);
}

static void on_granted(void *user)
{
    struct session *s = user;
    struct err err = {0};
    s->phase = SESSION_LOOKUP;
    timer_set_least(s->hub->loop, &s->timer, CONNECT_MS, CONNECT_MS, on_deadline, s);
    struct lookup_address numeric;
    if (lookup_numeric(s->target->address, s->target->port, &numeric)) {
        on_lookup(&numeric, 1, &err, s);
        return;
    }
    s->lookup = lookup_start(s->hub->loop, s->target->address, s->target->port, on_lookup, s, &err);
    if (s->lookup == NULL)
        fail(s, &err);
}

void session_open(struct session *s, struct remote_hub *hub, const struct session_target *target,
                  const struct session_owner *owner)
{
    *s = (struct session){.hub = hub, .target = target, .owner = *owner, .fd = -1};
    s->phase = SESSION_WAITS;
    limit_take_lane(&hub->sessions, target->lane, &s->ticket, on_granted, s);
}
