/*
 * Where this process stands in the cgroup trees: the folder of its group for
 * each controller of interest, of version 1 or 2, as /proc/self says. Small files
 * of them (and of /proc) are read and written with the helpers below.
 */
#ifndef WQD_RUN_CGROUP_FIND_H
#define WQD_RUN_CGROUP_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define CGROUP_PATH_MAX 512

enum cgroup_kind { CG_UNIFIED, CG_CPU, CG_MEMORY, CG_PIDS, N_CG_KINDS };

struct cgroup_dir {
	char path[CGROUP_PATH_MAX]; /* of our group; "" : not found */
	size_t mount_n;             /* bytes of it that are the mount point: the top */
	bool top;                   /* our group is the root of the tree */
	bool v2;                    /* files are named as in version 2 */
};

struct cgroup_place {
	struct cgroup_dir dir[N_CG_KINDS];
};

/* What is not there stays empty. */
void
cgroup_find(struct cgroup_place *out);
/* Cuts the last name off `path`, unless it is at the mount point: then false. */
bool
cgroup_parent(struct cgroup_dir *d);

/* ---- small files ---- */

/* `dir`/`name`; `dir` may be NULL. The descriptor or -errno. */
int
file_open(const char *dir, const char *name, int flags);
/* The first bytes of `dir`/`name`, with a NUL behind; `dir` may be NULL. Length or -errno. */
long
file_get(const char *dir, const char *name, char *dst, size_t size);
/* From the descriptor's beginning. */
long
file_get_fd(int fd, char *dst, size_t size);
int
file_put(const char *dir, const char *name, const char *text);
/* The number at `*p`, behind blanks; moves `*p` behind it. False: there is none. */
bool
take_u64(const char **p, uint64_t *v);
/* The number in the file; "max" and what is no number: UINT64_MAX. */
uint64_t
file_u64(const char *dir, const char *name);
/* The number behind the word `key` and blanks; `missing` where there is none. */
uint64_t
text_value(const char *text, const char *key, uint64_t missing);

#endif
