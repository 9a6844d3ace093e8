/*
 * The file of tokens: it is taken whole or refused whole, with one line that says
 * why and tells nothing of what stands in it. What is taken knows its tokens and
 * no others, whatever stands around them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/tokens.h"
#include "base/err.h"
#include "fuzz/fuzz.h"

#define TOKEN "0123456789abcdef"
#define NAME  "one that is surely known"
/* As wqd --hash-token makes it of that token, with the salt 000102... */
static const char line[] = "\n" NAME " sha256:000102030405060708090a0b0c0d0e0f:"
			   "6a3fbf35b1fdd0a0cbd438e6852f755236021790c2855bc664beea0ae1a88eab\n";

static int file = -1;
static char path[64];

static void
write_file(const uint8_t *data, size_t size, const char *more)
{
	if (file < 0) {
		file = memfd_create("tokens", MFD_CLOEXEC);
		wq_assert(file >= 0 && fchmod(file, 0600) == 0);
		snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	}
	wq_assert(ftruncate(file, 0) == 0);
	wq_assert(pwrite(file, data, size, 0) == (ssize_t)size);
	wq_assert(pwrite(file, more, strlen(more), (off_t)size) == (ssize_t)strlen(more));
}

static void
check_message(const char *why)
{
	char start[128];

	snprintf(start, sizeof start, "token_file: %s:", path);
	wq_assert(strncmp(why, start, strlen(start)) == 0);
	for (; *why; why++)
		wq_assert((unsigned char)*why >= 0x20 && (unsigned char)*why < 0x7f);
}

static int
load(struct tokens **out)
{
	char why[300] = "";
	int err = tokens_load(path, out, why, sizeof why);

	if (err == 0) {
		wq_assert(!why[0]);
		return 0;
	}
	wq_assert(!*out && (err == ERR_BAD_VALUE || err == ERR_TOO_LONG));
	check_message(why);
	return err;
}

/* A token as long as may be, of what stands in the file. */
static void
try_find(const struct tokens *t, const uint8_t *data, size_t size)
{
	struct str s = { (const char *)data, size < TOKEN_BYTES_MAX ? size : TOKEN_BYTES_MAX };
	char *exact = fuzz_copy(s.p, s.n, false);

	s.p = exact;
	wq_assert(!tokens_find(t, s) || s.n >= TOKEN_BYTES_MIN);
	x_free(exact);
	wq_assert(!tokens_find(t, STR_NONE) && !tokens_find(t, STR("0123456789abcde")));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int64_t live = alloc_live();
	struct tokens *t = NULL, *more = NULL;
	const char *name;

	write_file(data, size, "");
	if (load(&t) == 0) {
		try_find(t, data, size);
		/* Known before, or now: for a name twice, or a line too many, is refused. */
		write_file(data, size, line);
		if (load(&more) == 0) {
			name = tokens_find(more, STR(TOKEN));
			wq_assert(name && strcmp(name, NAME) == 0);
			wq_assert(!tokens_find(more, STR(TOKEN "0")));
			try_find(more, data, size);
		}
		tokens_free(more);
		tokens_free(t);
	}
	wq_assert(alloc_live() == live);
	return 0;
}
