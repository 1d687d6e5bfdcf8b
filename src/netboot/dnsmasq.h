/*
 * dnsmasq as a supervised child: its configuration, its per-host files, its health.
 *
 * The child runs in the foreground with all its files in one directory of ours. A host is one file
 * in hosts.d, which dnsmasq watches: a new one works without a signal. What dnsmasq has read it
 * keeps until SIGHUP, so changes and removals are followed by one (bundled: at most one in 200 ms).
 * When it dies it is started again after 1, 2, 4 ... 60 s. One left behind by a daemon that was
 * killed is ended first.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "loop/loop.h"
#include "netboot/hosts.h"

struct dnsmasq;

enum dnsmasq_event_kind {
    DNSMASQ_UP,         /* it serves */
    DNSMASQ_DOWN,       /* it ended or did not start; text says why */
    DNSMASQ_ACK,        /* mac got address */
    DNSMASQ_NO_ADDRESS, /* mac asked and got none: the pool is empty or there is no pool */
    DNSMASQ_ERROR       /* text is dnsmasq's own complaint */
};

struct dnsmasq_event {
    enum dnsmasq_event_kind kind;
    char mac[MAC_SIZE];
    char address[46];
    char text[240];
};

struct dnsmasq_config {
    struct loop *loop;
    const char *program; /* "dnsmasq" */
    const char *run_dir;
    const char *interface;
    const char *network;                /* "10.77.0.0" */
    const char *netmask;                /* "255.255.255.0" */
    bool proxy;                         /* another server gives the addresses */
    const char *pool_first, *pool_last; /* NULL: unknown machines get none */
    const char *gateway, *dns;          /* NULL: none */
    const char *ipv6_prefix;            /* "fd77::": router advertisements for it; NULL: none */
    int lease_seconds;
    const char *url; /* of the boot HTTP server */
    const char *loader_dir;
    const char *user; /* the account it changes to; NULL: dnsmasq's default */
    void (*on_event)(const struct dnsmasq_event *e, void *user);
    void *event_user;
};

/* The text of dnsmasq.conf. Pure. ERR_INVALID for a value that could become a second line. */
int dnsmasq_render(const struct dnsmasq_config *c, struct strbuf *out, struct err *err);
/* The line of a host file; "" for a host without MACs. Pure. */
void dnsmasq_render_host(const struct host *h, struct strbuf *out);
/* What a line of its log means; false: nothing of interest. Pure. */
bool dnsmasq_parse_line(const char *line, struct dnsmasq_event *ret);

/* Writes the files; the child is started delay_ms later. */
int dnsmasq_start(const struct dnsmasq_config *c, int64_t delay_ms, struct dnsmasq **ret,
                  struct err *err);
/* Ends the child. NULL allowed. */
void dnsmasq_free(struct dnsmasq *d);
/* `changed`: it was there before with other values. */
int dnsmasq_put_host(struct dnsmasq *d, const struct host *h, bool changed, struct err *err);
void dnsmasq_remove_host(struct dnsmasq *d, int64_t node);

/* "starting", "up" or "down"; *ret_text (borrowed) says why or what. */
const char *dnsmasq_state(const struct dnsmasq *d, const char **ret_text, int *ret_restarts,
                          int *ret_pid);
