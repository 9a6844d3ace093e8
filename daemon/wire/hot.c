#include "wire/hot.h"

#include <endian.h>
#include <string.h>

#include "base/assert.h"
#include "wire/arena.h"
#include "wire/encode.h"

/* A tag of one byte: field numbers up to 15. */
#define VARINT(field) ((field) << 3)
#define BYTES(field)  ((field) << 3 | 2)

/* One field as it was read; which of the two values it has its tag says. */
struct field {
	unsigned tag;
	uint64_t number;
	struct str bytes;
};

/* ---- reading: each returns where to go on, or NULL: left to protobuf-c ---- */

static inline const uint8_t *
get_varint(const uint8_t *p, const uint8_t *end, uint64_t *v)
{
	uint64_t got;

	if (p == end)
		return NULL;
	got = *p & 0x7f;
	/* The tenth byte is a matter of taste. */
	for (int shift = 7; *p++ & 0x80; shift += 7) {
		if (p == end || shift == 63)
			return NULL;
		got |= (uint64_t)(*p & 0x7f) << shift;
	}
	*v = got;
	return p;
}

static inline const uint8_t *
get_bytes(const uint8_t *p, const uint8_t *end, struct str *s)
{
	uint64_t n;

	p = get_varint(p, end, &n);
	if (!p || n > (uint64_t)(end - p))
		return NULL;
	*s = (struct str){ (const char *)p, (size_t)n };
	return p + n;
}

/* `seen`: fields so far, by number: each may come once. */
static inline const uint8_t *
get_field(const uint8_t *p, const uint8_t *end, uint32_t *seen, struct field *f)
{
	unsigned tag = *p++;
	uint32_t bit = 1u << (tag >> 3 & 31);

	if (tag >= 0x80 || *seen & bit)
		return NULL;
	*seen |= bit;
	f->tag = tag;
	if ((tag & 7) == 2)
		return get_bytes(p, end, &f->bytes);
	return (tag & 7) == 0 ? get_varint(p, end, &f->number) : NULL;
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

static inline bool
take_idem(struct str s, struct str *out)
{
	*out = s;
	return s.n <= IDEM_MAX;
}

/* ---- messages ---- */

#define F_DELAY 3
#define F_AT    4

static inline bool
take_update_field(const struct field *f, struct op_update *u)
{
	switch (f->tag) {
	case BYTES(1):
		u->job.key = f->bytes;
		return true;
	case BYTES(2):
		u->job.queue = f->bytes;
		return true;
	case VARINT(F_DELAY):
	case VARINT(F_AT):
		return take_ms(f->number, &u->when_ns);
	case VARINT(5):
		return take_update_mode(f->number, &u->mode);
	case VARINT(6):
		return take_bool(f->number, &u->if_pending);
	case VARINT(7):
		return take_ms(f->number, &u->slack_ns);
	case VARINT(8):
		return take_ms(f->number, &u->max_wait_ns);
	case VARINT(9):
		return take_ms(f->number, &u->align_ns);
	case VARINT(10):
		return take_bool(f->number, &u->align_exact);
	case VARINT(11):
		return take_payload_mode(f->number, &u->payload_mode);
	case BYTES(12):
		u->payload = f->bytes;
		return true;
	case VARINT(13):
		return take_level(f->number, &u->level);
	case BYTES(14):
		return take_idem(f->bytes, &u->idem);
	default:
		return false;
	}
}

static bool
get_update(struct str msg, struct op_update *u)
{
	const uint8_t *p = (const uint8_t *)msg.p, *end = p + msg.n;
	struct field f = { 0 };
	uint32_t seen = 0;
	unsigned when;

	*u = (struct op_update){ .slack_ns = -1, .max_wait_ns = -1 };
	while (p < end) {
		p = get_field(p, end, &seen, &f);
		if (!p || !take_update_field(&f, u))
			return false;
	}
	when = seen >> F_DELAY & 3;
	u->absolute = when == 2;
	return when == 1 || when == 2;
}

/* Updates in the batch; 0 when there is anything else, or too many. */
static size_t
count_updates(struct str msg)
{
	const uint8_t *p = (const uint8_t *)msg.p, *end = p + msg.n;
	struct str update;
	size_t n = 0;

	while (p < end) {
		if (*p++ != BYTES(1))
			return 0;
		p = get_bytes(p, end, &update);
		if (!p)
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
	const uint8_t *p = (const uint8_t *)msg.p, *end = p + msg.n;
	struct str update;

	if (!v)
		return false;
	for (size_t i = 0; i < n; i++) {
		p = get_bytes(p + 1, end, &update);
		wq_assert(p); /* counted */
		if (!get_update(update, &v[i]))
			return false;
	}
	out->batch.v = v;
	out->batch.why = NULL;
	out->batch.n = n;
	return true;
}

static inline bool
take_cancel_field(const struct field *f, struct op_cancel *op)
{
	switch (f->tag) {
	case BYTES(1):
		op->job.key = f->bytes;
		return true;
	case BYTES(2):
		op->job.queue = f->bytes;
		return true;
	case VARINT(3):
		return take_cancel_mode(f->number, &op->mode);
	case VARINT(4):
		return take_ms(f->number, &op->timeout_ns);
	case VARINT(5):
		return take_level(f->number, &op->level);
	case BYTES(6):
		return take_idem(f->bytes, &op->idem);
	default:
		return false;
	}
}

static bool
get_cancel(struct str msg, struct op_cancel *op)
{
	const uint8_t *p = (const uint8_t *)msg.p, *end = p + msg.n;
	struct field f = { 0 };
	uint32_t seen = 0;

	*op = (struct op_cancel){ .timeout_ns = -1 };
	while (p < end) {
		p = get_field(p, end, &seen, &f);
		if (!p || !take_cancel_field(&f, op))
			return false;
	}
	return true;
}

static bool
get_operation(struct arena *a, unsigned tag, struct str msg, struct request *out)
{
	switch (tag) {
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

bool
hot_decode(struct arena *a, const uint8_t *p, size_t n, struct request *out)
{
	const uint8_t *end = p + n;
	struct field f = { 0 };
	uint32_t seen = 0;
	unsigned op = 0;

	out->id = 0;
	out->run_token = 0;
	while (p < end) {
		p = get_field(p, end, &seen, &f);
		if (!p)
			return false;
		if (f.tag == VARINT(1))
			out->id = f.number;
		else if (f.tag == VARINT(2))
			out->run_token = f.number;
		else if (op || !get_operation(a, op = f.tag, f.bytes, out))
			return false; /* a second operation would take the place of the first */
	}
	return op != 0;
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
