daemon_libwqd_a_SOURCES += \
	%reldir%/bind.c %reldir%/bind.h \
	%reldir%/budget.c \
	%reldir%/carry.c \
	%reldir%/conn.c %reldir%/conn.h \
	%reldir%/conn_int.h \
	%reldir%/listen.c %reldir%/listen.h \
	%reldir%/loop.c %reldir%/loop.h \
	%reldir%/peer.c %reldir%/peer.h \
	%reldir%/shake.c \
	%reldir%/stream.c %reldir%/stream.h \
	%reldir%/tls.c %reldir%/tls.h \
	%reldir%/watches.c %reldir%/watches.h
