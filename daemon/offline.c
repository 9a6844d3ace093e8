#include "offline.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/err.h"
#include "parts.h"
#include "service/jsonl.h"
#include "store/store.h"

#define OUT_BYTES (8u << 20)

/* The store of the directory, which has to be there: looking makes none. */
static int
open_store(const struct daemon_options *opt, struct store **st, struct store_error *err)
{
	struct daemon d = { .opt = opt };
	char path[512];
	struct stat sb;
	const char *dir = opt->state_dir;
	int r = dir ? 0 : parts_load_config(&d);

	if (r)
		return r;
	snprintf(path, sizeof path, "%s/wqd.db", dir ? dir : d.conf->state_dir);
	snprintf(err->path, sizeof err->path, "%s", path);
	path[strlen(path) - sizeof "/wqd.db" + 1] = '\0';
	config_free(d.conf);
	/* A database that is gone, with its log left, is for the store to judge. */
	if (stat(path, &sb) != 0 || (lstat(err->path, &sb) != 0 && errno == ENOENT)) {
		err->code = -ENOENT;
		snprintf(err->detail, sizeof err->detail, "there is no database");
		snprintf(err->next, sizeof err->next, "name another directory with --state-dir");
		return WQD_EXIT_FAILED;
	}
	r = store_sqlite_open(path, st, err);
	return r ? parts_store_exit(err) : 0;
}

static void
put_wrong(const struct store_error *err, bool json)
{
	struct buf b;

	if (!json) {
		printf("wqd: %s: %s: %s; %s\n", err->path, err_str(err->code), err->detail,
			err->next);
		return;
	}
	buf_init(&b, 65536);
	if (jsonl_wrong(&b, err->path, err_str(err->code), err->detail, err->next) == 0)
		fwrite(buf_head(&b), 1, buf_len(&b), stdout);
	buf_done(&b);
}

static void
put_counts(const struct store_counts *n, bool json)
{
	printf(json ? "{\"outcome\":\"OK\",\"queues\":%llu,\"jobs\":%llu,\"runs\":%llu,"
		      "\"answers\":%llu,\"completions\":%llu}\n"
		    : "in order: %llu queues, %llu jobs, %llu runs, %llu answers, %llu "
		      "completions\n",
		(unsigned long long)n->queues, (unsigned long long)n->jobs,
		(unsigned long long)n->runs, (unsigned long long)n->answers,
		(unsigned long long)n->completions);
}

int
offline_check(const struct daemon_options *opt, bool json)
{
	struct store_error err = { 0 };
	struct store_counts n;
	struct store *st = NULL;
	int r = open_store(opt, &st, &err);

	if (!r && store_check(st, &n, &err) < 0)
		r = parts_store_exit(&err);
	if (st)
		st->ops->close(st);
	if (!r)
		put_counts(&n, json);
	else if (err.code)
		put_wrong(&err, json);
	return r ? r : fflush(stdout) == 0 ? WQD_EXIT_OK : WQD_EXIT_FAILED;
}

/* ---- export ---- */

struct out {
	struct buf b;
	struct jsonl_counts n;
};

static int
flush(struct out *o, int err)
{
	size_t n = buf_len(&o->b);

	if (err)
		return err;
	if (n > 0 && fwrite(buf_head(&o->b), 1, n, stdout) != n)
		return -EIO;
	buf_consume(&o->b, n);
	return 0;
}

static int
out_queue(void *ctx, struct str name, const struct queue_settings *s, bool paused)
{
	struct out *o = ctx;

	o->n.queues++;
	return flush(o, jsonl_queue(&o->b, name, s, paused));
}

static int
out_job(void *ctx, const struct job_saved *j)
{
	struct out *o = ctx;

	if (j->pending == JOB_IDLE && !j->running && !j->dead && j->disable_depth == 0)
		return 0;
	o->n.jobs++;
	return flush(o, jsonl_job(&o->b, j));
}

static int
out_run(void *ctx, uint64_t run_seq, const struct run_record *r)
{
	(void)ctx, (void)run_seq, (void)r;
	return 0;
}

static int
out_answer(void *ctx, const struct answer_saved *a)
{
	(void)ctx, (void)a;
	return 0;
}

static int
out_completion(void *ctx, const struct completion_saved *c)
{
	struct out *o = ctx;

	o->n.completions++;
	return flush(o, jsonl_completion(&o->b, c));
}

static int
export_all(struct store *st, struct store_error *err)
{
	struct out o = { .n = { 0 } };
	const struct recover_sink sink = { &o, out_queue, out_job, out_run, out_answer,
		out_completion, NULL, NULL, NULL };
	int rc;

	buf_init(&o.b, OUT_BYTES);
	rc = flush(&o, jsonl_head(&o.b, PACKAGE_STRING, st->meta.instance, clock_wall_ns()));
	if (!rc)
		rc = st->ops->recover(st, &sink, err);
	if (!rc)
		rc = flush(&o, jsonl_end(&o.b, &o.n));
	buf_done(&o.b);
	return rc;
}

int
offline_export(const struct daemon_options *opt)
{
	struct store_error err = { 0 };
	struct store *st = NULL;
	int r = open_store(opt, &st, &err), rc = 0;

	if (!r)
		rc = export_all(st, &err);
	if (st)
		st->ops->close(st);
	if (!r && rc)
		r = err.code ? parts_store_exit(&err) : WQD_EXIT_FAILED;
	if (r && err.code)
		fprintf(stderr, "wqd: %s: %s: %s; %s\n", err.path, err_str(err.code), err.detail,
			err.next);
	if (fflush(stdout) != 0 && !r) {
		fprintf(stderr, "wqd: stdout: %s\n", err_str(-errno));
		r = WQD_EXIT_FAILED;
	}
	return r;
}
