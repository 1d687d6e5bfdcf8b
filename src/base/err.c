#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Exit codes follow the CLI's contract: 1 failed, 2 bad input, then one code per remedy. */
static const struct {
    const char *name;
    int http;
    int exit;
    bool retryable;
} err_rows[ERR_CODE_COUNT] = {
    [ERR_OK] = {"ok", 200, 0, false},
    [ERR_INVALID] = {"invalid", 400, 2, false},
    [ERR_NOT_FOUND] = {"not-found", 404, 4, false},
    [ERR_EXISTS] = {"exists", 409, 5, false},
    [ERR_CONFLICT] = {"conflict", 409, 5, false},
    [ERR_DENIED] = {"denied", 403, 6, false},
    [ERR_BUSY] = {"busy", 503, 7, true},
    [ERR_LIMIT] = {"limit", 429, 7, true},
    [ERR_TIMEOUT] = {"timeout", 504, 8, true},
    [ERR_UNREACHABLE] = {"unreachable", 502, 9, true},
    [ERR_AUTH] = {"auth", 401, 6, false},
    [ERR_PROTOCOL] = {"protocol", 502, 1, true},
    [ERR_UNSUPPORTED] = {"unsupported", 501, 1, false},
    [ERR_CANCELLED] = {"cancelled", 409, 1, false},
    [ERR_IO] = {"io", 500, 1, true},
    [ERR_FAILED] = {"failed", 500, 1, true},
    [ERR_INTERNAL] = {"internal", 500, 1, false},
};

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    if (err != NULL) {
        va_list ap;
        err->code = code;
        err->sys = 0;
        va_start(ap, fmt);
        (void)vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
    }
    return -(int)code;
}

static enum err_code code_of_errno(int sys)
{
    switch (sys) {
    case ENOENT:
        return ERR_NOT_FOUND;
    case EEXIST:
        return ERR_EXISTS;
    case EACCES:
    case EPERM:
        return ERR_DENIED;
    case EBUSY:
    case EAGAIN:
    case EADDRINUSE:
        return ERR_BUSY;
    case ETIMEDOUT:
        return ERR_TIMEOUT;
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EPIPE:
        return ERR_UNREACHABLE;
    default:
        return ERR_IO;
    }
}

int err_sys(struct err *err, int sys, const char *fmt, ...)
{
    enum err_code code = code_of_errno(sys);
    if (err != NULL) {
        va_list ap;
        err->code = code;
        err->sys = sys;
        va_start(ap, fmt);
        int n = vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
        if (n >= 0 && (size_t)n < sizeof err->text)
            (void)snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", strerror(sys));
    }
    return -(int)code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    if (err == NULL)
        return -(int)ERR_INTERNAL;
    char text[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof text)
        (void)snprintf(text + n, sizeof text - (size_t)n, "%s", err->text);
    memcpy(err->text, text, sizeof text);
    return -(int)err->code;
}

void err_clear(struct err *err)
{
    if (err != NULL) {
        err->code = ERR_OK;
        err->sys = 0;
        err->text[0] = '\0';
    }
}

const char *err_name(enum err_code code)
{
    return code < ERR_CODE_COUNT ? err_rows[code].name : "internal";
}

int err_http_status(enum err_code code)
{
    return code < ERR_CODE_COUNT ? err_rows[code].http : 500;
}

int err_exit_code(enum err_code code)
{
    return code < ERR_CODE_COUNT ? err_rows[code].exit : 1;
}

bool err_retryable(enum err_code code)
{
    return code < ERR_CODE_COUNT && err_rows[code].retryable;
}

enum err_code err_from_name(const char *name)
{
    for (int i = 0; name != NULL && i < ERR_CODE_COUNT; i++)
        if (strcmp(err_rows[i].name, name) == 0)
            return (enum err_code)i;
    return ERR_INTERNAL;
}
