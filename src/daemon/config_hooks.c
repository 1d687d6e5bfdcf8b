#include "daemon/config_hooks.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/spec_read.h"
#include "text/schema.h"

enum { NAME_MAX_LEN = 64, HOOKS_MAX = 64, URL_MAX = 2000 };

struct raw_hook {
    const struct ynode *name, *url, *events, *secret, *ca;
};

/* It stands in a header and in the database's key. */
static bool check_name(const struct ynode *n, struct strbuf *why)
{
    size_t len = strlen(n->text);
    bool ok = len > 0 && len <= NAME_MAX_LEN;
    for (const char *c = n->text; *c != '\0'; c++)
        ok = ok && (isalnum((unsigned char)*c) || strchr("._-", *c) != NULL);
    if (!ok)
        strbuf_addf(why, "1 to %d letters, digits, '.', '_' or '-'", (int)NAME_MAX_LEN);
    return ok;
}

/* The syntax is RFC 3986's; a password in it would be shown by errors and logs. */
static bool check_url(const struct ynode *n, struct strbuf *why)
{
    const char *rest = strncmp(n->text, "https://", 8) == 0  ? n->text + 8
                       : strncmp(n->text, "http://", 7) == 0 ? n->text + 7
                                                             : "";
    bool ok = strlen(n->text) <= URL_MAX;
    for (const char *c = n->text; *c != '\0'; c++)
        ok = ok && *c > ' ' && *c < 0x7f;
    size_t host = strcspn(rest, "/?#");
    if (!ok || host == 0) {
        strbuf_adds(why, "a URL that begins with http:// or https:// and names a host");
        return false;
    }
    if (memchr(rest, '@', host) != NULL) {
        strbuf_adds(why, "a URL without user and password: requests are signed, see 'secret'");
        return false;
    }
    return true;
}

static bool check_path(const struct ynode *n, struct strbuf *why)
{
    if (n->text[0] == '/')
        return true;
    strbuf_adds(why, "a full path");
    return false;
}

static bool check_globs(const struct ynode *n, struct strbuf *why)
{
    bool ok = n->kind == YNODE_SCALAR || n->count > 0;
    for (int i = 0; n->kind == YNODE_LIST && i < n->count; i++)
        ok = ok && n->items[i]->kind == YNODE_SCALAR && n->items[i]->text[0] != '\0';
    if (!ok)
        strbuf_adds(why, "one or more kinds of events, such as stage.failed or \"node.*\"");
    return ok;
}

static const struct field rows[] = {{.key = "name",
                                     .type = FIELD_SCALAR,
                                     .required = true,
                                     .offset = offsetof(struct raw_hook, name),
                                     .check = check_name,
                                     .help = "the hook's name, which does not change"},
                                    {.key = "url",
                                     .type = FIELD_SCALAR,
                                     .required = true,
                                     .offset = offsetof(struct raw_hook, url),
                                     .check = check_url,
                                     .help = "where events are posted to"},
                                    {.key = "events",
                                     .type = FIELD_TEXTS,
                                     .offset = offsetof(struct raw_hook, events),
                                     .check = check_globs,
                                     .help = "the kinds that are wanted; all when absent"},
                                    {.key = "secret",
                                     .type = FIELD_ANY,
                                     .offset = offsetof(struct raw_hook, secret),
                                     .help = "the key of the signatures, {file: NAME}"},
                                    {.key = "ca",
                                     .type = FIELD_SCALAR,
                                     .offset = offsetof(struct raw_hook, ca),
                                     .check = check_path,
                                     .help = "a file of certificates to trust, instead of the "
                                             "system's"},
                                    {0}};

static void read_globs(const struct ynode *n, struct config_hook *h)
{
    h->event_count = n != NULL && n->kind == YNODE_LIST ? n->count : 1;
    h->events = xcalloc((size_t)h->event_count, sizeof *h->events);
    if (n == NULL || n->kind == YNODE_SCALAR)
        h->events[0] = xstrdup(n != NULL ? n->text : "*");
    else
        for (int i = 0; i < n->count; i++)
            h->events[i] = xstrdup(n->items[i]->text);
}

static bool read_hook(const struct ynode *row, struct config *c, struct diags *d)
{
    struct raw_hook raw = {0};
    if (!schema_read(rows, row, "a row of notify", &raw, d))
        return false;
    for (int i = 0; i < c->hook_count; i++)
        if (strcmp(c->hooks[i].name, raw.name->text) == 0) {
            ynode_error(raw.name, d, "a second hook of the name '%s'", raw.name->text);
            return false;
        }
    struct config_hook *h = &c->hooks[c->hook_count++];
    h->name = xstrdup(raw.name->text);
    h->url = xstrdup(raw.url->text);
    h->ca = raw.ca != NULL ? xstrdup(raw.ca->text) : NULL;
    read_globs(raw.events, h);
    return raw.secret == NULL || read_secret(raw.secret, "a hook's secret", &h->secret, d);
}

bool config_hooks_read(const struct ynode *list, struct config *ret, struct diags *d)
{
    bool ok = true;
    if (list == NULL || list->count == 0)
        return true;
    if (list->count > HOOKS_MAX) {
        ynode_error(list, d, "%d hooks; %d are the most", list->count, (int)HOOKS_MAX);
        return false;
    }
    ret->hooks = xcalloc((size_t)list->count, sizeof *ret->hooks);
    for (int i = 0; i < list->count; i++)
        ok = read_hook(list->items[i], ret, d) && ok;
    return ok;
}

void config_hooks_done(struct config *c)
{
    for (int i = 0; i < c->hook_count; i++) {
        struct config_hook *h = &c->hooks[i];
        for (int j = 0; j < h->event_count; j++)
            free(h->events[j]);
        free(h->events);
        free(h->name);
        free(h->url);
        free(h->ca);
        free(h->secret.name);
    }
    free(c->hooks);
    c->hooks = NULL;
    c->hook_count = 0;
}
