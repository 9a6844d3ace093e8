/*
 * The parts of a payload as one run of bytes: how many, times 2, one more where the first
 * is a command (varint); of several the size of each (varints); then the parts one behind
 * the other.
 */
#ifndef WQD_STORE_PAYLOAD_BYTES_H
#define WQD_STORE_PAYLOAD_BYTES_H

#include <stdbool.h>

#include "base/str.h"
#include "store/position.h"

struct part_list {
	struct str *v; /* owned */
	size_t n, cap;
	bool command; /* the first is one */
};

/* Replaces what is in `b`; n > 0. 0 or -ENOMEM. */
int
parts_join(struct bytes *b, const struct str *parts, size_t n, bool command);
/* The parts are borrowed from `bytes`; none of those gives none. 0, -ENOMEM, ERR_DAMAGED. */
int
parts_split(struct part_list *l, struct str bytes);
/* Room for `n`. 0 or -ENOMEM. */
int
parts_reserve(struct part_list *l, size_t n);
/* The payloads of `j` are these: the pending one's, the running one's (borrowed). */
void
parts_of_job(struct job_saved *j, const struct part_list *own, const struct part_list *run);

#endif
