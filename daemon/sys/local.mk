daemon_libwqd_a_SOURCES += \
	%reldir%/systemd.c %reldir%/systemd.h
