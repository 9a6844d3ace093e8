/* update and schedule: what the options say, as wq_update_opts_t; then one request or a batch. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl_mem.h"
#include "ctl_out.h"
#include "ctl_show.h"
#include "ctl_time.h"

/* More than any daemon takes; what is refused here need not be sent. */
#define PAYLOAD_FILE_MAX (16u << 20)

/* Reads all of `fd`: 0 or -errno. */
static int
read_all(int fd, struct ctl_payload *p)
{
	size_t room = 0;
	ssize_t n;

	do {
		if (p->len == room) {
			if (room > PAYLOAD_FILE_MAX)
				return -EFBIG;
			room = room ? 2 * room : 64 << 10;
			p->buf = ctl_grow(p->buf, room, 1);
		}
		n = read(fd, p->buf + p->len, room - p->len);
		if (n > 0)
			p->len += (size_t)n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? -errno : 0;
}

static int
read_file(struct ctl *c, const char *path, struct ctl_payload *p)
{
	bool from_stdin = strcmp(path, "-") == 0;
	int fd = from_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 ? -errno : read_all(fd, p);
	char what[256];

	if (fd >= 0 && !from_stdin)
		close(fd);
	snprintf(what, sizeof what, "read the payload%s%s", from_stdin ? "" : " from ",
		from_stdin ? "" : path);
	return rc < 0 ? ctl_fail_errno(c, what, -rc) : 0;
}

int
ctl_take_payload(struct ctl *c, wq_update_opts_t *opts, struct ctl_payload *file)
{
	const char *text = c->opt[OPT_PAYLOAD].text, *path = c->opt[OPT_PAYLOAD_FILE].text;
	int rc;

	if (text && path)
		return ctl_usage(c, "--payload and --payload-file exclude each other");
	if (!text && !path)
		return ctl_given(c, OPT_APPEND) ? ctl_usage(c, "--append needs a payload") : 0;
	if (path) {
		if (strcmp(path, "-") == 0 && ctl_given(c, OPT_STDIN))
			return ctl_usage(c, "--batch and --payload-file - both read stdin");
		rc = read_file(c, path, file);
		if (rc)
			return rc;
	}
	opts->payload_mode = ctl_given(c, OPT_APPEND) ? WQ_PAYLOAD_APPEND : WQ_PAYLOAD_REPLACE;
	opts->payload = path ? file->buf : text;
	opts->payload_len = path ? file->len : strlen(text);
	return 0;
}

static void
take_options(const struct ctl *c, wq_update_opts_t *opts)
{
	opts->mode = (wq_mode_t)ctl_num(c, OPT_MODE, c->verb->op);
	opts->if_pending = ctl_given(c, OPT_IF_PENDING);
	opts->slack_ms = ctl_num(c, OPT_SLACK, -1);
	opts->max_wait_ms = ctl_num(c, OPT_MAX_WAIT, -1);
	opts->align_ms = ctl_num(c, OPT_ALIGN, 0);
	opts->align_exact = ctl_given(c, OPT_ALIGN_EXACT);
	opts->durability = (wq_durability_t)ctl_num(c, OPT_DURABILITY, WQ_DEFAULT);
	opts->idempotency_id = c->opt[OPT_ID].text;
}

/* When: one of DELAY, --in, --at. 0 or CTL_USAGE. */
static int
take_time(struct ctl *c, int64_t *delay_ms, wq_update_opts_t *opts)
{
	int named = (c->n_args > 1) + ctl_given(c, OPT_IN) + ctl_given(c, OPT_AT);
	const char *wrong;

	if (named == 0)
		return ctl_usage(c, "no time is given: DELAY, --in or --at");
	if (named > 1)
		return ctl_usage(c, "DELAY, --in and --at exclude each other");
	*delay_ms = ctl_num(c, OPT_IN, 0);
	opts->at_ms = ctl_num(c, OPT_AT, -1);
	if (c->n_args == 1)
		return 0;
	wrong = ctl_duration_parse(c->arg[1], delay_ms);
	return wrong ? ctl_usage(c, "'%s' %s", c->arg[1], wrong) : 0;
}

static int
update_one(struct ctl *c, wq_update_opts_t *opts)
{
	struct ctl_target t;
	int64_t delay_ms = 0;
	int rc;

	if (c->n_args == 0)
		return ctl_usage(c, "an argument is missing: %s", c->verb->args);
	if ((rc = ctl_arg_target(c, 0, &t)) || (rc = take_time(c, &delay_ms, opts)) ||
		(rc = ctl_connect(c)))
		return rc;
	ctl_expect(c, &t, ctl_show_reply);
	return ctl_await(
		c, wq_send_update(c->wq, t.queue, t.key, delay_ms, opts, ctl_on_reply, c), false);
}

static int
update_batch(struct ctl *c, const wq_update_opts_t *opts)
{
	int rc;

	if (c->n_args || ctl_given(c, OPT_IN) || ctl_given(c, OPT_AT))
		return ctl_usage(c, "with --batch, targets and delays come from stdin");
	if (ctl_given(c, OPT_ID))
		return ctl_usage(c, "--id names one update, not a batch");
	rc = ctl_connect(c);
	return rc ? rc : ctl_do_batch(c, opts);
}

int
ctl_do_update(struct ctl *c)
{
	wq_update_opts_t opts = WQ_UPDATE_INIT;
	struct ctl_payload file = { NULL, 0 };
	int rc;

	if (ctl_given(c, OPT_ALIGN_EXACT) && !ctl_given(c, OPT_ALIGN))
		return ctl_usage(c, "--align-exact needs --align");
	take_options(c, &opts);
	rc = ctl_take_payload(c, &opts, &file);
	if (rc == 0)
		rc = ctl_given(c, OPT_STDIN) ? update_batch(c, &opts) : update_one(c, &opts);
	mem_free(file.buf);
	return rc;
}
