/*
 * Leases (lease.c) and the workers that have them (worker.c), for the other files
 * of the engine.
 */
#ifndef WQD_ENGINE_LEASE_H
#define WQD_ENGINE_LEASE_H

#include "engine/records.h"

/* ---- lease.c ---- */

enum lease_op {
	LEASE_TOUCH,
	LEASE_FINISH,
	LEASE_FAIL,
	LEASE_RELEASE,
	LEASE_UNSENT, /* the hand-over did not happen */
	LEASE_EXPIRE,
	LEASE_REVOKE, /* a cancel */
	LEASE_LEAVE,  /* the worker's connection has ended */
	N_LEASE_OPS
};
/* The run is its lease from now on. 0 or -ENOMEM. */
int
lease_give(struct engine *e, struct run *run, struct sub *s);
/* The same of a run that was a lease before a restart. */
int
lease_orphan(struct engine *e, struct run *run);
/* Over an exec: as it was. 0 or a negative error. */
struct lease_carried {
	struct run *run;       /* NULL: LOST */
	uint64_t subscription; /* 0: ORPHAN */
	uint8_t state;
	bool touched;
	uint64_t token;
	int64_t due_ns;
	size_t bytes;
};
int
lease_carry(struct engine *e, const struct lease_carried *from);
/* Off its run and its worker. */
void
lease_free(struct engine *e, struct lease *l);
void
lease_apply(struct engine *e, struct lease *l, enum lease_op op, const struct run_end *how);
void
lease_revoke(struct engine *e, struct run *run);
void
leases_expire_some(struct engine *e, uint32_t most);
void
lease_event(struct engine *e, const struct engine_event *ev);
void
unsent_event(struct engine *e, const struct engine_event *ev);
void
lease_look(const struct engine *e, struct moment now, const struct run *run, struct job_view *v);
void
lease_verify(const struct engine *e, const struct lease *l);

/* ---- worker.c ---- */

void
sub_map_init(struct map *m);
/* By its subscription, or NULL. */
struct sub *
worker_find(const struct engine *e, uint64_t ticket);
/* Its turn in the queue comes after all others, if it has credit. */
void
worker_goes_last(struct engine *e, struct queue *q, uint64_t ticket);
/* Over an exec: as it was, but for its leases. 0 or a negative error. */
struct worker_carried {
	uint64_t ticket, given;
	uint32_t credits;
	int64_t idle_ns;
	bool closed;
	struct str holder;
	const struct str *queues;
	size_t n_queues;
};
int
worker_carry(struct engine *e, const struct worker_carried *from);
/* Who takes the next job of the queue; there is one. */
struct sub *
worker_next(const struct queue *q);
/* It has: the next one is first. */
void
worker_took(struct engine *e, struct queue *q);
/* Its credit may have changed, or it may be over (and gone); NULL is allowed. */
void
worker_looked_at(struct engine *e, struct sub *s);
/* A lease of that worker which is over without its word, or NULL. */
struct lease *
worker_lost_lease(const struct engine *e, uint64_t subscription, uint64_t token);
void
subscribe_event(struct engine *e, const struct engine_event *ev);
void
credits_event(struct engine *e, const struct engine_event *ev);
/* The connection of the request with that ticket has ended: if it was a SUBSCRIBE. */
void
worker_leave(struct engine *e, uint64_t ticket);
void
workers_queue_gone(struct engine *e, struct queue *q);
/* Its settings may be others: does the daemon keep workers for it? */
void
workers_place_queue(struct engine *e, struct queue *q);
void
workers_free(struct engine *e);
void
workers_verify(const struct engine *e);

#endif
