/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The text of a perf map, in which a JIT compiler names its code. Its lines are START SIZE NAME, both numbers
 * hexadecimal (some compilers prefix them with 0x). Pure. The text may be passed in pieces of any size; a line counts
 * once it is complete.
 *
 * Source of the format: Linux, tools/perf/Documentation/jit-interface.txt.
 */
#ifndef XPROF_JIT_PERF_MAP_H
#define XPROF_JIT_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rest of a longer line is not read: some runtimes put whole signatures into names. */
#define XP_PERF_MAP_LINE_BYTES_MAX 4352

struct xp_perf_map_entry {
	uint64_t start;
	uint64_t size;
	const char *name; /* as in the text, not empty */
};

/* Zeroed: at the start of a file. */
struct xp_perf_map {
	size_t used;
	char line[XP_PERF_MAP_LINE_BYTES_MAX];
};

/* Returns false if the line is not an entry. */
bool xp_perf_map_parse(struct xp_perf_map_entry *entry, const char *line);

/* Calls each() for every line that is an entry, until it returns non-zero, and returns that value. */
int xp_perf_map_feed(struct xp_perf_map *map, const char *text, size_t size,
		     int (*each)(void *arg, const struct xp_perf_map_entry *entry), void *arg);

#endif
