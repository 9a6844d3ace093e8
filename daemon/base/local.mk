daemon_libwqd_a_SOURCES += \
	%reldir%/alloc.c %reldir%/alloc.h \
	%reldir%/assert.c %reldir%/assert.h \
	%reldir%/buf.c %reldir%/buf.h \
	%reldir%/carry.c %reldir%/carry.h \
	%reldir%/clock.c %reldir%/clock.h \
	%reldir%/err.c %reldir%/err.h \
	%reldir%/grants.h \
	%reldir%/hist.c %reldir%/hist.h \
	%reldir%/list.h \
	%reldir%/log.c %reldir%/log.h \
	%reldir%/peer.h \
	%reldir%/reactor.h \
	%reldir%/siphash.c %reldir%/siphash.h \
	%reldir%/slab.c %reldir%/slab.h \
	%reldir%/str.h \
	%reldir%/text.c %reldir%/text.h
