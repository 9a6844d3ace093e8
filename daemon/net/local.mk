daemon_libwqd_a_SOURCES += \
	%reldir%/conn.h \
	%reldir%/listen.h \
	%reldir%/loop.h
