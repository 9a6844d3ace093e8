/*
 * The daemon between its sockets: requests as bytes into a session, replies as
 * bytes out of it, with the real engine below and no system call but a look at
 * the clock a read. What a request costs here beside the engine alone
 * (bench_engine) is what service and wire add; what it costs over a socket beside
 * this is the transport.
 *
 *   bench_service [JOBS [REQUESTS]]
 */
#include <string.h>

#include "bench/bench.h"
#include "bench/requests.h"
#include "service/service.h"
#include "service/session.h"

#define READ_MAX (256u << 10)

static struct engine *e;
static struct service *svc;
static struct session *s;
static struct server gen; /* makes the requests */
static uint8_t bytes[READ_MAX];

static void
on_output_ready(void *ctx, struct session *of)
{
	(void)ctx;
	(void)of;
}

static void
build(uint64_t jobs)
{
	struct engine_config ec = ENGINE_CONFIG_DEFAULT;
	const struct service_config sc = {
		.server = "bench",
		.instance = "bench",
		.frame_max = 1u << 20,
		.max_in_flight = 1024,
		.output_max = 4u << 20,
		.watch_bytes = 1u << 20,
		.hello_timeout_ns = NS_PER_S,
		.frame_timeout_ns = NS_PER_S,
		.output_ready = on_output_ready,
	};
	struct service_config cfg = sc;
	struct queue_settings q;
	struct peer peer = { 0 };

	ec.max_jobs = 2 * jobs;
	wq_assert(engine_new(&ec, &e) == 0);
	cfg.engine = e;
	wq_assert(service_new(&cfg, &svc) == 0);
	queue_settings_default(&q);
	q.durability = LEVEL_MEMORY;
	wq_assert(service_configure_queue(svc, clock_now(), STR("bench"), &q) == 0);
	wq_assert(session_new(svc, &peer, clock_now(), &s) == 0);
}

/* `n` requests in one read, all answered; returns bytes of the replies. */
static size_t
serve(size_t n)
{
	struct buf in, *out = session_output(s);
	size_t at = 0, len, used;

	for (size_t i = 0; i < n; i++)
		at += gen.put(&gen, bytes + at);
	wq_assert(at <= sizeof bytes);
	in = buf_view(bytes, at);
	while (session_input(s, clock_now(), &in) > 0)
		;
	wq_assert(buf_len(&in) == 0);
	len = buf_len(out);
	wq_assert(gen.take(&gen, buf_head(out), len, &used) == n && used == len);
	buf_consume(out, len);
	return len;
}

/* What making the requests and looking at the replies costs by itself is measured and taken off. */
static void
play(const char *name, size_t at_once, uint64_t count, double updates)
{
	uint8_t *replies = must_alloc(READ_MAX);
	size_t len, used;
	int64_t from, all, own;

	len = serve(at_once);
	from = bench_cpu_ns();
	for (uint64_t i = 0; i < count; i += at_once)
		len = serve(at_once);
	all = bench_cpu_ns() - from;
	wq_assert(len <= READ_MAX);
	for (size_t i = 0, at = 0; i < at_once; i++)
		at += gen.put(&gen, bytes + at);
	memset(replies, 0, len);
	from = bench_cpu_ns();
	for (uint64_t i = 0; i < count; i += at_once) {
		for (size_t k = 0, at = 0; k < at_once; k++)
			at += gen.put(&gen, bytes + at);
		used = 0;
		gen.take(&gen, replies, len, &used);
	}
	own = bench_cpu_ns() - from;
	bench_per(name, all - own, (uint64_t)((double)count * updates));
	x_free(replies);
}

int
main(int argc, char **argv)
{
	uint64_t jobs = bench_count(argc, argv, 1000000), count = 2000000;

	if (argc > 2)
		count = strtoull(argv[2], NULL, 10);
	build(jobs);
	wqd_generator(&gen, jobs);
	wq_assert(serve(1) > 0); /* the hello */
	wqd_use(&gen, WQD_FILL);
	for (uint64_t i = 0; i < jobs; i += UPDATES_PER_BATCH)
		serve(1);
	wqd_use(&gen, WQD_UPDATE);
	play("service-update-1", 1, count / 4, 1);
	play("service-update-64", 64, count, 1);
	play("service-update-256", 256, count, 1);
	wqd_use(&gen, WQD_BATCH);
	play("service-batches-of-100", 4, count / UPDATES_PER_BATCH, UPDATES_PER_BATCH);
	/* The seed's comparison, one key again and again, without a transport. */
	seed_use(&gen, SEED_UPDATE, false);
	play("seed-update", 64, count, 1);
	seed_use(&gen, SEED_SLACK, false);
	play("seed-update-inside-the-slack", 64, count, 1);
	seed_use(&gen, SEED_CANCEL_QUEUE, false);
	play("seed-cancel-and-queue", 64, count, 0.5);
	session_free(s, clock_now());
	service_free(svc);
	engine_free(e);
	return 0;
}
