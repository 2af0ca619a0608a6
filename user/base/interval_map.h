/* SPDX-License-Identifier: BSD-2-Clause */
/* Address ranges, searched for the one that contains an address. */
#ifndef XPROF_BASE_INTERVAL_MAP_H
#define XPROF_BASE_INTERVAL_MAP_H

#include <stddef.h>
#include <stdint.h>

struct xp_interval {
	uint64_t start;
	uint64_t end;	/* exclusive */
	uint32_t rank;	/* among intervals with the same start, the highest rank is found first */
	uint32_t index; /* defined by the caller */
};

/* Empty if zeroed. */
struct xp_interval_map {
	struct xp_interval *all;
	size_t count;
	size_t room;
};

/* Returns 0 or -ENOMEM. Ignores empty intervals. */
int xp_interval_map_add(struct xp_interval_map *intervals, struct xp_interval interval);
/* Call once, after the last add. */
void xp_interval_map_sort(struct xp_interval_map *intervals);
/* The interval that contains address and has the highest start. Returns NULL if there is none. */
const struct xp_interval *xp_interval_map_find(const struct xp_interval_map *intervals, uint64_t address);
void xp_interval_map_free(struct xp_interval_map *intervals);

#endif
