/*
 * Jobs out as they would be stored, and in again.
 *
 * What comes in makes a job that is not there, or brings back one of which only
 * results are kept. One that is pending, running, disabled or dead, or has run
 * since it was saved, is left as it is: an import may be repeated, and never takes
 * anything back.
 */
#include <errno.h>

#include "base/err.h"
#include "engine/export.h"

#define EXPORT_LOOKS 4096u /* records looked at in one call */
#define SCAN_PLACES  64u   /* of a table of names, in one call */

/* ---- out ---- */

/* Of the others nothing would come back. */
static bool
worth_saving(const struct job_saved *s)
{
	return s->pending != JOB_IDLE || s->running || s->disable_depth > 0 || s->dead;
}

void
engine_export(const struct engine *e, struct moment now, uint64_t *cursor, size_t limit,
	bool (*each)(void *arg, const struct job_saved *), void *arg)
{
	uint64_t at = *cursor, top = slab_top(&e->jobs), stop;
	bool more = true;

	CHECK_OBJ(e, ENGINE_MAGIC);
	at = at < top ? at : top;
	stop = top - at > EXPORT_LOOKS ? at + EXPORT_LOOKS : top;
	while (at < stop && limit > 0 && more) {
		const struct job *j = job_live(e, (uint32_t)at);
		struct job_saved s;

		if (j) {
			job_save(j, now, &s);
			if (worth_saving(&s)) {
				more = each(arg, &s);
				limit--;
			}
		}
		at += more;
	}
	*cursor = at < top ? at : 0;
}

/* Of a table of names: what comes for each of its nodes. */
struct scan {
	const struct engine *e;
	void (*queue)(void *arg, const struct queue_view *);
	void (*completion)(void *arg, const struct completion_view *);
	void *arg;
};

static void
scan_queue(void *arg, struct map_node *node)
{
	const struct queue *q = container_of(node, struct queue, node);
	const struct scan *sc = arg;
	struct queue_view v;

	queue_look(sc->e, q, &v);
	sc->queue(sc->arg, &v);
}

static void
scan_completion(void *arg, struct map_node *node)
{
	const struct completion *c = container_of(node, struct completion, node);
	const struct scan *sc = arg;
	struct completion_view v;

	completion_look(c, &v);
	sc->completion(sc->arg, &v);
}

void
engine_queue_scan(const struct engine *e, uint64_t *cursor,
	void (*each)(void *arg, const struct queue_view *), void *arg)
{
	struct scan sc = { .e = e, .queue = each, .arg = arg };

	CHECK_OBJ(e, ENGINE_MAGIC);
	map_scan(&e->queue_names, cursor, SCAN_PLACES, scan_queue, &sc);
}

void
engine_completion_scan(const struct engine *e, uint64_t *cursor,
	void (*each)(void *arg, const struct completion_view *), void *arg)
{
	struct scan sc = { .e = e, .completion = each, .arg = arg };

	CHECK_OBJ(e, ENGINE_MAGIC);
	map_scan(&e->completions, cursor, SCAN_PLACES, scan_completion, &sc);
}

/* ---- in ---- */

static const char *
import_wrong(const struct engine *e, const struct job_saved *s)
{
	bool pending = s->pending != JOB_IDLE;
	size_t bytes = 0;

	for (size_t i = 0; i < s->n_parts && bytes <= PAYLOAD_MAX; i++)
		bytes += s->parts[i].n;
	if (bytes > PAYLOAD_MAX + (s->command ? COMMAND_MAX : 0))
		return "the payload is over 1 MiB";
	if (s->command && !payload_command_valid(s->parts, s->n_parts))
		return "the command makes no sense";
	if (s->pending != JOB_IDLE && s->pending != JOB_ARMED && s->pending != JOB_READY)
		return "a job comes in idle, armed or ready";
	if (pending + (s->disable_depth > 0) + s->dead != 1)
		return "a job comes in pending, disabled or dead, and one of them alone";
	if (s->disable_depth > 0 && (s->n_parts > 0 || s->command || s->retry))
		return "a disabled job has nothing to run: no payload, command or retry";
	if (s->due_wall_ns < 0 || s->due_wall_ns > sat_add(e->now.wall_ns, DELAY_MAX_NS))
		return "the deadline is not 1970 to 100 years from now";
	if (!span_valid(s->delay_ns, -1) || !span_valid(s->slack_ns, 0) ||
		!span_valid(s->max_wait_ns, 0))
		return "a span is not 0 to 100 years";
	if (s->generation > INT64_MAX - 1 || (s->retry && s->attempt == 0))
		return "the generation or attempt makes no sense";
	return NULL;
}

static bool
stands_as_it_is(const struct job *j, const struct job_saved *s)
{
	return j &&
		(j->state != JS_I || side_of(j)->dead || side_of(j)->generation > s->generation);
}

static void
import_fields(struct engine *e, struct job *j, const struct job_saved *s)
{
	job_load(j, e->now, s);
	job_side(j)->retry = s->retry && s->pending != JOB_IDLE;
	job_side(j)->interrupts = 0;
	if (s->created_wall_ns < 0)
		j->created_ns = e->now.boot_ns;
	j->stale = true;
}

/* Puts the job in its place. 0 or an error: nothing has changed. */
static int
import_place(struct engine *e, struct job *j, const struct job_saved *s)
{
	int64_t due_ns = s->absolute ? s->due_wall_ns : moment_boot(e->now, s->due_wall_ns);
	struct payload *p;
	int err = payload_of_parts(e, j->q, s->parts, s->n_parts, s->command, &p);

	if (err == 0 && s->pending == JOB_ARMED)
		err = job_arm(e, j, s->absolute, due_ns);
	if (err < 0) {
		payload_free(e, p);
		return err;
	}
	*job_payload_at(j) = p;
	if (s->command)
		pools_note_command(e, j->q);
	import_fields(e, j, s);
	if (s->pending == JOB_READY) {
		j->absolute = s->absolute;
		j->due_ns = due_ns;
		j->seq = ++e->seq;
	}
	if (s->pending != JOB_IDLE || s->disable_depth > 0)
		job_enter(e, j, OP_RESTORE,
			s->pending == JOB_ARMED           ? JS_A
				: s->pending == JOB_READY ? JS_Q
							  : JS_X);
	return 0;
}

static void
import_job(struct ask *a, const struct job_saved *s)
{
	bool fresh = !a->j;
	int err = fresh ? job_new(a->e, a->q, a->r.key, &a->j) : 0;

	if (err == 0) {
		err = import_place(a->e, a->j, s);
		if (err < 0 && fresh) {
			job_settle(a->e, a->j);
			a->j = NULL;
		}
	}
	if (err < 0) {
		ask_fail_err(a, err);
		return;
	}
	job_touch(a->e, a->j, a->level);
	/* Who brings jobs over wants to know that they are safe. */
	if (a->level != LEVEL_MEMORY)
		a->level = LEVEL_SYNC;
	ask_instance(a);
	ask_done(a, ST_CREATED);
}

void
import_event(struct engine *e, const struct engine_event *ev)
{
	const struct job_saved *s = &ev->import->job;
	const struct job_name name = { .queue = s->queue, .key = s->key };
	const char *wrong;
	struct ask a;

	if (!ask_open(&a, e, ev, &name, s->level, STR_NONE))
		return;
	wrong = import_wrong(e, s);
	ask_before(&a);
	if (wrong) {
		ask_fail(&a, ST_INVALID, wrong);
	} else if (stands_as_it_is(a.j, s)) {
		a.level = LEVEL_ASYNC;
		ask_done(&a, ST_UNCHANGED);
	} else if (a.q->draining) {
		ask_fail(&a, ST_REFUSED_DRAINING, "the queue is draining");
	} else if (ev->import->dry_run) {
		a.level = LEVEL_ASYNC;
		ask_done(&a, ST_CREATED);
	} else {
		import_job(&a, s);
	}
}
