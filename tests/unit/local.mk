# One program a module: tests/unit/test_MODULE.c, built on Check.
UNIT_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) -I$(srcdir)/tests
EXTRA_DIST += tests/unit/random.h tests/unit/remove_tree.h tests/unit/store_case.h tests/unit/unit.h

UNIT_TESTS += tests/unit/test_crew
tests_unit_test_crew_SOURCES = tests/unit/test_crew.c
tests_unit_test_crew_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_crew_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_base
tests_unit_test_base_SOURCES = tests/unit/test_base.c
tests_unit_test_base_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_base_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_carry
tests_unit_test_carry_SOURCES = tests/unit/test_carry.c daemon/upgrade_state.c
tests_unit_test_carry_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_carry_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_timer
tests_unit_test_timer_SOURCES = tests/unit/test_timer.c
tests_unit_test_timer_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_timer_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_slab
tests_unit_test_slab_SOURCES = tests/unit/test_slab.c
tests_unit_test_slab_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_slab_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_index
tests_unit_test_index_SOURCES = tests/unit/test_index.c
tests_unit_test_index_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_index_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_wheel
tests_unit_test_wheel_SOURCES = tests/unit/test_wheel.c
tests_unit_test_wheel_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_wheel_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_map
tests_unit_test_map_SOURCES = tests/unit/test_map.c
tests_unit_test_map_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_map_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_text
tests_unit_test_text_SOURCES = tests/unit/test_text.c
tests_unit_test_text_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_text_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_settings
tests_unit_test_settings_SOURCES = tests/unit/test_settings.c
tests_unit_test_settings_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_settings_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_conf
tests_unit_test_conf_SOURCES = tests/unit/test_conf.c
tests_unit_test_conf_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_conf_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_frame
tests_unit_test_frame_SOURCES = tests/unit/test_frame.c
tests_unit_test_frame_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_frame_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_hot
tests_unit_test_hot_SOURCES = tests/unit/test_hot.c
tests_unit_test_hot_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_hot_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_wire
tests_unit_test_wire_SOURCES = tests/unit/test_wire.c
tests_unit_test_wire_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_wire_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_systemd
tests_unit_test_systemd_SOURCES = tests/unit/test_systemd.c
tests_unit_test_systemd_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_systemd_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_store
tests_unit_test_store_SOURCES = tests/unit/test_store.c
tests_unit_test_store_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_ctl
tests_unit_test_ctl_SOURCES = tests/unit/test_ctl.c
tests_unit_test_ctl_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(srcdir)/client
tests_unit_test_ctl_LDADD = client/libctl.a client/libwq.la $(TEST_LIBS) $(JANSSON_LIBS)

EXTRA_DIST += tests/unit/exec_bench.h tests/unit/poll_reactor.h
UNIT_TESTS += tests/unit/test_exec
tests_unit_test_exec_SOURCES = tests/unit/test_exec.c
tests_unit_test_exec_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_exec_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_spawn
tests_unit_test_spawn_SOURCES = tests/unit/test_spawn.c
tests_unit_test_spawn_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_spawn_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_store_care
tests_unit_test_store_care_SOURCES = tests/unit/test_store_care.c
tests_unit_test_store_care_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_care_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_cgroup
tests_unit_test_cgroup_SOURCES = tests/unit/test_cgroup.c
tests_unit_test_cgroup_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_cgroup_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_group
tests_unit_test_group_SOURCES = tests/unit/test_group.c
tests_unit_test_group_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_group_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_store_refusals
tests_unit_test_store_refusals_SOURCES = tests/unit/test_store_refusals.c
tests_unit_test_store_refusals_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_store_refusals_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_writer
tests_unit_test_writer_SOURCES = tests/unit/test_writer.c
tests_unit_test_writer_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_writer_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_net
tests_unit_test_net_SOURCES = tests/unit/test_net.c
tests_unit_test_net_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_net_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_engine
tests_unit_test_engine_SOURCES = tests/unit/test_engine.c
tests_unit_test_engine_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_engine_LDADD = $(TEST_LIBS)

include tests/unit/libwq.mk

UNIT_TESTS += tests/unit/test_session
tests_unit_test_session_SOURCES = tests/unit/test_session.c \
	tests/unit/scripted_engine.c tests/unit/scripted_engine.h
tests_unit_test_session_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_session_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_service
tests_unit_test_service_SOURCES = tests/unit/test_service.c
tests_unit_test_service_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_service_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_feed
tests_unit_test_feed_SOURCES = tests/unit/test_feed.c
tests_unit_test_feed_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_feed_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_moves
tests_unit_test_moves_SOURCES = tests/unit/test_moves.c
tests_unit_test_moves_CPPFLAGS = $(UNIT_CPPFLAGS) $(SCHEMA_CPPFLAGS)
tests_unit_test_moves_LDADD = $(TEST_LIBS)

UNIT_TESTS += tests/unit/test_pool
tests_unit_test_pool_SOURCES = tests/unit/test_pool.c
tests_unit_test_pool_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_pool_LDADD = $(TEST_LIBS)
UNIT_TESTS += tests/unit/test_ladder
tests_unit_test_ladder_SOURCES = tests/unit/test_ladder.c
tests_unit_test_ladder_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_ladder_LDADD = $(TEST_LIBS)
EXTRA_DIST += tests/unit/certs.h
UNIT_TESTS += tests/unit/test_tls
tests_unit_test_tls_SOURCES = tests/unit/test_tls.c
tests_unit_test_tls_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_tls_LDADD = $(TEST_LIBS)
