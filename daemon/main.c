/*
 * wqd: arguments only; daemon.c does the rest.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/err.h"
#include "conf/conf.h"
#include "daemon.h"
#include "offline.h"
#include "upgrade.h"

enum {
	OPT_SOCKET = 256,
	OPT_STATE_DIR,
	OPT_CHECK,
	OPT_DUMP,
	OPT_CHECK_STATE,
	OPT_EXPORT_STATE,
	OPT_HASH,
	OPT_CHECK_UPGRADE
};

static const struct {
	struct option opt;
	const char *arg, *doc;
} options[] = {
	{ { "config", required_argument, NULL, 'c' }, "FILE", "configuration file" },
	{ { "socket", required_argument, NULL, OPT_SOCKET }, "PATH",
		"unix socket to listen on, instead of the file's" },
	{ { "state-dir", required_argument, NULL, OPT_STATE_DIR }, "DIR",
		"state directory, instead of the file's" },
	{ { "check", no_argument, NULL, OPT_CHECK }, NULL, "check the configuration and exit" },
	{ { "dump-options", optional_argument, NULL, OPT_DUMP }, "text|man",
		"list every option and queue setting and exit" },
	{ { "check-state", optional_argument, NULL, OPT_CHECK_STATE }, "text|json",
		"read all of the state and tell whether it is in order" },
	{ { "export-state", no_argument, NULL, OPT_EXPORT_STATE }, NULL,
		"write the state to stdout as lines of JSON" },
	{ { "hash-token", required_argument, NULL, OPT_HASH }, "NAME",
		"read a token from standard input, print its line for token_file and exit" },
	{ { "check-upgrade", no_argument, NULL, OPT_CHECK_UPGRADE }, NULL,
		"whether this program can take over from a running one, and exit" },
	{ { "version", no_argument, NULL, 'V' }, NULL, "print the version and exit" },
	{ { "help", no_argument, NULL, 'h' }, NULL, "print this and exit" },
};

static void
usage(FILE *to)
{
	fputs("Usage: wqd [OPTION]...\n"
	      "Delayed work as a service: runs in the foreground until SIGTERM.\n\n",
		to);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		const struct option *o = &options[i].opt;
		bool maybe = o->has_arg == optional_argument;
		char letter[8] = "    ", name[64];

		if (o->val < OPT_SOCKET)
			snprintf(letter, sizeof letter, "-%c, ", o->val);
		snprintf(name, sizeof name, "%s--%s%s%s%s%s", letter, o->name, maybe ? "[" : "",
			options[i].arg ? "=" : "", options[i].arg ? options[i].arg : "",
			maybe ? "]" : "");
		fprintf(to, "  %-30s %s\n", name, options[i].doc);
	}
	fputs("\nSIGHUP reads the configuration again. See wqd(8) and wqd.conf(5).\n", to);
}

static int
dump(const char *format)
{
	if (format && strcmp(format, "text") != 0 && strcmp(format, "man") != 0) {
		fprintf(stderr, "wqd: --dump-options: '%s' is neither text nor man\n", format);
		return WQD_EXIT_USAGE;
	}
	config_dump_options(format ? format : "text");
	return fflush(stdout) == 0 ? WQD_EXIT_OK : WQD_EXIT_FAILED;
}

/* The socket's address is handed to runs, which have a working directory of their own. */
static int
absolute(char *dst, size_t size, const char *path)
{
	char cwd[PATH_MAX] = "";
	int n;

	if (path[0] != '/' && !getcwd(cwd, sizeof cwd))
		return -errno;
	n = snprintf(dst, size, "%s%s%s", cwd, cwd[0] ? "/" : "", path);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* Descriptors 0 to 2 must be taken, or the log would go into the first file or connection opened. */
static bool
fill_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) != fd)
			return false;
	return true;
}

/* Where the program is now: what stands there later is what an upgrade takes. NULL: not known. */
static const char *
find_exe(char *dst, size_t size)
{
	static const char gone[] = " (deleted)";
	ssize_t n = readlink("/proc/self/exe", dst, size - 1);

	if (n <= 0)
		return NULL;
	dst[n] = '\0';
	/* It has been replaced already. */
	if ((size_t)n > strlen(gone) && strcmp(dst + n - strlen(gone), gone) == 0)
		dst[(size_t)n - strlen(gone)] = '\0';
	return dst;
}

/* Options that say what is done instead of serving: one of them can be meant. */
static bool
is_action(int option)
{
	switch (option) {
	case OPT_CHECK:
	case OPT_DUMP:
	case OPT_CHECK_STATE:
	case OPT_EXPORT_STATE:
	case OPT_HASH:
	case OPT_CHECK_UPGRADE:
		return true;
	default:
		return false;
	}
}

int
main(int argc, char **argv)
{
	struct option longopts[ARRAY_SIZE(options) + 1] = { 0 };
	struct daemon_options opt = { 0 };
	char socket[PATH_MAX], exe[PATH_MAX];
	enum {
		RUN,
		CHECK,
		CHECK_STATE,
		CHECK_STATE_JSON,
		EXPORT_STATE,
		CHECK_UPGRADE
	} action = RUN;
	int c, r, at = 0, first = -1;

	if (!fill_descriptors())
		return WQD_EXIT_FAILED;
	opt.argv = argv;
	opt.exe = find_exe(exe, sizeof exe);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		longopts[i] = options[i].opt;
	while ((c = getopt_long(argc, argv, "c:hV", longopts, &at)) != -1) {
		if (is_action(c) && first >= 0 && longopts[first].val != c) {
			fprintf(stderr,
				"wqd: --%s and --%s exclude each other\nTry 'wqd --help'.\n",
				longopts[first].name, longopts[at].name);
			return WQD_EXIT_USAGE;
		}
		if (is_action(c))
			first = at;
		switch (c) {
		case 'c':
			opt.config = optarg;
			break;
		case OPT_SOCKET:
			r = absolute(socket, sizeof socket, optarg);
			if (r < 0) {
				fprintf(stderr, "wqd: --socket: %s: %s\n", optarg, err_str(r));
				return WQD_EXIT_FAILED;
			}
			opt.socket = socket;
			break;
		case OPT_STATE_DIR:
			opt.state_dir = optarg;
			break;
		case OPT_CHECK:
			action = CHECK;
			break;
		case OPT_DUMP:
			return dump(optarg);
		case OPT_CHECK_STATE:
			if (optarg && strcmp(optarg, "text") != 0 && strcmp(optarg, "json") != 0) {
				fprintf(stderr,
					"wqd: --check-state: '%s' is neither text nor json\n",
					optarg);
				return WQD_EXIT_USAGE;
			}
			action = optarg && strcmp(optarg, "json") == 0 ? CHECK_STATE_JSON
								       : CHECK_STATE;
			break;
		case OPT_EXPORT_STATE:
			action = EXPORT_STATE;
			break;
		case OPT_HASH:
			return daemon_hash_token(optarg);
		case OPT_CHECK_UPGRADE:
			action = CHECK_UPGRADE;
			break;
		case 'V':
			puts(PACKAGE_STRING);
			return WQD_EXIT_OK;
		case 'h':
			usage(stdout);
			return WQD_EXIT_OK;
		default:
			fputs("Try 'wqd --help'.\n", stderr);
			return WQD_EXIT_USAGE;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "wqd: unexpected argument '%s'\nTry 'wqd --help'.\n", argv[optind]);
		return WQD_EXIT_USAGE;
	}
	switch (action) {
	case CHECK:
		return daemon_check(&opt);
	case CHECK_STATE:
	case CHECK_STATE_JSON:
		return offline_check(&opt, action == CHECK_STATE_JSON);
	case EXPORT_STATE:
		return offline_export(&opt);
	case CHECK_UPGRADE:
		return upgrade_check(&opt);
	case RUN:
		break;
	}
	return daemon_run(&opt);
}
