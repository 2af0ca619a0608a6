// SPDX-License-Identifier: BSD-2-Clause
#include "model/spans.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

#define BELOW_MAX 1024 /* maximum number of ranges of other times to skip */

int xp_spans_add(struct xp_spans *spans, const struct xp_span *span)
{
	if (span->start >= span->end)
		return 0;
	return XP_ARRAY_ADD(spans->all, spans->count, spans->room, *span);
}

int xp_spans_clear(struct xp_spans *spans, uint64_t at_ns)
{
	return XP_ARRAY_ADD(spans->clear, spans->clear_count, spans->clear_room, at_ns);
}

static int compare_spans(const void *a, const void *b)
{
	const struct xp_span *x = a, *y = b;

	return xp_compare(x->start, y->start) ?: xp_compare(x->from_ns, y->from_ns);
}

int xp_spans_sort(struct xp_spans *spans)
{
	uint64_t reach = 0;

	spans->reach = calloc(XP_MAX(spans->count, (size_t)1), sizeof(*spans->reach));
	if (!spans->reach)
		return -ENOMEM;
	if (spans->count)
		qsort(spans->all, spans->count, sizeof(*spans->all), compare_spans);
	for (size_t i = 0; i < spans->count; i++) {
		reach = XP_MAX(reach, spans->all[i].end);
		spans->reach[i] = reach;
	}
	if (spans->clear_count)
		qsort(spans->clear, spans->clear_count, sizeof(*spans->clear), xp_compare_u64);
	return 0;
}

size_t xp_spans_generation(const struct xp_spans *spans, uint64_t at_ns)
{
	return XP_FIND_FIRST(spans->clear_count, i, spans->clear[i] <= at_ns);
}

/* Returns the number of ranges that start at or below the address. */
static size_t count_below(const struct xp_spans *spans, uint64_t address)
{
	return XP_FIND_FIRST(spans->count, i, spans->all[i].start <= address);
}

const struct xp_span *xp_spans_find(const struct xp_spans *spans, uint64_t address, uint64_t at_ns)
{
	size_t generation = xp_spans_generation(spans, at_ns);
	uint64_t from_ns = generation ? spans->clear[generation - 1] : 0;
	const struct xp_span *best = NULL;

	for (size_t i = count_below(spans, address); i && spans->reach[i - 1] > address; i--) {
		const struct xp_span *span = &spans->all[i - 1];

		if (span->end > address && span->from_ns >= from_ns && span->from_ns <= at_ns &&
		    (!best || span->from_ns > best->from_ns))
			best = span;
	}
	return best;
}

const struct xp_span *xp_spans_below(const struct xp_spans *spans, uint64_t address, uint64_t at_ns)
{
	size_t generation = xp_spans_generation(spans, at_ns), count = count_below(spans, address);
	uint64_t from_ns = generation ? spans->clear[generation - 1] : 0;

	for (size_t i = count; i && count - i < BELOW_MAX; i--)
		if (spans->all[i - 1].from_ns >= from_ns && spans->all[i - 1].from_ns <= at_ns)
			return &spans->all[i - 1];
	return NULL;
}

void xp_spans_free(struct xp_spans *spans)
{
	free(spans->all);
	free(spans->reach);
	free(spans->clear);
	memset(spans, 0, sizeof(*spans));
}
