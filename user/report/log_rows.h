/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of FDR logs for the tables of a report: what `llvm-xray account` counts, in one pass over each log.
 *
 * Memory: that of log_walk.h, about 100 bytes for each function, and durations as durations.h says, up to fixed limits.
 * Calls beyond these are counted but not timed.
 */
#ifndef XPROF_REPORT_LOG_ROWS_H
#define XPROF_REPORT_LOG_ROWS_H

#include "model/log_functions.h"
#include "report/groups.h"

struct xp_report_call_sum;

/* Zeroed: none. */
struct xp_report_logs {
	/* private */
	struct xp_report_groups *groups;
	struct xp_log_functions functions;
	struct xp_report_log *of; /* each process of the recording */
	struct xp_report_call_sum *sums;
	size_t count, room;
};

/*
 * Reads the logs of the processes that are `wanted`, and finds the names of their functions. A malformed log is
 * reported, what precedes that counts, and *broken is set. Returns 0, -ENOMEM or -EAGAIN. The caller calls
 * xp_report_logs_free(), also after an error.
 */
int xp_report_logs_read(struct xp_report_logs *logs, struct xp_report_groups *groups,
			const struct xp_model_source *source, const bool *wanted, bool *broken);
/* Counts the calls in the rows. Moves the durations to the rows. Returns 0 or -ENOMEM. */
int xp_report_logs_count(struct xp_report_logs *logs);
void xp_report_logs_free(struct xp_report_logs *logs);

#endif
