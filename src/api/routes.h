/*
 * The API's routes: a table of method, path pattern, role and handler, answered on the loop.
 *
 * The daemon passes every request of the API listener to routes_handle() and every request of the
 * boot listener to routes_boot().
 */
#pragma once

#include "api/http.h"
#include "engine/engine.h"
#include "netboot/netboot.h"
#include "store/store.h"

struct routes;

struct routes_config {
    struct loop *loop;
    struct engine *engine;
    struct store *store;
    /* Parses the files of an apply against the profiles as they are on disk now. On success the
     * caller owns both; otherwise problems are in `d`. */
    struct spec *(*parse)(const struct bundle *b, struct profiles **ret_profiles, struct diags *d,
                          void *user);
    /* Called after a spec was applied: the network boot side may have to change. */
    void (*applied)(void *user);
    /* Called before plan and apply: scripts and artefacts are read again, then go(arg). */
    void (*refresh)(void (*go)(void *arg), void *arg, void *user);
    /* The webhooks, for the status. */
    json_t *(*hooks)(void *user);
    void *user;
};

struct routes *routes_new(const struct routes_config *config);
void routes_free(struct routes *r);
void routes_set_netboot(struct routes *r, struct netboot *nb);

void routes_handle(struct http_request *req, void *routes);
void routes_boot(struct http_request *req, void *routes);
