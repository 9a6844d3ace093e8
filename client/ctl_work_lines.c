/*
 * wqctl work --lines: slots whose program stays. One that ends in the middle of a job failed it; the
 * slot then rests, longer each time, and has no credit meanwhile.
 */
#include <stdio.h>
#include <string.h>

#include "ctl_mem.h"
#include "ctl_time.h"
#include "ctl_work.h"

/* So many jobs at a time as there are slots that don't rest. */
static void
count_credits(struct working *g)
{
	int64_t now = ctl_now_ms();
	unsigned n = 0;

	for (int i = 0; i < g->n_slots; i++)
		n += g->slots[i].rests_until_ms <= now;
	if (!g->stopping)
		(void)wq_worker_credits(g->worker, n);
}

static void
slot_rests(struct slot *s)
{
	s->rest_ms = s->rest_ms == 0 ? REST_MIN_MS : 2 * s->rest_ms;
	if (s->rest_ms > REST_MAX_MS)
		s->rest_ms = REST_MAX_MS;
	s->rests_until_ms = ctl_now_ms() + s->rest_ms;
	count_credits(s->g);
}

/* It is to end. Until it has, the slot takes no job: the program would take that along. */
static void
program_goes(struct slot *s)
{
	if (s->program.process.pid <= 0 || s->program.process.kill_at_ms >= 0)
		return;
	ctl_process_end(&s->program.process, ctl_now_ms(), GRACE_MS);
	/* Nothing more is heard of it, and an end of its output would be there to be read all the time. */
	ctl_close(&s->program.out);
	s->rests_until_ms = INT64_MAX;
	count_credits(s->g);
}

static void
lines_failed(struct slot *s, const char *why)
{
	wq_end_t end = WQ_END_INIT;

	s->failed = true;
	s->took_ms = ctl_now_ms() - s->child.started_ms;
	end.exit_code = s->child.exit.code;
	end.signal = s->child.exit.signal;
	end.output = why;
	end.output_len = strlen(why);
	slot_say(s, &end);
}

/* The program has ended: what it had failed. */
static void
lines_ended(struct slot *s)
{
	char why[80];
	struct ctl_ended how = ctl_program_reap(&s->program);

	slot_rests(s);
	if (!s->work)
		return;
	s->child.exit = how;
	if (s->child.exit.signal)
		snprintf(why, sizeof why, "the program ended by signal %d", s->child.exit.signal);
	else
		snprintf(why, sizeof why, "the program ended with status %d", s->child.exit.code);
	lines_failed(s, why);
}

static void
lines_answered(struct slot *s)
{
	struct ctl_program *p = &s->program;
	wq_end_t end = WQ_END_INIT;
	struct ctl_answer a;

	if (!s->work || !ctl_answer_read(p->line, p->n_line, &a)) {
		/* A line that nobody asked for, or no answer: what it says is not to be trusted. */
		program_goes(s);
		if (s->work)
			lines_failed(
				s, "the program's line is no answer: done, failed, retry SPAN");
		return;
	}
	p->n_line = 0;
	s->rest_ms = 0;
	s->failed = a.failed;
	s->took_ms = ctl_now_ms() - s->child.started_ms;
	s->child.exit.code = a.failed;
	end.output = a.output;
	end.output_len = a.n_output;
	if (a.retry)
		end.retry_after_ms = a.retry_ms;
	slot_say(s, &end);
	mem_free(a.output);
}

static void
lines_turn(struct slot *s)
{
	int got = ctl_program_turn(&s->program);

	if (got > 0)
		lines_answered(s);
	else if (got < 0)
		program_goes(s);
}

/* A program knows its queue and its server; the job comes by a line. */
void
lines_begin(struct slot *s, const wq_work_info_t *job, char *const *env)
{
	s->child.started_ms = ctl_now_ms();
	s->child.exit.code = -1;
	s->start_error = 0;
	if (s->program.process.pid <= 0)
		s->start_error = -ctl_program_start(&s->program, s->g->argv, env);
	if (s->start_error) {
		slot_rests(s);
		return;
	}
	ctl_program_job(&s->program, s->g->lines, job);
	lines_turn(s);
}

/* Its last answer counts, though it has ended. */
void
program_turn(struct slot *s, const struct pollfd *fds)
{
	if (fds[1].revents || fds[2].revents)
		lines_turn(s);
	ctl_process_hurry(&s->program.process, ctl_now_ms());
	if (fds[0].revents)
		lines_ended(s);
}

void
wake_the_rested(struct working *g)
{
	int64_t now = ctl_now_ms();
	bool any = false;

	for (int i = 0; i < g->n_slots; i++) {
		struct slot *s = &g->slots[i];

		if (s->rests_until_ms == 0 || s->rests_until_ms > now)
			continue;
		s->rests_until_ms = 0;
		any = true;
	}
	if (any)
		count_credits(g);
}
