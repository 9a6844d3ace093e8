daemon_libwqd_a_SOURCES += \
	%reldir%/access.c %reldir%/access.h \
	%reldir%/account.c %reldir%/account.h \
	%reldir%/care.c \
	%reldir%/carry.c %reldir%/carry.h \
	%reldir%/commit.c %reldir%/commit.h \
	%reldir%/internal.h \
	%reldir%/jsonl.c %reldir%/jsonl.h \
	%reldir%/ops_care.c \
	%reldir%/ops_completion.c \
	%reldir%/ops_job.c \
	%reldir%/ops_look.c \
	%reldir%/ops_queue.c \
	%reldir%/ops_session.c \
	%reldir%/ops_worker.c \
	%reldir%/progress.c \
	%reldir%/reply.c \
	%reldir%/service.c %reldir%/service.h \
	%reldir%/session.c %reldir%/session.h \
	%reldir%/space.c \
	%reldir%/tickets.c %reldir%/tickets.h \
	%reldir%/watch.c
