daemon_libwqd_a_SOURCES += \
	%reldir%/access.c \
	%reldir%/check.c %reldir%/check.h \
	%reldir%/cross.c \
	%reldir%/conf.c %reldir%/conf.h \
	%reldir%/dump.c \
	%reldir%/hint.c \
	%reldir%/load.c %reldir%/load.h \
	%reldir%/load_int.h \
	%reldir%/option.c %reldir%/option.h \
	%reldir%/options.c \
	%reldir%/source.c %reldir%/source.h
