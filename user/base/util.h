/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers for every module: messages, sizes, time, writing. */
#ifndef XPROF_BASE_UTIL_H
#define XPROF_BASE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/text.h"

#define XP_NS_PER_S 1000000000ull
#define XP_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define XP_MIN(a, b) ((a) < (b) ? (a) : (b))
#define XP_MAX(a, b) ((a) > (b) ? (a) : (b))

/* Exit codes of every subcommand. */
enum xp_exit {
	XP_EXIT_OK = 0,
	XP_EXIT_FAILED = 1,
	XP_EXIT_USAGE = 2,
	XP_EXIT_ENVIRONMENT = 3, /* missing privilege or kernel feature */
	XP_EXIT_LOST = 4,	 /* data lost under --strict */
};

enum xp_log_level {
	XP_LOG_QUIET = 0,   /* -q: errors only */
	XP_LOG_NORMAL = 1,  /* adds warnings and notices */
	XP_LOG_VERBOSE = 2, /* -v: adds progress messages */
};
extern enum xp_log_level xp_log_level;

/* Prints one line to stderr if xp_log_level is at least `level`. Cleans untrusted names in it (text.h). */
void xp_log(enum xp_log_level level, const char *prefix, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define xp_error(...) xp_log(XP_LOG_QUIET, "xprof: error: ", __VA_ARGS__)
#define xp_warn(...) xp_log(XP_LOG_NORMAL, "xprof: warning: ", __VA_ARGS__)
#define xp_info(...) xp_log(XP_LOG_NORMAL, "xprof: ", __VA_ARGS__)
#define xp_debug(...) xp_log(XP_LOG_VERBOSE, "xprof: ", __VA_ARGS__)

/* Like xp_error(). Returns code. */
int xp_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns a value below, equal to or above 0, for qsort(3). To compare by several keys, use by_first ?: by_second. */
static inline int xp_compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* A qsort(3) comparison function for uint64_t elements. */
static inline int xp_compare_u64(const void *a, const void *b)
{
	return xp_compare(*(const uint64_t *)a, *(const uint64_t *)b);
}

/* Return the plural ending of a noun after a number; the last one also returns the verb. */
static inline const char *xp_plural_s(uint64_t number)
{
	return number == 1 ? "" : "s";
}
static inline const char *xp_plural_es(uint64_t number)
{
	return number == 1 ? "" : "es";
}
static inline const char *xp_plural_s_are(uint64_t number)
{
	return number == 1 ? " is" : "s are";
}

/* Returns number * to / from, at most UINT64_MAX. from 0: unknown, returns number. */
static inline uint64_t xp_scale(uint64_t number, uint64_t to, uint64_t from)
{
	unsigned __int128 scaled = from ? (unsigned __int128)number * to / from : number;

	return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

/* Returns the time `at`, if that of `since` is offset: at least 0. */
static inline uint64_t xp_offset(uint64_t offset, uint64_t since, uint64_t at)
{
	return at >= since ? offset + XP_MIN(at - since, UINT64_MAX - offset) : offset - XP_MIN(offset, since - at);
}

/* Adds value to the sum, but limits the sum to INT64_MAX, the largest integer in our JSON. Returns the amount added. */
static inline uint64_t xp_add_capped(uint64_t *sum, uint64_t value)
{
	uint64_t added = XP_MIN(value, (uint64_t)INT64_MAX - *sum);

	*sum += added;
	return added;
}

/* Returns CLOCK_MONOTONIC in ns. */
uint64_t xp_now_ns(void);

/* Returns the CPU time of this thread in ns. */
uint64_t xp_thread_cpu_ns(void);

/* Adds counters, a struct of 64-bit numbers that has so many bytes, or subtracts them (sign -1). */
void xp_counters_add(void *sum, const void *counters, size_t bytes, int sign);

/* Write all bytes. Return 0 or -errno. */
int xp_write_all(int fd, const void *data, size_t size);
int xp_pwrite_all(int fd, const void *data, size_t size, uint64_t offset);
/* Makes a memfd of this name with the data. Returns its descriptor or -errno. */
int xp_memfd_make(const char *name, const void *data, size_t size);

#endif
