/* SPDX-License-Identifier: BSD-2-Clause */
/* Puts the waits of a recording (record --off-cpu) into the tables of a report. */
#ifndef XPROF_REPORT_REPORT_WAITS_H
#define XPROF_REPORT_REPORT_WAITS_H

#include "report/groups.h"

/*
 * Reads them. source: of one directory. Without waits, or without perf.data, which is reported, nothing is read.
 * *broken: a part is malformed. Returns 0 or -errno as xp_model_read_samples().
 */
int xp_report_waits_read(struct xp_report_tables *tables, const struct xp_model_source *source, bool *broken);
/* Puts what was read into tables, after samples and calls. Tables are added for threads that only waited. */
int xp_report_waits_count(struct xp_report_groups *groups, const struct xp_facts *facts);

#endif
