/*
 * The daemon's own configuration, clusterd.yaml: where things are. What the cluster is, is in
 * specs.
 */
#pragma once

#include "model/spec.h"
#include "text/diag.h"

/* A webhook: a row of `notify`. */
struct config_hook {
    char *name;
    char *url;     /* http or https, without a password */
    char **events; /* globs of kinds; at least one */
    int event_count;
    struct secret_ref secret; /* SECRET_NONE: requests are not signed */
    char *ca;                 /* file of certificates; NULL: the system's */
};

struct config {
    char *state_dir; /* database and keys */
    char *run_dir;   /* generated files of dnsmasq */
    char *socket;    /* of the API */
    char *profiles;  /* site profiles, beside the shipped ones; may be absent */
    char *templates; /* scripts and templates */
    char *artefacts; /* images, kernels, ramdisks */
    char *secrets;   /* files that specs name by {file: NAME} */
    char *nodeprobe; /* the program that is copied to nodes */
    char *kernel;    /* artefact: the ramdisk's kernel */
    char *initrd;    /* artefact: the ramdisk */
    char *interface; /* for network boot; NULL: the one with an address in networks.provision */
    int boot_port;   /* of the boot HTTP listener */
    char *log_level;
    struct config_hook *hooks;
    int hook_count;
};

/* Defaults, changed by the file at `path` (NULL: the defaults alone). False with problems in d. */
bool config_load(const char *path, struct config *ret, struct diags *d);
void config_done(struct config *c);
