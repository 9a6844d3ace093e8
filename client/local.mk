# libwq, its pkg-config file, and wqctl.

# wqctl: a library (for the tests) plus main. Of ours it uses base/alloc and base/hist, of the
# daemon nothing but what include/wq.h says.
noinst_LIBRARIES += %reldir%/libctl.a
%canon_reldir%_libctl_a_SOURCES = \
	%reldir%/ctl.h \
	%reldir%/ctl_args.c \
	%reldir%/ctl_batch.c \
	%reldir%/ctl_bench.c \
	%reldir%/ctl_conn.c \
	%reldir%/ctl_daemon.c \
	%reldir%/ctl_help.c \
	%reldir%/ctl_job.c \
	%reldir%/ctl_look.c \
	%reldir%/ctl_main.c \
	%reldir%/ctl_out.c %reldir%/ctl_out.h \
	%reldir%/ctl_queue.c \
	%reldir%/ctl_show.c %reldir%/ctl_show.h \
	%reldir%/ctl_sort.c %reldir%/ctl_sort.h \
	%reldir%/ctl_target.c %reldir%/ctl_target.h \
	%reldir%/ctl_text.c %reldir%/ctl_text.h \
	%reldir%/ctl_time.c %reldir%/ctl_time.h \
	%reldir%/ctl_update.c \
	%reldir%/ctl_verbs.c \
	%reldir%/ctl_why.c

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
