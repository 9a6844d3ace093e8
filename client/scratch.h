/*
 * A scratch is what a reply is decoded into: it only grows, up to a maximum, and is emptied as
 * a whole. A peer that sends many tiny submessages in one frame so gets a refusal, not our
 * memory.
 */
#ifndef WQ_CLIENT_SCRATCH_H
#define WQ_CLIENT_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scratch_block;

struct scratch {
	struct scratch_block *head; /* newest first; owned */
	size_t total;               /* bytes of all blocks */
	size_t max;
	bool no_memory; /* an allocation failed since the last reset */
};

void
scratch_init(struct scratch *s, size_t max);
void
scratch_done(struct scratch *s);
/* Everything handed out is gone; one small block is kept for the next time. */
void
scratch_reset(struct scratch *s);
/* NULL when over the maximum, or without memory (no_memory is set then). Aligned for anything. */
void *
scratch_alloc(struct scratch *s, size_t n);
/* A copy with a terminator. */
char *
scratch_text(struct scratch *s, const void *p, size_t n);

#endif
