/*
 * The event loop: libevent behind `struct reactor`, and the things that one
 * loop thread needs besides: a tick at an exact time, a watch on the wall
 * clock, signals.
 *
 * A turn is: poll; callbacks of what was ready (input); the tick, if its time
 * has come; the `turn` hook; tasks deferred to the end, such as the output that
 * the hook released, and where there were any the hook again, for they may have
 * taken input. The tick comes after the input of the same turn, and after a
 * stall it first polls on until the input that had piled up has been taken
 * (semantics G15): a late timer never overtakes an update that had reached a
 * socket before.
 *
 * The tick's time is CLOCK_BOOTTIME, absolute, on a timerfd: exact to the
 * kernel's timer, counting suspend; not the millisecond timeouts of poll.
 *
 * Loop thread only.
 */
#ifndef WQD_NET_LOOP_H
#define WQD_NET_LOOP_H

#include "base/clock.h"
#include "base/list.h"
#include "base/reactor.h"

struct loop;

struct loop_hooks {
	void *ctx;
	/* The time of loop_tick_at has come; it is disarmed. */
	void (*tick)(void *ctx, struct moment now);
	/* The wall clock was set. May be NULL. */
	void (*clock_stepped)(void *ctx, struct moment now);
	/* The end of each turn, and again after its deferred tasks; always before the loop sleeps: the
	 * place for group commit and loop_tick_at. May be NULL. */
	void (*turn)(void *ctx, struct moment now);
};

int
loop_new(const struct loop_hooks *hooks, struct loop **out);
/* Everything that was added must have been deleted. NULL is allowed. */
void
loop_free(struct loop *l);
/* Borrowed; lives as long as the loop. */
const struct reactor *
loop_reactor(struct loop *l);
/* Turns until loop_stop. 0 or -errno when polling failed. */
int
loop_run(struct loop *l);
/* One turn; `block` false: only what is ready now. 0 or -errno. */
int
loop_turn(struct loop *l, bool block);
/* Ends loop_run after the turn that goes on (or the next). */
void
loop_stop(struct loop *l);
/* When to call `tick`: CLOCK_BOOTTIME; in the past: in the next turn; INT64_MAX: never. Cheap when
 * the time moves later. */
void
loop_tick_at(struct loop *l, int64_t boot_ns);
/* Calls `cb` from the loop for each arrival of `signo`, until the loop is freed. 0 or -errno. */
int
loop_signal(struct loop *l, int signo, void (*cb)(void *arg, int signo), void *arg);

/* A piece of work, embedded in its owner; loop_task_init before the first use. */
struct loop_task {
	struct list link;
	void (*fn)(void *arg);
	void *arg;
};
void
loop_task_init(struct loop_task *t, void (*fn)(void *arg), void *arg);
/* Runs `t` once at the end of this turn. One that is queued already stays where it is. */
void
loop_defer(struct loop *l, struct loop_task *t);
/* Takes it back; idempotent. */
void
loop_task_cancel(struct loop_task *t);
/* Says that more input may wait in the kernel than this turn has taken (a full read, a new
 * connection). For the net adapter's own files. */
void
loop_input_left(struct loop *l);
/* When the input of this turn had been taken: near enough for time limits, and cheaper than a clock. */
struct moment
loop_turn_now(const struct loop *l);

#endif
