/*
 * wqctl work: a worker whose work is a command.
 *
 * Each job is a slot from its coming to the daemon's answer to its last word. The command's exit
 * status decides: 0 is done, all else failed. A lease that is lost ends its command. TERM or INT
 * ends the worker: no more jobs, and when what it has is over, itself; once more ends the commands.
 *
 * With --lines a slot keeps its program, which says by a line how each job ended (ctl_work_lines.c).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "ctl_mem.h"
#include "ctl_out.h"
#include "ctl_show.h"
#include "ctl_text.h"
#include "ctl_time.h"
#include "ctl_work.h"

extern char **environ;

/* ---- the end of a job ---- */

static void
put_end(struct slot *s, const char *outcome)
{
	struct ctl *c = s->g->c;
	const struct ctl_child *ch = &s->child;
	json_t *j;

	if (!c->json) {
		if (c->quiet)
			return;
		ctl_put_target(s->queue, s->key);
		printf("  generation %llu  attempt %u  %s", (unsigned long long)s->generation,
			(unsigned)s->attempt, outcome);
		if (s->start_error)
			printf(", not started: %s", strerror(s->start_error));
		else if (ch->exit.signal)
			printf(", signal %d", ch->exit.signal);
		else if (ch->exit.code < 0)
			printf(", no answer");
		else
			printf(", exit %d", ch->exit.code);
		printf("  took %lld.%03llds\n", (long long)s->took_ms / 1000,
			(long long)s->took_ms % 1000);
		return;
	}
	j = json_object();
	ctl_json_set(j, "queue", ctl_text_jsons(s->queue));
	ctl_json_set(j, "key", ctl_text_jsons(s->key));
	ctl_json_set(j, "generation", json_integer((json_int_t)s->generation));
	ctl_json_set(j, "attempt", json_integer(s->attempt));
	ctl_json_set(j, "outcome", json_string(outcome));
	ctl_json_set(
		j, "exit_code", ch->exit.code >= 0 ? json_integer(ch->exit.code) : json_null());
	ctl_json_set(j, "signal", json_integer(ch->exit.signal));
	ctl_json_set(j, "errno", json_integer(s->start_error));
	ctl_json_set(j, "took_ms", json_integer(s->took_ms));
	ctl_json_put(c, j);
}

static void
slot_free(struct slot *s)
{
	ctl_child_done(&s->child);
	mem_free(s->queue);
	mem_free(s->key);
	*s = (struct slot){ .g = s->g,
		.program = s->program,
		.rest_ms = s->rest_ms,
		.rests_until_ms = s->rests_until_ms };
}

static void
on_answer(wq_t *wq, const wq_reply_t *reply, void *arg)
{
	struct slot *s = arg;
	const char *outcome = s->failed ? "failed" : "done";

	(void)wq;
	if (reply->result < 0)
		outcome = "lost";
	if (s->g->once)
		s->g->exit = s->failed || reply->result < 0 ? CTL_RUN_FAILED : CTL_DONE;
	put_end(s, outcome);
	slot_free(s);
}

void
slot_say(struct slot *s, const wq_end_t *end)
{
	int rc = s->failed ? wq_work_fail(s->work, end, on_answer, s)
			   : wq_work_finish(s->work, end, on_answer, s);

	/* Its lease runs out then. */
	if (rc < 0)
		slot_free(s);
	else
		s->work = NULL;
}

static void
slot_over(struct slot *s)
{
	wq_end_t end = WQ_END_INIT;
	char text[256];

	s->took_ms = ctl_now_ms() - s->child.started_ms;
	s->failed = s->start_error || s->child.exit.code != 0;
	end.exit_code = s->start_error ? -1 : s->child.exit.code;
	end.signal = s->child.exit.signal;
	end.output = s->child.output;
	end.output_len = s->child.n_output;
	end.truncated = s->child.truncated;
	if (s->start_error) {
		snprintf(text, sizeof text, "%s: %s", s->g->argv[0], strerror(s->start_error));
		end.output = text;
		end.output_len = strlen(text);
	}
	slot_say(s, &end);
}

/* ---- its beginning ---- */

static char *
variable(const char *name, const char *value)
{
	size_t n = strlen(name) + strlen(value) + 2;
	char *p = ctl_alloc(n);

	snprintf(p, n, "%s=%s", name, value);
	return p;
}

static char *
number(const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof text, "%llu", (unsigned long long)value);
	return variable(name, text);
}

/* Ours in front: what stands first counts. Only those are owned. */
static char **
job_env(const struct working *g, const wq_work_info_t *job)
{
	size_t n = 0, at = 0;
	char **env;

	while (environ[n])
		n++;
	env = ctl_alloc((n + ENV_MORE + 1) * sizeof *env);
	env[at++] = variable("WQ_QUEUE", job->queue);
	env[at++] = variable("WQ_KEY", job->key);
	env[at++] = variable("WQ_SERVER", g->c->server);
	env[at++] = number("WQ_GENERATION", job->generation);
	env[at++] = number("WQ_ATTEMPT", job->attempt);
	env[at++] = number("WQ_COALESCED", job->coalesced);
	env[at++] = number("WQ_DEADLINE_MS", (uint64_t)job->due_ms);
	env[at++] = number("WQ_PARTS", job->n_parts);
	env[at++] = number("WQ_RUN_TOKEN", job->run_token);
	env[at++] = number("WQ_LEASE_TOKEN", job->token);
	for (size_t i = 0; i < n; i++)
		if (strncmp(environ[i], "WQ_", 3) != 0 || strncmp(environ[i], "WQ_TLS_", 7) == 0)
			env[at++] = environ[i];
	env[at] = NULL;
	return env;
}

static void
slot_begin(struct slot *s, wq_work_t *work)
{
	const wq_work_info_t *job = wq_work_get(work);
	char **env = job_env(s->g, job);
	const struct ctl_command cmd = { .argv = s->g->argv,
		.env = env,
		.payload = job->payload,
		.payload_len = job->payload_len };

	s->used = true;
	s->work = work;
	s->queue = ctl_strdup(job->queue);
	s->key = ctl_strdup(job->key);
	s->generation = job->generation;
	s->attempt = job->attempt;
	if (s->g->lines)
		lines_begin(s, job, env);
	else
		s->start_error = -ctl_child_start(&s->child, &cmd, ctl_now_ms());
	for (size_t i = 0; i < ENV_MORE; i++)
		mem_free(env[i]);
	mem_free(env);
	if (s->start_error)
		slot_over(s);
}

static void
on_work(wq_worker_t *w, wq_work_t *work, void *arg)
{
	struct working *g = arg;

	if (g->once && !g->stopping) {
		g->stopping = true;
		(void)wq_worker_stop(w);
	} else if (g->stopping) {
		/* It came while the end was on its way to the daemon. */
		(void)wq_work_release(work, NULL, NULL);
		return;
	}
	for (int i = 0; i < g->n_slots; i++)
		if (!g->slots[i].used && g->slots[i].rests_until_ms <= ctl_now_ms()) {
			slot_begin(&g->slots[i], work);
			return;
		}
	(void)wq_work_release(work, NULL, NULL);
}

/* What it does is to end. */
static void
slot_hurry_up(struct slot *s)
{
	ctl_process_end(&s->child.process, ctl_now_ms(), GRACE_MS);
	if (s->work)
		ctl_process_end(&s->program.process, ctl_now_ms(), GRACE_MS);
}

static void
on_lost(wq_worker_t *w, wq_work_t *work, void *arg)
{
	struct working *g = arg;

	(void)w;
	for (int i = 0; i < g->n_slots; i++)
		if (g->slots[i].work == work)
			slot_hurry_up(&g->slots[i]);
}

/* ---- turns ---- */

static void
on_signal(struct working *g)
{
	struct signalfd_siginfo info;

	if (read(g->signalfd, &info, sizeof info) != sizeof info)
		return;
	if (!g->stopping) {
		g->stopping = true;
		(void)wq_worker_stop(g->worker);
		return;
	}
	for (int i = 0; i < g->n_slots; i++)
		slot_hurry_up(&g->slots[i]);
}

static int64_t
sooner(int64_t ms, int64_t at_ms, int64_t now)
{
	if (at_ms < 0 || at_ms == INT64_MAX || (ms >= 0 && at_ms - now >= ms))
		return ms;
	return at_ms > now ? at_ms - now : 0;
}

static int
next_wait_ms(const struct working *g, int64_t until)
{
	int64_t now = ctl_now_ms(), ms = wq_timeout_ms(g->c->wq);

	if (until >= 0 && !g->stopping && (ms < 0 || until - now < ms))
		ms = until > now ? until - now : 0;
	for (int i = 0; i < g->n_slots; i++) {
		const struct slot *s = &g->slots[i];

		ms = sooner(ms, s->child.process.pid > 0 ? s->child.process.kill_at_ms : -1, now);
		ms = sooner(
			ms, s->program.process.pid > 0 ? s->program.process.kill_at_ms : -1, now);
		ms = sooner(ms, s->rests_until_ms > now ? s->rests_until_ms : -1, now);
	}
	return ms > 1000000 ? 1000000 : (int)ms;
}

/* fds[0]: the handle, fds[1]: signals, then three for each command. */
static size_t
what_to_poll(const struct working *g, struct pollfd *fds, struct slot **of, struct slot *slots)
{
	size_t n = 2;

	fds[0] = (struct pollfd){ .fd = wq_fd(g->c->wq), .events = POLLIN };
	if (wq_events(g->c->wq) & WQ_WRITABLE)
		fds[0].events |= POLLOUT;
	fds[1] = (struct pollfd){ .fd = g->signalfd, .events = POLLIN };
	for (int i = 0; i < g->n_slots; i++) {
		const struct ctl_program *p = &slots[i].program;
		const struct ctl_process *own = g->lines ? &p->process : &slots[i].child.process;

		if (own->pid <= 0)
			continue;
		of[n] = of[n + 1] = of[n + 2] = &slots[i];
		fds[n++] = (struct pollfd){ .fd = own->pidfd, .events = POLLIN };
		fds[n++] = (struct pollfd){ .fd = g->lines ? p->out : slots[i].child.out,
			.events = POLLIN };
		fds[n++] =
			(struct pollfd){ .fd = p->at < p->n_job ? p->in : -1, .events = POLLOUT };
	}
	return n;
}

static void
command_turn(struct slot *s, const struct pollfd *fds)
{
	if (fds[1].revents)
		ctl_child_read(&s->child);
	ctl_process_hurry(&s->child.process, ctl_now_ms());
	if (fds[0].revents) {
		ctl_child_reap(&s->child);
		slot_over(s);
	}
}

static void
turn(struct working *g, int64_t until)
{
	struct pollfd fds[2 + 3 * JOBS_MAX];
	struct slot *of[2 + 3 * JOBS_MAX];
	size_t n = what_to_poll(g, fds, of, g->slots);
	int ready = 0;

	if (poll(fds, n, next_wait_ms(g, until)) < 0)
		n = 0;
	for (size_t i = 2; i + 2 < n; i += 3) {
		if (g->lines)
			program_turn(of[i], &fds[i]);
		else
			command_turn(of[i], &fds[i]);
	}
	wake_the_rested(g);
	if (n > 0 && fds[1].revents)
		on_signal(g);
	if (n > 0 && fds[0].revents)
		ready = WQ_READABLE | WQ_WRITABLE;
	(void)wq_process(g->c->wq, ready);
	(void)fflush(stdout);
}

static bool
idle(const struct working *g)
{
	for (int i = 0; i < g->n_slots; i++)
		if (g->slots[i].used)
			return false;
	return true;
}

static int
work(struct working *g)
{
	int64_t limit = ctl_wait_ms(g->c), until = limit < 0 ? -1 : ctl_now_ms() + limit;
	bool late = false;
	int error = 0;

	while (!(wq_worker_over(g->worker, &error) && idle(g) && wq_in_flight(g->c->wq) == 0)) {
		turn(g, until);
		if (!g->stopping &&
			(ctl_out_broken(g->c) || (until >= 0 && ctl_now_ms() >= until))) {
			late = !ctl_out_broken(g->c);
			g->stopping = true;
			(void)wq_worker_stop(g->worker);
		}
		/* There is nobody to tell. */
		if (g->stopping && wq_fd(g->c->wq) < 0 && idle(g))
			break;
	}
	if (error < 0)
		return ctl_fail(g->c, error, NULL);
	if (late && g->once && g->exit < 0)
		return ctl_error(g->c, CTL_TIMED_OUT, "TIMEOUT", "no job came in time");
	return g->exit > 0 ? g->exit : CTL_DONE;
}

/* ---- the verb ---- */

static int
signals_taken(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	(void)signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static char **
command(const struct ctl *c)
{
	char **argv = ctl_alloc((size_t)c->n_args * sizeof *argv);

	for (int i = 1; i < c->n_args; i++)
		argv[i - 1] = (char *)(uintptr_t)c->arg[i];
	argv[c->n_args - 1] = NULL;
	return argv;
}

int
ctl_do_work(struct ctl *c)
{
	struct working *g = ctl_alloc(sizeof *g);
	wq_worker_opts_t o = WQ_WORKER_INIT;
	int rc;

	memset(g, 0, sizeof *g);
	g->c = c;
	g->once = ctl_given(c, OPT_ONCE);
	g->exit = -1;
	if (ctl_given(c, OPT_LINES))
		g->lines = CTL_LINES_JSON + (enum ctl_lines)ctl_num(c, OPT_LINES, 0);
	g->n_slots = g->once ? 1 : (int)ctl_num(c, OPT_JOBS, 1);
	for (int i = 0; i < g->n_slots; i++) {
		g->slots[i].g = g;
		ctl_program_init(&g->slots[i].program);
	}
	g->argv = command(c);
	o.queues = &c->arg[0];
	o.n_queues = 1;
	o.credits = (unsigned)g->n_slots;
	o.work = on_work;
	o.lost = on_lost;
	o.arg = g;
	g->signalfd = signals_taken();
	c->reconnects = true;
	rc = ctl_connect(c);
	if (rc == 0) {
		int err = wq_worker_new(c->wq, &o, &g->worker);

		rc = err < 0 ? ctl_fail(c, err, NULL) : work(g);
		wq_worker_free(g->worker);
	}
	ctl_disconnect(c);
	if (g->signalfd >= 0)
		(void)close(g->signalfd);
	for (int i = 0; i < g->n_slots; i++) {
		ctl_program_close(&g->slots[i].program, GRACE_MS);
		slot_free(&g->slots[i]);
	}
	mem_free(g->argv);
	mem_free(g);
	return rc;
}
