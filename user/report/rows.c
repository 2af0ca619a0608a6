// SPDX-License-Identifier: BSD-2-Clause
#include "report/rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"

static uint64_t row_key(const void *elements, uint32_t index)
{
	const struct xp_report_row *row = (const struct xp_report_row *)elements + index;
	uint64_t key = xp_hash_mix((uintptr_t)row->function, (uintptr_t)row->object);

	return xp_hash_mix(key, (uintptr_t)row->file + row->line);
}

static bool same_row(const struct xp_report_row *a, const struct xp_report_row *b)
{
	return a->function == b->function && a->object == b->object && a->file == b->file && a->line == b->line;
}

static struct xp_report_row *find_row(const struct xp_report_place *place, const struct xp_report_row *like)
{
	const struct xp_hash *rows = &place->index->rows;

	for (const uint32_t *slot = xp_hash_first(rows, row_key(like, 0)); *slot; slot = xp_hash_next(rows, slot))
		if (same_row(&place->table->rows[*slot - 1], like))
			return &place->table->rows[*slot - 1];
	return NULL;
}

static struct xp_report_row *add_row(const struct xp_report_place *place, const struct xp_report_row *like)
{
	struct xp_report_table *table = place->table;
	struct xp_report_row_index *index = place->index;
	uint32_t next = (uint32_t)table->row_count;

	if (table->row_count == UINT32_MAX - 1 || XP_ARRAY_RESERVE(table->rows, index->room, table->row_count + 1) ||
	    xp_hash_add(&index->rows, row_key(like, 0), next, row_key, table->rows) ||
	    !xp_u64_map_add(&index->by_function, (uintptr_t)like->function, next))
		return NULL;
	table->rows[table->row_count] = *like;
	return &table->rows[table->row_count++];
}

struct xp_report_row *xp_report_row(struct xp_report_tables *tables, const struct xp_report_place *place,
				    const struct xp_report_row *like)
{
	struct xp_report_row *row = find_row(place, like), others = { .is_others = true };

	if (row)
		return row;
	if (place->table == &tables->all)
		return add_row(place, like);
	if (tables->row_count < XP_REPORT_ROWS_MAX) {
		tables->row_count++;
		return add_row(place, like);
	}
	others.function = xp_symbolizer_text(tables->model.symbolizer, XP_MODEL_OTHERS);
	if (!others.function)
		return NULL;
	row = find_row(place, &others);
	return row ? row : add_row(place, &others);
}

void xp_report_warn_of_others(const struct xp_report_tables *tables)
{
	if (tables->in_others)
		xp_warn("%" PRIu64 " sample%s or calls have functions that count as " XP_MODEL_OTHERS
			", since there are at most %u rows; --by process needs fewer",
			tables->in_others, xp_plural_s(tables->in_others), XP_REPORT_ROWS_MAX);
}

struct xp_report_row *xp_report_row_named(struct xp_report_table *table, const struct xp_report_row_index *index,
					  const char *function)
{
	const uint32_t *known = xp_u64_map_find(&index->by_function, (uintptr_t)function);

	return known ? &table->rows[*known] : NULL;
}

/* Fills in *like for a frame. Code outside of all binaries gets a row per address. */
static int describe(const struct xp_model *model, const struct xp_model_location *location, uint32_t frame,
		    bool by_line, struct xp_report_row *like)
{
	const struct xp_model_frame *from = &model->frames[location->first_frame + frame];
	const struct xp_model_function *function = &model->functions[from->function];
	const struct xp_model_object *object = &model->objects[function->object];
	char name[32];

	*like = (struct xp_report_row){ .function = function->name, .object = object->name };
	if (by_line) {
		like->file = function->file;
		like->line = from->line;
	}
	if (!function->has_name && object->file == XP_MODEL_NONE && object->kind == XP_CODE_UNKNOWN) {
		snprintf(name, sizeof(name), "0x%" PRIx64, location->address);
		like->object = NULL;
		like->function = xp_symbolizer_text(model->symbolizer, name);
	}
	return like->function ? 0 : -ENOMEM;
}

static void count(struct xp_report_row *row, const struct xp_model_sample *sample, uint64_t number, bool is_innermost,
		  enum xp_model_kind kind)
{
	uint64_t self = is_innermost ? sample->values[0] : 0;
	bool is_new = row->seen != number;

	row->seen = number;
	if (kind == XP_MODEL_CALLS) {
		row->calls += self;
		row->ended = row->calls;
		row->total_s += is_new ? (double)sample->values[1] / 1e9 : 0;
	} else {
		row->flat += self;
		row->cum += is_new ? sample->values[0] : 0;
	}
}

int xp_report_count_stack(struct xp_report_tables *tables, const struct xp_report_place *place,
			  const struct xp_model *model, const struct xp_model_sample *sample, uint64_t number,
			  const struct xp_report_options *options)
{
	struct xp_report_row like, *row;
	bool is_innermost = true, in_others = false;
	int err;

	for (uint32_t stack = sample->stack; stack; stack = model->stacks[stack].callers) {
		const struct xp_model_location *location = &model->locations[model->stacks[stack].location];

		for (uint32_t i = options->no_inlines ? location->frame_count - 1 : 0; i < location->frame_count; i++) {
			err = describe(model, location, i, options->by_line, &like);
			row = err ? NULL : xp_report_row(tables, place, &like);
			if (!row)
				return -ENOMEM;
			count(row, sample, number, is_innermost, model->kind);
			is_innermost = false;
			in_others |= row->is_others;
		}
	}
	tables->in_others += in_others ? sample->values[0] : 0;
	return 0;
}

void xp_report_row_index_free(struct xp_report_row_index *index)
{
	xp_hash_free(&index->rows);
	xp_u64_map_free(&index->by_function);
}

/* ---- order ---- */

/* Orders the longer time first. */
static int compare_seconds(double a, double b)
{
	return a > b ? -1 : a < b;
}

static int compare_rest(const struct xp_report_row *a, const struct xp_report_row *b)
{
	return compare_seconds(a->total_s, b->total_s) ?: xp_compare(b->calls, a->calls) ?:
	       strcmp(a->function, b->function) ?: xp_compare(a->line, b->line);
}

static int compare_flat(const void *a, const void *b)
{
	const struct xp_report_row *x = a, *y = b;

	return xp_compare(y->flat, x->flat) ?: xp_compare(y->cum, x->cum) ?: compare_rest(x, y);
}

static int compare_cum(const void *a, const void *b)
{
	const struct xp_report_row *x = a, *y = b;

	return xp_compare(y->cum, x->cum) ?: compare_flat(a, b);
}

static int compare_time(const void *a, const void *b)
{
	const struct xp_report_row *x = a, *y = b;

	return compare_seconds(x->total_s, y->total_s) ?: compare_flat(a, b);
}

void xp_report_sort(struct xp_report_table *table, enum xp_report_sort sort)
{
	int (*const compare[])(const void *, const void *) = {
		[XP_REPORT_FLAT] = compare_flat,
		[XP_REPORT_CUM] = compare_cum,
		[XP_REPORT_TIME] = compare_time,
	};

	if (!table->has_samples)
		sort = XP_REPORT_TIME;
	if (table->row_count)
		qsort(table->rows, table->row_count, sizeof(*table->rows), compare[sort]);
}

void xp_report_sort_all(struct xp_report_tables *tables, enum xp_report_sort sort)
{
	xp_report_sort(&tables->all, sort);
	for (size_t i = 0; i < tables->count; i++)
		xp_report_sort(&tables->tables[i], sort);
}
