#include "base/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/mem.h"

static void to_hex(const unsigned char *bytes, size_t len, char *hex)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    hex[2 * len] = '\0';
}

struct digest {
    EVP_MD_CTX *ctx;
};

struct digest *digest_new(void)
{
    struct digest *d = xcalloc(1, sizeof *d);
    d->ctx = EVP_MD_CTX_new();
    if (d->ctx == NULL || EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL) != 1)
        abort();
    return d;
}

void digest_add(struct digest *d, const void *data, size_t len)
{
    (void)EVP_DigestUpdate(d->ctx, data, len);
}

void digest_finish(struct digest *d, char hex[DIGEST_HEX_SIZE])
{
    unsigned char out[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    (void)EVP_DigestFinal_ex(d->ctx, out, &n);
    EVP_MD_CTX_free(d->ctx);
    free(d);
    to_hex(out, DIGEST_SIZE, hex);
}

void digest_hex(const void *data, size_t len, char hex[DIGEST_HEX_SIZE])
{
    struct digest *d = digest_new();
    digest_add(d, data, len);
    digest_finish(d, hex);
}

void digest_hmac_hex(const void *key, size_t key_len, const void *data, size_t len,
                     char hex[DIGEST_HEX_SIZE])
{
    unsigned char out[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    if (HMAC(EVP_sha256(), key, (int)key_len, data, len, out, &n) == NULL)
        abort();
    to_hex(out, DIGEST_SIZE, hex);
}

int digest_file(const char *path, char hex[DIGEST_HEX_SIZE], struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "%s", path);
    struct digest *d = digest_new();
    size_t size = (size_t)1 << 20;
    char *buf = xcalloc(1, size);
    int rc = 0;
    for (;;) {
        ssize_t n = read(fd, buf, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = err_sys(err, errno, "%s", path);
        if (n <= 0)
            break;
        digest_add(d, buf, (size_t)n);
    }
    free(buf);
    (void)close(fd);
    digest_finish(d, hex);
    return rc;
}

void random_hex(size_t len, char *hex)
{
    unsigned char bytes[64];
    size_t done = 0;
    while (done < len) {
        size_t part = len - done < sizeof bytes ? len - done : sizeof bytes;
        if (getrandom(bytes, part, 0) != (ssize_t)part)
            abort();
        to_hex(bytes, part, hex + 2 * done);
        done += part;
    }
}

void ed25519_public(const unsigned char seed[32], unsigned char ret_public[32])
{
    size_t len = 32;
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, 32);
    if (key == NULL || EVP_PKEY_get_raw_public_key(key, ret_public, &len) != 1)
        abort();
    EVP_PKEY_free(key); /* OpenSSL wipes it */
}
