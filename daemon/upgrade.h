/*
 * The daemon gives its place to another program of its kind without leaving it:
 * the process stays, and with it connections, runs and descriptors; what is in
 * memory is written down and read again. docs/adr/0013. The states are in
 * upgrade_state.h. Loop thread only.
 */
#ifndef WQD_UPGRADE_H
#define WQD_UPGRADE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"

struct daemon;
struct daemon_options;
struct upgrade;

int
upgrade_new(struct daemon *d, struct upgrade **out);
/* A check that goes on is ended. NULL is allowed. */
void
upgrade_free(struct upgrade *u);
/* service_config.upgrade: 0, or a negative error and why. */
int
upgrade_begin(struct upgrade *u, bool check, char *why, size_t size);
/* At the end of a turn, after everything else. */
void
upgrade_turn(struct upgrade *u, struct moment now);
/* Nothing new is to be begun: it is about to be written down. */
bool
upgrade_holds(const struct upgrade *u);

/* A test's way to have a step fail: does the file that WQD_UPGRADE_FAULT names begin with it? Builds
 * without fault injection: no. */
bool
upgrade_fault(const char *step);

/* ---- what both sides of an exec do ---- */

/* Signals that end the daemon or reload it wait for whoever is there then, or no more. */
void
upgrade_block_signals(bool block);
/* The environment as it was given to us: how many entries, and these (borrowed) in `dst` unless it is
 * NULL. */
size_t
upgrade_environ(const struct daemon *d, char **dst);

/* ---- the new program: upgrade_check.c, carried.c ---- */

/* --check-upgrade: whether this program can take over what is told on standard input. The exit
 * status. */
int
upgrade_check(const struct daemon_options *opt);
/* What is put to it. */
#define UPGRADE_QUESTION_MAX 8192 /* a path, and some lines */
/* In the answer of one that can. */
#define UPGRADE_CAN "can take over"
size_t
upgrade_question(const struct daemon *d, char *dst, size_t size);

/* Of CARRY_HEAD; never given to anything else. */
enum { HEAD_FORMAT = 1, HEAD_PID, HEAD_BEGAN, HEAD_VERSION, HEAD_UPGRADES, HEAD_EXE };

/* Variables of the environment that lead it to the state; they are taken out when they are read. */
#define CARRIED_FD   "WQD_CARRIED_FD"
#define CARRIED_BACK "WQD_CARRIED_BACK" /* it is the old one again, and this is why */

/* Looks for a state that is carried; without one nothing happens. 0, or a negative error. */
int
carried_open(struct daemon *d);
void
carried_close(struct daemon *d);
/* All that needs parts, which are there: what goes on, goes on. 0, or an exit status with the reason
 * logged. */
int
carried_restore(struct daemon *d);
/* The parts serve: the upgrade is over, and who asked is told. */
void
carried_done(struct daemon *d);
/* They could not be made: the program from before takes the place back. Returns only if it could not. */
void
carried_back(struct daemon *d);

#endif
