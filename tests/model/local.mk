# The engine against a plain reference, and its semantics word by word: rig.c is the engine on a
# virtual clock, with the test as sessions, store and runners.
MODEL_RIG = %reldir%/rig.c %reldir%/rig.h %reldir%/saved.c %reldir%/saved.h

UNIT_TESTS += \
	tests/model/test_cells \
	tests/model/test_coalescing \
	tests/model/test_commands \
	tests/model/test_completions \
	tests/model/test_guarantees \
	tests/model/test_hot \
	tests/model/test_leases \
	tests/model/test_import \
	tests/model/test_model \
	tests/model/test_queues \
	tests/model/test_recovery \
	tests/model/test_restart \
	tests/model/test_results \
	tests/model/test_times

tests_model_test_cells_SOURCES = tests/model/test_cells.c $(MODEL_RIG)
tests_model_test_cells_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_cells_LDADD = $(TEST_LIBS)

tests_model_test_coalescing_SOURCES = tests/model/test_coalescing.c $(MODEL_RIG)
tests_model_test_coalescing_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_coalescing_LDADD = $(TEST_LIBS)

tests_model_test_commands_SOURCES = tests/model/test_commands.c $(MODEL_RIG)
tests_model_test_commands_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_commands_LDADD = $(TEST_LIBS)

tests_model_test_completions_SOURCES = tests/model/test_completions.c $(MODEL_RIG)
tests_model_test_completions_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_completions_LDADD = $(TEST_LIBS)

tests_model_test_guarantees_SOURCES = tests/model/test_guarantees.c $(MODEL_RIG)
tests_model_test_guarantees_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_guarantees_LDADD = $(TEST_LIBS)

tests_model_test_hot_SOURCES = tests/model/test_hot.c $(MODEL_RIG)
tests_model_test_hot_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_hot_LDADD = $(TEST_LIBS)

tests_model_test_leases_SOURCES = tests/model/test_leases.c $(MODEL_RIG)
tests_model_test_leases_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_leases_LDADD = $(TEST_LIBS)

tests_model_test_queues_SOURCES = tests/model/test_queues.c $(MODEL_RIG)
tests_model_test_queues_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_queues_LDADD = $(TEST_LIBS)

tests_model_test_restart_SOURCES = tests/model/test_restart.c $(MODEL_RIG)
tests_model_test_restart_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_restart_LDADD = $(TEST_LIBS)

tests_model_test_results_SOURCES = tests/model/test_results.c $(MODEL_RIG)
tests_model_test_results_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_results_LDADD = $(TEST_LIBS)

tests_model_test_times_SOURCES = tests/model/test_times.c $(MODEL_RIG)
tests_model_test_times_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_times_LDADD = $(TEST_LIBS)

tests_model_test_import_SOURCES = tests/model/test_import.c $(MODEL_RIG)
tests_model_test_import_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_import_LDADD = $(TEST_LIBS)

tests_model_test_model_SOURCES = tests/model/test_model.c \
	tests/model/compare.c tests/model/follow.c tests/model/play.c tests/model/play.h \
	tests/model/reference.c tests/model/ref_requests.c tests/model/ref_events.c \
	tests/model/reference.h tests/model/reference_int.h $(MODEL_RIG)
tests_model_test_model_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_model_LDADD = $(TEST_LIBS)
# The engine against a reference, cell by cell, guarantee by guarantee, and as the manual tells it.
UNIT_TESTS += tests/model/test_scenarios
tests_model_test_scenarios_SOURCES = %reldir%/test_scenarios.c %reldir%/scenario.c %reldir%/scenario.h \
	daemon/recover.c daemon/recover.h
tests_model_test_scenarios_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_scenarios_LDADD = $(TEST_LIBS)

tests_model_test_recovery_SOURCES = tests/model/test_recovery.c $(MODEL_RIG)
tests_model_test_recovery_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_recovery_LDADD = $(TEST_LIBS)

# Rates, limits by prefix, the spread after a restart.
UNIT_TESTS += tests/model/test_limits
tests_model_test_limits_SOURCES = %reldir%/test_limits.c $(MODEL_RIG)
tests_model_test_limits_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_limits_LDADD = $(TEST_LIBS)

# The pools of an engine on a simulated machine.
UNIT_TESTS += tests/model/test_pools
tests_model_test_pools_SOURCES = %reldir%/test_pools.c %reldir%/pool_mutable.h
tests_model_test_pools_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_model_test_pools_LDADD = $(TEST_LIBS)

# The same questions to a policy of which one constant is another.
UNIT_TESTS += tests/model/test_pool_mutants
tests_model_test_pool_mutants_SOURCES = %reldir%/test_pools.c \
	%reldir%/pool_mutable.c %reldir%/pool_mutable.h
tests_model_test_pool_mutants_CPPFLAGS = $(UNIT_CPPFLAGS) -DPOOL_MUTANTS
tests_model_test_pool_mutants_LDADD = $(TEST_LIBS)
