#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/names.h"

static const struct name level_names[] = {{LOG_LEVEL_ERROR, "error"},
                                          {LOG_LEVEL_WARN, "warn"},
                                          {LOG_LEVEL_INFO, "info"},
                                          {LOG_LEVEL_DEBUG, "debug"},
                                          {0, NULL}};

static enum log_level log_level_now = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
    log_level_now = level;
}

int log_level_parse(const char *name)
{
    return name_id(level_names, name);
}

void log_line(enum log_level level, const char *event, const char *fmt, ...)
{
    if (level > log_level_now)
        return;
    char text[2048];
    char when[CLOCK_TEXT_SIZE];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    /* one line per happening, whatever a peer put into a string */
    for (int i = 0; i < n && i < (int)sizeof text - 1; i++)
        if ((unsigned char)text[i] < ' ')
            text[i] = ' ';
    (void)dprintf(STDERR_FILENO, "%s %-5s %s: %s\n", clock_format(clock_wall_ms(), when),
                  name_of(level_names, (int)level, "?"), event, text);
}
