/*
 * An upgrade as a state machine; upgrade.c does what its states say.
 *
 *   state      what goes on                              left when
 *   IDLE       nothing                                   it is asked for -> CHECKING
 *   CHECKING   the new program, as a child, looks        it can, and only that was asked -> IDLE;
 *              whether it can take over                  it can -> SETTLING; it can't, CHECK_NS -> IDLE
 *   SETTLING   nothing is read, expires or starts;       all is at rest -> PARTING;
 *              commits and answers come to their end     SETTLE_NS, or it can't -> IDLE
 *   PARTING    connections with TLS are ended, and       none is left and all is at rest -> SAVING
 *              what that changes is committed            (PART_NS: they are dropped); SETTLE_NS -> IDLE
 *   SAVING     the state is written down                 written -> HANDING; error -> IDLE
 *   HANDING    the new program takes our place           it did not -> IDLE
 *
 * Whatever leads to IDLE leaves the daemon serving as before; so does the end of the daemon, which is
 * asked for meanwhile, and goes on from there. In CHECKING it serves all the time.
 *
 * Pure functions.
 */
#ifndef WQD_UPGRADE_STATE_H
#define WQD_UPGRADE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* clang-format off */
#define UPGRADE_STATE_TABLE(X) \
	X(UP_IDLE,     "idle",     0) \
	X(UP_CHECKING, "checking", UPGRADE_CHECK_NS) \
	X(UP_SETTLING, "settling", UPGRADE_SETTLE_NS) \
	X(UP_PARTING,  "parting",  UPGRADE_SETTLE_NS) \
	X(UP_SAVING,   "saving",   0) \
	X(UP_HANDING,  "handing",  0)
/* clang-format on */
#define UPGRADE_CHECK_NS  (30 * NS_PER_S)
#define UPGRADE_SETTLE_NS (10 * NS_PER_S)
#define UPGRADE_PART_NS   (2 * NS_PER_S)

enum upgrade_state {
#define X(state, name, most) state,
	UPGRADE_STATE_TABLE(X)
#undef X
		N_UPGRADE_STATES
};

/* What is known at the end of a turn; and whether it failed, of what the state has tried. */
struct upgrade_seen {
	bool only_check;
	bool child_over; /* CHECKING: it has ended */
	bool failed; /* the check said no; something goes on that can't be carried; a write, the exec */
	bool at_rest;  /* SETTLING, PARTING */
	bool tls_left; /* PARTING */
	bool done;     /* SAVING: written */
	bool over;     /* the time of the state */
	bool stopping; /* the daemon is to end */
};

const char *
upgrade_state_name(enum upgrade_state s);
/* How long it may last; 0: no longer than a turn. */
int64_t
upgrade_state_most(enum upgrade_state s);
/* Where it goes from there: `s` itself, to stay. */
enum upgrade_state
upgrade_next(enum upgrade_state s, const struct upgrade_seen *seen);
/* Does the table let one lead to the other? */
bool
upgrade_leads(enum upgrade_state from, enum upgrade_state to);

#endif
