/* get, list, history. */
#include <stdio.h>
#include <string.h>

#include "ctl_out.h"
#include "ctl_show.h"
#include "ctl_sort.h"
#include "ctl_text.h"
#include "ctl_time.h"

/* ---- get ---- */

static void
put_job_block(const wq_job_info_t *job)
{
	char left[CTL_TIME_SIZE];

	fputs("job         ", stdout);
	ctl_put_target(job->queue, job->key);
	printf("\nstate       %s", wq_state_word(job->state));
	if (job->state == WQ_STATE_RUNNING && job->pending)
		printf(", and %s for one more run", wq_state_word(job->pending_state));
	if (job->dead)
		fputs(", dead", stdout);
	if (job->disable_depth)
		printf(", disabled %u deep", (unsigned)job->disable_depth);
	fputs("\ndeadline    ", stdout);
	ctl_put_time(job->deadline_ms);
	printf("\ngeneration  %llu, attempt %u\ncoalesced   %u\npayload     %llu bytes\n",
		(unsigned long long)job->generation, (unsigned)job->attempt,
		(unsigned)job->coalesced, (unsigned long long)job->payload_bytes);
	if (job->lease_holder) {
		fputs("lease       ", stdout);
		ctl_text_puts(stdout, job->lease_holder[0] ? job->lease_holder : "not known");
		printf(", %s left%s\n", ctl_span(job->lease_left_ms, left),
			job->lease_touched ? ", touched" : "");
	}
	if (job->command) {
		fputs("command     ", stdout);
		ctl_put_command(job);
		putchar('\n');
	}
	if (job->last) {
		fputs("last run    ", stdout);
		ctl_put_run(job->last);
	}
}

static int
show_job(const wq_job_info_t *job, void *arg)
{
	struct ctl *c = arg;

	if (c->json)
		ctl_json_put(c, ctl_json_job(job));
	else if (c->quiet)
		puts(wq_state_word(job->state));
	else
		put_job_block(job);
	return 0;
}

int
ctl_do_get(struct ctl *c)
{
	struct ctl_target t;
	int rc;

	if ((rc = ctl_arg_target(c, 0, &t)) || (rc = ctl_connect(c)))
		return rc;
	rc = wq_get(c->wq, t.queue, t.key, show_job, c);
	return rc < 0 ? ctl_fail(c, rc, NULL) : CTL_DONE;
}

/* ---- list ---- */

struct listing {
	struct ctl_rows rows;
	uint64_t limit;
};

/* One word for the state column. */
static const char *
job_word(const wq_job_info_t *job)
{
	if (job->state == WQ_STATE_RUNNING && job->pending)
		return "running+";
	if (job->state == WQ_STATE_IDLE && job->dead)
		return "dead";
	if (job->state == WQ_STATE_IDLE && job->disable_depth)
		return "disabled";
	return wq_state_word(job->state);
}

static void
put_row(const wq_job_info_t *job, int64_t now_ms)
{
	char at[CTL_TIME_SIZE] = "-", when[CTL_TIME_SIZE] = "";

	if (job->deadline_ms >= 0) {
		ctl_time_local(job->deadline_ms, at);
		ctl_relative(job->deadline_ms, now_ms, when);
	}
	printf("%-8s  %-23s  %-13s  %9u  ", job_word(job), at, when, (unsigned)job->coalesced);
	ctl_put_target(job->queue, job->key);
	if (job->has_command)
		fputs("  -- ", stdout);
	ctl_put_command(job);
	putchar('\n');
}

static int
show_row(const wq_job_info_t *job, void *arg)
{
	struct listing *l = arg;
	struct ctl *c = l->rows.c;

	if (l->rows.n == l->limit)
		return 1;
	if (c->json) {
		ctl_rows_json(&l->rows, ctl_json_job(job));
		return ctl_out_broken(c);
	}
	ctl_rows_next(&l->rows);
	if (c->quiet) {
		ctl_put_target(job->queue, job->key);
		putchar('\n');
	} else {
		put_row(job, ctl_now_ms());
	}
	return ctl_out_broken(c);
}

/* What to list: [QUEUE[/PREFIX]], or --queue and --prefix for what it leaves out. */
static int
take_filter(struct ctl *c, wq_list_opts_t *opts, struct ctl_target *t)
{
	const char *arg = c->n_args ? c->arg[0] : "", *slash = strchr(arg, '/');
	size_t queue_len = slash ? (size_t)(slash - arg) : strlen(arg);

	if (queue_len > CTL_QUEUE_MAX)
		return ctl_usage(c, "'%s': the queue's name is longer than 128 bytes", arg);
	memcpy(t->queue, arg, queue_len);
	t->queue[queue_len] = '\0';
	if (queue_len)
		opts->queue = t->queue;
	if (slash && slash[1])
		opts->prefix = slash + 1;
	if ((queue_len && ctl_given(c, OPT_QUEUE)) || (opts->prefix && ctl_given(c, OPT_PREFIX)))
		return ctl_usage(c, "QUEUE/PREFIX and --queue or --prefix exclude each other");
	if (ctl_given(c, OPT_QUEUE))
		opts->queue = c->opt[OPT_QUEUE].text;
	if (ctl_given(c, OPT_PREFIX))
		opts->prefix = c->opt[OPT_PREFIX].text;
	opts->state = (int)ctl_num(c, OPT_STATE, -1);
	opts->due_from_ms = ctl_num(c, OPT_DUE_FROM, -1);
	opts->due_to_ms = ctl_num(c, OPT_DUE_TO, -1);
	return 0;
}

static int
list_sorted(struct listing *l, const wq_list_opts_t *opts)
{
	struct ctl *c = l->rows.c;
	struct ctl_sort *sort = ctl_sort_new();
	int rc = wq_list(c->wq, opts, ctl_sort_add, sort);

	if (rc == 0)
		ctl_sort_each(sort, (enum ctl_order)ctl_num(c, OPT_SORT, 0), show_row, l);
	ctl_sort_free(sort);
	return rc;
}

int
ctl_do_list(struct ctl *c)
{
	struct listing l = {
		.rows = { c, "jobs",
			"STATE     DEADLINE                                COALESCED  JOB", 0 },
		.limit = (uint64_t)ctl_num(c, OPT_LIMIT, INT64_MAX),
	};
	wq_list_opts_t opts = WQ_LIST_INIT;
	struct ctl_target t;
	int rc;

	if ((rc = take_filter(c, &opts, &t)) || (rc = ctl_connect(c)))
		return rc;
	if (ctl_given(c, OPT_SORT)) {
		rc = list_sorted(&l, &opts);
	} else {
		if (l.limit < UINT32_MAX)
			opts.page = (uint32_t)l.limit;
		rc = wq_list(c->wq, &opts, show_row, &l);
	}
	return ctl_rows_end(&l.rows, rc);
}

/* ---- history ---- */

static int
show_run(const wq_run_info_t *run, void *arg)
{
	struct ctl_rows *r = arg;

	if (r->c->json) {
		ctl_rows_json(r, ctl_json_run(run));
		return ctl_out_broken(r->c);
	}
	ctl_put_target(run->queue, run->key);
	if (r->c->quiet) {
		printf(" %llu\n", (unsigned long long)run->generation);
	} else {
		fputs("  ", stdout);
		ctl_put_run(run);
	}
	return ctl_out_broken(r->c);
}

int
ctl_do_history(struct ctl *c)
{
	struct ctl_rows rows = { .c = c, .name = "runs" };
	uint64_t limit = (uint64_t)ctl_num(c, OPT_LIMIT, 0);
	const char *queue = c->opt[OPT_QUEUE].text;
	struct ctl_target t;
	int rc;

	if (c->n_args == 0 && !queue)
		return ctl_usage(c, "an argument is missing: TARGET or --queue QUEUE");
	if ((c->n_args && (rc = ctl_arg_target(c, 0, &t))) || (rc = ctl_connect(c)))
		return rc;
	rc = wq_history(c->wq, c->n_args ? t.queue : queue, c->n_args ? t.key : NULL, limit,
		show_run, &rows);
	return ctl_rows_end(&rows, rc);
}
