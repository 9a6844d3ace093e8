daemon_libwqd_a_SOURCES += \
	%reldir%/cgroup.c %reldir%/cgroup.h \
	%reldir%/cgroup_find.c %reldir%/cgroup_find.h \
	%reldir%/ladder.c %reldir%/ladder.h \
	%reldir%/pool_machine.c %reldir%/pool_machine.h \
	%reldir%/pool_side.c %reldir%/pool_side.h \
	%reldir%/probe.c %reldir%/probe.h \
	%reldir%/capture.c %reldir%/capture.h \
	%reldir%/carry.c \
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
