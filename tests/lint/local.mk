# Lints. Those named test_*.py are part of make check; `make lint` adds the slow analyzers.
EXTRA_DIST += .clang-tidy %reldir%/source.py %reldir%/lint_analyzers.py %reldir%/test_docs.py \
	%reldir%/test_format.py %reldir%/test_guarantees.py %reldir%/test_headers.py %reldir%/test_layers.py %reldir%/test_protocol.py \
	%reldir%/test_symbols.py

.PHONY: lint
lint: export LINT_FLAGS = $(DEFS) $(AM_CPPFLAGS) $(CPPFLAGS)
lint: all
	$(TEST_PYTHON) $(srcdir)/tests/run.py \
		--source $(srcdir) --build . --pytest tests/lint --slow $(TESTFLAGS)
