#include "daemon/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "daemon/config_hooks.h"
#include "text/schema.h"

enum { CONFIG_MAX = 1 << 20 };

struct raw {
    const char *state_dir, *run_dir, *socket, *profiles, *templates, *artefacts, *secrets;
    const char *nodeprobe, *kernel, *initrd, *interface, *log_level;
    int64_t boot_port;
    const struct ynode *notify;
};

#define TEXT(name, fallback_, help_)                                                               \
    {                                                                                              \
        .key = #name, .type = FIELD_TEXT, .offset = offsetof(struct raw, name),                    \
        .fallback = fallback_, .help = help_                                                       \
    }

static const struct field fields[] = {
    TEXT(state_dir, CLUSTERD_STATEDIR, "the folder of the database and the keys"),
    TEXT(run_dir, CLUSTERD_RUNDIR, "the folder of generated files"),
    TEXT(socket, CLUSTERD_RUNDIR "/api.sock", "the unix socket of the API"),
    TEXT(profiles, CLUSTERD_SYSCONFDIR "/profiles", "the folder of the site's own profiles"),
    TEXT(templates, CLUSTERD_DATADIR "/templates", "the folder of scripts and templates"),
    TEXT(artefacts, CLUSTERD_STATEDIR "/artefacts", "the folder of images, kernels and ramdisks"),
    TEXT(secrets, CLUSTERD_SYSCONFDIR, "the folder in which {file: NAME} is looked for"),
    TEXT(nodeprobe, CLUSTERD_LIBDIR "/nodeprobe", "the nodeprobe program that nodes get"),
    TEXT(kernel, "vmlinuz", "the artefact that is the ramdisk's kernel"),
    TEXT(initrd, "initrd.zst", "the artefact that is the ramdisk"),
    TEXT(interface, NULL, "the network interface for network boot"),
    TEXT(log_level, "info", "error, warn, info or debug"),
    {.key = "boot_port",
     .type = FIELD_INT,
     .offset = offsetof(struct raw, boot_port),
     .fallback = "8080",
     .min = 1,
     .max = 65535,
     .help = "the TCP port of the boot server"},
    {.key = "notify",
     .type = FIELD_LIST,
     .offset = offsetof(struct raw, notify),
     .help = "webhooks: a list of {name, url, events, secret, ca}"},
    {0}};

static void take(struct config *c, const struct raw *r)
{
    *c = (struct config){
        .state_dir = xstrdup(r->state_dir),
        .run_dir = xstrdup(r->run_dir),
        .socket = xstrdup(r->socket),
        .profiles = xstrdup(r->profiles),
        .templates = xstrdup(r->templates),
        .artefacts = xstrdup(r->artefacts),
        .secrets = xstrdup(r->secrets),
        .nodeprobe = xstrdup(r->nodeprobe),
        .kernel = xstrdup(r->kernel),
        .initrd = xstrdup(r->initrd),
        .interface = xstrdup(r->interface),
        .log_level = xstrdup(r->log_level),
        .boot_port = (int)r->boot_port,
    };
}

bool config_load(const char *path, struct config *ret, struct diags *d)
{
    char *text = NULL;
    size_t len = 0;
    struct err err = {0};
    if (path != NULL && fs_read(path, CONFIG_MAX, &text, &len, &err) < 0) {
        diags_add(d, DIAG_ERROR, path, 0, 0, "%s", err.text);
        return false;
    }
    static const char empty[] = "{}";
    struct ydoc *doc = ydoc_parse(path != NULL ? path : "defaults", text != NULL ? text : empty,
                                  text != NULL ? len : strlen(empty), d);
    struct raw raw = {0};
    bool ok = doc != NULL && schema_read(fields, ydoc_root(doc), "the configuration", &raw, d);
    if (ok) {
        take(ret, &raw);
        ok = config_hooks_read(raw.notify, ret, d);
        if (!ok)
            config_done(ret);
    }
    ydoc_free(doc);
    free(text);
    return ok;
}

void config_done(struct config *c)
{
    char **texts[] = {&c->state_dir, &c->run_dir,   &c->socket,    &c->profiles,
                      &c->templates, &c->artefacts, &c->secrets,   &c->nodeprobe,
                      &c->kernel,    &c->initrd,    &c->interface, &c->log_level};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        free(*texts[i]);
        *texts[i] = NULL;
    }
    config_hooks_done(c);
}
