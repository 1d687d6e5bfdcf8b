/*
 * The daemon's files: scripts and templates with their digests, profiles, and secrets.
 */
#pragma once

#include <stdbool.h>

#include "engine/engine.h"
#include "model/bundle.h"

struct files;

/* templates: the folder of scripts and templates; profiles: the folders of NAME.yaml, later ones
 * win. */
struct files *files_new(const char *templates, const char *const *profiles);
void files_free(struct files *f);
/* Reads the templates again. Texts handed out before are gone. */
int files_reload(struct files *f, struct err *err);
bool files_find(const struct files *f, const char *path, struct engine_file *ret);
/* All profiles as a bundle that the model can parse. */
int files_profiles(const struct files *f, struct bundle *b, struct err *err);

struct secrets;

/* dir: where relative names are looked for; key_path: the key of secrets_id(), made when absent. */
int secrets_new(const char *dir, const char *key_path, struct secrets **ret, struct err *err);
void secrets_free(struct secrets *s);
/* The secret itself, without a final newline. The caller wipes and frees. */
int secrets_read(const struct secrets *s, const struct secret_ref *ref, char **ret_text,
                 struct err *err);
/* Full path of a file reference. The caller frees. */
char *secrets_path(const struct secrets *s, const struct secret_ref *ref);
/* A keyed hash that tells two secrets apart and is safe to store. */
void secrets_id(const struct secrets *s, const char *text, char hex[65]);
