/* Reading below the root, and small JSON helpers. */
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "probe/probe.h"

enum { TEXT_MAX = 64 * 1024, NAMES_MAX = 10000 };

void probe_problem(struct probe *p, const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)json_array_append_new(p->problems, json_string(text));
}

static void path_of(const struct probe *p, char *buf, size_t size, const char *fmt, va_list ap)
{
    int n = snprintf(buf, size, "%s", p->root);
    if (n >= 0 && (size_t)n < size)
        (void)vsnprintf(buf + n, size - (size_t)n, fmt, ap);
}

static unsigned char *read_all(const char *path, size_t max, size_t *ret_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    unsigned char *data = xcalloc(1, max + 1);
    size_t len = 0;
    ssize_t n;
    while (len < max && (n = read(fd, data + len, max - len)) > 0)
        len += (size_t)n;
    (void)close(fd);
    data[len] = '\0';
    *ret_len = len;
    return data;
}

char *probe_read(const struct probe *p, const char *fmt, ...)
{
    char path[512];
    va_list ap;
    va_start(ap, fmt);
    path_of(p, path, sizeof path, fmt, ap);
    va_end(ap);
    size_t len;
    char *text = (char *)read_all(path, TEXT_MAX, &len);
    if (text == NULL)
        return NULL;
    while (len > 0 && (unsigned char)text[len - 1] <= ' ')
        text[--len] = '\0';
    size_t skip = strspn(text, " \t\n");
    if (len <= skip) {
        free(text);
        return NULL;
    }
    char *copy = xstrdup(text + skip);
    free(text);
    return copy;
}

unsigned char *probe_bytes(const struct probe *p, size_t max, size_t *ret_len, const char *fmt, ...)
{
    char path[512];
    va_list ap;
    va_start(ap, fmt);
    path_of(p, path, sizeof path, fmt, ap);
    va_end(ap);
    return read_all(path, max, ret_len);
}

bool probe_exists(const struct probe *p, const char *fmt, ...)
{
    char path[512];
    va_list ap;
    va_start(ap, fmt);
    path_of(p, path, sizeof path, fmt, ap);
    va_end(ap);
    return access(path, F_OK) == 0;
}

char *probe_link_name(const struct probe *p, const char *fmt, ...)
{
    char path[512], target[512];
    va_list ap;
    va_start(ap, fmt);
    path_of(p, path, sizeof path, fmt, ap);
    va_end(ap);
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return NULL;
    target[n] = '\0';
    const char *slash = strrchr(target, '/');
    return xstrdup(slash != NULL ? slash + 1 : target);
}

static int by_name(const void *a, const void *b)
{
    /* nvme2 before nvme10 */
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

char **probe_list(const struct probe *p, const char *path)
{
    char full[512];
    (void)snprintf(full, sizeof full, "%s%s", p->root, path);
    char **names = NULL;
    int count = 0, capacity = 0;
    DIR *dir = opendir(full);
    struct dirent *e;
    while (dir != NULL && count < NAMES_MAX && (e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.')
            continue;
        ARRAY_GROW(names, count, capacity);
        names[count++] = xstrdup(e->d_name);
    }
    if (dir != NULL)
        (void)closedir(dir);
    if (count > 0)
        qsort(names, (size_t)count, sizeof *names, by_name);
    ARRAY_GROW(names, count, capacity);
    names[count] = NULL;
    return names;
}

void probe_list_free(char **names)
{
    for (int i = 0; names[i] != NULL; i++)
        free(names[i]);
    free(names);
}

void probe_set_text(json_t *o, const char *key, char *text)
{
    if (text == NULL)
        return;
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
    size_t len = strlen(text);
    while (len > 0 && text[len - 1] == ' ')
        text[--len] = '\0';
    if (len > 0)
        (void)json_object_set_new(o, key, json_string(text));
    free(text);
}

void probe_set_int(json_t *o, const char *key, char *text)
{
    if (text == NULL)
        return;
    char *end;
    long long value = strtoll(text, &end, 0);
    if (end != text)
        (void)json_object_set_new(o, key, json_integer(value));
    free(text);
}
