// SPDX-License-Identifier: BSD-2-Clause
#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file_view.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "report/fdr_calls.h"
#include "report/objects.h"

/* The files of a process while its table is made. */
struct input {
	struct xp_report_table *table;
	struct xp_file_view profile;
	bool has_profile;
	struct xp_report_objects objects;
	struct xp_call_log log;
	bool has_log;
	struct xp_report_functions functions;
	/* For making rows. */
	size_t row_room;
	struct xp_u64_map rows;	       /* by hash of the members that distinguish rows */
	struct xp_u64_map by_function; /* the first row with a name */
};

struct making {
	struct xp_report_tables *tables;
	const struct xp_report_options *options;
	struct input *inputs;
	const char *instr_map; /* NULL: none, or not readable */
	bool broken;
};

/* ---- step 1: read everything, and request the names of all addresses ---- */

static void report_violation(struct making *making, const char *path, uint64_t offset, const char *text)
{
	xp_error("%s: 0x%" PRIx64 ": %s", path, offset, text);
	making->broken = true;
}

/* Returns 1 if the file is open, and 0 if it is not, after reporting that. */
static int open_view(struct making *making, struct xp_file_view *view, const char *path)
{
	int err = xp_file_view_open(view, AT_FDCWD, path);

	if (!err)
		return 1;
	xp_error("%s: cannot read it: %s", path, strerror(-err));
	making->broken = true;
	return 0;
}

/* All but the sampled PC are return addresses, which may already belong to the next function. */
static uint64_t code_address(const struct xp_gperf_reader *reader, const struct xp_gperf_sample *sample, uint64_t index)
{
	uint64_t pc = xp_gperf_reader_pc(reader, sample, index);

	return index && pc ? pc - 1 : pc;
}

static int want_address(struct xp_symbolizer *symbolizer, const struct xp_report_objects *objects, uint64_t address)
{
	uint64_t vaddr;
	uint32_t place;
	const struct xp_report_object *object = xp_report_objects_find(objects, symbolizer, address, &vaddr);
	int err = object ? xp_symbolizer_want(symbolizer, object->file, vaddr, &place) : 0;

	return err == -E2BIG ? 0 : err;
}

static int want_samples(struct xp_symbolizer *symbolizer, struct input *input)
{
	struct xp_violation violation;
	struct xp_gperf_reader reader;
	struct xp_gperf_sample sample;
	int err = 0;

	if (xp_gperf_reader_init(&reader, input->profile.bytes, input->profile.size, &violation))
		return 0;
	while (!err && xp_gperf_reader_next(&reader, &sample, &violation) > 0)
		for (uint64_t i = 0; !err && i < sample.pc_count; i++)
			err = want_address(symbolizer, &input->objects, code_address(&reader, &sample, i));
	return err;
}

/* The list of objects follows the records. */
static int read_profile(struct making *making, struct input *input)
{
	const char *path = input->table->process->profile;
	struct xp_symbolizer *symbolizer = making->tables->symbolizer;
	struct xp_violation violation;
	struct xp_gperf_reader reader;
	struct xp_gperf_sample sample;
	int err;

	input->has_profile = open_view(making, &input->profile, path);
	if (!input->has_profile)
		return 0;
	err = xp_gperf_reader_init(&reader, input->profile.bytes, input->profile.size, &violation);
	if (!err) {
		input->table->has_samples = true;
		input->table->period_us = reader.period_us;
	}
	while (!err && (err = xp_gperf_reader_next(&reader, &sample, &violation)) > 0)
		err = 0;
	if (!err)
		err = xp_report_objects_read(&input->objects, &reader, input->table->process, symbolizer, &violation);
	if (err == -EBADMSG) {
		report_violation(making, path, violation.offset, violation.text);
		xp_interval_map_sort(&input->objects.intervals);
		err = 0;
	}
	return err ? err : want_samples(symbolizer, input);
}

static int find_functions(struct making *making, struct input *input)
{
	uint32_t count = 0;

	for (size_t i = 0; i < input->log.function_count; i++)
		count = XP_MAX(count, input->log.functions[i].function_id);
	for (size_t i = 0; i < input->table->process->taken_out_count; i++)
		count = XP_MAX(count, input->table->process->taken_out[i].id);
	return xp_report_functions_find(&input->functions, XP_MIN(count, XP_REPORT_FUNCTIONS_MAX),
					input->table->process, &input->objects, making->instr_map,
					making->tables->symbolizer);
}

static int read_log(struct making *making, struct input *input)
{
	const char *path = input->table->process->log;
	struct xp_violation violation;
	struct xp_file_view view;
	int err;

	if (!open_view(making, &view, path))
		return 0;
	err = xp_call_log_read(&input->log, &view, &violation);
	xp_file_view_close(&view);
	if (err == -EBADMSG) {
		report_violation(making, path, violation.offset, violation.text);
		err = 0;
	}
	if (err)
		return err;
	input->has_log = true;
	input->table->has_calls = true;
	input->table->calls = input->log.calls;
	input->table->open = input->log.open;
	return find_functions(making, input);
}

static void check_instr_map(struct making *making)
{
	const char *path = making->options->instr_map;

	if (!path)
		return;
	if (xp_report_instr_map_is_good(path, making->tables->symbolizer)) {
		making->instr_map = path;
		return;
	}
	xp_error("%s: " XP_REPORT_NO_INSTR_MAP, path);
	making->broken = true;
}

static int read_input(struct making *making, struct input *input)
{
	const struct xp_recorded_process *process = input->table->process;
	int err = process->profile ? read_profile(making, input) : 0;

	if (!err && process->log && !(making->options->by_line && input->has_profile))
		err = read_log(making, input);
	return err;
}

/* ---- step 2: rows ---- */

static uint64_t hash_of(const struct xp_report_row *row)
{
	uint64_t hash = (uintptr_t)row->function;

	hash = hash * 0x9e3779b97f4a7c15u + (uintptr_t)row->object;
	hash = hash * 0x9e3779b97f4a7c15u + (uintptr_t)row->file;
	return hash * 0x9e3779b97f4a7c15u + row->line;
}

/* Each string exists only once, so equal strings have equal addresses. */
static bool same_row(const struct xp_report_row *a, const struct xp_report_row *b)
{
	return a->function == b->function && a->object == b->object && a->file == b->file && a->line == b->line;
}

static int append_row(struct input *input, const struct xp_report_row *row)
{
	struct xp_report_table *table = input->table;

	if (XP_ARRAY_RESERVE(table->rows, input->row_room, table->row_count + 1))
		return -ENOMEM;
	table->rows[table->row_count++] = *row;
	return xp_u64_map_add(&input->by_function, (uintptr_t)row->function, (uint32_t)table->row_count - 1) ? 0
													     : -ENOMEM;
}

/* Finds a row like this one, or adds it. Returns NULL if out of memory. Valid until the next row is added. */
static struct xp_report_row *find_row(struct input *input, const struct xp_report_row *like)
{
	uint64_t hash = hash_of(like);
	uint32_t *index;

	while ((index = xp_u64_map_find(&input->rows, hash))) {
		if (same_row(&input->table->rows[*index], like))
			return &input->table->rows[*index];
		hash++;
	}
	if (!xp_u64_map_add(&input->rows, hash, (uint32_t)input->table->row_count) || append_row(input, like))
		return NULL;
	return &input->table->rows[input->table->row_count - 1];
}

/* The name of code without a symbol: object+0xaddress. */
static const char *place_name(struct xp_symbolizer *symbolizer, const char *object, uint64_t address)
{
	char name[512];

	if (object)
		snprintf(name, sizeof(name), "%.*s+0x%" PRIx64, (int)xp_text_fit(object, 400), object, address);
	else
		snprintf(name, sizeof(name), "0x%" PRIx64, address);
	return xp_symbolizer_text(symbolizer, name);
}

/* A call chain of a profile while it is counted. */
struct chain {
	struct making *making;
	struct input *input;
	uint64_t number; /* from 1 */
	uint64_t count;
	bool first; /* the next frame is the innermost one of the chain */
};

static int count_frame(struct chain *chain, const struct xp_report_row *like)
{
	struct xp_report_row *row = like->function ? find_row(chain->input, like) : NULL;

	if (!row)
		return -ENOMEM;
	if (chain->first)
		row->flat += chain->count;
	chain->first = false;
	if (row->seen != chain->number)
		row->cum += chain->count;
	row->seen = chain->number;
	return 0;
}

/* Counts the frames of a place, the innermost first. */
static int count_place(struct chain *chain, const struct xp_place *place, const char *object)
{
	const struct xp_report_options *options = chain->making->options;
	struct xp_symbolizer *symbolizer = chain->making->tables->symbolizer;
	uint32_t i = options->no_inlines && place->frame_count ? place->frame_count - 1 : 0;
	int err = 0;

	for (; !err && i < place->frame_count; i++) {
		const struct xp_source_frame *frame = &place->frames[i];
		struct xp_report_row like = { .function = frame->function, .object = object };

		if (options->by_line) {
			like.file = frame->file;
			like.line = frame->line;
		}
		if (!like.function)
			like.function = place_name(symbolizer, object, place->vaddr);
		err = count_frame(chain, &like);
	}
	return err;
}

static int count_address(struct chain *chain, uint64_t address)
{
	struct xp_symbolizer *symbolizer = chain->making->tables->symbolizer;
	struct xp_report_row like = { 0 };
	uint64_t vaddr = address;
	uint32_t number;
	const struct xp_report_object *object =
	    xp_report_objects_find(&chain->input->objects, symbolizer, address, &vaddr);
	int err = object ? xp_symbolizer_want(symbolizer, object->file, vaddr, &number) : -E2BIG;

	if (!err) {
		const struct xp_place *place = xp_symbolizer_place(symbolizer, number);

		if (place->frame_count)
			return count_place(chain, place, object->name);
	} else if (err != -E2BIG) {
		return err;
	}
	like.object = object ? object->name : NULL;
	like.function = place_name(symbolizer, like.object, vaddr);
	return count_frame(chain, &like);
}

static int count_samples(struct making *making, struct input *input)
{
	struct chain chain = { .making = making, .input = input };
	struct xp_violation violation;
	struct xp_gperf_reader reader;
	struct xp_gperf_sample sample;
	int err = 0;

	if (xp_gperf_reader_init(&reader, input->profile.bytes, input->profile.size, &violation))
		return 0;
	while (!err && xp_gperf_reader_next(&reader, &sample, &violation) > 0) {
		chain.number++;
		chain.count = sample.count;
		chain.first = true;
		input->table->samples += sample.count;
		for (uint64_t i = 0; !err && i < sample.pc_count; i++)
			err = count_address(&chain, code_address(&reader, &sample, i));
	}
	return err;
}

/* The table shows a function under the name that its samples have, if it has any. */
static int describe_function(struct making *making, struct input *input, uint32_t id, struct xp_report_row *like)
{
	struct xp_symbolizer *symbolizer = making->tables->symbolizer;
	const struct xp_report_function *function = id < input->functions.count ? &input->functions.all[id] : NULL;
	char name[32];

	like->object = function ? function->object : NULL;
	if (function && function->has_place) {
		const struct xp_place *place = xp_symbolizer_place(symbolizer, function->place);

		if (place->frame_count)
			like->function = place->frames[place->frame_count - 1].function;
	}
	if (!like->function) {
		snprintf(name, sizeof(name), "fn_%" PRIu32, id);
		like->function = xp_symbolizer_text(symbolizer, name);
	}
	return like->function ? 0 : -ENOMEM;
}

static int find_function_row(struct making *making, struct input *input, uint32_t id, struct xp_report_row **row)
{
	struct xp_report_row like = { 0 };
	uint32_t *known;
	int err = describe_function(making, input, id, &like);

	if (err)
		return err;
	known = like.object ? NULL : xp_u64_map_find(&input->by_function, (uintptr_t)like.function);
	*row = known ? &input->table->rows[*known] : find_row(input, &like);
	return *row ? 0 : -ENOMEM;
}

static int count_calls(struct making *making, struct input *input, const struct xp_calls *calls)
{
	struct xp_report_row *row;
	int err = find_function_row(making, input, calls->function_id, &row);

	if (err)
		return err;
	row->calls += calls->calls;
	row->ended += calls->ended;
	if (input->log.cycle_hz)
		row->total_s += (double)calls->cycles / (double)input->log.cycle_hz;
	return 0;
}

/* A function that was taken out gets a row even if the log has no call of it, since calls may have happened. */
static int mark_taken_out(struct making *making, struct input *input)
{
	const struct xp_recorded_process *process = input->table->process;
	struct xp_report_row *row;
	int err = 0;

	for (size_t i = 0; !err && input->has_log && i < process->taken_out_count; i++) {
		err = find_function_row(making, input, process->taken_out[i].id, &row);
		if (!err)
			row->taken_out = &process->taken_out[i];
	}
	return err;
}

static int make_rows(struct making *making, struct input *input)
{
	int err = input->has_profile ? count_samples(making, input) : 0;

	for (size_t i = 0; !err && i < input->log.function_count; i++)
		err = count_calls(making, input, &input->log.functions[i]);
	if (!err)
		err = mark_taken_out(making, input);
	xp_u64_map_free(&input->rows);
	xp_u64_map_free(&input->by_function);
	return err;
}

/* ---- the whole report ---- */

static void input_free(struct input *input)
{
	if (input->has_profile)
		xp_file_view_close(&input->profile);
	xp_report_objects_free(&input->objects);
	xp_report_functions_free(&input->functions);
	xp_call_log_free(&input->log);
}

static int compare_tables(const void *a, const void *b)
{
	const struct xp_report_table *x = a, *y = b;

	if (x->samples != y->samples)
		return x->samples > y->samples ? -1 : 1;
	if (x->calls != y->calls)
		return x->calls > y->calls ? -1 : 1;
	return strcmp(x->process->name, y->process->name);
}

static int make_all(struct making *making, size_t count)
{
	int err = 0;

	check_instr_map(making);
	for (size_t i = 0; !err && i < count; i++)
		err = read_input(making, &making->inputs[i]);
	if (!err)
		err = xp_symbolizer_run(making->tables->symbolizer);
	for (size_t i = 0; !err && i < count; i++)
		err = make_rows(making, &making->inputs[i]);
	return err;
}

int xp_report_make(struct xp_report_tables *tables, const struct xp_recorded *recorded,
		   const struct xp_report_options *options, bool *broken)
{
	size_t count = recorded->process_count;
	struct making making = { .tables = tables, .options = options };
	int err;

	memset(tables, 0, sizeof(*tables));
	tables->tables = calloc(XP_MAX(count, (size_t)1), sizeof(*tables->tables));
	making.inputs = calloc(XP_MAX(count, (size_t)1), sizeof(*making.inputs));
	err = xp_symbolizer_new(&tables->symbolizer, options->by_line ? XP_NAMES_LINES : XP_NAMES_FUNCTIONS);
	if (!err && (!tables->tables || !making.inputs))
		err = -ENOMEM;
	for (size_t i = 0; !err && i < count; i++) {
		tables->tables[i].process = &recorded->processes[i];
		making.inputs[i].table = &tables->tables[i];
		tables->count++;
	}
	if (!err)
		err = make_all(&making, count);
	for (size_t i = 0; making.inputs && i < count; i++)
		input_free(&making.inputs[i]);
	free(making.inputs);
	if (!err)
		qsort(tables->tables, tables->count, sizeof(*tables->tables), compare_tables);
	*broken = making.broken;
	return err;
}

void xp_report_free(struct xp_report_tables *tables)
{
	for (size_t i = 0; i < tables->count; i++)
		free(tables->tables[i].rows);
	free(tables->tables);
	xp_symbolizer_free(tables->symbolizer);
	memset(tables, 0, sizeof(*tables));
}

/* ---- order ---- */

static int compare_numbers(double a, double b)
{
	return a > b ? -1 : a < b;
}

static int compare_rest(const struct xp_report_row *a, const struct xp_report_row *b)
{
	int order = compare_numbers(a->total_s, b->total_s);

	if (!order)
		order = compare_numbers(a->calls, b->calls);
	if (!order)
		order = strcmp(a->function, b->function);
	return order ? order : (a->line > b->line) - (a->line < b->line);
}

static int compare_flat(const void *a, const void *b)
{
	const struct xp_report_row *x = a, *y = b;
	int order = compare_numbers(x->flat, y->flat);

	if (!order)
		order = compare_numbers(x->cum, y->cum);
	return order ? order : compare_rest(x, y);
}

static int compare_cum(const void *a, const void *b)
{
	const struct xp_report_row *x = a, *y = b;
	int order = compare_numbers(x->cum, y->cum);

	return order ? order : compare_flat(a, b);
}

static int compare_time(const void *a, const void *b)
{
	const struct xp_report_row *x = a, *y = b;
	int order = compare_numbers(x->total_s, y->total_s);

	return order ? order : compare_flat(a, b);
}

void xp_report_sort(struct xp_report_table *table, enum xp_report_sort sort)
{
	int (*const compare[])(const void *, const void *) = {
		[XP_REPORT_FLAT] = compare_flat,
		[XP_REPORT_CUM] = compare_cum,
		[XP_REPORT_TIME] = compare_time,
	};

	if (table->row_count)
		qsort(table->rows, table->row_count, sizeof(*table->rows), compare[sort]);
}
