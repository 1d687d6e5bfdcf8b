/* Specs with the files that they name, and where profiles and templates are. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "ctl/ctl.h"
#include "model/spec.h"

enum { FILE_MAX = 16 << 20 };

static bool add_file(struct bundle *b, const char *path, const char *as)
{
    char *text;
    size_t len;
    struct err err = {0};
    if (fs_read(path, FILE_MAX, &text, &len, &err) < 0) {
        (void)complain(CTL_INPUT, "%s", err.text);
        return false;
    }
    bundle_add(b, as, text, len);
    free(text);
    return true;
}

json_t *load_spec(const char *path)
{
    struct bundle b;
    bundle_init(&b);
    bool ok = add_file(&b, path, path);
    char *dir = fs_dirname(path);
    char **wants = ok ? spec_wants(&b) : NULL;
    for (int i = 0; wants != NULL && wants[i] != NULL && ok; i++) {
        char *full = wants[i][0] == '/' ? xstrdup(wants[i]) : xasprintf("%s/%s", dir, wants[i]);
        /* a missing one is told with its place in the spec */
        if (access(full, R_OK) == 0)
            ok = add_file(&b, full, wants[i]);
        free(full);
    }
    spec_wants_free(wants);
    free(dir);
    json_t *body = NULL;
    if (ok) {
        json_t *files = bundle_to_json(&b);
        if (files == NULL || json_object_size(json_array_get(files, 0)) < 2)
            (void)complain(CTL_INPUT, "%s is no UTF-8 text", path);
        else
            body = json_pack("{s:O}", "files", files);
        json_decref(files);
    }
    bundle_done(&b);
    return body;
}

char *data_path(const char *option, const char *what)
{
    if (option != NULL)
        return xstrdup(option);
    const char *env = getenv("CLUSTERD_DATADIR");
    if (env != NULL && env[0] != '\0')
        return xasprintf("%s/%s", env, what);
    char *installed = xasprintf("%s/%s", CLUSTERD_DATADIR, what);
    if (access(installed, R_OK) == 0 || access(what, R_OK) != 0)
        return installed;
    free(installed);
    return xstrdup(what);
}
