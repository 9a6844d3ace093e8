/*
 * The hot messages by hand: an update and a cancel are written where they will
 * be sent from, and plain replies are read where they lie, without a message of
 * protobuf-c in between.
 *
 * Writing is what protobuf-c would write, to the byte. Reading is an opinion on
 * the usual, not a second decoder: a reply with a word, a run, an error, an
 * unknown or repeated field, or a number out of range is left to protobuf-c.
 * tests/unit/test_libwq_hot and the fuzz target client_hot hold the two against
 * each other.
 */
#ifndef WQ_CLIENT_HOT_H
#define WQ_CLIENT_HOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wq.h"

/* Borrowed bytes; `n` 0: not sent. */
struct hot_text {
	const void *p;
	size_t n;
};

static inline struct hot_text
hot_text(const void *p, size_t n)
{
	return (struct hot_text){ p, n };
}

/* ---- requests ---- */

struct hot_update {
	struct hot_text key, queue, idem;
	int64_t delay_ms;
	const wq_update_opts_t *o; /* but its idempotency id */
};

struct hot_cancel {
	struct hot_text key, queue, idem;
	wq_cancel_mode_t mode;
	int64_t timeout_ms; /* -1: none */
	wq_durability_t durability;
};

/* Room that the operation needs at most; more may be written than it takes. */
size_t
hot_update_room(const struct hot_update *u);
size_t
hot_cancel_room(const struct hot_cancel *c);
/* The operation, without its length; its bytes. */
size_t
hot_put_update(uint8_t *dst, const struct hot_update *u);
size_t
hot_put_cancel(uint8_t *dst, const struct hot_cancel *c);

/* Field numbers of Request. */
#define HOT_OP_UPDATE       12u
#define HOT_OP_UPDATE_BATCH 13u
#define HOT_OP_CANCEL       14u
/* What comes before an operation in its frame at most. */
#define HOT_HEAD_MAX 40u
/* Writes the frame's length and the request's other fields so that they end where the operation of
 * `op_len` bytes, at least HOT_HEAD_MAX into its block, begins. Where they begin; *msg_len: of the
 * message, without the frame's length. */
uint8_t *
hot_put_head(uint8_t *op, unsigned field, size_t op_len, uint64_t id, uint64_t run_token,
	size_t *msg_len);
/* An update as a batch has it, with tag and length; its bytes. */
size_t
hot_item_room(const struct hot_update *u);
size_t
hot_put_item(uint8_t *dst, const struct hot_update *u);

/* ---- replies ---- */

struct hot_reply {
	uint64_t id;        /* of a Reply */
	wq_status_t status; /* no error */
	wq_state_t state_before;
	int64_t deadline_ms, old_deadline_ms; /* -1: none */
	uint64_t generation;
	uint32_t coalesced, disable_depth;
	bool pending_before;
	struct hot_text results; /* of a Reply: their fields, one behind the other */
	size_t n_results;
};

/* False: left to protobuf-c; *out is undefined. */
bool
hot_get_reply(const uint8_t *p, size_t n, struct hot_reply *out);
/* The results of such a reply: r->n_results of them. */
bool
hot_get_results(const struct hot_reply *r, struct hot_reply *out);

#endif
