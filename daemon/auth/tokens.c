#include "auth/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "engine/ops.h"

#define TOKENS_MAGIC 0x70c30001u
#define SALT_BYTES   16
#define HASH_BYTES   32
#define FILE_MAX     (256u << 10)
#define SCHEME       "sha256:"

struct token {
	char name[TOKEN_NAME_MAX + 1];
	uint8_t salt[SALT_BYTES], hash[HASH_BYTES];
};

struct tokens {
	unsigned magic;
	size_t n;
	struct token v[];
};

static bool
hash(const uint8_t salt[SALT_BYTES], struct str token, uint8_t out[HASH_BYTES])
{
	uint8_t bytes[SALT_BYTES + TOKEN_BYTES_MAX];
	int ok;

	memcpy(bytes, salt, SALT_BYTES);
	memcpy(bytes + SALT_BYTES, token.p, token.n);
	ok = EVP_Digest(bytes, SALT_BYTES + token.n, out, NULL, EVP_sha256(), NULL);
	OPENSSL_cleanse(bytes, sizeof bytes);
	return ok == 1;
}

const char *
tokens_find(const struct tokens *t, struct str token)
{
	const char *found = NULL;
	uint8_t got[HASH_BYTES];

	CHECK_OBJ(t, TOKENS_MAGIC);
	if (token.n < TOKEN_BYTES_MIN || token.n > TOKEN_BYTES_MAX)
		return NULL;
	for (size_t i = 0; i < t->n; i++)
		if (hash(t->v[i].salt, token, got) &&
			CRYPTO_memcmp(got, t->v[i].hash, HASH_BYTES) == 0)
			found = t->v[i].name;
	return found;
}

static void
put_hex(char *dst, const uint8_t *p, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		dst[2 * i] = digits[p[i] >> 4];
		dst[2 * i + 1] = digits[p[i] & 15];
	}
	dst[2 * n] = '\0';
}

static int
digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool
get_hex(const char *s, uint8_t *dst, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int hi = digit(s[2 * i]), lo = hi < 0 ? -1 : digit(s[2 * i + 1]);

		if (lo < 0)
			return false;
		dst[i] = (uint8_t)(hi << 4 | lo);
	}
	return true;
}

int
tokens_hash(struct str token, char dst[TOKEN_LINE_MAX])
{
	char salt_text[2 * SALT_BYTES + 1], hash_text[2 * HASH_BYTES + 1];
	uint8_t salt[SALT_BYTES], h[HASH_BYTES];

	if (token.n < TOKEN_BYTES_MIN || token.n > TOKEN_BYTES_MAX)
		return ERR_OUT_OF_RANGE;
	if (getrandom(salt, sizeof salt, 0) != sizeof salt || !hash(salt, token, h))
		return -EIO;
	put_hex(salt_text, salt, sizeof salt);
	put_hex(hash_text, h, sizeof h);
	snprintf(dst, TOKEN_LINE_MAX, SCHEME "%s:%s", salt_text, hash_text);
	return 0;
}

/* ---- the file ---- */

/* "NAME sha256:SALT:HASH" */
static bool
parse(struct str line, struct token *out)
{
	const char *space = memchr(line.p, ' ', line.n);
	size_t name_n = space ? (size_t)(space - line.p) : 0;
	const char *p = space ? space + 1 : NULL;
	size_t rest = space ? line.n - name_n - 1 : 0;

	if (!key_valid((struct str){ line.p, name_n }) || name_n > TOKEN_NAME_MAX ||
		rest != strlen(SCHEME) + 2 * SALT_BYTES + 1 + 2 * HASH_BYTES ||
		memcmp(p, SCHEME, strlen(SCHEME)) != 0)
		return false;
	p += strlen(SCHEME);
	if (!get_hex(p, out->salt, SALT_BYTES) || p[2 * SALT_BYTES] != ':' ||
		!get_hex(p + 2 * SALT_BYTES + 1, out->hash, HASH_BYTES))
		return false;
	snprintf(out->name, sizeof out->name, "%.*s", (int)name_n, line.p);
	return true;
}

static bool
has(const struct tokens *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->v[i].name, name) == 0)
			return true;
	return false;
}

static int
parse_all(struct str text, struct tokens *t, const char *path, char *why, size_t size)
{
	const char *end = text.p + text.n;
	int number = 0;

	for (const char *p = text.p, *nl; p < end; p = nl + 1) {
		struct token token = { 0 };
		struct str line;

		nl = memchr(p, '\n', (size_t)(end - p));
		nl = nl ? nl : end;
		line = (struct str){ p, (size_t)(nl - p) };
		number++;
		if (line.n == 0 || line.p[0] == '#')
			continue;
		/* What the line holds is not repeated: it may be a token put there by mistake. */
		if (!parse(line, &token) || has(t, token.name) || t->n == TOKENS_MAX) {
			snprintf(why, size,
				"token_file: %s:%d: no line as wqd --hash-token makes it, a name "
				"twice, or more than %d",
				path, number, TOKENS_MAX);
			return ERR_BAD_VALUE;
		}
		t->v[t->n++] = token;
	}
	return 0;
}

static int
fail(char *why, size_t size, const char *path, int err, const char *what)
{
	snprintf(why, size, "token_file: %s: %s", path, what ? what : err_str(err));
	return err;
}

static int
read_file(const char *path, char *dst, size_t *n, char *why, size_t size)
{
	/* Without O_NONBLOCK the open of a pipe would wait for a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t got = 0;
	int err = 0;

	if (fd < 0)
		return fail(why, size, path, -errno, NULL);
	if (fstat(fd, &st) < 0)
		err = fail(why, size, path, -errno, NULL);
	else if (!S_ISREG(st.st_mode) || (st.st_mode & (S_IWGRP | S_IWOTH)))
		err = fail(why, size, path, ERR_NOT_OURS,
			"it is no file that its owner alone may write");
	*n = 0;
	while (!err && *n < FILE_MAX && (got = read(fd, dst + *n, FILE_MAX - *n)) > 0)
		*n += (size_t)got;
	if (!err && got < 0)
		err = fail(why, size, path, -errno, NULL);
	if (!err && *n == FILE_MAX)
		err = fail(why, size, path, ERR_TOO_LONG, NULL);
	close(fd);
	return err;
}

int
tokens_load(const char *path, struct tokens **out, char *why, size_t size)
{
	struct tokens *t = x_zalloc(sizeof *t + TOKENS_MAX * sizeof(struct token));
	char *text = x_alloc(FILE_MAX);
	size_t n = 0;
	int err;

	if (!t || !text)
		err = fail(why, size, path, -ENOMEM, NULL);
	else
		err = read_file(path, text, &n, why, size);
	if (!err) {
		t->magic = TOKENS_MAGIC;
		err = parse_all((struct str){ text, n }, t, path, why, size);
	}
	if (text)
		OPENSSL_cleanse(text, FILE_MAX);
	x_free(text);
	if (err) {
		x_free(t);
		return err;
	}
	*out = t;
	return 0;
}

void
tokens_free(struct tokens *t)
{
	if (!t)
		return;
	CHECK_OBJ(t, TOKENS_MAGIC);
	MAGIC_DONE(t);
	x_free(t);
}
