daemon_libwqd_a_SOURCES += \
	%reldir%/arena.c %reldir%/arena.h \
	%reldir%/decode.c %reldir%/decode.h \
	%reldir%/decode_care.c \
	%reldir%/stream.c \
	%reldir%/encode.c %reldir%/encode.h \
	%reldir%/frame.c %reldir%/frame.h \
	%reldir%/hot.c %reldir%/hot.h \
	%reldir%/list.c \
	%reldir%/request.h \
	%reldir%/wire.h
