daemon_libwqd_a_SOURCES += \
	%reldir%/engine.h \
	%reldir%/handler.h \
	%reldir%/ops.h \
	%reldir%/settings.h \
	%reldir%/words.c \
	%reldir%/words.h
