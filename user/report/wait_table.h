/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of the waits of a model, by stack and state.
 *
 * Counts and times are estimates for all waits, which the recorded waits represent (wait_record.h). Their sums equal
 * the sums of the samples of waits (read_waits.h).
 */
#ifndef XPROF_REPORT_WAIT_TABLE_H
#define XPROF_REPORT_WAIT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

/* Waits with the same functions in their stack and the same state; or waits for the same lock of a process. */
struct xp_wait_row {
	const struct xp_model_wait *longest;
	const struct xp_model_wait *waker; /* a wait that was ended by the waker with the longest total time */
	double count;
	uint64_t total_ns;
	uint64_t runnable_ns; /* runnable time, included in total_ns */
	uint64_t waker_ns;    /* total time of the waits that this waker ended */
	uint64_t wakers;      /* number of different wakers */
};

static inline uint64_t xp_wait_row_longest_ns(const struct xp_wait_row *row)
{
	return row->longest->end_ns - row->longest->begin_ns;
}

struct xp_wait_table {
	struct xp_wait_row *rows; /* the longest total time first */
	size_t row_count;
	uint64_t recorded; /* number of recorded waits */
	double count;	   /* number of waits that they represent */
	uint64_t total_ns, runnable_ns;
};

/*
 * Makes a table of the waits with the indexes `some`, which it sorts. shapes: the shapes of the model's stacks
 * (stack_shapes.h). by_lock: makes a row for each lock with a known address. The caller frees the table, also after an
 * error. Returns 0 or -ENOMEM.
 */
int xp_wait_table_make(struct xp_wait_table *table, const struct xp_model *model, const uint64_t *shapes,
		       uint32_t *some, size_t count, bool by_lock);
void xp_wait_table_free(struct xp_wait_table *table);

#endif
