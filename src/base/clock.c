#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;
    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t clock_mono_us(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_mono_ms(void)
{
    return clock_mono_us() / 1000;
}

int64_t clock_wall_ms(void)
{
    return read_clock(CLOCK_REALTIME);
}

const char *clock_format(int64_t wall_ms, char buf[CLOCK_TEXT_SIZE])
{
    time_t sec = (time_t)(wall_ms / 1000);
    struct tm tm;
    (void)gmtime_r(&sec, &tm);
    size_t n = strftime(buf, CLOCK_TEXT_SIZE, "%Y-%m-%d %H:%M:%S", &tm);
    (void)snprintf(buf + n, CLOCK_TEXT_SIZE - n, ".%03d", (int)(wall_ms % 1000));
    return buf;
}

int clock_parse(const char *text, int64_t *ret_wall_ms, struct err *err)
{
    struct tm tm = {0};
    char sep = 0;
    int used = 0, ms = 0;
    if (sscanf(text, "%4d-%2d-%2d%c%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &sep,
               &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &used) != 7 ||
        (sep != ' ' && sep != 'T'))
        return err_set(err, ERR_INVALID, "'%s' is not a time like 2026-12-01 06:50:31", text);
    const char *p = text + used;
    if (*p == '.') {
        int scale = 100;
        for (p++; *p >= '0' && *p <= '9'; p++, scale /= 10)
            ms += (*p - '0') * scale;
    }
    if (*p == 'Z')
        p++;
    if (*p != '\0')
        return err_set(err, ERR_INVALID, "'%s': nothing may follow the time", text);
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *ret_wall_ms = (int64_t)timegm(&tm) * 1000 + ms;
    return 0;
}

static const struct {
    const char *unit;
    int64_t ms;
} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

int clock_parse_duration(const char *text, int64_t *ret_ms, struct err *err)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end != text && errno == 0 && value >= 0 && value < 1e9)
        for (size_t i = 0; i < ARRAY_LEN(units); i++)
            if (strcmp(end, units[i].unit) == 0) {
                *ret_ms = (int64_t)(value * (double)units[i].ms + 0.5);
                return 0;
            }
    return err_set(err, ERR_INVALID, "'%s' is not a duration like 30s, 10m, 2h or 1d", text);
}

const char *clock_format_duration(int64_t ms, char buf[CLOCK_TEXT_SIZE])
{
    int64_t s = ms / 1000;
    if (ms < 1000)
        (void)snprintf(buf, CLOCK_TEXT_SIZE, "%dms", (int)ms);
    else if (s < 60)
        (void)snprintf(buf, CLOCK_TEXT_SIZE, "%ds", (int)s);
    else if (s < 3600)
        (void)snprintf(buf, CLOCK_TEXT_SIZE, "%dm%02ds", (int)(s / 60), (int)(s % 60));
    else if (s < 86400)
        (void)snprintf(buf, CLOCK_TEXT_SIZE, "%dh%02dm", (int)(s / 3600), (int)(s % 3600 / 60));
    else
        (void)snprintf(buf, CLOCK_TEXT_SIZE, "%dd%dh", (int)(s / 86400), (int)(s % 86400 / 3600));
    return buf;
}
