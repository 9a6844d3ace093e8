/*
 * Configuration text: it is taken whole or refused whole, with one readable line
 * that says why; what is taken makes sense, reads the same a second time and
 * leaves nothing behind.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text.h"
#include "conf/conf.h"
#include "engine/ops.h"
#include "fuzz/fuzz.h"

static int file = -1;
static char path[64];

static void
write_file(const uint8_t *data, size_t size)
{
	if (file < 0) {
		file = memfd_create("wqd.conf", MFD_CLOEXEC);
		wq_assert(file >= 0);
		snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	}
	wq_assert(ftruncate(file, 0) == 0);
	wq_assert(pwrite(file, data, size, 0) == (ssize_t)size);
}

static void
check_message(const char *why)
{
	wq_assert(why && *why);
	for (; *why; why++)
		wq_assert((unsigned char)*why >= 0x20 && *why != 0x7f);
}

static void
check_handler(const struct config *c, const struct handler *h)
{
	wq_assert(h->command && h->command[0] && h->command[0][0]);
	wq_assert(h->timeout_ns >= 0 && h->grace_ns >= 0);
	wq_assert(queue_name_valid(str_from(h->name)));
	wq_assert(config_handler(c, str_from(h->name)) == h); /* no second of that name */
	for (char **e = h->env; e && *e; e++)
		wq_assert(strchr(*e, '=') > *e);
}

static void
check_queue(const struct config *c, const struct config_queue *q)
{
	const char *why = NULL;

	wq_assert(queue_name_inner_valid(str_from(q->name)));
	wq_assert(queue_settings_check(&q->settings, &why) == 0);
	if (q->settings.handler[0])
		wq_assert(config_handler(c, str_from(q->settings.handler)));
	for (const struct config_queue *other = c->queues; other < q; other++)
		wq_assert(strcmp(other->name, q->name) != 0);
}

static void
check_config(const struct config *c)
{
	wq_assert(c->state_dir && c->store && c->listen && c->listen[0]);
	for (size_t i = 0; i < c->n_handlers; i++)
		check_handler(c, &c->handlers[i]);
	for (size_t i = 0; i < c->n_queues; i++)
		check_queue(c, &c->queues[i]);
}

static void
check_same(const struct config *a, const struct config *b)
{
	char names[256];

	wq_assert(config_need_restart(a, b, names, sizeof names) == 0);
	wq_assert(a->n_handlers == b->n_handlers && a->n_queues == b->n_queues);
	for (size_t i = 0; i < a->n_queues; i++) {
		wq_assert(strcmp(a->queues[i].name, b->queues[i].name) == 0);
		wq_assert(memcmp(&a->queues[i].settings, &b->queues[i].settings,
				  sizeof a->queues[i].settings) == 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int64_t live = alloc_live();
	struct config *c = NULL, *again = NULL;
	char *why = NULL;
	int err;

	write_file(data, size);
	err = config_load(path, &c, &why);
	if (err == 0) {
		wq_assert(!why);
		check_config(c);
		wq_assert(config_load(path, &again, &why) == 0);
		check_same(c, again);
		config_free(again);
		config_free(c);
	} else {
		wq_assert(err == ERR_CONFIG && !c);
		check_message(why);
		x_free(why);
	}
	wq_assert(alloc_live() == live);
	return 0;
}
