/*
 * store: the power fails at any moment. Of what was written and not synced, any
 * part may have arrived. All of every group that was told committed is there
 * afterwards; the one being committed is there whole or not at all; and what is
 * left never counts as damage.
 */
#include "fault/store_work.h"

/* How much of what was not synced arrived, per cent of the blocks. */
static const unsigned chances[] = { 0, 50, 100 };

START_TEST(while_groups_are_committed)
{
	struct sweep sw = { .op = FAULT_CHANGE, .forever = true };

	for (size_t i = 0; i < ARRAY_SIZE(chances); i++) {
		bool hit = true, failed;

		for (sw.nth = 1; hit; sw.nth += sw.nth < 20 ? 1 : 3) {
			int done;

			make_two();
			power_track();
			arm(&sw);
			done = work(&sw, 2, &failed);
			hit = fault_clear();
			power_loss((uint64_t)sw.nth, chances[i]);
			expect_stored(&sw, done, failed && done < GROUPS);
		}
	}
}
END_TEST

/* The main file is rewritten, then the log from its start. */
static bool
lose_in_checkpoint(const struct sweep *sw, unsigned chance)
{
	struct store *st;
	int rc = 0, done = 2;
	bool hit;

	make_two();
	st = store_open_ok();
	grow_log(st);
	power_track();
	arm(sw);
	(void)st->ops->checkpoint(st);
	for (; !rc && done < GROUPS; done += !rc)
		rc = try_group(st, done);
	st->ops->close(st);
	hit = fault_clear();
	power_loss((uint64_t)sw->nth, chance);
	expect_stored(sw, done, rc != 0);
	return hit;
}

START_TEST(while_the_log_is_brought_back)
{
	struct sweep sw = { .op = FAULT_CHANGE, .forever = true };

	for (size_t i = 0; i < ARRAY_SIZE(chances); i++)
		for (sw.nth = 1; lose_in_checkpoint(&sw, chances[i]); sw.nth += 149)
			;
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("store_power");
	TCase *tc = unit_case(s, "power");

	fault_install();
	tcase_add_checked_fixture(tc, learn_states, forget_states);
	tcase_add_checked_fixture(tc, dir_make_quick, dir_remove);
	tcase_add_test(tc, while_groups_are_committed);
	tcase_add_test(tc, while_the_log_is_brought_back);
	return unit_run(s);
}
