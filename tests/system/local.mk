# pytest over a real daemon; every test_*.py here is run by tests/run.py. The folder is
# distributed whole.
EXTRA_DIST += %reldir%
