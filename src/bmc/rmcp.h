/*
 * RMCP+ packets as bytes: the codec of IPMI 2.0's LAN interface (specification v2.0 rev. 1.1,
 * section 13). Pure: bytes in, bytes out. Used by session.c and the fuzzer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RMCP_MAX = 1024,    /* the longest packet that is built or read */
    RMCP_KEY_MAX = 32,  /* SHA-256 */
    RMCP_USER_MAX = 16, /* bytes of a user name */
    RMCP_PASSWORD_MAX = 20,
};

/* Payload types, table 13-16. */
enum {
    PAYLOAD_IPMI = 0x00,
    PAYLOAD_SOL = 0x01,
    PAYLOAD_OPEN_REQUEST = 0x10,
    PAYLOAD_OPEN_RESPONSE = 0x11,
    PAYLOAD_RAKP1 = 0x12,
    PAYLOAD_RAKP2 = 0x13,
    PAYLOAD_RAKP3 = 0x14,
    PAYLOAD_RAKP4 = 0x15,
};

/* Cipher suites, table 22-20: 3 (SHA-1) and 17 (SHA-256), both with AES-CBC-128. */
struct cipher_suite {
    int id;
    uint8_t authentication, integrity, confidentiality;
    bool sha256;
    size_t hash;  /* bytes of a key exchange authentication code */
    size_t check; /* bytes of an integrity check value */
};
const struct cipher_suite *cipher_suite_find(int id); /* NULL: not one of ours */

/* What both sides know once RAKP is through. */
struct rmcp_keys {
    const struct cipher_suite *suite;
    uint8_t sik[RMCP_KEY_MAX], k1[RMCP_KEY_MAX], k2[RMCP_KEY_MAX];
};

/* What goes into the codes of RAKP, section 13.28. */
struct rakp {
    const struct cipher_suite *suite;
    uint32_t console_id, managed_id;
    uint8_t console_random[16], managed_random[16], guid[16];
    uint8_t role; /* requested privilege with the name-only look-up bit */
    char user[RMCP_USER_MAX + 1];
    uint8_t password[RMCP_PASSWORD_MAX]; /* zero padded */
};
/* Code of RAKP message 2, 3 or the check value of 4. */
void rakp_code2(const struct rakp *r, uint8_t out[RMCP_KEY_MAX]);
void rakp_code3(const struct rakp *r, uint8_t out[RMCP_KEY_MAX]);
void rakp_keys(const struct rakp *r, struct rmcp_keys *keys);
void rakp_code4(const struct rakp *r, const struct rmcp_keys *keys, uint8_t out[RMCP_KEY_MAX]);

struct rmcp_packet {
    uint8_t type;
    bool encrypted, authenticated;
    uint32_t session_id, sequence;
    uint8_t data[RMCP_MAX]; /* decrypted */
    size_t len;
};

/* Returns the packet's length. keys NULL: neither encrypted nor authenticated. */
size_t rmcp_encode(uint8_t type, uint32_t session_id, uint32_t sequence, const uint8_t *data,
                   size_t len, const struct rmcp_keys *keys, uint8_t out[RMCP_MAX]);
/* The session id of a packet, to find its keys; false for what is no RMCP+ packet. */
bool rmcp_session_id(const uint8_t *packet, size_t len, uint8_t *ret_type, uint32_t *ret_id);
/* False for anything malformed, with a wrong integrity check, or not protected as keys demand. */
bool rmcp_decode(const uint8_t *packet, size_t len, const struct rmcp_keys *keys,
                 struct rmcp_packet *ret);

/* An IPMI message, section 13.8. */
struct ipmi_message {
    uint8_t netfn, command, sequence;
    const uint8_t *data; /* of a response: after the completion code */
    size_t len;
    uint8_t completion;
};
size_t ipmi_encode(uint8_t netfn, uint8_t command, uint8_t sequence, const uint8_t *data,
                   size_t len, uint8_t out[RMCP_MAX]);
bool ipmi_decode(const uint8_t *payload, size_t len, struct ipmi_message *ret);

const char *rakp_status_text(uint8_t status);         /* table 13-15 */
const char *ipmi_completion_text(uint8_t completion); /* table 5-2 */
uint32_t le32(const uint8_t *p);
void put_le32(uint8_t *p, uint32_t value);
