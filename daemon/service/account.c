#include "service/account.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "service/internal.h"

/* At its limit a namespace's queues are counted no more often than this. */
#define COUNT_EACH_NS (2 * NS_PER_MS)

/* ---- which ---- */

static void
least(uint32_t *to, uint32_t limit)
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
	}
	return q;
}

static struct quotas
quotas_of_space(const struct service *svc, const char *space)
{
	const struct grants *g = svc->grants;

	for (size_t i = 0; g && i < g->n_namespaces; i++)
		if (strcmp(g->namespaces[i].name, space) == 0)
			return g->namespaces[i].all;
	return (struct quotas){ 0 };
}

static bool
limits(const struct quotas *q)
{
	return q->connections || q->requests_per_s || q->waiters || q->watchers || q->jobs;
}

static struct account *
account_get(struct service *svc, const char *name, const struct quotas *max)
{
	struct account *a;

	list_each(old, &svc->accounts, struct account, link)
		if (strcmp(old->name, name) == 0) {
			old->max = *max;
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
account_leave(struct account **at)
{
	struct account *a = *at;

	*at = NULL;
	if (!a || --a->connections > 0)
		return;
	wq_assert(a->waiters == 0 && a->watchers == 0);
	list_del(&a->link);
	x_free(a);
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
	char name[128], space[NAMESPACE_NAME_MAX + 1];
	struct quotas own = quotas_of_session(s), all;

	(void)now;
	identity_text(&s->id, name, sizeof name);
	snprintf(space, sizeof space, "%.*s", (int)s->space_n, s->space);
	all = quotas_of_space(s->svc, space);
	if (account_join(s, 0, name, &own)) {
		snprintf(name, sizeof name, "namespace:%s", space);
		if (account_join(s, 1, name, &all))
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
		char space[NAMESPACE_NAME_MAX + 1];

		if (s->accounts[0])
			s->accounts[0]->max = quotas_of_session(s);
		snprintf(space, sizeof space, "%.*s", (int)s->space_n, s->space);
		if (s->accounts[1])
			s->accounts[1]->max = quotas_of_space(svc, space);
	}
}

void
accounts_free(struct service *svc)
{
	wq_assert(list_empty(&svc->accounts));
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

/* ---- jobs of a namespace ---- */

struct count {
	const struct session *s;
	uint64_t jobs;
};

static bool
count_queue(void *arg, const struct queue_view *q)
{
	struct count *c = arg;
	struct str outer = queue_name_outer(q->name);
	size_t n = q->name.n - outer.n;

	if (n ? n - 1 == c->s->space_n && memcmp(q->name.p, c->s->space, n - 1) == 0
	      : c->s->space_n == 0)
		c->jobs += q->jobs;
	return true;
}

/* Each that may be new takes one of what was left when the queues were last counted: never too many,
 * and the count is made once for all of them, not for each. */
bool
accounts_job(struct session *s, struct moment now)
{
	struct account *a = s->accounts[1];
	struct count c = { .s = s };
	uint64_t from = 0;

	if (!a || a->max.jobs == 0)
		return true;
	if (a->jobs_left == 0 && now.boot_ns - a->counted_ns >= COUNT_EACH_NS) {
		a->counted_ns = now.boot_ns;
		engine_queue_each(s->svc->cfg.engine, &from, count_queue, &c);
		a->jobs_left = a->max.jobs > c.jobs ? a->max.jobs - c.jobs : 0;
	}
	if (a->jobs_left == 0)
		return false;
	a->jobs_left--;
	return true;
}
