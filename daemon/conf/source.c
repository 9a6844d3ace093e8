#include "conf/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/err.h"

#define NESTING_MAX 2 /* a list in a section */

struct scan {
	const char *p, *end;
	char *out;
	char last, before; /* the last two characters outside strings that were not blank */
	bool glued;        /* nothing blank since `last` */
	int line;
	int opened[NESTING_MAX]; /* lines of the braces that are open */
	int depth;
	const char *what;
};

static int
refuse(struct scan *s, int line, const char *what)
{
	s->what = what;
	s->line = line;
	return ERR_CONFIG;
}

static char
peek(const struct scan *s, size_t ahead)
{
	return (size_t)(s->end - s->p) > ahead ? s->p[ahead] : '\0';
}

static void
put(struct scan *s, char c)
{
	if (c == '\n')
		s->line++;
	*s->out++ = c;
}

/* Takes one character; blanks it but keeps the line's end. */
static void
blank(struct scan *s)
{
	char c = *s->p++;

	put(s, c == '\n' ? '\n' : ' ');
}

static bool
ends_word(char c)
{
	return c == '\0' || strchr("{}=,;\"'", c) != NULL;
}

static int
skip_comment(struct scan *s)
{
	int from = s->line;
	bool block = s->p[0] == '/' && peek(s, 1) == '*';

	if (s->p[0] == '/' && s->glued && !ends_word(s->last))
		return refuse(s, from, "a comment begins inside a word; put the value in quotes");
	s->glued = false;
	if (!block) {
		while (s->p < s->end && *s->p != '\n')
			blank(s);
		return 0;
	}
	blank(s);
	blank(s);
	while (s->p < s->end && !(s->p[0] == '*' && peek(s, 1) == '/'))
		blank(s);
	if (s->p == s->end)
		return refuse(s, from, "a comment begins here and does not end");
	blank(s);
	blank(s);
	return 0;
}

/* Whether the escape at `p` ("\...") names the character NUL: up to three octal or two
 * hexadecimal digits, all 0. */
static bool
escapes_nul(const struct scan *s)
{
	bool hex = peek(s, 1) == 'x';
	size_t first = hex ? 2 : 1, max = hex ? 2 : 3, n = 0;
	char next;

	while (n < max && peek(s, first + n) == '0')
		n++;
	next = peek(s, first + n);
	if (n == 0 || n == max)
		return n > 0;
	return next == '\0' || !strchr(hex ? "123456789abcdefABCDEF" : "1234567", next);
}

static int
copy_string(struct scan *s)
{
	int from = s->line;
	char quote = *s->p;

	put(s, *s->p++);
	while (s->p < s->end && *s->p != quote) {
		if (quote == '"' && s->p[0] == '$' && peek(s, 1) == '{')
			put(s, '\\');
		if (*s->p == '\\' && s->p + 1 < s->end) {
			if (quote == '"' && escapes_nul(s))
				return refuse(s, s->line, "a text can't hold the character \\0");
			put(s, *s->p++);
		}
		put(s, *s->p++);
	}
	if (s->p == s->end)
		return refuse(s, from, "a string begins here and does not end");
	put(s, *s->p++);
	s->before = s->last;
	s->last = quote;
	s->glued = true;
	return 0;
}

/* The parser takes the end of the file for the end of a section. */
static int
brace(struct scan *s, char c)
{
	if (c == '}' && s->last == '{' && s->before == '=')
		return refuse(s, s->line, "an empty list sets nothing; leave the option out");
	if (c == '}' && s->depth == 0)
		return refuse(s, s->line, "a } that closes nothing");
	if (c == '{' && s->depth == NESTING_MAX)
		return refuse(s, s->line, "a { too many; sections hold options and lists alone");
	if (c == '{')
		s->opened[s->depth++] = s->line;
	else
		s->depth--;
	return 0;
}

static int
copy_plain(struct scan *s)
{
	char c = *s->p;

	if (c == '\n' || c == ' ' || c == '\t' || c == '\r') {
		s->glued = false;
		blank(s);
		return 0;
	}
	if ((unsigned char)c < 0x20 || strchr("+*|()\\;$", c))
		return refuse(s, s->line,
			c == '+' ? "lists are set whole, with =; += is not known"
				 : "a character that stands for nothing here; texts with special "
				   "characters are put in quotes");
	if (c == '{' || c == '}') {
		int err = brace(s, c);

		if (err)
			return err;
	}
	s->before = s->last;
	s->last = c;
	s->glued = true;
	put(s, *s->p++);
	return 0;
}

static int
step(struct scan *s)
{
	char c = *s->p;

	if (c == '"' || c == '\'')
		return copy_string(s);
	if (c == '#' || (c == '/' && (peek(s, 1) == '/' || peek(s, 1) == '*')))
		return skip_comment(s);
	return copy_plain(s);
}

int
source_clean(const char *text, size_t n, char **out, const char **what, int *line)
{
	/* Each character becomes two at most. */
	char *clean = x_alloc(2 * n + 1);
	struct scan s = { .p = text, .end = text + n, .out = clean, .line = 1 };
	int err = 0;

	if (!clean)
		return -ENOMEM;
	if (memchr(text, '\0', n))
		err = refuse(&s, 1, "the file holds a NUL byte: it is no text");
	while (!err && s.p < s.end)
		err = step(&s);
	if (!err && s.depth > 0)
		err = refuse(&s, s.opened[s.depth - 1], "a { that is not closed");
	if (err) {
		x_free(clean);
		*what = s.what;
		*line = s.line;
		return err;
	}
	*s.out = '\0';
	*out = clean;
	return 0;
}

static int
read_all(int fd, struct buf *b)
{
	for (;;) {
		uint8_t *room = buf_reserve(b, 4096);
		ssize_t n;

		if (!room)
			return buf_len(b) + 4096 > b->max ? ERR_TOO_LONG : -ENOMEM;
		n = read(fd, room, 4096);
		if (n > 0)
			buf_commit(b, (size_t)n);
		else if (n == 0)
			return 0;
		else if (errno != EINTR)
			return -errno;
	}
}

int
source_read(const char *path, char **out, const char **what, int *line)
{
	/* Without O_NONBLOCK the open of a pipe would wait for a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err;
	struct stat sb;
	struct buf b;

	if (fd < 0)
		return -errno;
	/* A device is read as far as it goes: /dev/null is the way to ask for no settings. */
	if (fstat(fd, &sb) == 0 && (S_ISFIFO(sb.st_mode) || S_ISSOCK(sb.st_mode))) {
		close(fd);
		return ERR_NOT_OURS;
	}
	buf_init(&b, SOURCE_MAX + 4096);
	err = read_all(fd, &b);
	close(fd);
	if (!err)
		err = source_clean(
			b.data ? (const char *)buf_head(&b) : "", buf_len(&b), out, what, line);
	buf_done(&b);
	return err;
}
