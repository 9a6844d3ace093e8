/*
 * libwq against a daemon that sends anything: no crash, no leak, and each request
 * is called back exactly once with something that can be read.
 *
 * The first byte chooses: whether the daemon greets properly, whether the rest
 * answers asynchronous requests or a blocking look, and in how many pieces it
 * comes. Ids: 1 is the hello, 2 and on the requests in the order below.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <wq.h>
#include <wq.pb-c.h>

#include "fuzz/fuzz.h"
#include "wire/frame.h"

#define GREETS   0x01u
#define LOOKS    0x02u
#define SOLE     0x04u
#define PIECES   0x38u
#define SENT_MAX 16u /* requests, updates of a batch counted one by one */

struct talk {
	wq_t *wq;
	int peer;
	unsigned sent, answered;
	unsigned calls[SENT_MAX];
};

/* ---- a socket to connect to ---- */

static int listener = -1;
static char dir[] = "/tmp/wqd-fuzz-XXXXXX";
static char socket_path[64], server[72];

static void
remove_socket(void)
{
	unlink(socket_path);
	rmdir(dir);
}

static void
listen_once(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	if (listener >= 0)
		return;
	wq_assert(mkdtemp(dir) != NULL);
	snprintf(socket_path, sizeof socket_path, "%s/s", dir);
	snprintf(server, sizeof server, "unix:%s", socket_path);
	memcpy(sa.sun_path, socket_path, strlen(socket_path) + 1);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	wq_assert(listener >= 0);
	wq_assert(bind(listener, (struct sockaddr *)&sa, sizeof sa) == 0);
	wq_assert(listen(listener, 8) == 0);
	atexit(remove_socket);
}

/* ---- what the callbacks are given ---- */

static void
read_text(const char *z)
{
	if (z)
		fuzz_read(str_from(z));
}

static int
see_run(const wq_run_info_t *r, void *arg)
{
	(void)arg;
	read_text(r->queue);
	read_text(r->key);
	fuzz_read((struct str){ r->output, r->output_len });
	read_text(wq_outcome_word(r->outcome));
	return 0;
}

static int
see_job(const wq_job_info_t *j, void *arg)
{
	read_text(j->queue);
	read_text(j->key);
	read_text(wq_state_word(j->state));
	return j->last ? see_run(j->last, arg) : 0;
}

static int
see_queue(const wq_queue_info_t *q, void *arg)
{
	(void)arg;
	read_text(q->queue);
	for (size_t i = 0; i < q->n_settings; i++) {
		read_text(q->names[i]);
		read_text(q->values[i]);
	}
	return 0;
}

static int
see_counter(const char *name, int64_t value, void *arg)
{
	(void)arg;
	(void)value;
	read_text(name);
	return 0;
}

static struct talk *now;

/* `arg` is where the calls of that request are counted. */
static void
on_reply(wq_t *wq, const wq_reply_t *r, void *arg)
{
	unsigned *calls = arg;

	wq_assert(wq == now->wq && *calls == 0);
	++*calls;
	now->answered++;
	read_text(r->message);
	read_text(r->key);
	read_text(wq_status_word(r->status));
	read_text(wq_strerror(r->result));
	if (r->run)
		see_run(r->run, NULL);
}

/* ---- one conversation ---- */

static void
greet(int peer)
{
	Wq__V1__HelloInfo info;
	Wq__V1__Reply reply;
	uint8_t bytes[256];
	size_t head, n;

	wq__v1__hello_info__init(&info);
	wq__v1__reply__init(&reply);
	info.version = 1;
	info.frame_max = 1u << 20;
	info.in_flight_max = 1000;
	info.now_ms = 1767225600000;
	reply.id = 1;
	reply.hello = &info;
	n = wq__v1__reply__get_packed_size(&reply);
	wq_assert(n < sizeof bytes - 5);
	head = frame_put_len(bytes, (uint32_t)n);
	wq__v1__reply__pack(&reply, bytes + head);
	send(peer, bytes, head + n, MSG_NOSIGNAL);
}

/* A look that wants a second page connects again, and waits for a greeting that does not come. */
static void
turn_others_away(void)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		close(fd);
}

static void
connect_to(struct talk *t, unsigned how)
{
	wq_assert(wq_new(server, &t->wq) == 0);
	wq_assert(wq_set(t->wq, "reconnect", "no") == 0);
	wq_assert(wq_set(t->wq, "connect_timeout", "5ms") == 0);
	wq_assert(wq_set(t->wq, "sole_updater", how & SOLE ? "yes" : "no") == 0);
	wq_process(t->wq, 0);
	t->peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	wq_assert(t->peer >= 0);
	wq_process(t->wq, WQ_WRITABLE);
	if (how & GREETS) {
		greet(t->peer); /* too late on a busy machine: then it is a refusal */
		wq_process(t->wq, WQ_READABLE);
	}
}

static void
count(struct talk *t, int result)
{
	t->sent += result == 0;
}

/* Two updates, of which each is called back. */
static void
on_batch_reply(wq_t *wq, const wq_reply_t *r, void *arg)
{
	unsigned *calls = arg;

	on_reply(wq, r, *calls == 0 ? calls : calls + 1);
}

static void
send_batch(struct talk *t)
{
	wq_batch_t *b;

	wq_assert(wq_batch_new(t->wq, &b) == 0);
	wq_assert(wq_batch_update(b, "q", "first", 1000, NULL) == 0);
	wq_assert(wq_batch_update(b, NULL, NULL, 2000, NULL) == 0);
	if (wq_batch_send(b, on_batch_reply, &t->calls[t->sent]) == 0)
		t->sent += 2;
}

static void
send_requests(struct talk *t)
{
	wq_update_opts_t o = WQ_UPDATE_INIT;
	wq_t *wq = t->wq;

	o.slack_ms = 1000;
	count(t, wq_send_update(wq, "q", "k", 5000, &o, on_reply, &t->calls[t->sent]));
	count(t, wq_send_update(wq, NULL, NULL, 0, NULL, on_reply, &t->calls[t->sent]));
	count(t, wq_send_cancel(wq, "q", "k", WQ_CANCEL_KILL, 100, on_reply, &t->calls[t->sent]));
	count(t, wq_send_flush(wq, "q", "k", 1, -1, on_reply, &t->calls[t->sent]));
	count(t, wq_send_wait(wq, "q", "k", 0, -1, on_reply, &t->calls[t->sent]));
	count(t, wq_send_job(wq, WQ_OP_KICK, "q", "k", on_reply, &t->calls[t->sent]));
	count(t, wq_send_flush_queue(wq, "q", -1, on_reply, &t->calls[t->sent]));
	send_batch(t);
	wq_process(wq, WQ_WRITABLE);
}

/* In pieces, each seen by the client before the next comes. */
static void
answer(struct talk *t, struct fuzz_in in, unsigned pieces)
{
	size_t each = in.n / pieces + 1;

	while (in.n > 0) {
		size_t n = in.n < each ? in.n : each;

		if (send(t->peer, in.p, n, MSG_NOSIGNAL) < 0)
			break;
		in.p += n;
		in.n -= n;
		wq_process(t->wq, WQ_READABLE);
	}
}

/* All is written before the blocking call begins: it ends with the answer or with the connection. */
static void
look(struct talk *t, struct fuzz_in in, unsigned what)
{
	static const char *const names[] = { "slack" }, *const values[] = { "1s" };
	wq_list_opts_t list = WQ_LIST_INIT;
	wq_result_t result;
	int64_t rtt;

	if (in.n > 0 && send(t->peer, in.p, in.n, MSG_NOSIGNAL) < 0)
		return;
	shutdown(t->peer, SHUT_WR);
	switch (what % 8) {
	case 0:
		wq_get(t->wq, "q", "k", see_job, NULL);
		break;
	case 1:
		wq_list(t->wq, &list, see_job, NULL);
		break;
	case 2:
		wq_history(t->wq, "q", NULL, 0, see_run, NULL);
		break;
	case 3:
		wq_queue_show(t->wq, NULL, see_queue, NULL);
		break;
	case 4:
		wq_stat(t->wq, see_counter, NULL);
		break;
	case 5:
		wq_ping(t->wq, &rtt);
		break;
	case 6:
		wq_queue_create(t->wq, "q", 1, names, values);
		break;
	default:
		if (wq_wait(t->wq, "q", "k", 0, 1000, &result) == 0)
			read_text(result.key);
	}
	read_text(wq_message(t->wq));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	unsigned how = (unsigned)fuzz_int(&in, 1);
	struct talk t = { 0 };

	listen_once();
	now = &t;
	connect_to(&t, how);
	if (how & LOOKS) {
		unsigned what = (unsigned)fuzz_int(&in, 1);

		look(&t, in, what);
	} else {
		send_requests(&t);
		answer(&t, in, 1 + (how & PIECES) / 8);
	}
	close(t.peer);
	if (wq_fd(t.wq) >= 0)
		wq_process(t.wq, WQ_READABLE);
	wq_free(t.wq);
	turn_others_away();
	wq_assert(t.answered == t.sent);
	return 0;
}
