/*
 * Small numbers for stored jobs. The store names a job by its number, so that a
 * move takes a few bytes whatever the key. The smallest free one is taken: numbers
 * stay below the most jobs that were ever stored at once, and rows beside each
 * other stay full.
 *
 * Two levels of bits, one for each number, one for each word of these that is full.
 */
#ifndef WQD_ENGINE_IDS_H
#define WQD_ENGINE_IDS_H

#include <stddef.h>
#include <stdint.h>

/* No engine has so many jobs; what is above is damage. */
#define JOB_ID_MAX (1u << 30)

struct ids {
	uint64_t *used, *full; /* owned */
	size_t words;          /* of `used` */
	size_t from;           /* words before it are full */
	uint32_t *of;          /* owned; by the engine's number of a job; 0: it has none */
	size_t n_of;
};

/* Zeroed is empty. The smallest free number, from 1 on; 0 without memory. */
uint32_t
ids_take(struct ids *s);
/* Takes this one. 0, -ENOMEM, ERR_DAMAGED: out of range or taken. */
int
ids_take_this(struct ids *s, uint32_t id);
void
ids_give(struct ids *s, uint32_t id);
/* What the engine's own number `job` has; 0: none. */
static inline uint32_t
ids_of(const struct ids *s, uint32_t job)
{
	return job < s->n_of ? s->of[job] : 0;
}
/* It has `id` from now on. 0 or -ENOMEM; never of 0. */
int
ids_bind(struct ids *s, uint32_t job, uint32_t id);
void
ids_done(struct ids *s);

#endif
