/* SPDX-License-Identifier: BSD-2-Clause */
/* Address ranges, to be searched for the one that holds an address. */
#ifndef XPROF_SPANS_H
#define XPROF_SPANS_H

#include <stddef.h>
#include <stdint.h>

struct xp_span {
	uint64_t start;
	uint64_t end;	/* exclusive */
	uint32_t rank;	/* of those with one start, the highest goes first */
	uint32_t index; /* the caller's */
};

/* Zeroed: empty. */
struct xp_spans {
	struct xp_span *all;
	size_t count;
	size_t room;
};

/* -ENOMEM. Empty spans are passed over. */
int xp_spans_add(struct xp_spans *spans, struct xp_span span);
/* Once, when all are added. */
void xp_spans_sort(struct xp_spans *spans);
/* Of the spans that hold address, the one that starts nearest; NULL: none. */
const struct xp_span *xp_spans_find(const struct xp_spans *spans, uint64_t address);
void xp_spans_free(struct xp_spans *spans);

#endif
