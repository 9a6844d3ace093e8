/*
 * What an adapter may ask of the event loop: readiness of a descriptor and
 * timers on the monotonic clock. The network loop implements it with libevent;
 * the runner and tests use it without knowing. Loop thread only.
 */
#ifndef WQD_BASE_REACTOR_H
#define WQD_BASE_REACTOR_H

#include <stdbool.h>
#include <stdint.h>

struct reactor_io;    /* one watched descriptor */
struct reactor_timer; /* one timer */

enum { REACTOR_READ = 1, REACTOR_WRITE = 2 };

struct reactor {
	void *ctx;
	/* Watches `fd` (borrowed) for `what`, level triggered, until io_del. 0 or -errno. */
	int (*io_add)(void *ctx, int fd, unsigned what, void (*cb)(void *arg, unsigned ready),
		void *arg, struct reactor_io **out);
	/* Allowed inside the callback. NULL is allowed. */
	void (*io_del)(void *ctx, struct reactor_io *io);
	/* A one-shot timer, created unarmed. */
	int (*timer_new)(void *ctx, void (*cb)(void *arg), void *arg, struct reactor_timer **out);
	/* Fires once `after_ns` (>= 0) from now; re-arming moves it; negative disarms. */
	void (*timer_set)(void *ctx, struct reactor_timer *t, int64_t after_ns);
	void (*timer_del)(void *ctx, struct reactor_timer *t);
};

#endif
