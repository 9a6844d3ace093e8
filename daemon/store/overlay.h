/*
 * What a log of moves says last of each job of a range of numbers: the log is read
 * from its oldest entry to its newest, and laid over what the blocks have. Memory is
 * for the range, not for the log: whoever has more jobs reads the log once for each
 * range (overlay_span says how many jobs go into one).
 */
#ifndef WQD_STORE_OVERLAY_H
#define WQD_STORE_OVERLAY_H

#include "store/position.h"

struct overlay_slot;

struct overlay {
	uint32_t first, n;         /* numbers first .. first + n - 1 */
	struct overlay_slot *slot; /* owned */
	struct position *put;      /* owned; as put whole */
	uint32_t n_put, cap_put;
};

/* How many jobs are laid over at a time, where the greatest number is `top`. */
uint32_t
overlay_span(uint32_t top);
/* Zeroed before the first. 0 or -ENOMEM. */
int
overlay_begin(struct overlay *o, uint32_t first, uint32_t n);
void
overlay_done(struct overlay *o);
/* Takes a run of the log in; what is of other numbers is passed over. 0, -ENOMEM, ERR_DAMAGED. */
int
overlay_add(struct overlay *o, struct str run);

enum overlay_word { OVERLAY_NOTHING, OVERLAY_THERE, OVERLAY_REMOVED };
/* What stands in *p (when `was` there) becomes what the log makes of it; the word says what the log
 * had. ERR_DAMAGED: a move of a job that is nowhere. */
int
overlay_apply(struct overlay *o, uint32_t id, bool was, struct position *p);
/* Whether the log says anything of the sixteen of a block. */
bool
overlay_touches(const struct overlay *o, uint32_t block);
/* This job has been asked for; so that overlay_left finds those nobody asked for. */
void
overlay_seen(struct overlay *o, uint32_t id);
/* The number of a job that the log says is there and that was not seen; 0: none. */
uint32_t
overlay_left(const struct overlay *o);

#endif
