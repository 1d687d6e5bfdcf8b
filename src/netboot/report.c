/* Bodies that ramdisks and first boots send: lines KEY=value, from machines that nobody vouches
 * for.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "netboot/netboot_int.h"

static void take(char *dst, size_t size, const char *value, size_t len)
{
    size_t n = 0;
    for (; n + 1 < size && n < len; n++) {
        unsigned char c = (unsigned char)value[n];
        dst[n] = (char)(c < ' ' || c >= 0x7f ? ' ' : c);
    }
    while (n > 0 && dst[n - 1] == ' ')
        n--;
    dst[n] = '\0';
}

static bool only(const char *text, const char *set)
{
    return text[strspn(text, set)] == '\0';
}

static void take_line(struct report *r, const char *key, size_t key_len, const char *value,
                      size_t len)
{
    const struct {
        const char *key;
        char *dst;
        size_t size;
    } fields[] = {
        {"text", r->text, sizeof r->text},
        {"host_key", r->host_key, sizeof r->host_key},
        {"image_sha256", r->image_sha256, sizeof r->image_sha256},
        {"boot_id", r->boot_id, sizeof r->boot_id},
        {"disk", r->disk, sizeof r->disk},
        {"disk_serial", r->disk_serial, sizeof r->disk_serial},
        {"root", r->root, sizeof r->root},
    };
    if (key_len == 7 && memcmp(key, "percent", 7) == 0) {
        char digits[4] = "";
        if (len > 0 && len < sizeof digits)
            memcpy(digits, value, len);
        long n = strtol(digits, NULL, 10);
        if (digits[0] != '\0' && only(digits, "0123456789") && n <= 100)
            r->percent = (int)n;
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (strlen(fields[i].key) != key_len || memcmp(fields[i].key, key, key_len) != 0)
            continue;
        /* what is cut is no key, digest or id any more; a text still is one */
        if (len < fields[i].size || fields[i].dst == r->text)
            take(fields[i].dst, fields[i].size, value, len);
        return;
    }
}

void report_parse(const char *body, size_t len, struct report *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->percent = -1;
    const char *end = body + len;
    for (const char *line = body; len > 0 && line < end;) {
        const char *nl = memchr(line, '\n', (size_t)(end - line));
        const char *stop = nl != NULL ? nl : end;
        const char *eq = memchr(line, '=', (size_t)(stop - line));
        if (eq != NULL)
            take_line(ret, line, (size_t)(eq - line), eq + 1, (size_t)(stop - eq - 1));
        line = stop + 1;
    }
    if (strlen(ret->image_sha256) != DIGEST_HEX_SIZE - 1 ||
        !only(ret->image_sha256, "0123456789abcdef"))
        ret->image_sha256[0] = '\0';
    if (!only(ret->boot_id, "0123456789abcdef-"))
        ret->boot_id[0] = '\0';
}

bool report_host_key_valid(const char *key)
{
    static const char *const types[] = {"ssh-ed25519 ", "ecdsa-sha2-nistp256 ", "ssh-rsa "};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        size_t n = strlen(types[i]);
        if (strncmp(key, types[i], n) == 0)
            return strlen(key + n) >= 40 &&
                   only(key + n,
                        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=");
    }
    return false;
}
