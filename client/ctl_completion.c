/* Named completions: wait, complete, complete-all, reinit, show. */
#include <stdio.h>

#include "ctl_out.h"
#include "ctl_text.h"

static json_t *
json_completion(const char *name, const wq_completion_info_t *now)
{
	static const char *const levels[] = { [WQ_DEFAULT] = "default",
		[WQ_SYNC] = "sync",
		[WQ_ASYNC] = "async",
		[WQ_MEMORY] = "memory" };
	bool known = (size_t)now->durability < ARRAY_LEN(levels);
	json_t *j = json_object();

	ctl_json_set(j, "outcome", ctl_text_jsons("OK"));
	ctl_json_set(j, "name", ctl_text_jsons(name));
	ctl_json_set(j, "done", json_integer(now->done));
	ctl_json_set(j, "open", json_boolean(now->open));
	ctl_json_set(j, "waiters", json_integer((json_int_t)now->waiters));
	ctl_json_set(j, "durability", ctl_text_jsons(known ? levels[now->durability] : "unknown"));
	return j;
}

static void
put_completion(const char *name, const wq_completion_info_t *now)
{
	ctl_text_puts(stdout, name);
	if (now->open)
		fputs("  open", stdout);
	else
		printf("  done %u", (unsigned)now->done);
	printf("  waiters %llu\n", (unsigned long long)now->waiters);
}

int
ctl_do_completion(struct ctl *c)
{
	wq_durability_t level = (wq_durability_t)ctl_num(c, OPT_DURABILITY, WQ_DEFAULT);
	wq_completion_info_t now;
	int rc = ctl_connect(c);

	if (rc)
		return rc;
	rc = wq_completion(c->wq, (wq_completion_op_t)c->verb->op, c->arg[0], level, &now);
	if (rc < 0)
		return ctl_fail(c, rc, NULL);
	if (c->json)
		ctl_json_put(c, json_completion(c->arg[0], &now));
	else if (!c->quiet)
		put_completion(c->arg[0], &now);
	return CTL_DONE;
}

int
ctl_do_completion_wait(struct ctl *c)
{
	int rc = ctl_connect(c);

	if (rc)
		return rc;
	rc = wq_completion_wait(c->wq, c->arg[0], ctl_wait_ms(c));
	if (rc < 0)
		return ctl_fail(c, rc, NULL);
	if (c->json) {
		json_t *j = json_object();

		ctl_json_set(j, "outcome", ctl_text_jsons("OK"));
		ctl_json_set(j, "name", ctl_text_jsons(c->arg[0]));
		ctl_json_put(c, j);
	} else if (!c->quiet) {
		ctl_text_puts(stdout, c->arg[0]);
		fputs("  completed\n", stdout);
	}
	return CTL_DONE;
}
