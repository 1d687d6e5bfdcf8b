/* Preloaded into clusterd by tests/crash/enumerate.t: counts what is made durable in the database's
 * journal (the write-ahead log) and kills the process at one point of it.
 *
 *   KILLPOINT_COUNT=FILE   keeps the number of commits so far in FILE
 *   KILLPOINT_AT=N         dies at the N-th commit ...
 *   KILLPOINT_WHEN=before  ... with its first byte: everything that commit N-1 allowed has begun
 *   KILLPOINT_WHEN=after   ... once it is durable: nothing that it allows has begun
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int commits;

static bool is_journal(int fd)
{
    char link[64], path[4096];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 4)
        return false;
    path[n] = '\0';
    return strcmp(path + n - 4, "-wal") == 0;
}

static bool dies(const char *when, int commit)
{
    const char *at = getenv("KILLPOINT_AT"), *moment = getenv("KILLPOINT_WHEN");
    return at != NULL && atoi(at) == commit && moment != NULL && strcmp(moment, when) == 0;
}

static void count(void)
{
    const char *file = getenv("KILLPOINT_COUNT");
    char text[24];
    if (file == NULL)
        return;
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int n = snprintf(text, sizeof text, "%d\n", commits);
    if (fd < 0 || write(fd, text, (size_t)n) != n)
        abort();
    (void)close(fd);
}

static int synced(int fd, const char *name)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int rc = real(fd);
    if (rc == 0 && is_journal(fd)) {
        commits++;
        count();
        if (dies("after", commits))
            (void)kill(getpid(), SIGKILL);
    }
    return rc;
}

int fdatasync(int fd)
{
    return synced(fd, "fdatasync");
}

int fsync(int fd)
{
    return synced(fd, "fsync");
}

static ssize_t written(int fd, const void *data, size_t len, off_t at, const char *name)
{
    ssize_t (*real)(int, const void *, size_t, off_t) =
        (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, name);
    if (dies("before", commits + 1) && is_journal(fd))
        (void)kill(getpid(), SIGKILL);
    return real(fd, data, len, at);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    return written(fd, data, len, at, "pwrite");
}

ssize_t pwrite64(int fd, const void *data, size_t len, off_t at)
{
    return written(fd, data, len, at, "pwrite64");
}
