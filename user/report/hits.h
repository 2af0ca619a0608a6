/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of the hits of USDT probes: a row for each group and probe. */
#ifndef XPROF_REPORT_HITS_H
#define XPROF_REPORT_HITS_H

#include "report/groups.h"
#include "report/report_print.h"

/* Makes the rows of tables->hits. Adds tables for groups that have only hits. Returns 0 or -ENOMEM. */
int xp_report_hits_make(struct xp_report_groups *groups);
/* group: the title of the column of groups. */
void xp_report_hits_print(FILE *out, const struct xp_report_tables *tables, const char *group,
			  const struct xp_report_style *style);

#endif
