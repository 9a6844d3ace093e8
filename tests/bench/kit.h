/*
 * What the benchmarks share: time, places (cores), figures, children.
 *
 * A figure is the median of rounds; rounds of everything that is compared are
 * interleaved, and what is said of two is the median of the ratios within a
 * round, so that a machine that slows down slows both. Nothing here is part of
 * the daemon; what fails ends the program.
 */
#ifndef WQ_BENCH_KIT_H
#define WQ_BENCH_KIT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ROUNDS_MAX 31

int64_t
bench_now_ns(void);
__attribute__((noreturn, format(printf, 1, 2))) void
bench_die(const char *fmt, ...);
/* This thread, and children that it starts from now on, on one core; -1, or no such core: any. */
void
bench_pin(int core);

/* xorshift64*: cheap enough to stand in a measured loop. */
static inline uint64_t
bench_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}
/* 0..n-1. */
static inline uint64_t
bench_below(uint64_t *state, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)bench_random(state) * n) >> 64);
}

/* One figure of several rounds. */
struct figure {
	double v[ROUNDS_MAX];
	size_t n;
};
void
figure_add(struct figure *f, double v);
double
figure_median(const struct figure *f);
/* (highest - lowest) / median, per cent. */
double
figure_spread(const struct figure *f);
/* The median over rounds of a / b. */
double
figure_ratio(const struct figure *a, const struct figure *b);
/* "1.23 M", "45.6 k", "789" into a buffer of the caller's. */
const char *
bench_si(double v, char dst[16]);

/* Starts a program with its output going nowhere; argv ends with NULL. */
pid_t
bench_spawn(int core, char *const argv[]);
/* TERM, and waits. */
void
bench_stop(pid_t pid);
/* Waits for its own end. */
void
bench_wait(pid_t pid);
/* Connects to a unix socket or, where `path` is a number, to that port of 127.0.0.1; tries for ten
 * seconds. */
int
bench_connect(const char *path);
/* The same, a hundred times as often. */
int
bench_connect_soon(const char *path);
/* Writes all of it to a blocking socket. */
void
bench_write(int fd, const void *p, size_t n);
/* Model of the processor, kernel, load, as one paragraph. */
void
bench_machine(void);

#endif
