#include "wire/hot.h"

#include "base/assert.h"
#include "wire/arena.h"
#include "wire/encode.h"

/* A tag of one byte: field numbers up to 15. */
#define VARINT(field) ((field) << 3)
#define BYTES(field)  ((field) << 3 | 2)

/* What is left of a message. `odd`: left to protobuf-c. */
struct cursor {
	const uint8_t *p, *end;
	uint32_t seen; /* fields, by number: each may come once */
	bool odd;
};

/* ---- reading ---- */

static uint64_t
get_long_varint(struct cursor *c)
{
	uint64_t v = 0;

	/* The tenth byte is a matter of taste. */
	for (int shift = 0; shift < 63 && c->p < c->end; shift += 7) {
		uint8_t b = *c->p++;

		v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return v;
	}
	c->odd = true;
	return 0;
}

static inline uint64_t
get_varint(struct cursor *c)
{
	if (c->p < c->end && *c->p < 0x80)
		return *c->p++;
	return get_long_varint(c);
}

static inline struct str
get_bytes(struct cursor *c)
{
	uint64_t n = get_varint(c);
	struct str s = { (const char *)c->p, (size_t)n };

	if (n > (uint64_t)(c->end - c->p)) {
		c->odd = true;
		return STR_NONE;
	}
	c->p += n;
	return s;
}

static inline struct cursor
get_message(struct cursor *c)
{
	struct str s = get_bytes(c);
	const uint8_t *p = (const uint8_t *)s.p;

	if (c->odd) /* no text, not even a place */
		return (struct cursor){ .p = c->end, .end = c->end, .odd = true };
	return (struct cursor){ .p = p, .end = p + s.n };
}

/* The next tag; 0 at the end. */
static inline unsigned
get_tag(struct cursor *c)
{
	unsigned tag, bit;

	if (c->odd || c->p == c->end)
		return 0;
	tag = *c->p++;
	bit = 1u << (tag >> 3 & 31);
	c->odd = tag == 0 || tag >= 0x80 || c->seen & bit;
	c->seen |= bit;
	return tag;
}

static inline int64_t
get_ms(struct cursor *c)
{
	uint64_t v = get_varint(c);

	if (v > INT64_MAX / NS_PER_MS) {
		c->odd = true;
		return 0;
	}
	return (int64_t)v * NS_PER_MS;
}

static inline bool
get_bool(struct cursor *c)
{
	uint64_t v = get_varint(c);

	c->odd |= v > 1;
	return v == 1;
}

#define COUNT_WORD(...) +1
/* The words of these tables are numbered from 0 on without a gap. */
#define GET_ENUM(func, TABLE, type) \
	static inline enum type func(struct cursor *c) \
	{ \
		uint64_t v = get_varint(c); \
\
		c->odd |= v >= 0 TABLE(COUNT_WORD); \
		return (enum type)v; \
	}

GET_ENUM(get_update_mode, UPDATE_MODE_TABLE, update_mode)
GET_ENUM(get_payload_mode, PAYLOAD_MODE_TABLE, payload_mode)
GET_ENUM(get_cancel_mode, CANCEL_MODE_TABLE, cancel_mode)
GET_ENUM(get_level, DURABILITY_TABLE, durability)

static inline struct str
get_idem(struct cursor *c)
{
	struct str s = get_bytes(c);

	c->odd |= s.n > IDEM_MAX;
	return s;
}

#define F_DELAY 3
#define F_AT    4

static bool
get_update(struct cursor c, struct op_update *u)
{
	unsigned tag, when;

	*u = (struct op_update){ .slack_ns = -1, .max_wait_ns = -1 };
	while ((tag = get_tag(&c)) != 0) {
		switch (tag) {
		case BYTES(1):
			u->job.key = get_bytes(&c);
			break;
		case BYTES(2):
			u->job.queue = get_bytes(&c);
			break;
		case VARINT(F_DELAY):
		case VARINT(F_AT):
			u->when_ns = get_ms(&c);
			break;
		case VARINT(5):
			u->mode = get_update_mode(&c);
			break;
		case VARINT(6):
			u->if_pending = get_bool(&c);
			break;
		case VARINT(7):
			u->slack_ns = get_ms(&c);
			break;
		case VARINT(8):
			u->max_wait_ns = get_ms(&c);
			break;
		case VARINT(9):
			u->align_ns = get_ms(&c);
			break;
		case VARINT(10):
			u->align_exact = get_bool(&c);
			break;
		case VARINT(11):
			u->payload_mode = get_payload_mode(&c);
			break;
		case BYTES(12):
			u->payload = get_bytes(&c);
			break;
		case VARINT(13):
			u->level = get_level(&c);
			break;
		case BYTES(14):
			u->idem = get_idem(&c);
			break;
		default:
			return false;
		}
	}
	when = c.seen >> F_DELAY & 3;
	u->absolute = when == 2;
	return !c.odd && (when == 1 || when == 2);
}

/* Updates in the batch; 0 when there is anything else, or too many. */
static size_t
count_updates(struct cursor c)
{
	size_t n = 0;

	while (!c.odd && c.p < c.end) {
		if (*c.p++ != BYTES(1))
			return 0;
		get_bytes(&c);
		n++;
	}
	return c.odd || n > BATCH_MAX ? 0 : n;
}

static bool
get_batch(struct arena *a, struct cursor c, struct request *out)
{
	size_t n = count_updates(c);
	struct op_update *v = n ? arena_alloc(a, n * sizeof *v) : NULL;

	if (!v)
		return false;
	for (size_t i = 0; i < n; i++) {
		c.p++;
		if (!get_update(get_message(&c), &v[i]))
			return false;
	}
	out->batch.v = v;
	out->batch.why = NULL;
	out->batch.n = n;
	return true;
}

static bool
get_cancel(struct cursor c, struct op_cancel *op)
{
	unsigned tag;

	*op = (struct op_cancel){ .timeout_ns = -1 };
	while ((tag = get_tag(&c)) != 0) {
		switch (tag) {
		case BYTES(1):
			op->job.key = get_bytes(&c);
			break;
		case BYTES(2):
			op->job.queue = get_bytes(&c);
			break;
		case VARINT(3):
			op->mode = get_cancel_mode(&c);
			break;
		case VARINT(4):
			op->timeout_ns = get_ms(&c);
			break;
		case VARINT(5):
			op->level = get_level(&c);
			break;
		case BYTES(6):
			op->idem = get_idem(&c);
			break;
		default:
			return false;
		}
	}
	return !c.odd;
}

static bool
get_operation(struct arena *a, unsigned tag, struct cursor c, struct request *out)
{
	if (c.odd)
		return false;
	switch (tag) {
	case BYTES(12):
		out->kind = REQ_UPDATE;
		return get_update(c, &out->update);
	case BYTES(13):
		out->kind = REQ_UPDATE_BATCH;
		return get_batch(a, c, out);
	default:
		out->kind = REQ_CANCEL;
		return get_cancel(c, &out->cancel);
	}
}

bool
hot_decode(struct arena *a, const uint8_t *p, size_t n, struct request *out)
{
	struct cursor c = { .p = p, .end = p + n }, op = { .odd = true };
	unsigned tag, op_tag = 0;

	out->id = 0;
	out->run_token = 0;
	while ((tag = get_tag(&c)) != 0) {
		switch (tag) {
		case VARINT(1):
			out->id = get_varint(&c);
			break;
		case VARINT(2):
			out->run_token = get_varint(&c);
			break;
		case BYTES(12):
		case BYTES(13):
		case BYTES(14):
			/* A second operation would take the place of the first. */
			if (op_tag)
				return false;
			op_tag = tag;
			op = get_message(&c);
			break;
		default:
			return false;
		}
	}
	return !c.odd && op_tag && get_operation(a, op_tag, op, out);
}

/* ---- writing ---- */

static inline uint8_t *
put_varint(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
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
