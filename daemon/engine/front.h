/* The front of a wheel (front.c); for wheel.c. */
#ifndef WQD_ENGINE_FRONT_H
#define WQD_ENGINE_FRONT_H

#include "engine/records.h"

/* timer.place of a job in front. */
#define FRONT 0x7fffffffu /* no place in a heap, where jobs may be as well */

static inline struct job *
job_of(const struct wheel *w, uint32_t i)
{
	return (struct job *)(void *)w->jobs->base + i;
}

/* Room for a few, so that they come out even when there is no memory. 0 or -ENOMEM. */
int
front_init(struct wheel *w);
void
front_done(struct wheel *w);
/* 0 or -ENOMEM. */
int
front_add(struct wheel *w, struct wheel_entry e);
/* The first that is valid; NULL: the front is empty. */
const struct wheel_entry *
front_first(struct wheel *w);
/* Large arrays are given back when they are empty. */
void
front_shrink(struct wheel *w);
void
front_verify(const struct wheel *w);

#endif
