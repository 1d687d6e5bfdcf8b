#include "remote/lookup.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "loop/work.h"

struct lookup {
    char *name;
    char port[8];
    struct lookup_address addresses[LOOKUP_MAX];
    int count;
    int rc;       /* of getaddrinfo */
    lookup_fn fn; /* NULL: forgotten */
    void *user;
};

static int resolve(const char *name, const char *port, int flags, struct lookup_address *addresses,
                   int *ret_count)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int count = 0;
    int rc = getaddrinfo(name, port, &hints, &list);
    if (rc != 0)
        return rc;
    for (struct addrinfo *a = list; a != NULL && count < LOOKUP_MAX; a = a->ai_next) {
        if (a->ai_addrlen > sizeof addresses[count].addr)
            continue;
        addresses[count] = (struct lookup_address){.len = a->ai_addrlen};
        memcpy(&addresses[count++].addr, a->ai_addr, a->ai_addrlen);
    }
    freeaddrinfo(list);
    *ret_count = count;
    return count > 0 ? 0 : EAI_NONAME;
}

bool lookup_numeric(const char *text, int port, struct lookup_address *ret_address)
{
    struct lookup_address found[LOOKUP_MAX];
    char port_text[8];
    int count = 0;
    (void)snprintf(port_text, sizeof port_text, "%d", port);
    if (resolve(text, port_text, AI_NUMERICHOST, found, &count) != 0)
        return false;
    *ret_address = found[0];
    return true;
}

static void run(void *user)
{
    struct lookup *l = user;
    l->rc = resolve(l->name, l->port, 0, l->addresses, &l->count);
}

static void done(void *user)
{
    struct lookup *l = user;
    struct err err = {0};
    if (l->rc != 0)
        (void)err_set(&err, ERR_UNREACHABLE, "%s: %s", l->name, gai_strerror(l->rc));
    if (l->fn != NULL)
        l->fn(l->addresses, l->rc == 0 ? l->count : 0, &err, l->user);
    free(l->name);
    free(l);
}

struct lookup *lookup_start(struct loop *loop, const char *name, int port, lookup_fn fn, void *user,
                            struct err *err)
{
    struct lookup *l = xcalloc(1, sizeof *l);
    l->name = xstrdup(name);
    (void)snprintf(l->port, sizeof l->port, "%d", port);
    l->fn = fn;
    l->user = user;
    if (work_submit(loop, run, done, l, err) < 0) {
        free(l->name);
        free(l);
        return NULL;
    }
    return l;
}

void lookup_forget(struct lookup *l)
{
    if (l != NULL)
        l->fn = NULL;
}
