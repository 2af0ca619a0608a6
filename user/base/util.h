/* SPDX-License-Identifier: BSD-2-Clause */
/* Small things that every module may use: messages, sizes. */
#ifndef XPROF_UTIL_H
#define XPROF_UTIL_H

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
	XP_EXIT_ENVIRONMENT = 3, /* privilege, kernel feature */
	XP_EXIT_LOST = 4,	 /* data lost under --strict */
};

enum xp_log_level {
	XP_LOG_QUIET = 0,   /* errors only: -q */
	XP_LOG_NORMAL = 1,  /* + warnings, notices */
	XP_LOG_VERBOSE = 2, /* + what is done: -v */
};
extern enum xp_log_level xp_log_level;

/* One line to stderr, "xprof: " before it, clean whatever the names in it hold (text.h). */
void xp_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void xp_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void xp_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void xp_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* CLOCK_MONOTONIC, ns. */
uint64_t xp_now_ns(void);

/* Writes all of it, -errno otherwise. */
int xp_write_all(int fd, const void *data, size_t size);
int xp_pwrite_all(int fd, const void *data, size_t size, uint64_t offset);

#endif
