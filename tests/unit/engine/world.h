/* What the engine's tests share: a database and a virtual clock of their own, and a cluster out of
 * texts. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/engine.h"

/* "2025-12-01 00:00:00" */
#define WORLD_BEGINS 1764547200000LL

/* `profiles`: texts, NULL at the end. The test fails where there is a mistake. */
static inline struct spec *world_parse(const char *const *profiles, const char *text,
                                       struct profiles **ret_profiles)
{
    struct bundle files, spec;
    struct diags d;
    bundle_init(&files);
    bundle_init(&spec);
    diags_init(&d);
    for (int i = 0; profiles[i] != NULL; i++) {
        char name[24], *file;
        assert_non_null(strstr(profiles[i], "profile: "));
        assert_int_equal(sscanf(strstr(profiles[i], "profile: "), "profile: %23s", name), 1);
        file = xasprintf("%s.yaml", name);
        bundle_add(&files, file, profiles[i], strlen(profiles[i]));
        free(file);
    }
    bundle_add(&spec, "s.yaml", text, strlen(text));
    *ret_profiles = profiles_parse(&files, &d);
    struct spec *s = spec_parse(&spec, *ret_profiles, &d);
    if (s == NULL)
        fail_msg("%s", d.count > 0 ? d.items[0].text : "?");
    diags_done(&d);
    bundle_done(&files);
    bundle_done(&spec);
    return s;
}

/* Every script is there; every password is "pw"; every image has one digest. */
static inline bool world_file(const char *path, struct engine_file *ret, void *user)
{
    (void)path;
    (void)user;
    *ret = (struct engine_file){"x", 1, "1111"};
    return true;
}

static inline int world_secret(const struct secret_ref *ref, char **ret, struct err *err,
                               void *user)
{
    (void)ref;
    (void)err;
    (void)user;
    *ret = xstrdup("pw");
    return 0;
}

static inline void world_secret_id(const char *text, char hex[65], void *user)
{
    (void)text;
    (void)user;
    (void)snprintf(hex, 65, "c1");
}

static inline bool world_artefact(const char *name, char sha[65], void *user)
{
    (void)name;
    (void)user;
    (void)snprintf(sha, 65, "abcd");
    return true;
}

/* A new name in `db`, which ends in six letters for it. */
static inline void world_new_db(char *db)
{
    memcpy(db + strlen(db) - 6, "XXXXXX", 6);
    int fd = mkstemp(db);
    assert_true(fd >= 0);
    (void)close(fd);
}

static inline void world_remove_db(const char *db)
{
    static const char *const ends[] = {"", "-wal", "-shm", ".lock"};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        char *path = xasprintf("%s%s", db, ends[i]);
        (void)unlink(path);
        free(path);
    }
}
