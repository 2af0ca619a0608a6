/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parser of perf maps. A JIT compiler lists its code in a perf map. Each line is START SIZE NAME; both numbers are
 * hexadecimal, and some compilers prefix them with 0x. The input may be split anywhere; a line is parsed once it is
 * complete. This module makes no system calls.
 *
 * Source of the format: Linux, tools/perf/Documentation/jit-interface.txt.
 */
#ifndef XPROF_JIT_PERF_MAP_H
#define XPROF_JIT_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longer lines are truncated: some runtimes write whole signatures as names. */
#define XP_PERF_MAP_LINE_BYTES_MAX 4352

struct xp_perf_map_entry {
	uint64_t start;
	uint64_t size;
	const char *name; /* as in the file, not empty */
};

/* Zero this at the start of a file. */
struct xp_perf_map {
	size_t used;
	char line[XP_PERF_MAP_LINE_BYTES_MAX];
};

/* Parses a line. Returns false if the line is not a valid entry. */
bool xp_perf_map_parse(struct xp_perf_map_entry *entry, const char *line);

/*
 * Parses the input and calls each() for every valid line. If each() returns a non-zero value, stops and returns that
 * value.
 */
int xp_perf_map_feed(struct xp_perf_map *map, const char *text, size_t size,
		     int (*each)(void *arg, const struct xp_perf_map_entry *entry), void *arg);

#endif
