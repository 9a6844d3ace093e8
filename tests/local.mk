# make check runs tests/run.py: every program of UNIT_TESTS (Check, TAP) and pytest over
# tests/system and tests/lint, and ends with one line "N passed, N failed".
TEST_LIBS = $(WQD_LIBS) $(CHECK_LIBS)
EXTRA_DIST += %reldir%/run.py

include tests/unit/local.mk
include tests/model/local.mk
include tests/fault/local.mk
include tests/system/local.mk
include tests/fuzz/local.mk
include tests/lint/local.mk
include tests/package/local.mk
include tests/bench/local.mk

check_PROGRAMS += $(UNIT_TESTS)

# All test programs, without running them.
.PHONY: check-programs
check-programs: $(BUILT_SOURCES)
	$(MAKE) $(AM_MAKEFLAGS) $(check_PROGRAMS)

check-local: all $(check_PROGRAMS) $(PB_PY)
	$(TEST_PYTHON) $(srcdir)/%reldir%/run.py --source $(srcdir) --build . $(TESTFLAGS) \
		$(UNIT_TESTS)

# The README's first command: the main job on a private daemon.
EXTRA_DIST += %reldir%/demo.sh
.PHONY: demo
demo: all
	@$(srcdir)/%reldir%/demo.sh .
