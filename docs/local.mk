# Man pages and documents.
wqdexamplesdir = $(docdir)/examples
dist_wqdexamples_DATA = %reldir%/examples/wqd.conf %reldir%/examples/wqd-strict.conf
dist_man_MANS += %reldir%/man/wqctl.1
