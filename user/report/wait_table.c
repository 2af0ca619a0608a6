// SPDX-License-Identifier: BSD-2-Clause
#include "report/wait_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/util.h"
#include "model/stack_shapes.h"
#include "model/read_waits.h"

#define ENDED_BY (XP_WAIT_LAST | XP_WAIT_HARDIRQ | XP_WAIT_SOFTIRQ)

/* ---- places ---- */

static uint64_t place_key(const void *elements, uint32_t index)
{
	const struct xp_wait_place *place = (const struct xp_wait_place *)elements + index;
	uint64_t key = (uint64_t)place->thread << 32 | place->stack;

	key = xp_hash_mix(key, (uint64_t)place->cpu << 32 | place->state);
	return xp_hash_mix(key, (uint64_t)place->waker.flags << 32 | place->waker.tid);
}

static bool same_place(const struct xp_wait_place *a, const struct xp_wait_place *b)
{
	return a->thread == b->thread && a->stack == b->stack && a->cpu == b->cpu && a->state == b->state &&
	       a->waker.flags == b->waker.flags && a->waker.tid == b->waker.tid;
}

static int find_place(struct xp_wait_places *places, const struct xp_wait_place *like, struct xp_wait_place **found)
{
	uint64_t key = place_key(like, 0);

	for (const uint32_t *slot = xp_hash_first(&places->by_key, key); *slot;
	     slot = xp_hash_next(&places->by_key, slot))
		if (same_place(&places->list[*slot - 1], like)) {
			*found = &places->list[*slot - 1];
			return 0;
		}
	if (places->count == XP_WAIT_PLACES_MAX)
		return -E2BIG;
	if (XP_ARRAY_RESERVE(places->list, places->room, places->count + 1) ||
	    xp_hash_add(&places->by_key, key, (uint32_t)places->count, place_key, places->list))
		return -ENOMEM;
	*found = &places->list[places->count++];
	**found = *like;
	return 0;
}

static int add(void *arg, const struct xp_model_sample *sample, const struct xp_wait_record *wait)
{
	struct xp_wait_places *places = arg;
	uint64_t ns = xp_wait_record_ns(wait);
	struct xp_wait_place *place, like = {
		.thread = sample->thread,
		.cpu = places->by_cpu ? sample->cpu : XP_MODEL_CPU_UNKNOWN,
		.stack = sample->stack,
		.state = xp_waits_known_state(wait),
		.waker = {
			.tid = wait->waker_tid > 0 ? (uint32_t)wait->waker_tid : 0,
			.flags = wait->flags & ENDED_BY,
			.name = xp_model_text(&places->model, wait->waker_comm),
		},
	};
	int err = like.waker.name ? find_place(places, &like, &place) : -ENOMEM;

	if (err)
		return err;
	place->recorded++;
	place->count += xp_wait_record_weight(wait);
	xp_add_capped(&place->total_ns, xp_wait_record_period(wait));
	xp_add_capped(&place->runnable_ns, xp_waits_runnable_ns(wait));
	if (ns > place->longest_ns) {
		place->longest_ns = ns;
		place->longest_at_ns = sample->time_ns - XP_MIN(ns, sample->time_ns);
	}
	return 0;
}

int xp_wait_places_read(struct xp_wait_places *places, const struct xp_model_source *source,
			struct xp_symbolizer *symbolizer, bool by_cpu, bool *broken)
{
	const struct xp_model_waits waits = { add, places };
	struct xp_model_source of_waits = *source;
	int err;

	*places = (struct xp_wait_places){ .by_cpu = by_cpu };
	of_waits.waits = &waits;
	err = xp_model_init_beside(&places->model, XP_MODEL_WAITS, symbolizer);
	places->model.full_names = source->full_names;
	err = err ?: xp_model_read_samples(&places->model, &of_waits, broken);
	return err ?: xp_stack_shorten_names(&places->model) ?: xp_stack_shapes(&places->model, &places->shapes);
}

void xp_wait_places_free(struct xp_wait_places *places)
{
	places->model.symbolizer = NULL;
	xp_model_free(&places->model);
	xp_hash_free(&places->by_key);
	free(places->shapes);
	free(places->list);
}

/* ---- tables ---- */

/* Those of a row together, and among them those of a waker. */
static int compare_places(const void *a, const void *b, void *arg)
{
	const struct xp_wait_places *places = arg;
	const struct xp_wait_place *x = &places->list[*(const uint32_t *)a], *y = &places->list[*(const uint32_t *)b];

	return xp_compare(places->shapes[x->stack], places->shapes[y->stack]) ?:
	       xp_compare(x->state, y->state) ?:
	       xp_compare(x->waker.flags, y->waker.flags) ?:
	       xp_compare(x->waker.tid, y->waker.tid) ?:
	       xp_compare(x->stack, y->stack);
}

static int compare_rows(const void *a, const void *b)
{
	const struct xp_wait_row *x = a, *y = b;

	return xp_compare(y->total_ns, x->total_ns) ?: xp_compare(x->stack, y->stack) ?: xp_compare(x->state, y->state);
}

static void add_to_row(struct xp_wait_row *row, const struct xp_wait_place *place)
{
	row->count += place->count;
	xp_add_capped(&row->total_ns, place->total_ns);
	xp_add_capped(&row->runnable_ns, place->runnable_ns);
	if (place->longest_ns > row->longest_ns) {
		row->longest_ns = place->longest_ns;
		row->longest_at_ns = place->longest_at_ns;
	}
}

static void add_to_table(struct xp_wait_table *table, const struct xp_wait_place *place)
{
	table->recorded += place->recorded;
	table->count += place->count;
	xp_add_capped(&table->total_ns, place->total_ns);
	xp_add_capped(&table->runnable_ns, place->runnable_ns);
}

int xp_wait_table_make(struct xp_wait_table *table, const struct xp_wait_places *places, uint32_t *some, size_t count)
{
	struct xp_wait_row *row = NULL;
	size_t room = 0;
	uint64_t by_one_ns = 0;

	*table = (struct xp_wait_table){ 0 };
	if (!count)
		return 0;
	qsort_r(some, count, sizeof(*some), compare_places, (void *)places);
	for (size_t i = 0; i < count; i++) {
		const struct xp_wait_place *place = &places->list[some[i]];
		const struct xp_wait_place *last = i ? &places->list[some[i - 1]] : NULL;
		bool is_same =
		    last && last->state == place->state && places->shapes[last->stack] == places->shapes[place->stack];

		if (!is_same) {
			if (XP_ARRAY_RESERVE(table->rows, room, table->row_count + 1))
				return -ENOMEM;
			row = &table->rows[table->row_count++];
			*row = (struct xp_wait_row){ .stack = place->stack, .state = place->state };
		}
		if (!is_same || last->waker.flags != place->waker.flags || last->waker.tid != place->waker.tid) {
			row->wakers++;
			by_one_ns = 0;
		}
		xp_add_capped(&by_one_ns, place->total_ns);
		if (by_one_ns >= row->waker_ns) {
			row->waker = place->waker;
			row->waker_ns = by_one_ns;
		}
		add_to_row(row, place);
		add_to_table(table, place);
	}
	qsort(table->rows, table->row_count, sizeof(*table->rows), compare_rows);
	return 0;
}

void xp_wait_table_free(struct xp_wait_table *table)
{
	free(table->rows);
}
