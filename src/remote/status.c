#include "remote/status.h"

#include <stdlib.h>
#include <string.h>

#include "base/names.h"

static const struct name state_names[] = {{RUN_SEND, "send"},
                                          {RUN_ABSENT, "absent"},
                                          {RUN_RUNNING, "running"},
                                          {RUN_EXITED, "exited"},
                                          {RUN_GONE, "gone"},
                                          {RUN_RESTARTED, "restarted"},
                                          {0, NULL}};

enum { FIELDS = 5, FIELD_MAX = 24 };

int answer_find(const char *data, size_t len, const char *marker, const char **ret_text,
                size_t *ret_len, size_t *ret_next)
{
    size_t marker_len = strlen(marker);
    size_t at = 0;
    while (at < len) {
        const char *line = data + at;
        const char *end = memchr(line, '\n', len - at);
        if (end == NULL)
            return -1;
        size_t line_len = (size_t)(end - line);
        at += line_len + 1;
        if (line_len > marker_len && memcmp(line, marker, marker_len) == 0 &&
            line[marker_len] == ' ') {
            *ret_text = line + marker_len + 1;
            *ret_len = line_len - marker_len - 1;
            *ret_next = at;
            return 0;
        }
    }
    return -1;
}

/* Splits at single spaces into exactly FIELDS short words. */
static int split(const char *text, size_t len, char fields[FIELDS][FIELD_MAX])
{
    int count = 0;
    size_t n = 0;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && text[i] != ' ') {
            if (count == FIELDS || n == FIELD_MAX - 1 || text[i] < '!' || text[i] > '~')
                return -1;
            fields[count][n++] = text[i];
            continue;
        }
        if (n == 0)
            return -1;
        fields[count++][n] = '\0';
        n = 0;
    }
    return count == FIELDS ? 0 : -1;
}

static int number(const char *text, int64_t min, int64_t max, int64_t *ret)
{
    size_t digits = strspn(text + (*text == '-'), "0123456789");
    if (digits == 0 || digits > 18 || text[digits + (*text == '-')] != '\0')
        return -1;
    int64_t v = strtoll(text, NULL, 10);
    if (v < min || v > max)
        return -1;
    *ret = v;
    return 0;
}

int run_status_parse(const char *data, size_t len, struct run_status *ret_status, size_t *ret_next)
{
    char fields[FIELDS][FIELD_MAX];
    const char *text;
    size_t text_len, next;
    int64_t code, size, pid;
    if (answer_find(data, len, "clusterd-run", &text, &text_len, &next) < 0 ||
        split(text, text_len, fields) < 0 || strcmp(fields[0], "1") != 0)
        return -1;
    int state = name_id(state_names, fields[1]);
    if (state < 0 || number(fields[2], -1, 255, &code) < 0 ||
        number(fields[3], 0, INT64_MAX, &size) < 0 || number(fields[4], 0, INT32_MAX, &pid) < 0)
        return -1;
    if ((state == RUN_EXITED) != (code >= 0))
        return -1;
    *ret_status = (struct run_status){(enum run_state)state, (int)code, size, pid};
    *ret_next = next;
    return 0;
}

int boot_id_parse(const char *data, size_t len, char ret_boot_id[40])
{
    const char *text;
    size_t text_len, next;
    if (answer_find(data, len, "clusterd-boot", &text, &text_len, &next) < 0 || text_len != 36)
        return -1;
    for (size_t i = 0; i < text_len; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' : strchr("0123456789abcdef", text[i]) == NULL || text[i] == '\0')
            return -1;
    }
    memcpy(ret_boot_id, text, text_len);
    ret_boot_id[text_len] = '\0';
    return 0;
}
