/* Asking the daemon, and saying what went wrong. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ctl/ctl.h"

struct clusterd *client_of(struct ctl *c)
{
    if (c->client == NULL) {
        c->client = clusterd_open(c->socket);
        clusterd_set_stop(c->client, &interrupted);
        if (c->patience_ms > 0)
            clusterd_set_timeout(c->client, c->patience_ms);
    }
    return c->client;
}

int print_problems(FILE *to, const json_t *problems)
{
    size_t i;
    json_t *p;
    int errors = 0;
    json_array_foreach(problems, i, p)
    {
        bool error = strcmp(text_of(p, "level"), "error") == 0;
        errors += error;
        (void)fprintf(to, "%s:%d:%d: %s%s\n", text_of(p, "file"),
                      (int)json_integer_value(json_object_get(p, "line")),
                      (int)json_integer_value(json_object_get(p, "column")),
                      error ? "" : "warning: ", text_of(p, "text"));
    }
    return errors;
}

json_t *request(struct ctl *c, const char *method, const char *path, json_t *body, int *ret_code)
{
    struct clusterd_error error = {0};
    json_t *answer = NULL;
    int rc = clusterd_call(client_of(c), method, path, body, &answer, &error);
    json_decref(body);
    if (rc == 0)
        return answer;
    const json_t *whole = clusterd_last_error(client_of(c));
    (void)print_problems(stderr, json_object_get(json_object_get(whole, "error"), "problems"));
    *ret_code = complain(error.exit_code, "%s", error.text);
    return NULL;
}

char *with_query(const char *path, const char *name, const char *value)
{
    if (value == NULL)
        return xstrdup(path);
    char *escaped = clusterd_escape(value);
    char *whole =
        xasprintf("%s%c%s=%s", path, strchr(path, '?') != NULL ? '&' : '?', name, escaped);
    free(escaped);
    return whole;
}
