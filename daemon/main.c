/*
 * wqd: arguments only; daemon.c does the rest.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "conf/conf.h"
#include "daemon.h"

enum { OPT_SOCKET = 256, OPT_STATE_DIR, OPT_CHECK, OPT_DUMP, OPT_VERSION };

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
	{ { "version", no_argument, NULL, OPT_VERSION }, NULL, "print the version and exit" },
	{ { "help", no_argument, NULL, 'h' }, NULL, "print this and exit" },
};

static void
usage(FILE *to)
{
	fputs("Usage: wqd [OPTION]...\n"
	      "Delayed work as a service: runs in the foreground until SIGTERM.\n\n",
		to);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		char name[64];

		snprintf(name, sizeof name, "%s--%s%s%s",
			options[i].opt.val == 'c'           ? "-c, "
				: options[i].opt.val == 'h' ? "-h, "
							    : "    ",
			options[i].opt.name, options[i].arg ? "=" : "",
			options[i].arg ? options[i].arg : "");
		fprintf(to, "  %-28s %s\n", name, options[i].doc);
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

int
main(int argc, char **argv)
{
	struct option longopts[ARRAY_SIZE(options) + 1] = { 0 };
	struct daemon_options opt = { 0 };
	bool check = false;
	int c;

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		longopts[i] = options[i].opt;
	while ((c = getopt_long(argc, argv, "c:h", longopts, NULL)) != -1) {
		switch (c) {
		case 'c':
			opt.config = optarg;
			break;
		case OPT_SOCKET:
			opt.socket = optarg;
			break;
		case OPT_STATE_DIR:
			opt.state_dir = optarg;
			break;
		case OPT_CHECK:
			check = true;
			break;
		case OPT_DUMP:
			return dump(optarg);
		case OPT_VERSION:
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
	return check ? daemon_check(&opt) : daemon_run(&opt);
}
