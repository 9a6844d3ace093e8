/*
 * Jobs out as lines of JSON, page by page, and in again one by one. The files are
 * care.c's.
 */
#include "base/err.h"
#include "service/internal.h"
#include "service/jsonl.h"

#define PAGE_BYTES (512u << 10) /* a page ends behind the line that passes them */
#define PAGE_JOBS  1000

/* What a cursor stands in; the rest of it is the place there. */
enum export_phase { EXPORT_HEAD, EXPORT_QUEUES, EXPORT_COMPLETIONS, EXPORT_JOBS };
#define PHASE_SHIFT 60

struct page {
	struct buf *out;
	int err;
};

/* ---- export ---- */

static void
export_queue(void *arg, const struct queue_view *q)
{
	struct page *p = arg;

	if (!p->err)
		p->err = jsonl_queue(p->out, q->name, q->settings, q->paused);
}

static void
export_completion(void *arg, const struct completion_view *v)
{
	const struct completion_saved c = { v->name, v->done, v->open, v->level };
	struct page *p = arg;

	/* One that is only waited for is nothing that could be kept. */
	if (!p->err && (v->done > 0 || v->open))
		p->err = jsonl_completion(p->out, &c);
}

static bool
export_job(void *arg, const struct job_saved *j)
{
	struct page *p = arg;

	if (buf_len(p->out) >= PAGE_BYTES)
		return false;
	p->err = jsonl_job(p->out, j);
	return p->err == 0;
}

/* One piece from `*at` of the phase on; `*at` is 0 at its end. */
static void
export_piece(struct service *svc, struct moment now, enum export_phase phase, uint64_t *at,
	struct page *p)
{
	const struct engine *e = svc->cfg.engine;

	switch (phase) {
	case EXPORT_HEAD:
		p->err = jsonl_head(p->out, svc->cfg.server, svc->cfg.instance, now.wall_ns);
		return;
	case EXPORT_QUEUES:
		engine_queue_scan(e, at, export_queue, p);
		return;
	case EXPORT_COMPLETIONS:
		engine_completion_scan(e, at, export_completion, p);
		return;
	case EXPORT_JOBS:
		engine_export(e, now, at, PAGE_JOBS, export_job, p);
		return;
	}
}

/* The page from `cursor` on; where the next begins, 0: nowhere. A page ends with its first piece of
 * jobs, which looks at a bounded number. */
static uint64_t
export_page(struct service *svc, struct moment now, uint64_t cursor, struct page *p)
{
	uint64_t phase = cursor >> PHASE_SHIFT, at = cursor & ((1ull << PHASE_SHIFT) - 1);

	while (!p->err && buf_len(p->out) < PAGE_BYTES) {
		bool last = phase >= EXPORT_JOBS;

		export_piece(svc, now, last ? EXPORT_JOBS : (enum export_phase)phase, &at, p);
		if (at == 0)
			phase = last ? 0 : phase + 1;
		if (last)
			break;
	}
	return phase == 0 ? 0 : phase << PHASE_SHIFT | at;
}

void
op_export(struct service *svc, struct call *c)
{
	uint64_t cursor = c->req->export_cursor;
	struct page p = { .out = &svc->scratch };
	struct buf *out;

	service_log_command(c, cursor ? NULL : "export_asked");
	buf_consume(p.out, buf_len(p.out));
	cursor = export_page(svc, c->now, cursor, &p);
	if (p.err) {
		reply_status(c->s, c->req->id, ST_REFUSED_LIMIT, err_str(p.err));
		return;
	}
	out = reply_begin(c->s);
	if (out)
		reply_end(
			c->s, ST_OK, wire_put_data(out, c->req->id, buf_str(p.out), cursor, false));
}

/* ---- import ---- */

void
op_import_job(struct service *svc, struct call *c)
{
	struct engine_event ev = { .kind = EV_IMPORT, .import = &c->req->import };
	const char *no_command = c->req->import.job.command ? access_no_command(c->s) : NULL;

	if (svc->stopping)
		reply_status(c->s, c->req->id, ST_REFUSED_DRAINING, "the daemon is stopping");
	else if (no_command)
		reply_status(c->s, c->req->id, ST_UNAUTHORIZED, no_command);
	else if (svc->degraded && c->req->import.job.level != LEVEL_MEMORY)
		reply_status(
			c->s, c->req->id, ST_STORAGE_ERROR, "the store fails; nothing was changed");
	else
		service_ask(svc, c, &ev, false);
}
