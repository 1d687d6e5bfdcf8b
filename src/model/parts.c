/* Parts as rows, and their differences in words. */
#include "model/parts.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

const char *const part_kinds[] = {"system", "board", "bmc",  "cpu", "memory", "gpu",
                                  "nic",    "hca",   "disk", "psu", NULL};

/* ---- serials that are none ---- */

static const struct {
    const char *text, *source;
} junk[] = {
    {"to be filled by o.e.m.", "AMI Aptio's default; also in systemd's hwdb/20-dmi-id.hwdb"},
    {"to be filled by oem", "the same, as some board makers type it"},
    {"default string", "AMI Aptio V's default; also in systemd's hwdb/20-dmi-id.hwdb"},
    {"o.e.m.", "systemd's hwdb/20-dmi-id.hwdb"},
    {"oem", "systemd's hwdb/20-dmi-id.hwdb"},
    {"n/a", "systemd's hwdb/20-dmi-id.hwdb; drivers of disks"},
    {"na", "the same without the stroke"},
    {"[n/a]", "nvidia-smi for boards without an InfoROM"},
    {"system serial number", "ASUS and AMI boards, the name of the SMBIOS field (DSP0134 7.2)"},
    {"base board serial number", "the name of the SMBIOS field (DSP0134 7.3)"},
    {"chassis serial number", "the name of the SMBIOS field (DSP0134 7.4)"},
    {"serial number", "the name of the field"},
    {"not specified", "dmidecode, for an empty string"},
    {"not applicable", "Intel's and Insyde's firmware"},
    {"not available", "Intel's and Insyde's firmware"},
    {"not present", "memory slots without a DIMM"},
    {"no dimm", "Supermicro, an empty memory slot"},
    {"nodimm", "ASRock Rack, an empty memory slot"},
    {"empty", "Supermicro, an empty memory slot"},
    {"none", "Lenovo and QEMU's users"},
    {"null", "BMC firmware that prints what it lacks"},
    {"unknown", "AMI, power supplies and processors (DSP0134: a value of many fields)"},
    {"undefined", "BMC firmware that prints what it lacks"},
    {"invalid", "drivers of disks behind USB bridges"},
    {"0123456789", "Supermicro boards from the factory"},
    {"123456789", "boards from the factory"},
    {"1234567890", "boards from the factory; QEMU's examples"},
    {"0123456789abcdef", "USB bridges and Android's boards"},
    {"1234567890abcdef", "USB bridges"},
    {"03000200-0400-0500-0006-000700080009", "AMI Aptio's default UUID"},
    {"00010203-0405-0607-0809-0a0b0c0d0e0f", "the example of byte order in DSP0134 7.2.1"},
    {"00112233-4455-6677-8899-aabbccddeeff", "the example of DSP0134 7.2.1"},
};

/* One character again and again ("0000", "FF:FF", "xxxx", ".."), whatever separates. */
static bool is_one_character(const char *text)
{
    char first = '\0';
    size_t count = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (strchr(" -:_./", *c) != NULL)
            continue;
        char lower = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
        if (first != '\0' && lower != first)
            return false;
        first = lower;
        count++;
    }
    /* a single letter or digit other than 0 may be all that a small system tells apart by */
    return count != 1 || first == '0' || first == 'x';
}

const char *serial_junk_source(const char *text)
{
    if (text == NULL)
        return "absent";
    size_t start = strspn(text, " "), len = strlen(text + start);
    while (len > 0 && text[start + len - 1] == ' ')
        len--;
    for (size_t i = 0; i < ARRAY_LEN(junk); i++)
        if (strlen(junk[i].text) == len && strncasecmp(text + start, junk[i].text, len) == 0)
            return junk[i].source;
    if (is_one_character(text) || text[strspn(text, " 0.-_:/xX")] == '\0')
        return "one character again and again: erased or never written memory (00, FF), typists";
    return NULL;
}

bool serial_is_junk(const char *text)
{
    return serial_junk_source(text) != NULL;
}

/* ---- rows ---- */

static const char *cell(const json_t *row, size_t column)
{
    const char *text = json_string_value(json_array_get(row, column));
    return text != NULL ? text : "";
}

static int by_value(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    int order = strcmp(cell(x, 2), cell(y, 2));
    return order != 0 ? order : strcmp(cell(x, 3), cell(y, 3));
}

void parts_add(json_t *inputs, const struct hardware *hw, const char *kind, bool with_places)
{
    int total = hw != NULL ? hardware_count(hw) : 0, count = 0;
    json_t **rows = xcalloc((size_t)total + 1, sizeof(json_t *));
    for (int i = 0; i < total; i++) {
        const struct component *c = hardware_at(hw, i);
        if (strcmp(c->kind, kind) != 0 || c->software)
            continue;
        char *value = with_places && c->place[0] != '\0'
                          ? xasprintf("%s, at %s", c->value, c->place)
                          : xstrdup(c->value);
        json_t *row = json_pack("[s,s,s,s,s]", "hardware", kind, value, c->slot, c->place);
        if (row != NULL)
            rows[count++] = row;
        free(value);
    }
    qsort(rows, (size_t)count, sizeof(json_t *), by_value);
    for (int i = 0; i < count; i++)
        (void)json_array_append_new(inputs, rows[i]);
    free(rows);
}

/* ---- differences ---- */

/* Values are tokens with ", " between; the first one names the part when it begins so. */
static size_t token_len(const char *text)
{
    const char *end = strstr(text, ", ");
    return end != NULL ? (size_t)(end - text) : strlen(text);
}

static size_t label_len(const char *value)
{
    static const char *const labels[] = {"serial ", "uuid ", "mac ", "guid ", "wwid "};
    for (size_t i = 0; i < ARRAY_LEN(labels); i++)
        if (strncmp(value, labels[i], strlen(labels[i])) == 0)
            return strlen(labels[i]);
    return 0;
}

static bool same_part(const json_t *a, const json_t *b)
{
    const char *x = cell(a, 2), *y = cell(b, 2);
    size_t len = token_len(x);
    return label_len(x) > 0 && len == token_len(y) && strncmp(x, y, len) == 0;
}

static const char *next_token(const char *text)
{
    size_t len = token_len(text);
    return text + len + (text[len] != '\0' ? 2 : 0);
}

static int token_count(const char *text)
{
    int count = 0;
    for (; *text != '\0'; text = next_token(text))
        count++;
    return count;
}

/* "serial A -> B": a word that both begin with stands there once. */
static void token_words(const char *a, size_t n, const char *b, size_t m, struct strbuf *sb)
{
    size_t word = strcspn(a, " ") + 1;
    bool shared = word < n && word < m && strncmp(a, b, word) == 0;
    strbuf_addf(sb, "%.*s -> %.*s", (int)n, a, (int)(shared ? m - word : m), shared ? b + word : b);
}

/* Only the tokens that differ, where there are as many; else the whole of both. */
static void value_words(const char *a, const char *b, struct strbuf *sb)
{
    size_t start = sb->len;
    if (token_count(a) != token_count(b)) {
        strbuf_addf(sb, "%s -> %s", a, b);
        return;
    }
    for (; *a != '\0'; a = next_token(a), b = next_token(b)) {
        size_t n = token_len(a), m = token_len(b);
        if (n == m && strncmp(a, b, n) == 0)
            continue;
        strbuf_adds(sb, sb->len > start ? ", " : "");
        token_words(a, n, b, m, sb);
    }
}

/* A part without a serial is known by its slot, which the words begin with anyway. */
static const char *without_slot(const json_t *row)
{
    const char *value = cell(row, 2), *slot = cell(row, 3);
    size_t len = strlen(slot);
    return label_len(value) == 0 && strncmp(value, slot, len) == 0 && value[len] == ' '
               ? value + len + 1
               : value;
}

struct diff {
    const char *kind;
    const json_t *old[4096], *new[4096];
    int old_count, new_count;
    part_change_fn fn;
    void *user;
};

static void tell(const struct diff *d, enum part_change what, const json_t *old, const json_t *new)
{
    struct strbuf sb;
    const json_t *row = new != NULL ? new : old;
    strbuf_init(&sb, 2000);
    if (what == PART_MOVED || what == PART_PLACED) {
        const char *value = cell(row, 2);
        strbuf_addf(&sb, "%s %.*s: moved from %s to %s", d->kind, (int)token_len(value), value,
                    cell(old, 4), cell(new, 4));
        d->fn(what, d->kind, sb.data, d->user);
        strbuf_done(&sb);
        return;
    }
    strbuf_adds(&sb, d->kind);
    if (strcmp(cell(row, 3), d->kind) != 0)
        strbuf_addf(&sb, " %s", cell(row, 3));
    strbuf_adds(&sb, ": ");
    if (what == PART_NEW)
        strbuf_addf(&sb, "new (%s)", without_slot(new));
    else if (what == PART_GONE)
        strbuf_addf(&sb, "gone (%s)", without_slot(old));
    else if (what == PART_TOLD)
        strbuf_addf(&sb, "%s, told for the first time", cell(new, 2));
    else
        value_words(without_slot(old), without_slot(new), &sb);
    d->fn(what, d->kind, sb.data, d->user);
    strbuf_done(&sb);
}

static int collect(const json_t *rows, const char *kind, const json_t **to, int max)
{
    size_t i;
    json_t *row;
    int count = 0;
    json_array_foreach(rows, i, row)
    {
        if (count < max && strcmp(cell(row, 0), "hardware") == 0 && strcmp(cell(row, 1), kind) == 0)
            to[count++] = row;
    }
    return count;
}

/* How long a value is without the place that with_places put to its end. */
static size_t len_without_place(const char *value)
{
    const char *at = strstr(value, ", at ");
    return at != NULL ? (size_t)(at - value) : strlen(value);
}

static void tell_pair(const struct diff *d, const json_t *old, const json_t *new)
{
    const char *from = cell(old, 4), *to = cell(new, 4), *a = cell(old, 2), *b = cell(new, 2);
    bool moved = from[0] != '\0' && to[0] != '\0' && strcmp(from, to) != 0;
    bool named = label_len(a) > 0, same = strcmp(a, b) == 0;
    size_t len = len_without_place(a);
    if (moved && named && len == len_without_place(b) && strncmp(a, b, len) == 0)
        tell(d, same ? PART_MOVED : PART_PLACED, old, new);
    else if (same)
        return;
    else if (!named && label_len(b) > 0)
        tell(d, PART_TOLD, old, new);
    else
        tell(d, PART_SWAPPED, old, new);
}

static bool same_value(const json_t *a, const json_t *b)
{
    return strcmp(cell(a, 2), cell(b, 2)) == 0 && strcmp(cell(a, 3), cell(b, 3)) == 0;
}

static bool same_slot(const json_t *a, const json_t *b)
{
    return strcmp(cell(a, 3), cell(b, 3)) == 0;
}

/* Takes the pairs that agree in this respect out of both lists, and tells what differs. */
static void match(struct diff *d, bool (*alike)(const json_t *a, const json_t *b))
{
    for (int i = 0; i < d->old_count; i++) {
        for (int j = 0; d->old[i] != NULL && j < d->new_count; j++) {
            if (d->new[j] == NULL || !alike(d->old[i], d->new[j]))
                continue;
            tell_pair(d, d->old[i], d->new[j]);
            d->old[i] = d->new[j] = NULL;
        }
    }
}

void parts_diff(const json_t *before, const json_t *after, const char *kind, part_change_fn fn,
                void *user)
{
    struct diff *d = xcalloc(1, sizeof *d);
    d->kind = kind;
    d->fn = fn;
    d->user = user;
    d->old_count = collect(before, kind, d->old, (int)ARRAY_LEN(d->old));
    d->new_count = collect(after, kind, d->new, (int)ARRAY_LEN(d->new));
    match(d, same_value);
    match(d, same_part);
    match(d, same_slot);
    for (int i = 0; i < d->old_count; i++)
        if (d->old[i] != NULL)
            tell(d, PART_GONE, d->old[i], NULL);
    for (int i = 0; i < d->new_count; i++)
        if (d->new[i] != NULL)
            tell(d, PART_NEW, NULL, d->new[i]);
    free(d);
}
