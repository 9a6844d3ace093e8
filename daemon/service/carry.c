#include "service/carry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "service/internal.h"

/* Never given to anything else. */
enum { SERVICE_WATCH_NEXT = 1 };
enum { COUNTER_NAME = 1, COUNTER_VALUE, COUNTER_NUMBER };
enum {
	SESSION_STATE = 1,
	SESSION_CLIENT,
	SESSION_TOKEN,
	SESSION_SPACE,
	SESSION_DEADLINE,
	SESSION_SUBSCRIPTION,
	SESSION_DENIED_ID,
	SESSION_OUT,
	SESSION_UPGRADER,
	SESSION_UPGRADE_ID,
	SESSION_UNIX,
	SESSION_UID,
	SESSION_GID,
	SESSION_GROUPS,
	SESSION_ADDRESS,
	SESSION_WORKS_ON,
	SESSION_WHOLE,
};
enum { TICKET_NUMBER = 1, TICKET_REQUEST, TICKET_KIND, TICKET_MADE_KEY };

/* ---- out ---- */

bool
service_settled(const struct service *svc)
{
	CHECK_OBJ(svc, SERVICE_MAGIC);
	return list_empty(&svc->held) && list_empty(&svc->progress) && svc->n_unsent == 0 &&
		care_idle(svc);
}

static void
put_ticket(struct carry_out *o, const struct ticket *t)
{
	carry_begin(o, CARRY_TICKET);
	carry_u64(o, TICKET_NUMBER, ticket_number(t));
	carry_u64(o, TICKET_REQUEST, t->request_id);
	carry_u64(o, TICKET_KIND, t->kind);
	carry_u64(o, TICKET_MADE_KEY, t->made_key);
	carry_end(o);
}

void
session_carry_out(const struct session *s, struct carry_out *o)
{
	const struct service *svc = s->svc;

	CHECK_OBJ(s, SESSION_MAGIC);
	wq_assert(list_empty(&s->held));
	carry_begin(o, CARRY_SESSION);
	carry_u64(o, SESSION_STATE, s->state);
	carry_str(o, SESSION_CLIENT, str_from(s->client));
	carry_str(o, SESSION_TOKEN, str_from(s->id.token));
	carry_str(o, SESSION_SPACE, (struct str){ s->space, s->space_n });
	carry_u64(o, SESSION_WHOLE, s->whole);
	carry_i64(o, SESSION_DEADLINE, s->deadline_ns);
	carry_u64(o, SESSION_SUBSCRIPTION, s->subscription);
	carry_u64(o, SESSION_DENIED_ID, s->denied_id);
	carry_u64(o, SESSION_UNIX, s->id.unix_socket);
	carry_u64(o, SESSION_UID, s->id.uid);
	carry_u64(o, SESSION_GID, s->id.gid);
	carry_str(o, SESSION_GROUPS,
		(struct str){ (const char *)s->id.groups, s->id.n_groups * sizeof *s->id.groups });
	carry_str(o, SESSION_ADDRESS, str_from(s->peer.address));
	if (s->works_on)
		carry_str(o, SESSION_WORKS_ON, str_from(s->works_on));
	carry_str(o, SESSION_OUT, buf_str(&s->out));
	if (svc->upgrader == s) {
		carry_u64(o, SESSION_UPGRADER, 1);
		carry_u64(o, SESSION_UPGRADE_ID, svc->upgrade_id);
	}
	carry_end(o);
	list_each(t, &s->tickets, struct ticket, link)
		put_ticket(o, t);
	watch_carry_out(s, o);
}

static void
save_counter(struct carry_out *o, const char *name, uint64_t number, uint64_t value)
{
	carry_begin(o, CARRY_SERVICE_COUNTER);
	carry_str(o, COUNTER_NAME, str_from(name));
	carry_u64(o, COUNTER_NUMBER, number);
	carry_u64(o, COUNTER_VALUE, value);
	carry_end(o);
}

void
service_carry_out(const struct service *svc, struct carry_out *o)
{
	CHECK_OBJ(svc, SERVICE_MAGIC);
	carry_begin(o, CARRY_SERVICE);
	carry_u64(o, SERVICE_WATCH_NEXT, watch_position(svc));
	carry_end(o);
#define X(name, doc) save_counter(o, #name, 0, svc->counters.name);
	SERVICE_COUNTER_TABLE(X)
#undef X
	for (size_t i = 0; i < ARRAY_SIZE(svc->counters.replies); i++)
		if (svc->counters.replies[i])
			save_counter(o, "replies", i, svc->counters.replies[i]);
}

/* ---- in ---- */

/* As it was when it came, whatever the kernel says of its socket: both ends of a worker program's were
 * made by us. */
static int
in_identity(struct session *s, const struct carry_record *r)
{
	struct str groups = carry_get(r, SESSION_GROUPS), on = carry_get(r, SESSION_WORKS_ON);

	identity_done(&s->id);
	s->id = (struct identity){
		.unix_socket = carry_get_u64(r, SESSION_UNIX, 0) != 0,
		.uid = (uid_t)carry_get_u64(r, SESSION_UID, (uid_t)-1),
		.gid = (gid_t)carry_get_u64(r, SESSION_GID, (gid_t)-1),
	};
	if (carry_get_text(r, SESSION_TOKEN, s->id.token, sizeof s->id.token) < 0 ||
		carry_get_text(r, SESSION_ADDRESS, s->peer.address, sizeof s->peer.address) < 0 ||
		groups.n % sizeof(gid_t) != 0)
		return ERR_DAMAGED;
	if (groups.n) {
		s->id.groups = x_alloc(groups.n);
		if (!s->id.groups)
			return -ENOMEM;
		memcpy(s->id.groups, groups.p, groups.n);
		s->id.n_groups = groups.n / sizeof(gid_t);
	}
	x_free(s->works_on);
	s->works_on = on.n ? x_strndup(on.p, on.n) : NULL;
	return on.n && !s->works_on ? -ENOMEM : 0;
}

static int
in_session(struct session *s, const struct carry_record *r, struct moment now)
{
	struct str space = carry_get(r, SESSION_SPACE), out = carry_get(r, SESSION_OUT);
	uint64_t state = carry_get_u64(r, SESSION_STATE, SESSION_CLOSING);
	int err = in_identity(s, r);

	if (err < 0)
		return err;
	if (carry_get_text(r, SESSION_CLIENT, s->client, sizeof s->client) < 0 ||
		space.n > sizeof s->space || state > SESSION_CLOSING)
		return ERR_DAMAGED;
	s->space_n = (uint8_t)space.n;
	s->whole = carry_get_u64(r, SESSION_WHOLE, 0) != 0;
	if (space.n && !s->svc->spaces)
		space_begin(s->svc);
	if (space.n)
		memcpy(s->space, space.p, space.n);
	s->state = (enum session_state)state;
	s->deadline_ns = carry_get_i64(r, SESSION_DEADLINE, INT64_MAX);
	s->subscription = carry_get_u64(r, SESSION_SUBSCRIPTION, 0);
	s->denied_id = carry_get_u64(r, SESSION_DENIED_ID, 0);
	if (carry_get_u64(r, SESSION_UPGRADER, 0)) {
		s->svc->upgrader = s;
		s->svc->upgrade_id = carry_get_u64(r, SESSION_UPGRADE_ID, 0);
		s->in_flight++;
	}
	if (out.n && buf_put(&s->out, out.p, out.n) < 0)
		return -ENOMEM;
	/* Roles may be others now: as after a reload. */
	if (s->state == SESSION_OPEN && (!access_compute(s) || !accounts_open(s, now)))
		session_close(s);
	return 0;
}

static int
in_ticket(struct session *s, const struct carry_record *r)
{
	uint64_t kind = carry_get_u64(r, TICKET_KIND, REQ_UNKNOWN);
	struct ticket *t;

	if (kind >= REQ_KIND_COUNT)
		return ERR_DAMAGED;
	t = ticket_take_this(&s->svc->tickets, carry_get_u64(r, TICKET_NUMBER, 0));
	if (!t)
		return -ENOMEM;
	/* It was let wait before, and is not refused now. */
	accounts_waiter_force(s);
	t->s = s;
	t->request_id = carry_get_u64(r, TICKET_REQUEST, 0);
	t->kind = (enum request_kind)kind;
	t->made_key = carry_get_u64(r, TICKET_MADE_KEY, 0) != 0;
	list_append(&s->tickets, &t->link);
	s->in_flight++;
	return 0;
}

int
session_carry_in(struct session *s, const struct carry_record *r, struct moment now)
{
	CHECK_OBJ(s, SESSION_MAGIC);
	switch ((int)r->kind) {
	case CARRY_SESSION:
		return in_session(s, r, now);
	case CARRY_TICKET:
		return in_ticket(s, r);
	case CARRY_WATCHER:
		return watch_carry_in(s, r);
	default:
		return 0;
	}
}

static void
in_counter(struct service *svc, const struct carry_record *r)
{
	struct str name = carry_get(r, COUNTER_NAME);
	uint64_t value = carry_get_u64(r, COUNTER_VALUE, 0);
	uint64_t number = carry_get_u64(r, COUNTER_NUMBER, 0);

#define X(counter, doc) \
	if (str_eq(name, STR(#counter))) \
		svc->counters.counter = value;
	SERVICE_COUNTER_TABLE(X)
#undef X
	if (str_eq(name, STR("replies")) && number < ARRAY_SIZE(svc->counters.replies))
		svc->counters.replies[number] = value;
}

int
service_carry_in(struct service *svc, const struct carry_record *r)
{
	CHECK_OBJ(svc, SERVICE_MAGIC);
	if (r->kind == CARRY_SERVICE_COUNTER)
		in_counter(svc, r);
	if (r->kind == CARRY_SERVICE)
		watch_begin_at(svc, carry_get_u64(r, SERVICE_WATCH_NEXT, 0));
	return 0;
}
