/*
 * The process: builds every part in order, wires them, runs the loop, and takes
 * everything down again in the opposite order. The only place where adapters
 * meet.
 */
#ifndef WQD_DAEMON_H
#define WQD_DAEMON_H

#include <stdbool.h>

/* Exit statuses of wqd; also in wqd(8) and in the unit's RestartPreventExitStatus. */
enum wqd_exit {
	WQD_EXIT_OK = 0,
	WQD_EXIT_FAILED = 1,
	WQD_EXIT_USAGE = 2,
	WQD_EXIT_CONFIG = 3,
	WQD_EXIT_IN_USE = 4,  /* another daemon has the state directory */
	WQD_EXIT_DAMAGED = 5, /* the store is damaged or can't be read */
	WQD_EXIT_NEWER = 6,   /* the store was written by a newer version */
};

/* From the command line; each overrides the file. NULL: not given. */
struct daemon_options {
	const char *config; /* NULL: SYSCONFDIR/wqd/wqd.conf when it exists */
	const char *socket; /* unix socket to listen on, instead of what the file lists */
	const char *state_dir;
	char **argv;     /* as we were started, for who takes our place */
	const char *exe; /* where the program was found then; NULL: not known */
};

/* Runs until told to stop; the exit status. */
int
daemon_run(const struct daemon_options *opt);
/* Reads the configuration and says whether it is right; the exit status. */
int
daemon_check(const struct daemon_options *opt);

/* A line for the token file; the exit status. */
int
daemon_hash_token(const char *name);

#endif
