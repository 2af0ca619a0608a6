/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of a report as text. */
#ifndef XPROF_REPORT_PRINT_H
#define XPROF_REPORT_PRINT_H

#include <stdio.h>

#include "report/report.h"

struct xp_report_style {
	bool colour;
	bool full_names;      /* not as xp_short_name() makes them */
	unsigned int columns; /* of the terminal: longer names are cut; 0: they are not */
	uint64_t limit;	      /* rows of a table */
	enum xp_report_sort sort;
};

/* Sorts the tables' rows. What cannot be written is seen in ferror(out). */
void xp_report_print(FILE *out, struct xp_report_tables *tables, const struct xp_recorded *recorded,
		     const struct xp_report_style *style);

#endif
