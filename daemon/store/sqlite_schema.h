/*
 * The tables of schema 4 and the statements on them, as text.
 *
 *   meta      one row: instance, boot and wall time, owner
 *   queue     id, name; settings beside it, one row a setting, as text
 *   job       what does not move: number, queue, key, payloads. Written when it is made
 *             and when a payload changes
 *   position  where jobs stand, sixteen of neighbouring numbers a row (position.h)
 *   moved     the log of moves: what groups changed of positions, a row a group, and
 *             newer than the rows of `position` (sqlite_log.c); its last row has the
 *             time of the last commit
 *   run       finished runs, in the order they ended
 *   answer    replies to requests with an idempotency id
 *   completion  those named completions that are stored
 *
 * Schemas 1 to 3 had a row of `job` with all of its position, and its payload in a
 * table of their own: sqlite_old.c reads them, and makes them schema 4. From 3 on an
 * answer's status has what was asked above its 16 bits (0: unknown).
 *
 * A field list gives the columns of a table, their order and the range that a
 * value must have when it is read back; the names are those of the struct.
 * Integers of 64 bits without sign are stored as the signed ones of equal bits.
 */
#ifndef WQD_STORE_SQLITE_SCHEMA_H
#define WQD_STORE_SQLITE_SCHEMA_H

#define SCHEMA_APPLICATION_ID 0x57514431 /* "WQD1" */

/* clang-format off */
/* struct job_saved: field, least, greatest. In no column of their own: see position.h. */
#define JOB_FIELDS(X) \
	X(pending,            JOB_IDLE, JOB_READY) \
	X(running,            0, 1) \
	X(absolute,           0, 1) \
	X(boot,               0, INT64_MAX) \
	X(due_boot_ns,        INT64_MIN, INT64_MAX) \
	X(due_wall_ns,        INT64_MIN, INT64_MAX) \
	X(delay_ns,           -1, INT64_MAX) \
	X(created_wall_ns,    INT64_MIN, INT64_MAX) \
	X(slack_ns,           INT64_MIN, INT64_MAX) \
	X(max_wait_ns,        INT64_MIN, INT64_MAX) \
	X(seq,                INT64_MIN, INT64_MAX) \
	X(generation,         INT64_MIN, INT64_MAX) \
	X(attempt,            0, UINT32_MAX) \
	X(interrupts,         0, UINT32_MAX) \
	X(retry,              0, 1) \
	X(coalesced,          0, UINT32_MAX) \
	X(disable_depth,      0, UINT32_MAX) \
	X(dead,               0, 1) \
	X(level,              LEVEL_DEFAULT, LEVEL_MEMORY) \
	X(run_coalesced,      0, UINT32_MAX) \
	X(run_due_wall_ns,    INT64_MIN, INT64_MAX) \
	X(run_started_wall_ns, INT64_MIN, INT64_MAX)

/* struct run_record; run_seq, queue, key and output come before, the sum behind. */
#define RUN_FIELDS(X) \
	X(generation,      INT64_MIN, INT64_MAX) \
	X(attempt,         0, UINT32_MAX) \
	X(outcome,         RUN_NONE, RUN_TIMEOUT) \
	X(final,           0, 1) \
	X(exit_code,       INT32_MIN, INT32_MAX) \
	X(signal,          INT32_MIN, INT32_MAX) \
	X(error,           INT32_MIN, INT32_MAX) \
	X(due_wall_ns,     INT64_MIN, INT64_MAX) \
	X(started_wall_ns, INT64_MIN, INT64_MAX) \
	X(ended_wall_ns,   INT64_MIN, INT64_MAX) \
	X(coalesced,       0, UINT32_MAX) \
	X(truncated,       0, 1)

/* struct job_reply inside an answer; id, queue, key and until come before, the sum behind. */
#define ANSWER_FIELDS(X) \
	X(status,               0, INT32_MAX) \
	X(state_before,         JOB_IDLE, JOB_RUNNING) \
	X(pending_before,       0, 1) \
	X(has_deadline,         0, 1) \
	X(has_old_deadline,     0, 1) \
	X(deadline_wall_ns,     INT64_MIN, INT64_MAX) \
	X(old_deadline_wall_ns, INT64_MIN, INT64_MAX) \
	X(generation,           INT64_MIN, INT64_MAX) \
	X(coalesced,            0, UINT32_MAX) \
	X(disable_depth,        0, UINT32_MAX)

/* struct completion_saved; the name comes before, the sum behind. */
#define COMPLETION_FIELDS(X) \
	X(done,  0, UINT32_MAX) \
	X(open,  0, 1) \
	X(level, LEVEL_SYNC, LEVEL_ASYNC)

#define AS_DEFINITION(f, ...) #f " INTEGER NOT NULL, "
#define AS_COLUMN(f, ...)     #f ", "
#define AS_PARAMETER(f, ...)  "?, "

/* `name`: of the table of jobs. Its columns are without constraints, because SQLite would look for
 * these in every row at every start, which takes three times what looking at the pages does; the
 * sums of the rows say more. (Databases made before have them.) */
#define SCHEMA_JOBS(name) \
	"CREATE TABLE " name " (" \
	" id INTEGER PRIMARY KEY, queue INTEGER, key BLOB, payload BLOB, run_payload BLOB," \
	" sum INTEGER);" \
	"CREATE TABLE position (" \
	" block INTEGER PRIMARY KEY, positions BLOB NOT NULL, sum INTEGER NOT NULL) STRICT;"

#define SCHEMA_MOVED \
	"CREATE TABLE moved (" \
	" id INTEGER PRIMARY KEY, wall_ns INTEGER NOT NULL, moves BLOB NOT NULL," \
	" sum INTEGER NOT NULL) STRICT;"

#define SCHEMA_TABLES \
	"CREATE TABLE meta (" \
	" id INTEGER PRIMARY KEY CHECK (id = 1)," \
	" instance TEXT NOT NULL, boot TEXT NOT NULL, wall_ns INTEGER NOT NULL," \
	" token INTEGER NOT NULL, owner TEXT NOT NULL, sum INTEGER NOT NULL) STRICT;" \
	"CREATE TABLE queue (" \
	" id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, paused INTEGER NOT NULL," \
	" sum INTEGER NOT NULL) STRICT;" \
	"CREATE TABLE setting (" \
	" queue INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL," \
	" sum INTEGER NOT NULL, PRIMARY KEY (queue, name)) STRICT, WITHOUT ROWID;" \
	SCHEMA_JOBS("job") \
	SCHEMA_MOVED SCHEMA_COMPLETION \
	"CREATE TABLE run (" \
	" seq INTEGER PRIMARY KEY, queue INTEGER NOT NULL, key BLOB NOT NULL," \
	" output BLOB NOT NULL, " RUN_FIELDS(AS_DEFINITION) \
	" sum INTEGER NOT NULL) STRICT;" \
	"CREATE TABLE answer (" \
	" id BLOB PRIMARY KEY, queue BLOB NOT NULL, key BLOB NOT NULL," \
	" until_wall_ns INTEGER NOT NULL, " ANSWER_FIELDS(AS_DEFINITION) \
	" sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;"

/* Not among them: databases of schema 1 were made without. It is made before the first group. */
#define SCHEMA_COMPLETION \
	"CREATE TABLE IF NOT EXISTS completion (" \
	" name BLOB PRIMARY KEY, " COMPLETION_FIELDS(AS_DEFINITION) \
	" sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;"

/* Prepared once, at open. */
#define STATEMENT_TABLE(X) \
	X(Q_BEGIN,           "BEGIN IMMEDIATE") \
	X(Q_COMMIT,          "COMMIT") \
	X(Q_ROLLBACK,        "ROLLBACK") \
	X(Q_META_GET,        "SELECT instance, boot, wall_ns, token, owner, sum FROM meta WHERE id = 1") \
	X(Q_META_PUT,        "UPDATE meta SET instance = ?, boot = ?, wall_ns = ?, token = ?, owner = ?," \
	                     " sum = ? WHERE id = 1 AND token = ?") \
	X(Q_META_TOKEN,      "SELECT token FROM meta WHERE id = 1") \
	X(Q_QUEUE_FIND,      "SELECT id FROM queue WHERE name = ?") \
	X(Q_QUEUE_PUT,       "INSERT INTO queue (name, paused, sum) VALUES (?, ?, ?)" \
	                     " ON CONFLICT (name) DO UPDATE SET paused = excluded.paused, sum = excluded.sum") \
	X(Q_QUEUE_REMOVE,    "DELETE FROM queue WHERE id = ?") \
	X(Q_SETTING_PUT,     "INSERT OR REPLACE INTO setting (queue, name, value, sum) VALUES (?, ?, ?, ?)") \
	X(Q_SETTINGS_REMOVE, "DELETE FROM setting WHERE queue = ?") \
	X(Q_RUN_ADD,         "INSERT OR REPLACE INTO run (seq, queue, key, output, " \
	                     RUN_FIELDS(AS_COLUMN) "sum) VALUES (?, ?, ?, ?, " RUN_FIELDS(AS_PARAMETER) "?)") \
	X(Q_RUN_REMOVE,      "DELETE FROM run WHERE seq = ?") \
	X(Q_ANSWER_PUT,      "INSERT OR REPLACE INTO answer (id, queue, key, until_wall_ns, " \
	                     ANSWER_FIELDS(AS_COLUMN) "sum) VALUES (?, ?, ?, ?, " \
	                     ANSWER_FIELDS(AS_PARAMETER) "?)") \
	X(Q_ANSWER_REMOVE,   "DELETE FROM answer WHERE id = ?") \
	X(Q_COUNT_JOBS,      "SELECT count(*) FROM job") \
	X(Q_COUNT_OTHERS,    "SELECT (SELECT count(*) FROM queue) + (SELECT count(*) FROM run)" \
	                     " + (SELECT count(*) FROM answer)") \
	X(Q_QUEUES,          "SELECT id, name, paused, sum FROM queue ORDER BY id") \
	X(Q_SETTINGS,        "SELECT name, value, sum FROM setting WHERE queue = ?") \
	X(Q_RUNS,            "SELECT seq, queue, key, output, " RUN_FIELDS(AS_COLUMN) "r.sum, q.name" \
	                     " FROM run r LEFT JOIN queue q ON q.id = r.queue ORDER BY r.seq") \
	X(Q_ANSWERS,         "SELECT id, queue, key, until_wall_ns, " ANSWER_FIELDS(AS_COLUMN) "sum" \
	                     " FROM answer ORDER BY until_wall_ns, id") \
	/* Not in schema 1. */ \
	X(Q_COMPLETION_PUT,  "INSERT OR REPLACE INTO completion (name, " COMPLETION_FIELDS(AS_COLUMN) "sum)" \
	                     " VALUES (?, " COMPLETION_FIELDS(AS_PARAMETER) "?)") \
	X(Q_COMPLETION_REMOVE, "DELETE FROM completion WHERE name = ?") \
	X(Q_COMPLETIONS,     "SELECT name, " COMPLETION_FIELDS(AS_COLUMN) "sum FROM completion ORDER BY name") \
	/* Not so in schemas 1 to 3. */ \
	X(Q_JOB_PUT,         "INSERT OR REPLACE INTO job (id, queue, key, payload, run_payload, sum)" \
	                     " VALUES (?, ?, ?, ?, ?, ?)") \
	X(Q_JOB_THERE,       "SELECT 1 FROM job WHERE id = ?") \
	X(Q_JOB_REMOVE,      "DELETE FROM job WHERE id = ?") \
	X(Q_JOB_TOP,         "SELECT max(ifnull((SELECT max(id) FROM job), 0)," \
	                     " ifnull((SELECT max(block) * 16 + 15 FROM position), 0))") \
	/* wqd_feed() takes each row away: one step goes through them all. */ \
	X(Q_JOBS,            "SELECT 1 FROM job WHERE wqd_feed(id, queue, key, payload, run_payload, sum)" \
	                     " ORDER BY id") \
	X(Q_BLOCK_PUT,       "INSERT OR REPLACE INTO position (block, positions, sum) VALUES (?, ?, ?)") \
	X(Q_BLOCK_GET,       "SELECT block, positions, sum FROM position WHERE block = ?") \
	X(Q_BLOCK_REMOVE,    "DELETE FROM position WHERE block = ?") \
	X(Q_BLOCKS,          "SELECT block, positions, sum FROM position ORDER BY block") \
	X(Q_BLOCKS_BYTES,    "SELECT ifnull(sum(length(positions)), 0) FROM position") \
	X(Q_MOVED,           "SELECT id, wall_ns, moves, sum FROM moved WHERE id >= ? AND id <= ? ORDER BY id") \
	X(Q_MOVED_COUNT,     "SELECT count(*), ifnull(sum(length(moves)), 0), min(id), max(id) FROM moved") \
	X(Q_MOVED_PUT,       "INSERT INTO moved (id, wall_ns, moves, sum) VALUES (?, ?, ?, ?)") \
	X(Q_MOVED_REMOVE,    "DELETE FROM moved WHERE id = ?")
/* clang-format on */

#define X(name, text) name,
enum statement { STATEMENT_TABLE(X) Q_COUNT };
#undef X
/* Those before them serve older schemas as well. */
#define Q_OF_SCHEMA_1      Q_COMPLETION_PUT
#define Q_OF_SCHEMA_2      Q_JOB_PUT
#define ANSWER_ASKED_SHIFT 16

#endif
