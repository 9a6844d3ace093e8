daemon_libwqd_a_SOURCES += \
	%reldir%/engine.h \
	%reldir%/handler.h \
	%reldir%/map.c %reldir%/map.h \
	%reldir%/names.c \
	%reldir%/ops.h \
	%reldir%/settings.c %reldir%/settings.h \
	%reldir%/timer.c %reldir%/timer.h \
	%reldir%/words.c %reldir%/words.h
