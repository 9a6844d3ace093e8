/*
 * A worker (worker.c) and its work (work.c), and what the handle needs to know of them. A handle
 * has one worker at most.
 */
#ifndef WQ_CLIENT_WORKER_H
#define WQ_CLIENT_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pb.h"
#include "wq.h"

#define WORKER_MAGIC 0x77716b72u
#define WORK_MAGIC   0x77716a62u
#define QUEUES_MAX   64u
#define AGAIN_MS     1000 /* after a refusal that passes */

enum worker_state { W_IDLE, W_ASKED, W_ON, W_ENDING, W_OVER };

struct wq_work {
	uint32_t magic;
	struct wq_work *prev, *next;
	wq_worker_t *w;
	wq_work_info_t info;
	bool stale;        /* its connection is gone: the daemon knows nothing of it */
	bool waiting;      /* for wq_worker_next */
	uint64_t touch_id; /* request on its way; 0: none */
	int64_t touch_ns;  /* when the next is due; NEVER_NS */
};

struct wq_worker {
	uint32_t magic;
	wq_t *wq;
	enum worker_state state;
	wq_worker_opts_t opts;    /* its queues are in `queues` */
	char *queues[QUEUES_MAX]; /* owned */
	bool stopping;
	int error; /* OVER because of it */
	uint64_t sub_id;
	int64_t again_ns; /* IDLE: when to subscribe */
	struct wq_work *head, *tail;
	size_t n_work;
};

/* Touches what is due, subscribes again. */
void
worker_turn(wq_worker_t *w, int64_t now);
/* When that has something to do; NEVER_NS. */
int64_t
worker_next_due(const wq_worker_t *w);

/* A job has come. */
void
work_came(wq_worker_t *w, const Wq__V1__Leased *l);
/* Its lease is over; the application is told once. */
void
work_lose(struct wq_work *k);
/* Off the list, without a word. */
void
work_free(struct wq_work *k);
/* Of the present connection; or NULL. */
struct wq_work *
work_by_token(const wq_worker_t *w, uint64_t token);

#endif
