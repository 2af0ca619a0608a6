// SPDX-License-Identifier: BSD-2-Clause
#include "base/interval_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

/*
 * Intervals of real programs hardly overlap. The limit prevents a hostile file from making each search a linear scan.
 */
#define STEPS_MAX 64

int xp_interval_map_add(struct xp_interval_map *intervals, struct xp_interval interval)
{
	if (interval.start >= interval.end)
		return 0;
	return XP_ARRAY_ADD(intervals->all, intervals->count, intervals->room, interval);
}

static int compare(const void *a, const void *b)
{
	const struct xp_interval *x = a, *y = b;

	return xp_compare(x->start, y->start) ?: xp_compare(x->rank, y->rank) ?: xp_compare(y->index, x->index);
}

void xp_interval_map_sort(struct xp_interval_map *intervals)
{
	if (intervals->count)
		qsort(intervals->all, intervals->count, sizeof(*intervals->all), compare);
}

const struct xp_interval *xp_interval_map_find(const struct xp_interval_map *intervals, uint64_t address)
{
	size_t low = XP_FIND_FIRST(intervals->count, i, intervals->all[i].start <= address);

	for (size_t step = 0; step < STEPS_MAX && step < low; step++) {
		const struct xp_interval *interval = &intervals->all[low - 1 - step];

		if (address < interval->end)
			return interval;
	}
	return NULL;
}

void xp_interval_map_free(struct xp_interval_map *intervals)
{
	free(intervals->all);
	memset(intervals, 0, sizeof(*intervals));
}
