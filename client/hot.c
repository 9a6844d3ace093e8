#include "hot.h"

#include <endian.h>
#include <string.h>

#include "must.h"

#define VARINT(field) ((field) << 3)
#define BYTES(field)  ((field) << 3 | 2u)

/* Tag and value of a number; tag and length of a text. */
#define NUMBER_MAX 11u
#define TEXT_MAX   6u
/* put_varint writes eight bytes where it needs fewer. */
#define SPILL 8u

/* ---- writing ---- */

static uint8_t *
put_long_varint(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

/* Up to eight bytes at once: groups of seven bits are spread to bytes, halves first. */
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

/* There or not, whatever its value: a member of a oneof. */
static inline uint8_t *
put_there(uint8_t *p, unsigned field, int64_t v)
{
	*p++ = (uint8_t)VARINT(field);
	return put_varint(p, (uint64_t)v);
}

/* As proto3 has it: zero is left out. */
static inline uint8_t *
put_number(uint8_t *p, unsigned field, int64_t v)
{
	return v ? put_there(p, field, v) : p;
}

static inline uint8_t *
put_text(uint8_t *p, unsigned field, struct hot_text s)
{
	if (s.n == 0)
		return p;
	*p++ = (uint8_t)BYTES(field);
	p = put_varint(p, s.n);
	memcpy(p, s.p, s.n);
	return p + s.n;
}

/* One of a list: written though it be empty. */
static uint8_t *
put_word(uint8_t *p, unsigned field, const char *word)
{
	size_t n = strlen(word);

	*p++ = (uint8_t)BYTES(field);
	p = put_varint(p, n);
	memcpy(p, word, n);
	return p + n;
}

static size_t
command_room(const wq_update_opts_t *o)
{
	size_t n = 0;

	for (size_t i = 0; i < o->n_command; i++)
		n += strlen(o->command[i]) + TEXT_MAX;
	return n;
}

size_t
hot_update_room(const struct hot_update *u)
{
	return command_room(u->o) + u->key.n + u->queue.n + u->idem.n + u->o->payload_len +
		4 * TEXT_MAX + 10 * NUMBER_MAX + SPILL;
}

size_t
hot_put_update(uint8_t *dst, const struct hot_update *u)
{
	const wq_update_opts_t *o = u->o;
	uint8_t *p = put_text(dst, 1, u->key);

	p = put_text(p, 2, u->queue);
	p = o->at_ms == -1 ? put_there(p, 3, u->delay_ms) : put_there(p, 4, o->at_ms);
	p = put_number(p, 5, (int32_t)o->mode);
	p = put_number(p, 6, o->if_pending != 0);
	if (o->slack_ms != -1)
		p = put_there(p, 7, o->slack_ms);
	if (o->max_wait_ms != -1)
		p = put_there(p, 8, o->max_wait_ms);
	p = put_number(p, 9, o->align_ms);
	p = put_number(p, 10, o->align_exact != 0);
	p = put_number(p, 11, (int32_t)o->payload_mode);
	p = put_text(p, 12, hot_text(o->payload, o->payload_len));
	p = put_number(p, 13, (int32_t)o->durability);
	p = put_text(p, 14, u->idem);
	for (size_t i = 0; i < o->n_command; i++)
		p = put_word(p, 15, o->command[i]);
	return (size_t)(p - dst);
}

size_t
hot_cancel_room(const struct hot_cancel *c)
{
	return c->key.n + c->queue.n + c->idem.n + 3 * TEXT_MAX + 3 * NUMBER_MAX + SPILL;
}

size_t
hot_put_cancel(uint8_t *dst, const struct hot_cancel *c)
{
	uint8_t *p = put_text(dst, 1, c->key);

	p = put_text(p, 2, c->queue);
	p = put_number(p, 3, (int32_t)c->mode);
	if (c->timeout_ms != -1)
		p = put_there(p, 4, c->timeout_ms);
	p = put_number(p, 5, (int32_t)c->durability);
	p = put_text(p, 6, c->idem);
	return (size_t)(p - dst);
}

uint8_t *
hot_put_head(uint8_t *op, unsigned field, size_t op_len, uint64_t id, uint64_t run_token,
	size_t *msg_len)
{
	uint8_t head[HOT_HEAD_MAX + SPILL], frame[5 + SPILL], *p = head;
	size_t n, n_frame;

	p = put_number(p, 1, (int64_t)id);
	p = put_number(p, 2, (int64_t)run_token);
	*p++ = (uint8_t)BYTES(field);
	p = put_varint(p, op_len);
	n = (size_t)(p - head);
	*msg_len = n + op_len;
	MUST(*msg_len <= UINT32_MAX);
	n_frame = (size_t)(put_varint(frame, *msg_len) - frame);
	MUST(n + n_frame <= HOT_HEAD_MAX);
	memcpy(op - n, head, n);
	memcpy(op - n - n_frame, frame, n_frame);
	return op - n - n_frame;
}

size_t
hot_item_room(const struct hot_update *u)
{
	return TEXT_MAX + SPILL + hot_update_room(u);
}

/* Most are shorter than 128 bytes, with a length of one. */
size_t
hot_put_item(uint8_t *dst, const struct hot_update *u)
{
	uint8_t head[TEXT_MAX + SPILL];
	size_t n = hot_put_update(dst + 2, u), n_head;

	MUST(n <= UINT32_MAX);
	head[0] = (uint8_t)BYTES(1);
	n_head = (size_t)(put_varint(head + 1, n) - head);
	if (n_head != 2)
		memmove(dst + n_head, dst + 2, n);
	memcpy(dst, head, n_head);
	return n_head + n;
}

/* ---- reading: each returns where to go on, or NULL: left to protobuf-c ---- */

static inline const uint8_t *
get_varint(const uint8_t *p, const uint8_t *end, uint64_t *v)
{
	uint64_t got;

	if (p == end)
		return NULL;
	got = *p & 0x7f;
	for (int shift = 7; *p++ & 0x80; shift += 7) {
		if (p == end || shift == 63)
			return NULL;
		got |= (uint64_t)(*p & 0x7f) << shift;
	}
	*v = got;
	return p;
}

static inline const uint8_t *
skip_bytes(const uint8_t *p, const uint8_t *end)
{
	uint64_t n;

	p = get_varint(p, end, &n);
	return p && n <= (uint64_t)(end - p) ? p + n : NULL;
}

static inline bool
take_u32(uint64_t v, uint32_t *out)
{
	*out = (uint32_t)v;
	return v <= UINT32_MAX;
}

/* What Reply and Result have in common, which is numbered alike from 1 on here. */
static inline bool
take(unsigned field, uint64_t v, struct hot_reply *r)
{
	switch (field) {
	case 1:
		r->status = (wq_status_t)v;
		return v <= WQ_CANCELLED_RUNNING;
	case 2:
		r->state_before = (wq_state_t)v;
		return v <= WQ_STATE_RUNNING;
	case 3:
		r->deadline_ms = (int64_t)v;
		return true;
	case 4:
		r->old_deadline_ms = (int64_t)v;
		return true;
	case 5:
		r->generation = v;
		return true;
	case 6:
		return take_u32(v, &r->coalesced);
	default:
		return false;
	}
}

static inline bool
take_of_reply(unsigned field, uint64_t v, struct hot_reply *r)
{
	switch (field) {
	case 1:
		r->id = v;
		return true;
	case 8:
		return take_u32(v, &r->disable_depth);
	case 11:
		r->pending_before = v == 1;
		return v <= 1;
	default:
		return field > 1 && take(field - 1, v, r);
	}
}

/* Results from `p` on, without a field between them. */
static const uint8_t *
get_result_fields(const uint8_t *p, const uint8_t *end, struct hot_reply *r)
{
	const uint8_t *from = p;

	while (p < end && *p == BYTES(13)) {
		p = skip_bytes(p + 1, end);
		if (!p)
			return NULL;
		r->n_results++;
	}
	r->results = hot_text(from, (size_t)(p - from));
	return p;
}

/* A number that has not come before; its field in *field. */
static inline const uint8_t *
get_number(const uint8_t *p, const uint8_t *end, uint32_t *seen, unsigned *field, uint64_t *v)
{
	uint8_t tag = *p++;
	uint32_t bit = 1u << (tag >> 3 & 31);

	if (tag >= 0x80 || (tag & 7) || *seen & bit)
		return NULL;
	*seen |= bit;
	*field = tag >> 3;
	return get_varint(p, end, v);
}

#define NOTHING \
	(struct hot_reply) \
	{ \
		.deadline_ms = -1, .old_deadline_ms = -1 \
	}

bool
hot_get_reply(const uint8_t *p, size_t n, struct hot_reply *out)
{
	const uint8_t *end = p + n;
	uint32_t seen = 0;

	*out = NOTHING;
	while (p < end) {
		unsigned field;
		uint64_t v;

		if (*p == BYTES(13)) {
			p = out->n_results ? NULL : get_result_fields(p, end, out);
			if (!p)
				return false;
			continue;
		}
		p = get_number(p, end, &seen, &field, &v);
		if (!p || !take_of_reply(field, v, out))
			return false;
	}
	return true;
}

static bool
get_result(const uint8_t *p, const uint8_t *end, struct hot_reply *out)
{
	uint32_t seen = 0;

	*out = NOTHING;
	while (p < end) {
		unsigned field;
		uint64_t v;

		p = get_number(p, end, &seen, &field, &v);
		if (!p || !take(field, v, out))
			return false;
	}
	return true;
}

bool
hot_get_results(const struct hot_reply *r, struct hot_reply *out)
{
	const uint8_t *p = r->results.p, *end;
	uint64_t n;

	if (r->n_results == 0)
		return true;
	end = p + r->results.n;
	for (size_t i = 0; i < r->n_results; i++, p += n) {
		p = get_varint(p + 1, end, &n);
		MUST(p && n <= (uint64_t)(end - p)); /* counted */
		if (!get_result(p, p + n, &out[i]))
			return false;
	}
	return true;
}
