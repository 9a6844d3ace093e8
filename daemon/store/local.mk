daemon_libwqd_a_SOURCES += \
	%reldir%/store.h \
	%reldir%/writer.h
