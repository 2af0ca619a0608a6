/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints the times of threads on and off CPU, and where threads waited. */
#ifndef XPROF_REPORT_PRINT_WAITS_H
#define XPROF_REPORT_PRINT_WAITS_H

#include "report/report_print.h"

/* Prints "6 threads: 136 ms on a CPU, 612 ms runnable, 16.2 s blocked". Prints nothing if waits were not recorded. */
void xp_report_print_account(FILE *out, const struct xp_report_table *table);

/* Prints one line about waits that are not in the tables (too short, or lost), or nothing. */
void xp_report_print_waits_left_out(FILE *out, const struct xp_report_tables *tables);

/* Prints where the threads of a table waited. Prints nothing if there are no waits. */
void xp_report_print_waits(FILE *out, const struct xp_report_tables *tables, const struct xp_report_table *table,
			   const struct xp_report_style *style);

#endif
