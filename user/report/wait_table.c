/* SPDX-License-Identifier: BSD-2-Clause */
#include "report/wait_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/util.h"

struct making {
	const struct xp_model *model;
	const uint64_t *shapes;
	bool by_lock;
};

/* Returns the key of the row of a wait; waits with the same key and state are in one row. */
static uint64_t key_of(const struct making *making, const struct xp_model_wait *wait)
{
	if (making->by_lock && wait->lock)
		return xp_hash_mix(wait->lock, making->model->threads[wait->thread].process);
	return making->shapes[wait->stack];
}

/* Sorts the waits of a row together and, within a row, the waits with the same waker. */
static int compare_waits(const void *a, const void *b, void *arg)
{
	const struct making *making = arg;
	const struct xp_model_wait *x = &making->model->waits[*(const uint32_t *)a];
	const struct xp_model_wait *y = &making->model->waits[*(const uint32_t *)b];

	return xp_compare(key_of(making, x), key_of(making, y)) ?:
	       xp_compare(x->state, y->state) ?:
	       xp_compare(x->flags, y->flags) ?:
	       xp_compare(x->waker_tid, y->waker_tid) ?:
	       xp_compare(x->stack, y->stack);
}

static int compare_rows(const void *a, const void *b)
{
	const struct xp_wait_row *x = a, *y = b;

	return xp_compare(y->total_ns, x->total_ns) ?: xp_compare(x->longest->stack, y->longest->stack) ?:
	       xp_compare(x->longest->state, y->longest->state);
}

static void add(struct xp_wait_table *table, struct xp_wait_row *row, const struct xp_model_wait *wait)
{
	row->count += wait->count;
	xp_add_capped(&row->total_ns, wait->total_ns);
	xp_add_capped(&row->runnable_ns, wait->total_runnable_ns);
	if (wait->end_ns - wait->begin_ns > xp_wait_row_longest_ns(row))
		row->longest = wait;
	table->recorded += wait->recorded;
	table->count += wait->count;
	xp_add_capped(&table->total_ns, wait->total_ns);
	xp_add_capped(&table->runnable_ns, wait->total_runnable_ns);
}

int xp_wait_table_make(struct xp_wait_table *table, const struct xp_model *model, const uint64_t *shapes,
		       uint32_t *some, size_t count, bool by_lock)
{
	struct making making = { model, shapes, by_lock };
	const struct xp_model_wait *last = NULL;
	struct xp_wait_row *row = NULL;
	uint64_t by_one_ns = 0;
	size_t room = 0;

	*table = (struct xp_wait_table){ 0 };
	if (!count)
		return 0;
	qsort_r(some, count, sizeof(*some), compare_waits, &making);
	for (size_t i = 0; i < count; i++) {
		const struct xp_model_wait *wait = &model->waits[some[i]];
		bool is_same = last && last->state == wait->state && key_of(&making, last) == key_of(&making, wait);

		if (!is_same) {
			if (XP_ARRAY_RESERVE(table->rows, room, table->row_count + 1))
				return -ENOMEM;
			row = &table->rows[table->row_count++];
			*row = (struct xp_wait_row){ .longest = wait };
		}
		if (!is_same || last->flags != wait->flags || last->waker_tid != wait->waker_tid) {
			row->wakers++;
			by_one_ns = 0;
		}
		xp_add_capped(&by_one_ns, wait->total_ns);
		if (by_one_ns >= row->waker_ns) {
			row->waker = wait;
			row->waker_ns = by_one_ns;
		}
		add(table, row, wait);
		last = wait;
	}
	qsort(table->rows, table->row_count, sizeof(*table->rows), compare_rows);
	return 0;
}

void xp_wait_table_free(struct xp_wait_table *table)
{
	free(table->rows);
}
