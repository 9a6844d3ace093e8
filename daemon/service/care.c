/*
 * Care of the files while the daemon runs: a copy of the state given out as a
 * stream, a check. Both are done by the writer thread, between groups, one of
 * them at a time. The copy is made beside the database in pieces, then unlinked
 * and sent as far as its client reads; one chunk of it is in memory.
 *
 *   state        asked      done       failed    client gone
 *   IDLE         COMMITTING, CHECKING  -         -
 *   COMMITTING   busy       COPYING    IDLE      IDLE
 *   COPYING      busy       READING    IDLE      UNDOING
 *   READING      busy       SENDING,   IDLE      IDLE
 *                           at the end IDLE
 *   SENDING      busy       READING    -         IDLE
 *   CHECKING     busy       IDLE       IDLE      IDLE
 *   UNDOING      busy       IDLE       IDLE      -
 *
 * COMMITTING waits until all that was acknowledged before the request is on disk. While the
 * writer has the call (`calling`) a client that goes away only leaves its name; the
 * edge is taken when the call is done.
 *
 * Letters of the fields: L loop thread; T writer thread during a call, else loop
 * thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/log.h"
#include "service/internal.h"
#include "store/writer.h"

#define CHUNK_BYTES (256u << 10)
#define RETRY_NS    (10 * NS_PER_MS) /* somebody else has the writer's call */

enum care_state {
	CARE_IDLE,
	CARE_COMMITTING,
	CARE_COPYING,
	CARE_READING,
	CARE_SENDING,
	CARE_CHECKING,
	CARE_UNDOING
};

struct care {
	struct service *svc;        /* L */
	struct writer *writer;      /* L: borrowed; NULL: nobody has it yet */
	enum care_state state;      /* L */
	bool calling;               /* L: the writer thread has it */
	struct session *s;          /* L: NULL: gone */
	uint64_t request_id;        /* L */
	uint64_t mark;              /* L: what has to be on disk first */
	char path[512];             /* L: of the copy */
	bool begun;                 /* T */
	int fd;                     /* T: of the whole copy, unlinked; -1 */
	uint8_t *chunk;             /* T: owned */
	size_t n;                   /* T: bytes in it */
	uint64_t sent;              /* T: bytes before it */
	struct store_counts counts; /* T */
	struct store_error err;     /* T */
};

/* ---- on the writer thread ---- */

static int
copy_whole(struct care *k)
{
	k->fd = open(k->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (k->fd < 0)
		return -errno;
	(void)unlink(k->path);
	return 0;
}

/* 1: there is more to do. */
static int
copy_piece(struct store *st, void *arg)
{
	struct care *k = arg;
	int rc = 0;

	if (!k->begun) {
		(void)unlink(k->path); /* of a daemon that was cut off */
		rc = st->ops->backup_begin(st, k->path);
		k->begun = rc == 0;
	}
	if (!rc)
		rc = st->ops->backup_step(st);
	return rc ? rc : copy_whole(k);
}

static int
copy_undo(struct store *st, void *arg)
{
	(void)arg;
	st->ops->backup_end(st);
	return 0;
}

static int
copy_read(struct store *st, void *arg)
{
	struct care *k = arg;
	ssize_t n = pread(k->fd, k->chunk, CHUNK_BYTES, (off_t)k->sent);

	(void)st;
	k->n = n > 0 ? (size_t)n : 0;
	return n < 0 ? -errno : 0;
}

static int
check_all(struct store *st, void *arg)
{
	struct care *k = arg;

	return store_check(st, &k->counts, &k->err);
}

/* ---- the end of one ---- */

static void
idle(struct care *k)
{
	wq_assert(!k->calling);
	if (k->s)
		k->s->in_flight--;
	if (k->fd >= 0)
		(void)close(k->fd);
	x_free(k->chunk);
	k->s = NULL;
	k->fd = -1;
	k->chunk = NULL;
	k->begun = false;
	k->state = CARE_IDLE;
}

static void
answer(struct care *k, enum status st, const char *message)
{
	struct session *s = k->s;

	idle(k);
	if (!s)
		return;
	reply_status(s, k->request_id, st, message);
	k->svc->cfg.output_ready(k->svc->cfg.ctx, s);
}

static void
failed(struct care *k, int rc)
{
	char text[200];

	if (rc == -EOPNOTSUPP) {
		answer(k, ST_INVALID, "this daemon stores nothing");
		return;
	}
	(void)snprintf(text, sizeof text, "the copy could not be made beside the database: %s",
		err_str(rc));
	log_warn("backup_failed", "path=\"%s\" error=\"%s\"", k->path, err_str(rc));
	answer(k, ST_STORAGE_ERROR, text);
}

/* ---- calls of the writer ---- */

static void
put_count(struct care *k, const char *name, uint64_t n)
{
	(void)wire_list_counter(k->svc->list, name, (int64_t)n);
}

static void
checked(struct care *k, int rc)
{
	struct session *s = k->s;
	char text[sizeof k->err.path + sizeof k->err.detail + sizeof k->err.next + 64];
	struct buf *out;

	if (rc) {
		(void)snprintf(text, sizeof text, "%s: %s: %s; %s", k->err.path, err_str(rc),
			k->err.detail, k->err.next);
		log_error("check_failed", "path=\"%s\" error=\"%s\" detail=\"%s\"", k->err.path,
			err_str(rc), k->err.detail);
		answer(k, ST_STORAGE_ERROR, text);
		return;
	}
	idle(k);
	out = s ? reply_begin(s) : NULL;
	if (!out)
		return;
	wire_list_begin(k->svc->list, k->request_id, ST_OK);
	put_count(k, "queues", k->counts.queues);
	put_count(k, "jobs", k->counts.jobs);
	put_count(k, "runs", k->counts.runs);
	put_count(k, "answers", k->counts.answers);
	put_count(k, "completions", k->counts.completions);
	reply_end(s, ST_OK, wire_list_end(k->svc->list, 0, out));
	k->svc->cfg.output_ready(k->svc->cfg.ctx, s);
}

/* The client went away during the call. */
static void
leave_copying(struct care *k, bool more)
{
	if (more)
		k->state = CARE_UNDOING;
	else
		idle(k);
}

static void
done(void *arg, int rc)
{
	struct care *k = arg;

	k->calling = false;
	switch (k->state) {
	case CARE_COPYING:
		if (rc < 0)
			failed(k, rc);
		else if (!k->s)
			leave_copying(k, rc > 0);
		else if (rc == 0)
			k->state = CARE_READING;
		return;
	case CARE_READING:
		if (rc < 0)
			failed(k, rc);
		else if (!k->s)
			idle(k);
		else
			k->state = CARE_SENDING;
		return;
	case CARE_CHECKING:
		checked(k, rc);
		return;
	case CARE_UNDOING:
		idle(k);
		return;
	case CARE_IDLE:
	case CARE_COMMITTING:
	case CARE_SENDING:
		break;
	}
	wq_assert(!"a call of nobody");
}

static int
call_of(enum care_state state, int (**fn)(struct store *st, void *arg))
{
	switch (state) {
	case CARE_COPYING:
		*fn = copy_piece;
		return 1;
	case CARE_READING:
		*fn = copy_read;
		return 1;
	case CARE_CHECKING:
		*fn = check_all;
		return 1;
	case CARE_UNDOING:
		*fn = copy_undo;
		return 1;
	case CARE_IDLE:
	case CARE_COMMITTING:
	case CARE_SENDING:
		break;
	}
	return 0;
}

/* ---- turns ---- */

static void
send_chunk(struct care *k)
{
	struct service *svc = k->svc;
	struct buf *out;

	if (k->n == 0) {
		log_info("backup", "bytes=%llu", (unsigned long long)k->sent);
		svc->counters.backups++;
		answer(k, ST_OK, NULL);
		return;
	}
	if (session_unsent(k->s) >= svc->cfg.output_max / 2)
		return;
	out = reply_begin(k->s);
	if (!out)
		return;
	reply_end(k->s, ST_OK,
		wire_put_data(out, k->request_id, (struct str){ (char *)k->chunk, k->n }, 0, true));
	svc->cfg.output_ready(svc->cfg.ctx, k->s);
	k->sent += k->n;
	k->state = CARE_READING;
}

int64_t
care_turn(struct service *svc, struct moment now)
{
	struct care *k = svc->care;
	int (*fn)(struct store * st, void *arg);

	if (k->state == CARE_IDLE || k->calling)
		return INT64_MAX;
	if (k->state == CARE_COMMITTING && svc->degraded) {
		answer(k, ST_STORAGE_ERROR,
			"commits fail: the copy would lack what was acknowledged");
		return INT64_MAX;
	}
	if (k->state == CARE_COMMITTING && svc->committed >= k->mark)
		k->state = CARE_COPYING;
	if (k->state == CARE_SENDING)
		send_chunk(k);
	if (!call_of(k->state, &fn))
		return INT64_MAX;
	if (writer_call(k->writer, fn, done, k) < 0)
		return sat_add(now.boot_ns, RETRY_NS);
	k->calling = true;
	return INT64_MAX;
}

void
care_leave(struct session *s)
{
	struct care *k = s->svc->care;

	if (k->s != s)
		return;
	s->in_flight--;
	k->s = NULL;
	if (k->calling)
		return;
	if (k->state == CARE_COPYING)
		k->state = CARE_UNDOING;
	else
		idle(k);
}

bool
care_idle(const struct service *svc)
{
	return svc->care->state == CARE_IDLE;
}

/* ---- requests ---- */

static bool
begin(struct service *svc, struct call *c, const char *what)
{
	struct care *k = svc->care;

	service_log_command(c, what);
	if (!k->writer) {
		reply_status(c->s, c->req->id, ST_INVALID, "this daemon stores nothing");
		return false;
	}
	if (k->state != CARE_IDLE) {
		reply_status(c->s, c->req->id, ST_REFUSED_LIMIT,
			"a backup or a check is going on; try again when it is done");
		return false;
	}
	k->s = c->s;
	k->request_id = c->req->id;
	k->sent = 0;
	c->s->in_flight++;
	return true;
}

void
op_backup(struct service *svc, struct call *c)
{
	struct care *k = svc->care;

	if (!begin(svc, c, "backup_asked"))
		return;
	k->chunk = x_alloc(CHUNK_BYTES);
	k->mark = engine_dirty_mark(svc->cfg.engine);
	k->state = CARE_COMMITTING;
	if (!k->chunk)
		answer(k, ST_REFUSED_LIMIT, "out of memory");
}

void
op_check(struct service *svc, struct call *c)
{
	if (begin(svc, c, "check_asked"))
		svc->care->state = CARE_CHECKING;
}

/* ---- life ---- */

int
care_new(struct service *svc)
{
	struct care *k = x_zalloc(sizeof *k);

	if (!k)
		return -ENOMEM;
	k->svc = svc;
	k->fd = -1;
	svc->care = k;
	return 0;
}

void
care_free(struct service *svc)
{
	struct care *k = svc->care;

	if (!k)
		return;
	if (k->fd >= 0)
		(void)close(k->fd);
	x_free(k->chunk);
	x_free(k);
}

void
service_set_writer(struct service *svc, struct writer *w, const char *dir)
{
	struct care *k = svc->care;

	CHECK_OBJ(svc, SERVICE_MAGIC);
	k->writer = w;
	(void)snprintf(k->path, sizeof k->path, "%s/backup.tmp", dir);
}
