/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints the tables of a report as text. */
#ifndef XPROF_REPORT_REPORT_PRINT_H
#define XPROF_REPORT_REPORT_PRINT_H

#include <stdio.h>

#include "report/report.h"

struct xp_report_style {
	bool colour;
	bool full_names;      /* instead of names shortened by xp_short_name() */
	unsigned int columns; /* columns of the terminal, to which names are shortened; 0: no limit */
	uint64_t limit;	      /* rows per table */
	enum xp_report_sort sort;
};

/* Sorts the rows of the tables, and prints them. ferror(out) reports errors. */
void xp_report_print(FILE *out, struct xp_report_tables *tables, const struct xp_recorded *recorded,
		     const struct xp_report_style *style);

#endif
