daemon_libwqd_a_SOURCES += \
	%reldir%/engine.h \
	%reldir%/handler.h \
	%reldir%/map.h \
	%reldir%/ops.h \
	%reldir%/settings.h \
	%reldir%/timer.h \
	%reldir%/words.c %reldir%/words.h
