#include "bench/libwq_load.h"

#include <poll.h>

#include "bench/requests.h"
#include "wq.h"

#define KEY_BYTES 16

struct run {
	const struct libwq_load *load;
	uint64_t random, answered;
	int64_t sent_ns;
	bool over;
	struct hist *latency;
};

static void
must(int err, const char *what)
{
	if (err < 0)
		bench_die("libwq: %s: %s", what, wq_strerror(err));
}

static void
some_key(struct run *r, char key[KEY_BYTES + 1])
{
	uint64_t n = bench_below(&r->random, r->load->n_keys);

	for (int i = KEY_BYTES; i-- > 0; n /= 10)
		key[i] = (char)('0' + n % 10);
	key[KEY_BYTES] = '\0';
}

static int64_t
some_delay(struct run *r)
{
	return 3600000 + (int64_t)bench_below(&r->random, 1 << 20);
}

static void
send_one(wq_t *wq, struct run *r);

static void
on_reply(wq_t *wq, const wq_reply_t *reply, void *arg)
{
	struct run *r = arg;

	if (r->over)
		return;
	must(reply->result, "update");
	r->answered++;
	if (r->load->batch && r->answered % UPDATES_PER_BATCH != 0)
		return;
	if (r->latency && r->load->depth == 1)
		hist_add(r->latency, bench_now_ns() - r->sent_ns);
	send_one(wq, r);
}

static void
send_one(wq_t *wq, struct run *r)
{
	char key[KEY_BYTES + 1];
	wq_batch_t *b;

	if (r->latency)
		r->sent_ns = bench_now_ns();
	if (!r->load->batch) {
		some_key(r, key);
		must(wq_send_update(wq, "bench", key, some_delay(r), NULL, on_reply, r), "send");
		return;
	}
	must(wq_batch_new(wq, &b), "batch");
	for (unsigned i = 0; i < UPDATES_PER_BATCH; i++) {
		some_key(r, key);
		must(wq_batch_update(b, "bench", key, some_delay(r), NULL), "batch");
	}
	must(wq_batch_send(b, on_reply, r), "send");
}

static int
wait_ready(const wq_t *wq)
{
	struct pollfd p = { .fd = wq_fd(wq), .events = POLLIN };

	if (wq_events(wq) & WQ_WRITABLE)
		p.events |= POLLOUT;
	poll(&p, 1, wq_timeout_ms(wq));
	return (p.revents & POLLOUT ? WQ_WRITABLE : 0) | (p.revents & ~POLLOUT ? WQ_READABLE : 0);
}

double
libwq_run(const struct libwq_load *load, struct hist *latency)
{
	struct run r = { .load = load, .random = 88172645463325252u, .latency = latency };
	int64_t start;
	wq_t *wq;

	must(wq_connect(load->server, load->options, &wq), "connect");
	start = bench_now_ns();
	for (unsigned i = 0; i < load->depth; i++)
		send_one(wq, &r);
	must(wq_process(wq, 0), "process");
	while (bench_now_ns() - start < load->for_ns)
		must(wq_process(wq, wait_ready(wq)), "process");
	start = bench_now_ns() - start;
	r.over = true;
	wq_free(wq);
	return (double)r.answered * 1e9 / (double)start / (load->batch ? UPDATES_PER_BATCH : 1);
}
