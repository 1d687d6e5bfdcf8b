#include "base/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const unsigned char *data, size_t len, char *text)
{
    for (size_t i = 0; i < len; i += 3) {
        unsigned int v = (unsigned int)data[i] << 16;
        if (i + 1 < len)
            v |= (unsigned int)data[i + 1] << 8;
        if (i + 2 < len)
            v |= data[i + 2];
        *text++ = alphabet[v >> 18 & 63];
        *text++ = alphabet[v >> 12 & 63];
        *text++ = i + 1 < len ? alphabet[v >> 6 & 63] : '=';
        *text++ = i + 2 < len ? alphabet[v & 63] : '=';
    }
    *text = '\0';
}

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(const char *text, size_t len, unsigned char *out, size_t max, size_t *ret_len)
{
    unsigned int v = 0;
    int digits = 0, padding = 0;
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
            continue;
        if (digits == 0 && padding > 0)
            return -1; /* something after the end */
        if (c == '=' && digits >= 2)
            padding++;
        else if (value_of(c) < 0 || padding > 0)
            return -1;
        v = v << 6 | (c == '=' ? 0U : (unsigned int)value_of(c));
        if (++digits < 4)
            continue;
        if (n + 3 - (size_t)padding > max)
            return -1;
        for (int b = 0; b < 3 - padding; b++)
            out[n++] = (unsigned char)(v >> (16 - 8 * b));
        v = 0;
        digits = 0;
    }
    if (digits != 0)
        return -1;
    *ret_len = n;
    return 0;
}
