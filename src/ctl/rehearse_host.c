/* The private folder of a rehearsal, and the two programs that run in it. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "ctl/rehearse.h"

enum {
    REMOVE_TRIES = 100, /* files may still be made by a program that is being killed */
    REMOVE_PAUSE_MS = 50,
    STOP_MS = 5000,
    PORT_FIRST = 20000, /* below the ports that the kernel gives to clients */
    PORT_COUNT = 12000,
    PORT_TRIES = 200,
    LOG_MAX = 64 << 20,
    LINES_SAID = 5,
    ANSWER_MAX = 16 << 20,
    PATH_SIZE = 4096
};

char *host_path(const struct host *h, const char *name)
{
    return xasprintf("%s/%s", h->dir, name);
}

static void pause_ms(long ms)
{
    struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&ts, NULL);
}

/* ---- the folder ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    (void)remove(path);
    return 0;
}

/* Symbolic links are removed, not followed. */
static void remove_tree(const char *dir)
{
    for (int i = 0; i < REMOVE_TRIES && access(dir, F_OK) == 0; i++) {
        if (i > 0)
            pause_ms(REMOVE_PAUSE_MS);
        (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

/*
 * A process that does nothing but wait for our end, whichever it is: the other end of the leash is
 * closed by the kernel then. The programs die with us by PR_SET_PDEATHSIG.
 */
static void __attribute__((noreturn)) keeper_main(const char *dir, int leash)
{
    char byte;
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        (void)signal(ignored[i], SIG_IGN);
    (void)setsid();
    if (chdir("/") != 0)
        _exit(1);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2 && null >= 0; fd++)
        (void)dup2(null, fd);
    (void)dup2(leash, 3);
    (void)close_range(4, ~0U, 0);
    while (read(3, &byte, 1) < 0 && errno == EINTR)
        ;
    remove_tree(dir);
    _exit(0);
}

static int start_keeper(struct host *h)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return complain(CTL_FAILED, "pipe: %s", strerror(errno));
    h->keeper = fork();
    if (h->keeper == 0) {
        (void)close(ends[1]);
        keeper_main(h->dir, ends[0]);
    }
    (void)close(ends[0]);
    h->leash = ends[1];
    return h->keeper > 0 ? CTL_DONE : complain(CTL_FAILED, "fork: %s", strerror(errno));
}

static int open_kept(struct host *h, const char *dir)
{
    char full[PATH_SIZE];
    struct dirent **names;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return complain(CTL_INPUT, "--keep %s: %s", dir, strerror(errno));
    int count = scandir(dir, &names, NULL, NULL);
    for (int i = 0; i < count; i++)
        free(names[i]);
    if (count >= 0)
        free(names);
    if (count != 2)
        return complain(CTL_INPUT, "--keep %s: the folder must be new or empty", dir);
    if (realpath(dir, full) == NULL)
        return complain(CTL_INPUT, "--keep %s: %s", dir, strerror(errno));
    h->keep = true;
    h->dir = xstrdup(full);
    return CTL_DONE;
}

int host_open(struct host *h, const char *keep)
{
    *h = (struct host){.leash = -1, .programs = {{.name = "clusterd-sim"}, {.name = "clusterd"}}};
    if (keep != NULL)
        return open_kept(h, keep);
    const char *tmp = getenv("TMPDIR");
    h->dir = xasprintf("%s/clusterd-rehearsal-XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    if (mkdtemp(h->dir) == NULL) {
        int rc = complain(CTL_FAILED, "%s: %s", h->dir, strerror(errno));
        free(h->dir);
        h->dir = NULL;
        return rc;
    }
    int rc = start_keeper(h);
    if (rc != CTL_DONE)
        remove_tree(h->dir);
    return rc;
}

int host_write(const struct host *h, const char *name, const char *text, size_t len)
{
    struct err err = {0};
    char *path = host_path(h, name), *dir = fs_dirname(path);
    int rc = fs_mkdirs(dir, 0700, &err);
    if (rc == 0)
        rc = fs_write_atomic(path, text, len, 0600, &err);
    free(dir);
    free(path);
    return rc == 0 ? CTL_DONE : complain(CTL_FAILED, "%s", err.text);
}

/* ---- programs ---- */

char *host_find(const char *name)
{
    static const char *const places[] = {"%s/%s", "%s/../sbin/%s", "%s/../lib/clusterd/%s"};
    char self[PATH_SIZE] = "";
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    char *dir = fs_dirname(len > 0 ? self : "./x"), *path = NULL;
    for (size_t i = 0; i < ARRAY_LEN(places) && path == NULL; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        path = xasprintf(places[i], dir, name);
#pragma GCC diagnostic pop
        if (access(path, X_OK) != 0) {
            free(path);
            path = NULL;
        }
    }
    if (path == NULL) {
        path = xasprintf(CLUSTERD_LIBDIR "/%s", name);
        if (access(path, X_OK) != 0) {
            free(path);
            path = NULL;
        }
    }
    if (path == NULL)
        (void)complain(
            CTL_FAILED,
            "there is no program %s in %s, ../sbin, ../lib/clusterd beside it, or " CLUSTERD_LIBDIR
            ": 'make install' puts it there",
            name, dir);
    free(dir);
    return path;
}

static struct host_program *program(const struct host *h, const char *name)
{
    for (int i = 0; i < HOST_PROGRAMS; i++)
        if (strcmp(h->programs[i].name, name) == 0)
            return (struct host_program *)&h->programs[i];
    abort();
}

/* Nothing of the user's environment: it can hold secrets that a spec names. */
static char *const environment[] = {(char *)"PATH=/usr/bin:/bin", (char *)"LC_ALL=C", NULL};

static void __attribute__((noreturn)) child_main(char *const *argv, const char *log, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);      /* it was gone before the line above */
    (void)setpgid(0, 0); /* Ctrl-C is for clusterctl, which ends this one in order */
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(127);
    (void)close_range(3, ~0U, 0);
    (void)execve(argv[0], argv, environment);
    _exit(127);
}

int host_start(struct host *h, const char *name, char *const *argv)
{
    char *file = xasprintf("%s.log", name), *log = host_path(h, file);
    pid_t self = getpid(), pid = fork();
    if (pid == 0)
        child_main(argv, log, self);
    free(log);
    free(file);
    if (pid < 0)
        return complain(CTL_FAILED, "fork: %s", strerror(errno));
    program(h, name)->pid = pid;
    return CTL_DONE;
}

char *host_output(char *const *argv)
{
    int ends[2], status = 0;
    char piece[4096];
    ssize_t n;
    struct strbuf sb;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return NULL;
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(ends[1], 1);
        (void)execve(argv[0], argv, environment);
        _exit(127);
    }
    (void)close(ends[1]);
    strbuf_init(&sb, ANSWER_MAX);
    while ((n = read(ends[0], piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            strbuf_add(&sb, piece, (size_t)n);
    (void)close(ends[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    char *text = pid > 0 && status == 0 && strbuf_ok(&sb) ? strbuf_take(&sb) : NULL;
    strbuf_done(&sb);
    return text;
}

static bool reap(struct host_program *p, int flags)
{
    struct rusage used = {0};
    int status;
    if (p->pid <= 0)
        return true;
    pid_t got = wait4(p->pid, &status, flags, &used);
    if (got == 0 || (got < 0 && errno == EINTR))
        return false;
    p->pid = 0;
    p->cpu_s += (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec +
                (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    return true;
}

bool host_runs(struct host *h, const char *name)
{
    struct host_program *p = program(h, name);
    return p->pid > 0 && !reap(p, WNOHANG);
}

/* The daemon first: it would tell of machines that vanish. */
void host_stop(struct host *h)
{
    for (int i = HOST_PROGRAMS - 1; i >= 0; i--) {
        struct host_program *p = &h->programs[i];
        int64_t until = clock_mono_ms() + STOP_MS;
        if (p->pid <= 0)
            continue;
        (void)kill(p->pid, SIGTERM);
        while (!reap(p, WNOHANG) && clock_mono_ms() < until)
            pause_ms(10);
        if (p->pid > 0)
            (void)kill(p->pid, SIGKILL);
        while (!reap(p, 0))
            ;
    }
}

void host_close(struct host *h)
{
    host_stop(h);
    if (h->leash >= 0)
        (void)close(h->leash);
    while (h->keeper > 0 && waitpid(h->keeper, NULL, 0) < 0 && errno == EINTR)
        ;
    free(h->dir);
    h->dir = NULL;
    h->keeper = 0;
    h->leash = -1;
}

void host_say_log(const struct host *h, const char *name)
{
    char *file = xasprintf("%s.log", name), *path = host_path(h, file), *text = NULL;
    struct err err = {0};
    if (fs_read(path, LOG_MAX, &text, NULL, &err) == 0) {
        size_t len = strlen(text);
        int lines = 0;
        while (len > 0 && text[len - 1] == '\n')
            text[--len] = '\0';
        const char *from = text + len;
        while (from > text && (from[-1] != '\n' || ++lines < LINES_SAID))
            from--;
        fprintf(stderr, "%s\n", from);
    }
    free(text);
    free(path);
    free(file);
}

/* ---- ports ---- */

static bool port_is_free(int port)
{
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    bool free_ = true;
    any.sin_addr.s_addr = htonl(INADDR_ANY);
    for (size_t i = 0; i < ARRAY_LEN(types) && free_; i++) {
        int fd = socket(AF_INET, types[i] | SOCK_CLOEXEC, 0);
        free_ = fd >= 0 && bind(fd, (const struct sockaddr *)&any, sizeof any) == 0;
        if (fd >= 0)
            (void)close(fd);
    }
    return free_;
}

int host_free_ports(int count)
{
    for (int i = 0; i < PORT_TRIES; i++) {
        char hex[9];
        random_hex(4, hex);
        int first = PORT_FIRST + (int)(strtoul(hex, NULL, 16) % (unsigned)(PORT_COUNT - count));
        int k = 0;
        while (k < count && port_is_free(first + k))
            k++;
        if (k == count)
            return first;
    }
    (void)complain(CTL_FAILED, "no %d free ports in a row from %d on", count, PORT_FIRST);
    return 0;
}

/* ---- the simulator's control socket ---- */

json_t *host_ask_sim(const struct host *h, const char *line)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    char *path = host_path(h, "sim.sock"), piece[65536];
    struct strbuf sb;
    size_t len = strlen(path);
    int fd = len < sizeof sun.sun_path ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    strbuf_init(&sb, ANSWER_MAX);
    if (fd >= 0)
        memcpy(sun.sun_path, path, len);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)(const void *)&sun, sizeof sun) == 0) {
        char *text = xasprintf("%s\n", line);
        ssize_t n = send(fd, text, strlen(text), MSG_NOSIGNAL);
        while (n > 0 && (n = recv(fd, piece, sizeof piece, 0)) > 0)
            strbuf_add(&sb, piece, (size_t)n);
        free(text);
    }
    if (fd >= 0)
        (void)close(fd);
    json_t *answer = json_loadb(sb.data != NULL ? sb.data : "", sb.len, 0, NULL);
    strbuf_done(&sb);
    free(path);
    return answer;
}
