#include "wire/hot.h"

#include <endian.h>
#include <string.h>

#include "base/assert.h"
#include "wire/arena.h"
#include "wire/encode.h"

/* A tag of one byte: field numbers up to 15. */
#define VARINT(field) ((field) << 3)
#define BYTES(field)  ((field) << 3 | 2)

/* Where the reading of a message is. Fields come in the order of their numbers, as encoders write
 * them: each is looked for where it may stand, so what comes again or out of order is what is left. */
struct reader {
	const uint8_t *p, *end;
	unsigned tag; /* of the next field; 0: none, or one that nobody has */
};

static inline struct reader
reader_of(const uint8_t *p, size_t n)
{
	return (struct reader){ p, p + n, n ? *p : 0 };
}

/* It has been read up to `p`. */
static inline bool
go_on(struct reader *r, const uint8_t *p)
{
	r->p = p;
	r->tag = p < r->end ? *p : 0;
	return true;
}

/* Nothing is left. */
static inline bool
at_end(const struct reader *r)
{
	return r->p == r->end;
}

/* ---- reading; NULL or false: left to protobuf-c ---- */

static const uint8_t *
get_varint_near_end(const uint8_t *p, const uint8_t *end, uint64_t *v)
{
	uint64_t got = 0;

	/* The tenth byte is a matter of taste. */
	for (int shift = 0; p < end && shift < 63; shift += 7) {
		got |= (uint64_t)(*p & 0x7f) << shift;
		if (*p++ < 0x80) {
			*v = got;
			return p;
		}
	}
	return NULL;
}

/* Up to eight bytes at once: the groups of seven bits close up, pairs first. */
static inline const uint8_t *
get_varint(const uint8_t *p, const uint8_t *end, uint64_t *v)
{
	uint64_t x, stop;
	unsigned last;

	if (p < end && *p < 0x80) {
		*v = *p;
		return p + 1;
	}
	if (end - p < 8)
		return get_varint_near_end(p, end, v);
	memcpy(&x, p, sizeof x);
	x = le64toh(x);
	stop = ~x & 0x8080808080808080;
	if (!stop)
		return get_varint_near_end(p, end, v);
	last = (unsigned)__builtin_ctzll(stop); /* the highest bit of the last byte */
	x &= (2ull << last) - 1;
	x = (x & 0x007f007f007f007f) | (x & 0x7f007f007f007f00) >> 1;
	x = (x & 0x00003fff00003fff) | (x & 0x3fff00003fff0000) >> 2;
	*v = (x & 0x000000000fffffff) | (x & 0x0fffffff00000000) >> 4;
	return p + (last >> 3) + 1;
}

static inline bool
read_number(struct reader *r, uint64_t *v)
{
	const uint8_t *p = get_varint(r->p + 1, r->end, v);

	return p && go_on(r, p);
}

static inline bool
read_bytes(struct reader *r, struct str *s)
{
	uint64_t n;
	const uint8_t *p = get_varint(r->p + 1, r->end, &n);

	if (!p || n > (uint64_t)(r->end - p))
		return false;
	*s = (struct str){ (const char *)p, (size_t)n };
	return go_on(r, p + n);
}

/* ---- values; false: left to protobuf-c ---- */

static inline bool
take_ms(uint64_t v, int64_t *ns)
{
	*ns = (int64_t)(v * NS_PER_MS);
	return v <= INT64_MAX / NS_PER_MS;
}

static inline bool
take_bool(uint64_t v, bool *out)
{
	*out = v == 1;
	return v <= 1;
}

#define COUNT_WORD(...) +1
/* The words of these tables are numbered from 0 on without a gap. */
#define TAKE_ENUM(func, TABLE, type) \
	static inline bool func(uint64_t v, enum type *out) \
	{ \
		*out = (enum type)v; \
		return v < 0 TABLE(COUNT_WORD); \
	}

TAKE_ENUM(take_update_mode, UPDATE_MODE_TABLE, update_mode)
TAKE_ENUM(take_payload_mode, PAYLOAD_MODE_TABLE, payload_mode)
TAKE_ENUM(take_cancel_mode, CANCEL_MODE_TABLE, cancel_mode)
TAKE_ENUM(take_level, DURABILITY_TABLE, durability)

/* ---- messages ---- */

#define F_DELAY 3
#define F_AT    4

/* `field` is not the next, or was read and is as `take` wants it. */
#define NUMBER_OR_NOT(r, field, take) \
	((r)->tag != VARINT(field) || (read_number((r), &v) && (take)))
#define BYTES_OR_NOT(r, field, to) ((r)->tag != BYTES(field) || read_bytes((r), (to)))

/* What few ask for. */
static bool
get_update_rest(struct reader *r, struct op_update *u)
{
	uint64_t v;

	return NUMBER_OR_NOT(r, 5, take_update_mode(v, &u->mode)) &&
		NUMBER_OR_NOT(r, 6, take_bool(v, &u->if_pending)) &&
		NUMBER_OR_NOT(r, 7, take_ms(v, &u->slack_ns)) &&
		NUMBER_OR_NOT(r, 8, take_ms(v, &u->max_wait_ns)) &&
		NUMBER_OR_NOT(r, 9, take_ms(v, &u->align_ns)) &&
		NUMBER_OR_NOT(r, 10, take_bool(v, &u->align_exact)) &&
		NUMBER_OR_NOT(r, 11, take_payload_mode(v, &u->payload_mode)) &&
		BYTES_OR_NOT(r, 12, &u->payload) &&
		NUMBER_OR_NOT(r, 13, take_level(v, &u->level)) && BYTES_OR_NOT(r, 14, &u->idem) &&
		u->idem.n <= IDEM_MAX && at_end(r);
}

static inline bool
get_update(struct str msg, struct op_update *u)
{
	struct reader r = reader_of((const uint8_t *)msg.p, msg.n);
	uint64_t v;

	*u = (struct op_update){ .slack_ns = -1, .max_wait_ns = -1 };
	if (!BYTES_OR_NOT(&r, 1, &u->job.key) || !BYTES_OR_NOT(&r, 2, &u->job.queue))
		return false;
	/* One of the two, with both the last would count. */
	if (r.tag != VARINT(F_DELAY) && r.tag != VARINT(F_AT))
		return false;
	u->absolute = r.tag == VARINT(F_AT);
	if (!read_number(&r, &v) || !take_ms(v, &u->when_ns))
		return false;
	return at_end(&r) || get_update_rest(&r, u);
}

/* Updates in the batch; 0 when there is anything else, or too many. */
static size_t
count_updates(struct str msg)
{
	struct reader r = reader_of((const uint8_t *)msg.p, msg.n);
	struct str update;
	size_t n = 0;

	while (!at_end(&r)) {
		if (r.tag != BYTES(1) || !read_bytes(&r, &update))
			return 0;
		n++;
	}
	return n > BATCH_MAX ? 0 : n;
}

static bool
get_batch(struct arena *a, struct str msg, struct request *out)
{
	size_t n = count_updates(msg);
	struct op_update *v = n ? arena_alloc(a, n * sizeof *v) : NULL;
	struct reader r = reader_of((const uint8_t *)msg.p, msg.n);
	struct str update = STR_NONE;

	if (!v)
		return false;
	for (size_t i = 0; i < n; i++) {
		bool counted = read_bytes(&r, &update);

		wq_assert(counted);
		if (!get_update(update, &v[i]))
			return false;
	}
	out->batch.v = v;
	out->batch.why = NULL;
	out->batch.n = n;
	return true;
}

static bool
get_cancel(struct str msg, struct op_cancel *op)
{
	struct reader r = reader_of((const uint8_t *)msg.p, msg.n);
	uint64_t v;

	*op = (struct op_cancel){ .timeout_ns = -1 };
	return BYTES_OR_NOT(&r, 1, &op->job.key) && BYTES_OR_NOT(&r, 2, &op->job.queue) &&
		NUMBER_OR_NOT(&r, 3, take_cancel_mode(v, &op->mode)) &&
		NUMBER_OR_NOT(&r, 4, take_ms(v, &op->timeout_ns)) &&
		NUMBER_OR_NOT(&r, 5, take_level(v, &op->level)) && BYTES_OR_NOT(&r, 6, &op->idem) &&
		op->idem.n <= IDEM_MAX && at_end(&r);
}

bool
hot_decode(struct arena *a, const uint8_t *p, size_t n, struct request *out)
{
	struct reader r = reader_of(p, n);
	struct str msg;
	unsigned op;

	out->id = 0;
	out->run_token = 0;
	if ((r.tag == VARINT(1) && !read_number(&r, &out->id)) ||
		(r.tag == VARINT(2) && !read_number(&r, &out->run_token)))
		return false;
	op = r.tag;
	/* A second operation would take the place of the first. */
	if ((op & 7) != 2 || !read_bytes(&r, &msg) || !at_end(&r))
		return false;
	switch (op) {
	case BYTES(12):
		out->kind = REQ_UPDATE;
		return get_update(msg, &out->update);
	case BYTES(13):
		out->kind = REQ_UPDATE_BATCH;
		return get_batch(a, msg, out);
	case BYTES(14):
		out->kind = REQ_CANCEL;
		return get_cancel(msg, &out->cancel);
	default:
		return false;
	}
}

/* ---- writing ---- */

static uint8_t *
put_long_varint(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

/* Up to eight bytes at once: groups of seven bits are spread to bytes, halves first. Writes eight
 * bytes whatever the length. */
static inline uint8_t *
put_varint(uint8_t *p, uint64_t v)
{
	unsigned top;

	if (v < 0x80) {
		*p = (uint8_t)v;
		return p + 1;
	}
	if (v >> 56)
		return put_long_varint(p, v);
	v = (v & 0x000000000fffffff) | (v & 0x00fffffff0000000) << 4;
	v = (v & 0x00003fff00003fff) | (v & 0x0fffc0000fffc000) << 2;
	v = (v & 0x007f007f007f007f) | (v & 0x3f803f803f803f80) << 1;
	top = 63u - (unsigned)__builtin_clzll(v);
	v |= 0x8080808080808080 & ((1ull << (top & ~7u)) - 1);
	v = htole64(v);
	memcpy(p, &v, sizeof v);
	return p + (top >> 3) + 1;
}

/* As proto3 has it: zero is left out. */
static inline uint8_t *
put_number(uint8_t *p, unsigned field, uint64_t v)
{
	if (v == 0)
		return p;
	*p++ = (uint8_t)VARINT(field);
	return put_varint(p, v);
}

/* A member of a oneof is there or not, whatever its value. */
static inline uint8_t *
put_time(uint8_t *p, unsigned field, bool there, int64_t ns)
{
	if (!there)
		return p;
	*p++ = (uint8_t)VARINT(field);
	return put_varint(p, (uint64_t)encode_ms(ns));
}

/* What Reply and Result have in common, which is numbered alike from `field` on. */
static inline uint8_t *
put_result(uint8_t *p, unsigned field, const struct job_reply *r)
{
	p = put_number(p, field, (uint64_t)r->status);
	p = put_number(p, field + 1, (uint64_t)r->state_before);
	p = put_time(p, field + 2, r->has_deadline, r->deadline_wall_ns);
	p = put_time(p, field + 3, r->has_old_deadline, r->old_deadline_wall_ns);
	p = put_number(p, field + 4, r->generation);
	return put_number(p, field + 5, r->coalesced);
}

size_t
hot_put_reply(uint8_t dst[HOT_REPLY_MAX], uint64_t id, const struct job_reply *r)
{
	uint8_t *p = put_number(dst, 1, id);

	p = put_result(p, 2, r);
	p = put_number(p, 8, r->disable_depth);
	p = put_number(p, 11, r->pending_before);
	wq_assert((size_t)(p - dst) <= HOT_REPLY_MAX);
	return (size_t)(p - dst);
}

size_t
hot_put_result(uint8_t dst[HOT_REPLY_MAX], const struct job_reply *r)
{
	return (size_t)(put_result(dst, 1, r) - dst);
}
