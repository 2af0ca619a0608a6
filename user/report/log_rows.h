/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the calls in FDR logs for the tables of a report: the numbers of `llvm-xray account`, in one pass over each
 * log.
 *
 * Memory use has fixed limits: those of log_walk.h and durations.h, and about 100 bytes per function. Calls beyond
 * these limits are counted but not timed.
 */
#ifndef XPROF_REPORT_LOG_ROWS_H
#define XPROF_REPORT_LOG_ROWS_H

#include "model/log_functions.h"
#include "report/groups.h"

struct xp_report_call_sum;

/* Empty if zeroed. */
struct xp_report_logs {
	/* private */
	struct xp_report_groups *groups;
	struct xp_log_functions functions;
	struct xp_report_log *of; /* the log of each process of the recording */
	struct xp_report_call_sum *sums;
	size_t count, room;
};

/*
 * Reads the logs of the processes in `wanted`, of the selected times of each directory (NULL: all), and finds the names
 * of their functions. For a malformed log, prints an error, keeps the records before the malformed one, and sets
 * *broken. Returns 0, -ENOMEM or -EAGAIN. The caller calls xp_report_logs_free(), also after an error.
 */
int xp_report_logs_read(struct xp_report_logs *logs, struct xp_report_groups *groups,
			const struct xp_model_source *source, const struct xp_select *times, const bool *wanted,
			bool *broken);
/* Adds the calls to the rows, and moves the durations to the rows. Returns 0 or -ENOMEM. */
int xp_report_logs_count(struct xp_report_logs *logs);
void xp_report_logs_free(struct xp_report_logs *logs);

#endif
