/*
 * struct reactor over libevent: what others watch through the loop. Part of the
 * loop (loop.c embeds it), in a file of its own. Loop thread only.
 */
#ifndef WQD_NET_WATCHES_H
#define WQD_NET_WATCHES_H

#include "base/reactor.h"

struct event_base;

struct watches {
	unsigned magic;
	struct reactor reactor;  /* its ctx is this object */
	struct event_base *base; /* borrowed */
	int64_t grain_us;        /* how far libevent's clock may be behind */
	unsigned ready;          /* callbacks of descriptors; the loop sets it back each turn */
};

void
watches_init(struct watches *w, struct event_base *base);

#endif
