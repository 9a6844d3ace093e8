/* conf: what a file gives, how an error reads, what the parser must not be allowed to do. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "conf/check.h"
#include "conf/conf.h"
#include "conf/option.h"
#include "conf/source.h"
#include "unit/unit.h"

static char path[64];

static void
write_file(const char *text, size_t n)
{
	int fd;

	snprintf(path, sizeof path, "/tmp/wqd-conf-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
	close(fd);
}

static struct config *
load(const char *text)
{
	struct config *c = NULL;
	char *why = NULL;
	int err;

	write_file(text, strlen(text));
	err = config_load(path, &c, &why);
	unlink(path);
	ck_assert_msg(err == 0, "%s", why ? why : "no message");
	return c;
}

/* The text is refused and the message, without the file's path, begins with `begin` and has
 * `part` in it; one line. */
static void
refused_bytes(const char *text, size_t n, const char *begin, const char *part)
{
	struct config *c = NULL;
	char *why = NULL;
	size_t skip;

	write_file(text, n);
	skip = strlen(path);
	ck_assert_int_eq(config_load(path, &c, &why), ERR_CONFIG);
	unlink(path);
	ck_assert_ptr_null(c);
	ck_assert_ptr_nonnull(why);
	ck_assert_msg(strncmp(why, path, skip) == 0 && !strpbrk(why, "\n\x7f"), "%s", why);
	ck_assert_msg(strncmp(why + skip, begin, strlen(begin)) == 0 && strstr(why, part),
		"%s\nwanted: %s...%s", why, begin, part);
	x_free(why);
}

static void
refused(const char *text, const char *begin, const char *part)
{
	refused_bytes(text, strlen(text), begin, part);
}

#define MS NS_PER_MS

START_TEST(no_file_gives_the_defaults)
{
	struct config *c;
	char *why;

	ck_assert_int_eq(config_load(NULL, &c, &why), 0);
	ck_assert_str_eq(c->state_dir, "/var/lib/wqd");
	ck_assert_str_eq(c->listen[0], "unix:/run/wqd/wqd.sock");
	ck_assert_ptr_null(c->listen[1]);
	ck_assert_ptr_null(c->socket_group);
	ck_assert_uint_eq(c->socket_mode, 0660);
	ck_assert_str_eq(c->store, "sqlite");
	ck_assert_int_eq(c->log_level, LOG_INFO_);
	ck_assert_int_eq(c->commit_interval_ns, 50 * MS);
	ck_assert_int_eq(c->stop_timeout_ns, 20000 * MS);
	ck_assert_uint_eq(c->frame_max, 2u << 20);
	ck_assert_uint_eq(c->output_max, 1u << 20);
	ck_assert_uint_eq(c->max_in_flight, 65536);
	ck_assert_uint_eq(c->max_bytes, 8ull << 30);
	ck_assert(!c->allow_plaintext);
	ck_assert_uint_eq(c->n_handlers + c->n_queues, 0);
	config_free(c);
}
END_TEST

START_TEST(the_example_of_the_manual_parses)
{
	struct config *c = load(
		"state_dir = \"/var/lib/wqd\"\n"
		"listen    = { \"unix:/run/wqd/wqd.sock\", \"tcp://127.0.0.1:7421\" }\n"
		"handler \"page\" { command = { \"/usr/local/bin/page\", \"--now\" }  timeout = "
		"\"30s\" }\n"
		"queue \"hb\"   { handler = \"page\"  max_active = 4  misfire = \"rearm\"  slack = "
		"\"50ms\"  durability = \"async\" }\n"
		"queue \"mail\" { ordered = true  retention = \"1h\" }\n");
	const struct handler *h = config_handler(c, STR("page"));
	const struct queue_settings *q = &c->queues[0].settings;

	ck_assert_str_eq(c->listen[1], "tcp://127.0.0.1:7421");
	ck_assert_ptr_nonnull(h);
	ck_assert_str_eq(h->command[0], "/usr/local/bin/page");
	ck_assert_str_eq(h->command[1], "--now");
	ck_assert_ptr_null(h->command[2]);
	ck_assert_int_eq(h->timeout_ns, 30000 * MS);
	ck_assert_int_eq(h->grace_ns, 5000 * MS);
	ck_assert_uint_eq(h->output_max, 65536);
	ck_assert_uint_eq(h->umask, 022);
	ck_assert_str_eq(h->directory, "/");
	ck_assert_uint_eq(c->n_queues, 2);
	ck_assert_str_eq(c->queues[0].name, "hb");
	ck_assert_int_eq(q->action, ACTION_EXEC);
	ck_assert_str_eq(q->handler, "page");
	ck_assert_uint_eq(q->max_active, 4);
	ck_assert_int_eq(q->misfire, MISFIRE_REARM);
	ck_assert_int_eq(q->slack_ns, 50 * MS);
	ck_assert_int_eq(c->queues[1].settings.action, ACTION_NONE);
	ck_assert(c->queues[1].settings.ordered);
	ck_assert_int_eq(c->queues[1].settings.retention_ns, 3600000 * MS);
	config_free(c);
}
END_TEST

START_TEST(values_need_no_quotes_and_sections_may_come_in_any_order)
{
	struct config *c = load("queue q {\n\thandler = h\r\n}\n"
				"handler h { command = /bin/true nice = -5 umask = 077\n"
				"env = { 'A=1', \"B=x y\" } keep_children = on }\n"
				"frame_max = 4m max_queues = 12\nlog_level = debug\n"
				"socket_mode = 0600 listen = { \"tcp://[::1]:7421\" }");

	ck_assert_int_eq(c->handlers[0].nice, -5);
	ck_assert_uint_eq(c->handlers[0].umask, 077);
	ck_assert_str_eq(c->handlers[0].env[1], "B=x y");
	ck_assert(c->handlers[0].keep_children);
	ck_assert_uint_eq(c->frame_max, 4u << 20);
	ck_assert_uint_eq(c->socket_mode, 0600);
	ck_assert_int_eq(c->log_level, LOG_DEBUG_);
	ck_assert_str_eq(c->listen[0], "tcp://[::1]:7421");
	config_free(c);
}
END_TEST

START_TEST(the_environment_is_never_put_into_a_text)
{
	struct config *c = load("handler h { command = { \"sh\", \"-c\", \"echo ${HOME} $HOME "
				"\\${HOME} ${X:-y}\", '${HOME}' } }");

	ck_assert_str_eq(c->handlers[0].command[2], "echo ${HOME} $HOME ${HOME} ${X:-y}");
	ck_assert_str_eq(c->handlers[0].command[3], "${HOME}");
	config_free(c);
	refused("state_dir = ${HOME}\n", ":1: ", "quotes");
}
END_TEST

START_TEST(comments_do_not_move_the_line)
{
	refused("# one\n// two\n/* three\n * four */ # rest\n\nfoo = 1 # \"\n", ":6: ", "\"foo\"");
	refused("state_dir = \"/a\nb\"\nfoo = 1\n", ":3: ", "\"foo\"");
	refused("queue a { slack = 1s } # x\n\nqueue b {\n#y\nslack = 1x }\n",
		":5: queue \"b\": ", "slack: \"1x\"");
}
END_TEST

START_TEST(what_the_lexer_would_pass_in_silence_is_refused)
{
	refused("listen = tcp://127.0.0.1:1\n", ":1: ", "comment begins inside a word");
	refused("\n/* a\n\n", ":2: ", "does not end");
	refused("\nstate_dir = \"/a\n\n", ":2: ", "string begins here");
	refused("state_dir = '/a", ":1: ", "string begins here");
	refused("state_dir = \"/a\\0b\"\n", ":1: ", "\\0");
	refused("state_dir = \"/a\\x0\"\n", ":1: ", "\\0");
	refused("state_dir = \"/a\\000\"\n", ":1: ", "\\0");
	refused_bytes("max_jobs = 5\n\0", 14, ":1: ", "NUL");
	refused("max_jobs = 5 * 3\n", ":1: ", "quotes");
	refused("max_jobs = 5;\n", ":1: ", "quotes");
	refused("listen += { \"unix:/a\" }\n", ":1: ", "+=");
	refused("listen = { }\n", ":1: ", "empty list");
	refused("\"queue|ordered\" = yes\n", ":1: ", "unknown option");
	refused("queue a { }\n\"queue|ordered\" = yes\n", ":2: ", "inside its section");
	refused("include(\"/etc/passwd\")\n", ":1: ", "special");
}
END_TEST

START_TEST(an_escape_is_what_it_says)
{
	struct config *c = load("handler h { command = { \"a\\x41\\101\\t\\\"\\01\", 'b\\n' } }");

	ck_assert_str_eq(c->handlers[0].command[0], "aAA\t\"\001");
	ck_assert_str_eq(c->handlers[0].command[1], "b\\n");
	config_free(c);
	refused("state_dir = \"/\\999\"\n", ":1: ", "");
	/* The lexer forgets where it was when it failed. */
	config_free(load("max_jobs = 5\n"));
}
END_TEST

START_TEST(unknown_options_come_with_a_suggestion)
{
	refused("max_conections = 1\n", ":1: unknown option \"max_conections\"; ",
		"did you mean \"max_connections\"?");
	refused("max_active = 1\n", ":1: unknown option", "it is an option of queue sections");
	refused("queue q { state_dir = /a }\n", ":1: queue \"q\": unknown option",
		"it is an option of the top level");
	refused("namespace \"a/b\" { }\n", ":1: namespace \"a/b\": bad name",
		"1 to 32 letters, digits");
	refused("handler \"a/b\" { }\n", ":1: handler \"a/b\": bad name", "bytes of UTF-8");
	refused("queues a { }\n", ":1: ", "did you mean \"queue\"?");
	refused("handler h { zzzzzzzzz = 3 }\n", ":1: handler \"h\": ", "--dump-options");
	refused("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz = 3\n",
		":1: ", "--dump-options");
	refused("\"a\\nb\" = 3\n", ":1: unknown option \"a\\x0ab\"", "");
	refused("a\x7f = b c\n", ":1: ", "");
	refused("\n'' = 3\n", ":2: \"\" is no option; right is: ", "");
	refused("queue q {\n\"\" = 3 }\n", ":1: \"\" is no option; right is: ", "");
}
END_TEST

START_TEST(wrong_values_say_what_would_be_right)
{
	refused("max_jobs = many\n", ":1: max_jobs: \"many\" is no such value; right is: ",
		"number from 1 to 1000000000");
	refused("max_jobs = 0\n", ":1: max_jobs: \"0\" is out of range", "from 1");
	refused("max_jobs = 99999999999999999999\n", ":1: ", "out of range");
	refused("max_connections = -1\n", ":1: max_connections: ", "number");
	refused("frame_max = 1k\n", ":1: frame_max: \"1k\" is out of range", "from 64k to 64m");
	refused("hello_timeout = 5\n", ":1: hello_timeout: ", "duration from 100ms to 1h");
	refused("hello_timeout = 2h\n", ":1: hello_timeout: ", "out of range");
	refused("allow_plaintext = maybe\n", ":1: allow_plaintext: ", "yes or no");
	refused("socket_mode = 0680\n", ":1: socket_mode: ", "octal mode from 0 to 0777");
	refused("socket_mode = 07777\n", ":1: socket_mode: ", "out of range");
	refused("store = postgres\n", ":1: store: ", "one of sqlite, memory");
	refused("log_level = loud\n", ":1: log_level: ", "one of error, warning, info, debug");
	refused("state_dir = var\n", ":1: state_dir: ", "absolute path");
	refused("state_dir = \"\"\n", ":1: state_dir: ", "absolute path");
	refused("socket_group = \"no such group\"\n", ":1: socket_group: ", "an existing group");
	refused("handler h { command = x user = \"no such user\" }\n",
		":1: handler \"h\": user: ", "an existing user");
	refused("handler h { command = x nice = -21 }\n", ":1: ", "number from -20 to 19");
	refused("handler h { command = x directory = a }\n", ":1: ", "absolute path");
	refused("handler h { command = x env = { \"A\" } }\n", ":1: ", "NAME=value");
	refused("handler h { command = x env = { \"WQ_KEY=a\" } }\n", ":1: ", "WQ_");
	refused("queue q { max_active = { 4 } }\n", ":1: unexpected token '{'; ", "right is");
	refused("queue q { ordered = perhaps }\n", ":1: queue \"q\": ordered: ", "yes or no");
	refused("queue q { misfire = later }\n",
		":1: queue \"q\": misfire: ", "one of run, skip, rearm");
	refused("queue q { max_active = 4000000000000 }\n", ":1: ", "out of range");
}
END_TEST

START_TEST(addresses_are_checked)
{
	static const char *const good[] = { "unix:/a", "tcp://127.0.0.1:0", "tcp://[::1]:65535",
		"tcp://localhost:7421" };
	static const char *const bad[] = { "", "unix:", "unix:a", "/run/x", "tcp://", "tcp://a",
		"tcp://:1", "tcp://::1:5", "tcp://a:65536", "tcp://a:-1", "tcp://a:b",
		"tcp://a/b:1", "tls://a", "ssl://a:1",
		"unix:/"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaa" };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		ck_assert_msg(check_address(str_from(good[i])), "%s", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_msg(!check_address(str_from(bad[i])), "%s", bad[i]);
	refused("\nlisten = { \"tcp://0.0.0.0:7421\" }\n", ":2: listen: ", "allow_plaintext = yes");
	refused("listen = { \"tcp://[::]:7421\" }\n", ":1: listen: ", "allow_plaintext = yes");
	refused("listen = { \"unix:/a\", \"unix:/a\" }\n", ":1: listen: ", "twice");
	config_free(load("allow_plaintext = yes listen = { \"tcp://0.0.0.0:7421\" }\n"));
}
END_TEST

START_TEST(everything_is_said_once)
{
	refused("max_jobs = 1\nmax_jobs = 2\n", ":2: max_jobs: ", "second time");
	refused("listen = { \"unix:/a\" }\nlisten = { \"unix:/b\" }\n",
		":2: listen: ", "second time");
	refused("queue q { slack = 1s\nslack = 1s }\n", ":2: queue \"q\": slack: ", "second time");
	refused("handler a { command = x command = y }\n",
		":1: handler \"a\": command: ", "second time");
	refused("handler a { command = x }\nhandler a { command = y }\n",
		":2: handler \"a\": ", "second time");
	refused("queue a { }\nqueue b { }\nqueue a { }\n", ":3: queue \"a\": ", "second time");
	refused("handler a { command = x env = { \"A=1\", \"A=2\" } }\n",
		":1: handler \"a\": env: A", "twice");
	config_free(load("handler a { command = x }\nqueue a { }\n"));
}
END_TEST

START_TEST(handlers_must_be_whole)
{
	refused("handler a {\n}\n", ":2: handler \"a\": command is missing", "right is");
	refused("handler a { command = \"\" }\n", ":1: handler \"a\": command: ", "empty");
	refused("handler a { command = bin/x }\n", ":1: handler \"a\": command: ", "relative");
	refused("handler a { command = ./x }\n", ":1: handler \"a\": command: ", "relative");
	refused("handler \"\" { command = x }\n", ":1: handler \"\": ", "name");
	refused("handler \"a/b\" { command = x }\n", ":1: handler \"a/b\": ", "name");
	refused("handler a { command = x\n", ":1: ", "not closed");
	refused("}\n", ":1: a } that closes nothing", "");
	refused("handler a { command = x b { } }\n", ":1: handler \"a\": unknown option", "");
	refused("handler a { command = { x, { y } } }\n", ":1: ", "{ too many");
	refused("handler { command = x }\n", ":1: missing title", "right is");
	refused("handler a command = x\n", ":1: missing opening brace", "right is");
	refused("max_jobs 5\n", ":1: missing equal sign", "NAME = VALUE");
}
END_TEST

START_TEST(queues_must_make_sense)
{
	refused("queue q {\nhandler = nobody }\nmax_jobs = 3\n",
		":2: queue \"q\": handler: ", "defined nowhere");
	refused("queue q { action = exec }\n", ":1: queue \"q\": ", "needs a handler");
	refused("handler h { command = x }\nqueue q { action = none handler = h }\n",
		":2: ", "no use");
	refused("handler h { command = x }\nqueue q { handler = h action = none }\n",
		":2: ", "no use");
	refused("queue q { action = webhook }\n", ":1: ", "not in this version");
	refused("queue q { action = mail }\n", ":1: ", "one of none, exec");
	refused("queue \"a/b/c\" { }\n", ":1: queue \"a/b/c\": ", "name");
	refused("queue \"a\\xff\" { }\n", ":1: queue \"a\\xff\": ", "UTF-8");
	refused("queue q { ordered = yes max_active = 2 }\n", ":1: queue \"q\": ", "");
}
END_TEST

START_TEST(a_file_that_cannot_be_read_says_why)
{
	struct config *c = NULL;
	char *why = NULL;

	ck_assert_int_eq(config_load("/nonexistent/wqd.conf", &c, &why), -ENOENT);
	ck_assert_str_eq(why, "/nonexistent/wqd.conf: No such file or directory");
	x_free(why);
	ck_assert_int_eq(config_load("/tmp", &c, &why), -EISDIR);
	ck_assert_str_eq(why, "/tmp: Is a directory");
	x_free(why);
	ck_assert_int_eq(config_load("/dev/zero", &c, &why), ERR_TOO_LONG);
	x_free(why);
	ck_assert_int_eq(config_load("/dev/null", &c, &why), 0);
	config_free(c);
}
END_TEST

START_TEST(no_memory_at_any_point_is_an_error_and_no_leak)
{
	static const char text[] =
		"state_dir = /a listen = { \"unix:/a\", \"unix:/b\" }\n"
		"handler h { command = { x, y } env = { \"A=1\" } user = root }\n"
		"queue q { handler = h }\n";
	int err = -ENOMEM;

	write_file(text, sizeof text - 1);
	for (int i = 0; err; i++) {
		struct config *c = NULL;
		char *why = NULL;

		alloc_fault_set(i, 0);
		err = config_load(path, &c, &why);
		alloc_fault_set(-1, 0);
		ck_assert_int_lt(i, 1000);
		if (err) {
			ck_assert_int_eq(err, -ENOMEM);
			ck_assert_ptr_nonnull(why);
			x_free(why);
		} else {
			config_free(c);
		}
	}
	unlink(path);
}
END_TEST

START_TEST(what_a_reload_cannot_change_is_named)
{
	struct config *a = load("listen = { \"unix:/a\" }\n");
	struct config *b = load("listen = { \"unix:/b\" } max_jobs = 7 log_level = debug\n");
	char names[64];

	ck_assert_uint_eq(config_need_restart(a, b, names, sizeof names), 2);
	ck_assert_str_eq(names, "listen, max_jobs");
	ck_assert_uint_eq(config_need_restart(a, a, names, sizeof names), 0);
	ck_assert_str_eq(names, "");
	ck_assert_uint_eq(config_need_restart(a, b, names, 4), 2);
	config_free(a);
	config_free(b);
}
END_TEST

/* Each row reads its own default, and the text that it prints of it. */
static void
check_scope(const struct option_scope *s, void *base)
{
	char text[1024], range[512], again[1024];

	ck_assert_int_eq(options_default(s, base), 0);
	for (size_t i = 0; i < s->n; i++) {
		const struct option *o = &s->rows[i];

		ck_assert_uint_gt(strlen(o->doc), 10);
		ck_assert_uint_gt(strlen(option_range(o, range, sizeof range)), 3);
		if (!o->def)
			continue;
		option_get(o, base, text, sizeof text);
		option_clear(o, base);
		ck_assert_int_eq(option_set(o, base, text), 0);
		ck_assert_str_eq(option_get(o, base, again, sizeof again), text);
	}
	options_clear(s, base);
}

START_TEST(every_row_is_sound)
{
	struct config c = { 0 };
	struct handler h = { 0 };

	check_scope(&config_scope, &c);
	check_scope(&handler_scope, &h);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("conf");
	TCase *tc = unit_case(s, "conf");

	tcase_add_test(tc, no_file_gives_the_defaults);
	tcase_add_test(tc, the_example_of_the_manual_parses);
	tcase_add_test(tc, values_need_no_quotes_and_sections_may_come_in_any_order);
	tcase_add_test(tc, the_environment_is_never_put_into_a_text);
	tcase_add_test(tc, comments_do_not_move_the_line);
	tcase_add_test(tc, what_the_lexer_would_pass_in_silence_is_refused);
	tcase_add_test(tc, an_escape_is_what_it_says);
	tcase_add_test(tc, unknown_options_come_with_a_suggestion);
	tcase_add_test(tc, wrong_values_say_what_would_be_right);
	tcase_add_test(tc, addresses_are_checked);
	tcase_add_test(tc, everything_is_said_once);
	tcase_add_test(tc, handlers_must_be_whole);
	tcase_add_test(tc, queues_must_make_sense);
	tcase_add_test(tc, a_file_that_cannot_be_read_says_why);
	tcase_add_test(tc, no_memory_at_any_point_is_an_error_and_no_leak);
	tcase_add_test(tc, what_a_reload_cannot_change_is_named);
	tcase_add_test(tc, every_row_is_sound);
	return unit_run(s);
}
