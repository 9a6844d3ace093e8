#include "store/sqlite_row.h"

#include "base/err.h"
#include "base/siphash.h"

/* Not secret: it guards against broken disks, not against whoever may write the file. */
static const uint64_t sum_key[2] = { 0x7771642073746f72ull, 0x65726f7773756d31ull };

static uint64_t
mix(uint64_t sum, uint64_t v)
{
	sum = (sum ^ v) * 0x9e3779b97f4a7c15ull;
	return sum ^ sum >> 32;
}

void
row_mix_int(struct row *r, int64_t v)
{
	r->sum = mix(r->sum, (uint64_t)v);
}

void
row_mix_blob(struct row *r, struct str s)
{
	r->sum = mix(r->sum, s.n);
	if (s.n > 0)
		r->sum = mix(r->sum, siphash13(sum_key, s.p, s.n));
}

static void
keep(struct row *r, int rc)
{
	if (r->rc == SQLITE_OK)
		r->rc = rc;
}

struct row
row_begin(sqlite3_stmt *q, enum row_kind kind)
{
	return (struct row){ .q = q, .col = 1, .sum = mix(0, kind), .rc = SQLITE_OK };
}

void
row_plain_int(struct row *r, int64_t v)
{
	keep(r, sqlite3_bind_int64(r->q, r->col++, v));
}

void
row_plain_null(struct row *r)
{
	keep(r, sqlite3_bind_null(r->q, r->col++));
}

void
row_int(struct row *r, int64_t v)
{
	row_mix_int(r, v);
	row_plain_int(r, v);
}

void
row_blob(struct row *r, struct str s)
{
	row_mix_blob(r, s);
	/* Without a pointer SQLite would bind NULL instead of an empty blob. */
	keep(r, sqlite3_bind_blob64(r->q, r->col++, s.n ? s.p : "", s.n, SQLITE_STATIC));
}

void
row_text(struct row *r, struct str s)
{
	row_mix_blob(r, s);
	keep(r,
		sqlite3_bind_text64(
			r->q, r->col++, s.n ? s.p : "", s.n, SQLITE_STATIC, SQLITE_UTF8));
}

int
row_end(struct row *r)
{
	row_plain_int(r, (int64_t)r->sum);
	return r->rc;
}

static int32_t
short_sum(const struct row *r)
{
	return (int32_t)(uint32_t)(r->sum ^ r->sum >> 32);
}

int
row_end_short(struct row *r)
{
	row_plain_int(r, short_sum(r));
	return r->rc;
}

struct row
row_open(sqlite3_stmt *q, enum row_kind kind, int col)
{
	return (struct row){ .q = q, .col = col, .sum = mix(0, kind) };
}

int64_t
row_get_int(struct row *r, int64_t min, int64_t max)
{
	int64_t v = sqlite3_column_int64(r->q, r->col++);

	row_mix_int(r, v);
	if (v >= min && v <= max)
		return v;
	r->rc = ERR_DAMAGED;
	return min;
}

struct str
row_get_blob(struct row *r)
{
	struct str s = { .p = sqlite3_column_blob(r->q, r->col) };

	s.n = (size_t)sqlite3_column_bytes(r->q, r->col++);
	row_mix_blob(r, s);
	return s;
}

void
row_get_text(struct row *r, char *dst, size_t size)
{
	struct str s = row_get_blob(r);

	if (s.n >= size) {
		r->rc = ERR_DAMAGED;
		s.n = 0;
	}
	if (s.n > 0)
		memcpy(dst, s.p, s.n);
	dst[s.n] = '\0';
}

int
row_close(struct row *r)
{
	if (r->rc == 0 && (uint64_t)sqlite3_column_int64(r->q, r->col) != r->sum)
		r->rc = ERR_DAMAGED;
	return r->rc;
}

int
row_close_short(struct row *r)
{
	if (r->rc == 0 && sqlite3_column_int64(r->q, r->col) != short_sum(r))
		r->rc = ERR_DAMAGED;
	return r->rc;
}
