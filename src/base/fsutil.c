#include "base/fsutil.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

int fs_read(const char *path, size_t max, char **ret_data, size_t *ret_len, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "%s", path);
    size_t len = 0, cap = 4096;
    char *data = xcalloc(1, cap + 1);
    int rc = 0;
    for (;;) {
        if (len == cap) {
            cap *= 2;
            data = xrealloc(data, cap + 1, 1);
        }
        ssize_t n = read(fd, data + len, cap - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            rc = err_sys(err, errno, "%s", path);
            break;
        }
        if (n == 0)
            break;
        len += (size_t)n;
        if (len > max) {
            rc = err_set(err, ERR_LIMIT, "%s: larger than %zu bytes", path, max);
            break;
        }
    }
    (void)close(fd);
    if (rc < 0) {
        free(data);
        return rc;
    }
    data[len] = '\0';
    *ret_data = data;
    if (ret_len != NULL)
        *ret_len = len;
    return 0;
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

int fs_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *err)
{
    char *tmp cleanup_free = xasprintf("%s.tmp.%d", path, (int)getpid());
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0)
        return err_sys(err, errno, "%s", tmp);
    int rc = 0;
    if (write_all(fd, data, len) < 0 || fchmod(fd, mode) < 0 || fsync(fd) < 0)
        rc = err_sys(err, errno, "%s", tmp);
    if (close(fd) < 0 && rc == 0)
        rc = err_sys(err, errno, "%s", tmp);
    if (rc == 0 && rename(tmp, path) < 0)
        rc = err_sys(err, errno, "%s", path);
    if (rc < 0)
        (void)unlink(tmp);
    return rc;
}

int fs_mkdirs(const char *path, mode_t mode, struct err *err)
{
    char *copy cleanup_free = xstrdup(path);
    for (char *p = copy + 1; *p != '\0'; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(copy, mode) < 0 && errno != EEXIST)
            return err_sys(err, errno, "%s", copy);
        *p = '/';
    }
    if (mkdir(copy, mode) < 0 && errno != EEXIST)
        return err_sys(err, errno, "%s", copy);
    return 0;
}

int fs_join(const char *dir, const char *name, char **ret_path, struct err *err)
{
    if (name[0] == '/' || name[0] == '\0')
        return err_set(err, ERR_INVALID, "'%s' must be a relative file name", name);
    for (const char *p = name; p != NULL; p = strchr(p, '/')) {
        if (*p == '/')
            p++;
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0'))
            return err_set(err, ERR_INVALID, "'%s' must not contain '..'", name);
    }
    *ret_path = xasprintf("%s/%s", dir, name);
    return 0;
}

char *fs_dirname(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return xstrdup(".");
    return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}
