# libwq, its pkg-config file, and wqctl.
#
# The objects are a convenience library, so that tests reach what is not exported.
noinst_LTLIBRARIES += %reldir%/libwqclient.la
%canon_reldir%_libwqclient_la_SOURCES = \
	%reldir%/address.c %reldir%/address.h \
	%reldir%/batch.c \
	%reldir%/blocking.c \
	%reldir%/care.c \
	%reldir%/coalesce.c %reldir%/coalesce.h \
	%reldir%/completion.c \
	%reldir%/conn.c \
	%reldir%/duration.c \
	%reldir%/handle.c %reldir%/handle.h \
	%reldir%/hot.c %reldir%/hot.h \
	%reldir%/look.c \
	%reldir%/mem.c %reldir%/mem.h \
	%reldir%/must.h \
	%reldir%/opts.c %reldir%/opts.h \
	%reldir%/pb.h \
	%reldir%/pending.c %reldir%/pending.h \
	%reldir%/queue.c \
	%reldir%/recv.c \
	%reldir%/reply.c \
	%reldir%/request.c \
	%reldir%/scratch.c %reldir%/scratch.h \
	%reldir%/secure.c \
	%reldir%/send.c \
	%reldir%/tls.c %reldir%/tls.h \
	%reldir%/watch.c \
	%reldir%/words.c \
	%reldir%/work.c \
	%reldir%/worker.c %reldir%/worker.h
%canon_reldir%_libwqclient_la_LIBADD = proto/libwqpb.la

# An incompatible change of wq.h: current + 1, age 0. A compatible one: current + 1, age + 1.
# Neither: revision + 1.
lib_LTLIBRARIES += %reldir%/libwq.la
%canon_reldir%_libwq_la_SOURCES =
%canon_reldir%_libwq_la_LIBADD = %reldir%/libwqclient.la $(PROTOBUF_C_LIBS) \
	$(OPENSSL_LIBS)
%canon_reldir%_libwq_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined \
	-Wl,--version-script=$(srcdir)/%reldir%/libwq.map
EXTRA_%canon_reldir%_libwq_la_DEPENDENCIES = %reldir%/libwq.map
EXTRA_DIST += %reldir%/libwq.map

pkgconfigdir = $(libdir)/pkgconfig
nodist_pkgconfig_DATA = %reldir%/libwq.pc

# wqctl: a library (for the tests) plus main. Of libwq it knows include/wq.h alone; mem.c it has
# for itself.
noinst_LIBRARIES += %reldir%/libctl.a
%canon_reldir%_libctl_a_SOURCES = \
	%reldir%/ctl.h \
	%reldir%/ctl_args.c \
	%reldir%/ctl_batch.c \
	%reldir%/ctl_child.c %reldir%/ctl_child.h \
	%reldir%/ctl_lines.c %reldir%/ctl_lines.h \
	%reldir%/ctl_process.c %reldir%/ctl_process.h \
	%reldir%/ctl_program.c \
	%reldir%/ctl_bench.c \
	%reldir%/ctl_care.c \
	%reldir%/ctl_import.c \
	%reldir%/ctl_completion.c \
	%reldir%/ctl_conn.c \
	%reldir%/ctl_daemon.c \
	%reldir%/ctl_field.c %reldir%/ctl_field.h \
	%reldir%/ctl_help.c \
	%reldir%/ctl_hist.c %reldir%/ctl_hist.h \
	%reldir%/ctl_job.c \
	%reldir%/ctl_look.c \
	%reldir%/ctl_main.c \
	%reldir%/ctl_mem.c %reldir%/ctl_mem.h \
	%reldir%/ctl_out.c %reldir%/ctl_out.h \
	%reldir%/ctl_queue.c \
	%reldir%/ctl_run.c \
	%reldir%/ctl_show.c %reldir%/ctl_show.h \
	%reldir%/ctl_sort.c %reldir%/ctl_sort.h \
	%reldir%/ctl_target.c %reldir%/ctl_target.h \
	%reldir%/ctl_text.c %reldir%/ctl_text.h \
	%reldir%/ctl_time.c %reldir%/ctl_time.h \
	%reldir%/ctl_update.c \
	%reldir%/ctl_verbs.c \
	%reldir%/ctl_watch.c \
	%reldir%/ctl_work.c %reldir%/ctl_work.h \
	%reldir%/ctl_work_lines.c \
	%reldir%/ctl_why.c \
	%reldir%/mem.c %reldir%/mem.h
# Named apart from libwq's.
%canon_reldir%_libctl_a_CFLAGS = $(AM_CFLAGS)

bin_PROGRAMS += %reldir%/wqctl
%canon_reldir%_wqctl_SOURCES = %reldir%/wqctl.c
%canon_reldir%_wqctl_LDADD = %reldir%/libctl.a %reldir%/libwq.la $(JANSSON_LIBS)

# It is found by the command's name.
bashcompletiondir = $(datadir)/bash-completion/completions
bashcompletion_DATA = %reldir%/completions/wqctl
%reldir%/completions/wqctl: %reldir%/wqctl.bash-completion
	$(AM_V_GEN)$(MKDIR_P) %reldir%/completions && cp $(srcdir)/%reldir%/wqctl.bash-completion $@
CLEANFILES += %reldir%/completions/wqctl
EXTRA_DIST += %reldir%/wqctl.bash-completion

# Puts what the command table says between the marks of the manual page and the completion.
.PHONY: update-wqctl
update-wqctl: %reldir%/wqctl
	for pair in dump-man:docs/man/wqctl.1 dump-completion:%reldir%/wqctl.bash-completion; do \
		%reldir%/wqctl $${pair%%:*} >update-wqctl.tmp && \
		sed -i -e '/begin generated/,/end generated/{/generated/!d}' \
			-e '/begin generated/r update-wqctl.tmp' $(srcdir)/$${pair#*:} || exit 1; \
	done
	rm -f update-wqctl.tmp
