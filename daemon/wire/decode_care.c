/* Operations of care: the others are in decode.c. */
#include "wire/decode.h"

void
decode_export(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__Export *pb = m;

	(void)d;
	out->export_cursor = pb->cursor;
}

static void
read_parts(struct decode *d, const Wq__V1__ImportJob *pb, struct job_saved *j)
{
	struct str *v;

	if (pb->n_parts > PARTS_MAX) {
		wrong(d, "over 65536 payload parts");
		return;
	}
	v = arena_alloc(d->arena, pb->n_parts * sizeof *v);
	if (!v) {
		d->full = true;
		return;
	}
	for (size_t i = 0; i < pb->n_parts; i++)
		v[i] = bytes(pb->parts[i]);
	j->parts = v;
	j->n_parts = pb->n_parts;
}

void
decode_import(struct decode *d, const void *m, struct request *out)
{
	const Wq__V1__ImportJob *pb = m;

	out->import = (struct op_import){
		.dry_run = pb->dry_run,
		.job = {
			.queue = text(pb->queue),
			.key = bytes(pb->key),
			.pending = read_state(d, (int)pb->state),
			.absolute = pb->absolute,
			.due_wall_ns = pb->has_due_ms_case ? ms(d, pb->due_ms) : 0,
			.delay_ns = optional_ms(d, (int)pb->has_delay_ms_case, pb->delay_ms),
			.created_wall_ns = pb->has_created_ms_case ? ms(d, pb->created_ms) : -1,
			.slack_ns = ms(d, pb->slack_ms),
			.max_wait_ns = ms(d, pb->max_wait_ms),
			.generation = pb->generation,
			.attempt = pb->attempt,
			.retry = pb->retry,
			.coalesced = pb->coalesced,
			.disable_depth = pb->disable_depth,
			.dead = pb->dead,
			.command = pb->command,
			.level = read_level(d, (int)pb->durability),
		},
	};
	if (pb->state != WQ__V1__JOB_STATE__JOB_STATE_IDLE && !pb->has_due_ms_case)
		wrong(d, "a pending job needs due_ms");
	read_parts(d, pb, &out->import.job);
}
