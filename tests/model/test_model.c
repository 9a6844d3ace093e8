/*
 * The engine against the reference: random requests from a seed, in episodes,
 * with everything compared after each step. A sequence that fails is made as
 * short as it gets and printed as a script that can be played again:
 *
 *     WQD_MODEL_SEED=7 tests/model/test_model       one seed alone
 *     WQD_MODEL_SCRIPT=FILE tests/model/test_model  the lines of FILE
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/play.h"
#include "unit/random.h"
#include "unit/unit.h"

#define SEEDS   20
#define STEPS   100000 /* a seed */
#define EPISODE 2500   /* steps from an empty engine on */
#define TRIES   4000   /* runs of a failing sequence to make it shorter */

static const struct {
	const char *name;
	unsigned weight;
} op_table[OP_COUNT] = {
#define X(name, weight) { #name, weight },
	OP_TABLE(X)
#undef X
};

/* What is played, and how. */
struct script {
	struct op *v;
	size_t n;
	unsigned budget; /* of a turn of the engine; 0: as usual */
};

/* ---- failures ---- */

static sigjmp_buf on_failure;
static char failure[512];

static void
on_check(const char *what)
{
	snprintf(failure, sizeof failure, "%s", what);
	siglongjmp(on_failure, 1);
}

static void
on_signal(int sig)
{
	snprintf(failure, sizeof failure, "signal %d, see the assertion above", sig);
	siglongjmp(on_failure, 1);
}

static void
set_traps(void)
{
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_NODEFER };

	rig_on_failure = on_check;
	sigaction(SIGABRT, &act, NULL);
	sigaction(SIGSEGV, &act, NULL);
}

/* ---- sequences ---- */

static int
random_kind(struct rnd *rnd)
{
	unsigned total = 0, pick;
	int kind = 0;

	for (int i = 0; i < OP_COUNT; i++)
		total += op_table[i].weight;
	pick = (unsigned)rnd_below(rnd, total);
	while (pick >= op_table[kind].weight)
		pick -= op_table[kind++].weight;
	return kind;
}

static struct op
random_op(struct rnd *rnd)
{
	struct op o = { .kind = random_kind(rnd) };

	o.queue = (int)rnd_below(rnd, REF_QUEUES);
	o.key = (int)rnd_below(rnd, REF_KEYS);
	o.a = (int)rnd_below(rnd, 32);
	o.b = (int)rnd_below(rnd, 64);
	o.n = (int)rnd_below(rnd, rnd_one_in(rnd, 3) ? 30 : 6);
	o.level = rnd_one_in(rnd, 3) ? (int)rnd_below(rnd, 4) : LEVEL_DEFAULT;
	o.id = rnd_one_in(rnd, 8) ? 1 + (int)rnd_below(rnd, REF_IDS) : 0;
	o.quiet = rnd_one_in(rnd, 6);
	/* Unlimited waits, delays that make no sense. */
	if (o.kind != OP_FREEZE && o.kind < OP_STEP &&
		rnd_one_in(rnd, o.kind == OP_UPDATE ? 100 : 2))
		o.n = -1;
	if (o.kind == OP_UPDATE && !rnd_one_in(rnd, 4))
		o.a &= ~28; /* plain ones mostly */
	return o;
}

/* The number-th episode of a seed. */
static void
random_script(struct script *s, struct rnd *rnd, int number)
{
	s->n = EPISODE;
	/* With small turns what a request sets going is not over when the next one comes. */
	s->budget = number % 4 == 3 ? 1 + (unsigned)rnd_below(rnd, 8) : 0;
	for (size_t i = 0; i < s->n; i++) {
		s->v[i] = random_op(rnd);
		s->v[i].quiet &= s->budget == 0;
		/* Either the clock is set or the daemon restarts. */
		if (s->v[i].kind == (number % 2 ? OP_STEP : OP_RESTART))
			s->v[i].kind = OP_PASS;
	}
}

/* The number of ops played to a new pair before it failed, `n` if it did not. */
static size_t
play(const struct script *s)
{
	static struct play p; /* static, to be there after the jump */
	static volatile size_t at;

	at = 0;
	if (sigsetjmp(on_failure, 1))
		return at;
	play_begin(&p, s->budget);
	for (; at < s->n; at = at + 1)
		play_op(&p, &s->v[at]);
	play_end_of(&p);
	return s->n;
}

/* Leaves out ever smaller pieces as long as the rest still fails. */
static void
shrink(struct script *s)
{
	struct script trial = *s;
	int tries = 0;

	trial.v = must_alloc(s->n * sizeof *s->v);
	for (size_t piece = s->n / 2; piece > 0; piece /= 2) {
		for (size_t i = 0; i + piece <= s->n && tries < TRIES; tries++) {
			size_t failed;

			trial.n = s->n - piece;
			memcpy(trial.v, s->v, i * sizeof *s->v);
			memcpy(trial.v + i, s->v + i + piece, (trial.n - i) * sizeof *s->v);
			failed = play(&trial);
			if (failed == trial.n) {
				i += piece;
				continue;
			}
			s->n = failed + 1;
			memcpy(s->v, trial.v, s->n * sizeof *s->v);
		}
	}
	x_free(trial.v);
}

/* ---- scripts ---- */

#define LINE "a=%d b=%d n=%d level=%d id=%d quiet=%d"

static void
print_script(const struct script *s)
{
	fprintf(stderr, "budget %u\n", s->budget);
	for (size_t i = 0; i < s->n; i++) {
		const struct op *o = &s->v[i];

		fprintf(stderr, "%s %s %d " LINE "\n", op_table[o->kind].name,
			play_queue_names[o->queue], o->key, o->a, o->b, o->n, o->level, o->id,
			o->quiet);
	}
}

static bool
read_op(FILE *f, struct op *o)
{
	char kind[32], queue[32];

	if (fscanf(f, "%31s %31s %d " LINE, kind, queue, &o->key, &o->a, &o->b, &o->n, &o->level,
		    &o->id, &o->quiet) != 9)
		return false;
	for (o->kind = 0; strcmp(kind, op_table[o->kind].name) != 0; o->kind++)
		ck_assert_int_lt(o->kind, OP_COUNT - 1);
	for (o->queue = 0; strcmp(queue, play_queue_names[o->queue]) != 0; o->queue++)
		ck_assert_int_lt(o->queue, REF_QUEUES - 1);
	return true;
}

/* Shrinking plays a broken engine thousands of times: its complaints are left out. */
static int
hush(void)
{
	int kept = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	dup2(null, STDERR_FILENO);
	close(null);
	return kept;
}

static void
unhush(int kept)
{
	dup2(kept, STDERR_FILENO);
	close(kept);
}

static void
check(struct script *s, unsigned seed)
{
	size_t failed = play(s);
	int kept;

	if (failed == s->n)
		return;
	fprintf(stderr, "seed %u: %s\n", seed, failure);
	s->n = failed + 1;
	kept = hush();
	shrink(s);
	unhush(kept);
	(void)play(s);
	print_script(s);
	ck_abort_msg("seed %u, %zu ops: %s", seed, s->n, failure);
}

/* ---- tests ---- */

START_TEST(engine_and_reference_agree)
{
	const char *only = getenv("WQD_MODEL_SEED");
	unsigned seed = only ? (unsigned)atoi(only) : (unsigned)_i + 1;
	struct rnd rnd = { .s = seed };
	struct script s = { 0 };

	if (only && _i > 0)
		return;
	s.v = must_alloc(EPISODE * sizeof *s.v);
	set_traps();
	for (int i = 0; i < STEPS / EPISODE; i++) {
		random_script(&s, &rnd, i);
		check(&s, seed);
	}
	x_free(s.v);
}
END_TEST

/* Killed with any part of the changes stored: what is left is sound and comes to its end. */
START_TEST(what_is_stored_is_sound_at_every_moment)
{
	struct rnd rnd = { .s = (uint64_t)_i + 1000 };
	struct play *p = must_alloc(sizeof *p);

	for (int round = 0; round < 200; round++) {
		play_begin(p, 0);
		for (unsigned i = (unsigned)rnd_below(&rnd, 300); i > 0; i--) {
			struct op o = random_op(&rnd);

			if (o.kind != OP_STEP)
				play_op(p, &o);
		}
		play_crash(p, (size_t)rnd_below(&rnd, 30));
		play_end_of(p);
	}
	x_free(p);
}
END_TEST

/* Allocations fail now and then: the reference can't know, but the engine stays sound, forgets
 * nobody who waits and comes to its end. */
START_TEST(without_memory_now_and_then_the_engine_is_sound)
{
	struct rnd rnd = { .s = (uint64_t)_i + 2000 };
	struct play *p = must_alloc(sizeof *p);

	for (int round = 0; round < 100; round++) {
		play_begin(p, 0);
		for (unsigned i = (unsigned)rnd_below(&rnd, 500); i > 0; i--) {
			struct op o = random_op(&rnd);

			alloc_fault_set((int64_t)rnd_below(&rnd, 60), rnd_one_in(&rnd, 4));
			play_op_alone(p, &o);
			alloc_fault_set(-1, 0);
			engine_verify(p->rig.e);
		}
		play_crash(p, SIZE_MAX);
		play_end_of(p);
	}
	x_free(p);
}
END_TEST

START_TEST(a_script_plays_again)
{
	const char *path = getenv("WQD_MODEL_SCRIPT");
	FILE *f = path ? fopen(path, "r") : NULL;
	struct script s = { 0 };

	ck_assert(!path || f);
	s.v = must_alloc(EPISODE * sizeof *s.v);
	if (f) {
		ck_assert_int_eq(fscanf(f, "budget %u", &s.budget), 1);
		while (s.n < EPISODE && read_op(f, &s.v[s.n]))
			s.n++;
		fclose(f);
	}
	set_traps();
	check(&s, 0);
	x_free(s.v);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("model");
	TCase *tc = unit_case(s, "model");

	if (!getenv("WQD_MODEL_SCRIPT")) {
		tcase_add_loop_test(tc, engine_and_reference_agree, 0, SEEDS);
		tcase_add_loop_test(tc, what_is_stored_is_sound_at_every_moment, 0, 4);
		tcase_add_loop_test(tc, without_memory_now_and_then_the_engine_is_sound, 0, 4);
	}
	tcase_add_test(tc, a_script_plays_again);
	return unit_run(s);
}
