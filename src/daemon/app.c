#include "daemon/app.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fsutil.h"
#include "base/log.h"
#include "base/mem.h"
#include "bmc/bmc.h"
#include "daemon/app_int.h"
#include "remote/remote.h"

enum {
    BMC_OPS = 256,
    SSH_SESSIONS = 256,
    HASH_LOOK_MS = 50,
    HASH_WAIT_MS = 10 * 60000, /* afterwards the work goes on with what is known */
    API_BODY_MAX = 40 << 20,   /* a bundle of 16 MiB as JSON */
};

/* ---- callbacks of engine and routes ---- */

static bool find_file(const char *path, struct engine_file *ret, void *user)
{
    return files_find(((struct app *)user)->files, path, ret);
}

static int read_secret(const struct secret_ref *ref, char **ret_text, struct err *err, void *user)
{
    return secrets_read(((struct app *)user)->secrets, ref, ret_text, err);
}

static char *secret_path(const struct secret_ref *ref, void *user)
{
    return secrets_path(((struct app *)user)->secrets, ref);
}

static void secret_id(const char *text, char hex[65], void *user)
{
    secrets_id(((struct app *)user)->secrets, text, hex);
}

static void on_bmc_lock(const char *address, const char *credential_id, const char *reason,
                        void *user)
{
    struct app *app = user;
    struct store_bmc_lock row = {.address = address,
                                 .credential_hmac = credential_id,
                                 .reason = reason,
                                 .at = loop_wall(app->loop)};
    if (reason != NULL)
        store_put_bmc_lock(app->store, &row);
    else
        store_drop_bmc_lock(app->store, address);
}

static void restore_bmc_lock(const struct store_bmc_lock *row, void *user)
{
    bmc_hub_remember_lock(((struct app *)user)->bmc_hub, row->address, row->credential_hmac,
                          row->reason);
}

static struct spec *parse(const struct bundle *b, struct profiles **ret_profiles, struct diags *d,
                          void *user)
{
    struct app *app = user;
    struct bundle files;
    struct err err = {0};
    struct spec *spec = NULL;
    bundle_init(&files);
    if (files_profiles(app->files, &files, &err) < 0) {
        diags_add(d, DIAG_ERROR, "profiles", 0, 0, "%s", err.text);
    } else {
        *ret_profiles = profiles_parse(&files, d);
        spec = spec_parse(b, *ret_profiles, d);
        if (spec != NULL && d->errors > 0) {
            spec_free(spec);
            spec = NULL;
        }
        if (spec != NULL)
            spec_lint(spec, d);
    }
    bundle_done(&files);
    if (spec == NULL) {
        profiles_free(*ret_profiles);
        *ret_profiles = NULL;
    }
    return spec;
}

static void applied(void *user)
{
    struct app *app = user;
    app_netboot_apply(app, engine_spec(app->engine));
    app_netboot_open(app);
}

/* ---- waiting until the artefacts are hashed: digests are inputs of stages ---- */

struct waiter {
    struct waiter *next;
    void (*go)(void *arg);
    void *arg;
    int64_t until;
};

static bool hashing(const struct app *app)
{
    struct netboot_status s;
    if (app->netboot == NULL)
        return false;
    netboot_status(app->netboot, &s);
    return s.artefacts_hashing > 0;
}

static void look_at_hashing(void *user)
{
    struct app *app = user;
    int64_t now = loop_now(app->loop);
    struct waiter *list = app->waiters;
    bool busy = hashing(app);
    app->waiters = NULL;
    while (list != NULL) {
        struct waiter *w = list;
        list = w->next;
        if (busy && now < w->until) {
            w->next = app->waiters;
            app->waiters = w;
            continue;
        }
        w->go(w->arg);
        free(w);
    }
    if (app->waiters != NULL)
        timer_set(app->loop, &app->artefacts_timer, HASH_LOOK_MS, look_at_hashing, app);
}

static void when_hashed(struct app *app, void (*go)(void *arg), void *arg)
{
    struct waiter *w = xcalloc(1, sizeof *w);
    *w = (struct waiter){
        .next = app->waiters, .go = go, .arg = arg, .until = loop_now(app->loop) + HASH_WAIT_MS};
    app->waiters = w;
    timer_set(app->loop, &app->artefacts_timer, 0, look_at_hashing, app);
}

static void reload_files(struct app *app)
{
    struct err err = {0};
    if (files_reload(app->files, &err) < 0)
        log_error("templates.unread", "the scripts and templates stay as they were: %s", err.text);
    if (app->netboot != NULL)
        netboot_rescan(app->netboot);
}

static void refresh_for_apply(void (*go)(void *arg), void *arg, void *user)
{
    reload_files(user);
    when_hashed(user, go, arg);
}

static void refresh_engine(void *arg)
{
    engine_refresh(((struct app *)arg)->engine);
}

void app_refresh(struct app *app)
{
    if (!app->loaded)
        return;
    log_info("daemon.refresh", "reading secrets, scripts and artefacts again");
    reload_files(app);
    if (app->notify != NULL)
        notify_refresh(app->notify);
    when_hashed(app, refresh_engine, app);
}

/* ---- start ---- */

struct last {
    struct app *app;
    struct spec *spec;
    struct profiles *profiles;
    int64_t revision;
    struct err err;
};

static void parse_last(const struct store_revision *row, void *user)
{
    struct last *l = user;
    struct bundle b;
    struct diags d;
    json_t *files = json_loads(row->files, 0, NULL);
    bundle_init(&b);
    diags_init(&d);
    l->revision = row->id;
    if (bundle_from_json(&b, files, &l->err) == 0) {
        l->spec = parse(&b, &l->profiles, &d, l->app);
        if (l->spec == NULL) {
            diags_sort(&d);
            for (int i = 0; i < d.count; i++)
                log_error("spec.stored", "%s:%d:%d: %s", d.items[i].file, d.items[i].line,
                          d.items[i].column, d.items[i].text);
            (void)err_set(&l->err, ERR_INVALID,
                          "the spec that was applied last (revision %lld) cannot be read any more "
                          "(see above); nothing is done until its profiles are back",
                          (long long)row->id);
        }
    }
    json_decref(files);
    diags_done(&d);
    bundle_done(&b);
}

/* Listens, once the engine knows everything. */
static int open_doors(struct app *app, struct err *err)
{
    app->loaded = true;
    app_netboot_open(app);
    struct http_listen listen = {.unix_path = app->config->socket,
                                 .handle = routes_handle,
                                 .user = app->routes,
                                 .max_body = API_BODY_MAX};
    if (http_listen(app->http, &listen, NULL, err) < 0)
        return err_wrap(err, "API socket %s: ", app->config->socket);
    if (app->notify != NULL)
        notify_start(app->notify);
    log_info("daemon.ready", "clusterd " CLUSTERD_VERSION " listens on %s", app->config->socket);
    return 0;
}

static void load(void *arg)
{
    struct last *l = arg;
    struct app *app = l->app;
    app->loading = NULL;
    struct err err = {0};
    if (engine_load(app->engine, l->spec, l->profiles, l->revision, &err) < 0 ||
        open_doors(app, &err) < 0) {
        log_error("daemon.failed", "%s", err.text);
        app->failed = true;
        loop_stop(app->loop);
    }
    free(l);
}

static int begin_load(struct app *app, struct err *err)
{
    struct last *l = xcalloc(1, sizeof *l);
    l->app = app;
    int rc = store_last_revision(app->store, parse_last, l, err);
    if (rc == -ERR_NOT_FOUND) {
        err_clear(err);
        rc = 0;
    } else if (rc == 0 && l->err.code != ERR_OK) {
        *err = l->err;
        rc = -(int)err->code;
    }
    if (rc < 0) {
        free(l);
        return rc;
    }
    if (l->spec != NULL)
        app_netboot_apply(app, l->spec);
    app->loading = l;
    when_hashed(app, load, l);
    return 0;
}

static const char *cluster_name(void *user)
{
    const struct spec *spec = engine_spec(((struct app *)user)->engine);
    return spec != NULL ? spec->cluster : NULL;
}

static json_t *hooks_status(void *user)
{
    struct app *app = user;
    return app->notify != NULL ? notify_status(app->notify) : json_array();
}

static int build_notify(struct app *app, struct err *err)
{
    struct notify_config nc = {.loop = app->loop,
                               .store = app->store,
                               .hooks = app->config->hooks,
                               .hook_count = app->config->hook_count,
                               .cluster = cluster_name,
                               .secret = read_secret,
                               .user = app};
    if (nc.hook_count > 0 && (app->notify = notify_new(&nc, err)) == NULL)
        return -(int)err->code;
    return 0;
}

static int build(struct app *app, struct err *err)
{
    const struct config *c = app->config;
    char *shipped cleanup_free = xasprintf("%s/profiles", app->data_dir);
    char *key cleanup_free = xasprintf("%s/secret.key", c->state_dir);
    char *db cleanup_free = xasprintf("%s/clusterd.db", c->state_dir);
    const char *const profile_dirs[] = {shipped, c->profiles, NULL};
    if (fs_mkdirs(c->state_dir, 0700, err) < 0 || fs_mkdirs(c->run_dir, 0755, err) < 0)
        return -(int)err->code;
    app->files = files_new(c->templates, profile_dirs);
    if (files_reload(app->files, err) < 0 || secrets_new(c->secrets, key, &app->secrets, err) < 0 ||
        store_open(app->loop, db, &app->store, err) < 0)
        return -(int)err->code;
    struct bmc_hub_config hub = {
        .loop = app->loop, .max_ops = BMC_OPS, .on_lock = on_bmc_lock, .user = app};
    app->bmc_hub = bmc_hub_new(&hub, err);
    app->remote_hub = remote_hub_new(app->loop, SSH_SESSIONS, err);
    if (app->bmc_hub == NULL || app->remote_hub == NULL ||
        store_each_bmc_lock(app->store, restore_bmc_lock, app, err) < 0)
        return -(int)err->code;
    struct engine_config ec = {.loop = app->loop,
                               .store = app->store,
                               .bmc_hub = app->bmc_hub,
                               .remote_hub = app->remote_hub,
                               .file = find_file,
                               .secret = read_secret,
                               .secret_path = secret_path,
                               .secret_id = secret_id,
                               .artefact = app_artefact,
                               .user = app,
                               .nodeprobe_path = c->nodeprobe,
                               .templates_dir = c->templates};
    app->engine = engine_new(&ec);
    if (build_notify(app, err) < 0)
        return -(int)err->code;
    struct routes_config rc = {.loop = app->loop,
                               .engine = app->engine,
                               .store = app->store,
                               .parse = parse,
                               .applied = applied,
                               .refresh = refresh_for_apply,
                               .hooks = hooks_status,
                               .user = app};
    app->routes = routes_new(&rc);
    app->http = http_server_new(app->loop);
    return begin_load(app, err);
}

struct app *app_new(struct loop *loop, const struct config *config, const char *data_dir,
                    struct err *err)
{
    struct app *app = xcalloc(1, sizeof *app);
    app->loop = loop;
    app->config = config;
    app->data_dir = xstrdup(data_dir);
    if (build(app, err) < 0) {
        app_free(app);
        return NULL;
    }
    return app;
}

bool app_failed(const struct app *app)
{
    return app->failed;
}

void app_free(struct app *app)
{
    if (app == NULL)
        return;
    timer_cancel(&app->artefacts_timer);
    http_server_free(app->http);
    if (app->routes != NULL)
        app_netboot_stop(app);
    while (app->waiters != NULL) {
        struct waiter *w = app->waiters;
        app->waiters = w->next;
        free(w);
    }
    if (app->loading != NULL) {
        spec_free(app->loading->spec);
        profiles_free(app->loading->profiles);
        free(app->loading);
    }
    engine_free(app->engine);
    routes_free(app->routes);
    remote_hub_free(app->remote_hub);
    bmc_hub_free(app->bmc_hub);
    notify_free(app->notify);
    store_close(app->store);
    secrets_free(app->secrets);
    files_free(app->files);
    free(app->data_dir);
    free(app);
}
