/*
 * What the tests of the store share: a directory of their own, jobs with every
 * field set, and the whole recovered state as text, so that two states are
 * compared by one string.
 */
#ifndef WQD_TESTS_STORE_CASE_H
#define WQD_TESTS_STORE_CASE_H

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/err.h"
#include "base/siphash.h"
#include "store/store.h"
#include "unit/unit.h"

#define NOW ((struct moment){ 5000 * NS_PER_S, 1700000000 * NS_PER_S })

/* ---- a directory ---- */

static char case_dir[64];

static inline void
dir_make(void)
{
	(void)snprintf(case_dir, sizeof case_dir, "/tmp/wqd-store-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(case_dir));
}

/* In memory where there is a place: for tests that care for no disk. */
static inline void
dir_make_quick(void)
{
	(void)snprintf(case_dir, sizeof case_dir, "/dev/shm/wqd-store-XXXXXX");
	if (!mkdtemp(case_dir))
		dir_make();
}

static inline void
dir_remove(void)
{
	DIR *d = opendir(case_dir);

	ck_assert_ptr_nonnull(d);
	for (const struct dirent *e; (e = readdir(d)) != NULL;)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			ck_assert_int_eq(unlinkat(dirfd(d), e->d_name, 0), 0);
	closedir(d);
	ck_assert_int_eq(rmdir(case_dir), 0);
}

/* The path of a file in the directory; a few at a time. */
static inline const char *
in_dir(const char *name)
{
	static char paths[4][400];
	static unsigned next;
	char *p = paths[next++ % 4];

	(void)snprintf(p, sizeof paths[0], "%s/%s", case_dir, name);
	return p;
}

/* The bytes of a file (malloc'd), NULL when there is none. */
static inline char *
file_read(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	char *p;
	long size;

	*n = 0;
	if (!f)
		return NULL;
	fseek(f, 0, SEEK_END);
	size = ftell(f);
	rewind(f);
	p = calloc(1, (size_t)size + 1);
	*n = fread(p, 1, (size_t)size, f);
	fclose(f);
	return p;
}

static inline void
file_write(const char *path, const char *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(p, 1, n, f), n);
	ck_assert_int_eq(fclose(f), 0);
}

/* Names, modes, sizes and contents of everything in the directory, as one number. */
static inline uint64_t
dir_hash(void)
{
	static const uint64_t key[2] = { 1, 2 };
	uint64_t sum = 0;
	DIR *d = opendir(case_dir);

	ck_assert_ptr_nonnull(d);
	for (const struct dirent *e; (e = readdir(d)) != NULL;) {
		struct stat sb;
		size_t n;
		char *p;

		if (e->d_name[0] == '.')
			continue;
		ck_assert_int_eq(lstat(in_dir(e->d_name), &sb), 0);
		/* An empty one is not opened: closing it would drop the process's locks on it. */
		n = 0;
		p = sb.st_size ? file_read(in_dir(e->d_name), &n) : NULL;
		sum += siphash13(key, e->d_name, strlen(e->d_name)) ^
			siphash13(key, p ? p : "", n) * (sb.st_mode + 1);
		free(p);
	}
	closedir(d);
	return sum;
}

/* ---- numbers of jobs ---- */

/* What an engine does for its jobs: the same (queue, key) has the same number, in the order in which
 * they were first named, from 1 on. */
static inline uint32_t
job_id(struct str queue, struct str key)
{
	static char **names;
	static uint32_t *next, *first, n;
	static const uint64_t k[2] = { 5, 6 };
	enum { HEADS = 1 << 16 };
	size_t len = queue.n + 1 + key.n;
	char *name = malloc(len + 8);
	uint32_t head, i;

	memcpy(name, &len, 8);
	memcpy(name + 8, queue.p, queue.n);
	name[8 + queue.n] = '\0';
	if (key.n > 0)
		memcpy(name + 9 + queue.n, key.p, key.n);
	head = (uint32_t)siphash13(k, name, len + 8) % HEADS;
	if (!first)
		first = calloc(HEADS, sizeof *first);
	for (i = first[head]; i; i = next[i - 1])
		if (memcmp(names[i - 1], name, 8) == 0 && memcmp(names[i - 1], name, len + 8) == 0)
			break;
	if (i) {
		free(name);
		return i;
	}
	if ((n & (n - 1)) == 0) {
		names = realloc(names, (n ? 2 * n : 1) * sizeof *names);
		next = realloc(next, (n ? 2 * n : 1) * sizeof *next);
	}
	names[n] = name;
	next[n] = first[head];
	return first[head] = ++n;
}

static const struct persist_sink *under; /* the store's own */

static inline void
case_job_put(void *ctx, const struct job_saved *j)
{
	struct job_saved copy = *j;

	if (!copy.id)
		copy.id = job_id(j->queue, j->key);
	under->job_put(ctx, &copy);
}

static inline void
case_job_remove(void *ctx, struct str queue, struct str key, uint32_t id)
{
	under->job_remove(ctx, queue, key, id ? id : job_id(queue, key));
}

/* The store's, which gives jobs that have none their numbers. */
static inline const struct persist_sink *
case_sink(struct store *st)
{
	static struct persist_sink sink;

	under = st->ops->sink(st);
	sink = *under;
	sink.job_put = case_job_put;
	sink.job_remove = case_job_remove;
	return &sink;
}

/* ---- things to store ---- */

/* A job with no field at its zero. `v` varies them. */
static inline struct job_saved
job_make(const char *queue, struct str key, int64_t v)
{
	return (struct job_saved){
		.id = job_id(str_from(queue), key),
		.queue = str_from(queue),
		.key = key,
		.pending = JOB_ARMED,
		.running = v % 2,
		.absolute = v % 3 == 0,
		.due_boot_ns = v * 1000003 + 1,
		.due_wall_ns = v * 1000003 + 2,
		.delay_ns = v + 3,
		.created_wall_ns = v + 4,
		.slack_ns = v + 5,
		.max_wait_ns = v + 6,
		.seq = (uint64_t)v + 7,
		.generation = UINT64_MAX - (uint64_t)v,
		.attempt = (uint32_t)v + 9,
		.interrupts = (uint32_t)v + 10,
		.retry = v % 5 == 0,
		.coalesced = (uint32_t)v + 11,
		.disable_depth = (uint32_t)v + 12,
		.dead = v % 7 == 0,
		.level = LEVEL_ASYNC,
		.run_coalesced = (uint32_t)v + 13,
		.run_due_wall_ns = v + 14,
		.run_started_wall_ns = v + 15,
	};
}

static inline struct run_record
run_make(const char *queue, struct str key, int64_t v, struct str output)
{
	return (struct run_record){
		.queue = str_from(queue),
		.key = key,
		.generation = UINT64_MAX - (uint64_t)v,
		.attempt = (uint32_t)v + 1,
		.outcome = RUN_TIMEOUT,
		.final = true,
		.exit_code = -1,
		.signal = 9,
		.error = 2,
		.due_wall_ns = v + 2,
		.started_wall_ns = v + 3,
		.ended_wall_ns = INT64_MAX - v,
		.coalesced = UINT32_MAX,
		.output = output,
		.truncated = true,
	};
}

/* ---- the recovered state as text ---- */

static inline void
put_bytes(FILE *f, const char *name, struct str s)
{
	static const uint64_t key[2] = { 3, 4 };

	fprintf(f, " %s=%zu:", name, s.n);
	for (size_t i = 0; i < s.n && s.n <= 300; i++)
		fprintf(f, s.p[i] > ' ' && s.p[i] < 127 ? "%c" : "\\%02x", (unsigned char)s.p[i]);
	if (s.n > 300)
		fprintf(f, "#%016llx", (unsigned long long)siphash13(key, s.p, s.n));
}

static inline void
put_job(FILE *f, const struct job_saved *j)
{
	fprintf(f, "job");
	put_bytes(f, "queue", j->queue);
	put_bytes(f, "key", j->key);
	fprintf(f,
		" %d %d %d due=%lld/%lld delay=%lld created=%lld slack=%lld max_wait=%lld seq=%llu"
		" gen=%llu attempt=%u int=%u retry=%d co=%u depth=%u dead=%d level=%d"
		" run=%u/%lld/%lld",
		j->pending, j->running, j->absolute, (long long)j->due_boot_ns,
		(long long)j->due_wall_ns, (long long)j->delay_ns, (long long)j->created_wall_ns,
		(long long)j->slack_ns, (long long)j->max_wait_ns, (unsigned long long)j->seq,
		(unsigned long long)j->generation, j->attempt, j->interrupts, j->retry,
		j->coalesced, j->disable_depth, j->dead, j->level, j->run_coalesced,
		(long long)j->run_due_wall_ns, (long long)j->run_started_wall_ns);
	for (size_t i = 0; i < j->n_parts; i++)
		put_bytes(f, "part", j->parts[i]);
	for (size_t i = 0; i < j->n_run_parts; i++)
		put_bytes(f, "run_part", j->run_parts[i]);
	if (j->command || j->run_command)
		fprintf(f, " command=%d/%d", j->command, j->run_command);
	fprintf(f, "\n");
}

static inline void
put_run(FILE *f, uint64_t seq, const struct run_record *r)
{
	fprintf(f, "run %llu", (unsigned long long)seq);
	put_bytes(f, "queue", r->queue);
	put_bytes(f, "key", r->key);
	fprintf(f, " gen=%llu attempt=%u outcome=%d final=%d %d/%d/%d %lld/%lld/%lld co=%u tr=%d",
		(unsigned long long)r->generation, r->attempt, r->outcome, r->final, r->exit_code,
		r->signal, r->error, (long long)r->due_wall_ns, (long long)r->started_wall_ns,
		(long long)r->ended_wall_ns, r->coalesced, r->truncated);
	put_bytes(f, "output", r->output);
	fprintf(f, "\n");
}

static inline void
put_answer(FILE *f, const struct answer_saved *a)
{
	const struct job_reply *r = &a->reply;

	fprintf(f, "answer");
	put_bytes(f, "id", a->id);
	put_bytes(f, "queue", r->queue);
	put_bytes(f, "key", r->key);
	fprintf(f,
		" asked=%d until=%lld status=%d before=%d/%d has=%d/%d %lld/%lld gen=%llu co=%u "
		"depth=%u\n",
		a->asked, (long long)a->until_wall_ns, r->status, r->state_before,
		r->pending_before, r->has_deadline, r->has_old_deadline,
		(long long)r->deadline_wall_ns, (long long)r->old_deadline_wall_ns,
		(unsigned long long)r->generation, r->coalesced, r->disable_depth);
}

static inline void
put_completion(FILE *f, const struct completion_saved *c)
{
	fprintf(f, "completion");
	put_bytes(f, "name", c->name);
	fprintf(f, " done=%u open=%d level=%d\n", c->done, c->open, c->level);
}

static inline void
put_queue(FILE *f, struct str name, const struct queue_settings *s, bool paused)
{
	char v[256];

	fprintf(f, "queue");
	put_bytes(f, "name", name);
	fprintf(f, " paused=%d", paused);
	for (size_t i = 0; i < queue_setting_count; i++) {
		(void)queue_settings_get(s, &queue_setting_table[i], v, sizeof v);
		fprintf(f, " %s=%s", queue_setting_table[i].name, v);
	}
	fprintf(f, "\n");
}

static inline int
got_queue(void *ctx, struct str name, const struct queue_settings *s, bool paused)
{
	put_queue(ctx, name, s, paused);
	return 0;
}

static inline int
got_job(void *ctx, const struct job_saved *j)
{
	put_job(ctx, j);
	return 0;
}

static inline int
got_run(void *ctx, uint64_t seq, const struct run_record *r)
{
	put_run(ctx, seq, r);
	return 0;
}

static inline int
got_answer(void *ctx, const struct answer_saved *a)
{
	put_answer(ctx, a);
	return 0;
}

static inline int
got_completion(void *ctx, const struct completion_saved *c)
{
	put_completion(ctx, c);
	return 0;
}

/* 0 and the text (malloc'd), or the store's error and NULL. */
static inline int
recover_text(struct store *st, char **text, struct store_error *err)
{
	size_t n;
	FILE *f = open_memstream(text, &n);
	struct recover_sink sink = { f, got_queue, got_job, got_run, got_answer, got_completion,
		NULL, NULL, NULL };
	int rc = st->ops->recover(st, &sink, err);

	fclose(f);
	if (rc) {
		free(*text);
		*text = NULL;
	}
	return rc;
}

/* Opens, recovers and closes. Returns as recover_text. */
static inline int
reopened_text(char **text, struct store_error *err)
{
	struct store *st;
	int rc = store_sqlite_open(case_dir, &st, err);

	*text = NULL;
	if (rc)
		return rc;
	rc = recover_text(st, text, err);
	st->ops->close(st);
	return rc;
}

/* ---- a store ---- */

static inline struct store *
store_open_ok(void)
{
	struct store *st = NULL;
	struct store_error err = { 0 };

	ck_assert_msg(store_sqlite_open(case_dir, &st, &err) == 0, "%s: %s: %s", err_str(err.code),
		err.path, err.detail);
	return st;
}

static inline const struct persist_sink *
group_begin(struct store *st)
{
	ck_assert_int_eq(st->ops->begin(st), 0);
	return case_sink(st);
}

static inline void
group_commit(struct store *st)
{
	ck_assert_int_eq(st->ops->commit(st, NOW, true), 0);
}

/* A database as a wqd of that schema left it (SCHEMA_DIR is where they are); what it read from it
 * (malloc'd). */
#ifdef SCHEMA_DIR
static inline char *
old_database(int schema)
{
	char name[300], *file, *text;
	size_t n;

	(void)snprintf(name, sizeof name, "%s/%d.db", SCHEMA_DIR, schema);
	file = file_read(name, &n);
	ck_assert_msg(file != NULL, "no %s", name);
	file_write(in_dir("wqd.db"), file, n);
	ck_assert_int_eq(chmod(in_dir("wqd.db"), 0600), 0);
	file_write(in_dir("lock"), "", 0);
	free(file);
	(void)snprintf(name, sizeof name, "%s/%d.txt", SCHEMA_DIR, schema);
	text = file_read(name, &n);
	ck_assert_msg(text != NULL, "no %s", name);
	return text;
}
#endif

/* One group of small jobs. */
static inline void
put_some(struct store *st, int jobs, int salt)
{
	const struct persist_sink *sink = group_begin(st);

	for (int i = 0; i < jobs; i++) {
		int64_t k = (int64_t)i * 2654435761 % 1000003;

		sink->job_put(sink->ctx,
			&(struct job_saved){ .queue = STR("q"),
				.key = { (char *)&k, sizeof k },
				.seq = (uint64_t)salt });
	}
	group_commit(st);
}

#endif
