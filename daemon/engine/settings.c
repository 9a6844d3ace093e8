/*
 * One row a setting. Setting, showing and the defaults all go through the row's
 * type and text, so that a new setting is a field and a row.
 *
 * Two settings pull another along, so that the short way of writing says what
 * it means, in whatever order a request gives them:
 *  - `ordered` turned on makes a `max_active` that stands at its default 1. Any
 *    other value stays and queue_settings_check refuses the pair: an ordered
 *    queue is one at a time, and max_active of one that is ordered can't change.
 *  - naming a `handler` makes the action exec.
 */
#include "engine/settings.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/err.h"
#include "base/text.h"
#include "engine/ops.h"

#define DAY_NS  (86400 * NS_PER_S)
#define YEAR_NS (365 * DAY_NS)

#define MAX_ACTIVE_DEFAULT 16
#define TEXT_OF_(n)        #n
#define TEXT_OF(n)         TEXT_OF_(n)

#define AT(field) offsetof(struct queue_settings, field)
#define WORDS(name, field, table, least, def, doc) \
	{ \
		name, SET_WORD, AT(field), least, INT32_MAX, def, &table, doc \
	}
#define NUMBER(name, field, least, most, def, doc) \
	{ \
		name, SET_U32, AT(field), least, most, def, NULL, doc \
	}
#define SPAN(name, field, most, def, doc) \
	{ \
		name, SET_DURATION, AT(field), 0, most, def, NULL, doc \
	}

/* clang-format off */
const struct setting queue_setting_table[] = {
	WORDS("action", action, action_words, 0, "none",
		"what a run does: none (the firing is recorded), exec (the handler's command), lease "
		"(a worker that has subscribed gets it)"),
	{ "handler", SET_NAME, AT(handler), 0, HANDLER_NAME_MAX, "", NULL,
		"handler of the configuration that runs execute; naming one where the action is none "
		"makes it exec. Of a lease queue: the worker program that the daemon keeps for it" },
	{ "lease", SET_DURATION, AT(lease_ns), LEASE_MIN_NS, LEASE_MAX_NS, "30s", NULL,
		"how long a worker has a job without a touch before others may get it" },
	NUMBER("max_active", max_active, 0, 100000, TEXT_OF(MAX_ACTIVE_DEFAULT),
		"runs going on at once; 0 starts nothing"),
	{ "ordered", SET_BOOL, AT(ordered), 0, 1, "no", NULL,
		"strictly first in first out, one run at a time; max_active is 1 and can't be changed" },
	WORDS("priority", priority, priority_words, 0, "normal",
		"which ready jobs go first where queues share slots: high, normal, low"),
	{ "pool", SET_NAME, AT(pool), 0, QUEUE_POOL_MAX, "", NULL,
		"pool of the configuration that decides when runs of action exec start; none: default" },
	NUMBER("weight", weight, 1, 1000, "1",
		"starts that the queue gets in each of its turns among those of its pool and priority"),
	{ "reserve", SET_BOOL, AT(reserve), 0, 1, "no", NULL,
		"one run may start beyond the limits of its pool and of all runs, or short of memory" },
	{ "rate", SET_RATE, AT(rate), 0, RATE_MAX, "0", NULL,
		"starts in a second, minute, hour or day, retries included, spread evenly; 0: any number" },
	NUMBER("burst", burst, 1, BURST_MAX, "1",
		"of these, so many may come at once after a time with fewer"),
	NUMBER("prefix_limit", prefix_limit, 0, 100000, "0",
		"runs going on at once of jobs whose keys are alike up to prefix_separator; 0: any number"),
	{ "prefix_separator", SET_CHAR, AT(prefix_separator), 0, 0, ":", NULL,
		"the character that ends the part of a key that prefix_limit goes by" },
	{ "restart_rate", SET_RATE, AT(restart_rate), 0, RATE_MAX, "0", NULL,
		"after a start of the daemon deadlines that were missed come at this rate, the oldest "
		"first; 0: all at once, as fast as they may start" },
	WORDS("durability", durability, durability_words, LEVEL_SYNC, "async",
		"when a request that names no level is answered: sync (on disk), async, memory"),
	WORDS("misfire", misfire, misfire_words, 0, "run",
		"a deadline missed while the daemon was down: run (once), skip, rearm (full delay again)"),
	SPAN("slack", slack_ns, DAY_NS, "0",
		"lateness allowed so that an update that moves a deadline by less costs nothing"),
	SPAN("max_wait", max_wait_ns, DELAY_MAX_NS, "0",
		"longest that updates can push an instance away, from its creation on; 0: for ever"),
	NUMBER("max_attempts", max_attempts, 1, 1000000, "1",
		"attempts of a run before it is dead; 1: a failure is final and not retried"),
	NUMBER("max_interrupts", max_interrupts, 0, 1000, "3",
		"times in a row that a run cut by the end of the daemon is started again"),
	SPAN("retry_delay", retry_delay_ns, YEAR_NS, "1s",
		"wait before the second attempt"),
	WORDS("retry_backoff", retry_backoff, backoff_words, 0, "exponential",
		"wait before further attempts: fixed (the same), exponential (doubled each time)"),
	SPAN("retry_max_delay", retry_max_delay_ns, YEAR_NS, "1h",
		"longest wait before an attempt"),
	NUMBER("retry_jitter", retry_jitter, 0, 100, "0",
		"percent of that wait by which chance may shorten it, so that many don't come at once"),
	SPAN("retention", retention_ns, 100 * YEAR_NS, "1h",
		"how long results are kept"),
	NUMBER("retention_count", retention_count, 0, 10000000, "1000",
		"results kept at most, the newest"),
	NUMBER("max_jobs", max_jobs, 1, UINT32_MAX, "10000000",
		"jobs known at once, pending, running or kept"),
	NUMBER("max_parts", max_parts, 1, 65536, "1024",
		"payload parts that appending updates may gather"),
};
/* clang-format on */
const size_t queue_setting_count = ARRAY_SIZE(queue_setting_table);

static const struct setting *
setting_find(struct str name)
{
	for (size_t i = 0; i < queue_setting_count; i++)
		if (str_eq(name, str_from(queue_setting_table[i].name)))
			return &queue_setting_table[i];
	return NULL;
}

static void *
field(struct queue_settings *s, const struct setting *which)
{
	return (char *)s + which->offset;
}

static const void *
field_const(const struct queue_settings *s, const struct setting *which)
{
	return (const char *)s + which->offset;
}

/* All word fields are enums, which gcc and clang hold in an unsigned int here. */
_Static_assert(sizeof(enum action) == sizeof(unsigned) &&
		sizeof(enum priority) == sizeof(unsigned) &&
		sizeof(enum durability) == sizeof(unsigned) &&
		sizeof(enum misfire) == sizeof(unsigned) &&
		sizeof(enum backoff) == sizeof(unsigned),
	"a word setting is an unsigned int");

static int
set_word(const struct setting *which, struct str value, void *to)
{
	int n = word_number(which->words, value);
	unsigned u;

	if (n < which->min || n > which->max)
		return ERR_BAD_VALUE;
	u = (unsigned)n;
	memcpy(to, &u, sizeof u);
	return 0;
}

static int
set_name(const struct setting *which, struct str value, char *to)
{
	if (value.n > (size_t)which->max)
		return ERR_OUT_OF_RANGE;
	if (value.n > 0 && !queue_name_valid(value))
		return ERR_BAD_VALUE;
	if (value.n > 0)
		memcpy(to, value.p, value.n);
	to[value.n] = '\0';
	return 0;
}

static int
set_u32(const struct setting *which, struct str value, uint32_t *to)
{
	uint64_t v = 0;
	int err = text_u64(value, &v);

	if (err < 0)
		return err;
	if (v < (uint64_t)which->min || v > (uint64_t)which->max)
		return ERR_OUT_OF_RANGE;
	*to = (uint32_t)v;
	return 0;
}

static int
set_duration(const struct setting *which, struct str value, int64_t *to)
{
	int64_t v = 0;
	int err = text_duration(value, &v);

	if (err < 0)
		return err;
	if (v < which->min || v > which->max)
		return ERR_OUT_OF_RANGE;
	*to = v;
	return 0;
}

static const struct rate_unit {
	char letter;
	uint32_t s;
} rate_units[] = {
	{ 's', 1 },
	{ 'm', 60 },
	{ 'h', 3600 },
	{ 'd', 86400 },
};

static int
set_rate(const struct setting *which, struct str value, struct rate *to)
{
	uint64_t n = 0;
	int err;

	if (str_eq(value, STR("0"))) {
		*to = (struct rate){ 0 };
		return 0;
	}
	if (value.n < 3 || value.p[value.n - 2] != '/')
		return ERR_BAD_VALUE;
	err = text_u64((struct str){ value.p, value.n - 2 }, &n);
	if (err == ERR_BAD_VALUE)
		return err;
	for (size_t i = 0; i < ARRAY_SIZE(rate_units); i++) {
		if (rate_units[i].letter != value.p[value.n - 1])
			continue;
		if (err < 0 || n == 0 || n > (uint64_t)which->max)
			return ERR_OUT_OF_RANGE;
		*to = (struct rate){ (uint32_t)n, rate_units[i].s };
		return 0;
	}
	return ERR_BAD_VALUE;
}

static void
put_rate(char *dst, size_t size, const struct rate *r)
{
	char unit = '?';

	if (r->n == 0) {
		(void)snprintf(dst, size, "0");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(rate_units); i++)
		if (rate_units[i].s == r->per_s)
			unit = rate_units[i].letter;
	(void)snprintf(dst, size, "%" PRIu32 "/%c", r->n, unit);
}

static int
set_char(struct str value, char *to)
{
	if (value.n != 1 || value.p[0] <= ' ' || value.p[0] > '~')
		return ERR_BAD_VALUE;
	*to = value.p[0];
	return 0;
}

static int
set_field(struct queue_settings *s, const struct setting *which, struct str value)
{
	switch (which->type) {
	case SET_WORD:
		return set_word(which, value, field(s, which));
	case SET_NAME:
		return set_name(which, value, field(s, which));
	case SET_U32:
		return set_u32(which, value, field(s, which));
	case SET_BOOL:
		return text_bool(value, field(s, which));
	case SET_DURATION:
		return set_duration(which, value, field(s, which));
	case SET_RATE:
		return set_rate(which, value, field(s, which));
	case SET_CHAR:
		return set_char(value, field(s, which));
	}
	return ERR_BAD_VALUE;
}

void
queue_settings_default(struct queue_settings *s)
{
	*s = (struct queue_settings){ 0 };
	for (size_t i = 0; i < queue_setting_count; i++) {
		const struct setting *which = &queue_setting_table[i];
		int err = set_field(s, which, str_from(which->def));

		wq_assert(err == 0);
	}
}

int
queue_settings_set(struct queue_settings *s, struct str name, struct str value)
{
	const struct setting *which = setting_find(name);
	bool was_ordered = s->ordered;
	int err;

	if (!which)
		return ERR_UNKNOWN_NAME;
	err = set_field(s, which, value);
	if (err < 0)
		return err;
	if (s->ordered && !was_ordered && s->max_active == MAX_ACTIVE_DEFAULT)
		s->max_active = 1;
	if (which->offset == AT(handler) && s->handler[0] && s->action == ACTION_NONE)
		s->action = ACTION_EXEC;
	return 0;
}

static const char *
get_word(const struct setting *which, const void *from)
{
	unsigned u;

	memcpy(&u, from, sizeof u);
	wq_assert(u < (unsigned)which->words->n && which->words->words[u]);
	return which->words->words[u];
}

/* Where snprintf says what it would have written: what it did write. */
static size_t
put(char *dst, size_t size, const char *text)
{
	size_t n = strlen(text);

	if (size == 0)
		return 0;
	if (n > size - 1)
		n = size - 1;
	memcpy(dst, text, n);
	dst[n] = '\0';
	return n;
}

size_t
queue_settings_get(
	const struct queue_settings *s, const struct setting *which, char *dst, size_t size)
{
	const void *from = field_const(s, which);
	char text[64] = "";

	switch (which->type) {
	case SET_WORD:
		return put(dst, size, get_word(which, from));
	case SET_NAME:
		return put(dst, size, from);
	case SET_BOOL:
		return put(dst, size, *(const bool *)from ? "yes" : "no");
	case SET_U32:
		(void)snprintf(text, sizeof text, "%" PRIu32, *(const uint32_t *)from);
		break;
	case SET_RATE:
		put_rate(text, sizeof text, from);
		break;
	case SET_CHAR:
		text[0] = *(const char *)from;
		break;
	case SET_DURATION:
		(void)text_put_duration(text, sizeof text, *(const int64_t *)from);
		break;
	}
	return put(dst, size, text);
}

int
queue_settings_check(const struct queue_settings *s, const char **why)
{
	const char *wrong = NULL;

	if (s->ordered && s->max_active != 1)
		wrong = "an ordered queue runs one at a time: max_active can only be 1";
	else if (s->action == ACTION_EXEC && s->handler[0] == '\0')
		wrong = "action exec needs a handler";
	else if (s->action == ACTION_NONE && s->handler[0])
		wrong = "action none has no use for a handler";
	else if (s->max_wait_ns > 0 && s->slack_ns > s->max_wait_ns)
		wrong = "slack is longer than max_wait";
	else if (s->retry_delay_ns > s->retry_max_delay_ns)
		wrong = "retry_delay is longer than retry_max_delay";
	if (!wrong)
		return 0;
	*why = wrong;
	return ERR_BAD_VALUE;
}
