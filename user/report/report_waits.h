/* SPDX-License-Identifier: BSD-2-Clause */
/* Puts the waits of a recording (record --off-cpu) into the tables of a report. */
#ifndef XPROF_REPORT_REPORT_WAITS_H
#define XPROF_REPORT_REPORT_WAITS_H

#include "report/groups.h"

/* Determines whether the recording has waits, before the model is read. Prints a message if they have no stacks. */
void xp_report_waits_look(struct xp_report_tables *tables, const struct xp_facts *facts, bool has_perf);
/* Puts what was read into tables, after samples and calls. Tables are added for threads that only waited. */
int xp_report_waits_count(struct xp_report_groups *groups, const struct xp_facts *facts);

#endif
