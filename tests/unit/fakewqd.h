/*
 * A scripted daemon for tests of the client: a unix socket in a directory of its own, served by
 * a thread that runs one function, the script. The script takes connections, reads requests,
 * answers what the test wants answered, and breaks what it wants broken.
 */
#ifndef WQD_TESTS_FAKEWQD_H
#define WQD_TESTS_FAKEWQD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wq.h"
#include "wq.pb-c.h"

struct fake {
	char dir[32];
	char path[64];
	char server[72]; /* for wq_connect */
	int listener;    /* -1: nobody listens */
	int fd;          /* the connection; -1: none. Thread */
	void (*script)(struct fake *f);
	void *arg; /* the script's */
	pthread_t thread;
	bool running;
};

/* A socket to connect to and nobody who answers yet. */
void
fake_init(struct fake *f);
/* Starts the thread. */
void
fake_run(struct fake *f, void (*script)(struct fake *f), void *arg);
/* Waits for the script to end. */
void
fake_join(struct fake *f);
/* fake_join, and takes everything away. */
void
fake_done(struct fake *f);
void
fake_stop_listening(struct fake *f);
void
fake_listen(struct fake *f);

/* fake_init and fake_run, and a handle that is connected: wq_connect with `options` (may be NULL).
 * Times out later than a test does. */
wq_t *
fake_connected(struct fake *f, void (*script)(struct fake *f), void *arg, const char *options);
/* wq_free and fake_done. */
void
fake_done_with(struct fake *f, wq_t *wq);

/* ---- for scripts ---- */

void
fake_accept(struct fake *f);
/* Waits for the peer to close, then closes. */
void
fake_wait_eof(struct fake *f);
void
fake_close(struct fake *f);
/* Accepts, checks the hello and answers it. */
void
fake_greet(struct fake *f);
/* The next request; NULL at the end of the connection. Free with fake_free. */
Wq__V1__Request *
fake_recv(struct fake *f);
void
fake_free(Wq__V1__Request *r);
/* Takes the next request and checks which it is. */
Wq__V1__Request *
fake_expect(struct fake *f, Wq__V1__Request__OpCase op);
void
fake_reply(struct fake *f, const Wq__V1__Reply *r);
/* A reply begun: id and status set, all else absent. */
Wq__V1__Reply
fake_answer(uint64_t id, Wq__V1__Status status);
void
fake_status(struct fake *f, uint64_t id, Wq__V1__Status status);
/* Takes the next request, checks which it is, answers with the status. */
void
fake_serve(struct fake *f, Wq__V1__Request__OpCase op, Wq__V1__Status status);
/* A framed reply as bytes; returns how many. */
size_t
fake_pack(const Wq__V1__Reply *r, uint8_t *dst, size_t size);
/* Bytes as they are. False when the peer is gone. */
bool
fake_raw(struct fake *f, const void *p, size_t n);

#endif
