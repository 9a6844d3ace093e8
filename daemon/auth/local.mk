daemon_libwqd_a_SOURCES += \
	%reldir%/tokens.c %reldir%/tokens.h
