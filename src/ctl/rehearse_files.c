/* What is written into a rehearsal's folder: nothing of it is the user's own but names and sizes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/digest.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "ctl/rehearse.h"

enum {
    MB = 1000000,
    KERNEL_BYTES = 12 * MB, /* where there are no artefacts to look at: Debian's kernel, ... */
    INITRD_BYTES = 64 * MB,
    READABLE_NODES = 4000,
    STAND_IN = 4096, /* bytes that are served in place of each artefact */
    SEED = 32,
    PASSWORD_BYTES = 8
};
static const int64_t IMAGE_BYTES = 4000LL * MB;

/* ---- secrets ---- */

static int hex_digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* A new ed25519 key as PKCS#8 (RFC 8410, section 7): a fixed head and the seed. */
static int write_key(const struct rehearse *r)
{
    static const unsigned char head[] = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                                         0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};
    unsigned char der[sizeof head + SEED];
    char hex[2 * SEED + 1], text[4 * sizeof der / 3 + 1];
    random_hex(SEED, hex);
    memcpy(der, head, sizeof head);
    for (int i = 0; i < SEED; i++)
        der[sizeof head + (size_t)i] =
            (unsigned char)(hex_digit(hex[2 * i]) << 4 | hex_digit(hex[2 * i + 1]));
    base64_encode(der, sizeof der, text);
    char *pem = xasprintf("-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n", text);
    int rc = host_write(&r->host, "secrets/" REHEARSAL_KEY_FILE, pem, strlen(pem));
    free(pem);
    return rc;
}

/* ---- artefacts ---- */

static int64_t size_of(const char *dir, const char *name)
{
    struct stat st;
    char *path = xasprintf("%s/%s", dir, name);
    int rc = stat(path, &st);
    free(path);
    return rc == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : 0;
}

static int stand_in(struct rehearse *r, const char *name)
{
    char hex[2 * STAND_IN + 1];
    random_hex(STAND_IN / 2, hex);
    char *path = xasprintf("artefacts/%s", name);
    int rc = host_write(&r->host, path, hex, STAND_IN);
    free(path);
    return rc;
}

static int64_t add_size(struct rehearse *r, const char *kind, const char *name, int64_t found,
                        int64_t assumed)
{
    int64_t bytes = found > 0 ? found : assumed;
    (void)json_array_append_new(r->sizes,
                                json_pack("{s:s,s:s,s:I,s:b}", "kind", kind, "file", name, "bytes",
                                          (json_int_t)bytes, "assumed", found == 0));
    return bytes;
}

/* Images by name, once each; their sizes go into `images`. */
static int write_artefacts(struct rehearse *r, struct rehearsal *m, json_t *images)
{
    const char *dir = opt(r->c, "artefacts");
    dir = dir != NULL ? dir : CLUSTERD_STATEDIR "/artefacts";
    r->sizes = json_array();
    m->kernel_bytes = add_size(r, "kernel", "vmlinuz", size_of(dir, "vmlinuz"), KERNEL_BYTES);
    m->initrd_bytes = add_size(r, "initrd", "initrd.zst", size_of(dir, "initrd.zst"), INITRD_BYTES);
    m->image_bytes = IMAGE_BYTES;
    int rc = stand_in(r, "vmlinuz");
    if (rc == CTL_DONE)
        rc = stand_in(r, "initrd.zst");
    if (rc == CTL_DONE)
        rc = stand_in(r, "nodeprobe"); /* simulated machines have answers of their own */
    for (int i = 0; i < r->spec->class_count && rc == CTL_DONE; i++) {
        const json_t *install = r->spec->classes[i].profile->install;
        const char *image = json_string_value(json_object_get(install, "image"));
        if (image == NULL || image[0] == '/' || strstr(image, "..") != NULL ||
            json_object_get(images, image) != NULL)
            continue;
        int64_t bytes = add_size(r, "image", image, size_of(dir, image), IMAGE_BYTES);
        (void)json_object_set_new(images, image, json_integer(bytes));
        rc = stand_in(r, image);
    }
    return rc;
}

/* ---- settings ---- */

static void add_path(struct strbuf *sb, const char *key, const char *dir, const char *below)
{
    char *path = xasprintf("%s%s", dir, below);
    json_t *text = json_string(path);
    char *quoted = json_dumps(text, JSON_ENCODE_ANY); /* JSON's texts are YAML's */
    strbuf_addf(sb, "%s: %s\n", key, quoted != NULL ? quoted : "''");
    free(quoted);
    json_decref(text);
    free(path);
}

static int write_settings(struct rehearse *r)
{
    static const struct {
        const char *key, *below;
    } ours[] = {{"state_dir", "/state"}, {"run_dir", "/run"},
                {"socket", "/api.sock"}, {"artefacts", "/artefacts"},
                {"secrets", "/secrets"}, {"nodeprobe", "/artefacts/nodeprobe"}};
    const char *site = opt(r->c, "profiles");
    struct strbuf sb;
    strbuf_init(&sb, 65536);
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        add_path(&sb, ours[i].key, r->host.dir, ours[i].below);
    add_path(&sb, "profiles", site != NULL ? site : CLUSTERD_SYSCONFDIR "/profiles", "");
    strbuf_addf(&sb, "boot_port: %d\nlog_level: warn\n", r->port + PORT_BOOT);
    int rc = host_write(&r->host, "clusterd.yaml", sb.data, sb.len);
    strbuf_done(&sb);
    return rc;
}

/* data/profiles and data/templates, for --data: links to where they are. */
static int link_data(struct rehearse *r)
{
    static const char *const names[] = {"profiles", "templates"};
    struct err err = {0};
    char *dir = host_path(&r->host, "data");
    int rc = fs_mkdirs(dir, 0700, &err) == 0 ? CTL_DONE : complain(CTL_FAILED, "%s", err.text);
    for (size_t i = 0; i < ARRAY_LEN(names) && rc == CTL_DONE; i++) {
        char *from = data_path(i == 1 ? opt(r->c, "templates") : NULL, names[i]);
        char *to = xasprintf("%s/%s", dir, names[i]), full[4096];
        if (realpath(from, full) == NULL)
            rc = complain(CTL_INPUT,
                          "%s: %s: say where the shipped files are with "
                          "CLUSTERD_DATADIR",
                          from, strerror(errno));
        else if (symlink(full, to) != 0)
            rc = complain(CTL_FAILED, "%s: %s", to, strerror(errno));
        free(to);
        free(from);
    }
    free(dir);
    return rc;
}

/* ---- all ---- */

static int write_json(struct rehearse *r, const char *name, json_t *json)
{
    /* the private daemon takes a spec of 4 MiB */
    bool large = r->spec->node_count > READABLE_NODES;
    char *text = json_dumps(json, large ? JSON_COMPACT : JSON_INDENT(1));
    json_decref(json);
    int rc = text != NULL ? host_write(&r->host, name, text, strlen(text))
                          : complain(CTL_FAILED, "%s cannot be written", name);
    free(text);
    return rc;
}

static int write_answers(struct rehearse *r)
{
    const char *name;
    json_t *answers = rehearsal_answers(r->spec, r->figures), *text;
    struct err err = {0};
    char *dir = host_path(&r->host, "answers");
    int rc = fs_mkdirs(dir, 0700, &err) == 0 ? CTL_DONE : complain(CTL_FAILED, "%s", err.text);
    json_object_foreach(answers, name, text)
    {
        char *path = xasprintf("answers/%s", name);
        if (rc == CTL_DONE)
            rc = host_write(&r->host, path, json_string_value(text), json_string_length(text));
        free(path);
    }
    json_decref(answers);
    free(dir);
    return rc;
}

int rehearse_write(struct rehearse *r)
{
    char password[2 * PASSWORD_BYTES + 1];
    random_hex(PASSWORD_BYTES, password);
    json_t *images = json_object();
    struct rehearsal m = {.bmc_port = r->port + PORT_BMC,
                          .ssh_port = r->port + PORT_SSH,
                          .password = password,
                          .images = images,
                          .uplink_mb_s = r->uplink_mb_s,
                          .history = r->history};
    int rc = host_write(&r->host, "secrets/" REHEARSAL_PASSWORD_FILE, password, strlen(password));
    if (rc == CTL_DONE)
        rc = write_key(r);
    if (rc == CTL_DONE)
        rc = write_artefacts(r, &m, images);
    if (rc == CTL_DONE)
        rc = write_json(r, "spec.yaml", rehearsal_spec(r->spec, &m));
    if (rc == CTL_DONE)
        rc = write_json(r, "fleet.json", rehearsal_fleet(r->spec, &m, r->notes));
    if (rc == CTL_DONE)
        rc = write_answers(r);
    if (rc == CTL_DONE)
        rc = write_settings(r);
    if (rc == CTL_DONE)
        rc = link_data(r);
    json_decref(images);
    return rc;
}
