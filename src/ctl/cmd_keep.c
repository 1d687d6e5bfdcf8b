/* audit and backup: what keeps the record of what happened. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "ctl/ctl.h"

static int audit_head(struct ctl *c)
{
    int rc = CTL_DONE;
    json_t *end = request(c, "GET", "/v1/audit/head", NULL, &rc);
    if (end == NULL)
        return rc;
    if (c->json)
        rc = print_json(end);
    else
        printf("%s  event %lld\n", text_of(end, "hash"),
               (long long)json_integer_value(json_object_get(end, "id")));
    json_decref(end);
    return rc;
}

static int audit_verify(struct ctl *c)
{
    int rc = CTL_DONE;
    char *path = with_query("/v1/audit/verify", "head", opt(c, "head"));
    json_t *report = request(c, "GET", path, NULL, &rc);
    free(path);
    if (report == NULL)
        return rc;
    bool intact = json_is_true(json_object_get(report, "intact"));
    const char *hash = text_of(json_object_get(report, "head"), "hash");
    if (c->json)
        (void)print_json(report);
    else if (intact)
        printf("%s; the head is %s\n", text_of(report, "text"), hash);
    else
        printf("BROKEN: %s\n", text_of(report, "text"));
    json_decref(report);
    return intact ? CTL_DONE : CTL_FAILED;
}

int cmd_audit(struct ctl *c)
{
    const char *what = c->argv[0];
    if (strcmp(what, "verify") == 0)
        return audit_verify(c);
    if (strcmp(what, "head") != 0)
        return complain(CTL_INPUT, "'audit %s' is unknown: use audit verify or audit head", what);
    if (opt(c, "head") != NULL)
        return complain(CTL_INPUT, "--head belongs to audit verify");
    return audit_head(c);
}

int cmd_backup(struct ctl *c)
{
    int rc = CTL_DONE;
    const char *file = c->argv[0];
    char *here = file[0] == '/' ? NULL : getcwd(NULL, 0);
    if (file[0] != '/' && here == NULL)
        return complain(CTL_FAILED, "the current folder is not known: give an absolute path");
    char *path = here != NULL ? xasprintf("%s/%s", here, file) : xstrdup(file);
    json_t *answer = request(c, "POST", "/v1/backup", json_pack("{s:s}", "path", path), &rc);
    free(path);
    free(here);
    if (answer == NULL)
        return rc;
    json_t *end = json_object_get(answer, "head");
    if (c->json)
        rc = print_json(answer);
    else
        printf("%s: %lld bytes in %.1f s, up to event %lld (%s)\n", text_of(answer, "path"),
               (long long)json_integer_value(json_object_get(answer, "size")),
               json_real_value(json_object_get(answer, "seconds")),
               (long long)json_integer_value(json_object_get(end, "id")), text_of(end, "hash"));
    json_decref(answer);
    return rc;
}
