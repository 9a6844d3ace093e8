/* What the files that read a configuration share: load.c, cross.c, access.c. Nobody else includes
 * it. */
#ifndef WQD_CONF_LOAD_INT_H
#define WQD_CONF_LOAD_INT_H

#include <stdbool.h>

#include "conf/conf.h"
#include "conf/option.h"

struct loading {
	const char *path;
	struct config *c;
	int err; /* the first, with its message */
	char why[1024];
	uint64_t seen; /* rows of the top level that were set */
	int listen_line;
	/* The section being read. */
	bool in_section;
	uint64_t seen_here;
	struct handler handler;
	struct config_queue queue;
	struct pool_config pool;
	struct grant_role role;
	struct grant_namespace space;
	int action;       /* as the queue's section gives it; -1: not at all */
	int handler_line; /* where the queue names its handler */
	int pool_line;    /* and its pool */
	struct named_at {
		int handler, pool;
	} * lines; /* of each of c->queues; owned */
};

/* Notes the first error; -1, as the parser's callbacks want it. */
__attribute__((format(printf, 3, 4))) int
load_fail(struct loading *l, int line, const char *fmt, ...);
int
load_fail_errno(struct loading *l, int err);

/* access.c: the ends of such sections. */
int
end_role(struct loading *l, int line);
int
end_namespace(struct loading *l, int line);

/* cross.c: what must hold between options. */
int
cross_check(struct loading *l);

#endif
