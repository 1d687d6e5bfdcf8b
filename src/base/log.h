/*
 * Log: one line per happening, a fixed event name first, then text; to stderr.
 *
 * Only the edge (engine, api, daemon and supervised children) logs. A line about a node names it.
 * Secrets are never handed to the logger.
 */
#pragma once

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_level(enum log_level level);
/* "error", "warn", "info", "debug"; returns -1 for anything else. */
int log_level_parse(const char *name);

void log_line(enum log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(event, ...) log_line(LOG_LEVEL_ERROR, event, __VA_ARGS__)
#define log_warn(event, ...) log_line(LOG_LEVEL_WARN, event, __VA_ARGS__)
#define log_info(event, ...) log_line(LOG_LEVEL_INFO, event, __VA_ARGS__)
#define log_debug(event, ...) log_line(LOG_LEVEL_DEBUG, event, __VA_ARGS__)
