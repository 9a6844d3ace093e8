daemon_libwqd_a_SOURCES += \
	%reldir%/dir_lock.c %reldir%/dir_lock.h \
	%reldir%/feed.c %reldir%/feed.h \
	%reldir%/group.c \
	%reldir%/sqlite_backup.c \
	%reldir%/sqlite_care.c \
	%reldir%/sqlite_check.c \
	%reldir%/overlay.c %reldir%/overlay.h \
	%reldir%/payload_bytes.c %reldir%/payload_bytes.h \
	%reldir%/position.c %reldir%/position.h \
	%reldir%/sqlite_int.h \
	%reldir%/sqlite_jobs.c \
	%reldir%/sqlite_log.c \
	%reldir%/sqlite_look.c %reldir%/sqlite_look.h \
	%reldir%/sqlite_moves.c %reldir%/sqlite_moves.h \
	%reldir%/sqlite_old.c \
	%reldir%/sqlite_open.c \
	%reldir%/sqlite_put.c \
	%reldir%/sqlite_recover.c \
	%reldir%/sqlite_row.c %reldir%/sqlite_row.h \
	%reldir%/sqlite_schema.h \
	%reldir%/store.c %reldir%/store.h \
	%reldir%/store_error.c %reldir%/store_error.h \
	%reldir%/store_memory.c \
	%reldir%/store_sqlite.c \
	%reldir%/thread.c %reldir%/thread.h \
	%reldir%/uuid.c %reldir%/uuid.h \
	%reldir%/writer.c %reldir%/writer.h
