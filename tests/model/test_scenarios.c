/* Every scenario of docs/semantics.md is a test: WQ_SOURCE (or "." ) names the tree. */
#include <stdio.h>
#include <string.h>

#include "model/scenario.h"
#include "unit/unit.h"

static struct scenario *all;
static size_t n_all;

START_TEST(scenario_goes_as_written)
{
	char *why = scenario_run(&all[_i], false);

	if (why)
		ck_abort_msg("docs/semantics.md, scenario %s, %s", all[_i].name, why);
}
END_TEST

/* A flush of a queue that goes on over an upgrade waits for more: docs/adr/0013. */
#define WIDER "g9_queue_flush_is_a_snapshot"

/* Whatever is under way goes on over an upgrade: before each step of the scenario there is one. (It
 * commits, so what a crash loses is another thing then.) */
START_TEST(scenario_goes_the_same_over_upgrades)
{
	char *why = NULL;

	if (!strstr(all[_i].text, " crash") && strcmp(all[_i].name, WIDER) != 0)
		why = scenario_run(&all[_i], true);
	if (why)
		ck_abort_msg(
			"docs/semantics.md, scenario %s, with upgrades, %s", all[_i].name, why);
}
END_TEST

int
main(void)
{
	const char *top = getenv("WQ_SOURCE");
	Suite *s = suite_create("scenarios");
	char path[4096];
	int r;

	snprintf(path, sizeof path, "%s/docs/semantics.md", top ? top : ".");
	n_all = scenarios_load(path, &all);
	for (size_t i = 0; i < n_all; i++) {
		TCase *tc = unit_case(s, all[i].name);

		tcase_add_loop_test(tc, scenario_goes_as_written, (int)i, (int)i + 1);
		tcase_add_loop_test(tc, scenario_goes_the_same_over_upgrades, (int)i, (int)i + 1);
	}
	r = n_all > 0 ? unit_run(s) : EXIT_FAILURE;
	scenarios_free(all, n_all);
	return r;
}
