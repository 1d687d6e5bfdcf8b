/*
 * What the files of this room share: the hub, one login (session), one command on it (channel), and
 * the frame that every remote_op has in common (job). Nothing outside includes this.
 *
 *   job      owns the deadline, the target, a session and what its kind needs
 *   session  TCP connection, handshake, host key, login; then lends itself to one command at a time
 *   command  one channel: exec, stdin from a source, stdout and stderr to a sink, exit code
 *
 * Layers below report upward by callbacks, at most once for an ending, always from the loop.
 */
#pragma once

#include <libssh2.h>

#include "loop/limit.h"
#include "remote/key.h"
#include "remote/lookup.h"
#include "remote/remote.h"

enum {
    CONNECT_MS = 8000,       /* until TCP is connected */
    LOGIN_MS = 30000,        /* and from there until the login is done */
    KEEPALIVE_MS = 15000,    /* pause between messages that keep firewalls' state */
    DEAD_PEER_MS = 25000,    /* unanswered for so long: the connection is given up */
    MEMORY_MAX = 24 << 20,   /* of libssh2 for one session: its window is 2 MiB */
    COMMAND_TEXT_MAX = 30000 /* one SSH packet must hold the command */
};

/* ---- hub ---- */

struct session;

struct remote_hub {
    struct loop *loop;
    struct limit sessions;
    /* Sessions that have key exchange or signing to do, first come first served: that costs
     * milliseconds of CPU each, and a whole fleet may come back at once. */
    struct session *turn_head, *turn_tail;
    struct timer turn;
};

void hub_queue_turn(struct remote_hub *hub, struct session *s);
void hub_leave_turn(struct remote_hub *hub, struct session *s);

/* ---- memory of one libssh2 session: counted, capped, wiped (memory.c) ---- */

struct ssh_memory {
    struct ssh_block *blocks;
    size_t in_use;
};

LIBSSH2_SESSION *ssh_memory_session(struct ssh_memory *m);
/* Frees what libssh2 left behind when a handshake was cut. After libssh2_session_free(). */
void ssh_memory_done(struct ssh_memory *m);

/* ---- session ---- */

enum session_phase {
    SESSION_CLOSED,
    SESSION_WAITS,   /* for a place in the limit */
    SESSION_LOOKUP,  /* of the name, on a worker thread */
    SESSION_CONNECT, /* TCP */
    SESSION_HANDSHAKE,
    SESSION_LOGIN,
    SESSION_READY
};

struct session_target {
    char *address;
    int port;
    char *user;
    char *host_key;
    const struct remote_key *key;
    int lane;
};

struct session_owner {
    void (*ready)(void *user);                         /* logged in */
    void (*failed)(const struct err *err, void *user); /* closed already */
    void (*io)(void *user);                            /* while lent: try again */
    void *user;
};

struct session {
    struct remote_hub *hub;
    const struct session_target *target;
    struct session_owner owner;
    enum session_phase phase;
    struct limit_ticket ticket;
    struct watch watch;
    struct timer timer; /* the phase's deadline, then keepalive */
    struct lookup *lookup;
    struct lookup_address addresses[LOOKUP_MAX];
    int address_count, address_next;
    int connect_errno; /* of the address that was tried last */
    int fd;
    LIBSSH2_SESSION *ssh;
    struct ssh_memory memory;
    int64_t ready_since;
    bool busy; /* the socket was ready since the last keepalive */
    struct session *turn_next, *turn_prev;
    bool in_turn;
};

/* `s` zeroed or closed. Reports by owner->ready or owner->failed, never inside the call. */
void session_open(struct session *s, struct remote_hub *hub, const struct session_target *target,
                  const struct session_owner *owner);
/* From any phase; no callback follows. */
void session_close(struct session *s);
/* One attempt to go on with the handshake; called by the hub when it is this session's turn. */
void session_take_turn(struct session *s);
/* Waits for what libssh2 said it waits for; `always_read`: and for input. */
void session_watch(struct session *s, bool always_read);
/* Between two commands. */
void session_idle(struct session *s);
/* Turns libssh2's last error into ours; "ADDRESS: WHAT: text". */
int session_error(struct session *s, const char *what, struct err *err);
const char *session_phase_name(enum session_phase phase);

/* ---- command ---- */

struct command_io {
    /* Up to `max` bytes of stdin into buf; 0: none now (command_wake() when there are), -1: end.
     * NULL: stdin is closed at once. */
    ssize_t (*source)(char *buf, size_t max, void *user);
    void (*sink)(bool is_stderr, const char *data, size_t len, void *user);
    /* The command ended with `exit_code`, or by a signal (named; then the code is -1). */
    void (*ended)(int exit_code, const char *signal, void *user);
    /* The connection broke or the server refused; the session is closed already. */
    void (*failed)(const struct err *err, void *user);
    void *user;
};

enum command_phase {
    COMMAND_IDLE,
    COMMAND_OPEN,  /* the channel */
    COMMAND_EXEC,  /* the request */
    COMMAND_DATA,  /* flows both ways */
    COMMAND_CLOSE, /* the server's close and exit code, then ours */
    COMMAND_FREE
};

struct command {
    struct session *session;
    struct command_io io;
    enum command_phase phase;
    char *text;
    LIBSSH2_CHANNEL *channel;
    char *out; /* stdin that was taken from the source and not sent yet */
    size_t out_len, out_done;
    bool in_ended; /* stdin: the end was sent, or the command does not want more */
    /* A packet of ours is half sent: only the call that began it may go on (libssh2 calls anything
     * else bad use and the stream would be lost). */
    enum { COMMAND_FREE_TO_SEND, COMMAND_SENDS_DATA, COMMAND_SENDS_WINDOW } sending;
    bool closed; /* the server's close arrived, and before it the exit code */
    int exit_code;
    char signal[24];
    struct timer again;
    struct timer quiet;
    int64_t quiet_ms; /* > 0: so long without a sign and the connection counts as broken */
};

/* The session must be ready and unused. `text` is copied. */
void command_start(struct command *c, struct session *s, const char *text,
                   const struct command_io *io);
void command_wake(struct command *c);
/* The session reports readiness here (session_owner.io). */
void command_io_ready(struct command *c);
/* Forgets the channel; the session must be closed together with it when it was running. */
void command_done(struct command *c);

/* "exec /bin/sh -c 'program' name 'arg' ...": how this room's own programs are started. */
void command_format(struct strbuf *out, const char *program, const char *const *args, int count);
/* 'text' quoted for sh. */
void shell_quote(struct strbuf *out, const char *text);

/* ---- job: the frame of every remote_op ---- */

struct job;
typedef void (*job_fn)(struct job *job);

struct job {
    struct remote_op pub; /* first */
    struct remote_hub *hub;
    struct session_target target;
    struct session session;
    struct command command;
    struct timer deadline, retry;
    int64_t timeout_ms;
    struct err last; /* of the last try, for the text of the timeout */
    int tries;       /* that failed since the last success */
    job_fn ready, retry_fn;
    void (*failed)(struct job *job, const struct err *err);
    job_fn release; /* of the kind's own parts, before the job is freed; NULL: none */
};

#define job_of(p) ((struct job *)(void *)(p))

/* Allocates `size` bytes, of which the job is the first part. Never NULL: when the arguments are no
 * good the op has finished already (job_alive() is false) and reports that from the loop. */
void *job_new(size_t size, const char *name, struct remote_hub *hub,
              const struct remote_target *target, int64_t timeout_ms, op_done_fn done, void *user);
bool job_alive(const struct job *job);
void job_note(struct job *job, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Ends the job; err NULL: well. */
void job_end(struct job *job, const struct err *err);
/* Logs in. `failed` also gets what breaks the connection later, when a command does not. */
void job_connect(struct job *job, job_fn ready,
                 void (*failed)(struct job *job, const struct err *err));
/* A command on the job's session; `user` of the callbacks is the job. */
void job_command(struct job *job, const char *text, struct command_io io);
/* Closes the session and calls fn after delay_ms. Keeps `why` for the text of a timeout. */
void job_retry(struct job *job, const struct err *why, int64_t delay_ms, job_fn fn);
/* Whether another try can help: everything but another host key, a refused key, bad input. */
bool job_can_retry(const struct err *err);
/* 0.5, 1, 2, 4, then 8 s, by the count of tries. */
int64_t job_backoff(const struct job *job);
/* The last line of some output, in one printable piece: it says best what went wrong. */
void last_line(const struct strbuf *text, char *buf, size_t size);
