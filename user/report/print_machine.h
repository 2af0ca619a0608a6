/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints what a report of a whole machine begins with. */
#ifndef XPROF_REPORT_PRINT_MACHINE_H
#define XPROF_REPORT_PRINT_MACHINE_H

#include "report/print.h"

/* Whether it is one: all CPUs were sampled, or there are so many processes that a list of them says little. */
bool xp_report_is_machine(const struct xp_report_tables *tables);

void xp_report_print_machine(FILE *out, const struct xp_report_tables *tables, const struct xp_report_style *style);

#endif
