# The generated code goes into the build tree; the tarball brings it along, so that building
# from a tarball needs no generator. Its objects are built without our warnings.
PB_C = %reldir%/wq.pb-c.c %reldir%/wq.pb-c.h
PB_PY = %reldir%/wq_pb2.py
# Installed for clients in other languages.
dist_pkgdata_DATA = %reldir%/wq.proto
EXTRA_DIST += $(PB_C) $(PB_PY)
BUILT_SOURCES += $(PB_C)
MAINTAINERCLEANFILES += $(PB_C) $(PB_PY)

$(PB_C) &: %reldir%/wq.proto
	$(AM_V_GEN)$(MKDIR_P) %reldir% && $(PROTOC_C) --proto_path=$(srcdir)/%reldir% \
		--c_out=%reldir% $(srcdir)/%reldir%/wq.proto
$(PB_PY): %reldir%/wq.proto
	$(AM_V_GEN)$(MKDIR_P) %reldir% && $(PROTOC) --proto_path=$(srcdir)/%reldir% \
		--python_out=%reldir% $(srcdir)/%reldir%/wq.proto

noinst_LTLIBRARIES += %reldir%/libwqpb.la
nodist_%canon_reldir%_libwqpb_la_SOURCES = $(PB_C)
%canon_reldir%_libwqpb_la_CFLAGS = -std=gnu17 -w $(WQ_HARDENING) $(WQ_SANITIZE)
