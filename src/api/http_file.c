#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/http_internal.h"

/* Digits into a number that saturates: a range beyond the end is cut there anyway. */
static const char *read_number(const char *p, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        unsigned digit = (unsigned)(*p - '0');
        value = value > (UINT64_MAX - digit) / 10 ? UINT64_MAX : value * 10 + digit;
    }
    *ret_value = value;
    return p;
}

enum http_range http_range_parse(const char *text, uint64_t size, uint64_t *ret_first,
                                 uint64_t *ret_len)
{
    if (text == NULL || strncasecmp(text, "bytes=", 6) != 0)
        return HTTP_RANGE_ALL;
    const char *p = text + 6;
    while (*p == ' ')
        p++;
    uint64_t first, last;
    const char *q = read_number(p, &first);
    bool has_first = q != p;
    if (*q != '-')
        return HTTP_RANGE_ALL;
    p = q + 1;
    q = read_number(p, &last);
    bool has_last = q != p;
    while (*q == ' ')
        q++;
    if (*q != '\0' || (!has_first && !has_last) || (has_first && has_last && last < first))
        return HTTP_RANGE_ALL;
    if (!has_first) { /* the last so many bytes */
        if (last == 0 || size == 0)
            return HTTP_RANGE_BAD;
        *ret_len = last < size ? last : size;
        *ret_first = size - *ret_len;
        return HTTP_RANGE_PART;
    }
    if (first >= size)
        return HTTP_RANGE_BAD;
    if (!has_last || last >= size)
        last = size - 1;
    *ret_first = first;
    *ret_len = last - first + 1;
    return HTTP_RANGE_PART;
}

bool http_etag_listed(const char *list, const char *etag, bool weak_too)
{
    if (list == NULL || etag == NULL)
        return false;
    size_t len = strlen(etag);
    const char *p = list;
    for (;;) {
        while (*p == ' ' || *p == ',' || *p == '\t')
            p++;
        if (*p == '\0')
            return false;
        if (*p == '*')
            return weak_too;
        bool weak = strncmp(p, "W/", 2) == 0;
        if (weak)
            p += 2;
        if (*p != '"')
            return false;
        const char *end = strchr(++p, '"');
        if (end == NULL)
            return false;
        if ((size_t)(end - p) == len && memcmp(p, etag, len) == 0 && (weak_too || !weak))
            return true;
        p = end + 1;
    }
}

static struct MHD_Response *text_response(const char *text)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
    if (r != NULL)
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain");
    return r;
}

static void add_file_headers(struct MHD_Response *r, const struct http_answer *a)
{
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ACCEPT_RANGES, "bytes");
    if (a->etag != NULL) {
        char quoted[160];
        (void)snprintf(quoted, sizeof quoted, "\"%s\"", a->etag);
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ETAG, quoted);
    }
}

/* Takes fd. */
static struct MHD_Response *part_response(struct http_request *req, int fd, uint64_t size,
                                          int *ret_status)
{
    const char *range = http_header(req, MHD_HTTP_HEADER_RANGE);
    const char *if_range = http_header(req, MHD_HTTP_HEADER_IF_RANGE);
    uint64_t first = 0, len = size;
    enum http_range kind = HTTP_RANGE_ALL;
    if (strcmp(req->method, "GET") == 0 &&
        (if_range == NULL || http_etag_listed(if_range, req->answer.etag, false)))
        kind = http_range_parse(range, size, &first, &len);
    char where[96];
    struct MHD_Response *r;
    switch (kind) {
    case HTTP_RANGE_BAD:
        (void)close(fd);
        *ret_status = MHD_HTTP_RANGE_NOT_SATISFIABLE;
        r = text_response("the range lies beyond the end of the file\n");
        (void)snprintf(where, sizeof where, "bytes */%" PRIu64, size);
        break;
    case HTTP_RANGE_PART:
        *ret_status = MHD_HTTP_PARTIAL_CONTENT;
        r = MHD_create_response_from_fd_at_offset64(len, fd, first);
        (void)snprintf(where, sizeof where, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first,
                       first + len - 1, size);
        break;
    default:
        *ret_status = req->answer.status;
        r = MHD_create_response_from_fd64(size, fd);
        break;
    }
    if (r == NULL) {
        if (kind != HTTP_RANGE_BAD)
            (void)close(fd);
        return NULL;
    }
    if (kind != HTTP_RANGE_ALL)
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_RANGE, where);
    return r;
}

struct MHD_Response *http_file_response(struct http_request *req, int *ret_status)
{
    struct http_answer *a = &req->answer;
    struct MHD_Response *r;
    struct stat st;
    int fd = open(a->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        int sys = fd < 0 ? errno : 0;
        if (fd >= 0)
            (void)close(fd);
        bool later = sys == EMFILE || sys == ENFILE || sys == ENOMEM;
        *ret_status = later ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_NOT_FOUND;
        free(a->content_type);
        a->content_type = NULL;
        return text_response(later ? "too many open files, try again\n" : "no such file\n");
    }
    if (http_etag_listed(http_header(req, MHD_HTTP_HEADER_IF_NONE_MATCH), a->etag, true)) {
        (void)close(fd);
        *ret_status = MHD_HTTP_NOT_MODIFIED;
        r = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    } else {
        r = part_response(req, fd, (uint64_t)st.st_size, ret_status);
    }
    if (r != NULL)
        add_file_headers(r, a);
    return r;
}
