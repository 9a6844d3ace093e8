/* run/ladder: when it looks again, over processes that are really busy. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/ladder.h"
#include "unit/unit.h"

static pid_t
busy_child(void)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		for (;;)
			;
	return pid;
}

static void
end_child(struct rung *r)
{
	pid_t pid = r->probe.pid;

	probe_close(&r->probe);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* Others look at the same probe, a moment before the ladder does: its next look is still to come
 * no later than the run can be a hog. */
START_TEST(looks_of_others_do_not_make_it_look_less_often)
{
	const int64_t limit = NS_PER_S;
	struct rung r = { .usual_ns = limit / LADDER_HOG_TIMES }, *hog = NULL;
	struct ladder l;

	list_init(&r.link);
	probe_open(&r.probe, busy_child(), -1);
	ladder_init(&l);
	ladder_set(&l, 1, false);
	ladder_join(&l, &r, false, clock_boot_ns());
	for (int looks = 0; looks < 3; looks++) {
		int64_t before = r.probe.cpu_ns;

		while (r.probe.cpu_ns == before) {
			usleep(1000);
			probe_look(&r.probe, clock_boot_ns());
		}
		ck_assert_int_eq(ladder_look(&l, clock_boot_ns(), true, &hog), 0);
		ck_assert_int_eq(l.look_ns, limit - (r.probe.cpu_ns - r.prime_ns));
	}
	ladder_leave(&l, &r);
	end_child(&r);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("ladder");
	TCase *tc = unit_case(s, "looks");

	tcase_add_test(tc, looks_of_others_do_not_make_it_look_less_often);
	return unit_run(s);
}
