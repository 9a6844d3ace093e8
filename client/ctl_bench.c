/*
 * bench: keyed reschedules as fast as the daemon answers, --pipeline requests
 * in flight on one connection. Before the clock starts every key is touched
 * once, so that what is measured is an update of an armed job and not its
 * creation; afterwards the keys are deleted.
 *
 * A latency is the time from handing a request to the library to its reply; all
 * updates of one batch message share the message's. Keys are picked at random
 * with a fixed seed.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "ctl_hist.h"
#include "ctl_mem.h"
#include "ctl_out.h"

#define TOUCH_BATCH 1000
#define KEY_SIZE    48

struct bench;
/* A request in flight. */
struct bench_slot {
	struct bench *b;
	int64_t sent_ns;
	uint64_t waits; /* replies still to come for it */
};

struct bench {
	struct ctl *c;
	const char *queue;
	uint64_t keys, count, pipeline, batch;
	int64_t delay_ms;
	wq_update_opts_t opts;
	uint64_t sent;   /* updates */
	uint64_t done;   /* good replies */
	uint64_t errors; /* bad ones */
	int first_error; /* 0: none */
	bool over;       /* what still comes is not counted */
	uint64_t random;
	struct bench_slot *slots;
	struct ctl_hist *latency; /* ns */
};

static int64_t
monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* Two of them at once must not meet. */
static const char *
key_name(char dst[KEY_SIZE], uint64_t i)
{
	snprintf(dst, KEY_SIZE, "bench-%ld-%llu", (long)getpid(), (unsigned long long)i);
	return dst;
}

/* xorshift64 */
static uint64_t
random_key(struct bench *b)
{
	b->random ^= b->random << 13;
	b->random ^= b->random >> 7;
	b->random ^= b->random << 17;
	return b->random % b->keys;
}

static void
note_error(struct bench *b, int error)
{
	b->errors++;
	if (!b->first_error)
		b->first_error = error;
}

/* ---- measured part ---- */

static int
send_next(struct bench_slot *s);

static void
on_update(wq_t *wq, const wq_reply_t *reply, void *arg)
{
	struct bench_slot *s = arg;
	struct bench *b = s->b;
	int rc;

	(void)wq;
	if (b->over)
		return;
	if (reply->result < 0) {
		note_error(b, reply->result);
	} else {
		b->done++;
		ctl_hist_add(b->latency, monotonic_ns() - s->sent_ns);
	}
	if (--s->waits == 0 && b->sent < b->count) {
		rc = send_next(s);
		if (rc < 0)
			note_error(b, rc);
	}
}

static int
send_batch(struct bench_slot *s, uint64_t n)
{
	struct bench *b = s->b;
	char key[KEY_SIZE];
	wq_batch_t *batch;
	int rc = wq_batch_new(b->c->wq, &batch);

	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < n && rc == 0; i++)
		rc = wq_batch_update(
			batch, b->queue, key_name(key, random_key(b)), b->delay_ms, &b->opts);
	if (rc < 0) {
		wq_batch_free(batch);
		return rc;
	}
	return wq_batch_send(batch, on_update, s);
}

static int
send_next(struct bench_slot *s)
{
	struct bench *b = s->b;
	uint64_t left = b->count - b->sent, n = b->batch < left ? b->batch : left;
	char key[KEY_SIZE];

	b->sent += n;
	s->waits = n;
	s->sent_ns = monotonic_ns();
	if (b->batch > 1)
		return send_batch(s, n);
	return wq_send_update(b->c->wq, b->queue, key_name(key, random_key(b)), b->delay_ms,
		&b->opts, on_update, s);
}

static int
measure(struct bench *b, int64_t *took_ns)
{
	int64_t start = monotonic_ns();
	int rc = 0;

	for (uint64_t i = 0; i < b->pipeline && b->sent < b->count && rc == 0; i++) {
		b->slots[i].b = b;
		rc = send_next(&b->slots[i]);
	}
	if (rc == 0)
		rc = ctl_turn(b->c, true);
	*took_ns = monotonic_ns() - start;
	return rc;
}

/* ---- before and after ---- */

static void
on_other(wq_t *wq, const wq_reply_t *reply, void *arg)
{
	struct bench *b = arg;

	(void)wq;
	if (!b->over && reply->result < 0)
		note_error(b, reply->result);
}

/* Every key becomes an armed job, in batches. */
static int
touch(struct bench *b)
{
	wq_batch_t *batch;
	char key[KEY_SIZE];
	int rc = 0;

	for (uint64_t i = 0; i < b->keys && rc == 0 && !b->first_error;) {
		rc = wq_batch_new(b->c->wq, &batch);
		if (rc < 0)
			return rc;
		for (unsigned n = 0; n < TOUCH_BATCH && i < b->keys && rc == 0; n++)
			rc = wq_batch_update(
				batch, b->queue, key_name(key, i++), b->delay_ms, &b->opts);
		if (rc < 0)
			wq_batch_free(batch);
		else if ((rc = wq_batch_send(batch, on_other, b)) == 0)
			rc = ctl_turn(b->c, false);
	}
	return rc < 0 ? rc : b->first_error;
}

static int
clean_up(struct bench *b)
{
	char key[KEY_SIZE];
	int rc = 0;

	for (uint64_t i = 0; i < b->keys && rc == 0; i++) {
		rc = wq_send_job(b->c->wq, WQ_OP_DELETE, b->queue, key_name(key, i), on_other, b);
		if (rc == 0 && (i % TOUCH_BATCH == TOUCH_BATCH - 1 || i == b->keys - 1))
			rc = ctl_turn(b->c, false);
	}
	return rc;
}

/* ---- the answer ---- */

static double
tenth(double v)
{
	return (double)(int64_t)(v * 10 + 0.5) / 10;
}

static void
put_result(struct bench *b, int64_t took_ns)
{
	double per_s = took_ns > 0 ? (double)b->done * 1e9 / (double)took_ns : 0;
	double p50 = (double)ctl_hist_quantile(b->latency, 500) / 1e3;
	double p99 = (double)ctl_hist_quantile(b->latency, 990) / 1e3;
	double max = (double)b->latency->max / 1e3;

	if (b->c->json) {
		json_t *j = json_object();

		ctl_json_set(j, "ops_per_s", json_real(tenth(per_s)));
		ctl_json_set(j, "p50_us", json_real(tenth(p50)));
		ctl_json_set(j, "p99_us", json_real(tenth(p99)));
		ctl_json_set(j, "max_us", json_real(tenth(max)));
		ctl_json_set(j, "count", json_integer((json_int_t)b->done));
		ctl_json_set(j, "errors", json_integer((json_int_t)b->errors));
		ctl_json_set(j, "keys", json_integer((json_int_t)b->keys));
		ctl_json_set(j, "pipeline", json_integer((json_int_t)b->pipeline));
		ctl_json_set(j, "batch", json_integer((json_int_t)b->batch));
		ctl_json_put(b->c, j);
		return;
	}
	printf("%.0f ops/s  p50 %.1f us  p99 %.1f us  max %.1f us  count %llu  errors %llu\n",
		per_s, p50, p99, max, (unsigned long long)b->done, (unsigned long long)b->errors);
}

static int
run(struct bench *b)
{
	struct ctl *c = b->c;
	int64_t took_ns = 0;
	int rc, cleaned;

	rc = touch(b);
	if (rc == 0)
		rc = measure(b, &took_ns);
	cleaned = ctl_given(c, OPT_KEEP) ? 0 : clean_up(b);
	if (rc < 0 || cleaned < 0)
		return ctl_fail(c, rc < 0 ? rc : cleaned, NULL);
	put_result(b, took_ns);
	if (b->first_error)
		fprintf(stderr, "wqctl: first error: %s\n", wq_strerror(b->first_error));
	return b->errors ? CTL_FAILED : CTL_DONE;
}

int
ctl_do_bench(struct ctl *c)
{
	struct bench b = {
		.c = c,
		.queue = c->opt[OPT_QUEUE].text,
		.keys = (uint64_t)ctl_num(c, OPT_KEYS, 1000),
		.count = (uint64_t)ctl_num(c, OPT_COUNT, 100000),
		.pipeline = (uint64_t)ctl_num(c, OPT_PIPELINE, 1),
		.batch = (uint64_t)ctl_num(c, OPT_BATCH, 1),
		.delay_ms = ctl_num(c, OPT_DELAY, 3600000),
		.opts = WQ_UPDATE_INIT,
		.random = 88172645463325252u,
	};
	int rc = ctl_connect(c);

	if (rc)
		return rc;
	b.opts.durability = (wq_durability_t)ctl_num(c, OPT_DURABILITY, WQ_DEFAULT);
	b.slots = ctl_alloc(b.pipeline * sizeof *b.slots);
	b.latency = ctl_alloc(sizeof *b.latency);
	rc = run(&b);
	/* What is still in flight is called back now. */
	b.over = true;
	ctl_disconnect(c);
	mem_free(b.latency);
	mem_free(b.slots);
	return rc;
}
