/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The text of a perf map, in which a JIT compiler names its code: lines of START SIZE NAME, both numbers hexadecimal
 * (some write 0x before them). Pure. The text may come in any pieces; a line counts when its end has come.
 *
 * Source of the format: Linux, tools/perf/Documentation/jit-interface.txt.
 */
#ifndef XPROF_PERF_MAP_H
#define XPROF_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is behind that in a line is not read: some runtimes have names with whole signatures in them. */
#define XP_PERF_MAP_LINE_BYTES_MAX 4352

struct xp_perf_map_entry {
	uint64_t start;
	uint64_t size;
	const char *name; /* as it stands there, not empty */
};

/* Zeroed: at the beginning of a file. */
struct xp_perf_map {
	size_t used;
	char line[XP_PERF_MAP_LINE_BYTES_MAX];
};

/* False: not such a line. */
bool xp_perf_map_parse(struct xp_perf_map_entry *entry, const char *line);

/* Calls each() for every line that is an entry, until it returns non-zero, and returns that. */
int xp_perf_map_feed(struct xp_perf_map *map, const char *text, size_t size,
		     int (*each)(void *arg, const struct xp_perf_map_entry *entry), void *arg);

#endif
