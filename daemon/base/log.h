/*
 * Logging: one line of `key=value` fields to stderr (which is the journal under
 * systemd; then with the syslog priority prefix "<N>"). The top layers log;
 * what returns an error does not also log it. Values are quoted and control
 * characters escaped, so that a client's bytes can't forge a line. Payloads and
 * tokens are never passed here. Any thread; a line is one write(2). Where that would
 * block, because nobody reads, the line is lost and counted instead.
 */
#ifndef WQD_BASE_LOG_H
#define WQD_BASE_LOG_H

#include <stdint.h>

#include "base/str.h"

enum log_level { LOG_ERROR_ = 3, LOG_WARN_ = 4, LOG_INFO_ = 6, LOG_DEBUG_ = 7 };

/* Lines above `level` are dropped. `prefix`: write "<N>" before each (journal). */
void
log_setup(enum log_level level, bool prefix);

/* `fmt` makes "msg=... key=value ..." ; see log_field() for untrusted values. */
void
log_line(enum log_level level, const char *event, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define log_error(event, ...) log_line(LOG_ERROR_, event, __VA_ARGS__)
#define log_warn(event, ...)  log_line(LOG_WARN_, event, __VA_ARGS__)
#define log_info(event, ...)  log_line(LOG_INFO_, event, __VA_ARGS__)
#define log_debug(event, ...) log_line(LOG_DEBUG_, event, __VA_ARGS__)

/* Lines lost since the start. */
uint64_t
log_lost(void);

/*
 * `s` made safe for a log line, in double quotes, cut at `size`. Returns `dst`.
 * For keys, queue names and anything else that came from outside.
 */
const char *
log_field(char *dst, size_t size, struct str s);

#endif
