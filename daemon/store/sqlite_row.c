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

struct row
row_of_cells(const struct fed *f, enum row_kind kind)
{
	return (struct row){ .cells = f->cell, .sum = mix(0, kind) };
}

static void
fill_cell(struct cell *c, int type, const void *p, uint32_t n, char **space)
{
	*c = (struct cell){ .type = CELL_NULL };
	if (type != SQLITE_TEXT && type != SQLITE_BLOB)
		return;
	*c = (struct cell){ .type = CELL_BYTES, .n = n, .p = *space };
	if (n > 0)
		memcpy(*space, p, n);
	*space += n;
}

int
row_feed(struct feed *f, uint32_t kind, sqlite3_stmt *q)
{
	int n = sqlite3_data_count(q), rc;
	size_t bytes = 0;
	struct fed *to;
	char *space;

	for (int i = 0; i < n; i++)
		if (sqlite3_column_type(q, i) >= SQLITE_TEXT)
			bytes += (size_t)sqlite3_column_bytes(q, i);
	rc = feed_put(f, kind, (uint32_t)n, bytes, &to, &space);
	for (int i = 0; !rc && i < n; i++) {
		int type = sqlite3_column_type(q, i);

		if (type == SQLITE_INTEGER)
			to->cell[i] =
				(struct cell){ .type = CELL_INT, .i = sqlite3_column_int64(q, i) };
		else
			fill_cell(&to->cell[i], type, sqlite3_column_blob(q, i),
				(uint32_t)sqlite3_column_bytes(q, i), &space);
	}
	return rc;
}

int
row_feed_values(struct feed *f, uint32_t kind, int n, sqlite3_value **v)
{
	size_t bytes = 0;
	struct fed *to;
	char *space;
	int rc;

	for (int i = 0; i < n; i++)
		if (sqlite3_value_type(v[i]) >= SQLITE_TEXT)
			bytes += (size_t)sqlite3_value_bytes(v[i]);
	rc = feed_put(f, kind, (uint32_t)n, bytes, &to, &space);
	for (int i = 0; !rc && i < n; i++) {
		int type = sqlite3_value_type(v[i]);

		if (type == SQLITE_INTEGER)
			to->cell[i] =
				(struct cell){ .type = CELL_INT, .i = sqlite3_value_int64(v[i]) };
		else if (type == SQLITE_NULL)
			to->cell[i] = (struct cell){ .type = CELL_NULL };
		else
			fill_cell(&to->cell[i], type, sqlite3_value_blob(v[i]),
				(uint32_t)sqlite3_value_bytes(v[i]), &space);
	}
	return rc;
}

/* A column that is no number counts as 0, one that has no bytes as empty: the sum will tell. */
static int64_t
int_at(const struct row *r, int col)
{
	if (!r->cells)
		return sqlite3_column_int64(r->q, col);
	return r->cells[col].type == CELL_INT ? r->cells[col].i : 0;
}

static struct str
bytes_at(const struct row *r, int col)
{
	struct str s = STR_NONE;

	if (!r->cells) {
		s.p = sqlite3_column_blob(r->q, col);
		s.n = (size_t)sqlite3_column_bytes(r->q, col);
	} else if (r->cells[col].type == CELL_BYTES) {
		s = (struct str){ r->cells[col].p, r->cells[col].n };
	}
	return s;
}

bool
row_has(const struct row *r)
{
	return r->cells ? r->cells[r->col].type != CELL_NULL
			: sqlite3_column_type(r->q, r->col) != SQLITE_NULL;
}

void
row_skip(struct row *r)
{
	r->col++;
}

int64_t
row_get_int(struct row *r, int64_t min, int64_t max)
{
	int64_t v = int_at(r, r->col++);

	row_mix_int(r, v);
	if (v >= min && v <= max)
		return v;
	r->rc = ERR_DAMAGED;
	return min;
}

struct str
row_get_blob(struct row *r)
{
	struct str s = bytes_at(r, r->col++);

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
	if (r->rc == 0 && (uint64_t)int_at(r, r->col) != r->sum)
		r->rc = ERR_DAMAGED;
	return r->rc;
}

int
row_close_short(struct row *r)
{
	if (r->rc == 0 && int_at(r, r->col) != short_sum(r))
		r->rc = ERR_DAMAGED;
	return r->rc;
}
