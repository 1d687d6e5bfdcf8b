#include "bmc/fru.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct area {
    const uint8_t *data;
    size_t len;
};

static bool sum_is_zero(const uint8_t *data, size_t len)
{
    uint8_t sum = 0;
    for (size_t i = 0; i < len; i++)
        sum = (uint8_t)(sum + data[i]);
    return sum == 0;
}

/* The area whose offset (in multiples of 8) is byte `index` of the common header. */
static bool find_area(const uint8_t *data, size_t len, int index, struct area *ret)
{
    size_t at = (size_t)data[index] * 8;
    if (at == 0 || at + 2 > len)
        return false;
    size_t size = (size_t)data[at + 1] * 8;
    if (size < 8 || at + size > len || !sum_is_zero(data + at, size))
        return false;
    *ret = (struct area){data + at, size};
    return true;
}

/* Section 13: bits 7:6 of the type/length byte say how the field is written. */
static void decode_field(uint8_t type, const uint8_t *p, size_t len, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    switch (type) {
    case 0: /* binary */
        for (size_t i = 0; i < len && n + 3 < size; i++)
            n += (size_t)snprintf(out + n, size - n, "%02x", p[i]);
        break;
    case 1: /* BCD plus */
        for (size_t i = 0; i < 2 * len && n + 1 < size; i++)
            out[n++] = "0123456789 -.???"[i % 2 == 0 ? p[i / 2] >> 4 : p[i / 2] & 15];
        break;
    case 2: /* 6-bit ASCII, four characters in three bytes, least significant first */
        for (size_t bit = 0; bit + 6 <= len * 8 && n + 1 < size; bit += 6) {
            unsigned two = p[bit / 8] | (bit / 8 + 1 < len ? (unsigned)p[bit / 8 + 1] << 8 : 0);
            out[n++] = (char)(' ' + ((two >> (bit % 8)) & 0x3f));
        }
        break;
    default: /* 8-bit ASCII */
        for (size_t i = 0; i < len && n + 1 < size; i++)
            out[n++] = p[i] >= ' ' && p[i] <= '~' ? (char)p[i] : '?';
        break;
    }
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = '\0';
}

/* Fields from `at` on, named in order; NULL names are passed over. */
static void read_fields(const struct area *a, size_t at, const char *const *names, int count,
                        json_t *out)
{
    char text[160];
    for (int i = 0; i < count && at < a->len && a->data[at] != 0xc1; i++) {
        size_t len = a->data[at] & 0x3f;
        if (at + 1 + len > a->len)
            return;
        decode_field(a->data[at] >> 6, a->data + at + 1, len, text, sizeof text);
        if (names[i] != NULL && text[0] != '\0')
            (void)json_object_set_new(out, names[i], json_string(text));
        at += 1 + len;
    }
}

json_t *fru_parse(const uint8_t *data, size_t len)
{
    static const char *const chassis[] = {NULL, "chassis_serial"};
    static const char *const board[] = {"board_manufacturer", "board_product", "board_serial"};
    static const char *const product[] = {"manufacturer", "product", "part", NULL, "serial"};
    json_t *out = json_object();
    struct area a;
    if (len < 8 || (data[0] & 0x0f) != 1 || !sum_is_zero(data, 8))
        return out;
    if (find_area(data, len, 2, &a))
        read_fields(&a, 3, chassis, 2, out);
    if (find_area(data, len, 3, &a))
        read_fields(&a, 6, board, 3, out);
    if (find_area(data, len, 4, &a))
        read_fields(&a, 3, product, 5, out);
    return out;
}
