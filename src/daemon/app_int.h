/* What the files of the daemon share. */
#pragma once

#include "api/http.h"
#include "api/routes.h"
#include "daemon/app.h"
#include "daemon/files.h"
#include "daemon/notify.h"
#include "engine/engine.h"
#include "netboot/netboot.h"
#include "store/store.h"

struct app {
    struct loop *loop;
    const struct config *config;
    char *data_dir;
    struct files *files;
    struct secrets *secrets;
    struct store *store;
    struct bmc_hub *bmc_hub;
    struct remote_hub *remote_hub;
    struct engine *engine;
    struct netboot *netboot;
    uint32_t netboot_head;
    char *netboot_key;     /* what it was built from, to see when it must be built again */
    struct notify *notify; /* NULL: no webhooks */
    struct routes *routes;
    struct http_server *http; /* the API */
    struct http_server *boot; /* booting machines; NULL while there is no provisioning network */
    struct waiter *waiters;   /* work that waits until the artefacts are hashed */
    struct timer artefacts_timer;
    struct last *loading;
    bool failed;
    bool loaded; /* the engine knows what the store knows: doors may open */
};

/* netboot.c: makes the network boot side what the spec wants; app_netboot_open lets machines in. */
void app_netboot_apply(struct app *app, const struct spec *spec);
void app_netboot_open(struct app *app);
void app_netboot_stop(struct app *app);
bool app_artefact(const char *name, char sha256[65], void *user);
