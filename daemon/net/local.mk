daemon_libwqd_a_SOURCES += \
	%reldir%/bind.c %reldir%/bind.h \
	%reldir%/conn.c %reldir%/conn.h \
	%reldir%/listen.c %reldir%/listen.h \
	%reldir%/loop.c %reldir%/loop.h \
	%reldir%/peer.c %reldir%/peer.h \
	%reldir%/watches.c %reldir%/watches.h
