/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address ranges that came into use at different times: the mappings of a process, or its JIT functions. At any time,
 * the newest range that contains an address is in use. perf does not record when a mapping ends, so the end is unknown
 * here, too. Add all ranges in any order, call xp_spans_sort() once, then search.
 */
#ifndef XPROF_MODEL_SPANS_H
#define XPROF_MODEL_SPANS_H

#include <stddef.h>
#include <stdint.h>

struct xp_span {
	uint64_t start;
	uint64_t end; /* exclusive */
	uint64_t from_ns;
	uint32_t index; /* defined by the caller */
};

/* Empty if zeroed. */
struct xp_spans {
	struct xp_span *all;
	size_t count;
	size_t room;
	uint64_t *reach; /* reach[i]: the highest end of all[0..i] */
	uint64_t *clear; /* times at which all older ranges ended, ascending */
	size_t clear_count;
	size_t clear_room;
};

/* Ignores empty ranges. Returns 0 or -ENOMEM. */
int xp_spans_add(struct xp_spans *spans, const struct xp_span *span);
/* Ends all ranges: the process executes another program. Returns 0 or -ENOMEM. */
int xp_spans_clear(struct xp_spans *spans, uint64_t at_ns);
/* Returns 0 or -ENOMEM. */
int xp_spans_sort(struct xp_spans *spans);
/* Returns how many times the spans had been cleared before this time. */
size_t xp_spans_generation(const struct xp_spans *spans, uint64_t at_ns);
/*
 * Returns the range in use that starts at an address, or closest below it. NULL: none, or more than BELOW_MAX ranges of
 * other times are in between.
 */
const struct xp_span *xp_spans_below(const struct xp_spans *spans, uint64_t address, uint64_t at_ns);
/* NULL: none. */
const struct xp_span *xp_spans_find(const struct xp_spans *spans, uint64_t address, uint64_t at_ns);
void xp_spans_free(struct xp_spans *spans);

#endif
