#include "netboot/artefacts.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/map.h"
#include "base/mem.h"
#include "loop/work.h"

enum { FILES_MAX = 4096 };

struct hash_job {
    struct artefacts *owner; /* NULL: went away meanwhile */
    char *name, *path;
    int64_t size, mtime_ns; /* as they were after hashing */
    bool stable;            /* the same before and after */
    char sha256[DIGEST_HEX_SIZE];
    struct err err;
};

struct known {
    int64_t size, mtime_ns;
    char sha256[DIGEST_HEX_SIZE];
};

struct artefacts {
    struct loop *loop;
    char *dir;
    struct artefacts_hooks hooks;
    struct map *by_name; /* owns */
    struct map *known;   /* path -> struct known; owns */
    struct hash_job *job;
    unsigned scan;
    bool unreadable; /* said already */
};

bool artefact_name_valid(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len >= sizeof((struct artefact *)0)->name || name[0] == '.')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && strchr("._+-", name[i]) == NULL)
            return false;
    return true;
}

struct artefacts *artefacts_new(struct loop *loop, const char *dir,
                                const struct artefacts_hooks *hooks)
{
    struct artefacts *as = xcalloc(1, sizeof *as);
    as->loop = loop;
    as->dir = xstrdup(dir);
    as->hooks = *hooks;
    as->by_name = map_new();
    as->known = map_new();
    return as;
}

static void free_artefact(const char *key, void *value, void *user)
{
    struct artefact *a = value;
    (void)key;
    (void)user;
    free(a->path);
    free(a);
}

static void free_known(const char *key, void *value, void *user)
{
    (void)key;
    (void)user;
    free(value);
}

void artefacts_free(struct artefacts *as)
{
    if (as == NULL)
        return;
    if (as->job != NULL)
        as->job->owner = NULL;
    map_each(as->by_name, free_artefact, NULL);
    map_each(as->known, free_known, NULL);
    map_free(as->by_name);
    map_free(as->known);
    free(as->dir);
    free(as);
}

void artefacts_remember(struct artefacts *as, const char *path, int64_t size, int64_t mtime_ns,
                        const char *sha256)
{
    if (strlen(sha256) != DIGEST_HEX_SIZE - 1)
        return;
    struct known *k = xcalloc(1, sizeof *k);
    k->size = size;
    k->mtime_ns = mtime_ns;
    memcpy(k->sha256, sha256, sizeof k->sha256);
    free(map_set(as->known, path, k));
}

static void tell(struct artefacts *as, const char *kind, const char *name, const char *text)
{
    char line[400];
    (void)snprintf(line, sizeof line, "%s: %s", name, text);
    if (as->hooks.event != NULL)
        as->hooks.event(kind, line, as->hooks.user);
}

/* ---- hashing: one file at a time, for a disk is no faster with two readers ---- */

static int64_t mtime_of(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/* On a worker thread. */
static void hash_run(void *user)
{
    struct hash_job *job = user;
    struct stat before, after;
    if (stat(job->path, &before) < 0 || digest_file(job->path, job->sha256, &job->err) < 0 ||
        stat(job->path, &after) < 0) {
        if (job->err.code == ERR_OK)
            (void)err_set(&job->err, ERR_NOT_FOUND, "the file is gone");
        return;
    }
    job->size = after.st_size;
    job->mtime_ns = mtime_of(&after);
    job->stable = before.st_size == after.st_size && before.st_ino == after.st_ino &&
                  mtime_of(&before) == job->mtime_ns;
}

static void hash_next(struct artefacts *as);

static void hash_done(void *user)
{
    struct hash_job *job = user;
    struct artefacts *as = job->owner;
    struct artefact *a = as != NULL ? map_get(as->by_name, job->name) : NULL;
    if (as != NULL)
        as->job = NULL;
    if (a != NULL && job->err.code != ERR_OK) {
        a->queued = false;
        (void)snprintf(a->problem, sizeof a->problem, "%.150s", job->err.text);
        tell(as, "artefact.bad", a->name, a->problem);
    } else if (a != NULL && job->stable) {
        /* `a` may have been seen in a younger form since: then it stays queued */
        a->queued = a->size != job->size || a->mtime_ns != job->mtime_ns;
        if (!a->queued) {
            memcpy(a->sha256, job->sha256, sizeof a->sha256);
            artefacts_remember(as, a->path, a->size, a->mtime_ns, a->sha256);
            if (as->hooks.hashed != NULL)
                as->hooks.hashed(a, as->hooks.user);
            tell(as, "artefact.new", a->name, a->sha256);
        }
    } else if (a != NULL) {
        a->queued = false; /* it is being written: the next look queues it again */
        a->mtime_ns = 0;
    }
    free(job->name);
    free(job->path);
    free(job);
    if (as != NULL)
        hash_next(as);
}

static void find_queued(const char *key, void *value, void *user)
{
    struct artefact *a = value, **first = user;
    (void)key;
    if (*first == NULL && a->queued)
        *first = a;
}

static void hash_next(struct artefacts *as)
{
    struct artefact *a = NULL;
    if (as->job != NULL)
        return;
    map_each(as->by_name, find_queued, &a);
    if (a == NULL)
        return;
    struct hash_job *job = xcalloc(1, sizeof *job);
    job->owner = as;
    job->name = xstrdup(a->name);
    job->path = xstrdup(a->path);
    as->job = job;
    struct err err = {0};
    if (work_submit(as->loop, hash_run, hash_done, job, &err) < 0) {
        as->job = NULL; /* the next look tries again */
        free(job->name);
        free(job->path);
        free(job);
    }
}

/* ---- looking ---- */

static void look_at_file(struct artefacts *as, const char *name, const struct stat *st)
{
    struct artefact *a = map_get(as->by_name, name);
    if (a == NULL) {
        if (map_count(as->by_name) >= FILES_MAX)
            return;
        a = xcalloc(1, sizeof *a);
        (void)snprintf(a->name, sizeof a->name, "%.127s", name);
        a->path = xasprintf("%s/%s", as->dir, name);
        a->mtime_ns = -1;
        (void)map_set(as->by_name, name, a);
    }
    a->scan = as->scan;
    if (a->size == st->st_size && a->mtime_ns == mtime_of(st))
        return;
    a->size = st->st_size;
    a->mtime_ns = mtime_of(st);
    a->sha256[0] = a->problem[0] = '\0';
    const struct known *k = map_get(as->known, a->path);
    a->queued = k == NULL || k->size != a->size || k->mtime_ns != a->mtime_ns;
    if (!a->queued)
        memcpy(a->sha256, k->sha256, sizeof a->sha256);
}

struct gone {
    struct artefacts *as;
    struct artefact *first;
};

static void find_gone(const char *key, void *value, void *user)
{
    struct gone *g = user;
    struct artefact *a = value;
    (void)key;
    if (g->first == NULL && a->scan != g->as->scan)
        g->first = a;
}

static void drop_gone(struct artefacts *as)
{
    for (;;) {
        struct gone g = {.as = as};
        map_each(as->by_name, find_gone, &g);
        if (g.first == NULL)
            return;
        tell(as, "artefact.gone", g.first->name, "the file is gone");
        (void)map_remove(as->by_name, g.first->name);
        free_artefact(NULL, g.first, NULL);
    }
}

void artefacts_scan(struct artefacts *as)
{
    DIR *dir = opendir(as->dir);
    struct dirent *e;
    struct stat st;
    as->scan++;
    if (dir == NULL && !as->unreadable)
        tell(as, "artefact.bad", as->dir, "the directory of artefacts cannot be read");
    as->unreadable = dir == NULL;
    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (artefact_name_valid(e->d_name) && fstatat(dirfd(dir), e->d_name, &st, 0) == 0 &&
            S_ISREG(st.st_mode))
            look_at_file(as, e->d_name, &st);
    if (dir != NULL)
        (void)closedir(dir);
    drop_gone(as);
    hash_next(as);
}

/* ---- asking ---- */

int artefacts_find(struct artefacts *as, const char *name, const struct artefact **ret,
                   struct err *err)
{
    const struct artefact *a = name != NULL ? map_get(as->by_name, name) : NULL;
    if (a == NULL)
        return err_set(err, ERR_NOT_FOUND, "there is no artefact '%.100s' in %s",
                       name != NULL ? name : "", as->dir);
    if (a->problem[0] != '\0')
        return err_set(err, ERR_NOT_FOUND, "artefact '%s': %s", name, a->problem);
    if (a->sha256[0] == '\0')
        return err_set(err, ERR_BUSY, "artefact '%s' is being hashed", name);
    *ret = a;
    return 0;
}

const struct artefact *artefacts_open(struct artefacts *as, const char *sha256, const char *name)
{
    struct stat st;
    const struct artefact *a = map_get(as->by_name, name);
    if (a == NULL || a->sha256[0] == '\0' || strcmp(a->sha256, sha256) != 0)
        return NULL;
    if (stat(a->path, &st) == 0 && st.st_size == a->size && mtime_of(&st) == a->mtime_ns)
        return a;
    artefacts_scan(as); /* it was replaced; it gets a new digest and so another address */
    return NULL;
}

struct count {
    int ready, hashing;
};

static void count_each(const char *key, void *value, void *user)
{
    const struct artefact *a = value;
    struct count *c = user;
    (void)key;
    c->ready += a->sha256[0] != '\0';
    c->hashing += a->sha256[0] == '\0' && a->problem[0] == '\0';
}

int artefacts_count(const struct artefacts *as, int *ret_hashing)
{
    struct count c = {0, 0};
    map_each(as->by_name, count_each, &c);
    *ret_hashing = c.hashing;
    return c.ready;
}
