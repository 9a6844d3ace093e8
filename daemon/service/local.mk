daemon_libwqd_a_SOURCES += \
	%reldir%/service.h \
	%reldir%/session.h
