/*
 * Who a run is: ids, supplementary groups, name and home, looked up in the
 * system's user database before the process is made (a child that shares the
 * daemon's memory can't). Answers are kept for IDENTITY_KEEP_NS, so that a burst
 * of runs does not ask a directory service for each. Loop thread only.
 */
#ifndef WQD_RUN_IDENTITY_H
#define WQD_RUN_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/list.h"

#define IDENTITY_KEEP_NS (10 * NS_PER_S)

struct identity {
	bool change;     /* differs from what the daemon is */
	bool set_groups; /* `groups` are to be set (a user was named) */
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	size_t n_groups;
	char *name; /* of the user; the number when it has none */
	char *home; /* "/" when it has none */
};

struct identities {
	struct list all;
};

void
identities_init(struct identities *ids);
void
identities_done(struct identities *ids);
/*
 * The one of `user` and `group`, names or decimal numbers; NULL: the daemon's
 * own. `out` is borrowed until the next call. 0; -ESRCH: unknown user or group;
 * -ENOMEM, -EMFILE...: the database could not be asked.
 */
int
identity_get(struct identities *ids, const char *user, const char *group, int64_t now_ns,
	const struct identity **out);

#endif
