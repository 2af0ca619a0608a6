// SPDX-License-Identifier: BSD-2-Clause
#include "report/hits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "report/print_text.h"

static int by_place(const void *a, const void *b)
{
	const struct xp_report_hits *x = a, *y = b;

	return strcmp(x->group, y->group) ?: strcmp(x->probe, y->probe);
}

static int by_hits(const void *a, const void *b)
{
	const struct xp_report_hits *x = a, *y = b;

	return xp_compare(y->hits, x->hits) ?: by_place(a, b);
}

static int add_hit(struct xp_report_groups *groups, const struct xp_model_hit *hit)
{
	struct xp_report_tables *tables = groups->tables;
	const struct xp_model_thread *thread = &tables->model.threads[hit->thread];
	size_t table;
	int err = tables->by == XP_MODEL_BY_CPU
		      ? xp_report_groups_cpu(groups, hit->cpu, &table)
		      : xp_report_groups_model(groups, &tables->model.processes[thread->process], thread->tid,
					       thread->name, &table);

	if (!err)
		tables->hits[tables->hit_count++] =
		    (struct xp_report_hits){ tables->tables[table].name, hit->probe, hit->count };
	return err;
}

int xp_report_hits_make(struct xp_report_groups *groups)
{
	struct xp_report_tables *tables = groups->tables;
	const struct xp_model *model = &tables->model;
	size_t kept = 0;
	int err = 0;

	if (!model->hit_count)
		return 0;
	tables->hits = calloc(model->hit_count, sizeof(*tables->hits));
	if (!tables->hits)
		return -ENOMEM;
	for (size_t i = 0; !err && i < model->hit_count; i++)
		err = add_hit(groups, &model->hits[i]);
	qsort(tables->hits, tables->hit_count, sizeof(*tables->hits), by_place);
	for (size_t i = 0; i < tables->hit_count; i++) {
		if (kept && !by_place(&tables->hits[kept - 1], &tables->hits[i]))
			tables->hits[kept - 1].hits += tables->hits[i].hits;
		else
			tables->hits[kept++] = tables->hits[i];
	}
	tables->hit_count = kept;
	qsort(tables->hits, kept, sizeof(*tables->hits), by_hits);
	return err;
}

void xp_report_hits_print(FILE *out, const struct xp_report_tables *tables, const char *group,
			  const struct xp_report_style *style)
{
	size_t rows = (size_t)XP_MIN((uint64_t)tables->hit_count, style->limit);
	bool has_groups = tables->by != XP_MODEL_BY_NONE;
	int columns = (int)strlen("USDT probe");

	for (size_t i = 0; i < rows; i++)
		columns = XP_MAX(columns, xp_text_columns(tables->hits[i].probe));
	xp_colour_start(out, style->colour, XP_COLOUR_BOLD);
	xp_put(out, "%9s  %-*s%s", "Hits", has_groups ? columns + 2 : 0, "USDT probe", has_groups ? group : "");
	xp_colour_end(out, style->colour, XP_COLOUR_BOLD);
	fputc('\n', out);
	for (size_t i = 0; i < rows; i++) {
		const struct xp_report_hits *row = &tables->hits[i];

		xp_put(out, "%9" PRIu64 "  %s", row->hits, row->probe);
		if (has_groups)
			xp_put(out, "%*s%s", columns + 2 - xp_text_columns(row->probe), "", row->group);
		fputc('\n', out);
	}
	if (rows < tables->hit_count)
		xp_put_line(out, "... and %zu more", tables->hit_count - rows);
}
