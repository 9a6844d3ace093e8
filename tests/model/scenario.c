#include "model/scenario.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/carry.h"
#include "base/text.h"
#include "engine/carry.h"
#include "engine/engine.h"
#include "recover.h"
#include "store/writer.h"

#define MAX_WORDS  24
#define MAX_SEEN   256
#define BOOT_START (1000 * NS_PER_S)
#define WALL_START (1767225600ll * NS_PER_S) /* 2026-01-01T00:00:00Z */

/* A start or a late answer that has happened and no line has claimed yet. */
struct seen {
	bool is_start;
	int64_t at_ns;  /* since the start */
	char what[600]; /* "start q/k generation=1 ..." or "reply LABEL OK ..." */
};

struct label {
	char name[32];
	uint64_t ticket;
};

/* A run that was handed over and has not ended. */
struct live {
	char job[400];
	uint64_t run_id, token;
};

/* A lease that a worker was given. */
struct given {
	char job[400], worker[32];
	uint64_t lease, token;
};

struct player {
	struct engine *engine;
	struct store *store; /* a temporary one, when `commit` or `crash` is used */
	char dir[64];
	bool upgrades; /* one before each step */
	struct moment now;
	struct effects fx;
	uint64_t next_ticket;
	uint64_t asked;   /* ticket of the step's own request */
	char answer[600]; /* its answer, when it came at once */
	bool refused;     /* which is an error */
	struct seen seen[MAX_SEEN];
	size_t n_seen;
	struct label labels[64];
	size_t n_labels;
	struct live runs[64];
	size_t n_runs;
	struct given given[64];
	size_t n_given;
	char *error; /* first failure, owned */
	int line;
};

struct step {
	int64_t at_ns;
	char *words[MAX_WORDS]; /* verb and arguments */
	int n;
	char *expect[MAX_WORDS]; /* what follows "=" */
	int n_expect;
	const char *label;
	bool claims; /* a ">" line */
};

static void
fail(struct player *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
fail(struct player *p, const char *fmt, ...)
{
	va_list ap;
	char msg[2048];
	int n;

	if (p->error)
		return;
	n = snprintf(msg, sizeof msg, "line %d: ", p->line);
	va_start(ap, fmt);
	vsnprintf(msg + n, sizeof msg - (size_t)n, fmt, ap);
	va_end(ap);
	p->error = must_strdup(msg);
}

static int64_t
duration(struct player *p, const char *text)
{
	int64_t ns = 0;

	if (text_duration(str_from(text), &ns) < 0)
		fail(p, "'%s' is no duration", text);
	return ns;
}

static int64_t
elapsed(const struct player *p)
{
	return p->now.boot_ns - BOOT_START;
}

/* ---- effects ---- */

static size_t
put_parts(char *dst, size_t size, const struct str *parts, size_t n)
{
	size_t o = 0;

	dst[0] = '\0';
	for (size_t i = 0; i < n; i++)
		o += (size_t)snprintf(dst + o, size - o, "%s%.*s", i ? "+" : "", STR_ARG(parts[i]));
	return o;
}

static struct seen *
seen_add(struct player *p, bool is_start)
{
	struct seen *s;

	wq_assert(p->n_seen < MAX_SEEN);
	s = &p->seen[p->n_seen++];
	s->is_start = is_start;
	s->at_ns = elapsed(p);
	return s;
}

static const char *
label_of(const struct player *p, uint64_t ticket)
{
	for (size_t i = 0; i < p->n_labels; i++)
		if (p->labels[i].ticket == ticket)
			return p->labels[i].name;
	return "none";
}

static void
on_given(struct player *p, const struct run_start *r)
{
	struct given *g = &p->given[p->n_given++];

	wq_assert(p->n_given <= ARRAY_SIZE(p->given));
	wq_assert(p->n_given == 1 || r->lease_token > g[-1].lease);
	snprintf(g->job, sizeof g->job, "%.*s/%.*s", STR_ARG(r->queue), STR_ARG(r->key));
	snprintf(g->worker, sizeof g->worker, "%s", label_of(p, r->subscription));
	g->lease = r->lease_token;
	g->token = r->token;
}

static void
on_start(struct player *p, const struct run_start *r)
{
	struct seen *s = seen_add(p, true);
	struct live *l = &p->runs[p->n_runs];
	char payload[200];

	put_parts(payload, sizeof payload, r->parts, r->n_parts);
	snprintf(s->what, sizeof s->what,
		"start %.*s/%.*s generation=%llu attempt=%u coalesced=%u payload=%s worker=%s",
		STR_ARG(r->queue), STR_ARG(r->key), (unsigned long long)r->generation, r->attempt,
		r->coalesced, payload, label_of(p, r->subscription));
	if (r->subscription) {
		on_given(p, r);
		return;
	}
	wq_assert(++p->n_runs <= ARRAY_SIZE(p->runs));
	snprintf(l->job, sizeof l->job, "%.*s/%.*s", STR_ARG(r->queue), STR_ARG(r->key));
	l->run_id = r->run_id;
	l->token = r->token;
}

static void
on_revoked(struct player *p, uint64_t ticket, const struct lease_revoked *r)
{
	struct seen *s = seen_add(p, true);

	snprintf(s->what, sizeof s->what, "revoked %s %.*s/%.*s", label_of(p, ticket),
		STR_ARG(r->queue), STR_ARG(r->key));
}

static void
put_reply(char *dst, size_t size, const struct job_reply *r)
{
	size_t o = (size_t)snprintf(dst, size, "%s before=%s generation=%llu coalesced=%u depth=%u",
		status_word(r->status), job_state_word(r->state_before),
		(unsigned long long)r->generation, r->coalesced, r->disable_depth);

	if (r->has_deadline)
		o += (size_t)snprintf(dst + o, size - o, " deadline=%lldms",
			(long long)((r->deadline_wall_ns - WALL_START) / NS_PER_MS));
	if (r->run)
		snprintf(dst + o, size - o, " outcome=%s attempt=%u",
			run_outcome_word(r->run->outcome), r->run->attempt);
}

static void
on_reply(struct player *p, uint64_t ticket, const struct job_reply *r)
{
	struct seen *s;
	char text[500];

	put_reply(text, sizeof text, r);
	if (ticket == p->asked) {
		snprintf(p->answer, sizeof p->answer, "%s", text);
		p->refused = status_is_error(r->status);
		return;
	}
	s = seen_add(p, false);
	if (strcmp(label_of(p, ticket), "none") == 0)
		fail(p, "a second answer: %s", text);
	snprintf(s->what, sizeof s->what, "reply %s %s", label_of(p, ticket), text);
}

static void
apply(struct player *p)
{
	for (size_t i = 0; i < p->fx.n; i++) {
		struct effect *f = &p->fx.v[i];

		switch (f->kind) {
		case FX_START:
			on_start(p, &f->start);
			break;
		case FX_REPLY:
			on_reply(p, f->ticket, &f->reply);
			break;
		case FX_EVENT:
		case FX_STALL:
		case FX_SUBSCRIBED:
			break;
		case FX_REVOKED:
			on_revoked(p, f->ticket, &f->revoked);
			break;
		case FX_KILL:
			snprintf(seen_add(p, true)->what, 64, "kill");
			break;
		}
	}
	effects_clear(&p->fx);
}

static void
engine_do(struct player *p, struct engine_event *ev)
{
	engine_step(p->engine, p->now, ev, &p->fx);
	apply(p);
	engine_verify(p->engine);
}

/* Lets time pass up to `to_ns`, with a tick exactly when the engine asks for one. */
static void
advance(struct player *p, int64_t to_ns)
{
	int64_t target = BOOT_START + to_ns;
	int64_t due;

	while (!p->error && (due = engine_next_due(p->engine, p->now)) <= target) {
		struct engine_event tick = { .kind = EV_TICK };

		if (due > p->now.boot_ns) {
			p->now.wall_ns += due - p->now.boot_ns;
			p->now.boot_ns = due;
		}
		engine_do(p, &tick);
	}
	p->now.wall_ns += target - p->now.boot_ns;
	p->now.boot_ns = target;
}

/* ---- store ---- */

static void
store_open(struct player *p)
{
	struct store_error err;

	if (p->store)
		return;
	if (!p->dir[0]) {
		snprintf(p->dir, sizeof p->dir, "/tmp/wq-scenario-XXXXXX");
		wq_assert(mkdtemp(p->dir) != NULL);
	}
	wq_assert(store_sqlite_open(p->dir, &p->store, &err) == 0);
}

static void
commit(struct player *p)
{
	store_open(p);
	wq_assert(p->store->ops->begin(p->store) == 0);
	while (engine_dirty(p->engine) > 0)
		engine_take_dirty(p->engine, p->now, 1000, p->store->ops->sink(p->store));
	wq_assert(p->store->ops->commit(p->store, p->now, true) == 0);
}

static void
new_engine(struct player *p)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;

	cfg.seed[0] = 42;
	wq_assert(engine_new(&cfg, &p->engine) == 0);
}

/* Another engine, `gap` later, with what the store has. */
static void
recover_anew(struct player *p, int64_t gap_ns)
{
	struct store_error err;
	struct recovered found;

	engine_free(p->engine);
	p->store->ops->close(p->store);
	p->store = NULL;
	store_open(p);
	new_engine(p);
	p->now.boot_ns += gap_ns;
	p->now.wall_ns += gap_ns;
	if (recover(p->store, p->engine, p->now, NULL, NULL, &found, &err) < 0)
		fail(p, "recovery: %s", err.detail);
}

/* kill -9 and a start `gap` later: what was not committed is gone, runs are interrupted. */
static void
crash(struct player *p, int64_t gap_ns)
{
	store_open(p);
	p->n_runs = p->n_labels = p->n_given = 0;
	recover_anew(p, gap_ns);
	engine_recovered(p->engine, p->now);
	engine_verify(p->engine);
}

/* Another program goes on `gap` later: everything is committed, and the rest is carried over. */
static void
upgrade(struct player *p, int64_t gap_ns)
{
	struct engine_event tick = { .kind = EV_TICK };
	const char *why = "";
	struct carry_out o;
	struct carry_in in;
	struct str busy;

	engine_hold(p->engine, true);
	while (!engine_quiet(p->engine, &busy) && busy.n == 0)
		engine_do(p, &tick);
	if (busy.n > 0) {
		engine_hold(p->engine, false);
		return; /* refused, as by the daemon */
	}
	commit(p);
	wq_assert(carry_out_new(&o) == 0);
	engine_carry_out(p->engine, p->now, &o);
	wq_assert(carry_finish(&o) == 0 && carry_in_open(&in, o.fd) == 0);
	recover_anew(p, gap_ns);
	if (engine_carry_in(p->engine, p->now, &in, &why) < 0)
		fail(p, "carried over: %s", why);
	engine_recovered(p->engine, p->now);
	if (engine_carry_in_waiters(p->engine, p->now, &in, &why) < 0)
		fail(p, "carried over: %s", why);
	engine_verify(p->engine);
	carry_in_close(&in);
	carry_out_done(&o);
	engine_do(p, &tick);
}

static void
remove_dir(const char *dir)
{
	static const char *const files[] = { "lock", "wqd.db", "wqd.db-wal", "wqd.db-shm" };
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof path, "%s/%s", dir, files[i]);
		unlink(path);
	}
	rmdir(dir);
}

/* ---- verbs ---- */

static struct job_name
job_of(const char *word)
{
	const char *slash = strchr(word, '/');

	if (!slash)
		return (struct job_name){ STR_NONE, str_from(word) };
	return (struct job_name){ { word, (size_t)(slash - word) }, str_from(slash + 1) };
}

/* The value of "name=value" among the words, or NULL. */
static const char *
arg(const struct step *st, const char *name)
{
	size_t n = strlen(name);

	for (int i = 1; i < st->n; i++)
		if (strncmp(st->words[i], name, n) == 0 && st->words[i][n] == '=')
			return st->words[i] + n + 1;
	return NULL;
}

static bool
flag(const struct step *st, const char *name)
{
	for (int i = 1; i < st->n; i++)
		if (strcmp(st->words[i], name) == 0)
			return true;
	return false;
}

static int64_t
arg_duration(struct player *p, const struct step *st, const char *name, int64_t def)
{
	const char *v = arg(st, name);

	return v ? duration(p, v) : def;
}

static struct live *
live_of(struct player *p, const char *job)
{
	for (size_t i = 0; i < p->n_runs; i++)
		if (strcmp(p->runs[i].job, job) == 0)
			return &p->runs[i];
	return NULL;
}

static enum durability
level_of(const struct step *st)
{
	const char *v = arg(st, "level");

	return v ? (enum durability)word_number(&durability_words, str_from(v)) : LEVEL_DEFAULT;
}

static void
do_update(struct player *p, const struct step *st, struct engine_event *ev)
{
	static const char *const modes[] = { "set", "keep", "earlier", "later" };
	const char *mode = arg(st, "mode"), *payload = arg(st, "payload"), *add = arg(st, "append");
	struct op_update op = { .job = job_of(st->words[1]), .level = level_of(st) };

	for (size_t i = 0; mode && i < ARRAY_SIZE(modes); i++)
		if (strcmp(mode, modes[i]) == 0)
			op.mode = (enum update_mode)i;
	op.absolute = strncmp(st->words[2], "at=", 3) == 0;
	op.when_ns = op.absolute ? WALL_START + duration(p, st->words[2] + 3)
				 : duration(p, st->words[2]);
	op.if_pending = flag(st, "if_pending");
	op.slack_ns = arg_duration(p, st, "slack", -1);
	op.max_wait_ns = arg_duration(p, st, "max_wait", -1);
	op.align_ns = arg_duration(p, st, "align", 0);
	op.align_exact = true;
	op.payload_mode = payload ? PAYLOAD_REPLACE : add ? PAYLOAD_APPEND : PAYLOAD_KEEP;
	op.payload = str_from(payload ? payload : add);
	op.idem = str_from(arg(st, "id"));
	ev->kind = EV_UPDATE;
	ev->update = &op;
	engine_do(p, ev);
}

static void
do_cancel(struct player *p, const struct step *st, struct engine_event *ev)
{
	struct op_cancel op = { .job = job_of(st->words[1]), .level = level_of(st) };

	op.mode = flag(st, "wait") ? CANCEL_WAIT : flag(st, "kill") ? CANCEL_KILL : CANCEL_PLAIN;
	op.timeout_ns = arg_duration(p, st, "timeout", -1);
	ev->kind = EV_CANCEL;
	ev->cancel = &op;
	engine_do(p, ev);
}

static void
do_flush(struct player *p, const struct step *st, struct engine_event *ev)
{
	struct op_flush op = { job_of(st->words[1]), flag(st, "now"),
		arg_duration(p, st, "timeout", -1) };

	ev->kind = EV_FLUSH;
	ev->flush = &op;
	engine_do(p, ev);
}

static void
do_flush_queue(struct player *p, const struct step *st, struct engine_event *ev)
{
	struct op_flush_queue op = { str_from(st->words[1]), arg_duration(p, st, "timeout", -1) };

	ev->kind = EV_FLUSH_QUEUE;
	ev->flush_queue = &op;
	engine_do(p, ev);
}

static void
do_wait(struct player *p, const struct step *st, struct engine_event *ev)
{
	const char *gen = arg(st, "generation");
	struct op_wait op = { job_of(st->words[1]), gen ? strtoull(gen, NULL, 10) : 0,
		arg_duration(p, st, "timeout", -1) };

	ev->kind = EV_WAIT;
	ev->wait = &op;
	engine_do(p, ev);
}

static void
do_drain(struct player *p, const struct step *st, struct engine_event *ev)
{
	struct op_drain op = { .queue = str_from(st->words[1]),
		.pause_after = flag(st, "pause_after"),
		.timeout_ns = arg_duration(p, st, "timeout", -1) };

	op.timers = flag(st, "expedite") ? TIMERS_EXPEDITE
		: flag(st, "cancel")     ? TIMERS_CANCEL
					 : TIMERS_KEEP;
	ev->kind = EV_DRAIN;
	ev->drain = &op;
	engine_do(p, ev);
}

/* await NAME [timeout=T], complete NAME, complete-all NAME, reinit NAME. */
static bool
do_completion(struct player *p, const struct step *st, struct engine_event *ev)
{
	static const struct {
		const char *verb;
		enum engine_event_kind kind;
	} verbs[] = { { "await", EV_COMPLETION_WAIT }, { "complete", EV_COMPLETE },
		{ "complete-all", EV_COMPLETE_ALL }, { "reinit", EV_COMPLETION_REINIT } };
	struct op_completion op = { .name = str_from(st->words[1]),
		.timeout_ns = arg_duration(p, st, "timeout", -1),
		.level = level_of(st),
		.idem = str_from(arg(st, "id")) };

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strcmp(st->words[0], verbs[i].verb) == 0) {
			ev->kind = verbs[i].kind;
			ev->completion = &op;
			engine_do(p, ev);
			return true;
		}
	return false;
}

/* show NAME: a completion as it is now. */
static void
do_show(struct player *p, const struct step *st)
{
	struct completion_view v;
	enum status s = engine_completion_get(p->engine, str_from(st->words[1]), &v);

	snprintf(p->answer, sizeof p->answer, "%s done=%u open=%s waiters=%llu", status_word(s),
		v.done, v.open ? "yes" : "no", (unsigned long long)v.waiters);
}

/* disable, enable, kick, delete: one shape. */
static bool
do_job(struct player *p, const struct step *st, struct engine_event *ev)
{
	static const struct {
		const char *verb;
		enum engine_event_kind kind;
	} verbs[] = { { "disable", EV_DISABLE }, { "enable", EV_ENABLE }, { "kick", EV_KICK },
		{ "delete", EV_DELETE } };
	struct op_job op = { .job = job_of(st->words[1]), .level = level_of(st) };

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strcmp(st->words[0], verbs[i].verb) == 0) {
			ev->kind = verbs[i].kind;
			ev->job = &op;
			engine_do(p, ev);
			return true;
		}
	return false;
}

/* queue (create), set, pause, resume. */
static bool
do_queue(struct player *p, const struct step *st, struct engine_event *ev)
{
	struct setting_text v[MAX_WORDS];
	struct op_queue_set op = { str_from(st->words[1]), v, 0 };
	struct op_queue q = { str_from(st->words[1]) };

	for (int i = 2; i < st->n; i++) {
		char *eq = strchr(st->words[i], '=');

		if (!eq)
			continue;
		v[op.n_settings++] =
			(struct setting_text){ { st->words[i], (size_t)(eq - st->words[i]) },
				str_from(eq + 1) };
	}
	if (strcmp(st->words[0], "queue") == 0 || strcmp(st->words[0], "set") == 0) {
		ev->kind = st->words[0][0] == 'q' ? EV_QUEUE_CREATE : EV_QUEUE_SET;
		ev->queue_set = &op;
	} else if (strcmp(st->words[0], "pause") == 0 || strcmp(st->words[0], "resume") == 0) {
		ev->kind = st->words[0][0] == 'p' ? EV_PAUSE : EV_RESUME;
		ev->queue = &q;
	} else {
		return false;
	}
	engine_do(p, ev);
	return true;
}

/* ---- workers ---- */

static uint64_t
ticket_of(const struct player *p, const char *label)
{
	for (size_t i = 0; i < p->n_labels; i++)
		if (strcmp(p->labels[i].name, label) == 0)
			return p->labels[i].ticket;
	return 0;
}

/* The newest lease of the job, or of that worker on it. */
static const struct given *
given_of(const struct player *p, const char *job, const char *by)
{
	for (size_t i = p->n_given; i > 0; i--)
		if (strcmp(p->given[i - 1].job, job) == 0 &&
			(!by || strcmp(p->given[i - 1].worker, by) == 0))
			return &p->given[i - 1];
	return NULL;
}

/* touch, finish, fail, release JOB [by=WORKER] [lease=T] [retry_after=T] */
static bool
do_lease(struct player *p, const struct step *st, struct engine_event *ev)
{
	static const struct {
		const char *verb;
		enum engine_event_kind kind;
	} verbs[] = { { "touch", EV_TOUCH }, { "finish", EV_FINISH }, { "fail", EV_FAIL },
		{ "release", EV_RELEASE } };
	const struct given *g = given_of(p, st->words[1], arg(st, "by"));
	struct op_lease op = { .job = job_of(st->words[1]),
		.token = g ? g->lease : 0,
		.subscription = g ? ticket_of(p, g->worker) : 0,
		.lease_ns = arg_duration(p, st, "lease", -1),
		.has_retry_after = arg(st, "retry_after") != NULL,
		.retry_after_ns = arg_duration(p, st, "retry_after", 0),
		.exit_code = -1,
		.level = level_of(st) };

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strcmp(st->words[0], verbs[i].verb) == 0) {
			ev->kind = verbs[i].kind;
			ev->lease = &op;
			engine_do(p, ev);
			return true;
		}
	return false;
}

/* subscribe QUEUE.. [credits=N] as WORKER, credits WORKER N, unsubscribe WORKER */
static bool
do_worker(struct player *p, const struct step *st, struct engine_event *ev)
{
	struct str queues[MAX_WORDS];
	struct op_subscribe op = { .queues = queues, .credits = 1, .holder = STR("somebody") };
	struct op_credits credits = { .subscription = ticket_of(p, st->words[1]) };

	if (strcmp(st->words[0], "subscribe") == 0) {
		for (int i = 1; i < st->n; i++)
			if (!strchr(st->words[i], '='))
				queues[op.n_queues++] = str_from(st->words[i]);
		if (arg(st, "credits"))
			op.credits = (uint32_t)strtoul(arg(st, "credits"), NULL, 10);
		ev->kind = EV_SUBSCRIBE;
		ev->subscribe = &op;
	} else if (strcmp(st->words[0], "credits") == 0 && st->n > 2) {
		credits.credits = (uint32_t)strtoul(st->words[2], NULL, 10);
		ev->kind = EV_CREDITS;
		ev->credits = &credits;
	} else if (strcmp(st->words[0], "unsubscribe") == 0) {
		ev->kind = EV_UNSUBSCRIBE;
		ev->credits = &credits;
	} else {
		return false;
	}
	engine_do(p, ev);
	return true;
}

/* end KEY [failed] [exit=N] [signal=N]: what the runner reports. */
static void
do_end(struct player *p, const struct step *st)
{
	struct live *l = live_of(p, st->words[1]);
	struct run_end end = { .outcome = RUN_DONE };
	struct engine_event ev = { .kind = EV_RUN_ENDED, .run_end = &end };

	if (!l) {
		fail(p, "'%s' is not running", st->words[1]);
		return;
	}
	if (flag(st, "failed")) {
		end.outcome = RUN_FAILED;
		end.exit_code = 1;
	} else if (flag(st, "cancelled")) {
		end.outcome = RUN_CANCELLED;
		end.exit_code = -1;
		end.signal = 15;
	}
	end.run_id = l->run_id;
	*l = p->runs[--p->n_runs];
	engine_do(p, &ev);
}

/* get KEY: the answer is the job's state, as GET shows it. */
static void
do_get(struct player *p, const struct step *st)
{
	struct job_name name = job_of(st->words[1]);
	struct job_view v;
	enum status s = engine_get(p->engine, p->now, &name, &v);
	size_t o;

	if (s != ST_OK) {
		snprintf(p->answer, sizeof p->answer, "%s", status_word(s));
		return;
	}
	o = (size_t)snprintf(p->answer, sizeof p->answer,
		"OK state=%s pending=%s generation=%llu coalesced=%u depth=%u last=%s",
		job_state_word(v.state), v.pending ? "yes" : "no", (unsigned long long)v.generation,
		v.coalesced, v.disable_depth, v.last ? run_outcome_word(v.last->outcome) : "none");
	if (v.has_deadline)
		o += (size_t)snprintf(p->answer + o, sizeof p->answer - o, " deadline=%lldms",
			(long long)((v.deadline_wall_ns - WALL_START) / NS_PER_MS));
	if (v.leased)
		snprintf(p->answer + o, sizeof p->answer - o, " attempt=%u holder=%.*s left=%lldms",
			v.attempt, STR_ARG(v.holder), (long long)(v.lease_left_ns / NS_PER_MS));
}

/* leave LABEL: whoever waits so has gone away. */
static void
do_leave(struct player *p, const struct step *st)
{
	struct engine_event ev = { .kind = EV_ABANDON };

	for (size_t i = 0; i < p->n_labels; i++)
		if (strcmp(p->labels[i].name, st->words[1]) == 0)
			ev.ticket = p->labels[i].ticket;
	if (ev.ticket == 0)
		fail(p, "nobody waits as '%s'", st->words[1]);
	engine_do(p, &ev);
}

static void
perform(struct player *p, const struct step *st)
{
	struct engine_event ev = { .ticket = ++p->next_ticket };
	const char *verb = st->words[0], *from = arg(st, "from");

	p->asked = st->label ? 0 : ev.ticket;
	p->answer[0] = '\0';
	p->refused = false;
	if (from && live_of(p, from))
		ev.run_token = live_of(p, from)->token;
	else if (from && given_of(p, from, NULL))
		ev.run_token = given_of(p, from, NULL)->token;
	if (st->label) {
		struct label *l = &p->labels[p->n_labels++];

		wq_assert(p->n_labels <= ARRAY_SIZE(p->labels));
		snprintf(l->name, sizeof l->name, "%s", st->label);
		l->ticket = ev.ticket;
	}
	if (strcmp(verb, "update") == 0 && st->n > 2)
		do_update(p, st, &ev);
	else if (strcmp(verb, "cancel") == 0)
		do_cancel(p, st, &ev);
	else if (strcmp(verb, "flush") == 0)
		do_flush(p, st, &ev);
	else if (strcmp(verb, "flush-queue") == 0)
		do_flush_queue(p, st, &ev);
	else if (strcmp(verb, "wait") == 0)
		do_wait(p, st, &ev);
	else if (strcmp(verb, "drain") == 0)
		do_drain(p, st, &ev);
	else if (strcmp(verb, "end") == 0)
		do_end(p, st);
	else if (strcmp(verb, "get") == 0)
		do_get(p, st);
	else if (strcmp(verb, "show") == 0)
		do_show(p, st);
	else if (strcmp(verb, "leave") == 0)
		do_leave(p, st);
	else if (strcmp(verb, "wall") == 0)
		p->now.wall_ns += st->words[1][0] == '-' ? -duration(p, st->words[1] + 1)
							 : duration(p, st->words[1] + 1);
	else if (strcmp(verb, "commit") == 0)
		commit(p);
	else if (strcmp(verb, "crash") == 0)
		crash(p, st->n > 1 ? duration(p, st->words[1]) : 0);
	else if (strcmp(verb, "upgrade") == 0)
		upgrade(p, st->n > 1 ? duration(p, st->words[1]) : 0);
	else if (!do_job(p, st, &ev) && !do_queue(p, st, &ev) && !do_completion(p, st, &ev) &&
		!do_lease(p, st, &ev) && !do_worker(p, st, &ev))
		fail(p, "unknown step '%s'", verb);
}

/* Every expected word is the first word or one of the name=value fields of `got`. */
static bool
agrees(const char *got, char *const *expect, int n)
{
	for (int i = 0; i < n; i++) {
		size_t len = strlen(expect[i]);
		const char *at = got;

		while ((at = strstr(at, expect[i])) != NULL) {
			if ((at == got || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
				break;
			at++;
		}
		if (!at)
			return false;
	}
	return true;
}

static void
claim(struct player *p, const struct step *st)
{
	for (size_t i = 0; i < p->n_seen; i++)
		if (p->seen[i].at_ns == st->at_ns && agrees(p->seen[i].what, st->words, st->n)) {
			p->seen[i] = p->seen[--p->n_seen];
			return;
		}
	fail(p, "expected '%s %s' did not come; unclaimed: %s", st->words[0],
		st->n > 1 ? st->words[1] : "", p->n_seen ? p->seen[0].what : "nothing");
}

static void
play(struct player *p, const struct step *st)
{
	for (size_t i = 0; i < p->n_seen; i++)
		if (p->seen[i].at_ns < st->at_ns)
			fail(p, "nobody expected at %lld ms: %s",
				(long long)(p->seen[i].at_ns / NS_PER_MS), p->seen[i].what);
	if (st->at_ns < elapsed(p))
		fail(p, "time falls");
	if (p->error)
		return;
	advance(p, st->at_ns);
	if (st->claims) {
		claim(p, st);
		return;
	}
	for (size_t i = 0; i < p->n_seen; i++)
		if (p->seen[i].at_ns < st->at_ns)
			fail(p, "nobody expected at %lld ms: %s",
				(long long)(p->seen[i].at_ns / NS_PER_MS), p->seen[i].what);
	if (p->error)
		return;
	if (p->upgrades)
		upgrade(p, 0);
	perform(p, st);
	if (st->n_expect && !agrees(p->answer, st->expect, st->n_expect))
		fail(p, "answer is '%s'", p->answer[0] ? p->answer : "not there yet");
	else if (!st->n_expect && p->refused)
		fail(p, "answer is '%s'", p->answer);
}

/* ---- text ---- */

static bool
parse_step(struct player *p, char *line, struct step *st)
{
	char *save = NULL, *w = strtok_r(line, " \t", &save);
	bool expecting = false;

	*st = (struct step){ 0 };
	if (!w || w[0] == '#')
		return false;
	st->at_ns = duration(p, w);
	while ((w = strtok_r(NULL, " \t", &save)) != NULL && w[0] != '#') {
		if (strcmp(w, ">") == 0 && st->n == 0)
			st->claims = true;
		else if (strcmp(w, "=") == 0)
			expecting = true;
		else if (strcmp(w, "as") == 0)
			st->label = strtok_r(NULL, " \t", &save);
		else if (expecting && st->n_expect < MAX_WORDS)
			st->expect[st->n_expect++] = w;
		else if (st->n < MAX_WORDS)
			st->words[st->n++] = w;
	}
	if (st->n == 0)
		fail(p, "a time without a step");
	return !p->error;
}

char *
scenario_run(const struct scenario *sc, bool upgrades)
{
	struct player p = {
		.now = { BOOT_START, WALL_START },
		.line = sc->line,
		.upgrades = upgrades,
	};
	char *text = must_strdup(sc->text), *save = NULL;
	struct step st;

	effects_init(&p.fx);
	new_engine(&p);
	for (char *line = text; line && !p.error; line = save) {
		save = strchr(line, '\n');
		if (save)
			*save++ = '\0';
		if (parse_step(&p, line, &st))
			play(&p, &st);
		p.line++;
	}
	if (p.n_seen > 0)
		fail(&p, "nobody expected: %s", p.seen[0].what);
	engine_free(p.engine);
	effects_done(&p.fx);
	if (p.store)
		p.store->ops->close(p.store);
	if (p.dir[0])
		remove_dir(p.dir);
	x_free(text);
	return p.error;
}

size_t
scenarios_load(const char *path, struct scenario **out)
{
	struct scenario *v = NULL, *cur = NULL;
	size_t n = 0, len = 0;
	char line[512];
	FILE *f = fopen(path, "re");

	wq_assert(f != NULL);
	for (int no = 1; fgets(line, sizeof line, f); no++) {
		if (!cur && strncmp(line, "```scenario ", 12) == 0) {
			v = must_realloc(v, n + 1, sizeof *v);
			cur = &v[n++];
			*cur = (struct scenario){ .line = no + 1, .text = must_strdup("") };
			sscanf(line + 12, "%63s", cur->name);
			len = 0;
		} else if (cur && strncmp(line, "```", 3) == 0) {
			cur = NULL;
		} else if (cur) {
			size_t add = strlen(line);

			cur->text = must_realloc(cur->text, len + add + 1, 1);
			memcpy(cur->text + len, line, add + 1);
			len += add;
		}
	}
	fclose(f);
	*out = v;
	return n;
}

void
scenarios_free(struct scenario *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x_free(v[i].text);
	x_free(v);
}
