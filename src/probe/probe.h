/*
 * nodeprobe: what this machine is made of, as one JSON object on stdout (docs/nodeprobe.md).
 *
 * Each file of the room adds one part. Nothing here ends the program: what cannot be read is left
 * out, and said in "problems" where somebody might miss it. All paths go through probe_read/_path,
 * so that `--root DIR` can show a recorded machine.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define PROBE_SCHEMA 1

struct probe {
    const char *root; /* "" : this machine */
    json_t *out, *problems;
};

void probe_problem(struct probe *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A file below root, trimmed, as text; NULL when absent or empty. At most 64 KiB. Caller frees. */
char *probe_read(const struct probe *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A file's bytes, at most `max`; NULL when absent. Caller frees. */
unsigned char *probe_bytes(const struct probe *p, size_t max, size_t *ret_len, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
bool probe_exists(const struct probe *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The last part of what a symbolic link points to; NULL when it is none. Caller frees. */
char *probe_link_name(const struct probe *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Sorted names in a directory, without dot files; NULL-terminated, never NULL. */
char **probe_list(const struct probe *p, const char *path);
void probe_list_free(char **names);

/* Sets a text member where there is one; takes `text` and makes it printable UTF-8. */
void probe_set_text(json_t *o, const char *key, char *text);
void probe_set_int(json_t *o, const char *key, char *text); /* takes; leaves no number out */

void probe_system(struct probe *p); /* system, board, firmware, boot_id, kernel */
void probe_cpu(struct probe *p);
void probe_memory(struct probe *p);
void probe_disks(struct probe *p);
void probe_nics(struct probe *p);
void probe_gpus(struct probe *p);
void probe_hcas(struct probe *p);
void probe_psus(struct probe *p);

/* One SMBIOS structure (DSP0134, section 6.1): its formatted part and its strings. */
struct smbios {
    unsigned type;
    const unsigned char *data;
    size_t len;
    const char *strings; /* a list of strings that ends with an empty one */
    size_t strings_len;
};
/* Calls fn for each structure of the table; stops at the first malformed one. */
void smbios_each(const unsigned char *table, size_t len,
                 void (*fn)(const struct smbios *s, void *user), void *user);
/* String number at `offset`, or NULL. Caller frees. */
char *smbios_string(const struct smbios *s, size_t offset);
unsigned smbios_u16(const struct smbios *s, size_t offset); /* 0 beyond the end */
unsigned long smbios_u32(const struct smbios *s, size_t offset);
