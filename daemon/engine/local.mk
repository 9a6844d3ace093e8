daemon_libwqd_a_SOURCES += \
	%reldir%/ahead.c \
	%reldir%/answers.c \
	%reldir%/ask.c \
	%reldir%/cancel.c \
	%reldir%/carry.h %reldir%/carry_int.h \
	%reldir%/carry_in.c %reldir%/carry_out.c \
	%reldir%/completion.c %reldir%/completion.h \
	%reldir%/crew.c %reldir%/crew.h \
	%reldir%/dirty.c \
	%reldir%/dispatch.c \
	%reldir%/drain.c \
	%reldir%/engine.c %reldir%/engine.h \
	%reldir%/export.c %reldir%/export.h \
	%reldir%/flush.c \
	%reldir%/inside.c %reldir%/inside.h \
	%reldir%/front.c %reldir%/front.h \
	%reldir%/handler.h \
	%reldir%/history.c \
	%reldir%/hot.c \
	%reldir%/ids.c %reldir%/ids.h \
	%reldir%/index.c %reldir%/index.h \
	%reldir%/internal.h \
	%reldir%/job.c %reldir%/job.h \
	%reldir%/keys.c \
	%reldir%/lease.c %reldir%/lease.h \
	%reldir%/look.c \
	%reldir%/map.c %reldir%/map.h \
	%reldir%/names.c \
	%reldir%/ops.h \
	%reldir%/payload.c \
	%reldir%/queue.c \
	%reldir%/records.h \
	%reldir%/pool.c %reldir%/pool.h \
	%reldir%/pools.c %reldir%/pools.h \
	%reldir%/rate.c %reldir%/rate.h \
	%reldir%/restore.c \
	%reldir%/run.c \
	%reldir%/settings.c %reldir%/settings.h \
	%reldir%/tell.c \
	%reldir%/tenant.c %reldir%/tenant.h \
	%reldir%/timer.c %reldir%/timer.h \
	%reldir%/update.c \
	%reldir%/verify.c \
	%reldir%/wait.c \
	%reldir%/worker.c \
	%reldir%/wheel.c %reldir%/wheel.h \
	%reldir%/words.c %reldir%/words.h
