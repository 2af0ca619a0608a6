// SPDX-License-Identifier: BSD-2-Clause
#include "report/pprof_table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_view.h"
#include "base/util.h"
#include "format/pprof_reader.h"
#include "report/rows.h"

struct making {
	const struct xp_pprof_profile *profile;
	const struct xp_report_options *options;
	struct xp_symbolizer *symbolizer;
	struct xp_report_table *table;
	struct xp_report_row_index index;
	const char **texts; /* the profile's, clean; NULL: not used yet */
	size_t count_index; /* of the value that is counted */
	size_t ns_index;    /* of the one in ns; the number of values: none */
	bool is_calls;
};

/* ---- texts ---- */

/* NULL: out of memory. */
static const char *text_of(struct making *making, uint32_t index)
{
	const struct xp_pprof_text *from = &making->profile->texts[index];
	char *copy;

	if (making->texts[index])
		return making->texts[index];
	copy = strndup(from->text, from->bytes);
	if (copy)
		making->texts[index] = xp_symbolizer_text(making->symbolizer, copy);
	free(copy);
	return making->texts[index];
}

static bool is_text(const struct making *making, uint32_t index, const char *text)
{
	const struct xp_pprof_text *its = &making->profile->texts[index];

	return its->bytes == strlen(text) && memcmp(its->text, text, its->bytes) == 0;
}

/* "/usr/lib/libc.so.6" is libc.so.6, "[kernel]" is kernel. NULL: out of memory. */
static const char *object_name(struct making *making, const struct xp_pprof_read_location *location)
{
	const char *path = "", *slash;
	char name[256];
	size_t length;

	if (location->mapping != XP_PPROF_NO_MAPPING)
		path = text_of(making, making->profile->mappings[location->mapping].filename_text);
	if (!path)
		return NULL;
	slash = strrchr(path, '/');
	length = strlen(path);
	if (*path == '[' && path[length - 1] == ']' && strcmp(path, "[unknown]") != 0)
		snprintf(name, sizeof(name), "%.*s", (int)XP_MIN(length - 2, sizeof(name) - 1), path + 1);
	else
		snprintf(name, sizeof(name), "%s", slash && slash[1] ? slash + 1 : path);
	return xp_symbolizer_text(making->symbolizer, name);
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
	struct xp_report_row *row =
	    like->function && like->object ? xp_report_row(making->table, &making->index, like) : NULL;
	bool is_new;

	if (!row)
		return -ENOMEM;
	is_new = row->seen != chain->number;
	row->seen = chain->number;
	if (making->is_calls) {
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
	uint32_t location;
	int64_t value;
	int err = 0;

	xp_pprof_parts_start(&parts, making->profile, index);
	for (size_t i = 0; xp_pprof_values_next(&parts, &value); i++) {
		if (i == making->count_index)
			chain.count = value > 0 ? (uint64_t)value : 0;
		if (i == making->ns_index)
			chain.ns = value > 0 ? (uint64_t)value : 0;
	}
	if (making->is_calls)
		making->table->calls += chain.count;
	else
		making->table->samples += chain.count;
	xp_pprof_parts_start(&parts, making->profile, index);
	while (!err && xp_pprof_locations_next(&parts, &location))
		err = count_location(making, &chain, &making->profile->locations[location]);
	return err;
}

/* ---- the table ---- */

/* Which values are counted. Returns false if none is. */
static bool choose_values(struct making *making)
{
	const struct xp_pprof_profile *profile = making->profile;

	making->count_index = making->ns_index = profile->type_count;
	for (size_t i = profile->type_count; i; i--) {
		const struct xp_pprof_type *type = &profile->types[i - 1];

		if (is_text(making, type->unit_text, "count"))
			making->count_index = i - 1;
		else if (is_text(making, type->unit_text, "nanoseconds"))
			making->ns_index = i - 1;
	}
	if (making->count_index == profile->type_count)
		return false;
	making->is_calls = is_text(making, profile->types[making->count_index].type_text, "calls");
	return true;
}

static int make_table(struct making *making, const char *path)
{
	const struct xp_pprof_profile *profile = making->profile;
	int err = 0;

	if (!choose_values(making)) {
		xp_error("%s: it has no value that counts something", path);
		return -EBADMSG;
	}
	making->table->has_calls = making->is_calls;
	making->table->has_samples = !making->is_calls;
	if (is_text(making, profile->period_type.unit_text, "nanoseconds") && profile->period > 0)
		making->table->period_us = ((uint64_t)profile->period + 500) / 1000;
	making->texts = calloc(profile->text_count, sizeof(*making->texts));
	if (!making->texts)
		return -ENOMEM;
	for (size_t i = 0; !err && i < profile->sample_count; i++)
		err = count_sample(making, i);
	making->table->sampled_ns = making->table->samples * making->table->period_us * 1000;
	xp_report_row_index_free(&making->index);
	free(making->texts);
	return err;
}

/* Returns 0 and the whole profile, or an error, after a message if the file is malformed. */
static int read_profile(struct xp_pprof_profile *profile, const char *path)
{
	struct xp_violation violation;
	struct xp_file_view view;
	int err = xp_file_view_open(&view, AT_FDCWD, path);

	if (err)
		return err;
	err = xp_pprof_read(profile, view.bytes, view.size, &violation);
	xp_file_view_close(&view);
	if (err == -EBADMSG)
		xp_error("%s: 0x%" PRIx64 ": %s", path, violation.offset, violation.text);
	return err;
}

bool xp_report_is_pprof(const char *path)
{
	struct xp_file_view view;
	bool is_one;

	if (xp_file_view_open(&view, AT_FDCWD, path))
		return false;
	is_one = xp_pprof_probe(view.bytes, view.size);
	xp_file_view_close(&view);
	return is_one;
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
	making.table = tables->tables;
	err = read_profile(&profile, path);
	if (!err)
		err = make_table(&making, path);
	xp_pprof_profile_free(&profile);
	return err;
}
