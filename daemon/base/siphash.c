/* SipHash with one compression and three final rounds, after Aumasson and Bernstein's paper. */
#include "base/siphash.h"

#include <endian.h>
#include <string.h>

struct sip {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t
rotl(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static inline void
round_(struct sip *s)
{
	s->v0 += s->v1;
	s->v1 = rotl(s->v1, 13) ^ s->v0;
	s->v0 = rotl(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotl(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotl(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotl(s->v1, 17) ^ s->v2;
	s->v2 = rotl(s->v2, 32);
}

static inline void
word(struct sip *s, uint64_t m)
{
	s->v3 ^= m;
	round_(s);
	s->v0 ^= m;
}

uint64_t
siphash13(const uint64_t key[2], const void *p, size_t n)
{
	struct sip s = {
		.v0 = key[0] ^ 0x736f6d6570736575u, /* "somepseudorandomlygeneratedbytes" */
		.v1 = key[1] ^ 0x646f72616e646f6du,
		.v2 = key[0] ^ 0x6c7967656e657261u,
		.v3 = key[1] ^ 0x7465646279746573u,
	};
	const uint8_t *b = p;
	uint64_t m, last = (uint64_t)n << 56;

	for (; n >= 8; n -= 8, b += 8) {
		memcpy(&m, b, 8);
		word(&s, le64toh(m));
	}
	for (size_t i = 0; i < n; i++)
		last |= (uint64_t)b[i] << (8 * i);
	word(&s, last);
	s.v2 ^= 0xff;
	round_(&s);
	round_(&s);
	round_(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
