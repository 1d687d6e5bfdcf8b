/*
 * One connection to a simulated machine: libssh's server side without blocking, without threads.
 *
 * libssh never waits here: the session is non-blocking, and it is only called when our loop says
 * that its socket is ready, with a poll of no duration (its own ssh_event, one a session, for a
 * shared one would ask every socket each time). Its callbacks only take down what was said; what we
 * write, close and free happens afterwards in step(), because libssh handles incoming packets, and
 * so calls us, from within its writing functions too.
 */
#include <libssh/callbacks.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "sim/ssh_int.h"

enum {
    GRACE_MS = 120000, /* for the login, as LoginGraceTime of sshd */
    REFUSALS_MAX = 6,  /* MaxAuthTries of sshd */
    CHANNELS_MAX = 10, /* MaxSessions of sshd */
    ROUNDS_MAX = 8     /* of reading and writing before the rest of the loop has its turn */
};

struct sim_channel {
    struct sim_channel *next;
    struct sim_login *login;
    ssh_channel channel;
    struct ssh_channel_callbacks_struct callbacks;
    struct sim_command command;
    bool started; /* a command came: one a channel (RFC 4254 section 6.5) */
    bool gone;    /* the client closed it */
    size_t out_done, err_done;
};

struct sim_login {
    struct sim_login *next;
    struct sim_shell *shell;
    struct loop *loop;
    ssh_session session;
    ssh_event event;
    int fd, events;
    struct watch watch;
    struct timer grace; /* until the login */
    struct ssh_server_callbacks_struct callbacks;
    struct sim_channel *channels;
    bool taken; /* libssh has the descriptor and closes it */
    bool exchanged, logged_in;
    bool cut; /* close when all is sent */
    int refused;
};

static void step(struct sim_login *l);

/* ---- channels ---- */

static void forget(struct sim_channel *ch)
{
    ssh_remove_channel_callbacks(ch->channel, &ch->callbacks);
    sim_command_done(&ch->command);
    free(ch);
}

static int on_data(ssh_session session, ssh_channel channel, void *data, uint32_t len,
                   int is_stderr, void *user)
{
    struct sim_channel *ch = user;
    (void)session;
    (void)channel;
    if (ch->started && !is_stderr)
        sim_command_input(&ch->command, data, len);
    return (int)len;
}

static void on_eof(ssh_session session, ssh_channel channel, void *user)
{
    struct sim_channel *ch = user;
    (void)session;
    (void)channel;
    if (ch->started)
        sim_command_input_end(&ch->command);
}

static void on_close(ssh_session session, ssh_channel channel, void *user)
{
    struct sim_channel *ch = user;
    (void)session;
    (void)channel;
    ch->gone = true;
}

static int on_exec(ssh_session session, ssh_channel channel, const char *command, void *user)
{
    struct sim_channel *ch = user;
    (void)session;
    (void)channel;
    if (ch->started)
        return -1;
    ch->started = true;
    sim_command_begin(&ch->command, ch->login->shell, command);
    return 0;
}

static int on_shell(ssh_session session, ssh_channel channel, void *user)
{
    return on_exec(session, channel, "", user);
}

/* Nothing looks at them: accepted, so that ssh does not complain of SendEnv. */
static int on_env(ssh_session session, ssh_channel channel, const char *name, const char *value,
                  void *user)
{
    (void)session;
    (void)channel;
    (void)name;
    (void)value;
    (void)user;
    return 0;
}

static ssh_channel on_channel(ssh_session session, void *user)
{
    struct sim_login *l = user;
    int count = 0;
    for (const struct sim_channel *ch = l->channels; ch != NULL; ch = ch->next)
        count++;
    ssh_channel channel = l->logged_in && count < CHANNELS_MAX ? ssh_channel_new(session) : NULL;
    if (channel == NULL)
        return NULL;
    struct sim_channel *ch = xcalloc(1, sizeof *ch);
    ch->login = l;
    ch->channel = channel;
    ch->command.exit_code = -1;
    ch->callbacks =
        (struct ssh_channel_callbacks_struct){.userdata = ch,
                                              .channel_data_function = on_data,
                                              .channel_eof_function = on_eof,
                                              .channel_close_function = on_close,
                                              .channel_exec_request_function = on_exec,
                                              .channel_shell_request_function = on_shell,
                                              .channel_env_request_function = on_env};
    ssh_callbacks_init(&ch->callbacks);
    (void)ssh_set_channel_callbacks(channel, &ch->callbacks);
    ch->next = l->channels;
    l->channels = ch;
    return channel;
}

/* ---- login ---- */

/* The install brought one line of authorized_keys: "ssh-ed25519 AAAA... comment". */
static bool is_the_key(const struct sim_node *n, ssh_key offered)
{
    char line[sizeof n->ssh_key], *save = NULL;
    ssh_key key = NULL;
    memcpy(line, n->ssh_key, sizeof line);
    const char *type = strtok_r(line, " ", &save), *data = strtok_r(NULL, " \r\n", &save);
    if (type == NULL || data == NULL ||
        ssh_pki_import_pubkey_base64(data, ssh_key_type_from_name(type), &key) != SSH_OK)
        return false;
    bool same = ssh_key_cmp(key, offered, SSH_KEY_CMP_PUBLIC) == 0;
    ssh_key_free(key);
    return same;
}

static int on_pubkey(ssh_session session, const char *name, struct ssh_key_struct *key, char state,
                     void *user)
{
    struct sim_login *l = user;
    (void)session;
    if ((state == SSH_PUBLICKEY_STATE_NONE || state == SSH_PUBLICKEY_STATE_VALID) &&
        strcmp(name, "root") == 0 && is_the_key(l->shell->node, key)) {
        if (state == SSH_PUBLICKEY_STATE_VALID && !l->logged_in) {
            l->logged_in = true;
            l->shell->node->count.ssh_logins++;
            timer_cancel(&l->grace);
        }
        return SSH_AUTH_SUCCESS;
    }
    l->refused++;
    return SSH_AUTH_DENIED;
}

/* How a client asks which methods there are (RFC 4252 section 5.2); sshd does not count it. */
static int on_none(ssh_session session, const char *name, void *user)
{
    (void)session;
    (void)name;
    (void)user;
    return SSH_AUTH_DENIED;
}

/* ---- driving it ---- */

static void on_grace(void *user)
{
    sim_login_close(user, false);
}

static void on_io(int fd, int events, void *user)
{
    (void)fd;
    (void)events;
    step(user);
}

/* As much as the client's window takes; -1: the channel is no good any more. */
static int write_some(const struct sim_channel *ch, bool is_stderr)
{
    const struct strbuf *sb = is_stderr ? &ch->command.err_out : &ch->command.out;
    size_t at = is_stderr ? ch->err_done : ch->out_done;
    size_t len = sb->len - at;
    if (len == 0)
        return 0;
    return is_stderr ? ssh_channel_write_stderr(ch->channel, sb->data + at, (uint32_t)len)
                     : ssh_channel_write(ch->channel, sb->data + at, (uint32_t)len);
}

/* Sends what there is of a command. Returns whether the channel has ended. */
static bool serve(struct sim_login *l, struct sim_channel *ch)
{
    if (ch->gone) {
        sim_command_input_end(&ch->command);
        return true;
    }
    if (!ch->started)
        return false;
    for (int i = 0; i < 2; i++) {
        int n = write_some(ch, i == 1);
        if (n < 0)
            return true;
        *(i == 1 ? &ch->err_done : &ch->out_done) += (size_t)n;
    }
    if (ch->command.exit_code < 0 || ch->out_done < ch->command.out.len ||
        ch->err_done < ch->command.err_out.len)
        return false;
    if (ch->command.cut) {
        l->cut = true;
        return false;
    }
    (void)ssh_channel_request_send_exit_status(ch->channel, ch->command.exit_code);
    (void)ssh_channel_send_eof(ch->channel);
    (void)ssh_channel_close(ch->channel);
    return true;
}

static void serve_all(struct sim_login *l)
{
    for (struct sim_channel **at = &l->channels; *at != NULL;) {
        struct sim_channel *ch = *at;
        if (!serve(l, ch)) {
            at = &ch->next;
            continue;
        }
        /* while it was served, libssh may have put new ones in front */
        for (at = &l->channels; *at != ch; at = &(*at)->next)
            ;
        *at = ch->next;
        ssh_channel channel = ch->channel;
        forget(ch);
        ssh_channel_free(channel);
    }
}

static bool broken(const struct sim_login *l)
{
    return (ssh_get_status(l->session) & (SSH_CLOSED | SSH_CLOSED_ERROR)) != 0 ||
           ssh_get_fd(l->session) < 0 || l->refused >= REFUSALS_MAX;
}

static bool wants_to_write(const struct sim_login *l)
{
    return (ssh_get_poll_flags(l->session) & SSH_WRITE_PENDING) != 0;
}

/* Returns false when the connection is over. */
static bool advance(struct sim_login *l)
{
    if (!l->exchanged) {
        int rc = ssh_handle_key_exchange(l->session);
        if (rc == SSH_ERROR)
            return false;
        if (rc == SSH_AGAIN)
            return !broken(l);
        l->exchanged = true;
        ssh_set_auth_methods(l->session, SSH_AUTH_METHOD_PUBLICKEY);
        if (ssh_event_add_session(l->event, l->session) != SSH_OK)
            return false;
    }
    if (ssh_event_dopoll(l->event, 0) == SSH_ERROR || broken(l))
        return false;
    serve_all(l);
    return !broken(l);
}

static void step(struct sim_login *l)
{
    struct err err = {0};
    int rounds = 0;
    do {
        if (!advance(l)) {
            sim_login_close(l, false);
            return;
        }
    } while (++rounds < ROUNDS_MAX && wants_to_write(l));
    if (l->cut && !wants_to_write(l)) {
        sim_login_close(l, false);
        return;
    }
    int events = WATCH_READ | (wants_to_write(l) ? WATCH_WRITE : 0);
    if (events == l->events)
        return;
    l->events = events;
    if (watch_set(l->loop, &l->watch, l->fd, events, on_io, l, &err) < 0)
        sim_login_close(l, false);
}

/* ---- begin and end ---- */

void sim_login_open(ssh_bind bind, struct sim_shell *sh, int fd)
{
    struct sim_login *l = xcalloc(1, sizeof *l);
    ssh_key key = ssh_key_dup(sh->key);
    l->shell = sh;
    l->loop = sh->node->sim->loop;
    l->fd = fd;
    l->session = ssh_new();
    l->event = ssh_event_new();
    sim_count_open(&sh->node->sim->load.ssh, 1);
    l->next = sh->logins;
    sh->logins = l;
    l->callbacks =
        (struct ssh_server_callbacks_struct){.userdata = l,
                                             .auth_none_function = on_none,
                                             .auth_pubkey_function = on_pubkey,
                                             .channel_open_request_session_function = on_channel};
    ssh_callbacks_init(&l->callbacks);
    /* the key is the bind's from here on, which frees the one it had before */
    if (l->session == NULL || l->event == NULL || key == NULL ||
        ssh_bind_options_set(bind, SSH_BIND_OPTIONS_IMPORT_KEY, key) < 0 ||
        ssh_bind_accept_fd(bind, l->session, fd) != SSH_OK) {
        sim_login_close(l, true);
        return;
    }
    l->taken = true;
    ssh_set_blocking(l->session, 0);
    (void)ssh_set_server_callbacks(l->session, &l->callbacks);
    timer_set(l->loop, &l->grace, GRACE_MS, on_grace, l);
    step(l);
}

void sim_login_close(struct sim_login *l, bool reset)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    struct sim_login **at = &l->shell->logins;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    sim_count_open(&l->shell->node->sim->load.ssh, -1);
    timer_cancel(&l->grace);
    watch_stop(&l->watch);
    while (l->channels != NULL) {
        struct sim_channel *ch = l->channels;
        l->channels = ch->next;
        /* a program on a node sees the end of its input and goes on; a machine that is down has
         * nobody to see it */
        if (ch->started && !reset)
            sim_command_input_end(&ch->command);
        forget(ch);
    }
    bool open = l->session != NULL && ssh_get_fd(l->session) == l->fd;
    if (reset && (open || !l->taken))
        (void)setsockopt(l->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    if (l->event != NULL && l->exchanged)
        (void)ssh_event_remove_session(l->event, l->session);
    if (l->event != NULL)
        ssh_event_free(l->event);
    ssh_free(l->session); /* closes the socket that it has */
    if (!open && !l->taken)
        (void)close(l->fd);
    free(l);
}
