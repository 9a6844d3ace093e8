# Fuzz targets. Each is built with replay.c, which make check runs over its seeds, and, after
# configure --enable-fuzzers CC=clang, with libFuzzer: make fuzz FUZZ_SECONDS=300 searches with
# each for so long; what it learns stays in the folder fuzz-corpus of the build tree.
FUZZ_NAMES = client client_hot conf ctl frame hot reply session text tls tokens wire
FUZZ_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests
FUZZ_SECONDS = 60
EXTRA_DIST += %reldir%/seeds %reldir%/make_seeds.py

UNIT_TESTS += %reldir%/replay_client
%canon_reldir%_replay_client_SOURCES = %reldir%/fuzz_client.c %reldir%/replay.c
%canon_reldir%_replay_client_CPPFLAGS = $(FUZZ_CPPFLAGS) -DFUZZ_SEEDS='"$(abs_srcdir)/%reldir%/seeds/client"'
%canon_reldir%_replay_client_LDADD = client/libwqclient.la $(WQD_LIBS)

UNIT_TESTS += %reldir%/replay_client_hot
%canon_reldir%_replay_client_hot_SOURCES = %reldir%/fuzz_client_hot.c %reldir%/client_hot_check.h \
	%reldir%/replay.c
%canon_reldir%_replay_client_hot_CPPFLAGS = $(FUZZ_CPPFLAGS) -I$(srcdir) -DFUZZ_SEEDS='"$(abs_srcdir)/%reldir%/seeds/client_hot"'
%canon_reldir%_replay_client_hot_LDADD = client/libwqclient.la $(WQD_LIBS)

UNIT_TESTS += %reldir%/replay_conf
%canon_reldir%_replay_conf_SOURCES = %reldir%/fuzz_conf.c %reldir%/replay.c %reldir%/fuzz.h
%canon_reldir%_replay_conf_CPPFLAGS = $(FUZZ_CPPFLAGS) -DFUZZ_SEEDS='"$(abs_srcdir)/%reldir%/seeds/conf"'
%canon_reldir%_replay_conf_LDADD = $(WQD_LIBS)

UNIT_TESTS += %reldir%/replay_ctl
%canon_reldir%_replay_ctl_SOURCES = %reldir%/fuzz_ctl.c %reldir%/replay.c
%canon_reldir%_replay_ctl_CPPFLAGS = $(FUZZ_CPPFLAGS) -I$(srcdir)/client -DFUZZ_SEEDS='"$(abs_srcdir)/%reldir%/seeds/ctl"'
%canon_reldir%_replay_ctl_LDADD = client/libctl.a client/libwq.la $(WQD_LIBS) $(JANSSON_LIBS)

UNIT_TESTS += %reldir%/replay_frame
%canon_reldir%_replay_frame_SOURCES = %reldir%/fuzz_frame.c %reldir%/replay.c
%canon_reldir%_replay_frame_CPPFLAGS = $(FUZZ_CPPFLAGS) -DFUZZ_SEEDS='"$(abs_srcdir)/%reldir%/seeds/frame"'
%canon_reldir%_replay_frame_LDADD = $(WQD_LIBS)

UNIT_TESTS += %reldir%/replay_hot
%canon_reldir%_replay_hot_SOURCES = %reldir%/fuzz_hot.c %reldir%/hot_check.h %reldir%/replay.c
%canon_reldir%_replay_hot_CPPFLAGS = $(FUZZ_CPPFLAGS) -DFUZZ_SEEDS='"$(abs_srcdir)/%reldir%/seeds/hot"'
%canon_reldir%_replay_hot_LDADD = $(WQD_LIBS)

UNIT_TESTS += %reldir%/replay_reply
%canon_reldir%_replay_reply_SOURCES = %reldir%/fuzz_reply.c %reldir%/replay.c
%canon_reldir%_replay_reply_CPPFLAGS = $(FUZZ_CPPFLAGS) -DFUZZ_SEEDS='"$(abs_srcdir)/%reldir%/seeds/reply"'
%canon_reldir%_replay_reply_LDADD = $(WQD_LIBS)

UNIT_TESTS += %reldir%/replay_session
%canon_reldir%_replay_session_SOURCES = %reldir%/fuzz_session.c %reldir%/replay.c tests/model/saved.c
%canon_reldir%_replay_session_CPPFLAGS = $(FUZZ_CPPFLAGS) -DFUZZ_SEEDS='"$(abs_srcdir)/%reldir%/seeds/session"'
%canon_reldir%_replay_session_LDADD = $(WQD_LIBS)

UNIT_TESTS += %reldir%/replay_text
%canon_reldir%_replay_text_SOURCES = %reldir%/fuzz_text.c %reldir%/replay.c
%canon_reldir%_replay_text_CPPFLAGS = $(FUZZ_CPPFLAGS) -DFUZZ_SEEDS='"$(abs_srcdir)/%reldir%/seeds/text"'
%canon_reldir%_replay_text_LDADD = client/libwqclient.la $(WQD_LIBS)

UNIT_TESTS += %reldir%/replay_tls
%canon_reldir%_replay_tls_SOURCES = %reldir%/fuzz_tls.c %reldir%/replay.c
%canon_reldir%_replay_tls_CPPFLAGS = $(FUZZ_CPPFLAGS) -DFUZZ_SEEDS='"$(abs_srcdir)/%reldir%/seeds/tls"'
%canon_reldir%_replay_tls_LDADD = $(WQD_LIBS)

UNIT_TESTS += %reldir%/replay_tokens
%canon_reldir%_replay_tokens_SOURCES = %reldir%/fuzz_tokens.c %reldir%/replay.c
%canon_reldir%_replay_tokens_CPPFLAGS = $(FUZZ_CPPFLAGS) -DFUZZ_SEEDS='"$(abs_srcdir)/%reldir%/seeds/tokens"'
%canon_reldir%_replay_tokens_LDADD = $(WQD_LIBS)

UNIT_TESTS += %reldir%/replay_wire
%canon_reldir%_replay_wire_SOURCES = %reldir%/fuzz_wire.c %reldir%/replay.c
%canon_reldir%_replay_wire_CPPFLAGS = $(FUZZ_CPPFLAGS) -DFUZZ_SEEDS='"$(abs_srcdir)/%reldir%/seeds/wire"'
%canon_reldir%_replay_wire_LDADD = $(WQD_LIBS)

.PHONY: fuzz
if FUZZERS
FUZZERS_BUILT = %reldir%/fuzz_client %reldir%/fuzz_client_hot %reldir%/fuzz_conf %reldir%/fuzz_ctl %reldir%/fuzz_frame %reldir%/fuzz_hot \
	%reldir%/fuzz_reply %reldir%/fuzz_session %reldir%/fuzz_text %reldir%/fuzz_tls %reldir%/fuzz_tokens \
	%reldir%/fuzz_wire
noinst_PROGRAMS += $(FUZZERS_BUILT)
LIBFUZZER = $(AM_LDFLAGS) -fsanitize=fuzzer

%canon_reldir%_fuzz_client_SOURCES = %reldir%/fuzz_client.c
%canon_reldir%_fuzz_client_CPPFLAGS = $(FUZZ_CPPFLAGS)
%canon_reldir%_fuzz_client_LDFLAGS = $(LIBFUZZER)
%canon_reldir%_fuzz_client_LDADD = client/libwqclient.la $(WQD_LIBS)

%canon_reldir%_fuzz_client_hot_SOURCES = %reldir%/fuzz_client_hot.c
%canon_reldir%_fuzz_client_hot_CPPFLAGS = $(FUZZ_CPPFLAGS) -I$(srcdir)
%canon_reldir%_fuzz_client_hot_LDFLAGS = $(LIBFUZZER)
%canon_reldir%_fuzz_client_hot_LDADD = client/libwqclient.la $(WQD_LIBS)

%canon_reldir%_fuzz_ctl_SOURCES = %reldir%/fuzz_ctl.c
%canon_reldir%_fuzz_ctl_CPPFLAGS = $(FUZZ_CPPFLAGS) -I$(srcdir)/client
%canon_reldir%_fuzz_ctl_LDFLAGS = $(LIBFUZZER)
%canon_reldir%_fuzz_ctl_LDADD = client/libctl.a client/libwq.la $(WQD_LIBS) $(JANSSON_LIBS)

%canon_reldir%_fuzz_conf_SOURCES = %reldir%/fuzz_conf.c
%canon_reldir%_fuzz_conf_CPPFLAGS = $(FUZZ_CPPFLAGS)
%canon_reldir%_fuzz_conf_LDFLAGS = $(LIBFUZZER)
%canon_reldir%_fuzz_conf_LDADD = $(WQD_LIBS)

%canon_reldir%_fuzz_frame_SOURCES = %reldir%/fuzz_frame.c
%canon_reldir%_fuzz_frame_CPPFLAGS = $(FUZZ_CPPFLAGS)
%canon_reldir%_fuzz_frame_LDFLAGS = $(LIBFUZZER)
%canon_reldir%_fuzz_frame_LDADD = $(WQD_LIBS)

%canon_reldir%_fuzz_hot_SOURCES = %reldir%/fuzz_hot.c
%canon_reldir%_fuzz_hot_CPPFLAGS = $(FUZZ_CPPFLAGS)
%canon_reldir%_fuzz_hot_LDFLAGS = $(LIBFUZZER)
%canon_reldir%_fuzz_hot_LDADD = $(WQD_LIBS)

%canon_reldir%_fuzz_reply_SOURCES = %reldir%/fuzz_reply.c
%canon_reldir%_fuzz_reply_CPPFLAGS = $(FUZZ_CPPFLAGS)
%canon_reldir%_fuzz_reply_LDFLAGS = $(LIBFUZZER)
%canon_reldir%_fuzz_reply_LDADD = $(WQD_LIBS)

%canon_reldir%_fuzz_session_SOURCES = %reldir%/fuzz_session.c tests/model/saved.c
%canon_reldir%_fuzz_session_CPPFLAGS = $(FUZZ_CPPFLAGS)
%canon_reldir%_fuzz_session_LDFLAGS = $(LIBFUZZER)
%canon_reldir%_fuzz_session_LDADD = $(WQD_LIBS)

%canon_reldir%_fuzz_text_SOURCES = %reldir%/fuzz_text.c
%canon_reldir%_fuzz_text_CPPFLAGS = $(FUZZ_CPPFLAGS)
%canon_reldir%_fuzz_text_LDFLAGS = $(LIBFUZZER)
%canon_reldir%_fuzz_text_LDADD = client/libwqclient.la $(WQD_LIBS)

%canon_reldir%_fuzz_tls_SOURCES = %reldir%/fuzz_tls.c
%canon_reldir%_fuzz_tls_CPPFLAGS = $(FUZZ_CPPFLAGS)
%canon_reldir%_fuzz_tls_LDFLAGS = $(LIBFUZZER)
%canon_reldir%_fuzz_tls_LDADD = $(WQD_LIBS)

%canon_reldir%_fuzz_tokens_SOURCES = %reldir%/fuzz_tokens.c
%canon_reldir%_fuzz_tokens_CPPFLAGS = $(FUZZ_CPPFLAGS)
%canon_reldir%_fuzz_tokens_LDFLAGS = $(LIBFUZZER)
%canon_reldir%_fuzz_tokens_LDADD = $(WQD_LIBS)

%canon_reldir%_fuzz_wire_SOURCES = %reldir%/fuzz_wire.c
%canon_reldir%_fuzz_wire_CPPFLAGS = $(FUZZ_CPPFLAGS)
%canon_reldir%_fuzz_wire_LDFLAGS = $(LIBFUZZER)
%canon_reldir%_fuzz_wire_LDADD = $(WQD_LIBS)

fuzz: $(FUZZERS_BUILT)
	for name in $(FUZZ_NAMES); do \
		mkdir -p fuzz-corpus/$$name && \
		%reldir%/fuzz_$$name -max_total_time=$(FUZZ_SECONDS) -timeout=5 -rss_limit_mb=2048 \
			-artifact_prefix=fuzz-corpus/$$name- fuzz-corpus/$$name \
			$(srcdir)/%reldir%/seeds/$$name || exit 1; \
	done
endif
