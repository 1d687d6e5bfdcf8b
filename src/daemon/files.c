#include "daemon/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "base/fsutil.h"
#include "base/map.h"
#include "base/mem.h"

enum { FILE_MAX = 1 << 20, DEPTH_MAX = 4, SECRET_MAX = 16384, KEY_BYTES = 32 };

struct entry {
    char *text;
    size_t len;
    char sha256[DIGEST_HEX_SIZE];
};

struct files {
    char *templates;
    char **profiles;
    int profile_dirs;
    struct map *by_path;
};

static void entry_free(const char *key, void *value, void *user)
{
    struct entry *e = value;
    (void)key;
    (void)user;
    free(e->text);
    free(e);
}

struct files *files_new(const char *templates, const char *const *profiles)
{
    struct files *f = xcalloc(1, sizeof *f);
    f->templates = xstrdup(templates);
    int capacity = 0;
    for (int i = 0; profiles[i] != NULL; i++) {
        ARRAY_GROW(f->profiles, f->profile_dirs, capacity);
        f->profiles[f->profile_dirs++] = xstrdup(profiles[i]);
    }
    f->by_path = map_new();
    return f;
}

void files_free(struct files *f)
{
    if (f == NULL)
        return;
    map_each(f->by_path, entry_free, NULL);
    map_free(f->by_path);
    for (int i = 0; i < f->profile_dirs; i++)
        free(f->profiles[i]);
    free(f->profiles);
    free(f->templates);
    free(f);
}

static int load_dir(struct map *to, const char *dir, const char *prefix, int depth, struct err *err)
{
    DIR *d = opendir(dir);
    if (d == NULL)
        return err_sys(err, errno, "%s", dir);
    int rc = 0;
    struct dirent *entry;
    while (rc == 0 && (entry = readdir(d)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        char *path = xasprintf("%s/%s", dir, entry->d_name);
        char *name = xasprintf("%s%s%s", prefix, prefix[0] ? "/" : "", entry->d_name);
        struct stat st;
        if (stat(path, &st) < 0) {
            rc = err_sys(err, errno, "%s", path);
        } else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX) {
            rc = load_dir(to, path, name, depth + 1, err);
        } else if (S_ISREG(st.st_mode)) {
            struct entry *e = xcalloc(1, sizeof *e);
            rc = fs_read(path, FILE_MAX, &e->text, &e->len, err);
            if (rc == 0) {
                digest_hex(e->text, e->len, e->sha256);
                (void)map_set(to, name, e);
            } else {
                free(e);
            }
        }
        free(path);
        free(name);
    }
    (void)closedir(d);
    return rc;
}

int files_reload(struct files *f, struct err *err)
{
    struct map *fresh = map_new();
    int rc = load_dir(fresh, f->templates, "", 0, err);
    struct map *old = rc == 0 ? f->by_path : fresh;
    if (rc == 0)
        f->by_path = fresh;
    map_each(old, entry_free, NULL);
    map_free(old);
    return rc;
}

bool files_find(const struct files *f, const char *path, struct engine_file *ret)
{
    const struct entry *e = map_get(f->by_path, path);
    if (e != NULL)
        *ret = (struct engine_file){.text = e->text, .len = e->len, .sha256 = e->sha256};
    return e != NULL;
}

static int is_yaml(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 5 && strcmp(entry->d_name + n - 5, ".yaml") == 0;
}

int files_profiles(const struct files *f, struct bundle *b, struct err *err)
{
    for (int i = 0; i < f->profile_dirs; i++) {
        struct dirent **names;
        int count = scandir(f->profiles[i], &names, is_yaml, alphasort);
        if (count < 0 && errno == ENOENT && i > 0)
            continue; /* a site need not have profiles of its own */
        if (count < 0)
            return err_sys(err, errno, "%s", f->profiles[i]);
        int rc = 0;
        for (int j = 0; j < count; j++) {
            char *path = xasprintf("%s/%s", f->profiles[i], names[j]->d_name), *text;
            size_t len;
            if (rc == 0 && (rc = fs_read(path, FILE_MAX, &text, &len, err)) == 0) {
                bundle_add(b, path, text, len);
                free(text);
            }
            free(path);
            free(names[j]);
        }
        free(names);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- secrets ---- */

struct secrets {
    char *dir;
    char key[2 * KEY_BYTES + 1];
};

int secrets_new(const char *dir, const char *key_path, struct secrets **ret, struct err *err)
{
    struct secrets *s = xcalloc(1, sizeof *s);
    s->dir = xstrdup(dir);
    char *text = NULL;
    size_t len = 0;
    int rc = fs_read(key_path, sizeof s->key - 1, &text, &len, err);
    if (rc == 0 && len == sizeof s->key - 1) {
        memcpy(s->key, text, sizeof s->key);
    } else if (rc == -ERR_NOT_FOUND) {
        random_hex(KEY_BYTES, s->key);
        rc = fs_write_atomic(key_path, s->key, sizeof s->key - 1, 0600, err);
    } else if (rc == 0) {
        rc = err_set(err, ERR_INVALID, "%s is damaged: %zu bytes instead of %zu", key_path, len,
                     sizeof s->key - 1);
    }
    if (text != NULL)
        mem_wipe_free(text, len);
    if (rc < 0) {
        secrets_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void secrets_free(struct secrets *s)
{
    if (s == NULL)
        return;
    free(s->dir);
    mem_wipe_free(s, sizeof *s);
}

char *secrets_path(const struct secrets *s, const struct secret_ref *ref)
{
    return ref->name[0] == '/' ? xstrdup(ref->name) : xasprintf("%s/%s", s->dir, ref->name);
}

int secrets_read(const struct secrets *s, const struct secret_ref *ref, char **ret_text,
                 struct err *err)
{
    if (ref->kind == SECRET_ENV) {
        const char *value = getenv(ref->name);
        if (value == NULL)
            return err_set(err, ERR_NOT_FOUND,
                           "the daemon's environment has no %s (named by {env: %s})", ref->name,
                           ref->name);
        *ret_text = xstrdup(value);
        return 0;
    }
    if (ref->kind != SECRET_FILE)
        return err_set(err, ERR_NOT_FOUND, "no secret is named");
    char *path cleanup_free = secrets_path(s, ref);
    size_t len;
    if (fs_read(path, SECRET_MAX, ret_text, &len, err) < 0)
        return err_wrap(err, "secret: ");
    while (len > 0 && ((*ret_text)[len - 1] == '\n' || (*ret_text)[len - 1] == '\r'))
        (*ret_text)[--len] = '\0';
    return 0;
}

void secrets_id(const struct secrets *s, const char *text, char hex[65])
{
    digest_hmac_hex(s->key, strlen(s->key), text, strlen(text), hex);
}
