/* Worker programs over an exec: the process stays our child, its connection is one of ours. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "crew_int.h"

/* Never given to anything else; states are numbers of enum member_state. */
enum {
	MEMBER_STATE = 1,
	MEMBER_TOLD,
	MEMBER_PID,
	MEMBER_PIDFD,
	MEMBER_OUT,
	MEMBER_CONN,
	MEMBER_BEGAN,
	MEMBER_SINCE,
	MEMBER_GRACE,
	MEMBER_CPU,
	MEMBER_HANDLER,
	MEMBER_QUEUE,
	MEMBER_SAID,
};
enum { SHIFT_QUEUE = 1, SHIFT_PAUSE, SHIFT_NOT_BEFORE };

static void
put_member(struct carry_out *o, const struct member *m)
{
	carry_begin(o, CARRY_MEMBER);
	carry_u64(o, MEMBER_STATE, m->state);
	carry_u64(o, MEMBER_TOLD, m->told);
	carry_u64(o, MEMBER_PID, (uint64_t)m->pid);
	carry_fd(o, MEMBER_PIDFD, m->pidfd);
	carry_fd(o, MEMBER_OUT, m->out);
	carry_u64(o, MEMBER_CONN, m->s ? conn_number(session_user(m->s)) : 0);
	carry_i64(o, MEMBER_BEGAN, m->began_ns);
	carry_i64(o, MEMBER_SINCE, m->since_ns);
	carry_i64(o, MEMBER_GRACE, m->grace_ns);
	carry_i64(o, MEMBER_CPU, m->cpu_ns);
	carry_str(o, MEMBER_HANDLER, str_from(m->handler));
	carry_str(o, MEMBER_QUEUE, str_from(m->queue));
	carry_str(o, MEMBER_SAID, (struct str){ m->said, m->n_said });
	carry_end(o);
}

void
crew_carry_out(const struct crew *c, struct carry_out *o)
{
	list_each(s, &c->shifts, struct shift, link) {
		carry_begin(o, CARRY_SHIFT);
		carry_str(o, SHIFT_QUEUE, str_from(s->queue));
		carry_i64(o, SHIFT_PAUSE, s->pause_ns);
		carry_i64(o, SHIFT_NOT_BEFORE, s->not_before_ns);
		carry_end(o);
	}
	list_each(m, &c->members, struct member, link)
		put_member(o, m);
}

static int
in_shift(struct crew *c, const struct carry_record *r)
{
	char queue[QUEUE_NAME_MAX + 1];
	struct shift *s;

	if (carry_get_text(r, SHIFT_QUEUE, queue, sizeof queue) < 0)
		return ERR_DAMAGED;
	s = crew_shift(c, queue);
	if (!s)
		return -ENOMEM;
	s->pause_ns = carry_get_i64(r, SHIFT_PAUSE, 0);
	s->not_before_ns = carry_get_i64(r, SHIFT_NOT_BEFORE, 0);
	return 0;
}

static int
in_member(struct crew *c, const struct carry_record *r)
{
	uint64_t state = carry_get_u64(r, MEMBER_STATE, ENDING);
	struct member *m = x_zalloc(sizeof *m);

	if (!m)
		return -ENOMEM;
	m->c = c;
	m->probe = PROBE_NONE;
	m->state = state <= ENDING ? (enum member_state)state : ENDING;
	m->told = carry_get_u64(r, MEMBER_TOLD, 0) != 0;
	m->pid = (pid_t)carry_get_u64(r, MEMBER_PID, 0);
	m->pidfd = carry_get_fd(r, MEMBER_PIDFD);
	m->out = carry_get_fd(r, MEMBER_OUT);
	m->s = conns_session(c->d->conns, carry_get_u64(r, MEMBER_CONN, 0));
	m->began_ns = carry_get_i64(r, MEMBER_BEGAN, 0);
	m->since_ns = carry_get_i64(r, MEMBER_SINCE, 0);
	m->grace_ns = carry_get_i64(r, MEMBER_GRACE, 0);
	m->cpu_ns = carry_get_i64(r, MEMBER_CPU, 0);
	list_append(&c->members, &m->link);
	c->n++;
	if (m->pid <= 1 || m->pidfd < 0 || m->out < 0 ||
		carry_get_text(r, MEMBER_HANDLER, m->handler, sizeof m->handler) < 0 ||
		carry_get_text(r, MEMBER_QUEUE, m->queue, sizeof m->queue) < 0 ||
		carry_get_text(r, MEMBER_SAID, m->said, sizeof m->said) < 0)
		return ERR_DAMAGED;
	m->n_said = carry_get(r, MEMBER_SAID).n;
	probe_open(&m->probe, m->pid, -1);
	return member_watch(m) ? 0 : -ENOMEM;
}

int
crew_carry_in(struct crew *c, const struct carry_record *r)
{
	if (r->kind == CARRY_SHIFT)
		return in_shift(c, r);
	return r->kind == CARRY_MEMBER ? in_member(c, r) : 0;
}
