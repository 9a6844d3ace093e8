daemon_libwqd_a_SOURCES += \
	%reldir%/capture.c %reldir%/capture.h \
	%reldir%/child.c \
	%reldir%/environ.c %reldir%/environ.h \
	%reldir%/exec.c \
	%reldir%/group.c %reldir%/group.h \
	%reldir%/identity.c %reldir%/identity.h \
	%reldir%/launch.c %reldir%/launch.h \
	%reldir%/orphans.c \
	%reldir%/run.h \
	%reldir%/runner.c %reldir%/runner.h \
	%reldir%/spawn.c %reldir%/spawn.h
