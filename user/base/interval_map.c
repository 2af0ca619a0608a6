// SPDX-License-Identifier: BSD-2-Clause
#include "base/interval_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

/* Spans of real programs hardly overlap. The limit keeps a hostile file from turning each search into a linear scan. */
#define STEPS_MAX 64

int xp_interval_map_add(struct xp_interval_map *spans, struct xp_interval span)
{
	if (span.start >= span.end)
		return 0;
	if (XP_ARRAY_RESERVE(spans->all, spans->room, spans->count + 1))
		return -ENOMEM;
	spans->all[spans->count++] = span;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct xp_interval *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->index < y->index ? 1 : x->index > y->index ? -1 : 0;
}

void xp_interval_map_sort(struct xp_interval_map *spans)
{
	if (spans->count)
		qsort(spans->all, spans->count, sizeof(*spans->all), compare);
}

const struct xp_interval *xp_interval_map_find(const struct xp_interval_map *spans, uint64_t address)
{
	size_t low = 0, high = spans->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (spans->all[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t step = 0; step < STEPS_MAX && step < low; step++) {
		const struct xp_interval *span = &spans->all[low - 1 - step];

		if (address < span->end)
			return span;
	}
	return NULL;
}

void xp_interval_map_free(struct xp_interval_map *spans)
{
	free(spans->all);
	memset(spans, 0, sizeof(*spans));
}
