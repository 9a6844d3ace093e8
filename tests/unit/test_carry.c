/* Records over an exec: the file, the engine's part of it, and the states of an upgrade. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/carry.h"
#include "base/err.h"
#include "engine/carry.h"
#include "unit/unit.h"
#include "upgrade_state.h"

/* ---- the file ---- */

START_TEST(records_come_back_as_they_were_written)
{
	struct str parts[3];
	struct carry_record r;
	struct carry_out o;
	struct carry_in in;
	char big[5000], text[65];
	size_t at = 0;

	memset(big, 'b', sizeof big);
	ck_assert_int_eq(carry_out_new(&o), 0);
	for (unsigned i = 0; i < 1000; i++) {
		carry_begin(&o, CARRY_JOB);
		carry_u64(&o, 1, i);
		carry_i64(&o, 2, -(int64_t)i);
		carry_bytes(&o, 3, (struct str){ big, i * 5 });
		carry_bytes(&o, 3, STR_NONE);
		carry_str(&o, 4, STR_NONE);
		carry_end(&o);
	}
	ck_assert_int_eq(carry_finish(&o), 0);
	ck_assert_int_eq(write(o.fd, "x", 1), -1);
	ck_assert_int_eq(carry_in_open(&in, o.fd), 0);
	for (unsigned i = 0; i < 1000; i++) {
		ck_assert(carry_next(&in, &at, &r));
		ck_assert_int_eq(r.kind, CARRY_JOB);
		ck_assert_uint_eq(carry_get_u64(&r, 1, 7), i);
		ck_assert_int_eq(carry_get_i64(&r, 2, 7), -(int64_t)i);
		ck_assert_uint_eq(carry_get_all(&r, 3, parts, 3), 2);
		ck_assert_uint_eq(parts[0].n, i * 5);
		ck_assert_uint_eq(parts[1].n, 0);
		ck_assert_uint_eq(carry_get_u64(&r, 9, 77), 77);
		ck_assert_int_eq(carry_get_text(&r, 3, text, sizeof text),
			i * 5 < sizeof text ? 0 : ERR_DAMAGED);
		if (i * 5 < sizeof text) {
			ck_assert_uint_eq(strlen(text), i * 5);
			ck_assert_mem_eq(text, big, i * 5);
		}
		ck_assert_int_eq(carry_get_text(&r, 9, text, sizeof text), 0);
		ck_assert_str_eq(text, "");
		ck_assert_uint_eq(carry_get(&r, 4).n, 0);
		ck_assert_int_eq(carry_get_fd(&r, 1), -1);
	}
	ck_assert(carry_next(&in, &at, &r));
	ck_assert_int_eq(r.kind, CARRY_END);
	ck_assert(!carry_next(&in, &at, &r));
	carry_in_close(&in);
	carry_out_done(&o);
}
END_TEST

START_TEST(descriptors_are_kept_for_the_exec_alone)
{
	struct carry_record r;
	struct carry_out o;
	struct carry_in in;
	size_t at = 0;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	ck_assert_int_eq(carry_out_new(&o), 0);
	carry_begin(&o, CARRY_CONN);
	carry_fd(&o, 1, fd);
	carry_fd(&o, 2, -1);
	carry_end(&o);
	ck_assert_int_eq(carry_finish(&o), 0);
	carry_keep_fds(&o, true);
	ck_assert_int_eq(fcntl(fd, F_GETFD), 0);
	carry_keep_fds(&o, false);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(carry_in_open(&in, o.fd), 0);
	carry_in_keep_fds(&in, true);
	ck_assert_int_eq(fcntl(fd, F_GETFD), 0);
	ck_assert(carry_next(&in, &at, &r));
	ck_assert_int_eq(carry_get_fd(&r, 1), fd);
	ck_assert_int_eq(carry_get_fd(&r, 2), -1);
	carry_in_close(&in);
	carry_out_done(&o);
	close(fd);
}
END_TEST

/* Cut short at any byte, or with any byte of its heads changed, it is damaged or whole, never read
 * past its end. */
START_TEST(what_is_not_whole_is_damaged)
{
	static uint8_t bytes[4096];
	struct carry_out o;
	struct carry_in in;
	ssize_t n;

	ck_assert_int_eq(carry_out_new(&o), 0);
	for (unsigned i = 0; i < 5; i++) {
		carry_begin(&o, CARRY_JOB);
		carry_u64(&o, 1, i);
		carry_str(&o, 2, STR("some text"));
		carry_end(&o);
	}
	ck_assert_int_eq(carry_finish(&o), 0);
	n = pread(o.fd, bytes, sizeof bytes, 0);
	ck_assert_int_gt(n, 100);
	carry_out_done(&o);
	for (ssize_t cut = 0; cut < n; cut++) {
		int fd = memfd_create("cut", 0);

		ck_assert_int_eq(write(fd, bytes, (size_t)cut), cut);
		ck_assert_int_eq(carry_in_open(&in, fd), ERR_DAMAGED);
		close(fd);
	}
	for (ssize_t i = 0; i < n; i++) {
		struct carry_record r;
		size_t at = 0;
		int fd = memfd_create("changed", 0);

		bytes[i] ^= 0xff;
		ck_assert_int_eq(write(fd, bytes, (size_t)n), n);
		bytes[i] ^= 0xff;
		if (carry_in_open(&in, fd) == 0) {
			while (carry_next(&in, &at, &r))
				(void)carry_get_u64(&r, 1, 0);
			carry_in_close(&in);
		}
		close(fd);
	}
}
END_TEST

START_TEST(without_memory_it_is_an_error)
{
	struct carry_out o;
	int err = 0;

	for (long n = 0; n < 20; n++) {
		alloc_fault_set(n, 0);
		err = carry_out_new(&o);
		carry_begin(&o, CARRY_CONN);
		carry_fd(&o, 1, 2);
		carry_end(&o);
		if (o.fd >= 0)
			err = carry_finish(&o);
		alloc_fault_set(-1, 0);
		carry_out_done(&o);
		if (err == 0)
			return;
		ck_assert_int_eq(err, -ENOMEM);
	}
	ck_assert_msg(0, "it never worked");
}
END_TEST

/* ---- states ---- */

static enum upgrade_state
next(enum upgrade_state s, struct upgrade_seen seen)
{
	enum upgrade_state to = upgrade_next(s, &seen);

	ck_assert(to == s || upgrade_leads(s, to));
	return to;
}

#define SEEN(...) ((struct upgrade_seen){ __VA_ARGS__ })

START_TEST(an_upgrade_goes_its_way)
{
	ck_assert_int_eq(next(UP_IDLE, SEEN(.at_rest = true)), UP_IDLE);
	ck_assert_int_eq(next(UP_CHECKING, SEEN(0)), UP_CHECKING);
	ck_assert_int_eq(next(UP_CHECKING, SEEN(.child_over = true)), UP_SETTLING);
	ck_assert_int_eq(next(UP_CHECKING, SEEN(.child_over = true, .only_check = true)), UP_IDLE);
	ck_assert_int_eq(next(UP_SETTLING, SEEN(0)), UP_SETTLING);
	ck_assert_int_eq(next(UP_SETTLING, SEEN(.at_rest = true)), UP_PARTING);
	ck_assert_int_eq(next(UP_PARTING, SEEN(.at_rest = true, .tls_left = true)), UP_PARTING);
	ck_assert_int_eq(next(UP_PARTING, SEEN(0)), UP_PARTING);
	ck_assert_int_eq(next(UP_PARTING, SEEN(.at_rest = true)), UP_SAVING);
	ck_assert_int_eq(next(UP_SAVING, SEEN(.done = true)), UP_HANDING);
	ck_assert_int_eq(next(UP_SAVING, SEEN(0)), UP_IDLE);
	/* It is still here: the exec has failed. */
	ck_assert_int_eq(next(UP_HANDING, SEEN(0)), UP_IDLE);
}
END_TEST

/* Failure, the end of the daemon, and a time that is over: from every state back to serving. */
START_TEST(whatever_goes_wrong_leads_back)
{
	for (int s = UP_CHECKING; s < N_UPGRADE_STATES; s++)
		for (unsigned bits = 0; bits < 64; bits++) {
			struct upgrade_seen seen = {
				.only_check = bits & 1,
				.child_over = bits & 2,
				.at_rest = bits & 4,
				.tls_left = bits & 8,
				.done = bits & 16,
				.over = bits & 32,
			};

			next((enum upgrade_state)s, seen);
			seen.failed = true;
			ck_assert_int_eq(next((enum upgrade_state)s, seen), UP_IDLE);
			seen.failed = false;
			seen.stopping = true;
			ck_assert_int_eq(next((enum upgrade_state)s, seen), UP_IDLE);
		}
	ck_assert_int_eq(next(UP_CHECKING, SEEN(.over = true)), UP_IDLE);
	ck_assert_int_eq(next(UP_SETTLING, SEEN(.over = true)), UP_IDLE);
	ck_assert_int_eq(next(UP_PARTING, SEEN(.over = true, .tls_left = true)), UP_IDLE);
	for (int s = 0; s < N_UPGRADE_STATES; s++)
		for (int to = s + 2; to < N_UPGRADE_STATES; to++)
			ck_assert_msg(!upgrade_leads((enum upgrade_state)s, (enum upgrade_state)to),
				"%s leads to %s", upgrade_state_name((enum upgrade_state)s),
				upgrade_state_name((enum upgrade_state)to));
}
END_TEST

/* ---- the engine ---- */

static struct engine *e;
static struct effects fx;
static struct moment now;
static uint64_t tickets;

static void
step(struct engine_event ev)
{
	effects_clear(&fx);
	engine_step(e, now, &ev, &fx);
	engine_verify(e);
}

static const struct effect *
find(enum effect_kind kind, uint64_t ticket)
{
	for (size_t i = 0; i < fx.n; i++)
		if (fx.v[i].kind == kind && (ticket == 0 || fx.v[i].ticket == ticket))
			return &fx.v[i];
	return NULL;
}

static void
configure(const char *name, const char *action)
{
	struct queue_settings s;

	queue_settings_default(&s);
	s.durability = LEVEL_MEMORY;
	ck_assert_int_eq(queue_settings_set(&s, STR("action"), str_from(action)), 0);
	effects_clear(&fx);
	ck_assert_int_eq(engine_configure_queue(e, now, str_from(name), &s, &fx), 0);
}

static void
make(uint64_t seed)
{
	struct engine_config cfg = ENGINE_CONFIG_DEFAULT;

	cfg.seed[0] = seed;
	cfg.seed[2] = seed + 1;
	ck_assert_int_eq(engine_new(&cfg, &e), 0);
	configure("lease", "lease");
	configure("run", "exec");
	configure("none", "none");
}

static void
open_engine(void)
{
	now = (struct moment){ .boot_ns = 1000 * NS_PER_S, .wall_ns = 1700000000 * NS_PER_S };
	tickets = 0;
	effects_init(&fx);
	make(1);
}

static void
close_engine(void)
{
	engine_free(e);
	effects_done(&fx);
}

static struct job_reply
update(const char *q, const char *key, int64_t delay_ns, const char *idem)
{
	const struct op_update op = {
		.job = { str_from(q), str_from(key) },
		.when_ns = delay_ns,
		.slack_ns = -1,
		.max_wait_ns = -1,
		.payload_mode = PAYLOAD_REPLACE,
		.payload = str_from(key),
		.level = LEVEL_MEMORY,
		.idem = str_from(idem),
	};

	step((struct engine_event){ .kind = EV_UPDATE, .ticket = ++tickets, .update = &op });
	ck_assert_ptr_nonnull(find(FX_REPLY, tickets));
	return find(FX_REPLY, tickets)->reply;
}

static uint64_t
wait_for(const char *q, const char *key, int64_t timeout_ns)
{
	const struct op_wait op = { .job = { str_from(q), str_from(key) },
		.timeout_ns = timeout_ns };

	step((struct engine_event){ .kind = EV_WAIT, .ticket = ++tickets, .wait = &op });
	ck_assert_ptr_null(find(FX_REPLY, tickets));
	return tickets;
}

static uint64_t
completion(enum engine_event_kind kind, const char *name)
{
	const struct op_completion op = {
		.name = str_from(name), .timeout_ns = -1, .level = LEVEL_MEMORY
	};

	step((struct engine_event){ .kind = kind, .ticket = ++tickets, .completion = &op });
	return tickets;
}

static void
no_queue(void *ctx, struct str name, const struct queue_settings *s, bool paused)
{
	(void)ctx;
	(void)name;
	(void)s;
	(void)paused;
}

/* Another engine in its place; the store would have had but the queues. */
static void
exchange(uint64_t seed)
{
	const struct persist_sink sink = { .queue_put = no_queue };
	const char *why = NULL;
	struct carry_out o;
	struct carry_in in;
	struct str busy;

	(void)engine_take_dirty(e, now, SIZE_MAX, &sink);
	engine_hold(e, true);
	step((struct engine_event){ .kind = EV_TICK });
	ck_assert_ptr_null(find(FX_START, 0));
	ck_assert(engine_quiet(e, &busy));
	ck_assert_int_eq(carry_out_new(&o), 0);
	engine_carry_out(e, now, &o);
	ck_assert_int_eq(carry_finish(&o), 0);
	engine_free(e);
	now.boot_ns += 300 * NS_PER_MS;
	now.wall_ns += 300 * NS_PER_MS;
	make(seed);
	ck_assert_int_eq(carry_in_open(&in, o.fd), 0);
	ck_assert_int_eq(engine_carry_in(e, now, &in, &why), 0);
	engine_recovered(e, now);
	ck_assert_int_eq(engine_carry_in_waiters(e, now, &in, &why), 0);
	engine_verify(e);
	carry_in_close(&in);
	carry_out_done(&o);
}

static struct job_view
look(const char *q, const char *key)
{
	const struct job_name name = { str_from(q), str_from(key) };
	struct job_view v;

	ck_assert_int_eq(engine_get(e, now, &name, &v), ST_OK);
	return v;
}

START_TEST(an_engine_goes_on_as_another)
{
	struct job_reply armed;
	struct run_start run;
	struct run_end end = { .outcome = RUN_DONE, .exit_code = 0, .output = STR("out") };
	uint64_t waits, short_wait, first, second;

	open_engine();
	armed = update("none", "armed", 10 * NS_PER_S, "id");
	update("none", "ran", 0, "");
	update("run", "going", 0, "");
	step((struct engine_event){ .kind = EV_TICK });
	update("run", "again", 0, "");
	ck_assert_ptr_nonnull(find(FX_START, 0));
	run = find(FX_START, 0)->start;
	step((struct engine_event){ .kind = EV_RUN_STARTED, .run_id = run.run_id });
	update("run", "again", 5 * NS_PER_S, "");
	waits = wait_for("run", "again", -1);
	short_wait = wait_for("none", "armed", NS_PER_S);
	first = completion(EV_COMPLETION_WAIT, "c");
	second = completion(EV_COMPLETION_WAIT, "c");
	completion(EV_COMPLETE, "left");
	for (uint64_t seed = 2; seed < 4; seed++)
		exchange(seed);
	ck_assert_int_eq(look("none", "armed").deadline_wall_ns, armed.deadline_wall_ns);
	ck_assert_int_eq(look("none", "ran").generation, 1);
	ck_assert_int_eq(look("run", "again").state, JOB_RUNNING);
	ck_assert(look("run", "again").pending);
	/* The same answer to the same id, and not a second job. */
	ck_assert_int_eq(update("none", "armed", NS_PER_S, "id").status, ST_CREATED);
	/* Generations go on. */
	ck_assert_int_eq(update("none", "ran", NS_PER_S, "").generation, 2);
	completion(EV_COMPLETE, "c");
	step((struct engine_event){ .kind = EV_TICK });
	ck_assert_ptr_nonnull(find(FX_REPLY, first));
	ck_assert_ptr_null(find(FX_REPLY, second));
	completion(EV_COMPLETION_WAIT, "left");
	ck_assert_ptr_nonnull(find(FX_REPLY, tickets));
	/* The run ends under its own number, and who waits for it hears that. */
	end.run_id = run.run_id;
	step((struct engine_event){ .kind = EV_RUN_ENDED, .run_end = &end });
	ck_assert_ptr_nonnull(find(FX_REPLY, waits));
	ck_assert(str_eq(find(FX_REPLY, waits)->reply.run->output, STR("out")));
	ck_assert_int_eq(look("run", "again").state, JOB_ARMED);
	/* Of its second 600 ms are over. */
	now.boot_ns += 399 * NS_PER_MS;
	now.wall_ns += 399 * NS_PER_MS;
	step((struct engine_event){ .kind = EV_TICK });
	ck_assert_ptr_null(find(FX_REPLY, short_wait));
	now.boot_ns += NS_PER_MS;
	now.wall_ns += NS_PER_MS;
	step((struct engine_event){ .kind = EV_TICK });
	ck_assert_int_eq(find(FX_REPLY, short_wait)->reply.status, ST_TIMEOUT);
	close_engine();
}
END_TEST

START_TEST(leases_go_on_under_their_tokens)
{
	static const struct str queues[] = { { "lease", 5 } };
	const struct op_subscribe sub = { .queues = queues, .n_queues = 1, .credits = 2 };
	struct op_lease op = { .job = { STR("lease"), STR("b") }, .lease_ns = -1, .exit_code = -1 };
	uint64_t worker, tokens[2];

	open_engine();
	step((struct engine_event){
		.kind = EV_SUBSCRIBE, .ticket = worker = ++tickets, .subscribe = &sub });
	update("lease", "a", 0, "");
	tokens[0] = find(FX_START, 0)->start.lease_token;
	update("lease", "b", 0, "");
	tokens[1] = find(FX_START, 0)->start.lease_token;
	update("lease", "c", 0, "");
	ck_assert_ptr_null(find(FX_START, 0));
	exchange(2);
	op.subscription = worker;
	op.token = tokens[0];
	step((struct engine_event){ .kind = EV_FINISH, .ticket = ++tickets, .lease = &op });
	ck_assert_int_eq(find(FX_REPLY, tickets)->reply.status, ST_LEASE_LOST);
	op.token = tokens[1];
	step((struct engine_event){ .kind = EV_FINISH, .ticket = ++tickets, .lease = &op });
	ck_assert_int_eq(find(FX_REPLY, tickets)->reply.status, ST_OK);
	/* Its credit is free: the third, under a token above all others. */
	ck_assert_ptr_nonnull(find(FX_START, 0));
	ck_assert_uint_eq(find(FX_START, 0)->start.subscription, worker);
	ck_assert_uint_gt(find(FX_START, 0)->start.lease_token, tokens[1]);
	exchange(3);
	/* Its connection ends: what it held is for the next. */
	step((struct engine_event){ .kind = EV_ABANDON, .ticket = worker });
	ck_assert_int_ne(look("lease", "a").state, JOB_RUNNING);
	close_engine();
}
END_TEST

START_TEST(a_state_that_makes_no_sense_is_refused)
{
	const char *why = NULL;
	struct carry_out o;
	struct carry_in in;

	open_engine();
	ck_assert_int_eq(carry_out_new(&o), 0);
	carry_begin(&o, CARRY_RUN);
	carry_str(&o, 1, STR("run"));
	carry_str(&o, 2, STR("nobody"));
	carry_end(&o);
	ck_assert_int_eq(carry_finish(&o), 0);
	ck_assert_int_eq(carry_in_open(&in, o.fd), 0);
	ck_assert_int_eq(engine_carry_in(e, now, &in, &why), ERR_DAMAGED);
	ck_assert_str_eq(why, "a run");
	carry_in_close(&in);
	carry_out_done(&o);
	close_engine();
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("carry");
	TCase *tc = unit_case(s, "file");

	tcase_add_test(tc, records_come_back_as_they_were_written);
	tcase_add_test(tc, descriptors_are_kept_for_the_exec_alone);
	tcase_add_test(tc, what_is_not_whole_is_damaged);
	tcase_add_test(tc, without_memory_it_is_an_error);
	tc = unit_case(s, "states");
	tcase_add_test(tc, an_upgrade_goes_its_way);
	tcase_add_test(tc, whatever_goes_wrong_leads_back);
	tc = unit_case(s, "engine");
	tcase_add_test(tc, an_engine_goes_on_as_another);
	tcase_add_test(tc, leases_go_on_under_their_tokens);
	tcase_add_test(tc, a_state_that_makes_no_sense_is_refused);
	return unit_run(s);
}
