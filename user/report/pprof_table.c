// SPDX-License-Identifier: BSD-2-Clause
#include "report/pprof_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "model/pprof.h"
#include "report/rows.h"

static int make_table(struct xp_report_tables *tables, const struct xp_model *model, const char *path,
		      const struct xp_report_options *options)
{
	struct xp_report_table *table = tables->tables;
	struct xp_report_row_index index = { 0 };
	const struct xp_report_place place = { table, &index };
	const char *slash = strrchr(path, '/');
	uint64_t totals[2];
	int err = 0;

	table->name = xp_symbolizer_text(model->symbolizer, slash && slash[1] ? slash + 1 : path);
	if (!table->name)
		return -ENOMEM;
	table->has_calls = model->kind == XP_MODEL_CALLS;
	table->has_samples = !table->has_calls;
	table->period_us = (model->period_ns + 500) / 1000;
	xp_model_totals(model, totals);
	*(table->has_calls ? &table->calls : &table->samples) = totals[0];
	table->sampled_ns = xp_scale(table->samples, table->period_us * 1000, 1);
	for (size_t i = 0; !err && i < model->sample_count; i++)
		err = xp_report_count_stack(tables, &place, model, &model->samples[i], i + 1, options);
	xp_report_row_index_free(&index);
	xp_report_warn_of_others(tables);
	return err;
}

int xp_report_read_pprof(struct xp_report_tables *tables, const char *path, const struct xp_report_options *options)
{
	const struct xp_select all = { 0 };
	struct xp_model model;
	int err = xp_model_read_pprof(&model, path, &all);

	/* Names outlive the model. */
	tables->symbolizer = model.symbolizer;
	tables->by = XP_MODEL_BY_NONE;
	tables->tables = calloc(1, sizeof(*tables->tables));
	tables->count = tables->tables ? 1 : 0;
	if (!err)
		err = tables->tables ? make_table(tables, &model, path, options) : -ENOMEM;
	if (!err && model.dropped)
		xp_warn("%s: %" PRIu64 " samples are missing: it has too many different stacks", path, model.dropped);
	model.symbolizer = NULL;
	xp_model_free(&model);
	return err;
}
