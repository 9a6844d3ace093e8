# The daemon is a library (for the tests) plus main.c.
noinst_LIBRARIES += %reldir%/libwqd.a
%canon_reldir%_libwqd_a_SOURCES =
WQD_LIBS = daemon/libwqd.a proto/libwqpb.la $(LIBEVENT_LIBS) $(PROTOBUF_C_LIBS) $(SQLITE_LIBS) \
	$(CONFUSE_LIBS) $(OPENSSL_LIBS) -lm

include daemon/base/local.mk
include daemon/engine/local.mk
include daemon/store/local.mk
include daemon/run/local.mk
include daemon/wire/local.mk
include daemon/net/local.mk
include daemon/auth/local.mk
include daemon/conf/local.mk
include daemon/sys/local.mk
include daemon/service/local.mk

sbin_PROGRAMS += daemon/wqd
daemon_wqd_SOURCES = \
	daemon/main.c \
	daemon/build.c \
	daemon/carried.c \
	daemon/clients.c \
	daemon/crew.c daemon/crew.h daemon/crew_int.h daemon/crew_start.c \
	daemon/crew_carry.c \
	daemon/daemon.c daemon/daemon.h \
	daemon/offline.c daemon/offline.h \
	daemon/parts.h \
	daemon/pools.c \
	daemon/recover.c daemon/recover.h \
	daemon/secure.c \
	daemon/stop.c daemon/stop.h \
	daemon/upgrade.c daemon/upgrade.h \
	daemon/upgrade_check.c \
	daemon/upgrade_state.c daemon/upgrade_state.h
daemon_wqd_LDADD = $(WQD_LIBS)
