/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes a table of functions from one of pprof's own profiles: of `xprof export --pprof`, or of another program. */
#ifndef XPROF_REPORT_PPROF_TABLE_H
#define XPROF_REPORT_PPROF_TABLE_H

#include "report/report.h"

/*
 * Makes one table. Samples and calls are counted by the profile's value with the unit "count"; the time of calls by the
 * one in nanoseconds. Returns 0 or -errno: -EBADMSG if the file is malformed or has no such value (already reported),
 * -ENOMEM, or an error of open(2). The caller frees the tables with xp_report_free(), also after an error.
 */
int xp_report_read_pprof(struct xp_report_tables *tables, const char *path, const struct xp_report_options *options);

#endif
