/*
 * Errors: one closed list of codes by what a caller can do about them, and a text for people.
 *
 * Every fallible function takes a `struct err *` last (NULL allowed) and returns 0 or a negative
 * code. Rooms below the engine never log an error, they return it; the edge (engine, api, daemon,
 * ctl) shows it.
 */
#pragma once

#include <stdbool.h>

enum err_code {
    ERR_OK = 0,
    ERR_INVALID,     /* the input is wrong; the same input will fail again */
    ERR_NOT_FOUND,   /* the thing named does not exist */
    ERR_EXISTS,      /* the thing to be made exists already */
    ERR_CONFLICT,    /* the state does not allow it now, or somebody else changed it */
    ERR_DENIED,      /* known, but without the right (privilege, role, peer) */
    ERR_BUSY,        /* try again later: somebody else is using it */
    ERR_LIMIT,       /* a stated maximum was reached */
    ERR_TIMEOUT,     /* no answer within the deadline */
    ERR_UNREACHABLE, /* no way there: refused, no route, connection lost */
    ERR_AUTH,        /* credential refused; trying again can lock an account */
    ERR_PROTOCOL,    /* the peer said something that its standard does not allow */
    ERR_UNSUPPORTED, /* the peer or this build cannot do it */
    ERR_CANCELLED,   /* somebody asked for it to stop */
    ERR_IO,          /* file or system call failed; see sys */
    ERR_FAILED,      /* the remote work ran and reported failure */
    ERR_INTERNAL,    /* a defect in this program */
    ERR_CODE_COUNT
};

struct err {
    enum err_code code;
    int sys;        /* errno, or 0 */
    char text[480]; /* one line for people; never holds a secret */
};

/* Sets *err (NULL allowed) and returns -code, so that failing is one line. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Like err_set with ERR_IO (or the closest code) for errno `sys`, appending its text. */
int err_sys(struct err *err, int sys, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Prefixes the text with context on the way up: "node n012: " + text. Returns -err->code. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void err_clear(struct err *err);

/* Name ("timeout"), HTTP status, process exit code and whether trying again can help. */
const char *err_name(enum err_code code);
int err_http_status(enum err_code code);
int err_exit_code(enum err_code code);
bool err_retryable(enum err_code code);
/* Reverse of err_name; ERR_INTERNAL for an unknown name. */
enum err_code err_from_name(const char *name);
