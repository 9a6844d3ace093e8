daemon_libwqd_a_SOURCES += \
	%reldir%/runner.h
