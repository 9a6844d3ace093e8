/*
 * The service manager: what its environment says, and what it wants to be told.
 *
 * systemd_new reads NOTIFY_SOCKET, WATCHDOG_*, LISTEN_* and JOURNAL_STREAM once
 * and takes them out of the environment, so that no child ever sees them. All
 * calls are harmless without a service manager. Loop thread.
 */
#ifndef WQD_SYS_SYSTEMD_H
#define WQD_SYS_SYSTEMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct systemd;

/* 0; ERR_BAD_VALUE with a sentence in *why (static): LISTEN_FDS makes no sense for us (an
 * absurd number, descriptors that are no listening stream sockets). A LISTEN_PID or WATCHDOG_PID of
 * another process means: not for us. */
int
systemd_new(struct systemd **out, const char **why);
/* NULL is allowed. Descriptors that were not taken are closed. */
void
systemd_free(struct systemd *sd);
/* How many sockets were passed; and the i-th, given to the caller (cloexec). */
size_t
systemd_listen_count(const struct systemd *sd);
int
systemd_listen_take(struct systemd *sd, size_t i);
/* Its unit has FileDescriptorName=NAME. */
bool
systemd_listen_named(const struct systemd *sd, size_t i, const char *name);
/* Half of the watchdog's time, or 0: none wanted. */
int64_t
systemd_watchdog_ns(const struct systemd *sd);
/* stderr is the journal: log lines want the "<N>" prefix. */
bool
systemd_stderr_is_journal(const struct systemd *sd);

/* What was taken out of the environment and a program that takes our place would have to find there:
 * "NAME=value", NULL-terminated, borrowed. */
char *const *
systemd_environ(const struct systemd *sd);

void
systemd_ready(struct systemd *sd);
void
systemd_stopping(struct systemd *sd);
/* A reload begins; systemd_ready ends it. */
void
systemd_reloading(struct systemd *sd);
void
systemd_watchdog_ping(struct systemd *sd);
/* One line for `systemctl status`. */
void
systemd_status(struct systemd *sd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Start or stop takes longer: allow `ns` more from now. */
void
systemd_extend_timeout(struct systemd *sd, int64_t ns);

#endif
