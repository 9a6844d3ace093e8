/*
 * Jobs kept to be shown in order: the daemon lists in no particular one.
 * Copies everything, so memory is bounded by what is listed.
 */
#ifndef WQ_CTL_SORT_H
#define WQ_CTL_SORT_H

#include "wq.h"

/* In the numbering of --sort's words. */
enum ctl_order {
	CTL_BY_KEY, /* queue, then key, bytewise */
	CTL_BY_DUE  /* deadline, those without one last; then as by key */
};

struct ctl_sort;
struct ctl_sort *
ctl_sort_new(void);
void
ctl_sort_free(struct ctl_sort *s);
/* A wq_job_cb: copies the job. `arg` is the ctl_sort. */
int
ctl_sort_add(const wq_job_info_t *job, void *arg);
/* Sorts and gives them to `each` until that returns other than 0. */
void
ctl_sort_each(struct ctl_sort *s, enum ctl_order order, wq_job_cb each, void *arg);

#endif
