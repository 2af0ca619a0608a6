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
	struct xp_hash rows;	       /* rows by function, object, file and line */
	struct xp_u64_map by_function; /* the first row with a name */
};

/* A table and its index. */
struct xp_report_place {
	struct xp_report_table *table;
	struct xp_report_row_index *index;
};

/*
 * Limit for the rows of all tables except tables->all: each thread can have a row for each function of a recording.
 * When the limit is reached, each table gets one row for all other functions. A row needs 180 bytes.
 */
#define XP_REPORT_ROWS_MAX (1u << 20)

/*
 * Returns the row with the same function, object, file and line as `like`. Adds a copy of `like` if the row is missing
 * or, beyond the limit, returns the row of all other functions. Strings are interned: equal strings have one address.
 * Returns NULL if out of memory. The row is valid until the next row is added.
 */
struct xp_report_row *xp_report_row(struct xp_report_tables *tables, const struct xp_report_place *place,
				    const struct xp_report_row *like);
/* Prints a warning if there are rows for all other functions. */
void xp_report_warn_of_others(const struct xp_report_tables *tables);
/* Returns the first row with this function in any object, or NULL. */
struct xp_report_row *xp_report_row_named(struct xp_report_table *table, const struct xp_report_row_index *index,
					  const char *function);

/*
 * Adds a sample of the model, or the calls of a stack, to the rows of its functions. number: different for each sample,
 * and not 0. Returns 0 or -ENOMEM.
 */
int xp_report_count_stack(struct xp_report_tables *tables, const struct xp_report_place *place,
			  const struct xp_model *model, const struct xp_model_sample *sample, uint64_t number,
			  const struct xp_report_options *options);

void xp_report_row_index_free(struct xp_report_row_index *index);

#endif
