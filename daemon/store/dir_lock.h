/*
 * The lock of a state directory: one daemon at a time, for the life of a store.
 *
 * The file is never written and never removed (removing it would let two
 * daemons lock two files of one name). Two locks on it:
 * byte 0, an open-file-description lock, is what excludes; it holds against a
 *         second store of the same process too, and no other close() drops it.
 * byte 1, a process lock, only tells: the kernel names its holder to whoever
 *         was refused.
 */
#ifndef WQD_STORE_DIR_LOCK_H
#define WQD_STORE_DIR_LOCK_H

#include "store/store.h"

/* 0 and a descriptor that holds the lock until it is closed; ERR_LOCKED or -errno. */
int
dir_lock_take(const char *dir, int *fd, struct store_error *err);

#endif
