// SPDX-License-Identifier: BSD-2-Clause
#include "report/pprof_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "model/objects.h"
#include "model/pprof_file.h"
#include "report/rows.h"

struct making {
	const struct xp_pprof_profile *profile;
	const struct xp_report_options *options;
	struct xp_symbolizer *symbolizer;
	struct xp_report_tables *tables;
	struct xp_report_table *table; /* the only one */
	struct xp_report_row_index index;
	const char **texts; /* the profile's, clean; NULL: not used yet */
	struct xp_pprof_values values;
};

/* ---- texts ---- */

/* NULL: out of memory. */
static const char *text_of(struct making *making, uint32_t index)
{
	return xp_pprof_text(making->profile, index, making->texts, making->symbolizer);
}

/* NULL: out of memory. */
static const char *object_name(struct making *making, const struct xp_pprof_read_location *location)
{
	char label[XP_OBJECT_LABEL_BYTES];
	const char *path = "";

	if (location->mapping != XP_PPROF_NO_MAPPING)
		path = text_of(making, making->profile->mappings[location->mapping].filename_text);
	if (!path)
		return NULL;
	return xp_symbolizer_text(making->symbolizer, xp_object_label(label, sizeof(label), path));
}

/* ---- rows ---- */

/* A sample while it is counted. */
struct chain {
	uint64_t number; /* from 1 */
	uint64_t count;
	uint64_t ns;
	bool first; /* the next frame is the innermost one */
};

static int count_frame(struct making *making, struct chain *chain, const struct xp_report_row *like)
{
	const struct xp_report_place place = { making->table, &making->index };
	struct xp_report_row *row = like->function && like->object ? xp_report_row(making->tables, &place, like) : NULL;
	bool is_new;

	if (!row)
		return -ENOMEM;
	is_new = row->seen != chain->number;
	row->seen = chain->number;
	making->tables->in_others += row->is_others && chain->first ? chain->count : 0;
	if (making->values.is_calls) {
		row->calls += chain->first ? chain->count : 0;
		row->ended = row->calls;
		row->total_s += is_new ? (double)chain->ns / 1e9 : 0;
	} else {
		row->flat += chain->first ? chain->count : 0;
		row->cum += is_new ? chain->count : 0;
	}
	chain->first = false;
	return 0;
}

static int count_location(struct making *making, struct chain *chain, const struct xp_pprof_read_location *location)
{
	const char *object = object_name(making, location);
	bool whole = making->options->no_inlines && location->line_count;
	int err = 0;

	for (uint32_t i = whole ? location->line_count - 1 : 0; !err && i < location->line_count; i++) {
		const struct xp_pprof_read_line *line = &making->profile->lines[location->first_line + i];
		const struct xp_pprof_read_function *function = &making->profile->functions[line->function];
		struct xp_report_row like = { .function = text_of(making, function->name_text), .object = object };

		if (making->options->by_line) {
			like.file = function->filename_text ? text_of(making, function->filename_text) : NULL;
			like.line = (uint32_t)line->line;
		}
		err = count_frame(making, chain, &like);
	}
	if (!location->line_count) {
		struct xp_report_row like = { .object = object };
		char name[512];

		snprintf(name, sizeof(name), "%.400s+0x%" PRIx64, object ? object : "", location->address);
		like.function = xp_symbolizer_text(making->symbolizer, name);
		err = count_frame(making, chain, &like);
	}
	return err;
}

static int count_sample(struct making *making, size_t index)
{
	struct chain chain = { .number = index + 1, .first = true };
	struct xp_pprof_parts parts;
	uint64_t values[2];
	uint32_t location;
	int err = 0;

	xp_pprof_values_read(&making->values, making->profile, index, values);
	chain.count = values[0];
	chain.ns = values[1];
	if (making->values.is_calls)
		making->table->calls += chain.count;
	else
		making->table->samples += chain.count;
	xp_pprof_parts_start(&parts, making->profile, index);
	while (!err && xp_pprof_locations_next(&parts, &location))
		err = count_location(making, &chain, &making->profile->locations[location]);
	return err;
}

/* ---- the table ---- */

static int make_table(struct making *making)
{
	const struct xp_pprof_profile *profile = making->profile;
	int err = 0;

	making->table->has_calls = making->values.is_calls;
	making->table->has_samples = !making->values.is_calls;
	making->table->period_us = (making->values.period_ns + 500) / 1000;
	making->texts = calloc(profile->text_count, sizeof(*making->texts));
	if (!making->texts)
		return -ENOMEM;
	for (size_t i = 0; !err && i < profile->sample_count; i++)
		err = count_sample(making, i);
	making->table->sampled_ns = xp_scale(making->table->samples, making->table->period_us * 1000, 1);
	xp_report_row_index_free(&making->index);
	free(making->texts);
	return err;
}

int xp_report_read_pprof(struct xp_report_tables *tables, const char *path, const struct xp_report_options *options)
{
	struct xp_pprof_profile profile = { 0 };
	struct making making = { .profile = &profile, .options = options };
	const char *slash = strrchr(path, '/');
	int err = xp_symbolizer_new(&tables->symbolizer, XP_NAMES_SYMBOLS);

	tables->by = XP_MODEL_BY_NONE;
	tables->tables = calloc(1, sizeof(*tables->tables));
	if (err || !tables->tables)
		return -ENOMEM;
	tables->count = 1;
	tables->tables->name = xp_symbolizer_text(tables->symbolizer, slash && slash[1] ? slash + 1 : path);
	if (!tables->tables->name)
		return -ENOMEM;
	making.symbolizer = tables->symbolizer;
	making.tables = tables;
	making.table = tables->tables;
	err = xp_pprof_file_read(&profile, &making.values, path);
	if (!err)
		err = make_table(&making);
	xp_pprof_profile_free(&profile);
	xp_report_warn_of_others(tables);
	return err;
}
