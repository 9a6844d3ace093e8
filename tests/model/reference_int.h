/*
 * What the files of the reference share:
 *
 *   reference.c      who waits for what, levels and ids, instances
 *   ref_requests.c   what is asked
 *   ref_events.c     runs, time, restarts
 */
#ifndef WQD_TESTS_REFERENCE_INT_H
#define WQD_TESTS_REFERENCE_INT_H

#include <stdio.h>
#include <string.h>

#include "model/reference.h"
#include "model/rig.h"

struct ref_job *
ref_job_at(struct ref *r, int queue, int key);
bool
ref_pending(const struct ref_job *j);
/* The generation that the pending instance will run as. */
uint64_t
ref_coming(const struct ref_job *j);
struct ref_reply *
ref_reply(struct ref *r, uint64_t ticket, enum status status);
void
ref_reply_run(struct ref *r, uint64_t ticket, enum status status, const struct ref_record *run);
struct ref_waiter *
ref_wait_for(
	struct ref *r, uint64_t ticket, enum ref_waits kind, int queue, int key, int64_t timeout);
void
ref_waiter_drop(struct ref *r, size_t i);
bool
ref_cancelling(const struct ref *r, int queue, int key);
bool
ref_deleting(const struct ref *r, int queue);
/* True: there is no such queue, and that is answered. */
bool
ref_gone(struct ref *r, uint64_t ticket, int queue);
/* Waiter `i` need not wait for `serial`; true when it was answered. */
bool
ref_serial_over_for(struct ref *r, size_t i, uint64_t serial, const struct ref_record *run);
/* The instance or run `serial` is over; `run`: the newest record of the job. */
void
ref_serial_over(struct ref *r, uint64_t serial, const struct ref_record *run);
/* Generation `generation` of a job is decided. */
void
ref_generation_over(struct ref *r, int queue, int key, uint64_t generation, enum status status,
	const struct ref_record *run);
enum durability
ref_level_of(const struct ref *r, int queue, enum durability level);
/* A request of that level has changed the job, or relies on what it is. */
void
ref_touch(struct ref *r, int queue, int key, enum durability level);
/* True: the id is known, and the request is answered. `asked`: enum engine_event_kind. */
bool
ref_repeated(struct ref *r, uint64_t ticket, int queue, int key, int asked, enum durability level,
	struct str id);
/* The reply to a request that was answered at once. */
void
ref_finish(struct ref *r, int queue, int key, int asked, enum durability level, struct str id,
	struct ref_reply *made);
/* On the timer, or at the tail of those who are ready. `lets_pass`: a drain waits for it. */
void
ref_place(
	struct ref *r, int queue, struct ref_instance *p, int64_t due, bool ready, bool lets_pass);
/* Takes the pending instance away. */
void
ref_drop_pending(struct ref *r, int queue, int key);
struct ref_reply *
ref_job_reply(struct ref *r, uint64_t ticket, int queue, int key, enum status status);
void
ref_record_drop(struct ref *r, size_t i);
/* Not dead any more: what told of the death goes, when only that kept it. */
void
ref_undead(struct ref *r, int queue, int key);
/* The armed one of a queue (-1: of all) that comes first, or NULL. */
struct ref_job *
ref_first_armed(struct ref *r, int only, int *queue, int *key);
bool
ref_drained(struct ref *r, int queue);
/* A drain of the queue is over: when none is left, what was held is like all others. */
void
ref_undrain(struct ref *r, int queue);

#endif
