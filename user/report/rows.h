/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of a table of functions while they are counted, and their order. */
#ifndef XPROF_REPORT_ROWS_H
#define XPROF_REPORT_ROWS_H

#include "base/hash.h"
#include "base/u64_map.h"
#include "report/report.h"

/* What finds the rows of one table. Zeroed: it has none. */
struct xp_report_row_index {
	size_t room;
	struct xp_hash rows;	       /* by the members that distinguish rows */
	struct xp_u64_map by_function; /* the first row with a name */
};

/*
 * Finds the row with this function, object, file and line, or adds a copy of it. All texts are from one pool, where
 * equal ones have one address. Returns NULL if out of memory. Valid until the next row is added.
 */
struct xp_report_row *xp_report_row(struct xp_report_table *table, struct xp_report_row_index *index,
				    const struct xp_report_row *like);
/* The first row with this function, in whatever object. NULL: none. */
struct xp_report_row *xp_report_row_named(struct xp_report_table *table, const struct xp_report_row_index *index,
					  const char *function);
void xp_report_row_index_free(struct xp_report_row_index *index);

#endif
