#include "base/carry.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"

#define FLUSH_BYTES (1u << 20)
#define RECORD_MAX  (256u << 20) /* bytes of one */

struct record_head {
	uint32_t kind;
	uint32_t n; /* bytes of the fields */
};
struct field_head {
	uint32_t tag;
	uint32_t n;
};

/* Of tags of descriptors. */
#define FD_TAG 0x80000000u

static const char magic[8] = "wqcarry";

/* ---- out ---- */

static void
put(struct carry_out *o, const void *p, size_t n)
{
	if (o->error == 0)
		o->error = buf_put(&o->buf, p, n);
}

static void
flush(struct carry_out *o)
{
	while (o->error == 0 && buf_len(&o->buf) > 0) {
		ssize_t n = write(o->fd, buf_head(&o->buf), buf_len(&o->buf));

		if (n < 0 && errno != EINTR)
			o->error = -errno;
		if (n > 0)
			buf_consume(&o->buf, (size_t)n);
	}
}

int
carry_out_new(struct carry_out *o)
{
	*o = (struct carry_out){ .fd = memfd_create("wqd-state", MFD_CLOEXEC | MFD_ALLOW_SEALING) };
	buf_init(&o->buf, RECORD_MAX + FLUSH_BYTES);
	if (o->fd < 0)
		return -errno;
	put(o, magic, sizeof magic);
	return o->error;
}

void
carry_out_done(struct carry_out *o)
{
	if (o->fd >= 0)
		close(o->fd);
	buf_done(&o->buf);
	x_free(o->fds);
	o->fds = NULL;
	o->fd = -1;
}

void
carry_begin(struct carry_out *o, enum carry_kind kind)
{
	const struct record_head head = { .kind = (uint32_t)kind };

	o->at = buf_len(&o->buf);
	put(o, &head, sizeof head);
}

static void
put_field(struct carry_out *o, unsigned tag, const void *p, size_t n)
{
	const struct field_head head = { .tag = tag, .n = (uint32_t)n };

	if (n > RECORD_MAX && o->error == 0)
		o->error = ERR_TOO_LONG;
	put(o, &head, sizeof head);
	if (n > 0)
		put(o, p, n);
}

void
carry_u64(struct carry_out *o, unsigned tag, uint64_t v)
{
	put_field(o, tag, &v, sizeof v);
}

void
carry_bytes(struct carry_out *o, unsigned tag, struct str s)
{
	put_field(o, tag, s.p, s.n);
}

void
carry_fd(struct carry_out *o, unsigned tag, int fd)
{
	uint64_t v = (uint64_t)fd;
	int *fds;

	if (fd < 0)
		return;
	fds = x_realloc(o->fds, o->n_fds + 1, sizeof *fds);
	if (!fds) {
		o->error = o->error ? o->error : -ENOMEM;
		return;
	}
	o->fds = fds;
	o->fds[o->n_fds++] = fd;
	put_field(o, tag | FD_TAG, &v, sizeof v);
}

static void
keep_fd(int fd, bool keep)
{
	(void)fcntl(fd, F_SETFD, keep ? 0 : FD_CLOEXEC);
}

void
carry_keep_fds(const struct carry_out *o, bool keep)
{
	for (size_t i = 0; i < o->n_fds; i++)
		keep_fd(o->fds[i], keep);
}

void
carry_end(struct carry_out *o)
{
	struct record_head head;
	size_t n = buf_len(&o->buf) - o->at;

	if (o->error)
		return;
	memcpy(&head, buf_head(&o->buf) + o->at, sizeof head);
	head.n = (uint32_t)(n - sizeof head);
	memcpy(buf_head(&o->buf) + o->at, &head, sizeof head);
	if (buf_len(&o->buf) >= FLUSH_BYTES)
		flush(o);
}

int
carry_finish(struct carry_out *o)
{
	carry_begin(o, CARRY_END);
	carry_end(o);
	flush(o);
	if (o->error == 0 &&
		fcntl(o->fd, F_ADD_SEALS,
			F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		o->error = -errno;
	return o->error;
}

/* ---- in ---- */

/* The head at `at` and what follows is inside. */
static bool
record_at(const struct carry_in *in, size_t at, struct record_head *head)
{
	if (in->n - at < sizeof *head)
		return false;
	memcpy(head, in->map + at, sizeof *head);
	return head->n <= in->n - at - sizeof *head;
}

static bool
fields_whole(const uint8_t *p, size_t n)
{
	struct field_head head;

	while (n > 0) {
		if (n < sizeof head)
			return false;
		memcpy(&head, p, sizeof head);
		if (head.n > n - sizeof head)
			return false;
		p += sizeof head + head.n;
		n -= sizeof head + head.n;
	}
	return true;
}

/* All of it, once, so that readers need not look. */
static int
check(const struct carry_in *in)
{
	struct record_head head = { 0 };
	size_t at = sizeof magic;

	if (in->n < sizeof magic || memcmp(in->map, magic, sizeof magic) != 0)
		return ERR_DAMAGED;
	while (at < in->n) {
		if (!record_at(in, at, &head) || !fields_whole(in->map + at + sizeof head, head.n))
			return ERR_DAMAGED;
		at += sizeof head + head.n;
	}
	return head.kind == CARRY_END ? 0 : ERR_DAMAGED;
}

int
carry_in_open(struct carry_in *in, int fd)
{
	struct stat st;
	void *map;
	int err;

	*in = (struct carry_in){ 0 };
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size <= 0)
		return ERR_DAMAGED;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	in->map = map;
	in->n = (size_t)st.st_size;
	err = check(in);
	if (err < 0)
		carry_in_close(in);
	return err;
}

void
carry_in_close(struct carry_in *in)
{
	if (in->map)
		munmap((void *)(uintptr_t)in->map, in->n);
	*in = (struct carry_in){ 0 };
}

bool
carry_next(const struct carry_in *in, size_t *at, struct carry_record *out)
{
	struct record_head head;

	if (!in->map)
		return false;
	if (*at == 0)
		*at = sizeof magic;
	if (*at >= in->n)
		return false;
	wq_assert(record_at(in, *at, &head));
	*out = (struct carry_record){ (enum carry_kind)head.kind, in->map + *at + sizeof head,
		head.n };
	*at += sizeof head + head.n;
	return true;
}

/* The field at *p, which moves on. */
static bool
field_next(const uint8_t **p, const uint8_t *end, struct field_head *head, struct str *s)
{
	if (*p == end)
		return false;
	memcpy(head, *p, sizeof *head);
	*s = (struct str){ (const char *)*p + sizeof *head, head->n };
	*p += sizeof *head + head->n;
	return true;
}

struct str
carry_get(const struct carry_record *r, unsigned tag)
{
	const uint8_t *p = r->p;
	struct field_head head;
	struct str s;

	while (field_next(&p, r->p + r->n, &head, &s))
		if (head.tag == tag)
			return s;
	return STR_NONE;
}

int
carry_get_text(const struct carry_record *r, unsigned tag, char *dst, size_t size)
{
	struct str s = carry_get(r, tag);

	if (s.n >= size)
		return ERR_DAMAGED;
	if (s.n)
		memcpy(dst, s.p, s.n);
	dst[s.n] = '\0';
	return 0;
}

uint64_t
carry_get_u64(const struct carry_record *r, unsigned tag, uint64_t otherwise)
{
	struct str s = carry_get(r, tag);
	uint64_t v;

	if (s.n != sizeof v)
		return otherwise;
	memcpy(&v, s.p, sizeof v);
	return v;
}

size_t
carry_get_all(const struct carry_record *r, unsigned tag, struct str *v, size_t max)
{
	const uint8_t *p = r->p;
	struct field_head head;
	struct str s;
	size_t n = 0;

	while (field_next(&p, r->p + r->n, &head, &s))
		if (head.tag == tag) {
			if (n < max)
				v[n] = s;
			n++;
		}
	return n;
}

int
carry_get_fd(const struct carry_record *r, unsigned tag)
{
	uint64_t v = carry_get_u64(r, tag | FD_TAG, UINT64_MAX);

	return v <= INT32_MAX ? (int)v : -1;
}

void
carry_in_keep_fds(const struct carry_in *in, bool keep)
{
	struct carry_record r;
	struct field_head head;
	struct str s;
	size_t at = 0;

	while (carry_next(in, &at, &r))
		for (const uint8_t *p = r.p; field_next(&p, r.p + r.n, &head, &s);) {
			uint64_t v = 0;

			if (!(head.tag & FD_TAG) || s.n != sizeof v)
				continue;
			memcpy(&v, s.p, sizeof v);
			keep_fd((int)v, keep);
		}
}
