daemon_libwqd_a_SOURCES += \
	%reldir%/conf.h
