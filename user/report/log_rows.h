/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of FDR logs for the tables of a report. */
#ifndef XPROF_REPORT_LOG_ROWS_H
#define XPROF_REPORT_LOG_ROWS_H

#include "model/fdr_calls.h"
#include "model/objects.h"
#include "report/groups.h"

/* Those of one process of the recording. Zeroed: none. */
struct xp_report_log {
	bool has_log;
	struct xp_call_log calls;
	struct xp_report_functions functions;
};

/*
 * Reads the log of the process and requests the names of its functions. objects: of its profile. A malformed log is
 * reported, what precedes that counts, and *broken is set. Returns 0 or -ENOMEM. The caller frees it.
 */
int xp_report_log_read(struct xp_report_log *log, struct xp_report_groups *groups, size_t process,
		       const char *instr_map, bool *broken);
/* Counts the calls, after names are known. Moves the durations to the rows. Returns 0 or -ENOMEM. */
int xp_report_log_count(struct xp_report_log *log, struct xp_report_groups *groups, size_t process);
void xp_report_log_free(struct xp_report_log *log);

#endif
