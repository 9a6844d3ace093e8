/* What crew.c, crew_start.c and crew_carry.c share; nobody else includes it. */
#ifndef WQD_CREW_INT_H
#define WQD_CREW_INT_H

#include <sys/types.h>

#include "base/list.h"
#include "crew.h"
#include "parts.h"
#include "run/launch.h"
#include "run/probe.h"

#define CREW_MAGIC 0x63726577u
#define LAST_WORDS 200u

enum member_state { COMING, ON, GOING, ENDING };

struct member {
	struct list link;
	struct crew *c;
	enum member_state state;
	bool told; /* to go: its end is no crash */
	pid_t pid;
	int pidfd, out; /* what it says */
	struct reactor_io *pid_io, *out_io;
	struct session *s; /* NULL: its connection has ended */
	int64_t began_ns, since_ns, grace_ns;
	struct probe probe; /* of it and what it started */
	int64_t cpu_ns;     /* at the last look */
	char handler[HANDLER_NAME_MAX + 1], queue[QUEUE_NAME_MAX + 1];
	char said[LAST_WORDS + 1];
	size_t n_said;
};

/* What is remembered of a queue between its workers. */
struct shift {
	struct list link;
	char queue[QUEUE_NAME_MAX + 1];
	int64_t pause_ns, not_before_ns;
	int64_t looked_ns;
	double used;
	uint32_t pool, alive; /* at the last look */
	bool seen;
};

struct crew {
	unsigned magic;
	struct daemon *d;
	struct launcher launcher;
	struct reactor_timer *timer;
	struct list members, shifts;
	size_t n;
	struct member *opening; /* whose session is being made */
	const struct handler *opening_by;
	bool stopping;
	int64_t look_ns; /* of the present turn: when to look again */
	struct moment now;
};

/* ---- crew_start.c ---- */

/* Its program and its connection. False: it did not start, or has no connection; what there is of it
 * is the caller's to end. */
bool
member_start(struct member *m, const struct handler *h);

/* ---- crew.c ---- */

/* Its process and what it says. */
bool
member_watch(struct member *m);
void
member_free(struct member *m);
/* Of the queue, made when there is none; NULL without memory. */
struct shift *
crew_shift(struct crew *c, const char *queue);

#endif
