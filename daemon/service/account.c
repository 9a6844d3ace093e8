#include "service/account.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "service/internal.h"

/* At a limit its queues are counted no more often than this, and later the more there are. */
#define COUNT_EACH_NS  (2 * NS_PER_MS)
#define COUNT_QUEUE_NS 1000
#define MADE_KEY       32 /* bytes of a key that the engine makes */

enum { OF_IDENTITY, OF_SPACE };

/* ---- which ---- */

static void
least(uint32_t *to, uint32_t limit)
{
	if (limit > 0 && (*to == 0 || limit < *to))
		*to = limit;
}

static void
least64(uint64_t *to, uint64_t limit)
{
	if (limit > 0 && (*to == 0 || limit < *to))
		*to = limit;
}

/* With several roles the strictest limits count. */
static struct quotas
quotas_of_session(const struct session *s)
{
	const struct grants *g = s->svc->grants;
	struct quotas q = { 0 };

	for (size_t i = 0; g && i < g->n_roles; i++) {
		const struct quotas *each = &g->roles[i].each;

		if (!(s->access.roles >> i & 1))
			continue;
		least(&q.connections, each->connections);
		least(&q.requests_per_s, each->requests_per_s);
		least(&q.waiters, each->waiters);
		least(&q.watchers, each->watchers);
		least64(&q.jobs, each->jobs);
		least64(&q.bytes, each->bytes);
	}
	return q;
}

static struct quotas
quotas_of_space(const struct session *s)
{
	const struct grants *g = s->svc->grants;
	struct str space = { s->space, s->space_n };

	for (size_t i = 0; g && i < g->n_namespaces; i++)
		if (str_eq(str_from(g->namespaces[i].name), space))
			return g->namespaces[i].all;
	return (struct quotas){ 0 };
}

static bool
limits(const struct quotas *q)
{
	return q->connections || q->requests_per_s || q->waiters || q->watchers || q->jobs ||
		q->bytes;
}

/* Whether there is room under another limit is counted anew. */
static void
account_limit(struct account *a, const struct quotas *max)
{
	if (a->max.jobs != max->jobs || a->max.bytes != max->bytes) {
		a->room = (struct store_use){ 0 };
		a->count_again_ns = 0;
	}
	a->max = *max;
}

static struct account *
account_get(struct service *svc, const char *name, const struct quotas *max)
{
	struct account *a;

	list_each(old, &svc->accounts, struct account, link)
		if (strcmp(old->name, name) == 0) {
			account_limit(old, max);
			return old;
		}
	a = x_zalloc(sizeof *a);
	if (!a)
		return NULL;
	snprintf(a->name, sizeof a->name, "%s", name);
	a->max = *max;
	a->left = max->requests_per_s;
	list_append(&svc->accounts, &a->link);
	return a;
}

static void
account_free(struct account *a)
{
	wq_assert(a->connections == 0 && a->waiters == 0 && a->watchers == 0);
	list_del(&a->link);
	x_free(a);
}

static void
account_leave(struct account **at)
{
	struct account *a = *at;

	*at = NULL;
	if (a && --a->connections == 0 && a->max.requests_per_s == 0)
		account_free(a);
}

/* Those that nobody uses any more, and whose bucket is full again. */
static void
accounts_sweep(struct service *svc, struct moment now)
{
	list_each_safe(a, &svc->accounts, struct account, link)
		if (a->connections == 0 && now.boot_ns - a->filled_ns >= NS_PER_S)
			account_free(a);
}

static bool
account_join(struct session *s, size_t i, const char *name, const struct quotas *max)
{
	struct account *a;

	if (!limits(max))
		return true;
	a = account_get(s->svc, name, max);
	if (!a)
		return false;
	a->connections++;
	s->accounts[i] = a;
	return !a->max.connections || a->connections <= a->max.connections;
}

bool
accounts_open(struct session *s, struct moment now)
{
	char name[128];
	struct quotas own = quotas_of_session(s), all = quotas_of_space(s);

	accounts_sweep(s->svc, now);
	identity_text(&s->id, name, sizeof name);
	if (account_join(s, OF_IDENTITY, name, &own)) {
		snprintf(name, sizeof name, "namespace:%.*s", (int)s->space_n, s->space);
		if (account_join(s, OF_SPACE, name, &all))
			return true;
	}
	s->svc->counters.refused_connections++;
	accounts_close(s);
	return false;
}

void
accounts_close(struct session *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->accounts); i++)
		account_leave(&s->accounts[i]);
}

void
accounts_renew(struct service *svc)
{
	list_each(s, &svc->sessions, struct session, link) {
		struct quotas own = quotas_of_session(s), all = quotas_of_space(s);

		if (s->accounts[OF_IDENTITY])
			account_limit(s->accounts[OF_IDENTITY], &own);
		if (s->accounts[OF_SPACE])
			account_limit(s->accounts[OF_SPACE], &all);
	}
}

void
accounts_free(struct service *svc)
{
	list_each_safe(a, &svc->accounts, struct account, link)
		account_free(a);
}

/* ---- how much ---- */

static bool
take(struct account *a, unsigned n, struct moment now)
{
	double max = a->max.requests_per_s;

	if (max == 0)
		return true;
	a->left += max * (double)(now.boot_ns - a->filled_ns) / (double)NS_PER_S;
	a->left = a->left > max ? max : a->left;
	a->filled_ns = now.boot_ns;
	/* One that is larger than the bucket passes when that is full. */
	if (a->left < n && a->left < max)
		return false;
	a->left -= n;
	return true;
}

bool
accounts_request(struct session *s, unsigned n, struct moment now)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->accounts); i++)
		if (s->accounts[i] && !take(s->accounts[i], n, now)) {
			s->svc->counters.refused_rate++;
			return false;
		}
	return true;
}

bool
accounts_waiter(struct session *s, int by)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->accounts); i++) {
		struct account *a = s->accounts[i];

		if (a && by > 0 && a->max.waiters && a->waiters >= a->max.waiters) {
			s->svc->counters.refused_waiters++;
			return false;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(s->accounts); i++)
		if (s->accounts[i])
			s->accounts[i]->waiters += (uint32_t)by;
	return true;
}

void
accounts_waiter_force(struct session *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->accounts); i++)
		if (s->accounts[i])
			s->accounts[i]->waiters++;
}

void
accounts_watcher_force(struct session *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->accounts); i++)
		if (s->accounts[i])
			s->accounts[i]->watchers++;
}

bool
accounts_watcher(struct session *s, int by)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->accounts); i++) {
		struct account *a = s->accounts[i];

		if (a && by > 0 && a->max.watchers && a->watchers >= a->max.watchers) {
			s->svc->counters.refused_watchers++;
			return false;
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(s->accounts); i++)
		if (s->accounts[i])
			s->accounts[i]->watchers += (uint32_t)by;
	return true;
}

/* ---- what is kept ---- */

struct count {
	const struct session *s;
	size_t which;
	struct store_use use;
	uint64_t queues;
};

static bool
count_queue(void *arg, const struct queue_view *q)
{
	struct count *c = arg;

	c->queues++;
	if (c->which == OF_SPACE ? access_space_is(c->s, q->name) : access_counts(c->s, q->name)) {
		c->use.jobs += q->jobs;
		c->use.bytes += q->bytes;
	}
	return true;
}

static uint64_t
room(uint64_t max, uint64_t used)
{
	return max == 0 ? UINT64_MAX : max > used ? max - used : 0;
}

/* Each update takes what it may need of what was left at the last count, which is made once for all
 * of them: never too much, and at the limit no more often than the queues allow. */
static void
count_anew(struct session *s, size_t which, struct moment now)
{
	struct account *a = s->accounts[which];
	struct count c = { .s = s, .which = which };
	uint64_t from = 0;

	if (now.boot_ns < a->count_again_ns)
		return;
	engine_queue_each(s->svc->cfg.engine, &from, count_queue, &c);
	a->count_again_ns =
		sat_add(now.boot_ns, COUNT_EACH_NS + (int64_t)c.queues * COUNT_QUEUE_NS);
	a->room.jobs = room(a->max.jobs, c.use.jobs);
	a->room.bytes = room(a->max.bytes, c.use.bytes);
}

static bool
fits(const struct account *a, const struct store_use *need)
{
	return need->jobs <= a->room.jobs && need->bytes <= a->room.bytes;
}

/* At most: when it is a new job. */
static struct store_use
need_at_most(const struct job_name *name, const struct op_update *u)
{
	struct store_use need = { .jobs = !u || !u->if_pending, .bytes = name->key.n };

	if (name->key.n == 0)
		need.bytes = MADE_KEY;
	if (u)
		need.bytes += u->payload.n + u->command.n;
	return need;
}

/* By what there is of it. */
static void
need_exactly(struct session *s, const struct job_name *name, const struct op_update *u,
	struct moment now, struct store_use *need)
{
	struct job_view j;
	uint64_t old;

	if (name->key.n == 0 || engine_get(s->svc->cfg.engine, now, name, &j) != ST_OK)
		return;
	*need = (struct store_use){ .bytes = u ? u->payload.n + u->command.n : 0 };
	if (!u || u->payload_mode == PAYLOAD_APPEND || !j.pending)
		return;
	old = j.payload_bytes + j.command.n;
	need->bytes = need->bytes > old ? need->bytes - old : 0;
}

const char *
accounts_store(struct session *s, const struct job_name *name, const struct op_update *u,
	struct moment now)
{
	struct store_use need = need_at_most(name, u);
	bool exact = false;

	for (size_t i = 0; i < ARRAY_SIZE(s->accounts); i++) {
		struct account *a = s->accounts[i];

		if (!a || (a->max.jobs == 0 && a->max.bytes == 0))
			continue;
		if (!fits(a, &need) && !exact) {
			need_exactly(s, name, u, now, &need);
			exact = true;
		}
		if (!fits(a, &need))
			count_anew(s, i, now);
		if (need.jobs > a->room.jobs) {
			s->svc->counters.refused_jobs++;
			return "so many jobs, and no more";
		}
		if (need.bytes > a->room.bytes) {
			s->svc->counters.refused_bytes++;
			return "so many bytes of keys and payloads, and no more";
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(s->accounts); i++) {
		struct account *a = s->accounts[i];

		if (a && (a->max.jobs || a->max.bytes)) {
			a->room.jobs -= need.jobs;
			a->room.bytes -= need.bytes;
		}
	}
	return NULL;
}
