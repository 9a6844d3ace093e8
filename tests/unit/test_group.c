/* group: what is fed to it is copied whole, counted, and handed on in order. */
#include "store/writer.h"
#include "unit/store_case.h"

static void
text_queue_put(void *ctx, struct str name, const struct queue_settings *s, bool paused)
{
	put_queue(ctx, name, s, paused);
}

static void
text_queue_remove(void *ctx, struct str name)
{
	put_bytes(ctx, "queue_remove", name);
}

static void
text_job_put(void *ctx, const struct job_saved *j)
{
	fprintf(ctx, "id=%u changed=%d moved=%d ", j->id, j->payload_changed, j->moved);
	put_job(ctx, j);
}

static void
text_job_remove(void *ctx, struct str queue, struct str key, uint32_t id)
{
	put_bytes(ctx, "job_remove", queue);
	put_bytes(ctx, "key", key);
	fprintf(ctx, " id=%u\n", id);
}

static void
text_run_add(void *ctx, uint64_t seq, const struct run_record *r)
{
	put_run(ctx, seq, r);
}

static void
text_run_remove(void *ctx, uint64_t seq)
{
	fprintf(ctx, "run_remove %llu\n", (unsigned long long)seq);
}

static void
text_answer_put(void *ctx, const struct answer_saved *a)
{
	put_answer(ctx, a);
}

static void
text_answer_remove(void *ctx, struct str id)
{
	put_bytes(ctx, "answer_remove", id);
}

static void
text_completion_put(void *ctx, const struct completion_saved *c)
{
	put_completion(ctx, c);
}

static void
text_completion_remove(void *ctx, struct str name)
{
	put_bytes(ctx, "completion_remove", name);
}

static struct persist_sink
text_sink(FILE *f)
{
	return (struct persist_sink){ f, text_queue_put, text_queue_remove, text_job_put,
		text_job_remove, text_run_add, text_run_remove, text_answer_put, text_answer_remove,
		text_completion_put, text_completion_remove };
}

/* One of everything, with strings that are gone when this returns. */
static void
feed(const struct persist_sink *to)
{
	char queue[] = "mail", key[] = "k\xc3\xa4y", part[] = "part", big[200000], out[] = "output";
	struct str parts[] = { str_from(part), { big, sizeof big }, STR(""), str_from(part) };
	struct job_saved j = job_make(queue, str_from(key), 1);
	struct run_record r = run_make(queue, str_from(key), 2, str_from(out));
	struct answer_saved a = { .id = str_from(part),
		.reply = { .status = ST_CREATED, .queue = str_from(queue), .key = str_from(key) },
		.until_wall_ns = 9 };
	struct queue_settings s;

	memset(big, 'b', sizeof big);
	queue_settings_default(&s);
	s.max_active = 5;
	to->queue_put(to->ctx, str_from(queue), &s, true);
	j.parts = parts;
	j.n_parts = ARRAY_SIZE(parts);
	j.run_parts = parts;
	j.n_run_parts = 1;
	j.payload_changed = true;
	to->job_put(to->ctx, &j);
	j.payload_changed = false;
	j.n_parts = j.n_run_parts = 0;
	to->job_put(to->ctx, &j);
	to->job_put(to->ctx,
		&(struct job_saved){ .id = 5,
			.moved = true,
			.coalesced = 6,
			.due_boot_ns = -7,
			.due_wall_ns = 8,
			.delay_ns = 9,
			.seq = 10 });
	to->job_remove(to->ctx, str_from(queue), str_from(key), 77);
	to->run_add(to->ctx, 7, &r);
	to->run_remove(to->ctx, UINT64_MAX);
	to->answer_put(to->ctx, &a);
	to->answer_remove(to->ctx, str_from(part));
	to->completion_put(
		to->ctx, &(struct completion_saved){ str_from(key), 3, false, LEVEL_SYNC });
	to->completion_remove(to->ctx, str_from(part));
	to->queue_remove(to->ctx, str_from(queue));
	memset(queue, 'x', sizeof queue);
	memset(key, 'x', sizeof key);
	memset(part, 'x', sizeof part);
	memset(big, 'x', sizeof big);
	memset(out, 'x', sizeof out);
}

START_TEST(a_group_is_a_whole_copy)
{
	char *want, *got;
	size_t n;
	FILE *f = open_memstream(&want, &n);
	struct persist_sink to = text_sink(f);
	struct group *g;

	feed(&to);
	fclose(f);
	ck_assert_int_eq(group_new(&g), 0);
	feed(group_sink(g));
	f = open_memstream(&got, &n);
	to = text_sink(f);
	group_replay(g, &to);
	fclose(f);
	ck_assert_str_eq(got, want);
	ck_assert_uint_eq(group_count(g), 12);
	group_free(g);
	free(want);
	free(got);
}
END_TEST

START_TEST(bytes_of_a_group_are_counted)
{
	struct group *g;
	size_t before, small;

	ck_assert_int_eq(group_new(&g), 0);
	before = group_bytes(g);
	for (int i = 0; i < 10000; i++) {
		struct job_saved j = { .id = 1 + (uint32_t)i,
			.queue = STR("queue"),
			.key = { (char *)&i, sizeof i } };

		group_sink(g)->job_put(group_sink(g)->ctx, &j);
	}
	small = group_bytes(g) - before;
	ck_assert_uint_eq(group_count(g), 10000);
	ck_assert_uint_lt(small, 10000 * (sizeof(struct job_saved) + 64));
	feed(group_sink(g));
	ck_assert_uint_gt(group_bytes(g), before + small + 200000);
	group_free(g);
}
END_TEST

/* A payload that the store has already is not copied, whatever is handed out with it. */
START_TEST(unchanged_payloads_are_left_out)
{
	static const char big[PAYLOAD_MAX];
	struct job_saved j = { .id = 1,
		.queue = STR("q"),
		.key = STR("k"),
		.parts = &(struct str){ big, sizeof big },
		.n_parts = 1 };
	struct group *g;

	ck_assert_int_eq(group_new(&g), 0);
	group_sink(g)->job_put(group_sink(g)->ctx, &j);
	ck_assert_uint_lt(group_bytes(g), 100000);
	group_free(g);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("group");
	TCase *tc = unit_case(s, "group");

	tcase_add_test(tc, a_group_is_a_whole_copy);
	tcase_add_test(tc, bytes_of_a_group_are_counted);
	tcase_add_test(tc, unchanged_payloads_are_left_out);
	return unit_run(s);
}
