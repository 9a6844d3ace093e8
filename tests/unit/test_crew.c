/* How many worker programs: the rules, one by one. */
#include "base/clock.h"
#include "engine/crew.h"
#include "unit/unit.h"

#define SEC NS_PER_S

static const struct {
	const char *what;
	struct crew_state s;
	enum crew_step step;
} cases[] = {
	/* alive coming idle ready most spare cpus used coldest timeout */
	{ "nobody, nothing to do", { 0, 0, 0, 0, 4, 0, 2, -1, 0, 30 * SEC, 0, 0 }, CREW_STAY },
	{ "a spare one is kept", { 0, 0, 0, 0, 4, 1, 2, -1, 0, 30 * SEC, 0, 0 }, CREW_HIRE },
	{ "the spare one is there", { 1, 0, 1, 0, 4, 1, 2, 0, 0, 30 * SEC, 0, 0 }, CREW_STAY },
	{ "the spare one is coming", { 1, 1, 0, 0, 4, 1, 2, 0, 0, 30 * SEC, 0, 0 }, CREW_STAY },
	{ "work waits, nobody idle", { 1, 0, 0, 5, 4, 0, 2, 1, 0, 30 * SEC, 0, 0 }, CREW_HIRE },
	{ "work waits, one is idle and about to take it",
		{ 1, 0, 1, 5, 4, 0, 2, 0, 0, 30 * SEC, 0, 0 }, CREW_STAY },
	{ "as many as allowed", { 4, 0, 0, 5, 4, 0, 2, 0, 0, 30 * SEC, 0, 0 }, CREW_STAY },
	{ "none are allowed", { 0, 0, 0, 5, 0, 1, 2, -1, 0, 30 * SEC, 0, 0 }, CREW_STAY },
	{ "they wait for something else: room", { 2, 0, 0, 5, 4, 0, 2, 0.2, 0, 30 * SEC, 0, 0 },
		CREW_HIRE },
	{ "they compute: no room", { 2, 0, 0, 5, 4, 0, 2, 1.9, 0, 30 * SEC, 0, 0 }, CREW_STAY },
	{ "not known yet: no room", { 2, 0, 0, 5, 4, 0, 2, -1, 0, 30 * SEC, 0, 0 }, CREW_STAY },
	{ "no spare one beyond busy processors", { 2, 0, 0, 0, 4, 1, 2, 1.9, 0, 30 * SEC, 0, 0 },
		CREW_STAY },
	/* ... and others in the pool, cap */
	{ "others of the pool fill the processors", { 1, 0, 0, 5, 4, 0, 2, 1.8, 0, 30 * SEC, 1, 0 },
		CREW_STAY },
	{ "others are there, but wait", { 1, 0, 0, 5, 4, 0, 2, 0.5, 0, 30 * SEC, 3, 0 },
		CREW_HIRE },
	{ "a queue without any gets one", { 0, 0, 0, 5, 4, 0, 2, 2, 0, 30 * SEC, 8, 8 },
		CREW_HIRE },
	{ "as many as the pool may have", { 1, 0, 0, 5, 4, 0, 2, 0.1, 0, 30 * SEC, 2, 3 },
		CREW_STAY },
	{ "one fewer than that", { 1, 0, 0, 5, 4, 0, 2, 0.1, 0, 30 * SEC, 1, 3 }, CREW_HIRE },
	{ "too many idle, not for long", { 3, 0, 3, 0, 4, 1, 2, 0, 29 * SEC, 30 * SEC, 0, 0 },
		CREW_STAY },
	{ "too many idle, for long", { 3, 0, 3, 0, 4, 1, 2, 0, 30 * SEC, 30 * SEC, 0, 0 },
		CREW_RETIRE },
	{ "the spare one stays however long",
		{ 1, 0, 1, 0, 4, 1, 2, 0, 3000 * SEC, 30 * SEC, 0, 0 }, CREW_STAY },
	{ "nobody goes while work waits", { 3, 0, 2, 1, 4, 1, 2, 0, 60 * SEC, 30 * SEC, 0, 0 },
		CREW_STAY },
};

START_TEST(the_rules)
{
	enum crew_step got = crew_decide(&cases[_i].s);

	ck_assert_msg(got == cases[_i].step, "%s: %d", cases[_i].what, (int)got);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("crew");
	TCase *tc = unit_case(s, "crew");

	tcase_add_loop_test(tc, the_rules, 0, (int)(sizeof cases / sizeof *cases));
	return unit_run(s);
}
