/*
 * A fuzz target without a fuzzer: tries every seed of its folder, and changed
 * copies of each that are the same in every run. TAP, a line a seed.
 *
 *   replay_NAME              the seeds
 *   replay_NAME FILE...      these inputs, unchanged: to look at a finding
 *
 * An input that aborts the program is left in the file replay_NAME.crash.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "unit/random.h"

#define COPIES   200 /* changed ones of a seed */
#define SEED_MAX (1u << 20)
#define ROOM     (2 * SEED_MAX)

static uint8_t *input; /* what is being tried */
static size_t input_len;
static char crash_path[4096];

/* Async-signal-safe. */
static void
leave_crash(int sig)
{
	int fd = open(crash_path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);

	if (fd >= 0 && write(fd, input, input_len) >= 0)
		close(fd);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void
read_input(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, input, SEED_MAX);

	if (n < 0) {
		perror(path);
		exit(EXIT_FAILURE);
	}
	close(fd);
	input_len = (size_t)n;
}

static void
insert(struct rnd *r)
{
	size_t at = rnd_below(r, input_len + 1);

	memmove(input + at + 1, input + at, input_len - at);
	input[at] = (uint8_t)rnd_next(r);
	input_len++;
}

static void
cut_out(struct rnd *r)
{
	size_t at = rnd_below(r, input_len), n = 1 + rnd_below(r, 8);

	if (n > input_len - at)
		n = input_len - at;
	memmove(input + at, input + at + n, input_len - at - n);
	input_len -= n;
}

static void
repeat(struct rnd *r)
{
	size_t at = rnd_below(r, input_len), n = 1 + rnd_below(r, 32);

	if (n > input_len - at)
		n = input_len - at;
	memmove(input + at + n, input + at, input_len - at);
	input_len += n;
}

/* The values at which things begin to go wrong. */
static void
set_extreme(struct rnd *r)
{
	static const uint8_t extreme[] = { 0, 1, 0x7f, 0x80, 0xff, '\n', '"', '{', '0', '9' };

	input[rnd_below(r, input_len)] = extreme[rnd_below(r, sizeof extreme)];
}

static void
change(struct rnd *r)
{
	for (uint64_t i = 1 + rnd_below(r, 4); i > 0; i--) {
		uint64_t how = input_len ? rnd_below(r, 6) : 0;

		if (how == 0 && input_len < ROOM)
			insert(r);
		else if (how == 1)
			cut_out(r);
		else if (how == 2 && input_len < ROOM - 32)
			repeat(r);
		else if (how == 3)
			set_extreme(r);
		else if (how == 4)
			input_len = rnd_below(r, input_len);
		else
			input[rnd_below(r, input_len)] ^= (uint8_t)(1u << rnd_below(r, 8));
	}
}

static void
try_seed(const char *path)
{
	struct rnd r = { 1 };
	uint8_t *seed;
	size_t len;

	read_input(path);
	LLVMFuzzerTestOneInput(input, input_len);
	len = input_len;
	seed = (uint8_t *)fuzz_copy(input, len, false);
	for (int i = 0; i < COPIES; i++) {
		memcpy(input, seed, len);
		input_len = len;
		change(&r);
		LLVMFuzzerTestOneInput(input, input_len);
	}
	x_free(seed);
}

static int
no_dots(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static int
try_all_seeds(const char *folder)
{
	struct dirent **names;
	char path[4096];
	int n = scandir(folder, &names, no_dots, alphasort);

	if (n <= 0) {
		fprintf(stderr, "no seeds in %s\n", folder);
		return EXIT_FAILURE;
	}
	printf("1..%d\n", n);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
		printf("# %s\n", path);
		fflush(stdout);
		try_seed(path);
		printf("ok %d - %s\n", i + 1, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	return EXIT_SUCCESS;
}

int
main(int argc, char **argv)
{
	int status = EXIT_SUCCESS;

	input = must_alloc(ROOM);
	snprintf(crash_path, sizeof crash_path, "%s.crash", argv[0]);
	signal(SIGABRT, leave_crash);
	signal(SIGSEGV, leave_crash);
	if (argc == 1)
		status = try_all_seeds(FUZZ_SEEDS);
	for (int i = 1; i < argc; i++) {
		read_input(argv[i]);
		LLVMFuzzerTestOneInput(input, input_len);
		printf("%s: passed\n", argv[i]);
	}
	x_free(input);
	return status;
}
