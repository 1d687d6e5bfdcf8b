/*
 * What a fleet asks of everybody else: bytes over the head node's uplink, watts of each feed, and
 * how many sessions are open at once. Downloads that are under way share the uplink evenly, and
 * none is faster than its machine.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/mem.h"
#include "sim/sim.h"

static const char *const kinds[TRAFFIC_KINDS] = {"kernel", "initrd", "image"};

/* ---- transfers ---- */

/* MB/s of real life that each of them gets now. */
static double share(const struct sim *s)
{
    const struct sim_load *l = &s->load;
    double own = s->times.image_mb_s;
    if (l->transfer_count == 0)
        return 0;
    double even = l->uplink_mb_s / l->transfer_count;
    return l->uplink_mb_s > 0 && even < own ? even : own;
}

/* Brings what is left of each of them up to date. */
static void advance(struct sim *s)
{
    struct sim_load *l = &s->load;
    int64_t now = loop_now(s->loop);
    double each = (double)(now - l->advanced_at) * s->speed * share(s) * 1000;
    for (struct sim_transfer *t = l->transfers; t != NULL; t = t->next)
        t->left -= each;
    l->advanced_at = now;
}

static void on_due(void *user);

static void plan_next(struct sim *s)
{
    struct sim_load *l = &s->load;
    double least = INFINITY, rate = share(s) * s->speed * 1000;
    for (const struct sim_transfer *t = l->transfers; t != NULL; t = t->next)
        least = t->left < least ? t->left : least;
    if (l->transfers == NULL)
        timer_cancel(&l->timer);
    else
        timer_set(s->loop, &l->timer, least > 0 ? (int64_t)ceil(least / rate) : 0, on_due, s);
}

static void unlink_transfer(struct sim_transfer *t)
{
    *t->link = t->next;
    if (t->next != NULL)
        t->next->link = t->link;
    t->link = NULL;
    t->sim->load.transfer_count--;
}

static void on_due(void *user)
{
    struct sim *s = user;
    struct sim_transfer *t = s->load.transfers;
    advance(s);
    while (t != NULL && t->left > 0)
        t = t->next;
    if (t != NULL)
        unlink_transfer(t);
    plan_next(s); /* before fn: it may start or stop others */
    if (t != NULL)
        t->fn(t->user);
}

void sim_transfer_start(struct sim_node *n, struct sim_transfer *t, enum sim_traffic kind,
                        int64_t received, timer_fn fn, void *user)
{
    struct sim *s = n->sim;
    struct sim_load *l = &s->load;
    int64_t bytes = n->stands_for[kind] > 0 ? n->stands_for[kind] : received;
    sim_transfer_stop(t);
    advance(s);
    *t = (struct sim_transfer){.sim = s, .left = (double)bytes, .fn = fn, .user = user};
    t->next = l->transfers;
    t->link = &l->transfers;
    if (t->next != NULL)
        t->next->link = &t->next;
    l->transfers = t;
    l->transfer_count++;
    l->traffic[kind].fetches++;
    l->traffic[kind].bytes += bytes;
    n->count.boot_bytes += bytes - received; /* the rest was counted as it came */
    double together = share(s) * l->transfer_count;
    l->peak_mb_s = together > l->peak_mb_s ? together : l->peak_mb_s;
    plan_next(s);
}

void sim_transfer_stop(struct sim_transfer *t)
{
    if (t->link == NULL)
        return;
    advance(t->sim);
    unlink_transfer(t);
    plan_next(t->sim);
}

/* ---- feeds and sessions ---- */

int sim_feed(struct sim *s, const char *name)
{
    struct sim_load *l = &s->load;
    for (int i = 0; i < l->feed_count; i++)
        if (strcmp(l->feeds[i].name, name) == 0)
            return i;
    ARRAY_GROW(l->feeds, l->feed_count, l->feed_capacity);
    l->feeds[l->feed_count] = (struct sim_feed){.name = xstrdup(name)};
    return l->feed_count++;
}

void sim_feeds_add(struct sim_node *n, double watts)
{
    for (int i = 0; i < n->feed_count; i++) {
        struct sim_feed *f = &n->sim->load.feeds[n->feeds[i]];
        f->now += watts;
        f->peak = f->now > f->peak ? f->now : f->peak;
    }
}

void sim_count_open(struct sim_sessions *c, int change)
{
    c->open += change;
    c->peak = c->open > c->peak ? c->open : c->peak;
}

void sim_count_script(struct sim *s, const char *stage, double seconds, const char *source)
{
    if (s->load.scripts == NULL)
        s->load.scripts = json_object();
    json_t *row = json_object_get(s->load.scripts, stage);
    if (row == NULL) {
        row = json_pack("{s:i,s:f,s:s}", "runs", 0, "seconds", seconds, "source", source);
        (void)json_object_set_new(s->load.scripts, stage, row);
    }
    json_t *runs = json_object_get(row, "runs");
    (void)json_integer_set(runs, json_integer_value(runs) + 1);
}

void sim_loopback_only(int fd)
{
    static const char lo[] = "lo";
    if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, lo, sizeof lo) != 0)
        log_info("sim.interfaces", "a socket listens on every interface (the kernel does not let "
                                   "us bind it to lo); requests from elsewhere are refused");
}

json_t *sim_load_report(const struct sim *s)
{
    const struct sim_load *l = &s->load;
    json_t *boot = json_object(), *feeds = json_array();
    for (int i = 0; i < TRAFFIC_KINDS; i++)
        (void)json_object_set_new(boot, kinds[i],
                                  json_pack("{s:I,s:I}", "fetches",
                                            (json_int_t)l->traffic[i].fetches, "bytes",
                                            (json_int_t)l->traffic[i].bytes));
    (void)json_object_set_new(boot, "peak_mb_s", json_real(l->peak_mb_s));
    for (int i = 0; i < l->feed_count; i++)
        (void)json_array_append_new(feeds, json_pack("{s:s,s:f}", "name", l->feeds[i].name,
                                                     "peak_watts", l->feeds[i].peak));
    json_t *all =
        json_pack("{s:o,s:o,s:f,s:i,s:i}", "boot", boot, "feeds", feeds, "peak_watts",
                  s->watts_peak, "bmc_sessions_peak", l->bmc.peak, "ssh_peak", l->ssh.peak);
    (void)json_object_set_new(all, "scripts",
                              l->scripts != NULL ? json_deep_copy(l->scripts) : json_object());
    return all;
}

void sim_load_done(struct sim *s)
{
    timer_cancel(&s->load.timer);
    for (int i = 0; i < s->load.feed_count; i++)
        free(s->load.feeds[i].name);
    free(s->load.feeds);
    json_decref(s->load.scripts);
}
