// SPDX-License-Identifier: BSD-2-Clause
#include "base/interval_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* Spans of programs hardly overlap; those of hostile files must not make each search a walk. */
#define STEPS_MAX 64

int xp_spans_add(struct xp_spans *spans, struct xp_span span)
{
	if (span.start >= span.end)
		return 0;
	if (spans->count == spans->room) {
		size_t room = XP_MAX(spans->room * 2, (size_t)64);
		struct xp_span *all = reallocarray(spans->all, room, sizeof(*all));

		if (!all)
			return -ENOMEM;
		spans->all = all;
		spans->room = room;
	}
	spans->all[spans->count++] = span;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct xp_span *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->index < y->index ? 1 : x->index > y->index ? -1 : 0;
}

void xp_spans_sort(struct xp_spans *spans)
{
	if (spans->count)
		qsort(spans->all, spans->count, sizeof(*spans->all), compare);
}

const struct xp_span *xp_spans_find(const struct xp_spans *spans, uint64_t address)
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
		const struct xp_span *span = &spans->all[low - 1 - step];

		if (address < span->end)
			return span;
	}
	return NULL;
}

void xp_spans_free(struct xp_spans *spans)
{
	free(spans->all);
	memset(spans, 0, sizeof(*spans));
}
