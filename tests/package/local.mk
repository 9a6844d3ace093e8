# What a distribution does with the tarball; `make check-package`, a step of .ci/run. Each test
# builds everything, so it is not part of make check.
EXTRA_DIST += %reldir%/tarball.py %reldir%/test_debian.py %reldir%/test_package.py

.PHONY: check-package
check-package: dist
	$(TEST_PYTHON) $(srcdir)/tests/run.py --source $(srcdir) --build . --pytest %reldir% $(TESTFLAGS)
