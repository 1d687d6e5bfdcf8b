#include "bmc/rmcp.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/names.h"

enum {
    HEADER = 4 + 12, /* RMCP, then authentication type to payload length */
    BLOCK = 16,      /* of AES */
    FORMAT_RMCPP = 0x06,
    CONSTANT = 20, /* bytes of the constants for K1 and K2, section 13.32 */
};

static const struct cipher_suite suites[] = {{3, 1, 1, 1, false, 20, 12},
                                             {17, 3, 4, 1, true, 32, 16}};

const struct cipher_suite *cipher_suite_find(int id)
{
    for (size_t i = 0; i < ARRAY_LEN(suites); i++)
        if (suites[i].id == id)
            return &suites[i];
    return NULL;
}

uint32_t le32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

void put_le32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> (8 * i));
}

static void hmac(const struct cipher_suite *suite, const uint8_t *key, size_t key_len,
                 const uint8_t *data, size_t len, uint8_t out[RMCP_KEY_MAX])
{
    unsigned size = 0;
    const EVP_MD *md = suite->sha256 ? EVP_sha256() : EVP_sha1();
    memset(out, 0, RMCP_KEY_MAX);
    if (HMAC(md, key, (int)key_len, data, len, out, &size) == NULL || size != suite->hash)
        abort(); /* the provider lacks SHA: nothing sensible can follow */
}

/* ---- RAKP ---- */

struct writer {
    uint8_t data[160];
    size_t len;
};

static void add(struct writer *w, const void *data, size_t len)
{
    memcpy(w->data + w->len, data, len);
    w->len += len;
}

static void add_id(struct writer *w, uint32_t id)
{
    put_le32(w->data + w->len, id);
    w->len += 4;
}

static void add_user(struct writer *w, const struct rakp *r)
{
    uint8_t head[2] = {r->role, (uint8_t)strlen(r->user)};
    add(w, head, 2);
    add(w, r->user, head[1]);
}

void rakp_code2(const struct rakp *r, uint8_t out[RMCP_KEY_MAX])
{
    struct writer w = {.len = 0};
    add_id(&w, r->console_id);
    add_id(&w, r->managed_id);
    add(&w, r->console_random, 16);
    add(&w, r->managed_random, 16);
    add(&w, r->guid, 16);
    add_user(&w, r);
    hmac(r->suite, r->password, RMCP_PASSWORD_MAX, w.data, w.len, out);
}

void rakp_code3(const struct rakp *r, uint8_t out[RMCP_KEY_MAX])
{
    struct writer w = {.len = 0};
    add(&w, r->managed_random, 16);
    add_id(&w, r->console_id);
    add_user(&w, r);
    hmac(r->suite, r->password, RMCP_PASSWORD_MAX, w.data, w.len, out);
}

void rakp_keys(const struct rakp *r, struct rmcp_keys *keys)
{
    struct writer w = {.len = 0};
    uint8_t constant[CONSTANT];
    keys->suite = r->suite;
    add(&w, r->console_random, 16);
    add(&w, r->managed_random, 16);
    add_user(&w, r);
    hmac(r->suite, r->password, RMCP_PASSWORD_MAX, w.data, w.len, keys->sik);
    memset(constant, 1, sizeof constant);
    hmac(r->suite, keys->sik, r->suite->hash, constant, sizeof constant, keys->k1);
    memset(constant, 2, sizeof constant);
    hmac(r->suite, keys->sik, r->suite->hash, constant, sizeof constant, keys->k2);
}

void rakp_code4(const struct rakp *r, const struct rmcp_keys *keys, uint8_t out[RMCP_KEY_MAX])
{
    struct writer w = {.len = 0};
    add(&w, r->console_random, 16);
    add_id(&w, r->managed_id);
    add(&w, r->guid, 16);
    hmac(r->suite, keys->sik, r->suite->hash, w.data, w.len, out);
}

/* ---- AES-CBC-128, section 13.29 ---- */

static int aes(const uint8_t *key, const uint8_t *iv, const uint8_t *in, int len, uint8_t *out,
               int encrypt)
{
    int n = 0, last = 0, ok = 0;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    if (ctx != NULL && EVP_CipherInit_ex(ctx, EVP_aes_128_cbc(), NULL, key, iv, encrypt) == 1 &&
        EVP_CIPHER_CTX_set_padding(ctx, 0) == 1 && EVP_CipherUpdate(ctx, out, &n, in, len) == 1 &&
        EVP_CipherFinal_ex(ctx, out + n, &last) == 1)
        ok = n + last == len;
    EVP_CIPHER_CTX_free(ctx);
    return ok;
}

/* IV, then data, 1, 2, 3 ... as padding, and how much of it. */
static size_t encrypt(const struct rmcp_keys *keys, const uint8_t *data, size_t len, uint8_t *out)
{
    uint8_t plain[RMCP_MAX];
    size_t total = (len + 1 + BLOCK - 1) / BLOCK * BLOCK, pad = total - len - 1;
    memcpy(plain, data, len);
    for (size_t i = 0; i < pad; i++)
        plain[len + i] = (uint8_t)(i + 1);
    plain[total - 1] = (uint8_t)pad;
    if (RAND_bytes(out, BLOCK) != 1 || !aes(keys->k2, out, plain, (int)total, out + BLOCK, 1))
        abort();
    return BLOCK + total;
}

static bool decrypt(const struct rmcp_keys *keys, const uint8_t *data, size_t len, uint8_t *out,
                    size_t *ret_len)
{
    if (len < 2 * (size_t)BLOCK || len % BLOCK != 0 ||
        !aes(keys->k2, data, data + BLOCK, (int)(len - BLOCK), out, 0))
        return false;
    size_t plain = len - BLOCK, pad = out[plain - 1];
    if (pad + 1 > plain || pad >= BLOCK)
        return false;
    *ret_len = plain - pad - 1;
    return true;
}

/* ---- packets, section 13.6 ---- */

size_t rmcp_encode(uint8_t type, uint32_t session_id, uint32_t sequence, const uint8_t *data,
                   size_t len, const struct rmcp_keys *keys, uint8_t out[RMCP_MAX])
{
    static const uint8_t rmcp[4] = {0x06, 0x00, 0xff, 0x07};
    size_t n = HEADER, payload;
    if (len > RMCP_MAX - 128)
        return 0;
    memcpy(out, rmcp, sizeof rmcp);
    out[4] = FORMAT_RMCPP;
    out[5] = (uint8_t)(type | (keys != NULL ? 0xc0 : 0));
    put_le32(out + 6, session_id);
    put_le32(out + 10, sequence);
    if (keys != NULL) {
        payload = encrypt(keys, data, len, out + n);
    } else {
        memcpy(out + n, data, len);
        payload = len;
    }
    out[14] = (uint8_t)payload;
    out[15] = (uint8_t)(payload >> 8);
    n += payload;
    if (keys == NULL)
        return n;
    uint8_t pad = 0, code[RMCP_KEY_MAX];
    while ((n - 4 + 2) % 4 != 0) {
        out[n++] = 0xff;
        pad++;
    }
    out[n++] = pad;
    out[n++] = 0x07;
    hmac(keys->suite, keys->k1, keys->suite->hash, out + 4, n - 4, code);
    memcpy(out + n, code, keys->suite->check);
    return n + keys->suite->check;
}

bool rmcp_session_id(const uint8_t *packet, size_t len, uint8_t *ret_type, uint32_t *ret_id)
{
    if (len < HEADER || packet[0] != 0x06 || packet[3] != 0x07 || packet[4] != FORMAT_RMCPP)
        return false;
    *ret_type = packet[5] & 0x3f;
    *ret_id = le32(packet + 6);
    /* before a session is open the ids are 0, and the payload says whose answer it is */
    if (*ret_id == 0 && len >= HEADER + 8)
        *ret_id = le32(packet + HEADER + 4);
    return true;
}

static bool check_integrity(const uint8_t *packet, size_t len, size_t payload,
                            const struct rmcp_keys *keys)
{
    uint8_t code[RMCP_KEY_MAX];
    size_t check = keys->suite->check, end = HEADER + payload;
    if (len < end + 2 + check || len > end + 2 + 3 + check)
        return false;
    size_t covered = len - check;
    if (packet[covered - 1] != 0x07 || packet[covered - 2] != covered - 2 - end)
        return false;
    hmac(keys->suite, keys->k1, keys->suite->hash, packet + 4, covered - 4, code);
    return CRYPTO_memcmp(code, packet + covered, check) == 0;
}

bool rmcp_decode(const uint8_t *packet, size_t len, const struct rmcp_keys *keys,
                 struct rmcp_packet *ret)
{
    uint32_t id;
    if (len > RMCP_MAX || !rmcp_session_id(packet, len, &ret->type, &id))
        return false;
    ret->encrypted = (packet[5] & 0x80) != 0;
    ret->authenticated = (packet[5] & 0x40) != 0;
    ret->session_id = le32(packet + 6);
    ret->sequence = le32(packet + 10);
    size_t payload = packet[14] | (size_t)packet[15] << 8;
    if (HEADER + payload > len)
        return false;
    if (keys == NULL) {
        if (ret->encrypted || ret->authenticated)
            return false;
        memcpy(ret->data, packet + HEADER, payload);
        ret->len = payload;
        return true;
    }
    return ret->encrypted && ret->authenticated && check_integrity(packet, len, payload, keys) &&
           decrypt(keys, packet + HEADER, payload, ret->data, &ret->len);
}

/* ---- IPMI messages ---- */

static uint8_t checksum(const uint8_t *data, size_t len)
{
    uint8_t sum = 0;
    for (size_t i = 0; i < len; i++)
        sum = (uint8_t)(sum + data[i]);
    return (uint8_t)-sum;
}

size_t ipmi_encode(uint8_t netfn, uint8_t command, uint8_t sequence, const uint8_t *data,
                   size_t len, uint8_t out[RMCP_MAX])
{
    if (len > RMCP_MAX - 256)
        return 0;
    out[0] = 0x20; /* the BMC */
    out[1] = (uint8_t)(netfn << 2);
    out[2] = checksum(out, 2);
    out[3] = 0x81; /* remote console */
    out[4] = (uint8_t)(sequence << 2);
    out[5] = command;
    if (len > 0)
        memcpy(out + 6, data, len);
    out[6 + len] = checksum(out + 3, 3 + len);
    return 7 + len;
}

bool ipmi_decode(const uint8_t *payload, size_t len, struct ipmi_message *ret)
{
    if (len < 8 || checksum(payload, 2) != payload[2] ||
        checksum(payload + 3, len - 4) != payload[len - 1])
        return false;
    *ret = (struct ipmi_message){.netfn = payload[1] >> 2,
                                 .sequence = payload[4] >> 2,
                                 .command = payload[5],
                                 .completion = payload[6],
                                 .data = payload + 7,
                                 .len = len - 8};
    return true;
}

const char *rakp_status_text(uint8_t status)
{
    static const struct name names[] = {{0x01, "it has no room for another session"},
                                        {0x02, "invalid session id"},
                                        {0x03, "invalid payload type"},
                                        {0x04, "invalid authentication algorithm"},
                                        {0x05, "invalid integrity algorithm"},
                                        {0x06, "no matching authentication payload"},
                                        {0x07, "no matching integrity payload"},
                                        {0x08, "inactive session id"},
                                        {0x09, "invalid role"},
                                        {0x0a, "the user may not have this role or privilege"},
                                        {0x0b, "it has no room for another session of this role"},
                                        {0x0c, "invalid length of the name"},
                                        {0x0d, "unknown user name"},
                                        {0x0e, "unknown GUID"},
                                        {0x0f, "invalid integrity check value"},
                                        {0x10, "invalid confidentiality algorithm"},
                                        {0x11, "no cipher suite matches"},
                                        {0x12, "illegal or unknown parameter"},
                                        {0, NULL}};
    return name_of(names, status, "unknown status");
}

const char *ipmi_completion_text(uint8_t completion)
{
    static const struct name names[] = {{0xc0, "node busy"},
                                        {0xc1, "invalid command"},
                                        {0xc2, "command invalid for this LUN"},
                                        {0xc3, "timeout while processing"},
                                        {0xc4, "out of space"},
                                        {0xc7, "request data length invalid"},
                                        {0xc8, "request data field length exceeded"},
                                        {0xc9, "parameter out of range"},
                                        {0xca, "cannot return that many bytes"},
                                        {0xcb, "requested record not present"},
                                        {0xcc, "invalid data field"},
                                        {0xcf, "duplicated request"},
                                        {0xd0, "SDR repository in update mode"},
                                        {0xd1, "firmware in update mode"},
                                        {0xd2, "BMC initialisation in progress"},
                                        {0xd3, "destination unavailable"},
                                        {0xd4, "insufficient privilege"},
                                        {0xd5, "not supported in the present state"},
                                        {0xd6, "disabled"},
                                        {0, NULL}};
    return name_of(names, completion, "unspecified error");
}
