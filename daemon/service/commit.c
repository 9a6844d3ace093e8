#include "service/commit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/hist.h"
#include "base/log.h"

#define COMMITTER_MAGIC 0x636d7472u
/* A group ends here, so that neither its copy nor its transaction is ever huge. */
#define GROUP_THINGS_MAX 65536
#define GROUP_BYTES_MAX  (32u << 20)
#define TAKE_STEP        256
#define SLOW_NS          NS_PER_S /* a commit that takes longer is told of */

enum commit_state { COMMIT_IDLE, COMMIT_SYNCING, COMMIT_FAILING };

struct committer {
	uint32_t magic;
	enum commit_state state;
	struct engine *engine;
	struct service *svc;
	struct writer *writer;
	int64_t interval_ns;
	int error;              /* of the last try, while FAILING */
	int64_t submitted_ns;   /* boot time, while SYNCING */
	int64_t dirty_since_ns; /* INT64_MAX: nothing dirty when last looked */
	uint64_t taken;         /* mark of the last group */
	struct hist took;
	struct committer_stats stats;
};

int
committer_new(struct engine *e, struct service *svc, struct writer *w, int64_t interval_ns,
	struct committer **out)
{
	struct committer *c = x_zalloc(sizeof *c);

	if (!c)
		return -ENOMEM;
	c->magic = COMMITTER_MAGIC;
	c->engine = e;
	c->svc = svc;
	c->writer = w;
	c->interval_ns = interval_ns;
	c->dirty_since_ns = INT64_MAX;
	*out = c;
	return 0;
}

void
committer_free(struct committer *c)
{
	if (!c)
		return;
	CHECK_OBJ(c, COMMITTER_MAGIC);
	MAGIC_DONE(c);
	x_free(c);
}

void
committer_set_interval(struct committer *c, int64_t interval_ns)
{
	c->interval_ns = interval_ns;
}

static void
group_ok(struct committer *c, const struct group_done *d)
{
	hist_add(&c->took, d->took_ns);
	c->stats.groups++;
	c->stats.things += d->count;
	if (d->count > c->stats.largest)
		c->stats.largest = d->count;
	if (c->state == COMMIT_FAILING) {
		log_info("store_healed", "things=%zu", d->count);
		c->stats.degraded = false;
		service_set_degraded(c->svc, false);
	}
	c->state = COMMIT_IDLE;
	service_committed(c->svc, d->mark);
}

static void
group_failed(struct committer *c, const struct group_done *d)
{
	c->stats.failures++;
	if (c->state != COMMIT_FAILING) {
		log_error("store_degraded",
			"error=\"%s\" msg=\"durable requests are refused; tried again each "
			"second\"",
			err_str(d->result));
		c->stats.degraded = true;
		service_set_degraded(c->svc, true);
	}
	c->state = COMMIT_FAILING;
	c->error = d->result;
	service_commit_failed(c->svc, d->result);
}

static void
collect(struct committer *c)
{
	struct group_done done[4];
	size_t n;

	while ((n = writer_collect(c->writer, done, ARRAY_SIZE(done))) > 0)
		for (size_t i = 0; i < n; i++)
			if (done[i].result == 0)
				group_ok(c, &done[i]);
			else
				group_failed(c, &done[i]);
}

/*
 * The engine has forgotten what it handed out, so a group that could not be copied whole can't be
 * made up for: the daemon ends, and the next one recovers what was committed before.
 */
static _Noreturn void
out_of_memory(struct group *g)
{
	log_error("commit_impossible", "things=%zu bytes=%zu error=\"out of memory\"",
		group_count(g), group_bytes(g));
	abort();
}

/* Takes a group of bounded size and gives it to the writer. */
static void
submit(struct committer *c, struct moment now)
{
	struct group *g;
	int r;

	if (group_new(&g) < 0) {
		/* The changes stay dirty; it is tried again an interval later. */
		c->dirty_since_ns = now.boot_ns;
		return;
	}
	while (engine_dirty(c->engine) > 0 && group_count(g) < GROUP_THINGS_MAX &&
		group_bytes(g) < GROUP_BYTES_MAX)
		c->taken = engine_take_dirty(c->engine, now, TAKE_STEP, group_sink(g));
	r = writer_submit(c->writer, g, c->taken, now, true);
	if (r < 0)
		out_of_memory(g);
	c->state = COMMIT_SYNCING;
	c->submitted_ns = now.boot_ns;
	/* What did not fit is as old as what did, at least in what it may claim. */
	if (engine_dirty(c->engine) == 0)
		c->dirty_since_ns = INT64_MAX;
}

static void
turn(struct committer *c, struct moment now, bool at_once)
{
	/* With no group at the writer there is nothing to ask it for, which is a system call. */
	if (c->state != COMMIT_IDLE)
		collect(c);
	if (engine_dirty(c->engine) == 0) {
		c->dirty_since_ns = INT64_MAX;
		return;
	}
	if (c->dirty_since_ns == INT64_MAX)
		c->dirty_since_ns = now.boot_ns;
	if (c->state != COMMIT_IDLE)
		return;
	if (at_once || engine_dirty_urgent(c->engine) ||
		now.boot_ns - c->dirty_since_ns >= c->interval_ns)
		submit(c, now);
}

void
committer_turn(struct committer *c, struct moment now)
{
	CHECK_OBJ(c, COMMITTER_MAGIC);
	turn(c, now, false);
}

void
committer_collect(struct committer *c, struct moment now)
{
	CHECK_OBJ(c, COMMITTER_MAGIC);
	collect(c);
	turn(c, now, false);
}

int64_t
committer_next_due(const struct committer *c)
{
	if (c->state != COMMIT_IDLE || c->dirty_since_ns == INT64_MAX)
		return INT64_MAX;
	return sat_add(c->dirty_since_ns, c->interval_ns);
}

bool
committer_finish(struct committer *c, struct moment now)
{
	CHECK_OBJ(c, COMMITTER_MAGIC);
	turn(c, now, true);
	return c->state == COMMIT_IDLE && engine_dirty(c->engine) == 0;
}

void
committer_trouble(const struct committer *c, struct moment now, char *dst, size_t size)
{
	int64_t since_ns = now.boot_ns - c->submitted_ns;

	dst[0] = '\0';
	if (c->state == COMMIT_FAILING)
		(void)snprintf(dst, size,
			"commits fail (%s): updates that have to be stored are refused",
			err_str(c->error));
	else if (c->state == COMMIT_SYNCING && since_ns >= SLOW_NS)
		(void)snprintf(dst, size,
			"the disk is slow: a commit has been going on for %lld.%llds",
			(long long)(since_ns / NS_PER_S),
			(long long)(since_ns % NS_PER_S / (100 * NS_PER_MS)));
}

void
committer_stats_get(const struct committer *c, struct committer_stats *out)
{
	*out = c->stats;
	out->took_p50_ns = hist_quantile(&c->took, 500);
	out->took_p99_ns = hist_quantile(&c->took, 990);
	out->took_max_ns = c->took.max;
}
