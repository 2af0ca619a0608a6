/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of a table of functions while they are counted, and their order. */
#ifndef XPROF_REPORT_ROWS_H
#define XPROF_REPORT_ROWS_H

#include "base/hash.h"
#include "base/u64_map.h"
#include "model/model.h"
#include "report/report.h"

/* An index of the rows of one table. Empty if zeroed. */
struct xp_report_row_index {
	size_t room;
	struct xp_hash rows;	       /* by the members that distinguish rows */
	struct xp_u64_map by_function; /* the first row with a name */
};

/* A table to count in. */
struct xp_report_place {
	struct xp_report_table *table;
	struct xp_report_row_index *index;
};

/*
 * Each thread may have a row of its own for all functions of a recording: beyond this number of rows, that of the table
 * of all aside, tables have one row for all further functions. A row takes 180 bytes.
 */
#define XP_REPORT_ROWS_MAX (1u << 20)

/*
 * Finds the row with this function, object, file and line, or adds a copy of it; beyond the limit it is the table's row
 * of all others. All texts are from one pool, where equal ones have one address. Returns NULL if out of memory. Valid
 * until the next row is added.
 */
struct xp_report_row *xp_report_row(struct xp_report_tables *tables, const struct xp_report_place *place,
				    const struct xp_report_row *like);
/* Tells how much is in the rows of other functions, if anything is. */
void xp_report_warn_of_others(const struct xp_report_tables *tables);
/* Returns the first row with this function in any object, or NULL. */
struct xp_report_row *xp_report_row_named(struct xp_report_table *table, const struct xp_report_row_index *index,
					  const char *function);

/*
 * Counts a sample of the model in the rows of its functions, or the calls of one that has calls. number: different for
 * each sample, and not 0. Returns 0 or -ENOMEM.
 */
int xp_report_count_stack(struct xp_report_tables *tables, const struct xp_report_place *place,
			  const struct xp_model *model, const struct xp_model_sample *sample, uint64_t number,
			  const struct xp_report_options *options);

void xp_report_row_index_free(struct xp_report_row_index *index);

#endif
