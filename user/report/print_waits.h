/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints how threads spent their time, and where they waited. */
#ifndef XPROF_REPORT_PRINT_WAITS_H
#define XPROF_REPORT_PRINT_WAITS_H

#include "report/report_print.h"

/* "6 threads: 136 ms on a CPU, 612 ms runnable, 16.2 s blocked"; nothing if nothing is known of waits. */
void xp_report_print_account(FILE *out, const struct xp_report_table *table);

/* Prints one line about waits that are not in the tables (too short, or lost), or nothing. */
void xp_report_print_waits_left_out(FILE *out, const struct xp_report_tables *tables);

/* The places where the threads of a table waited, after its functions. Nothing if there are none. */
void xp_report_print_waits(FILE *out, const struct xp_report_tables *tables, const struct xp_report_table *table,
			   const struct xp_report_style *style);

#endif
