/*
 * A layer below SQLite that fails when told to: the Nth call of a kind fails,
 * once or from then on, and so does the Nth allocation inside SQLite. A failed
 * write leaves half of its bytes behind.
 *
 * It also knows what a loss of power would leave: the content of each file as of
 * its last sync, and of what came later any part. Syncs are not passed on to the
 * real disk; what they promise is kept track of here.
 *
 * Any thread, but for the power, which fails when nothing else goes on.
 */
#ifndef WQD_TESTS_FAULT_VFS_H
#define WQD_TESTS_FAULT_VFS_H

#include <stdbool.h>
#include <stdint.h>

enum fault_op {
	FAULT_OPEN,
	FAULT_READ,
	FAULT_WRITE,
	FAULT_SYNC,
	FAULT_TRUNCATE,
	FAULT_DELETE,
	FAULT_MALLOC, /* inside SQLite */
	FAULT_ALLOC,  /* x_alloc and friends */
	FAULT_CHANGE, /* write, sync, truncate and delete counted together */
	FAULT_OPS
};

/* Once, before SQLite is used: becomes its default file system and its memory. */
void
fault_install(void);
/* The `nth` (from 1) call of kind `op` from now on fails, and those after it when `forever`. */
void
fault_set(enum fault_op op, long nth, bool forever, bool disk_full);
/* One more, of another kind, besides what fault_set has set; not of FAULT_ALLOC. */
void
fault_also(enum fault_op op, long nth, bool forever);
/* The disk has so many bytes left: what would make a file longer than that fails. */
void
fault_room(long bytes);
/* Nothing fails any more. Returns whether anything had failed. */
bool
fault_clear(void);
/* Starts to keep track of what is synced: all that is on disk now is. */
void
power_track(void);
/*
 * Puts the files as a loss of power could have left them: `chance` of 100 is how likely a block
 * that was written and not synced arrived. Ends the tracking.
 */
void
power_loss(uint64_t seed, unsigned chance);

#endif
