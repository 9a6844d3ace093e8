daemon_libwqd_a_SOURCES += \
	%reldir%/frame.h \
	%reldir%/request.h \
	%reldir%/wire.h
