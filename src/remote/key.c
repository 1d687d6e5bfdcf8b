/*
 * Two formats are read: OpenSSH's own ("openssh-key-v1", what ssh-keygen writes) and PKCS#8 as
 * `openssl genpkey -algorithm ed25519` writes it. Whatever was read is written anew in OpenSSH's
 * format for libssh2, so that the login has one path that is tested, and files with odd line ends
 * work. Buffers that held private bytes are of fixed size and wiped: nothing that grows by copying.
 */
#include "remote/key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/digest.h"
#include "base/mem.h"

#define REMEDY "make one with: ssh-keygen -t ed25519 -N ''"
#define MAGIC "openssh-key-v1" /* with its NUL */
#define TYPE "ssh-ed25519"

enum { SEED = 32, PRIVATE_TEXT_MAX = 512 };

struct remote_key {
    char private_text[PRIVATE_TEXT_MAX];
    char public_line[sizeof TYPE + 1 + BASE64_SIZE(KEY_PUBLIC_BLOB)];
};

/* ---- a reader over SSH's wire format ---- */

struct reader {
    const unsigned char *p;
    size_t left;
    bool bad;
};

static uint32_t get_u32(struct reader *r)
{
    if (r->left < 4) {
        r->bad = true;
        r->left = 0;
        return 0;
    }
    uint32_t v = (uint32_t)r->p[0] << 24 | (uint32_t)r->p[1] << 16 | (uint32_t)r->p[2] << 8 |
                 (uint32_t)r->p[3];
    r->p += 4;
    r->left -= 4;
    return v;
}

static struct reader get_string(struct reader *r)
{
    uint32_t len = get_u32(r);
    if (r->bad || len > r->left) {
        r->bad = true;
        r->left = 0;
        return (struct reader){.p = (const unsigned char *)"", .bad = true};
    }
    struct reader part = {.p = r->p, .left = len};
    r->p += len;
    r->left -= len;
    return part;
}

static bool is_text(const struct reader *r, const char *text)
{
    return r->left == strlen(text) && memcmp(r->p, text, r->left) == 0;
}

/* ---- writing ---- */

static unsigned char *put_u32(unsigned char *p, uint32_t v)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        *p++ = (unsigned char)(v >> shift);
    return p;
}

static unsigned char *put_string(unsigned char *p, const void *data, size_t len)
{
    p = put_u32(p, (uint32_t)len);
    if (len > 0)
        memcpy(p, data, len);
    return p + len;
}

static unsigned char *put_public(unsigned char *p, const unsigned char public[32])
{
    p = put_string(p, TYPE, strlen(TYPE));
    return put_string(p, public, 32);
}

static void write_private(const unsigned char *blob, size_t len, char text[PRIVATE_TEXT_MAX])
{
    char b64[BASE64_SIZE(256)];
    base64_encode(blob, len, b64);
    size_t n = (size_t)snprintf(text, PRIVATE_TEXT_MAX, "-----BEGIN OPENSSH PRIVATE KEY-----\n");
    for (size_t i = 0, b64_len = strlen(b64); i < b64_len; i += 70)
        n += (size_t)snprintf(text + n, PRIVATE_TEXT_MAX - n, "%.70s\n", b64 + i);
    (void)snprintf(text + n, PRIVATE_TEXT_MAX - n, "-----END OPENSSH PRIVATE KEY-----\n");
    explicit_bzero(b64, sizeof b64);
}

static struct remote_key *key_from_seed(const unsigned char seed[SEED])
{
    struct remote_key *key = xcalloc(1, sizeof *key);
    unsigned char public[32], pair[64], inner[160], outer[256], blob[KEY_PUBLIC_BLOB];
    ed25519_public(seed, public);
    memcpy(pair, seed, SEED);
    memcpy(pair + SEED, public, 32);
    (void)put_public(blob, public);

    /* the two check words are equal by the format; their value means nothing without encryption */
    unsigned char *p = put_u32(put_u32(inner, 0), 0);
    p = put_public(p, public);
    p = put_string(p, pair, sizeof pair);
    p = put_string(p, "", 0);
    for (unsigned char pad = 1; (p - inner) % 8 != 0; pad++)
        *p++ = pad;
    size_t inner_len = (size_t)(p - inner);

    memcpy(outer, MAGIC, sizeof MAGIC);
    p = put_string(outer + sizeof MAGIC, "none", 4);
    p = put_string(p, "none", 4);
    p = put_string(p, "", 0);
    p = put_u32(p, 1);
    p = put_string(p, blob, sizeof blob);
    p = put_string(p, inner, inner_len);
    write_private(outer, (size_t)(p - outer), key->private_text);

    int n = snprintf(key->public_line, sizeof key->public_line, TYPE " ");
    base64_encode(blob, sizeof blob, key->public_line + n);
    explicit_bzero(pair, sizeof pair);
    explicit_bzero(inner, sizeof inner);
    explicit_bzero(outer, sizeof outer);
    return key;
}

/* ---- OpenSSH's format ---- */

static int refuse_type(const char *what, struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED,
                   "%s keys cannot be used (servers since OpenSSH 8.8 refuse what libssh2 1.10 "
                   "signs with them); use an ed25519 key, " REMEDY,
                   what);
}

static int refuse_passphrase(struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED,
                   "the key is protected by a passphrase, which nobody can type here; use one "
                   "without, " REMEDY);
}

static int damaged(struct err *err)
{
    return err_set(err, ERR_INVALID, "the key file is damaged or cut short; " REMEDY);
}

static int check_type(struct reader blob, struct err *err)
{
    struct reader type = get_string(&blob);
    char name[64];
    if (type.bad)
        return damaged(err);
    if (is_text(&type, TYPE))
        return 0;
    for (size_t i = 0; i < type.left; i++)
        if (type.p[i] <= ' ' || type.p[i] > '~')
            return damaged(err);
    (void)snprintf(name, sizeof name, "%.*s", type.left < 60 ? (int)type.left : 60, type.p);
    return refuse_type(name, err);
}

static int parse_private_part(struct reader in, unsigned char seed[SEED], struct err *err)
{
    unsigned char public[32];
    uint32_t check1 = get_u32(&in), check2 = get_u32(&in);
    if (in.bad || check1 != check2)
        return damaged(err);
    struct reader type = get_string(&in);
    struct reader stored = get_string(&in);
    struct reader pair = get_string(&in);
    if (in.bad || !is_text(&type, TYPE) || stored.left != 32 || pair.left != 64)
        return damaged(err);
    ed25519_public(pair.p, public);
    if (memcmp(public, stored.p, 32) != 0 || memcmp(public, pair.p + SEED, 32) != 0)
        return damaged(err);
    memcpy(seed, pair.p, SEED);
    return 0;
}

static int parse_openssh(struct reader in, unsigned char seed[SEED], struct err *err)
{
    if (in.left < sizeof MAGIC || memcmp(in.p, MAGIC, sizeof MAGIC) != 0)
        return damaged(err);
    in.p += sizeof MAGIC;
    in.left -= sizeof MAGIC;
    struct reader cipher = get_string(&in);
    struct reader kdf = get_string(&in);
    (void)get_string(&in); /* the options of the passphrase's hash */
    uint32_t count = get_u32(&in);
    struct reader public = get_string(&in);
    struct reader private = get_string(&in);
    if (in.bad)
        return damaged(err);
    if (count != 1)
        return err_set(err, ERR_UNSUPPORTED, "the file holds %u keys, one is expected", count);
    int rc = check_type(public, err);
    if (rc < 0)
        return rc;
    if (!is_text(&cipher, "none") || !is_text(&kdf, "none"))
        return refuse_passphrase(err);
    return parse_private_part(private, seed, err);
}

/* ---- PKCS#8 (RFC 5958, RFC 8410): SEQ { INT, SEQ { OID }, OCTETS { OCTETS seed } ... } ---- */

static struct reader get_der(struct reader *r, unsigned int tag)
{
    struct reader bad = {.p = (const unsigned char *)"", .bad = true};
    if (r->bad || r->left < 2 || r->p[0] != tag) {
        r->bad = true;
        return bad;
    }
    size_t head = 2, len = r->p[1];
    if (len >= 0x80) {
        size_t bytes = len & 0x7f;
        len = 0;
        if (bytes < 1 || bytes > 2 || r->left < 2 + bytes) {
            r->bad = true;
            return bad;
        }
        for (size_t i = 0; i < bytes; i++)
            len = len << 8 | r->p[2 + i];
        head += bytes;
    }
    if (len > r->left - head) {
        r->bad = true;
        return bad;
    }
    struct reader part = {.p = r->p + head, .left = len};
    r->p += head + len;
    r->left -= head + len;
    return part;
}

static int parse_pkcs8(struct reader in, unsigned char seed[SEED], struct err *err)
{
    static const unsigned char oid_ed25519[] = {0x2b, 0x65, 0x70};
    static const unsigned char oid_rsa[] = {0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01};
    static const unsigned char oid_ec[] = {0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01};
    struct reader all = get_der(&in, 0x30);
    struct reader version = get_der(&all, 0x02);
    struct reader algorithm = get_der(&all, 0x30);
    struct reader oid = get_der(&algorithm, 0x06);
    if (version.bad || oid.bad)
        return damaged(err);
    if (oid.left == sizeof oid_rsa && memcmp(oid.p, oid_rsa, oid.left) == 0)
        return refuse_type("RSA", err);
    if (oid.left == sizeof oid_ec && memcmp(oid.p, oid_ec, oid.left) == 0)
        return refuse_type("ECDSA", err);
    if (oid.left != sizeof oid_ed25519 || memcmp(oid.p, oid_ed25519, oid.left) != 0)
        return refuse_type("such", err);
    struct reader outer = get_der(&all, 0x04);
    struct reader inner = get_der(&outer, 0x04);
    if (inner.bad || inner.left != SEED)
        return damaged(err);
    memcpy(seed, inner.p, SEED);
    return 0;
}

/* ---- the file ---- */

static const char *find(const char *text, size_t len, const char *what)
{
    return memmem(text, len, what, strlen(what));
}

/* The bytes between "-----BEGIN label-----" and its END line, or an error. */
static int unarmour(const char *text, size_t len, const char *label, unsigned char *out, size_t max,
                    size_t *ret_len, struct err *err)
{
    char begin[64], end[64];
    (void)snprintf(begin, sizeof begin, "-----BEGIN %s-----", label);
    (void)snprintf(end, sizeof end, "-----END %s-----", label);
    const char *from = find(text, len, begin);
    if (from == NULL)
        return damaged(err);
    from += strlen(begin);
    size_t left = len - (size_t)(from - text);
    const char *to = find(from, left, end);
    if (to == NULL || base64_decode(from, (size_t)(to - from), out, max, ret_len) < 0)
        return damaged(err);
    return 0;
}

/* What is recognised in order to say what is wrong with it. */
static int refuse_other(const char *text, size_t len, struct err *err)
{
    if (find(text, len, "-----BEGIN ENCRYPTED PRIVATE KEY-----") != NULL ||
        find(text, len, "Proc-Type: 4,ENCRYPTED") != NULL)
        return refuse_passphrase(err);
    if (find(text, len, "-----BEGIN RSA PRIVATE KEY-----") != NULL)
        return refuse_type("RSA", err);
    if (find(text, len, "-----BEGIN EC PRIVATE KEY-----") != NULL)
        return refuse_type("ECDSA", err);
    if (find(text, len, "-----BEGIN DSA PRIVATE KEY-----") != NULL)
        return refuse_type("DSA", err);
    if (find(text, len, "PuTTY-User-Key-File") != NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "this is PuTTY's format; convert it with: puttygen KEY -O private-openssh");
    if (find(text, len, "PUBLIC KEY-----") != NULL || (len > 4 && memcmp(text, "ssh-", 4) == 0))
        return err_set(err, ERR_INVALID,
                       "this is a public key; the private one is needed (the file without .pub)");
    return err_set(err, ERR_INVALID, "this is no SSH private key; " REMEDY);
}

int remote_key_parse(const char *text, size_t len, struct remote_key **ret_key, struct err *err)
{
    unsigned char bytes[KEY_FILE_MAX];
    unsigned char seed[SEED];
    size_t n = 0;
    int rc;
    if (len > KEY_FILE_MAX)
        return err_set(err, ERR_LIMIT, "larger than %d bytes: not a key file", KEY_FILE_MAX);
    if (find(text, len, "-----BEGIN OPENSSH PRIVATE KEY-----") != NULL) {
        rc = unarmour(text, len, "OPENSSH PRIVATE KEY", bytes, sizeof bytes, &n, err);
        if (rc == 0)
            rc = parse_openssh((struct reader){.p = bytes, .left = n}, seed, err);
    } else if (find(text, len, "-----BEGIN PRIVATE KEY-----") != NULL) {
        rc = unarmour(text, len, "PRIVATE KEY", bytes, sizeof bytes, &n, err);
        if (rc == 0)
            rc = parse_pkcs8((struct reader){.p = bytes, .left = n}, seed, err);
    } else {
        rc = refuse_other(text, len, err);
    }
    if (rc == 0)
        *ret_key = key_from_seed(seed);
    explicit_bzero(bytes, sizeof bytes);
    explicit_bzero(seed, sizeof seed);
    return rc;
}

static int read_secret(const char *path, char *buf, size_t size, size_t *ret_len, struct err *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_sys(err, errno, "SSH key %s", path);
    int rc = 0;
    size_t len = 0;
    if (fstat(fd, &st) < 0)
        rc = err_sys(err, errno, "SSH key %s", path);
    else if (!S_ISREG(st.st_mode))
        rc = err_set(err, ERR_INVALID, "SSH key %s: not a regular file", path);
    else if ((st.st_mode & 07) != 0)
        rc = err_set(err, ERR_DENIED,
                     "SSH key %s: every user of this machine can read it (mode %04o); chmod 600",
                     path, (unsigned int)st.st_mode & 07777);
    while (rc == 0 && len < size) {
        ssize_t n = read(fd, buf + len, size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = err_sys(err, errno, "SSH key %s", path);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    (void)close(fd);
    *ret_len = len;
    return rc;
}

int remote_key_load(const char *path, struct remote_key **ret_key, struct err *err)
{
    char text[KEY_FILE_MAX + 1];
    size_t len = 0;
    int rc = read_secret(path, text, sizeof text, &len, err);
    if (rc == 0) {
        rc = remote_key_parse(text, len, ret_key, err);
        if (rc < 0)
            (void)err_wrap(err, "SSH key %s: ", path);
    }
    explicit_bzero(text, sizeof text);
    return rc;
}

void remote_key_free(struct remote_key *key)
{
    mem_wipe_free(key, sizeof *key);
}

const char *remote_key_public(const struct remote_key *key)
{
    return key->public_line;
}

const char *remote_key_private(const struct remote_key *key, size_t *ret_len)
{
    *ret_len = strlen(key->private_text);
    return key->private_text;
}

/* ---- public keys ---- */

int host_key_parse(const char *line, unsigned char blob[KEY_PUBLIC_BLOB], struct err *err)
{
    size_t type_len = strcspn(line, " \t");
    if (type_len != strlen(TYPE) || strncmp(line, TYPE, type_len) != 0)
        return err_set(err, ERR_INVALID, "the pinned host key is not of type " TYPE);
    const char *b64 = line + type_len + strspn(line + type_len, " \t");
    size_t n = 0;
    if (base64_decode(b64, strcspn(b64, " \t\r\n"), blob, KEY_PUBLIC_BLOB, &n) < 0 ||
        n != KEY_PUBLIC_BLOB)
        return err_set(err, ERR_INVALID, "the pinned host key is damaged");
    struct reader in = {.p = blob, .left = n};
    struct reader type = get_string(&in);
    struct reader value = get_string(&in);
    if (in.bad || in.left != 0 || !is_text(&type, TYPE) || value.left != 32)
        return err_set(err, ERR_INVALID, "the pinned host key is damaged");
    return 0;
}

static unsigned char from_hex(char c)
{
    return (unsigned char)(c <= '9' ? c - '0' : c - 'a' + 10);
}

const char *key_fingerprint(const unsigned char *blob, size_t len, char buf[KEY_FINGERPRINT_SIZE])
{
    char hex[DIGEST_HEX_SIZE], b64[BASE64_SIZE(DIGEST_SIZE)];
    unsigned char sum[DIGEST_SIZE];
    digest_hex(blob, len, hex);
    for (int i = 0; i < DIGEST_SIZE; i++)
        sum[i] = (unsigned char)(from_hex(hex[2 * i]) << 4 | from_hex(hex[2 * i + 1]));
    base64_encode(sum, sizeof sum, b64);
    b64[strcspn(b64, "=")] = '\0';
    (void)snprintf(buf, KEY_FINGERPRINT_SIZE, "SHA256:%s", b64);
    return buf;
}
