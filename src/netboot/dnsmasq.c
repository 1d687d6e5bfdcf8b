/* dnsmasq as a child: files, start, end, restart, leftovers of a killed daemon. */
#include "netboot/dnsmasq.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "loop/child.h"

enum {
    HUP_GAP_MS = 200,
    BACKOFF_MIN_MS = 1000,
    BACKOFF_MAX_MS = 60 * 1000,
    STABLE_MS = 60 * 1000,  /* up for so long: the next restart is quick again */
    LEFTOVER_WAIT_MS = 100, /* between looks at one that was told to end */
    LEFTOVER_KILL_AFTER = 20,
    LOADER_MAX_BYTES = 16 << 20,
    CONF_MAX_BYTES = 64 << 10,
};

/* Boot loaders by TFTP and HTTP; those that the machine's package lacks are left out. */
static const char *const loaders[] = {"undionly.kpxe", "ipxe.efi", "snponly.efi", "ipxe-arm64.efi",
                                      "snponly-arm64.efi"};

struct dnsmasq {
    struct loop *loop;
    char *program;
    char *dir; /* absolute: it stands in the child's command line, by which leftovers are known */
    char *conf;
    char *interface;
    void (*on_event)(const struct dnsmasq_event *e, void *user);
    void *event_user;
    struct child *child;
    struct timer start_timer, hup_timer;
    int64_t up_since, hup_at;
    int64_t backoff;
    int restarts, leftover_looks;
    enum { STARTING, UP, DOWN } state;
    char text[240];      /* why it is down */
    char complaint[240]; /* the last one of the running child */
};

static void tell(struct dnsmasq *d, const struct dnsmasq_event *e)
{
    if (d->on_event != NULL)
        d->on_event(e, d->event_user);
}

static void tell_text(struct dnsmasq *d, enum dnsmasq_event_kind kind, const char *text)
{
    struct dnsmasq_event e = {.kind = kind};
    (void)snprintf(e.text, sizeof e.text, "%s", text);
    tell(d, &e);
}

/* ---- leftovers ---- */

static bool is_ours(const struct dnsmasq *d, const char *pid)
{
    char path[300], buf[4096], want[4096];
    (void)snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, buf, sizeof buf - 1);
    (void)close(fd);
    if (n <= 0)
        return false;
    buf[n] = '\0';
    (void)snprintf(want, sizeof want, "--conf-file=%s", d->conf);
    for (const char *p = buf; p < buf + n; p += strlen(p) + 1)
        if (strcmp(p, want) == 0)
            return true;
    return false;
}

/* Signals every process that runs on our configuration; returns how many there are. */
static int end_leftovers(struct dnsmasq *d, int signum)
{
    int count = 0;
    DIR *proc = opendir("/proc");
    struct dirent *e;
    if (proc == NULL)
        return 0;
    while ((e = readdir(proc)) != NULL) {
        if (!isdigit((unsigned char)e->d_name[0]) || !is_ours(d, e->d_name))
            continue;
        long pid = strtol(e->d_name, NULL, 10);
        if (pid > 1 && pid != getpid()) {
            (void)kill((pid_t)pid, signum);
            count++;
        }
    }
    (void)closedir(proc);
    return count;
}

/* ---- the child ---- */

static void try_start(void *user);

static void start_later(struct dnsmasq *d)
{
    timer_set(d->loop, &d->start_timer, d->backoff, try_start, d);
    d->backoff = d->backoff * 2 < BACKOFF_MAX_MS ? d->backoff * 2 : BACKOFF_MAX_MS;
}

static void went_down(struct dnsmasq *d, const char *why)
{
    if (d->state == UP && loop_now(d->loop) - d->up_since >= STABLE_MS)
        d->backoff = BACKOFF_MIN_MS;
    d->state = DOWN;
    d->restarts++;
    if (d->complaint[0] != '\0')
        (void)snprintf(d->text, sizeof d->text, "%.150s (%.80s)", d->complaint, why);
    else
        (void)snprintf(d->text, sizeof d->text, "%s", why);
    d->complaint[0] = '\0';
    timer_cancel(&d->hup_timer);
    tell_text(d, DNSMASQ_DOWN, d->text);
    start_later(d);
}

static void on_exit_op(struct op *op, void *user)
{
    struct dnsmasq *d = user;
    char why[200];
    if (op_ok(op))
        (void)snprintf(why, sizeof why, "dnsmasq ended by itself");
    else
        (void)snprintf(why, sizeof why, "dnsmasq: %.180s", op->err.text);
    op_free(op);
    d->child = NULL;
    went_down(d, why);
}

static void on_line(const char *line, void *user)
{
    struct dnsmasq *d = user;
    struct dnsmasq_event e;
    if (!dnsmasq_parse_line(line, &e))
        return;
    if (e.kind == DNSMASQ_UP) {
        if (d->state == UP)
            return;
        d->state = UP;
        d->up_since = loop_now(d->loop);
        d->complaint[0] = '\0';
    } else if (e.kind == DNSMASQ_ERROR) {
        memcpy(d->complaint, e.text, sizeof d->complaint);
    }
    tell(d, &e);
}

static void try_start(void *user)
{
    struct dnsmasq *d = user;
    struct err err = {0};
    if (end_leftovers(d, d->leftover_looks < LEFTOVER_KILL_AFTER ? SIGTERM : SIGKILL) > 0) {
        d->leftover_looks++;
        timer_set(d->loop, &d->start_timer, LEFTOVER_WAIT_MS, try_start, d);
        return;
    }
    d->leftover_looks = 0;
    char *conf_arg cleanup_free = xasprintf("--conf-file=%s", d->conf);
    const char *const argv[] = {d->program, "--keep-in-foreground", conf_arg, NULL};
    struct child_spec spec = {.argv = argv, .on_line = on_line, .line_user = d};
    d->state = STARTING;
    d->child = child_start(d->loop, &spec, 0, on_exit_op, d, &err);
    if (d->child == NULL)
        went_down(d, err.text);
}

static void send_hup(void *user)
{
    struct dnsmasq *d = user;
    d->hup_at = loop_now(d->loop);
    /* before it is up the signal would end it, and it reads everything anyway */
    if (d->child != NULL && d->state == UP)
        child_signal(d->child, SIGHUP);
    else if (d->child != NULL)
        timer_set(d->loop, &d->hup_timer, HUP_GAP_MS, send_hup, d);
}

static void hup(struct dnsmasq *d)
{
    int64_t due = d->hup_at + HUP_GAP_MS - loop_now(d->loop);
    if (d->child == NULL || timer_armed(&d->hup_timer))
        return;
    timer_set(d->loop, &d->hup_timer, due > 0 ? due : 0, send_hup, d);
}

/* ---- files ---- */

/* In one step, by way of a neighbour directory: dnsmasq must not see half a file, nor a temporary
 * one. Not synced: everything here is written anew at each start. */
static int put_file(struct dnsmasq *d, const char *path, const void *data, size_t len,
                    struct err *err)
{
    char *tmp cleanup_free = xasprintf("%s/new", d->dir);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_sys(err, errno, "%s", tmp);
    ssize_t n = write(fd, data, len);
    int sys = n < 0 ? errno : ENOSPC;
    (void)fchmod(fd, 0644); /* whatever the umask: it is read by another account */
    (void)close(fd);
    if (n != (ssize_t)len) {
        (void)unlink(tmp);
        return err_sys(err, sys, "%s", tmp);
    }
    if (rename(tmp, path) < 0)
        return err_sys(err, errno, "%s", path);
    return 0;
}

static int make_dir(const struct dnsmasq *d, const char *name, struct err *err)
{
    char *path cleanup_free = xasprintf("%s/%s", d->dir, name);
    int rc = fs_mkdirs(path, 0755, err);
    if (rc == 0)
        (void)chmod(path, 0755);
    return rc;
}

/* Host files of an earlier life name nodes that may be gone. */
static void clear_hosts(struct dnsmasq *d)
{
    char *path cleanup_free = xasprintf("%s/hosts.d", d->dir);
    DIR *dir = opendir(path);
    struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (e->d_name[0] != '.')
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    if (dir != NULL)
        (void)closedir(dir);
}

static void copy_loaders(struct dnsmasq *d, const char *from)
{
    bool any = false;
    for (size_t i = 0; i < ARRAY_LEN(loaders); i++) {
        char *src cleanup_free = xasprintf("%s/%s", from, loaders[i]);
        char *dst cleanup_free = xasprintf("%s/tftp/%s", d->dir, loaders[i]);
        char *data = NULL;
        size_t len = 0;
        if (fs_read(src, LOADER_MAX_BYTES, &data, &len, NULL) == 0 &&
            put_file(d, dst, data, len, NULL) == 0)
            any = true;
        free(data);
    }
    if (!any) {
        char text[200];
        (void)snprintf(text, sizeof text, "no boot loader in %.150s: install package ipxe", from);
        tell_text(d, DNSMASQ_ERROR, text);
    }
}

/* dnsmasq gives its root rights up and then still reads hosts.d and tftp. Where a directory above
 * is closed to other accounts it must keep them. */
static bool open_to_all(const char *dir)
{
    struct stat st;
    char *path = xstrdup(dir);
    bool open = true;
    for (char *cut; open; *cut = '\0') {
        open = stat(path[0] ? path : "/", &st) == 0 && (st.st_mode & S_IXOTH) != 0;
        cut = strrchr(path, '/');
        if (cut == NULL || path[0] == '\0')
            break;
    }
    free(path);
    return open;
}

static int write_conf(struct dnsmasq *d, const struct dnsmasq_config *config, struct err *err)
{
    struct dnsmasq_config c = *config;
    struct strbuf text;
    c.run_dir = d->dir;
    if (c.user == NULL && geteuid() == 0 && !open_to_all(d->dir))
        c.user = "root";
    strbuf_init(&text, CONF_MAX_BYTES);
    int rc = dnsmasq_render(&c, &text, err);
    if (rc == 0)
        rc = put_file(d, d->conf, text.data, text.len, err);
    strbuf_done(&text);
    return rc;
}

int dnsmasq_start(const struct dnsmasq_config *c, int64_t delay_ms, struct dnsmasq **ret,
                  struct err *err)
{
    *ret = NULL;
    int rc = fs_mkdirs(c->run_dir, 0755, err);
    if (rc < 0)
        return rc;
    char *dir = realpath(c->run_dir, NULL);
    if (dir == NULL)
        return err_sys(err, errno, "%s", c->run_dir);
    struct dnsmasq *d = xcalloc(1, sizeof *d);
    d->loop = c->loop;
    d->dir = dir;
    d->conf = xasprintf("%s/dnsmasq.conf", dir);
    d->program = xstrdup(c->program != NULL ? c->program : "dnsmasq");
    d->interface = xstrdup(c->interface);
    d->on_event = c->on_event;
    d->event_user = c->event_user;
    d->backoff = BACKOFF_MIN_MS;
    d->hup_at = -HUP_GAP_MS;
    (void)chmod(dir, 0755);
    if ((rc = make_dir(d, "hosts.d", err)) < 0 || (rc = make_dir(d, "tftp", err)) < 0 ||
        (rc = write_conf(d, c, err)) < 0) {
        dnsmasq_free(d);
        return rc;
    }
    clear_hosts(d);
    copy_loaders(d, c->loader_dir != NULL ? c->loader_dir : "/usr/lib/ipxe");
    timer_set(d->loop, &d->start_timer, delay_ms, try_start, d);
    *ret = d;
    return 0;
}

void dnsmasq_free(struct dnsmasq *d)
{
    if (d == NULL)
        return;
    timer_cancel(&d->start_timer);
    timer_cancel(&d->hup_timer);
    if (d->child != NULL)
        op_cancel(&d->child->op); /* kills: leases are on disk at each change, nothing is lost */
    free(d->program);
    free(d->dir);
    free(d->conf);
    free(d->interface);
    free(d);
}

/* ---- hosts ---- */

static char *host_path(const struct dnsmasq *d, int64_t node)
{
    return xasprintf("%s/hosts.d/%lld", d->dir, (long long)node);
}

int dnsmasq_put_host(struct dnsmasq *d, const struct host *h, bool changed, struct err *err)
{
    char *path cleanup_free = host_path(d, h->node);
    struct strbuf line;
    strbuf_init(&line, 4096);
    dnsmasq_render_host(h, &line);
    int rc = 0;
    if (!strbuf_ok(&line))
        rc = err_set(err, ERR_LIMIT, "%s: too many MAC addresses", h->name);
    else if (line.len == 0)
        (void)unlink(path);
    else
        rc = put_file(d, path, line.data, line.len, err);
    strbuf_done(&line);
    if (rc == 0 && changed)
        hup(d);
    return rc;
}

void dnsmasq_remove_host(struct dnsmasq *d, int64_t node)
{
    char *path cleanup_free = host_path(d, node);
    if (unlink(path) == 0)
        hup(d);
}

const char *dnsmasq_state(const struct dnsmasq *d, const char **ret_text, int *ret_restarts,
                          int *ret_pid)
{
    static const char *const names[] = {"starting", "up", "down"};
    *ret_text = d->state == DOWN ? d->text : d->interface;
    *ret_restarts = d->restarts;
    *ret_pid = d->child != NULL ? d->child->pid : 0;
    return names[d->state];
}
