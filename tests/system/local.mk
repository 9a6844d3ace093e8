# pytest over a real daemon; every test_*.py here is run by tests/run.py.
EXTRA_DIST += $(srcdir)/tests/system/*.py
