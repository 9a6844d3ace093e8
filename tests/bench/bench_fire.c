/*
 * How late what is due is told, and what it costs the others.
 *
 *   bench_fire [WQD [ROUNDS [JOBS [PART]]]]
 *
 * Jobs of action `none` to one who watches, leased jobs to a worker, so many due
 * within a second, on whole milliseconds: the key says which, so that lateness is
 * the reader's clock less that; never below zero. The engine alone is driven by a
 * timerfd, spread evenly. Beside it Redis with a poller, as one builds delayed
 * jobs on it, and beanstalkd, whose deadlines are whole seconds. Then what other
 * clients notice of a million jobs of one deadline, how fast an empty daemon is
 * there, and how often an idle one wakes up.
 */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <wq.pb-c.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "bench/peers.h"
#include "engine/engine.h"
#include "wq.h"

#define AHEAD_MS 1500 /* from the first request to the first deadline */
#define CREDITS  1024
#define IN_SIZE  (512u << 10)

static char dir[64] = "/tmp/wq-bench-XXXXXX";
static const char *program = "daemon/wqd";
static unsigned rounds = 5;
static uint64_t many = 1000000;

/* Of all rounds. */
struct late {
	struct figure p50, p99, max;
	int64_t early; /* the most that any was early; 0: none */
	uint64_t lost; /* events that the watcher was too slow for */
};

static int64_t
wall_ns(void)
{
	return clock_now().wall_ns;
}

static void
note_round(struct late *l, const struct hist *h)
{
	figure_add(&l->p50, (double)hist_quantile(h, 500) / 1e3);
	figure_add(&l->p99, (double)hist_quantile(h, 990) / 1e3);
	figure_add(&l->max, (double)h->max / 1e3);
}

static void
note(struct late *l, struct hist *h, int64_t ns)
{
	if (-ns > l->early)
		l->early = -ns;
	hist_add(h, ns);
}

static void
print_late(const char *what, const struct late *l)
{
	printf("  %-44s p50 %9.0f  p99 %9.0f  max %9.0f us  (p99 spread %.0f %%)%s\n", what,
		figure_median(&l->p50), figure_median(&l->p99), figure_median(&l->max),
		figure_spread(&l->p99), l->early ? "  EARLY" : "");
	if (l->lost)
		printf("    the watcher was too slow for %llu events of all rounds\n",
			(unsigned long long)l->lost);
	fflush(stdout);
}

static void
must(int err, const char *what)
{
	if (err < 0)
		bench_die("%s: %s", what, wq_strerror(err));
}

/* ---- the engine ---- */

static void
engine_arm(struct engine *e, struct effects *fx, struct moment now, uint64_t i, int64_t delay_ns)
{
	char key[32];
	const struct op_update op = {
		.job = { STR("default"),
			{ key,
				(size_t)snprintf(
					key, sizeof key, "k%llu", (unsigned long long)i) } },
		.when_ns = delay_ns,
		.slack_ns = -1,
		.max_wait_ns = -1,
		.level = LEVEL_MEMORY,
	};
	const struct engine_event ev = { .kind = EV_UPDATE, .ticket = i + 1, .update = &op };

	effects_clear(fx);
	engine_step(e, now, &ev, fx);
}

static void
sleep_until(int fd, int64_t boot_ns)
{
	struct itimerspec its = { .it_value = { boot_ns / NS_PER_S, boot_ns % NS_PER_S } };
	uint64_t n;

	timerfd_settime(fd, TFD_TIMER_ABSTIME, &its, NULL);
	(void)!read(fd, &n, sizeof n);
}

/* The yardstick: sleeping until so many deadlines of a second, and nothing else. */
static void
fire_timerfd(uint64_t rate)
{
	struct late l = { 0 };
	char what[64];

	for (unsigned r = 0; r < rounds; r++) {
		int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
		int64_t from = clock_boot_ns() + NS_PER_S / 10;
		struct hist h = { 0 };

		for (uint64_t i = 0; i < rate; i++) {
			int64_t due = from + (int64_t)(i * NS_PER_S / rate);

			if (due > clock_boot_ns())
				sleep_until(fd, due);
			note(&l, &h, clock_boot_ns() - due);
		}
		note_round(&l, &h);
		close(fd);
	}
	snprintf(what, sizeof what, "timerfd alone, %llu in a second", (unsigned long long)rate);
	print_late(what, &l);
}

static void
fire_engine(uint64_t rate)
{
	const struct engine_event tick = { .kind = EV_TICK };
	struct late l = { 0 };
	char what[64];

	for (unsigned r = 0; r < rounds; r++) {
		struct engine_config cfg = ENGINE_CONFIG_DEFAULT;
		int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
		struct engine_stats st = { 0 };
		struct effects fx;
		struct engine *e;
		struct moment now = clock_now();

		int64_t lead = NS_PER_S / 3 + (int64_t)rate * 4000;

		cfg.max_jobs = 2 * rate;
		wq_assert(engine_new(&cfg, &e) == 0);
		effects_init(&fx);
		for (uint64_t i = 0; i < rate; i++)
			engine_arm(e, &fx, now, i, lead + (int64_t)(i * NS_PER_S / rate));
		if (clock_boot_ns() - now.boot_ns > lead)
			bench_die("too slow to arm %llu jobs", (unsigned long long)rate);
		while (st.runs_done < rate) {
			int64_t due = engine_next_due(e, clock_now());

			if (due > clock_boot_ns())
				sleep_until(fd, due);
			effects_clear(&fx);
			engine_step(e, clock_now(), &tick, &fx);
			engine_stats_get(e, &st);
		}
		note_round(&l, engine_lateness(e));
		effects_done(&fx);
		engine_free(e);
		close(fd);
	}
	snprintf(what, sizeof what, "engine alone, %llu in a second", (unsigned long long)rate);
	print_late(what, &l);
}

/* ---- the daemon ---- */

static char address[128];

/* `n` jobs due on the milliseconds of [from, from + span), in batches. */
static void
arm(const char *queue, uint64_t n, int64_t from_ms, int64_t span_ms)
{
	wq_update_opts_t o = WQ_UPDATE_INIT;
	wq_batch_t *b = NULL;
	char key[48];
	wq_t *wq;

	must(wq_connect(address, "resend=no", &wq), "connect");
	for (uint64_t i = 0; i < n; i++) {
		o.at_ms = from_ms + (int64_t)(i * (uint64_t)span_ms / n);
		if (!b)
			must(wq_batch_new(wq, &b), "batch");
		snprintf(
			key, sizeof key, "%013lld-%llu", (long long)o.at_ms, (unsigned long long)i);
		must(wq_batch_update(b, queue, key, 0, &o), "batch");
		if (i % 1000 == 999 || i + 1 == n) {
			must(wq_batch_send(b, NULL, NULL), "send");
			must(wq_run(wq, -1), "run");
			b = NULL;
		}
	}
	wq_free(wq);
}

struct watcher {
	struct late *late;
	struct hist h;
	uint64_t seen;
	bool begun;
};

static void
on_event(wq_t *wq, const wq_event_t *e, void *arg)
{
	struct watcher *w = arg;

	(void)wq;
	if (e->result < 0)
		return;
	w->begun = true;
	w->seen += e->lost;
	w->late->lost += e->lost;
	if (e->kind != WQ_EVENT_STARTED)
		return;
	note(w->late, &w->h, wall_ns() - strtoll(e->key, NULL, 10) * NS_PER_MS);
	w->seen++;
}

static void
turn(wq_t *wq)
{
	struct pollfd p = { .fd = wq_fd(wq), .events = POLLIN };

	if (wq_events(wq) & WQ_WRITABLE)
		p.events |= POLLOUT;
	poll(&p, 1, 1000);
	must(wq_process(wq,
		     (p.revents & POLLOUT ? WQ_WRITABLE : 0) |
			     (p.revents & ~POLLOUT ? WQ_READABLE : 0)),
		"process");
}

static void
fire_watched(uint64_t n)
{
	struct late l = { 0 };
	char what[64];

	for (unsigned r = 0; r < rounds; r++) {
		wq_watch_opts_t o = WQ_WATCH_INIT;
		static struct watcher w;
		wq_t *wq;

		w = (struct watcher){ .late = &l };
		must(wq_connect(address, NULL, &wq), "connect");
		o.queue = "bench";
		o.kinds = 1u << WQ_EVENT_STARTED;
		must(wq_send_watch(wq, &o, on_event, &w), "watch");
		while (!w.begun)
			turn(wq);
		arm("bench", n, wall_ns() / NS_PER_MS + AHEAD_MS, 1000);
		while (w.seen < n)
			turn(wq);
		note_round(&l, &w.h);
		wq_free(wq);
	}
	snprintf(what, sizeof what, "wqd, none, %llu in a second, to a watcher",
		(unsigned long long)n);
	print_late(what, &l);
}

/* The daemon's own figures: how late runs were started, by the clock of the tick that did it. */
struct own {
	int64_t done, p50_us, p99_us, max_us;
};

static int
on_counter(const char *name, int64_t value, void *arg)
{
	struct own *o = arg;

	if (strcmp(name, "runs_done") == 0)
		o->done = value;
	else if (strcmp(name, "lateness_p50_us") == 0)
		o->p50_us = value;
	else if (strcmp(name, "lateness_p99_us") == 0)
		o->p99_us = value;
	else if (strcmp(name, "lateness_max_us") == 0)
		o->max_us = value;
	return 0;
}

/* Nobody looks; a daemon of its own for each round, as its figures are of its whole life. */
static void
fire_unwatched(uint64_t n)
{
	struct late l = { 0 };
	char what[64];

	for (unsigned r = 0; r < rounds; r++) {
		const struct timespec ts = { 1, 300000000 };
		struct own own = { 0 };
		struct server s;
		wq_t *wq;

		wqd_start(&s, program, dir, 1000, 0);
		snprintf(address, sizeof address, "unix:%s", s.path);
		arm("bench", n, wall_ns() / NS_PER_MS + AHEAD_MS, 1000);
		must(wq_connect(address, NULL, &wq), "connect");
		while (own.done < (int64_t)n) {
			nanosleep(&ts, NULL);
			must(wq_stat(wq, on_counter, &own), "stat");
		}
		wq_free(wq);
		figure_add(&l.p50, (double)own.p50_us);
		figure_add(&l.p99, (double)own.p99_us);
		figure_add(&l.max, (double)own.max_us);
		bench_stop(s.pid);
	}
	snprintf(what, sizeof what, "wqd, none, %llu in a second, by its own clock",
		(unsigned long long)n);
	print_late(what, &l);
}

/* ---- a worker, by the protocol itself ---- */

struct worker {
	int fd;
	uint8_t in[IN_SIZE], out[IN_SIZE];
	size_t have, n_out;
	uint64_t id;
};

static void
worker_put(struct worker *w, Wq__V1__Request *req)
{
	size_t n = wq__v1__request__get_packed_size(req);

	if (w->n_out + n + 2 > sizeof w->out) {
		bench_write(w->fd, w->out, w->n_out);
		w->n_out = 0;
	}
	wq_assert(n < 0x4000);
	w->out[w->n_out++] = (uint8_t)(n | 0x80);
	w->out[w->n_out++] = (uint8_t)(n >> 7);
	w->n_out += wq__v1__request__pack(req, w->out + w->n_out);
}

static void
worker_finish(struct worker *w, const Wq__V1__Leased *l)
{
	Wq__V1__Request req;
	Wq__V1__Lease lease;

	wq__v1__request__init(&req);
	wq__v1__lease__init(&lease);
	lease.key = l->key;
	lease.queue = l->queue;
	lease.token = l->token;
	req.id = ++w->id;
	req.op_case = WQ__V1__REQUEST__OP_FINISH;
	req.finish = &lease;
	worker_put(w, &req);
}

/* The next frame's length in *head bytes; 0: not all there. */
static size_t
frame_at(const uint8_t *p, size_t n, size_t *head)
{
	size_t len = 0;

	for (*head = 0; *head < n && *head < 4; (*head)++) {
		len |= (size_t)(p[*head] & 0x7f) << (7 * *head);
		if (p[*head] < 0x80)
			return ++*head + len <= n ? len : 0;
	}
	return 0;
}

/* Jobs among the replies of one read; each is finished. */
static uint64_t
worker_turn(struct worker *w, struct late *l, struct hist *h)
{
	ssize_t n = recv(w->fd, w->in + w->have, sizeof w->in - w->have, 0);
	size_t at = 0, head, len;
	uint64_t jobs = 0;

	if (n <= 0)
		bench_die("the worker's connection is gone");
	w->have += (size_t)n;
	while ((len = frame_at(w->in + at, w->have - at, &head)) > 0) {
		Wq__V1__Reply *r = wq__v1__reply__unpack(NULL, len, w->in + at + head);

		if (!r || r->status >= 64)
			bench_die("the worker: %s", r ? r->message : "no reply");
		if (r->leased) {
			char key[14] = { 0 };

			memcpy(key, r->leased->key.data, 13);
			note(l, h, wall_ns() - strtoll(key, NULL, 10) * NS_PER_MS);
			worker_finish(w, r->leased);
			jobs++;
		}
		wq__v1__reply__free_unpacked(r, NULL);
		at += head + len;
	}
	memmove(w->in, w->in + at, w->have - at);
	w->have -= at;
	bench_write(w->fd, w->out, w->n_out);
	w->n_out = 0;
	return jobs;
}

static void
worker_begin(struct worker *w, const struct server *wqd)
{
	static char queue[] = "work";
	char *queues[] = { queue };
	Wq__V1__Request req;
	Wq__V1__Subscribe sub;

	*w = (struct worker){ .fd = bench_connect(wqd->path), .id = 1 };
	wqd->greet((struct server *)(uintptr_t)wqd, w->fd);
	wq__v1__request__init(&req);
	wq__v1__subscribe__init(&sub);
	sub.n_queues = 1;
	sub.queues = queues;
	sub.credits = CREDITS;
	req.id = ++w->id;
	req.op_case = WQ__V1__REQUEST__OP_SUBSCRIBE;
	req.subscribe = &sub;
	worker_put(w, &req);
	bench_write(w->fd, w->out, w->n_out);
	w->n_out = 0;
}

static void
fire_worker(const struct server *wqd, uint64_t n)
{
	static struct worker w;
	struct late l = { 0 };
	char what[64];

	for (unsigned r = 0; r < rounds; r++) {
		struct hist h = { 0 };
		uint64_t jobs = 0;

		worker_begin(&w, wqd);
		arm("work", n, wall_ns() / NS_PER_MS + AHEAD_MS, 1000);
		while (jobs < n)
			jobs += worker_turn(&w, &l, &h);
		note_round(&l, &h);
		close(w.fd);
	}
	snprintf(what, sizeof what, "wqd, lease, %llu in a second, to a worker",
		(unsigned long long)n);
	print_late(what, &l);
}

/* ---- what others notice ---- */

/* Round trips of an update, one at a time, until `until_ms`. */
static void
others(struct hist *h, int64_t until_ms)
{
	wq_t *wq;

	must(wq_connect(address, NULL, &wq), "connect");
	while (wall_ns() / NS_PER_MS < until_ms) {
		int64_t from = bench_now_ns();

		must(wq_update(wq, "bench", "another", 3600000, NULL, NULL), "update");
		hist_add(h, bench_now_ns() - from);
	}
	wq_free(wq);
}

static void
same_deadline(void)
{
	struct late quiet = { 0 }, burst = { 0 };

	for (unsigned r = 0; r < rounds; r++) {
		struct hist before = { 0 }, during = { 0 };
		int64_t at_ms = wall_ns() / NS_PER_MS + 1000 + (int64_t)(many / 300);

		arm("bench", many, at_ms, 1);
		others(&before, at_ms - 10);
		others(&during, at_ms + 1000);
		note_round(&quiet, &before);
		note_round(&burst, &during);
	}
	print_late("another client's round trip, before", &quiet);
	print_late("the same, the second after the deadline", &burst);
}

/* ---- others than wqd ---- */

static void
redis_arm(int fd, uint64_t n, int64_t from_ms)
{
	static const char script[] =
		"for i=0,ARGV[1]-1 do local at=ARGV[2]+math.floor(i*1000/ARGV[1]);"
		"redis.call('ZADD','late',at,string.format('%013d-%d',at,i)) end return 1";
	char cmd[512], count[24], from[24];
	int k;

	snprintf(count, sizeof count, "%llu", (unsigned long long)n);
	snprintf(from, sizeof from, "%lld", (long long)from_ms);
	k = snprintf(cmd, sizeof cmd,
		"*5\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n0\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
		strlen(script), script, strlen(count), count, strlen(from), from);
	bench_write(fd, cmd, (size_t)k);
	if (read(fd, cmd, sizeof cmd) <= 0 || cmd[0] == '-')
		bench_die("redis: no");
}

/* Jobs in a sorted set, fetched and removed every so often by a script, as one does it. */
static void
fire_redis(const struct server *redis, uint64_t n, int64_t every_ms)
{
	static const char script[] =
		"local "
		"d=redis.call('ZRANGEBYSCORE','late','-inf',ARGV[1],'LIMIT',0,10000,'WITHSCORES');"
		"for i=1,#d,2 do redis.call('ZREM','late',d[i]) end;return d";
	static char buf[2 << 20], cmd[1024];
	struct late l = { 0 };
	char what[64];

	for (unsigned r = 0; r < rounds; r++) {
		int64_t from_ms = wall_ns() / NS_PER_MS + AHEAD_MS;
		int fd = bench_connect(redis->path);
		struct hist h = { 0 };
		uint64_t seen = 0;

		redis_arm(fd, n, from_ms);
		while (seen < n) {
			struct timespec ts = { every_ms / 1000, every_ms % 1000 * 1000000 };
			size_t have = 0, lines = 1;
			char arg[24];
			int k;

			nanosleep(&ts, NULL);
			snprintf(arg, sizeof arg, "%lld", (long long)(wall_ns() / NS_PER_MS));
			k = snprintf(cmd, sizeof cmd,
				"*4\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n0\r\n$%zu\r\n%s\r\n",
				strlen(script), script, strlen(arg), arg);
			bench_write(fd, cmd, (size_t)k);
			/* "*N", then for each of N texts its length and itself. */
			for (size_t want = 1; lines <= want;) {
				ssize_t got = read(fd, buf + have, sizeof buf - 1 - have);
				char *p = buf, *nl;

				if (got <= 0)
					bench_die("redis is gone");
				buf[have += (size_t)got] = '\0';
				want = buf[0] == '*' ? 2 * strtoull(buf + 1, NULL, 10) : 0;
				for (lines = 0; (nl = strchr(p, '\n')) != NULL; p = nl + 1)
					lines++;
			}
			for (char *p = strchr(buf, '\n'); p; p = strchr(p + 1, '\n'))
				if (p[1] >= '0' && p[1] <= '9' && strchr(p + 1, '-') &&
					strchr(p + 1, '-') < strchr(p + 1, '\r')) {
					note(&l, &h,
						wall_ns() - strtoll(p + 1, NULL, 10) * NS_PER_MS);
					seen++;
				}
		}
		note_round(&l, &h);
		close(fd);
	}
	snprintf(what, sizeof what, "Redis, %llu in a second, polled every %lld ms",
		(unsigned long long)n, (long long)every_ms);
	print_late(what, &l);
}

/* When the next one was due. */
static int64_t
beanstalkd_take_one(int fd)
{
	char buf[256];
	size_t have = 0;
	const char *text;

	bench_write(fd, "reserve\r\n", 9);
	do {
		ssize_t got = recv(fd, buf + have, sizeof buf - 1 - have, 0);

		if (got <= 0)
			bench_die("beanstalkd is gone");
		buf[have += (size_t)got] = '\0';
		text = strchr(buf, '\n');
	} while (!text || !strchr(text + 1, '\n'));
	return strtoll(text + 1, NULL, 10);
}

/* Its deadlines are whole seconds: put so that they fall due over one, taken one by one. */
static void
fire_beanstalkd(const struct server *b, uint64_t n)
{
	struct late l = { 0 };
	char buf[256], what[64];

	for (unsigned r = 0; r < rounds; r++) {
		int fd = bench_connect(b->path);
		int64_t from = wall_ns();
		struct hist h = { 0 };

		for (uint64_t i = 0; i < n; i++) {
			int64_t now = wall_ns();
			int k = snprintf(buf, sizeof buf, "put 0 2 60 19\r\n%019lld\r\n",
				(long long)(now + 2 * NS_PER_S));

			bench_write(fd, buf, (size_t)k);
			if (read(fd, buf, sizeof buf) <= 0 || buf[0] != 'I')
				bench_die("beanstalkd: no");
			while (wall_ns() - from < (int64_t)(i * NS_PER_S / n))
				;
		}
		for (uint64_t i = 0; i < n; i++) {
			int64_t due_ns = beanstalkd_take_one(fd);

			note(&l, &h, wall_ns() - due_ns);
		}
		note_round(&l, &h);
		close(fd);
	}
	snprintf(what, sizeof what, "beanstalkd, %llu in a second", (unsigned long long)n);
	print_late(what, &l);
}

/* ---- there at once, and then still ---- */

static void
start_up(void)
{
	struct figure ms = { 0 };

	for (unsigned r = 0; r < rounds; r++) {
		char path[96];
		struct server s;
		int64_t from;

		snprintf(path, sizeof path, "%s/start-%u", dir, r);
		if (mkdir(path, 0700) < 0)
			bench_die("no folder %s", path);
		from = bench_now_ns();
		wqd_start(&s, program, path, 0, 0);
		close(bench_connect_soon(s.path));
		figure_add(&ms, (double)(bench_now_ns() - from) / 1e6);
		bench_stop(s.pid);
	}
	printf("  start of an empty daemon until it takes connections: %.1f ms, spread %.0f %%; "
	       "bar "
	       "20 ms\n",
		figure_median(&ms), figure_spread(&ms));
}

/* Context switches of all threads so far. */
static uint64_t
switches(pid_t pid)
{
	char path[300], line[128];
	uint64_t sum = 0;
	DIR *d;

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	d = opendir(path);
	if (!d)
		bench_die("no %s", path);
	for (const struct dirent *e; (e = readdir(d)) != NULL;) {
		FILE *f;

		snprintf(path, sizeof path, "/proc/%d/task/%.200s/status", (int)pid, e->d_name);
		f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
		while (f && fgets(line, sizeof line, f))
			if (strstr(line, "ctxt_switches:"))
				sum += strtoull(strchr(line, ':') + 1, NULL, 10);
		if (f)
			fclose(f);
	}
	closedir(d);
	return sum;
}

static void
idle(pid_t pid)
{
	uint64_t before, after;

	sleep(2);
	before = switches(pid);
	sleep(10);
	after = switches(pid);
	printf("  idle with %llu armed jobs: %llu wake-ups in 10 s; bar 0\n",
		(unsigned long long)many, (unsigned long long)(after - before));
}

static void
work_queue(void)
{
	static const char *const names[] = { "action", "durability", "max_active" };
	static const char *const values[] = { "lease", "memory", "100000" };
	wq_t *wq;

	must(wq_connect(address, NULL, &wq), "connect");
	must(wq_queue_create(wq, "work", 3, names, values), "queue");
	wq_free(wq);
}

static const char *only;

static bool
part(const char *name)
{
	return !only || strcmp(only, name) == 0;
}

static void
with_daemon(void)
{
	struct server wqd;

	wqd_start(&wqd, program, dir, many, 0);
	snprintf(address, sizeof address, "unix:%s", wqd.path);
	work_queue();
	if (part("idle"))
		idle(wqd.pid);
	if (part("watch")) {
		fire_watched(100);
		fire_watched(10000);
		fire_watched(100000);
	}
	if (part("worker")) {
		fire_worker(&wqd, 10000);
		fire_worker(&wqd, 100000);
	}
	if (part("burst"))
		same_deadline();
	bench_stop(wqd.pid);
}

static void
peers(void)
{
	struct server redis, beanstalkd;

	if (redis_start(&redis, dir, 1)) {
		fire_redis(&redis, 10000, 100);
		fire_redis(&redis, 10000, 1000);
		bench_stop(redis.pid);
	}
	if (beanstalkd_start(&beanstalkd, dir, 1)) {
		fire_beanstalkd(&beanstalkd, 10000);
		bench_stop(beanstalkd.pid);
	}
}

int
main(int argc, char **argv)
{
	char *rm[] = { (char[]){ "rm" }, (char[]){ "-rf" }, dir, NULL };

	if (argc > 1)
		program = argv[1];
	if (argc > 2)
		rounds = (unsigned)strtoul(argv[2], NULL, 10);
	if (argc > 3)
		many = strtoull(argv[3], NULL, 10);
	if (argc > 4)
		only = argv[4];
	if (rounds == 0 || rounds > ROUNDS_MAX || many == 0)
		bench_die(
			"usage: bench_fire [WQD [ROUNDS [JOBS [start|none|idle|watch|worker|burst|"
			"engine|peers]]]]");
	if (!mkdtemp(dir))
		bench_die("no folder %s", dir);
	bench_pin(1);
	bench_machine();
	printf("lateness, medians of %u rounds; bar: never early, p99 <= 1 ms at 100000 in a "
	       "second, "
	       "<= 300 us idle\n",
		rounds);
	if (part("start"))
		start_up();
	if (part("idle") || part("watch") || part("worker") || part("burst"))
		with_daemon();
	if (part("none")) {
		fire_unwatched(100);
		fire_unwatched(10000);
		fire_unwatched(100000);
	}
	if (part("engine")) {
		fire_timerfd(100);
		fire_timerfd(10000);
		fire_engine(10000);
		fire_engine(100000);
		fire_engine(1000000);
	}
	if (part("peers"))
		peers();
	bench_wait(bench_spawn(1, rm));
	return 0;
}
