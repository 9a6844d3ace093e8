daemon_libwqd_a_SOURCES += \
	%reldir%/check.c %reldir%/check.h \
	%reldir%/conf.c %reldir%/conf.h \
	%reldir%/dump.c \
	%reldir%/hint.c \
	%reldir%/load.c %reldir%/load.h \
	%reldir%/option.c %reldir%/option.h \
	%reldir%/options.c \
	%reldir%/source.c %reldir%/source.h
